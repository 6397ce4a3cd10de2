"""DM's own cases of its optimistic lock (`dm/pkg/shardddl/optimism/lock_test.go`), and some worked out from its rules.

They run against the lock with DM's rules; what the lock does better is switched off there, and has cases of its own in
`test_optimistic.py`.
"""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.pipeline.coordinate.shards.clauses import columns_named
from binlog_merge.pipeline.coordinate.shards.optimistic.doubts import Dropping, Progress
from binlog_merge.pipeline.coordinate.shards.optimistic.lock import DM, Info, Lock, Stage
from binlog_merge.pipeline.coordinate.shards.optimistic.shapes import (
    Change,
    Shape,
    Shapes,
    all_larger,
    all_smaller,
    done_elsewhere,
    settled,
)
from binlog_merge.pipeline.coordinate.shards.values import Shard, ShardDdl, Step
from snapshot_store.ddl.parse.statement import parse_statement
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.model import Table
from snapshot_store.tso import ORIGIN
from tests.snapshot_store.lattice.test_lattice_vectors import TIDB, tidb_table

VECTORS = Path(__file__).parents[5] / "shared/vectors/optimistic_lock.json"
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


@dataclass
class Run:
    """A lock, and which shards have carried out what they were told, which DM's lock knows too."""

    lock: Lock
    done: set[Shard] = field(default_factory=set)

    @property
    def resolved(self) -> bool:
        return self.lock.all_ready and self.done >= set(self.lock.normal)


@pytest.mark.parametrize("case", SEQUENCES, ids=[case["id"] for case in SEQUENCES])
def test_statements_are_taken_as_dm_takes_them(case: dict[str, Any]) -> None:
    start = tidb_table(case["init_table"])
    run = Run(Lock.of(Shapes(), {shard_of(text): start for text in case["tables"]}, DM))
    for number, step in enumerate(case["steps"]):
        OPERATIONS[step["op"]](run, step, start, f"step {number}: {step.get('ddls')}")


def try_sync(run: Run, step: dict[str, Any], start: Table, where: str) -> None:
    shapes = run.lock.shapes
    for text in step.get("new_tables", ()):
        if shard_of(text) not in run.lock.normal:
            run.lock = run.lock.with_table(shard_of(text), shapes.of(start))
    shard, before = shard_of(step["shard"]), tidb_table(step["table_before"])
    steps = tuple(step_of(*pair) for pair in zip(step["ddls"], step["tables_after"], strict=True))
    run.lock, operation = run.lock.try_sync(Info.of(ShardDdl(ORIGIN, shard, "", before, steps), shapes))
    if operation.stage is not Stage.ACCEPTED or operation.written:
        run.done.discard(shard)
    expected = step["expect"]
    assert [s.sql for s in operation.written] == expected["emitted_ddls"], where
    assert list(operation.dropped) == expected["dropped_cols"], where
    conflict = CONFLICTS.get(operation.stage)
    if operation.refused:
        conflict = f"AddNotFullyDroppedColumn: {operation.refused.partition(':')[0]}"
    assert conflict == expected["conflict"], where
    check_ready(run, expected, where)
    assert run.lock.joined is not None
    joined = shapes[run.lock.joined]
    assert sorted(c.name for c in joined.columns) == sorted(expected["joined_columns"]), where
    assert {c.name: not c.nullable for c in joined.columns} == {
        name: "NOT NULL" in text for name, text in expected["joined_columns"].items()
    }, where
    assert sorted(i.name.lower() for i in joined.indexes) == sorted(expected["joined_indexes"]), where
    assert sorted(map(str, run.lock.waiting)) == sorted(expected["conflict_tables"]), where
    assert sorted(map(str, operation.released)) == sorted(expected["redirected_tables"]), where
    assert run.resolved == expected["lock_resolved"], where


def check_ready(run: Run, expected: dict[str, Any], where: str) -> None:
    ready = {str(shard): is_ready for shard, is_ready in run.lock.ready().items()}
    assert ready == expected["ready"], where
    assert list(ready.values()).count(False) == expected["remain"], where
    assert all(ready.values()) == expected["synced"], where


def operation_done(run: Run, step: dict[str, Any], start: Table, where: str) -> None:
    dropping = run.lock.dropping.done(shard_of(step["shard"]), step["cols"], bool(step["ddls"]))
    told = {c: {str(s): p.value for s, p in shards.items()} for c, shards in dropping.columns.items()}
    assert told == step["expect"]["partially_dropped"], where
    run.lock = replace(run.lock, dropping=dropping)


def mark_done(run: Run, step: dict[str, Any], start: Table, where: str) -> None:
    run.done.add(shard_of(step["shard"]))
    assert run.resolved == step["expect"]["lock_resolved"], where


def set_partially_dropped(run: Run, step: dict[str, Any], start: Table, where: str) -> None:
    columns = {c: {shard_of(s): Progress(p) for s, p in shards.items()} for c, shards in step["value"].items()}
    run.lock = replace(run.lock, dropping=Dropping(columns))


def remove_table(run: Run, step: dict[str, Any], start: Table, where: str) -> None:
    shard = shard_of(step["shard"])
    run.lock, columns = run.lock.without(shard)
    run.done.discard(shard)
    assert list(columns) == step["expect"]["dropped_cols"], where
    check_ready(run, step["expect"], where)


OPERATIONS = {
    "try_sync": try_sync,
    "operation_done": operation_done,
    "mark_done": mark_done,
    "set_partially_dropped": set_partially_dropped,
    "remove_table": remove_table,
}


@pytest.mark.parametrize("case", PREDICATES, ids=[case["id"] for case in PREDICATES])
def test_conditions_hold_where_dm_says(case: dict[str, Any]) -> None:
    shapes = Shapes()

    def shape(sql: str) -> Shape:
        return shapes.of(tidb_table(sql))

    if "caller" in case:
        change = Change(shape(case["table_before"]), shape(case["table_after"]))
        others = [shape(sql) for name, sql in case["normal_tables"].items() if name != case["caller"]]
        assert done_elsewhere(shapes, change, others) == case["expect"]["no_conflict"]
        return
    posts = {name: shape(sql) for name, sql in case["post_tables"].items()}
    final = [shape(sql) for sql in case["final_tables"].values()]
    changes = [Change(shape(case["prev_tables"][name]), post) for name, post in posts.items()]
    assert {
        "conflict_tables_smaller": all_smaller(shapes, changes, posts.values()),
        "conflict_tables_larger": all_larger(shapes, changes, posts.values()),
        "final_tables_smaller": all_smaller(shapes, changes, final),
        "final_tables_larger": all_larger(shapes, changes, final),
        "terminated": settled(shapes, changes, final),
    } == case["expect"]
