"""The store as a merge uses it: a part of it is as good as the whole, what is made again takes its place, and a process
that is killed at any of its statements leaves all of a change or nothing.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapshot_store.ddl import parse_dump
from snapshot_store.errors import HistoryConflict
from snapshot_store.history import GIVEN, SchemaHistory, SchemaVersion, TableVersion
from snapshot_store.model import Schema
from snapshot_store.store.db import Store
from snapshot_store.store.settings import Stop
from snapshot_store.topology import Route, Topology
from snapshot_store.tso import ORIGIN, OrderKey
from tests.effort import effort, keeping
from tests.snapshot_store.store.test_store import memory_store
from tests.snapshot_store.strategies import KEYS, UNHURRIED, VERSIONS

ORIGINS = st.sampled_from(["base", "operator", "ddl", "marker", "opaque"])
LINES = [(node, schema, name) for node in (None, "n1", "n2") for schema in ("d", "D") for name in ("t", "u", "表")]
FEWER = settings(UNHURRIED, max_examples=effort(15, 40))
TOPOLOGY = Topology((Route("a_*", "t_?", "a", "t"),))


@st.composite
def histories(draw: st.DrawFn) -> list[TableVersion]:
    """Versions as people and merges make them: what is at the origin is a base."""
    versions = draw(VERSIONS)
    return [replace(v, origin="base" if v.key == ORIGIN else draw(ORIGINS)) for v in versions]


@pytest.mark.heavy
@FEWER
@given(histories(), KEYS, st.lists(st.sampled_from(LINES), unique=True))
def test_a_part_with_what_follows_is_as_good_as_the_whole(
    versions: list[TableVersion], floor: OrderKey, lines: list[tuple[str | None, str, str]]
) -> None:
    whole = SchemaHistory().with_versions(versions)
    store = memory_store()
    store.append_versions(versions)
    part = store.merging().part(lines, floor)
    final = [v for v in whole.versions if v.key < floor or v.key == ORIGIN]
    assert set(part.history.versions) == {v for v in final if (v.node, v.schema, v.name) in lines}
    assert set(part.given_tables) == {v for v in whole.versions if v not in final and v.origin in GIVEN}
    following = [v for v in whole.versions if v not in final]
    longer = part.history.continued(following, (), part.numbers)
    expected = [v for v in whole.versions if v in following or (v.node, v.schema, v.name) in lines]
    assert list(longer.versions) == expected
    for line in lines:
        assert longer.versions_for(*line[1:], line[0]) == whole.versions_for(*line[1:], line[0])


@pytest.mark.heavy
@FEWER
@given(histories(), histories(), KEYS)
def test_what_a_merge_makes_again_takes_the_place_of_what_it_made(
    before: list[TableVersion], after: list[TableVersion], floor: OrderKey
) -> None:
    store = memory_store()
    store.append_versions(before)
    stays = [v for v in before if v.key < floor or v.key == ORIGIN or v.origin in GIVEN]
    places = {(v.node, v.key, v.schema, v.name) for v in stays}
    made = [
        v for v in after
        if v.key >= floor and v.origin not in GIVEN and (v.node, v.key, v.schema, v.name) not in places
    ]  # fmt: skip
    for _ in range(2):
        store.merging().save(floor, made, (), TOPOLOGY, None)
        assert store.load_history() == SchemaHistory().with_versions([*stays, *made])
        lines = {(v.node, v.schema, v.name) for v in (*stays, *made)}
        assert store.history_of(lines) == SchemaHistory().with_versions([*stays, *made])  # numbers too
    store.merging().forget_derived()
    given_only = [v for v in stays if v.origin in GIVEN]
    assert store.history_of(lines) == SchemaHistory().with_versions(given_only)


def test_what_people_said_is_found_and_is_not_contradicted() -> None:
    store, other = memory_store(), memory_store()
    (table,) = parse_dump("CREATE TABLE t (a INT)", "d").tables.values()
    key = OrderKey(5, 0, 0, 0)
    base, said = TableVersion(ORIGIN, 0, "d", "t", table, origin="base"), TableVersion(key, 0, "d", "t", None)
    said = replace(said, origin="operator")
    store.append_versions([base, said, replace(said, key=OrderKey(6, 0, 0, 0), origin="ddl")])
    assert [v.key for v in store.merging().provided(everything=False)[0]] == [key]
    tables, _ = store.merging().provided(everything=True)
    assert sorted(v.key for v in tables) == [ORIGIN, key]
    other.append_versions([base])
    assert [v.key for v in other.merging().not_stored(tables, ())[0]] == [key]
    other.append_versions([replace(said, table=table)])
    with pytest.raises(HistoryConflict):
        other.merging().not_stored(tables, ())


def test_tables_that_follow_a_rename_are_found() -> None:
    store = memory_store()
    catalog = parse_dump(
        "CREATE TABLE a (id INT PRIMARY KEY); CREATE TABLE `b'表` (id INT PRIMARY KEY);"
        "CREATE TABLE c (id INT, CONSTRAINT f FOREIGN KEY (id) REFERENCES `b'表` (id)); CREATE TABLE d (x INT)",
        "s",
    )
    store.append_versions(TableVersion(ORIGIN, 0, t.schema, t.name, t, origin="base") for t in catalog.tables.values())
    merging = store.merging()
    assert merging.referencing(None, ["b'表"]) == [(None, "s", "c")]
    assert merging.referencing(None, ["nothing"]) == merging.referencing("n1", ["b'表"]) == []
    assert sorted(name for _, _, name in merging.names_in(None, "s")) == ["a", "b'表", "c", "d"]


def test_where_a_merge_stopped_is_kept_until_one_goes_on() -> None:
    store = memory_store()
    stop = Stop(True, "n1", OrderKey(7, 1, 2, 3).text(), "binlog.000001", 4711, "it's odd", (("d", "表"),))
    store.merging().save(ORIGIN, (), (), TOPOLOGY, stop, OrderKey(3, 0, 0, 0))
    assert (store.stop(), store.topology(), store.beginning()) == (stop, TOPOLOGY, OrderKey(3, 0, 0, 0))
    store.merging().save(ORIGIN, (), (), TOPOLOGY, None)
    assert (store.stop(), store.beginning()) == (None, OrderKey(3, 0, 0, 0))


# --- kills -----------------------------------------------------------------------------------------------------------

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.merge_e2e.preloaded", __name__])


class _Mortal:
    """A connection whose process is killed before its nth statement, or right behind it."""

    def __init__(self, connection: Any, nth: int, behind: bool) -> None:
        self._connection, self._left, self._behind = connection, nth, behind

    def execute(self, *arguments: Any) -> Any:
        self._left -= 1
        if not self._left and not self._behind:
            os.kill(os.getpid(), signal.SIGKILL)
        answer = self._connection.execute(*arguments)
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer


def _version(number: int, origin: str = "ddl", node: str | None = None) -> TableVersion:
    (table,) = parse_dump(f"CREATE TABLE t (a INT, b{number} INT)", "d").tables.values()
    return TableVersion(OrderKey(number, 0, 0, 0), 0, "d", "t", table, "x" * 3000, node, origin=origin)


def _save(store: Store) -> None:
    made = [*(_version(n) for n in (4, 6, 7)), _version(5, node="n1")]
    store.merging().save(
        OrderKey(3, 0, 0, 0), made, [SchemaVersion(OrderKey(4, 0, 0, 0), "d", Schema("d"))], TOPOLOGY, None
    )


def _append(store: Store) -> None:
    store.append_versions([_version(n, "operator") for n in (5, 8)], [SchemaVersion(ORIGIN, "e", Schema("e"))])


def _fold(store: Store) -> None:
    store.fold(OrderKey(4, 0, 0, 0))


def _until(change: Callable[[Store], None], path: Path, nth: int, behind: bool) -> None:
    with Store.open(path) as store:
        store._connection = _Mortal(store._connection, nth, behind)
        change(store)


def _state(path: Path) -> Any:
    with Store.open(path, read_only=True) as store:
        return store.load_history(), store.topology()


@pytest.mark.heavy
@pytest.mark.parametrize("change", keeping([_append], [_save, _append, _fold]), ids=["save", "append", "fold"])
def test_killed_at_any_statement_a_change_is_whole_or_not_there(
    change: Callable[[Store], None], tmp_path: Path
) -> None:
    begun = [_version(1, "base"), *(_version(n) for n in (2, 3, 4, 5)), _version(3, node="n1")]

    def new(path: Path) -> Path:
        with Store.open(path) as store:
            store.append_versions(begun)
        return path

    before = _state(new(tmp_path / "before"))
    with Store.open(new(tmp_path / "after")) as store:
        change(store)
    after = _state(tmp_path / "after")
    assert before != after
    seen = []
    for nth in range(1, 60, effort(3, 1)):
        path = new(tmp_path / f"{nth}")
        process = _context.Process(target=_until, args=(change, path, nth, nth % 2 == 0))
        process.start()
        process.join()
        state = _state(path)
        assert state in (before, after), f"killed at statement {nth}"
        seen.append(state == after)
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
    assert process.exitcode == 0 and seen[-1] and not seen[0]
    assert seen == sorted(seen)
