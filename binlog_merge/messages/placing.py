"""Where rows are in their transactions: numbered over all tables and in their own, across the parts of a log."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from binlog_merge.messages.rows import InTransaction, TableRows, TransactionCounts

Weights = Callable[[TableRows], Any]


def placing_of(maker: object) -> "Placing":
    """Return what places rows for a format."""
    return Placing(getattr(maker, "weights", None))


@dataclass
class Placing:
    """Places rows, part after part. With `weights`, which say as how many a row counts, tables are counted too."""

    weights: Weights | None = None
    _rank: int = -1
    _before: int = 0
    _counts: TransactionCounts = field(default_factory=Counter)

    def placed(self, found: Sequence[TableRows]) -> tuple[TableRows, ...]:
        """Return rows of a part with their places."""
        order = np.concatenate([rows.order for rows in found])
        turn = np.argsort(order, kind="stable")
        ranks = np.concatenate([rows.ranks for rows in found])[turn]
        starts = np.flatnonzero(np.diff(ranks, prepend=-1))
        sizes = np.diff(starts, append=len(ranks))
        goes_on = bool(ranks[0] == self._rank)
        weights = np.ones(len(ranks), np.int64)
        if self.weights is not None:
            weights = np.concatenate([self.weights(rows) for rows in found])[turn]
        before = np.cumsum(weights) - weights
        offsets = before - np.repeat(before[starts], sizes)
        offsets[: sizes[0]] += self._before if goes_on else 0
        last = np.zeros(len(ranks), bool)
        last[starts + sizes - 1] = True
        back = np.empty(len(turn), np.int64)
        back[turn] = np.arange(len(turn))
        ends = np.cumsum([len(rows) for rows in found])
        splits = np.split(back, ends[:-1])
        places = [InTransaction(offsets[own], last[own]) for own in splits]
        if self.weights is not None:
            places = self._counted(found, places, splits, (ranks, weights), goes_on)
        self._rank, self._before = int(ranks[-1]), int(offsets[-1] + weights[-1])
        return tuple(replace(rows, place=place) for rows, place in zip(found, places, strict=True))

    def _counted(
        self,
        found: Sequence[TableRows],
        places: list[InTransaction],
        splits: Sequence[Any],
        rows: tuple[Any, Any],
        goes_on: bool,
    ) -> list[InTransaction]:
        """Return places with the numbers of rows in their tables, and what each transaction has had of each table."""
        tables = np.empty(len(rows[0]), np.int64)
        names: list[tuple[str, str]] = []
        for each, own in zip(found, splits, strict=True):
            name = (each.table.schema, each.table.name)
            if name not in names:
                names.append(name)
            tables[own] = names.index(name)
        own_offsets = np.empty(len(tables), np.int64)
        counts: dict[int, TransactionCounts] = {}
        if goes_on:
            counts[self._rank] = self._counts
        for at, (rank, weight, table) in enumerate(zip(*(a.tolist() for a in (*rows, tables)), strict=True)):
            counted = counts.setdefault(rank, Counter())
            own_offsets[at] = counted[names[table]]
            counted[names[table]] += weight
        self._counts = counts[int(rows[0][-1])]
        return [replace(place, own=own_offsets[own], counts=counts) for place, own in zip(places, splits, strict=True)]
