"""Transactions put where coordination lets them: behind the DDL their shards wait for, whole, and in their order.

A transaction that touches a waiting shard waits as a whole, on all its nodes; one that comes later and touches any
table the waiting one touches comes out later than it. All others stay where they are. So the rows of one table of one
shard never change their order, and no transaction is torn.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from binlog_merge.shard.values import Effect, Name, Place, Shard
from snapshot_store.tso import OrderKey


@dataclass(frozen=True, slots=True)
class Touching:
    """A transaction, all its branches, and the physical tables it changes."""

    key: OrderKey
    tables: frozenset[Shard]


class Waits:
    """Where rows of a shard may come out at the earliest, and under which names their columns are found there."""

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

    def earliest(self, shard: Shard, key: OrderKey) -> Place | None:
        """Return the place before which rows at `key` do not come out; None if it is not known yet."""
        before = bisect_left(self._keys.get(shard, []), key)
        return Place(key) if before == 0 else _later(Place(key), self._earliest[shard][before - 1])

    def renames(self, shard: Shard, key: OrderKey, place: Place) -> tuple[tuple[str, str], ...]:
        """Return how columns have been renamed between a row's own place and the one it comes out at."""
        return tuple(pair for effect in self._between(shard, key, place) for pair in effect.renames)

    def name(self, shard: Shard, key: OrderKey, place: Place) -> Name | None:
        """Return of which logical table a row is where it comes out, if it is not what its shard's name says."""
        names = [effect.name for effect in self._between(shard, key, place) if effect.name is not None]
        return names[-1] if names else None

    def gone(self, shard: Shard, key: OrderKey, place: Place) -> bool:
        """Tell whether a row's table has been dropped or emptied between its own place and the one it comes out at."""
        return any(effect.gone for effect in self._between(shard, key, place))

    def _between(self, shard: Shard, key: OrderKey, place: Place) -> Iterator[Effect]:
        """Yield what has taken effect at a place on the table that a shard was at a key, whatever its name since."""
        goes: Shard | None = shard
        while goes is not None:
            behind = self._effects.get(goes, [])[bisect_right(self._keys.get(goes, []), key) :]
            goes = None
            for effect in behind:
                if effect.place is not None and effect.place <= place:
                    yield effect
                if effect.to is not None:
                    goes, key = effect.to, effect.key
                    break


def live(effects: Iterable[Effect], floor: OrderKey, limit: OrderKey) -> tuple[Effect, ...]:
    """Return the effects that still move rows: those below `limit`, less those that took effect below `floor`.

    What takes effect at or above the limit has no place yet.
    """
    found = [
        replace(effect, place=None) if effect.place is not None and effect.place.key >= limit else effect
        for effect in effects
        if effect.key < limit
    ]
    waits = [effect.place is None or effect.place.key >= floor for effect in found]
    # Where a table got another name behind the first of them, its rows still come behind those that wait.
    since = min((effect.key for effect, kept in zip(found, waits, strict=True) if kept), default=limit)
    return tuple(
        effect
        for effect, kept in zip(found, waits, strict=True)
        if kept or (effect.to is not None and effect.key >= since)
    )


def _latest(effects: Iterable[Effect]) -> Iterator[Place | None]:
    latest: Place | None = Place(OrderKey(0, 0, 0, 0))
    for effect in effects:
        latest = _later(latest, effect.place)
        yield latest


def _later(a: Place | None, b: Place | None) -> Place | None:
    return None if a is None or b is None else max(a, b)


def arrange(transactions: Iterable[Touching], waits: Waits) -> Iterator[tuple[Touching, Place | None]]:
    """Yield each transaction with the place it comes out at, None if it is held back; they come in order of key.

    Those of one place come out in order of key, behind the DDL that stands there.
    """
    floors: dict[Shard, Place | None] = {}
    hops = waits.hops()
    for transaction in transactions:
        while hops and hops[-1][0] < transaction.key:
            _carry_floors(floors, hops.pop()[1])
        place: Place | None = Place(transaction.key)
        for shard in transaction.tables:
            place = _later(place, waits.earliest(shard, transaction.key))
            place = _later(place, floors.get(shard, place))
        if place != Place(transaction.key):
            floors.update(dict.fromkeys(transaction.tables, place))
        yield transaction, place


def _carry_floors(floors: dict[Shard, Place | None], moves: Mapping[Shard, Shard]) -> None:
    """Let tables that get other names, all by one statement, take along behind what their rows must come."""
    carried = {to: floors.pop(shard) for shard, to in moves.items() if shard in floors}
    for to, floor in carried.items():
        floors[to] = _later(floor, floors.get(to, floor))


def in_order(placed: Sequence[tuple[Touching, Place | None]]) -> list[tuple[Touching, Place]]:
    """Return the transactions that come out, in the order they do."""
    found = [(transaction, place) for transaction, place in placed if place is not None]
    return sorted(found, key=lambda pair: (pair[1], pair[0].key))
