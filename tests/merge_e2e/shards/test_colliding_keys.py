"""Keys that shards gave out independently, each remedy to its end: the target and DuckDB hold what the shards do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest

from binlog_merge.cli import main as cli
from binlog_merge.pipeline.result import MergeResult
from tests.merge_e2e.local import merge, written
from tests.merge_e2e.shards.stage import Name, Route, Stage, create_of, databases, quoted

pytestmark = [pytest.mark.mysql]

MODES = ("pessimistic", "optimistic")


@dataclass(frozen=True)
class Case:
    """Statements in turn, each for a node ("*": for all, one after the other), and the routes of its tables."""

    name: str
    story: Sequence[tuple[str, str]]
    routes: tuple[Route, ...]
    sections: Mapping[str, Any] = field(default_factory=dict)


def play(stage: Stage, case: Case, mode: str) -> tuple[MergeResult, Path]:
    """Play a case on the nodes, merge it and carry it out on the target and in DuckDB; returns result and output."""
    stage.clear()
    with stage.scene(case.name, case.routes) as (nodes, played):
        for node, sql in case.story:
            for name in nodes if node == "*" else [node]:
                for statement in filter(None, map(str.strip, sql.split(";"))):
                    nodes[name].run(statement)
    path = stage.configuration(f"{case.name}-{mode}", played, mode, sections={"shard-doubts": "error", **case.sections})
    out = path.parent / "out"
    result = merge(path, out)
    merge(path, again := path.parent / "again", runner=None, partitions=3)
    assert written(again) == written(out)
    stage.carry_out(out)
    assert cli.run(["replay", "--merged", str(out), "--to", f"duckdb://{out.parent}/copy.db"]) == 0
    return result, out


def in_duckdb(out: Path, name: Name) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(out.parent / "copy.db"), read_only=True) as file:
        return sorted(file.execute(f'SELECT * FROM "{name[0]}"."{name[1]}"').fetchall())


def on_target(stage: Stage, name: Name) -> list[tuple[Any, ...]]:
    return sorted(stage.target.query(f"SELECT * FROM {quoted(name)}"))


@pytest.mark.parametrize("mode", MODES)
def test_equal_names_become_tables_of_their_own(mode: str, stage: Stage) -> None:
    create = (
        "CREATE DATABASE k; CREATE TABLE k.t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(9) UNIQUE); "
        "INSERT INTO k.t (v) VALUES ('a'), ('b')"
    )
    story = [
        ("*", create),
        ("n2", "ALTER TABLE k.t ADD COLUMN w INT NOT NULL DEFAULT 7"),  # n1's is another table: nothing waits
        ("n2", "INSERT INTO k.t (v, w) VALUES ('c', 8); UPDATE k.t SET v = 'B' WHERE id = 2"),
        ("n1", "DELETE FROM k.t WHERE id = 1; INSERT INTO k.t (v) VALUES ('c')"),
    ]
    case = Case("apart", story, (Route("k", "t", ("k", "t_2"), source="n2"),))
    _, out = play(stage, case, mode)
    for node, table in (("n1", "t"), ("n2", "t_2")):
        rows = sorted(stage.nodes[node].query("SELECT * FROM k.t"))
        assert on_target(stage, ("k", table)) == in_duckdb(out, ("k", table)) == rows
        assert create_of(stage.target, ("k", table)) == create_of(stage.nodes[node], ("k", "t"))
    assert databases(stage.target) == ["k"]
