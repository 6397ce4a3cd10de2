"""Computes the place at which each transaction comes out when some of them wait, on arrays: no object per branch.

A transaction that touches a waiting shard waits as a whole, and so do later ones that touch the same tables, or
tables that foreign keys link to these: a row must not come out before the one that it refers to. Branches are rows of
arrays, in order of their keys; the tables that a branch touches are given as the number of their set. A transaction
is the rows with the same key. The answer is a number per row: 0 if it stays, otherwise that of the place at which it
comes out, in order; or HELD.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from binlog_merge.moved_keys import DdlPlace
from binlog_merge.pipeline.coordinate.shards.values import Effect, Shard
from snapshot_store.tso import OrderKey

Column = npt.NDArray[np.int64]

HELD = 1 << 62


@dataclass(frozen=True, slots=True)
class Held:
    """The place of each row: `place` is 0, HELD, or 1 + the index among `places`."""

    place: Column
    places: tuple[DdlPlace, ...]


def hold(
    keys: Column,
    sets: Column,
    tables: Sequence[frozenset[Shard]],
    effects: Sequence[Effect],
    linked: Sequence[frozenset[Shard]] = (),
) -> Held:
    """Return the place at which each row comes out.

    `keys` is int64[4, n], the order keys' parts, in ascending order; `sets` int64[n] indexes `tables`, and `linked`,
    if there is any: the tables that foreign keys link to these.
    """
    holding = Holding(tables, effects, linked)
    return Held(holding.take(keys, sets), holding.places)


class Holding:
    """Computes the places of rows, in consecutive stretches; no transaction is split between two stretches."""

    def __init__(
        self,
        tables: Sequence[frozenset[Shard]],
        effects: Sequence[Effect],
        linked: Sequence[frozenset[Shard]] = (),
    ) -> None:
        shards = sorted(
            {effect.shard for effect in effects}
            | {effect.to for effect in effects if effect.to is not None}
            | {shard for found in tables for shard in found}
        )
        number = {shard: i for i, shard in enumerate(shards)}
        self.places = tuple(sorted({effect.place for effect in effects if effect.place is not None}))
        rank = {place: i + 1 for i, place in enumerate(self.places)}
        self._effects = sorted(effects, key=lambda e: (number[e.shard], e.key))
        bounds = np.searchsorted([number[e.shard] for e in self._effects], np.arange(len(shards) + 1))
        self._bounds = bounds.astype(np.int64)
        self._rank = np.array([HELD if e.place is None else rank[e.place] for e in self._effects], np.int64)
        self._tables = _flat([sorted(number[shard] for shard in found) for found in tables])
        others = [sorted(number[s] for s in found if s in number) for found in linked or [frozenset()] * len(tables)]
        self._linked = _flat(others)
        self._waits = np.zeros(len(shards), np.int64)  # by shard: the latest place that its effects so far require
        self._floor = np.zeros(len(shards), np.int64)  # by shard: the place of its last moved row
        self._following = self._bounds[:-1].copy()  # by shard: the index of its next effect
        self._hops = sorted((e for e in effects if e.to is not None), key=lambda e: e.key)
        moves = [(number[e.shard], number[e.to], i) for i, e in enumerate(self._hops) if e.to is not None]
        self._moves = np.array(moves, np.int64).reshape(-1, 3)  # from, to, and the first of the same statement
        for i in range(1, len(moves)):
            if self._hops[i].key == self._hops[i - 1].key:
                self._moves[i, 2] = self._moves[i - 1, 2]
        self._hopped = np.zeros(1, np.int64)  # how many of the moves are done

    def take(self, keys: Column, sets: Column) -> Column:
        """Return the places of the next stretch of rows, as in `Held.place`."""
        transaction = _transactions(keys)
        return _hold(
            transaction,
            np.ascontiguousarray(sets),
            *self._tables,
            *self._linked,
            self._bounds,
            np.array([_up_to(keys, transaction, e.key) for e in self._effects], np.int64),
            self._rank,
            np.array([0, *(_up_to(keys, transaction, p.key) for p in self.places)], np.int64),
            self._waits,
            self._floor,
            self._following,
            self._moves,
            np.array([_up_to(keys, transaction, e.key) for e in self._hops], np.int64),
            self._hopped,
        )


def _transactions(keys: Column) -> Column:
    """Return each row's transaction, counted from 0."""
    number = np.zeros(keys.shape[1], np.int64)
    for part in keys:
        number[1:] |= part[1:] != part[:-1]
    return np.cumsum(number, out=number)


def _up_to(keys: Column, transaction: Column, key: OrderKey) -> int:
    """Return how many transactions have at most this key."""
    rows = rows_at(keys, key)[1]
    return int(transaction[rows - 1]) + 1 if rows else 0


def rows_at(keys: Column, key: OrderKey) -> tuple[int, int]:
    """Return the first row with a key and the row after the last; both are where it would be if there is none."""
    low, high = 0, keys.shape[1]
    for part, column in zip(key, keys, strict=True):
        low, high = (low + int(np.searchsorted(column[low:high], part, side)) for side in ("left", "right"))
        if low == high:
            break
    return low, high


def _flat(lists: Sequence[Sequence[int]]) -> tuple[Column, Column]:
    starts = np.cumsum([0, *(len(found) for found in lists)], dtype=np.int64)
    return starts, np.array([number for found in lists for number in found], np.int64)


@njit(cache=True, nogil=True)
def _hold(
    transaction: Any,
    sets: Any,
    starts: Any,
    shards: Any,
    linked_starts: Any,
    linked: Any,
    bounds: Any,
    since: Any,
    rank: Any,
    before: Any,
    waits: Any,
    floor: Any,
    following: Any,
    moves: Any,
    moved: Any,
    hopped: Any,
) -> Any:
    """Walk the transactions; `since`, `before` and `moved` count the transactions up to an effect, a place and a
    rename.
    """
    n = len(transaction)
    out = np.zeros(n, np.int64)
    row = 0
    while row < n:
        end = row
        latest = 0
        while hopped[0] < len(moves) and moved[hopped[0]] <= transaction[row]:
            # A renamed table takes along the place its rows must come after; all tables of a statement at once.
            first, last = hopped[0], hopped[0]
            while last < len(moves) and moves[last, 2] == moves[first, 2]:
                last += 1
            carried = floor[moves[first:last, 0]]
            floor[moves[first:last, 0]] = 0
            for i in range(first, last):
                floor[moves[i, 1]] = max(floor[moves[i, 1]], carried[i - first])
            hopped[0] = last
        while end < n and transaction[end] == transaction[row]:
            for at in range(starts[sets[end]], starts[sets[end] + 1]):
                shard = shards[at]
                while following[shard] < bounds[shard + 1] and since[following[shard]] <= transaction[row]:
                    waits[shard] = max(waits[shard], rank[following[shard]])
                    following[shard] += 1
                latest = max(latest, waits[shard], floor[shard])
            for at in range(linked_starts[sets[end]], linked_starts[sets[end] + 1]):
                latest = max(latest, floor[linked[at]])
            end += 1
        if latest != HELD and before[latest] <= transaction[row]:
            latest = 0  # the place comes before the row
        if latest:
            for i in range(row, end):
                out[i] = latest
                for at in range(starts[sets[i]], starts[sets[i] + 1]):
                    floor[shards[at]] = max(floor[shards[at]], latest)
        row = end
    return out
