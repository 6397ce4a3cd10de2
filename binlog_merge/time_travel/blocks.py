"""Transactions of a range, forwards or backwards, in blocks: what a writer makes of a segment of the log.

A transaction may go on in the next block. Backwards the blocks wait in a temporary file, in the writer's own form.
"""

import pickle
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, Any, Generic, Protocol, Self, TypeVar

import numpy as np

from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.log.segments import Segment
from binlog_merge.log.table_changes import TableChanges
from binlog_merge.time_travel.selection import Reader

Made = TypeVar("Made")
Block = TypeVar("Block")
BlockOut = TypeVar("BlockOut", covariant=True)
Entries = tuple[Any, Any, Sequence[Made]]
"""The events of some rows, the rows' numbers, and what a writer makes of each: numbers in the segment."""


class Writer(Protocol[BlockOut]):
    """Makes blocks."""

    def block(self, chosen: list[TableChanges], backwards: bool) -> BlockOut:
        """Return what comes out of the chosen rows of a segment, the last one first if `backwards`; it pickles."""


def blocks(reader: Reader, writer: Writer[Block], backwards: bool) -> Iterator[Block]:
    """Yield the blocks of all segments, the last one first if `backwards`."""
    made = (writer.block(chosen, backwards) for chosen in reader.pieces())
    if not backwards:
        yield from made
        return
    with Waiting[Block]() as waiting:
        for block in made:
            waiting.add(block)
        yield from waiting.backwards()


def by_transaction(
    segment: Segment, entries: Sequence[Entries[Made]], backwards: bool
) -> Iterator[tuple[int, list[Made]]]:
    """Yield each transaction's number, and what was made of its rows, in the order of the log or `backwards`."""
    order, numbers, ends = ordered(segment, [(events, rows) for events, rows, _ in entries], backwards)
    made = [one for _, _, of in entries for one in of]
    made = [made[i] for i in order.tolist()]
    begin = 0
    for number, end in zip(numbers.tolist(), ends.tolist(), strict=True):
        yield number, made[begin:end]
        begin = end


def ordered(segment: Segment, entries: Sequence[tuple[Any, Any]], backwards: bool) -> tuple[Any, Any, Any]:
    """Return the places, in the entries one after the other, of what was made, in the order of the log or `backwards`.

    And the numbers of the transactions in that order, and where each one ends.
    """
    events = np.concatenate([each for each, _ in entries])
    if len(entries) == 1:  # those of one table are in order
        order = np.arange(len(events))
    else:
        order = np.lexsort((np.concatenate([rows for _, rows in entries]), events))
    if backwards:
        order = order[::-1]
    of = segment.events[events[order], k.E_TRANSACTION]
    ends = np.append(np.flatnonzero(np.diff(of)) + 1, len(of))
    return order, of[ends - 1], ends


class Waiting(Generic[Block]):
    """Blocks, which pickle, that come back in the reverse order of their coming."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="binlog-merge-undo-")  # noqa: SIM115 (closed in exit)
        self._sizes: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, block: Block) -> None:
        """Add a block."""
        self._sizes.append(self._file.write(pickle.dumps(block, pickle.HIGHEST_PROTOCOL)))

    def backwards(self) -> Iterator[Block]:
        """Yield the blocks, the last one first."""
        end = sum(self._sizes)
        for size in reversed(self._sizes):
            end -= size
            self._file.seek(end)
            block: Block = pickle.loads(self._file.read(size))
            yield block
