"""The rows of one run of an output file: branches in global order, as columns."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from binlog_merge.pipeline.base.blocks import read_rows
from binlog_merge.pipeline.base.pieces import Column
from binlog_merge.pipeline.order.ordered import KEY, OWN
from snapshot_store.tso import OrderKey


@dataclass(frozen=True)
class Rows:
    """The rows of one run, as columns. Rows of `order.held_rows` have their own key in addition to that of
    their place.
    """

    columns: Mapping[str, Column]
    first: Column
    start: Column
    end: Column
    node: Column
    file: Column
    flags: Column
    commit_us: Column
    before: Column

    @classmethod
    def load(cls, path: str, start: int, stop: int) -> "Rows":
        """Map rows[start:stop] of an order file."""
        columns = read_rows(path, start, stop)
        return cls(
            columns, *(columns[n] for n in ("first", "start", "end", "node", "file", "flags", "commit_us", "before"))
        )

    def __len__(self) -> int:
        return len(self.first)

    def key(self, row: int) -> OrderKey:
        """Return the order key of a row."""
        return OrderKey(*(int(self.columns[name][row]) for name in ("tso", "transaction", "seq", "node_seq")))

    def own_key(self, row: int) -> OrderKey:
        """Return the order key of a row in its node's log."""
        if not self.may_move:
            return self.key(row)
        return OrderKey(*(int(self.columns[name][row]) for name in OWN))

    @cached_property
    def moved(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the rows that come out at another key than their own."""
        columns = self.columns
        return np.any([columns[name] != columns[own] for name, own in zip(KEY, OWN, strict=True)], axis=0)

    @property
    def may_move(self) -> bool:
        """Return whether rows may come out at other keys than their own."""
        return "ddl" in self.columns

    def is_moved(self, row: int) -> bool:
        """Return whether a row comes out at another key than its own."""
        return self.may_move and bool(self.moved[row])

    def size(self, row: int) -> int:
        """Return the length of a row's branch in bytes."""
        return int(self.end[row] - self.start[row])

    def transaction_end(self, row: int) -> int:
        """Return the row after the last one of the transaction that begins at `row`."""
        stop, step = row + 1, 64
        while stop < len(self):
            begins = np.flatnonzero(self.first[stop : stop + step])
            if len(begins):
                return stop + int(begins[0])
            stop += step
        return len(self)

    def edges(self, boundaries: Sequence[OrderKey]) -> list[int]:
        """Return row indexes where the schema epoch changes, or where the rows moved to another place begin.

        A moved row is decoded by the schemas in force at its own key.
        """
        if not self.may_move:
            return list(self._changes(boundaries, KEY, 0, len(self)))
        new = np.ones(len(self), np.bool_)
        ddl = self.columns["ddl"] != 0
        new[1:] = (self.moved[1:] != self.moved[:-1]) | ddl[1:] | ddl[:-1]
        for name in KEY:
            new[1:] |= self.moved[1:] & (self.columns[name][1:] != self.columns[name][:-1])
        begins = [*np.flatnonzero(new).tolist(), len(self)]
        inside = (at for start, stop in pairwise(begins) for at in self._changes(boundaries, OWN, start, stop))
        return [*begins, *inside]

    def _changes(self, boundaries: Sequence[OrderKey], names: Sequence[str], start: int, stop: int) -> Iterator[int]:
        """Yield the first of rows[start:stop] after each boundary among them; the rows are sorted by the columns
        `names`.
        """
        columns = [self.columns[name] for name in names]
        key = lambda row: OrderKey(*(int(column[row]) for column in columns))  # noqa: E731
        if start < stop:
            for at in range(bisect_left(boundaries, key(start)), bisect_left(boundaries, key(stop - 1))):
                yield bisect_right(range(start, stop), boundaries[at], key=key) + start
