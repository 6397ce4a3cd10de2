"""DM's own cases of its optimistic lock (`dm/pkg/shardddl/optimism/lock_test.go`), and some worked out from its rules.

They run against the lock with DM's rules; what the lock does better is switched off there, and has cases of its own in
`test_optimistic.py`.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.shard.clauses import columns_named
from binlog_merge.shard.joined import Change, all_larger, all_smaller, done_elsewhere, settled
from binlog_merge.shard.lock import DM, Lock, Stage
from binlog_merge.shard.rounds import Dropping, Progress, Round
from binlog_merge.shard.values import Shard, Step
from snapshot_store.ddl.parse import parse_statement
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.model import Table
from tests.snapshot_store.test_lattice_vectors import TIDB, tidb_table

VECTORS = Path(__file__).parents[3] / "shared/vectors/optimistic_lock.json"
CASES: list[dict[str, Any]] = json.loads(VECTORS.read_text()) if VECTORS.exists() else []
SEQUENCES = [case for case in CASES if case["kind"] == "lock_sequence"]
PREDICATES = [case for case in CASES if case["kind"] == "predicate"]

pytestmark = pytest.mark.skipif(not CASES, reason="no optimistic_lock.json beside the repository")

CONFLICTS = {Stage.CONFLICT: "ConflictDetected", Stage.WAITS: "ConflictSkipWaitRedirect"}


def shard_of(text: str) -> Shard:
    return Shard(*text.split("/"))


def step_of(sql: str, after: str) -> Step:
    try:
        named = columns_named(parse_statement(sql, TIDB))
    except SnapshotStoreError:  # DM's lock never reads some of them, so they need not be SQL
        named = ((), (), ())
    return Step(sql, tidb_table(after), *named)


@pytest.mark.parametrize("case", SEQUENCES, ids=[case["id"] for case in SEQUENCES])
def test_statements_are_taken_as_dm_takes_them(case: dict[str, Any]) -> None:
    start = tidb_table(case["init_table"])
    round = Round(Lock({shard_of(text): start for text in case["tables"]}, rules=DM))
    for number, step in enumerate(case["steps"]):
        round = OPERATIONS[step["op"]](round, step, start, f"step {number}: {step.get('ddls')}")


def try_sync(round: Round, step: dict[str, Any], start: Table, where: str) -> Round:
    for text in step.get("new_tables", ()):
        if shard_of(text) not in round.lock.normal:
            round = Round(round.lock.with_table(shard_of(text), start), round.dropping, round.done)
    shard, before = shard_of(step["shard"]), tidb_table(step["table_before"])
    steps = [step_of(*pair) for pair in zip(step["ddls"], step["tables_after"], strict=True)]
    round, answer = round.try_sync(shard, before, steps)
    expected = step["expect"]
    assert [s.sql for s in answer.written] == expected["emitted_ddls"], where
    assert list(answer.dropped) == expected["dropped_cols"], where
    conflict = CONFLICTS.get(answer.stage)
    if answer.refused:
        conflict = f"AddNotFullyDroppedColumn: {answer.refused.partition(':')[0]}"
    assert conflict == expected["conflict"], where
    check_ready(round, expected, where)
    joined = round.lock.joined
    assert joined is not None
    assert sorted(c.name for c in joined.columns) == sorted(expected["joined_columns"]), where
    assert {c.name: not c.nullable for c in joined.columns} == {
        name: "NOT NULL" in text for name, text in expected["joined_columns"].items()
    }, where
    assert sorted(i.name.lower() for i in joined.indexes) == sorted(expected["joined_indexes"]), where
    assert sorted(map(str, round.lock.waiting)) == sorted(expected["conflict_tables"]), where
    assert sorted(map(str, answer.released)) == sorted(expected["redirected_tables"]), where
    assert round.resolved == expected["lock_resolved"], where
    return round


def check_ready(round: Round, expected: dict[str, Any], where: str) -> None:
    ready = {str(shard): is_ready for shard, is_ready in round.lock.ready().items()}
    assert ready == expected["ready"], where
    assert list(ready.values()).count(False) == expected["remain"], where
    assert all(ready.values()) == expected["synced"], where


def operation_done(round: Round, step: dict[str, Any], start: Table, where: str) -> Round:
    dropping = round.dropping.done(shard_of(step["shard"]), step["cols"], bool(step["ddls"]))
    told = {c: {str(s): p.value for s, p in shards.items()} for c, shards in dropping.columns.items()}
    assert told == step["expect"]["partially_dropped"], where
    return Round(round.lock, dropping, round.done)


def mark_done(round: Round, step: dict[str, Any], start: Table, where: str) -> Round:
    round = round.mark_done(shard_of(step["shard"]))
    assert round.resolved == step["expect"]["lock_resolved"], where
    return round


def set_partially_dropped(round: Round, step: dict[str, Any], start: Table, where: str) -> Round:
    columns = {c: {shard_of(s): Progress(p) for s, p in shards.items()} for c, shards in step["value"].items()}
    return Round(round.lock, Dropping(columns), round.done)


def remove_table(round: Round, step: dict[str, Any], start: Table, where: str) -> Round:
    round, columns = round.without(shard_of(step["shard"]))
    assert list(columns) == step["expect"]["dropped_cols"], where
    check_ready(round, step["expect"], where)
    return round


OPERATIONS = {
    "try_sync": try_sync,
    "operation_done": operation_done,
    "mark_done": mark_done,
    "set_partially_dropped": set_partially_dropped,
    "remove_table": remove_table,
}


@pytest.mark.parametrize("case", PREDICATES, ids=[case["id"] for case in PREDICATES])
def test_conditions_hold_where_dm_says(case: dict[str, Any]) -> None:
    if "caller" in case:
        change = Change(tidb_table(case["table_before"]), tidb_table(case["table_after"]))
        others = [tidb_table(sql) for name, sql in case["normal_tables"].items() if name != case["caller"]]
        assert done_elsewhere(change, others) == case["expect"]["no_conflict"]
        return
    posts = {name: tidb_table(sql) for name, sql in case["post_tables"].items()}
    final = [tidb_table(sql) for sql in case["final_tables"].values()]
    changes = [Change(tidb_table(case["prev_tables"][name]), post) for name, post in posts.items()]
    assert {
        "conflict_tables_smaller": all_smaller(changes, posts.values()),
        "conflict_tables_larger": all_larger(changes, posts.values()),
        "final_tables_smaller": all_smaller(changes, final),
        "final_tables_larger": all_larger(changes, final),
        "terminated": settled(changes, final),
    } == case["expect"]
