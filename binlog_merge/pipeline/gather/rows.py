"""The rows of one run of an output file: branches in global order, column by column."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from binlog_merge.pipeline.order.ordered import KEY, OWN
from binlog_merge.pipeline.scan.block import Column, read_block
from snapshot_store.tso import OrderKey


@dataclass(frozen=True)
class Rows:
    """The rows of one run, as columns. Rows of `order.held_rows` have a key of their own beside that of their place."""

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
        columns = {name: values[start:stop] for name, values in read_block(path).items()}
        return cls(
            columns, *(columns[n] for n in ("first", "start", "end", "node", "file", "flags", "commit_us", "before"))
        )

    def __len__(self) -> int:
        return len(self.first)

    def key(self, row: int) -> OrderKey:
        """Return the order key of a row."""
        return OrderKey(*(int(self.columns[name][row]) for name in ("tso", "transaction", "seq", "node_seq")))

    def own_key(self, row: int) -> OrderKey:
        """Return the order key at which a row stands in its node's log."""
        if not self.may_move:
            return self.key(row)
        return OrderKey(*(int(self.columns[name][row]) for name in OWN))

    @cached_property
    def moved(self) -> npt.NDArray[np.bool_]:
        """Tell of each row whether it comes out at another place than its own."""
        columns = self.columns
        return np.any([columns[name] != columns[own] for name, own in zip(KEY, OWN, strict=True)], axis=0)

    @property
    def may_move(self) -> bool:
        """Tell whether rows come out at places that are not their own."""
        return "ddl" in self.columns

    def is_moved(self, row: int) -> bool:
        """Tell whether a row comes out at another place than its own."""
        return self.may_move and bool(self.moved[row])

    def size(self, row: int) -> int:
        """Return the bytes of a row's branch."""
        return int(self.end[row] - self.start[row])

    def transaction_end(self, row: int) -> int:
        """Return the row behind the last one of the transaction that begins at `row`."""
        stop, step = row + 1, 64
        while stop < len(self):
            begins = np.flatnonzero(self.first[stop : stop + step])
            if len(begins):
                return stop + int(begins[0])
            stop += step
        return len(self)

    def edges(self, boundaries: Sequence[OrderKey]) -> list[int]:
        """Return the rows at which others of the boundaries lie behind than at the row before, or another place
        begins.

        What a moved row is decoded by are the boundaries behind its own key.
        """
        if not self.may_move:
            return list(self._behind(boundaries, KEY, 0, len(self)))
        new = np.ones(len(self), np.bool_)
        ddl = self.columns["ddl"] != 0
        new[1:] = (self.moved[1:] != self.moved[:-1]) | ddl[1:] | ddl[:-1]
        for name in KEY:
            new[1:] |= self.moved[1:] & (self.columns[name][1:] != self.columns[name][:-1])
        begins = [*np.flatnonzero(new).tolist(), len(self)]
        inside = (at for start, stop in pairwise(begins) for at in self._behind(boundaries, OWN, start, stop))
        return [*begins, *inside]

    def _behind(self, boundaries: Sequence[OrderKey], names: Sequence[str], start: int, stop: int) -> Iterator[int]:
        """Yield behind which of rows[start:stop], ascending by the columns `names`, boundaries lie among them."""
        columns = [self.columns[name] for name in names]
        key = lambda row: OrderKey(*(int(column[row]) for column in columns))  # noqa: E731
        if start < stop:
            for at in range(bisect_left(boundaries, key(start)), bisect_left(boundaries, key(stop - 1))):
                yield bisect_right(range(start, stop), boundaries[at], key=key) + start
