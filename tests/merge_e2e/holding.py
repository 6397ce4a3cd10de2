"""Merges in which DDL of shards takes effect later, as somebody says, not as coordination finds.

So what the stages make of any effects can be compared with what the oracle makes of them.
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from binlog_merge.job.schemas import Coordination, SchemaWork
from binlog_merge.merge.render import LogicalDdl
from binlog_merge.shard.values import Effect, Place, Shard
from binlog_merge.stages.holds import Holds, key_of
from snapshot_store.tso import OrderKey
from tests.oracle.holding import Holding
from tests.oracle.holding import Place as OraclePlace


def holds_of(holding: Holding) -> Holds:
    """Return what the oracle is told as the stages are told it."""
    return Holds(
        tuple(Effect(Shard(e.node, *e.table), OrderKey(*e.key), _place(e.place), e.renames) for e in holding.effects),
        tuple(Place(OrderKey(*d.place[0]), d.place[1]) for d in holding.ddl),
    )


def _place(place: OraclePlace | None) -> Place | None:
    return None if place is None else Place(OrderKey(*place[0]), place[1])


@contextmanager
def coordinated(holding: Holding) -> Iterator[None]:
    """Let every merge within find what is said, as far as its logs reach."""
    known: list[Holding] = []
    real_coordinate, real_logical = SchemaWork.coordinate, SchemaWork._logical

    def coordinate(self: SchemaWork, limit: OrderKey, server_version: int) -> Coordination:
        known[:] = [holding.below(limit)]
        found = real_coordinate(self, limit, server_version)
        told = holds_of(known[0])
        return replace(found, holds=Holds(told.effects, tuple(p for p in told.ddl if p.key >= self.floor)))

    def logical(self: SchemaWork, part: Any, ddls: Sequence[LogicalDdl], *rest: Any) -> list[LogicalDdl]:
        mine = [
            LogicalDdl(key_of(place), ddl.schema, ddl.sql, 0, 0, 255, None)
            for place, ddl in zip(holds_of(known[0]).ddl, known[0].ddl, strict=True)
            if place.key >= self.floor
        ]
        return real_logical(self, part, [*ddls, *mine], *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SchemaWork, "coordinate", coordinate)
        patch.setattr(SchemaWork, "_logical", logical)
        yield


def random_holding(
    rng: random.Random,
    keys: Sequence[tuple[int, int, int, int]],
    of_nodes: Sequence[tuple[int, int, int, int]],
    shards: Sequence[tuple[str, tuple[str, str]]],
) -> Holding:
    """Return effects of made-up DDL among transactions with these keys; `of_nodes` are keys of DDL that stand there.

    No effect is before its DDL, nor before an earlier one of its shard.
    """
    from tests.oracle.holding import Effect as Told
    from tests.oracle.holding import PlacedDdl

    chosen = rng.sample(sorted({key[:3] for key in keys}), min(rng.randint(1, 12), len({key[:3] for key in keys})))
    stands = sorted({(*key, 500) for key in chosen} | set(rng.sample(list(of_nodes), min(len(of_nodes), 3))))
    effects: list[Told] = []
    for node, table in rng.sample(list(shards), rng.randint(1, len(shards))):
        latest: OraclePlace | None = ((0, 0, 0, 0), 0)
        for key in sorted(rng.sample(stands, min(len(stands), rng.choice([1, 1, 2, 3])))):
            later = [s for s in stands if s >= key]
            place: OraclePlace | None = (rng.choice(later), rng.choice([0, 0, 1, 2]))
            if rng.random() < 0.15 or latest is None:
                place = None
            latest = None if place is None or latest is None else max(latest, place)
            effects.append(Told(node, table, key, latest))
    places = {e.place for e in effects if e.place is not None and rng.random() < 0.8}
    places |= {(key, rng.choice([0, 1])) for key in rng.sample(stands, rng.randint(0, len(stands)))}
    ddl = []
    for number, place in enumerate(sorted(places)):
        sql = rng.choice(["ADD COLUMN `c{n}` int NOT NULL DEFAULT '{n}'", "ADD COLUMN `c{n}` varchar(9) FIRST"])
        ddl.append(PlacedDdl(place, "s", f"ALTER TABLE `t` {sql.format(n=number)}"))
    return Holding(tuple(effects), tuple(ddl))
