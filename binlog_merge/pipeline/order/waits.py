"""The effects of DDL that rows of a shard wait for, and what becomes of rows that come out after them.

A transaction that touches a waiting shard waits as a whole, on all its nodes; one that comes later and touches any
table the waiting one touches comes out later than it. All others keep their places. So the rows of one table of one
shard never change their order, and no transaction is torn (`holding`).
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import replace

from binlog_merge.pipeline.coordinate.shards.values import Effect, Name, Shard
from binlog_merge.places import Place
from snapshot_store.tso import OrderKey


class Waits:
    """The effects on each shard, to look up what has happened to a row's table and columns before it comes out."""

    def __init__(self, effects: Iterable[Effect]) -> None:
        self._effects: dict[Shard, list[Effect]] = {}
        for effect in sorted(effects, key=lambda e: e.key):
            self._effects.setdefault(effect.shard, []).append(effect)
        self._keys = {shard: [e.key for e in effects] for shard, effects in self._effects.items()}

    def renames(self, shard: Shard, key: OrderKey, place: Place) -> tuple[tuple[str, str], ...]:
        """Return how columns have been renamed between a row's own place and the one it comes out at."""
        return tuple(pair for effect in self._between(shard, key, place) for pair in effect.renames)

    def name(self, shard: Shard, key: OrderKey, place: Place) -> Name | None:
        """Return the logical table of a row where it comes out, if it is not that of its shard's name."""
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
