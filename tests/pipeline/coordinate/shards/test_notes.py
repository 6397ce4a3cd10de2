"""What coordination leaves in the store is what is read there again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.pipeline.coordinate.shards import notes
from binlog_merge.pipeline.coordinate.shards.notes import HeldRows, Lock, Locks, NodeStatement, ShardStatement
from binlog_merge.pipeline.coordinate.shards.values import Decided, Shard
from snapshot_store.errors import StoreError
from snapshot_store.tso import OrderKey
from tests.pipeline.coordinate.shards.scenario import ran

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, a INT)"
KEYS = st.builds(OrderKey, *[st.integers(0, 9**9)] * 4)
SHARDS = st.builds(Shard, *[st.text()] * 3)
SOME_SHARDS = st.lists(SHARDS, max_size=3).map(tuple)
NUMBERS = st.integers(0, 2**60)
RAN = st.lists(st.builds(ShardStatement, SHARDS, KEYS, st.text(), st.text(), NUMBERS), max_size=3).map(tuple)
MODES = st.sampled_from(["pessimistic", "optimistic"])
LOCK = st.builds(Lock, st.text(), MODES, st.text(), st.text(), SOME_SHARDS, SOME_SHARDS, RAN)
HELD = st.builds(HeldRows, SHARDS, NUMBERS, NUMBERS, KEYS)
ACTIONS = st.sampled_from(["emit", "skip", "as-if-done"])
DECISIONS = st.lists(st.builds(Decided, KEYS, st.text(), ACTIONS, st.text(), st.none() | SHARDS), max_size=3).map(tuple)


SEVERAL = st.lists(LOCK, max_size=3).map(tuple)


@given(st.builds(Locks, KEYS, SEVERAL, st.lists(HELD, max_size=3).map(tuple), st.none() | KEYS))
def test_locks(locks: Locks) -> None:
    assert notes.locks_from_json(notes.locks_to_json(locks)) == locks


@given(DECISIONS)
def test_decisions(decisions: tuple[Decided, ...]) -> None:
    assert notes.decisions_from_json(notes.decisions_to_json(decisions)) == decisions


@pytest.mark.parametrize("text", ["", "[1]", '{"known": [1]}', '{"known": [1, 2, 3, 4], "locks": [{}], "held": []}'])
def test_what_is_no_such_text_is_told(text: str) -> None:
    for read in (notes.locks_from_json, notes.decisions_from_json):
        with pytest.raises(StoreError, match="damaged"):
            read(text)


@pytest.mark.parametrize("way", ["optimistic", "pessimistic"])
def test_who_has_run_what(way: str) -> None:
    made = ran(TABLE, "t1 t2 t3", "t1 RENAME COLUMN a TO b", "t2 CHANGE a b INT", "t1 RENAME COLUMN b TO c")
    opened = made.outcome(way).open
    lock = notes.lock_of(opened[0], "optimistic", lambda node, key: NodeStatement(f"of {node}", "f", key.commit_tso))
    first, second, third = (Shard(f"n{i}", "shop", f"t{i}") for i in (1, 2, 3))
    assert (lock.stage, lock.done, lock.awaited) == ("waiting", (first, second), (third,))
    assert [(r.shard, r.sql, r.position) for r in lock.ran] == [(first, "of n1", 1), (second, "of n2", 2)]
    queued = next(o for o in opened if o.stage == "queued")
    assert (queued.done, [d.shard for d in queued.ran]) == ((first,), [first])
    assert notes.table_of(lock.id) == "shop.t"


@pytest.mark.parametrize("way", ["optimistic", "pessimistic"])
def test_one_that_counts_as_having_run_it_has_run_nothing(way: str) -> None:
    made = ran(TABLE, "t1 t2 t3", "t1 RENAME COLUMN a TO b")
    made.decide(way, "as-if-done", shard="t2")
    (waiting,) = {o.id: o for o in made.outcome(way).open if o.ddl.shard.table == "t1"}.values()
    assert [s.table for s in waiting.done] == ["t1", "t2"]
    assert [d.shard.table for d in waiting.ran] == ["t1"]


def test_what_has_taken_effect_only_spreads() -> None:
    made = ran(TABLE, "t1 t2", "t1 ADD COLUMN c INT")
    (waiting,) = made.outcome("optimistic").open
    assert (waiting.stage, [s.table for s in waiting.awaited]) == ("spreading", ["t2"])


def test_decisions_are_told_apart_by_table() -> None:
    ids = [f"shop.t@{'0' * 54}", f"shop.t2@{'0' * 54}"]
    assert [notes.table_of(id) for id in ids] == ["shop.t", "shop.t2"]
