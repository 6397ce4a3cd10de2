"""Where transactions come out, written to be read: the hold kernel must say the same of millions."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from binlog_merge.moved_keys import DdlPlace
from binlog_merge.pipeline.coordinate.shards.values import Effect, Shard
from snapshot_store.tso import OrderKey


@dataclass(frozen=True, slots=True)
class Touching:
    """A transaction, all its branches, and the physical tables it changes."""

    key: OrderKey
    tables: frozenset[Shard]


class Earliest:
    """Where rows of a shard may come out at the earliest, and which shards get other names."""

    def __init__(self, effects: Iterable[Effect]) -> None:
        self._effects: dict[Shard, list[Effect]] = {}
        for effect in sorted(effects, key=lambda e: e.key):
            self._effects.setdefault(effect.shard, []).append(effect)
        self._keys = {shard: [e.key for e in effects] for shard, effects in self._effects.items()}
        self._earliest = {shard: list(_latest(effects)) for shard, effects in self._effects.items()}

    def hops(self) -> list[tuple[OrderKey, dict[Shard, Shard]]]:
        """Return which shards get other names at which keys, the last first."""
        found: dict[OrderKey, dict[Shard, Shard]] = {}
        for effect in (effect for effects in self._effects.values() for effect in effects):
            if effect.to is not None:
                found.setdefault(effect.key, {})[effect.shard] = effect.to
        return sorted(found.items(), key=lambda pair: pair[0], reverse=True)

    def of(self, shard: Shard, key: OrderKey) -> DdlPlace | None:
        """Return the place before which rows at `key` do not come out; None if it is not known yet."""
        before = bisect_left(self._keys.get(shard, []), key)
        return DdlPlace(key) if before == 0 else _later(DdlPlace(key), self._earliest[shard][before - 1])


def _latest(effects: Iterable[Effect]) -> Iterator[DdlPlace | None]:
    latest: DdlPlace | None = DdlPlace(OrderKey(0, 0, 0, 0))
    for effect in effects:
        latest = _later(latest, effect.place)
        yield latest


def _later(a: DdlPlace | None, b: DdlPlace | None) -> DdlPlace | None:
    return None if a is None or b is None else max(a, b)


def arrange(transactions: Iterable[Touching], effects: Iterable[Effect]) -> Iterator[tuple[Touching, DdlPlace | None]]:
    """Yield each transaction with the place it comes out at, None if it is held back; they come in order of key.

    Those of one place come out in order of key, behind the DDL that stands there.
    """
    floors: dict[Shard, DdlPlace | None] = {}
    earliest = Earliest(effects)
    hops = earliest.hops()
    for transaction in transactions:
        while hops and hops[-1][0] < transaction.key:
            _carry_floors(floors, hops.pop()[1])
        place: DdlPlace | None = DdlPlace(transaction.key)
        for shard in transaction.tables:
            place = _later(place, earliest.of(shard, transaction.key))
            place = _later(place, floors.get(shard, place))
        if place != DdlPlace(transaction.key):
            floors.update(dict.fromkeys(transaction.tables, place))
        yield transaction, place


def _carry_floors(floors: dict[Shard, DdlPlace | None], moves: Mapping[Shard, Shard]) -> None:
    """Let tables that get other names, all by one statement, take along behind what their rows must come."""
    carried = {to: floors.pop(shard) for shard, to in moves.items() if shard in floors}
    for to, floor in carried.items():
        floors[to] = _later(floor, floors.get(to, floor))


def in_order(placed: Sequence[tuple[Touching, DdlPlace | None]]) -> list[tuple[Touching, DdlPlace]]:
    """Return the transactions that come out, in the order they do."""
    found = [(transaction, place) for transaction, place in placed if place is not None]
    return sorted(found, key=lambda pair: (pair[1], pair[0].key))
