"""The effects of DDL that rows of a shard wait for, and what happens to rows that come out after them.

A transaction that touches a waiting shard waits as a whole, on all its nodes. A later transaction that touches any
table of the waiting one comes out after it. All others keep their order. So the rows of one table of one shard never
change their order, and no transaction is torn (`hold_kernel`).
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import replace

from binlog_merge.pipeline.coordinate.shards.values import Effect, Name, Shard
from binlog_merge.places import Place
from snapshot_store.tso import OrderKey


class Waits:
    """The effects on each shard, for looking up what happened to a row's table and columns before the row comes out."""

    def __init__(self, effects: Iterable[Effect]) -> None:
        self._effects: dict[Shard, list[Effect]] = {}
        for effect in sorted(effects, key=lambda e: e.key):
            self._effects.setdefault(effect.shard, []).append(effect)
        self._keys = {shard: [e.key for e in effects] for shard, effects in self._effects.items()}

    def renames(self, shard: Shard, key: OrderKey, place: Place) -> tuple[tuple[str, str], ...]:
        """Return the column renames between a row's own key and the place at which it comes out."""
        return tuple(pair for effect in self._between(shard, key, place) for pair in effect.renames)

    def name(self, shard: Shard, key: OrderKey, place: Place) -> Name | None:
        """Return the logical table of a row where it comes out, None if it is the usual one of its shard."""
        names = [effect.name for effect in self._between(shard, key, place) if effect.name is not None]
        return names[-1] if names else None

    def gone(self, shard: Shard, key: OrderKey, place: Place) -> bool:
        """Return whether a row's table was dropped or truncated between its own key and the place at which it comes
        out.
        """
        return any(effect.gone for effect in self._between(shard, key, place))

    def _between(self, shard: Shard, key: OrderKey, place: Place) -> Iterator[Effect]:
        """Yield the effects up to a place on the table that a shard was at a key, following its renames."""
        goes: Shard | None = shard
        while goes is not None:
            later = self._effects.get(goes, [])[bisect_right(self._keys.get(goes, []), key) :]
            goes = None
            for effect in later:
                if effect.place is not None and effect.place <= place:
                    yield effect
                if effect.to is not None:
                    goes, key = effect.to, effect.key
                    break


def live(effects: Iterable[Effect], floor: OrderKey, limit: OrderKey) -> tuple[Effect, ...]:
    """Return the effects that still move rows: those below `limit`, except those that took effect below `floor`.

    An effect that takes effect at or above the limit has no place yet.
    """
    below = [
        replace(effect, place=None) if effect.place is not None and effect.place.key >= limit else effect
        for effect in effects
        if effect.key < limit
    ]
    waits = [effect.place is None or effect.place.key >= floor for effect in below]
    # If a table was renamed after the first of them, its rows still come after those that wait.
    since = min((effect.key for effect, kept in zip(below, waits, strict=True) if kept), default=limit)
    return tuple(
        effect
        for effect, kept in zip(below, waits, strict=True)
        if kept or (effect.to is not None and effect.key >= since)
    )
