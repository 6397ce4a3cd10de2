"""DM's own cases of its pessimistic mode: the sharding groups of a worker, and the master's lock.

Sources: `dm/syncer/sharding-meta/shardmeta_test.go`, `dm/syncer/sharding_group_test.go` and
`dm/pkg/shardddl/pessimism/lock_test.go`.
"""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.pipeline.coordinate.shards.pessimistic import Item, OutOfSequence, Sequence
from binlog_merge.pipeline.coordinate.shards.values import Shard

VECTORS = Path(__file__).parents[5] / "shared/vectors/pessimistic.json"
CASES: list[dict[str, Any]] = json.loads(VECTORS.read_text()) if VECTORS.exists() else []

pytestmark = pytest.mark.skipif(not CASES, reason="no pessimistic.json beside the repository")

BETTER = {
    # A dropped shard no longer holds up the others: what it alone has run is no longer expected of them, and its rows
    # come out. DM stops, and wants the task to be started anew.
    "ErrSyncUnitDropSchemaTableInSharding",
}

Sequences = Sequence[Any, frozenset[str]]


def of_kind(kind: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in CASES if case["kind"] == kind]


def shard(name: str) -> Shard:
    return Shard("n", "d", name)


def names(shards: Any) -> set[str]:
    return {s.table for s in shards}


def is_active(sequence: Sequences, item: Item[Any, frozenset[str]]) -> bool:
    """Tell whether the shard's DDL at this key is the one that shards are awaited for."""
    items = sequence.shards.get(item.shard, ())
    return sequence.active < len(items) and items[sequence.active].key == item.key


def not_done(sequence: Sequences, shards: set[Shard]) -> Sequences:
    """Take back `as_if_done`."""
    cut = {s: items[: sequence.active] if s in shards else items for s, items in sequence.shards.items()}
    return replace(sequence, shards=cut)


def place(text: str | int) -> float:
    """Return a position's order: that of a file, or of pos12 and endPos12, which ends behind it."""
    if isinstance(text, int):
        return text
    number = int(re.findall(r"\d+", text)[-1])
    return number + 0.5 if text.startswith("endPos") else number


def ran(table: str, position: str | int, ddls: list[str]) -> Item[Any, frozenset[str]]:
    return Item(shard(table), position, frozenset(ddls))


@pytest.mark.parametrize("case", of_kind("worker_sequence"))
def test_a_sequence_goes_on_when_all_have_run_its_active_ddl(case: dict[str, Any]) -> None:
    tables = {step["item"]["table"] for step in case["steps"] if "item" in step}
    sequence: Sequences = Sequence({shard(table): () for table in tables})
    for step in case["steps"]:
        expected = step["expect"]
        if step["op"] == "resolve_active_ddl":
            sequence = sequence.resolve()
            assert expected["all_resolved"] == (not sequence.under_way)
            first = sequence.order[sequence.active].key if sequence.under_way else None
            assert expected["next_active"] == first
        else:
            item = ran(step["item"]["table"], step["item"]["pos"], step["item"]["ddls"])
            if expected["error"]:
                assert expected["error"] == "ErrSyncUnitDDLWrongSequence"
                with pytest.raises(OutOfSequence):
                    sequence.add(item)
                continue
            sequence = sequence.add(item)
            assert is_active(sequence, item) == expected["active"]
            assert sequence.under_way == expected["in_sequence_sharding"]
        assert sequence.active == expected["active_index"]


class Group:
    """A worker's sharding group, as far as the cases look at it."""

    def __init__(self, tables: list[str]) -> None:
        self.sequence: Sequences = Sequence({shard(t): () for t in tables})

    def merge(self, step: dict[str, Any]) -> None:
        new = [t for t in step["tables"] if shard(t) not in self.sequence.shards]
        if step.get("expect", {}).get("error") == "ErrSyncUnitAddTableInSharding":
            # The lock itself says whether a new table fits (`pessimistic.coordinate`); here it has no schema at all.
            assert self.sequence.under_way
            return
        for table in new:
            self.sequence = self.sequence.joined(shard(table), self.sequence.active)
        assert (
            len(self.sequence.awaited if self.sequence.under_way else self.sequence.shards) == step["expect"]["remain"]
        )
        assert self.sequence.complete == step["expect"]["synced"]

    def leave(self, step: dict[str, Any]) -> None:
        for table in step["tables"]:
            self.sequence = self.sequence.without(shard(table))
        if step["expect"].get("error") in BETTER:
            assert all(shard(t) not in self.sequence.shards for t in step["tables"])
            return
        done = names(self.sequence.done)
        assert {s.table: s.table in done for s in self.sequence.shards} == step["expect"]["tables"]

    def try_sync(self, step: dict[str, Any]) -> None:
        if shard(step["table"]) not in self.sequence.shards:
            self.sequence = self.sequence.joined(shard(step["table"]), 0)
        item = ran(step["table"], step["pos"], step["ddls"])
        self.sequence = self.sequence.add(item)
        expected = step.get("expect")
        if expected is not None:
            assert self.sequence.complete == expected["synced"]
            assert is_active(self.sequence, item) == expected["active"]
            assert len(self.sequence.awaited) == expected["remain"]

    def check(self, step: dict[str, Any]) -> None:
        expected = step["expect"]
        first = self.sequence.order[self.sequence.active].key
        assert first == expected["first_location_unresolved"] == expected["active_ddl_first_location"]
        assert names(self.sequence.done) == set(expected["unresolved_synced"])
        assert names(self.sequence.awaited) == set(expected["unresolved_unsynced"])

    def passes(self, table: str, end: float) -> bool:
        """Tell whether a row that ends there comes out without waiting."""
        items = self.sequence.shards[shard(table)]
        return len(items) <= self.sequence.active or end <= place(items[self.sequence.active].key)

    def check_dml_before_active(self, step: dict[str, Any]) -> None:
        assert self.passes(step["table"], place(step["pos"])) == step["expect"]["before_active"]

    def dml_in_syncing(self, step: dict[str, Any]) -> None:
        assert self.passes(step["table"], place(step["end_pos"].split(" ")[0])) != step["expect"]["skip"]

    def resolve_active_ddl(self, step: dict[str, Any]) -> None:
        assert self.sequence.complete
        self.sequence = self.sequence.resolve()
        assert step["expect"]["all_resolved"] == (not self.sequence.under_way)

    def reset(self, step: dict[str, Any]) -> None:
        assert (None if not self.sequence.under_way else self.sequence.order) == step["expect"]["unresolved"]


@pytest.mark.parametrize("case", of_kind("worker_group"))
def test_a_group_waits_for_its_tables(case: dict[str, Any]) -> None:
    group = Group(case["tables"])
    for step in case["steps"]:
        operation: Callable[[dict[str, Any]], None] = getattr(group, step["op"])
        operation(step)


@pytest.mark.parametrize("case", of_kind("master_lock"))
def test_the_master_waits_for_its_sources(case: dict[str, Any]) -> None:
    owner = ran(case["owner"], "owner", case["ddls"])
    sequence: Sequences = Sequence({shard(s): () for s in case["sources"]}, (owner,))
    done: set[str] = set()
    for step in case["steps"]:
        expected = step["expect"]
        match step["op"]:
            case "try_sync":
                for new in {shard(s) for s in step["sources"] or ()} - sequence.shards.keys():
                    sequence = sequence.joined(new, sequence.active)
                item = ran(step["caller"], "here", step["ddls"])
                if expected.get("error"):
                    assert expected["error"] == "ErrMasterShardingDDLDiff"
                    with pytest.raises(OutOfSequence):
                        sequence.add(item)
                else:
                    sequence = sequence.add(item)
            case "force_synced":
                sequence = sequence.as_if_done(sequence.shards)
            case "revert_synced":
                sequence = not_done(sequence, {shard(s) for s in step["sources"]})
            case "mark_done":
                done.add(step["source"])
        for key, value in {
            "synced": sequence.complete,
            "remain": len(sequence.awaited),
            "ready": {s.table: s in sequence.done for s in sequence.shards},
            "resolved": done >= names(sequence.shards),
        }.items():
            assert expected.get(key, value) == value, (step, key)
