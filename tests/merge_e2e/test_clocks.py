"""The nodes' clocks for a carrier: real binlogs and made-up ones, in any runs; clocks that step back."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from binlog_merge.errors import ClockStep
from binlog_merge.pipeline.base.clock import time_tso, tso_us
from tests.effort import effort, keeping
from tests.merge_e2e.cases import case_named, copy_case
from tests.merge_e2e.local import merge, written
from tests.merge_e2e.simulator import Simulator, Style
from tests.oracle import merge_case

STEADY = Style(nodes=2, steps=60, carrier="gtid-time")


def _by_time(values: dict[str, Any]) -> None:
    values["commit-tso"] = {"carrier": "gtid-time"}


def _configured(config: Path, **values: Any) -> Path:
    document = yaml.safe_load(config.read_text())
    document["commit-tso"] |= values
    config.write_text(yaml.safe_dump(document))
    return config


# Cases of real servers whose markers, which need a commit TSO, are none.
@pytest.mark.parametrize(
    "name",
    keeping(
        ["administration", "in-doubt", "three-nodes-commit-order"],
        ["two-nodes", "administration", "equal-tso", "idle-node", "in-doubt", "three-nodes-commit-order"],
    ),
)
def test_real_binlogs(name: str, tmp_path: Path) -> None:
    config = copy_case(case_named(name), tmp_path / "case", _by_time)
    expected = merge_case(config)
    result = merge(config, tmp_path / "out")
    assert written(tmp_path / "out") == expected.files
    assert (result.carrier, result.transactions) == ("gtid-time", len(expected.transactions))


@pytest.mark.parametrize("seed", range(effort(2, 4)))
def test_steps_back_are_told_and_may_be_errors(seed: int, tmp_path: Path) -> None:
    config = Simulator(seed, STEADY).write(tmp_path)
    whole = merge(config, tmp_path / "out")
    assert [w for w in whole.warnings if "stepped back by" in w]
    assert not merge(_configured(config, **{"max-step-back": "1h"}), tmp_path / "calm").warnings
    _configured(config, **{"max-step-back": "3s", "on-step-back": "error"})
    with pytest.raises(ClockStep, match="stepped back by") as caught:
        merge(config, tmp_path / "strict")
    error = caught.value
    assert error.node in ("dn-1", "dn-2") and error.file is not None and error.position is not None
    assert error.order_key is not None and "max-step-back" in error.remedy
    with pytest.raises(ClockStep):  # and again, as long as nobody says that it may be
        merge(config, tmp_path / "strict", partitions=5)
    merge(_configured(config, **{"on-step-back": "warn"}), tmp_path / "strict")
    assert written(tmp_path / "strict") == written(tmp_path / "out")


def test_a_tso_of_a_time_says_that_time() -> None:
    for us in (0, 1, 999, 1000, 1_790_000_000_123_456):
        assert tso_us(time_tso(us)) == us
        assert time_tso(us) >> 22 == us // 1000
        assert time_tso(us) < time_tso(us + 1)
