"""`binlog-merge ddl`: what a merge left is shown, and what is decided is left for the next; every way to refuse."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.cli import main
from binlog_merge.files.lock import OutputLock
from binlog_merge.pipeline.base.state import GREATEST_KEY
from binlog_merge.pipeline.coordinate.shards import notes
from binlog_merge.pipeline.coordinate.shards.notes import HeldRows, Locks, NodeStatement
from binlog_merge.pipeline.coordinate.shards.values import Decided, Shard
from snapshot_store.history import TableVersion
from snapshot_store.store.db import Store
from snapshot_store.tso import ORIGIN, OrderKey
from tests.pipeline.coordinate.shards.scenario import Cluster, cluster, ran

Captured = pytest.CaptureFixture[str]
TABLE = "CREATE TABLE t (id INT PRIMARY KEY, a INT)"
LOGICAL = ("shop", "t")
FIRST, SECOND, THIRD = (Shard(f"n{i}", "shop", f"t{i}") for i in (1, 2, 3))
KNOWN = OrderKey(50, 7, 3, 2)


def leave(path: Path, made: Cluster, way: str, known: OrderKey = KNOWN) -> None:
    """Leave what a merge of a small cluster would."""
    outcome = made.outcome(way)
    assert outcome.table is not None
    sources = {e.key: f"ALTER TABLE {e.shard.table} …" for e in made.events.get(LOGICAL, [])}  # type: ignore[union-attr]
    mode: notes.Mode = "optimistic" if way == "optimistic" else "pessimistic"
    locks = tuple(
        notes.lock_of(o, mode, lambda node, key: NodeStatement(sources[key], f"{node}.000001", key.commit_tso))
        for o in outcome.open
    )
    held = (HeldRows(FIRST, 3, 4567, OrderKey(2, 0, 0, 1)),)
    with Store.open(path) as store:
        store.append_versions([TableVersion(ORIGIN, 0, "shop", "t", outcome.table)])
        store.set_note(notes.LOCKS, notes.locks_to_json(Locks(known, locks, held)))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """An output with one statement that waits, and one behind it."""
    made = ran(TABLE, "t1 t2 t3", "t1 RENAME COLUMN a TO b", "t2 CHANGE a b INT", "t1 ADD COLUMN c INT")
    leave(tmp_path / "schema.duckdb", made, "pessimistic")
    return tmp_path


def run(capsys: Captured, *arguments: object, code: int = 0) -> str:
    assert main.run(["ddl", *map(str, arguments)]) == code, capsys.readouterr().err
    captured = capsys.readouterr()
    return captured.out if code == 0 else captured.err


def answer(capsys: Captured, *arguments: object) -> Any:
    document = json.loads(run(capsys, *arguments, "-o", "json"))
    assert document["schema_version"] == 1 and document["error"] is None
    return document


def decisions(out: Path) -> tuple[Decided, ...]:
    with Store.open(out / "schema.duckdb", read_only=True) as store:
        return notes.decisions_from_json(store.note(notes.DECISIONS) or "[]")


def id_of(key: int) -> str:
    return f"shop.t@{OrderKey(key, 0, 0, 1).text()}"


def test_help(capsys: Captured) -> None:
    assert "locks" in run(capsys) and "resolve" in run(capsys)
    for word in ("waiting", "conflict", "queued", "spreading"):
        assert f"\n    {word} " in run(capsys, "locks", "--help")
    for word in ("--emit", "--skip", "--as-if-done", "--withdraw", "--at-tso"):
        assert word in run(capsys, "resolve", "--help")


def test_who_has_done_what_and_who_is_awaited(out: Path, capsys: Captured) -> None:
    lines = run(capsys, "locks", "--out", out).splitlines()
    assert lines[:7] == [
        "2 coordinations under way, up to TSO 50",
        id_of(1),
        "  pessimistic, waiting since TSO 1: ALTER TABLE `shop`.`t` RENAME COLUMN a TO b",
        "  done     n1/shop/t1  TSO 1  n1.000001:1  ALTER TABLE t1 …",
        "           n2/shop/t2  TSO 2  n2.000001:2  ALTER TABLE t2 …",
        "  awaited  n3/shop/t3",
        "  held     n1/shop/t1  3 transactions, 4,567 bytes, since TSO 2",
    ]
    assert lines[7:9] == [id_of(3), "  pessimistic, queued since TSO 3: ALTER TABLE `shop`.`t` ADD COLUMN c INT"]
    assert lines[-3] == f"  binlog-merge ddl resolve shop.t --merged {out} --as-if-done n3/shop/t3"


def test_the_same_for_machines(out: Path, capsys: Captured) -> None:
    document = answer(capsys, "locks", "--store", out / "schema.duckdb")
    first, second = document["locks"]
    assert (first["id"], first["table"], first["mode"], first["stage"]) == (
        id_of(1),
        "shop.t",
        "pessimistic",
        "waiting",
    )
    assert [(s["shard"], s["ran"]["file"], s["ran"]["position"]) for s in first["done"]] == [
        ("n1/shop/t1", "n1.000001", 1),
        ("n2/shop/t2", "n2.000001", 2),
    ]
    assert first["awaited"] == [{"shard": "n3/shop/t3", "node": "n3", "schema": "shop", "table": "t3"}]
    assert first["since"] == {"order_key": OrderKey(1, 0, 0, 1).text(), "commit_tso": "1", "time": None}
    assert [(h["shard"], h["transactions"], h["bytes"]) for h in first["held"]] == [("n1/shop/t1", 3, 4567)]
    assert (second["stage"], second["held"], document["decisions"]) == ("queued", [], [])
    assert document["known"]["order_key"] == KNOWN.text()


def test_a_time_is_told_where_there_is_one(tmp_path: Path, capsys: Captured) -> None:
    known = OrderKey(1_790_000_000_123 << 22, 1, 0, 1)
    leave(tmp_path / "schema.duckdb", cluster(TABLE, "n1.t1"), "optimistic", known)
    assert run(capsys, "locks", "--out", tmp_path) == "nothing is open, up to 2026-09-21T14:13:20.123Z\n"
    assert answer(capsys, "locks", "--out", tmp_path)["known"]["time"] == "2026-09-21T14:13:20.123Z"
    leave(tmp_path / "schema.duckdb", cluster(TABLE, "n1.t1"), "optimistic", GREATEST_KEY)
    assert run(capsys, "locks", "--out", tmp_path) == "nothing is open, up to the end of the input\n"
    assert answer(capsys, "locks", "--out", tmp_path)["known"] is None


def test_what_has_taken_effect_is_shown_and_cannot_be_resolved(tmp_path: Path, capsys: Captured) -> None:
    leave(tmp_path / "schema.duckdb", ran(TABLE, "t1 t2", "t1 ADD COLUMN c INT"), "optimistic")
    shown = run(capsys, "locks", "--out", tmp_path)
    assert "optimistic, spreading since" in shown and "resolve" not in shown
    assert "has taken effect already" in run(capsys, "resolve", id_of(1), "--skip", "--out", tmp_path, code=2)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--skip"], ("skip", "", None)),
        (["--as-if-done", "n3/shop/t3"], ("as-if-done", "", THIRD)),
        (["--emit", "ALTER TABLE t CHANGE a b BIGINT"], ("emit", "ALTER TABLE `shop`.`t` CHANGE a b BIGINT", None)),
        (["--emit", "alter table `shop`.t ADD z INT"], ("emit", "alter table `shop`.`t` ADD z INT", None)),
        (["--emit", "CREATE INDEX k ON t (a)"], ("emit", "CREATE INDEX k ON `shop`.`t` (a)", None)),
    ],
)
def test_decisions_are_left_for_the_next_merge(
    out: Path, capsys: Captured, arguments: list[str], expected: tuple[str, str, Shard | None]
) -> None:
    text = run(capsys, "resolve", id_of(1), *arguments, "--out", out)
    (decided,) = decisions(out)
    assert (decided.action, decided.sql, decided.shard) == expected
    assert decided.id == id_of(1) and decided.id in text and decided.key.text() in text
    assert "  decided  " in run(capsys, "locks", "--out", out)
    assert answer(capsys, "locks", "--out", out)["locks"][0]["decisions"][0]["action"] == expected[0]


def test_the_name_of_the_table_is_enough_where_one_waits(out: Path, capsys: Captured) -> None:
    assert answer(capsys, "resolve", "shop.t", "--skip", "--out", out)["decided"][0]["id"] == id_of(1)


def test_a_table_with_several_that_wait_needs_an_id(tmp_path: Path, capsys: Captured) -> None:
    made = ran(TABLE, "t1 t2 t3", "t1 ADD COLUMN c INT", "t2 ADD COLUMN c DATE", "t3 RENAME COLUMN a TO b")
    leave(tmp_path / "schema.duckdb", made, "optimistic")
    assert "give the id of one" in run(capsys, "resolve", "shop.t", "--skip", "--out", tmp_path, code=2)
    assert f"ddl resolve {id_of(2)} --merged" in run(capsys, "locks", "--out", tmp_path)


def test_every_decision_has_a_place_of_its_own(out: Path, capsys: Captured) -> None:
    run(capsys, "resolve", id_of(1), "--as-if-done", "n3/shop/t3", "--out", out)
    run(capsys, "resolve", id_of(1), "--skip", "--out", out)
    run(capsys, "resolve", id_of(1), "--withdraw", "--out", out)
    run(capsys, "resolve", id_of(1), "--skip", "--at-tso", 60, "--out", out)
    run(capsys, "resolve", id_of(1), "--withdraw", "--out", out)
    assert decisions(out) == ()
    for arguments in (["--as-if-done", "n3/shop/t3"], ["--skip", "--at-tso", KNOWN.text()]):
        run(capsys, "resolve", id_of(1), *arguments, "--out", out)
    assert [d.key for d in decisions(out)] == [OrderKey(2, 0, 1, 0), OrderKey(50, 7, 4, 0)]


def test_before_a_statement_that_stopped_the_merge_is_decided_at_its_own_key(out: Path, capsys: Captured) -> None:
    stop = OrderKey(0, 0, 0, 0)
    with Store.open(out / "schema.duckdb") as store:
        found = notes.locks_from_json(store.note(notes.LOCKS) or "")
        store.set_note(notes.LOCKS, notes.locks_to_json(replace(found, stop=stop)))
    for arguments in (["--as-if-done", "n3/shop/t3"], ["--skip"]):
        run(capsys, "resolve", id_of(1), *arguments, "--out", out)
    assert [(d.key, d.action) for d in decisions(out)] == [(stop, "as-if-done"), (stop, "skip")]


REFUSED = [
    (["shop.u", "--skip"], "is no coordination that is open", f"open are: {id_of(1)}"),
    ([id_of(9), "--skip"], "is no coordination that is open", f"open are: {id_of(1)}"),
    ([id_of(3), "--skip"], "waits behind another statement", f"resolve {id_of(1)} first"),
    ([id_of(1)], "give one of", ""),
    ([id_of(1), "--skip", "--emit", "x"], "give one of", ""),
    ([id_of(1), "--as-if-done", "t3"], "'t3' is no shard", "NODE/SCHEMA/TABLE"),
    ([id_of(1), "--as-if-done", "n2/shop/t2"], "n2/shop/t2 is not awaited", "awaited: n3/shop/t3"),
    ([id_of(1), "--as-if-done", "n9/shop/t9"], "n9/shop/t9 is not awaited", "awaited: n3/shop/t3"),
    ([id_of(1), "--emit", "ALTER TABLE t DROP x"], "cannot be run on shop.t", "as it stands"),
    ([id_of(1), "--emit", "ALTER TABLE u ADD x INT"], "is no statement on shop.t", "as it stands"),
    ([id_of(1), "--emit", "ALTER TABLE d.t ADD x INT"], "is no statement on shop.t", "as it stands"),
    ([id_of(1), "--emit", "DROP TABLE t"], "is no statement on shop.t", "as it stands"),
    ([id_of(1), "--emit", "ALTER TABLE t RENAME TO v"], "cannot be run on shop.t", "as it stands"),
    ([id_of(1), "--emit", "INSERT INTO t VALUES (1)"], "'INSERT INTO t VALUES (1)'", "as it stands"),
    ([id_of(1), "--emit", ""], "''", "as it stands"),
    ([id_of(1), "--skip", "--at-tso", "soon"], "--at-tso: 'soon' is no moment", ""),
    ([id_of(1), "--withdraw"], "nothing is decided about", "`ddl locks` shows"),
]


@pytest.mark.parametrize(("arguments", "message", "remedy"), REFUSED)
def test_what_cannot_be_decided_is_refused(
    out: Path, capsys: Captured, arguments: list[str], message: str, remedy: str
) -> None:
    said = run(capsys, "resolve", *arguments, "--out", out, code=2)
    assert message in said and remedy in said
    assert decisions(out) == ()


def test_what_is_resolved_is_refused(out: Path, capsys: Captured) -> None:
    run(capsys, "resolve", id_of(1), "--as-if-done", "n3/shop/t3", "--out", out)
    again = run(capsys, "resolve", id_of(1), "--as-if-done", "n3/shop/t3", "--out", out, code=2)
    assert "counts as having run" in again
    run(capsys, "resolve", id_of(1), "--skip", "--out", out)
    for arguments in (["--skip"], ["--emit", "ALTER TABLE t ADD z INT"], ["--as-if-done", "n3/shop/t3"]):
        assert "is resolved already, by skip" in run(capsys, "resolve", id_of(1), *arguments, "--out", out, code=2)
    with Store.open(out / "schema.duckdb") as store:
        store.set_note(notes.LOCKS, notes.locks_to_json(Locks(KNOWN)))
    assert "nothing waits for it any more" in run(capsys, "resolve", id_of(1), "--skip", "--out", out, code=2)


def test_without_a_merge_there_is_nothing(tmp_path: Path, capsys: Captured) -> None:
    assert "is not there" in run(capsys, "locks", "--out", tmp_path, code=37)
    assert "no merge has coordinated" in run(capsys, "resolve", "x.y", "--skip", "--out", tmp_path, code=37)
    assert not list(tmp_path.iterdir())
    with Store.open(tmp_path / "schema.duckdb"):
        pass
    assert "no merge has coordinated" in run(capsys, "locks", "--out", tmp_path, code=37)
    with Store.open(tmp_path / "schema.duckdb") as store:
        store.set_note(notes.LOCKS, "[")
    assert "the store is damaged" in run(capsys, "locks", "--out", tmp_path, code=37)


def test_while_a_merge_is_under_way_nothing_is_decided(out: Path, capsys: Captured) -> None:
    with OutputLock(out):
        assert "output-busy" in run(capsys, "resolve", id_of(1), "--skip", "--out", out, code=25)
