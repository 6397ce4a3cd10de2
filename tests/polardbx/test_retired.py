"""A node that leaves, and whose log ends before the cluster says so."""

import json
from pathlib import Path

import pytest

from binlog_merge.errors import MarkerIncomplete
from tests.merge_e2e.editing import assert_prefix
from tests.merge_e2e.local import merge, written
from tests.polardbx.steps import Values, Write
from tests.polardbx.test_faults import MADE, TABLE, Made, made, table_meta
from tests.polardbx.test_heartbeats import beat
from tests.polardbx.write import ends

__all__ = ["made"]

STAYS = "dn-1"


def tell(made: Made, nodes: list[str], told: list[str]) -> None:
    """Say which nodes there are from now on."""
    values: Values = {
        "ID": 1, "INSTRUCTION_TYPE": "StorageInstChange", "GMT_CREATED": MADE, "INSTRUCTION_ID": "i",
        "INSTRUCTION_CONTENT": json.dumps({"storageInstList": nodes}),
    }  # fmt: skip
    made.message("__cdc_instruction__", values, told)


def insert(made: Made, number: int) -> None:
    made.everywhere({STAYS: [Write("d_0", "t_x", TABLE, None, {"id": number, "v": 1})]})


def leaving(made: Made) -> dict[str, int]:
    """Let dn-2 lose its tables, then its place in the cluster; returns how many steps there were at each moment."""
    made.rows(2)
    at = {"rows": len(made.steps)}
    made.marker("ALTER TABLE t MOVE PARTITIONS p1 TO 'dn-1'", table_meta(physical="t_x"), VISIBILITY=0)
    at["moved"] = len(made.steps)
    beat(made)
    at["beat"] = len(made.steps)
    insert(made, 100)
    made.marker("ALTER TABLE t COMMENT = 'x'", nodes=[STAYS], JOB_ID=8)
    tell(made, [STAYS], [STAYS])
    insert(made, 101)
    made.marker("ALTER TABLE t COMMENT = 'y'", nodes=[STAYS], JOB_ID=9)
    insert(made, 102)
    return at


def save(made: Made, folder: Path, count: int) -> Path:
    """Write the history with dn-2's log as far as its first steps; returns the configuration."""
    config = made.save(folder)
    for path in (folder / "dn-2").iterdir():
        data = path.read_bytes()
        left = sum(step.node != STAYS for step in made.steps[count:])
        path.write_bytes(data[: ends(data)[-1 - left]])
    return config


@pytest.mark.parametrize("moment", ["moved", "beat"])
def test_it_holds_back_nothing_once_its_tables_are_gone(made: Made, moment: str, tmp_path: Path) -> None:
    config = save(made, tmp_path, leaving(made)[moment])
    growing = merge(config, tmp_path / "growing", end_of_input=False)
    assert (growing.transactions, growing.ddl, growing.held, growing.held_back_by) == (7, 2, 0, None)
    whole = merge(config, tmp_path / "whole")
    assert (whole.transactions, whole.warnings) == (7, ())
    assert written(tmp_path / "growing") == written(tmp_path / "whole")


def test_while_it_has_tables_it_holds_back(made: Made, tmp_path: Path) -> None:
    """Rows may be missing: nobody knows but who has the rest of the log."""
    config = save(made, tmp_path, leaving(made)["rows"])
    result = merge(config, tmp_path / "out", end_of_input=False)
    assert (result.transactions, result.held_back_by) == (2, "dn-2") and result.held
    with pytest.raises(MarkerIncomplete, match="dn-2"):
        merge(config, tmp_path / "ended")
    assert_prefix(written(tmp_path / "out"), written(tmp_path / "ended"))
    assert merge(made.save(tmp_path), tmp_path / "out", end_of_input=False).transactions == 5


def test_what_comes_later_of_its_log_changes_nothing(made: Made, tmp_path: Path) -> None:
    merge(save(made, tmp_path, leaving(made)["moved"]), tmp_path / "out", end_of_input=False)
    result = merge(made.save(tmp_path), tmp_path / "out")
    assert (result.transactions, result.warnings) == (0, ())
    merge(made.save(tmp_path), tmp_path / "whole")
    assert written(tmp_path / "out") == written(tmp_path / "whole")


def test_a_node_that_the_cluster_keeps_holds_back_as_ever(made: Made, tmp_path: Path) -> None:
    moved = leaving(made)["moved"]
    tell(made, [STAYS, "dn-2"], [STAYS])
    result = merge(save(made, tmp_path, moved), tmp_path / "out", end_of_input=False)
    assert result.transactions == 2 and result.held_back_by == "dn-2"
