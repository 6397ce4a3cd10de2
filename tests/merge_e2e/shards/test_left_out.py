"""Statements over tables that come out and tables of databases that are left out, on a real server.

What comes out is carried whole, whatever else the statement names; what does not come out is named in the result.
"""

import random
from pathlib import Path
from typing import Any

import pymysql
import pytest

from binlog_merge.cli import main
from binlog_merge.errors import MergeError, ShardDdlStopped, UnknownTableSchema
from binlog_merge.pipeline.values import MergeResult
from tests.effort import keeping
from tests.merge_e2e.local import merge
from tests.merge_e2e.shards.stage import Played, Session, Stage, rows_of, tables

pytestmark = [pytest.mark.mysql]

T = "(id INT PRIMARY KEY)"
OURS, LEFT_OUT = ("kept", "kept2"), ("idle", "idle2")
BEGIN = (
    *(f"CREATE DATABASE {name}" for name in (*OURS, *LEFT_OUT)),
    f"CREATE TABLE kept.x {T}",
    f"CREATE TABLE kept.y {T}",
    f"CREATE TABLE idle.z {T}",
    f"CREATE TABLE idle.w {T}",
    "INSERT INTO kept.x VALUES (1), (2)",
)


def played(stage: Stage, name: str, *statements: str) -> Played:
    """Run statements on the first node, in a log of their own."""
    stage.clear()
    with stage.scene(name, ()) as (sessions, found):
        for sql in (*BEGIN, *statements):
            sessions["n1"].run(sql)
    return found[0]


def configured(stage: Stage, one: Played, mode: str, **sections: Any) -> Path:
    return stage.configuration(f"{one.name}-{mode}", [one], mode, sections={"ignore-schemas": ["idle*"], **sections})


def check(stage: Stage, path: Path) -> MergeResult:
    """Merge; the target must hold the node's tables, but for those that are left out."""
    result = merge(path, path.parent / "out")
    stage.target.drop_databases()
    stage.carry_out(path.parent / "out")
    ours = [name for name in tables(stage.nodes["n1"]) if name[0] in OURS]
    assert [name for name in tables(stage.target) if name[0] != "binlog_merge"] == ours
    for name in ours:
        assert sorted(rows_of(stage.target, name, ["id"])) == sorted(rows_of(stage.nodes["n1"], name, ["id"]))
    return result


STATEMENTS = {
    "drop": ("DROP TABLE kept.x, idle.z",),
    "drop-turned": ("DROP TABLE idle.z, kept.x, idle.w, kept.y", f"CREATE TABLE kept.x {T}"),
    "drop-of-the-system": ("CREATE TABLE mysql.strange (a INT)", "DROP TABLE mysql.strange, kept.x"),
    "drop-if-exists": ("DROP TABLE IF EXISTS kept.x, idle.nobody, kept.nobody, idle.z",),
    "drop-views": (
        "CREATE VIEW kept.v AS SELECT 1", "CREATE VIEW idle.v AS SELECT 1", "DROP VIEW idle.v, kept.v",
        f"CREATE TABLE kept.v {T}",
    ),
    "rename": ("RENAME TABLE idle.z TO idle.q, kept.x TO kept.q", "INSERT INTO kept.q VALUES (7)"),
    "rename-in-turn": ("RENAME TABLE idle.z TO idle.t, idle.w TO idle.z, idle.t TO idle.w, kept.x TO kept.q",),
    "rename-out": ("RENAME TABLE kept.x TO idle.x, idle.z TO idle.q",),
    "out-and-dropped": (
        "RENAME TABLE kept.x TO idle.x", "DROP TABLE idle.x, kept.y", f"CREATE TABLE kept.x {T}",
        "RENAME TABLE kept.x TO idle.x",
    ),
    "out-and-dropped-with-its-database": (
        "RENAME TABLE kept.x TO idle.x", "DROP DATABASE idle", "CREATE DATABASE idle", "RENAME TABLE kept.y TO idle.x",
    ),
    "like": ("CREATE TABLE idle.l LIKE kept.x", "DROP TABLE idle.l", "CREATE TABLE idle.l LIKE kept.y"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("number", "name"), keeping([(i, name) for i, name in enumerate(STATEMENTS) if i % 2], enumerate(STATEMENTS))
)
def test_what_comes_out_is_carried(stage: Stage, number: int, name: str) -> None:
    one = played(stage, f"left-{name}", *STATEMENTS[name])
    result = check(stage, configured(stage, one, ("pessimistic", "optimistic")[number // 2 % 2]))
    told = {s["kind"] for s in result.ignored["statements"] if str(s["why"]).endswith("databases that do not come out")}
    assert {kind for kind in ("DROP TABLE", "RENAME TABLE") for sql in STATEMENTS[name] if sql.startswith(kind)} <= told


IN = {
    "rename": "RENAME TABLE idle.z TO kept.z",
    "by-another-name": "RENAME TABLE idle.z TO idle.t, idle.t TO kept.z",
    "alter": "ALTER TABLE idle.z RENAME TO kept.z",
    "swap": "RENAME TABLE kept.x TO idle.t, idle.z TO kept.x, idle.t TO idle.z",
}


@pytest.mark.parametrize("name", keeping(["rename", "swap"], IN))
def test_a_table_that_comes_in_is_named_and_the_remedy_works(stage: Stage, name: str, tmp_path: Path) -> None:
    one = played(stage, f"in-{name}", "INSERT INTO idle.z VALUES (4)", IN[name])
    path = configured(stage, one, "pessimistic", **{"shard-doubts": "error"})
    out = path.parent / "out"
    with pytest.raises(UnknownTableSchema, match="n1/idle/z, of which neither") as caught:
        merge(path, out)
    (tmp_path / "z.sql").write_text(f"CREATE TABLE idle.z {T}")
    _follow(caught.value, out, tmp_path / "z.sql")
    with pytest.raises(ShardDdlStopped, match="none of the rows that it has"):
        merge(path, out)
    path.write_text(path.read_text().replace("shard-doubts: error", "shard-doubts: warn"))
    (warning,) = merge(path, out).warnings
    assert "none of the rows" in warning


def test_the_shape_of_a_table_that_is_left_out_can_be_given(stage: Stage, tmp_path: Path) -> None:
    one = played(stage, "like-a-stranger", "CREATE TABLE kept.l LIKE idle.z", "INSERT INTO kept.l VALUES (3)")
    path = configured(stage, one, "optimistic")
    with pytest.raises(UnknownTableSchema, match="n1/idle/z, of which neither") as caught:
        merge(path, path.parent / "out")
    (tmp_path / "z.sql").write_text(f"CREATE TABLE idle.z {T}")
    _follow(caught.value, path.parent / "out", tmp_path / "z.sql")
    check(stage, path)


def _follow(error: MergeError, out: Path, file: Path) -> None:
    """Do what the error says."""
    words = str(error.remedy).partition("binlog-merge ")[2].partition("`")[0].split()
    filled = [{"FILE": str(file), "DIR": str(out)}.get(word, word) for word in words]
    assert main.run(filled) == 0


class _Teller:
    """Makes up statements over both kinds of databases; none brings a table into the output."""

    def __init__(self, seed: int, session: Session) -> None:
        self.rng = random.Random(seed)
        self.session = session
        self.ran: list[str] = []

    def _name(self, pool: tuple[str, ...]) -> str:
        return f"{self.rng.choice(pool)}.{self.rng.choice('xyzw')}"

    def step(self) -> None:
        both = (*OURS, *LEFT_OUT)
        match self.rng.randint(0, 9):
            case 0 | 1 | 2:
                sql = f"CREATE TABLE {self._name(both)} {T}"
            case 3:
                sql = f"CREATE TABLE {self._name(LEFT_OUT)} LIKE {self._name(both)}"
            case 4 | 5:
                names = {self._name(both) for _ in range(self.rng.randint(1, 4))}
                sql = f"DROP TABLE {self.rng.choice(('', 'IF EXISTS '))}{', '.join(sorted(names))}"
            case 6 | 7:
                pairs = [self._pair() for _ in range(self.rng.randint(1, 4))]
                if any(new in {old for old, _ in pairs} for _, new in pairs if new.startswith("kept")):
                    return  # one of ours takes the name of another: its rows would be a doubt
                sql = "RENAME TABLE " + ", ".join(f"{old} TO {new}" for old, new in pairs)
            case 8:
                sql = f"ALTER TABLE {self._name(both)} COMMENT 'c{self.rng.randint(0, 9)}'"
            case _:
                sql = f"INSERT INTO {self._name(both)} VALUES ({self.rng.randint(1, 1000)})"
        try:
            self.session.run(sql)
        except pymysql.err.MySQLError:
            return
        self.ran.append(sql)

    def _pair(self) -> tuple[str, str]:
        old = self._name((*OURS, *LEFT_OUT))
        return old, self._name(LEFT_OUT if old.startswith("idle") else (*OURS, *LEFT_OUT))


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(n, marks=pytest.mark.soak) for n in range(3, 60))])
def test_any_statements_over_both(stage: Stage, seed: int) -> None:
    stage.clear()
    with stage.scene(f"both-{seed}", ()) as (sessions, found):
        for sql in BEGIN:
            sessions["n1"].run(sql)
        teller = _Teller(seed, sessions["n1"])
        for _ in range(60):
            teller.step()
    result = check(stage, configured(stage, found[0], ("pessimistic", "optimistic")[seed % 2]))
    assert result.warnings == (), "\n".join(teller.ran)
