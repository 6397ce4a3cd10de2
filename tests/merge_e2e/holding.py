"""Merges in which DDL of shards takes effect later, as somebody says, not as coordination finds.

So what the stages make of any effects can be compared with what the oracle makes of them.
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from binlog_merge.moved_keys import DdlPlace, key_of
from binlog_merge.pipeline import coordinated as coordinate_stage
from binlog_merge.pipeline.base.render_values import LogicalDdl
from binlog_merge.pipeline.coordinate import driver as coordinating
from binlog_merge.pipeline.coordinate.shards.values import Effect, Holds, Shard
from binlog_merge.pipeline.coordinate.value import Coordination
from snapshot_store.tso import ORIGIN, OrderKey
from tests.oracle.holding import Effect as OracleEffect
from tests.oracle.holding import Holding, PlacedDdl
from tests.oracle.holding import Place as OraclePlace


def holds_of(holding: Holding) -> Holds:
    """Return what the oracle is told as the stages are told it."""
    return Holds(
        tuple(Effect(Shard(e.node, *e.table), OrderKey(*e.key), _place(e.place), e.renames) for e in holding.effects),
        tuple(DdlPlace(OrderKey(*d.place[0]), d.place[1]) for d in holding.ddl),
    )


def _place(place: OraclePlace | None) -> DdlPlace | None:
    return None if place is None else DdlPlace(OrderKey(*place[0]), place[1])


@contextmanager
def coordinated(holding: Holding) -> Iterator[None]:
    """Let every merge within find what is said, as far as its logs reach."""
    known: list[Holding] = []
    floor = ORIGIN

    def coordinate(
        before: coordinating.CoordinationInput, sources: coordinating.CoordinationReader, limit: OrderKey
    ) -> Coordination:
        nonlocal floor
        known[:], floor = [holding.below(limit)], before.floor
        found = coordinating.coordinate(before, sources, limit)
        told = holds_of(known[0])
        return replace(found, holds=Holds(told.effects, tuple(p for p in told.ddl if p.key >= floor)))

    def logical_history(part: Any, ddls: Sequence[LogicalDdl], *rest: Any) -> Any:
        mine = [
            LogicalDdl(key_of(place), ddl.schema, ddl.sql)
            for place, ddl in zip(holds_of(known[0]).ddl, known[0].ddl, strict=True)
            if place.key >= floor
        ]
        return found_before(part, [*ddls, *mine], *rest)

    found_before = coordinating.logical_history
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coordinate_stage, "coordinate", coordinate)
        patch.setattr(coordinating, "logical_history", logical_history)
        yield


Key = tuple[int, int, int, int]


@dataclass(frozen=True)
class ShardStatement:
    """A DDL that a shard ran: where it stands, and the columns it renamed."""

    node: str
    table: tuple[str, str]
    key: Key
    renames: tuple[tuple[str, str], ...] = ()


def random_holding(
    rng: random.Random,
    keys: Sequence[Key],
    ran: Sequence[ShardStatement],
    shards: Sequence[tuple[str, tuple[str, str]]],
) -> Holding:
    """Return made-up effects of the DDL that shards ran, and of some that stand nowhere, among transactions with these
    keys. No effect is before its DDL, nor before an earlier one of its shard.
    """
    apart = sorted({key[:3] for key in keys})
    made_up: list[Key] = [(*key, 500) for key in rng.sample(apart, min(rng.randint(1, 12), len(apart)))]
    statements = [one for one in ran if rng.random() < 0.8]
    for node, table in rng.sample(list(shards), rng.randint(1, len(shards))):
        statements += [ShardStatement(node, table, key) for key in made_up if rng.random() < 0.3]
    # Events whose keys differ in nothing but the node have their places at the first of them: `in_order_of_keys`.
    stands = sorted({key[:3]: key for key in sorted({*made_up, *(one.key for one in ran)}, reverse=True)}.values())
    latest: dict[tuple[str, tuple[str, str]], OraclePlace | None] = {}
    effects: list[OracleEffect] = []
    for one in sorted(statements, key=lambda s: (s.key, s.node, s.table)):
        later = [key for key in stands if key >= one.key]
        before = latest.get((one.node, one.table), ((0, 0, 0, 0), 0))
        place = (
            None
            if before is None or not later or rng.random() < 0.1
            else max(before, (rng.choice(later[:9]), rng.choice([0, 0, 1, 2])))
        )
        latest[one.node, one.table] = place
        effects.append(OracleEffect(one.node, one.table, one.key, place, one.renames))
    places = {e.place for e in effects if e.place is not None and rng.random() < 0.8}
    places |= {(key, rng.choice([0, 1])) for key in rng.sample(stands, rng.randint(0, min(8, len(stands))))}
    return Holding(tuple(effects), tuple(_random_ddl(rng, sorted(places))))


def _random_ddl(rng: random.Random, places: Sequence[OraclePlace]) -> Iterator[PlacedDdl]:
    """Yield changes of the logical table, which get and lose columns that shards may have, and some that none has."""
    columns = list[str]()
    for number, place in enumerate(places):
        free = [name for name in ("a0", "a1", "a2", "a3") if name not in columns]
        action = rng.choice(["add", "add", "rename", "drop", "other"])
        if action == "add" and free:
            columns.append(rng.choice(free))
            sql = f"ADD COLUMN `{columns[-1]}` int DEFAULT '{number}'"
        elif action == "rename" and columns and free:
            old, new = columns.pop(rng.randrange(len(columns))), rng.choice(free)
            columns.append(new)
            sql = f"RENAME COLUMN `{old}` TO `{new}`"
        elif action == "drop" and columns:
            sql = f"DROP COLUMN `{columns.pop()}`"
        else:
            sql = f"ADD COLUMN `c{number}` varchar(9) DEFAULT 'c' FIRST"
        yield PlacedDdl(place, "s", f"ALTER TABLE `t` {sql}")
