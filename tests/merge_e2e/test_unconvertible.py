"""Values that the old type cannot hold: the merge stops at them, or does as it is told."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.errors import ConversionFailed, UnsupportedInput
from tests.merge_e2e.cases import case_named, copy_case, whole
from tests.merge_e2e.editing import assert_prefix
from tests.merge_e2e.local import merge, written

CASE = case_named("reshape-clamp")


def policy(word: str) -> Callable[[dict[str, Any]], None]:
    def change(values: dict[str, Any]) -> None:
        values["reshape"]["on-unconvertible"] = word

    return change


def test_a_merge_that_stopped_goes_on_when_told_what_to_write(tmp_path: Path) -> None:
    config = copy_case(CASE, tmp_path / "case", policy("error"))
    with pytest.raises(ConversionFailed) as caught:
        merge(config, tmp_path / "out")
    error = caught.value
    assert error.exit_code == 32
    assert error.message == "d1_1.t1_2: column c1, int to tinyint: -2147483648 is out of the range of tinyint"
    assert (error.node, Path(error.file or "").name) == ("dn-2", "binlog.000001")
    assert error.position and error.order_key
    assert "reshape.on-unconvertible" in (error.remedy or "")
    stopped = written(tmp_path / "out")
    assert stopped
    assert_prefix(stopped, whole(CASE / "cluster.yaml"))
    config.write_text(config.read_text().replace("on-unconvertible: error", "on-unconvertible: clamp"))
    merge(config, tmp_path / "out")
    assert written(tmp_path / "out") == whole(CASE / "cluster.yaml")


def test_the_default_in_their_place(tmp_path: Path) -> None:
    merge(copy_case(CASE, tmp_path / "case", policy("default")), tmp_path / "out")
    assert written(tmp_path / "out") != whole(CASE / "cluster.yaml")


def test_a_default_that_is_another_each_time_stops_the_merge(tmp_path: Path) -> None:
    config = copy_case(case_named("reshape-pads"), tmp_path / "case")
    base = config.parent / "base" / "logical.sql"
    text = base.read_text()
    assert "DEFAULT ((1 + (2 * 3)))" in text
    base.write_text(text.replace("DEFAULT ((1 + (2 * 3)))", "DEFAULT (floor(rand()))"))
    with pytest.raises(UnsupportedInput, match=r"column c20 .* rand\(\) gives another value each time") as caught:
        merge(config, tmp_path / "out")
    assert caught.value.position and "literal default" in (caught.value.remedy or "")
