"""A table that a warning has named is named again when it is renamed later, in the same run or in one of the next."""

from pathlib import Path

import pytest

from tests.merge_e2e.local import merge
from tests.merge_e2e.shards.stage import Played, Route, Stage, rows_of

pytestmark = [pytest.mark.mysql]

ROUTE = Route("d_n?", "t?", ("d", "t"))


def played(stage: Stage) -> list[Played]:
    """A shard that leaves its route is warned of; its table of its own is renamed in the second file."""
    stage.clear()
    with stage.scene("leaves", [ROUTE]) as (nodes, files):
        for node in nodes:
            nodes[node].run(f"CREATE DATABASE d_{node}")
            nodes[node].run(f"CREATE TABLE d_{node}.t1 (id INT PRIMARY KEY)")
            nodes[node].run(f"INSERT INTO d_{node}.t1 VALUES ({node[1]})")
        nodes["n1"].run("RENAME TABLE d_n1.t1 TO d_n1.away")
        nodes["n1"].run("INSERT INTO d_n1.away VALUES (10)")
    first = files
    with stage.scene("renamed", [ROUTE]) as (nodes, files):
        nodes["n1"].run("RENAME TABLE d_n1.away TO d_n1.further")
        nodes["n1"].run("INSERT INTO d_n1.further VALUES (11)")
        nodes["n2"].run("INSERT INTO d_n2.t1 VALUES (12)")
    return [*first, *files]


def told(warnings: tuple[str, ...]) -> list[str]:
    return [warning for warning in warnings if "what was said of" in warning]


@pytest.mark.parametrize("mode", ["pessimistic", "optimistic"])
def test_a_table_in_doubt_is_renamed(stage: Stage, mode: str) -> None:
    one, other = played(stage)
    path = stage.configuration(f"doubted-{mode}", [one, other], mode, routed=[one])
    (warning,) = told(merge(path, path.parent / "out").warnings)
    assert "rows of d_n1.away are in d_n1.further" in warning and Path(one.files["n1"]).name in warning
    assert Path(other.files["n1"]).name in warning  # where it is renamed
    stage.target.drop_databases()
    stage.carry_out(path.parent / "out")
    assert rows_of(stage.target, ("d_n1", "further"), ["id"]) == [("10",), ("11",)]  # and 1 is on the node

    steps = stage.configuration(f"doubted-{mode}-in-two-runs", [one], mode)
    assert told(merge(steps, steps.parent / "out").warnings) == []
    stage.configuration(f"doubted-{mode}-in-two-runs", [one, other], mode, routed=[one])
    assert told(merge(steps, steps.parent / "out").warnings) == [warning.replace(str(path.parent), str(steps.parent))]
