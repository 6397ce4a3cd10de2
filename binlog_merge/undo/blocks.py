"""Transactions of a range, forwards or backwards, as a writer gets them: pieces that may go on in the next block.

A segment of the log becomes a block. Backwards the blocks wait in a temporary file, in the writer's own form.
"""

import pickle
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import IO, Any, Generic, Protocol, Self, TypeVar

from binlog_merge.log.reader import Begin
from binlog_merge.log.segments import Segment
from binlog_merge.undo.selection import Chosen, Reader
from snapshot_store.tso import OrderKey

Row = TypeVar("Row")
Made = TypeVar("Made")
Block = TypeVar("Block")
MadeOut = TypeVar("MadeOut", covariant=True)
Entry = tuple[int, int, int, Row]
"""(transaction, event, row, what the writer makes of it): numbers in the segment."""


class Writer(Protocol[Row, MadeOut]):
    """What a writer makes of rows, and of those of a transaction in the order in which they come out."""

    def rows(self, segment: Segment, chosen: Chosen) -> list[Entry[Row]]:
        """Return what comes out of chosen rows, in any order."""

    def joined(self, rows: Sequence[Row]) -> MadeOut:
        """Return what waits for its turn; it pickles."""


@dataclass(frozen=True, slots=True)
class Part(Generic[Made]):
    """What a segment has of a transaction."""

    begin: Begin
    key: OrderKey | None
    made: Made

    def __reduce__(self) -> tuple[Any, ...]:
        # As a dataclass pickles itself, hundreds of thousands take seconds.
        return Part, (self.begin, self.key, self.made)


def parts(reader: Reader, writer: Writer[Row, Made], backwards: bool) -> Iterator[Part[Made]]:
    """Yield the parts of transactions, the last one first if `backwards`; neighbours may be of one transaction."""
    blocks = (_parts_of(segment, chosen, writer, backwards) for segment, chosen in reader.pieces())
    if not backwards:
        for block in blocks:
            yield from block
        return
    with Waiting[list[Part[Made]]]() as waiting:
        for block in blocks:
            waiting.add(block)
        for block in waiting.backwards():
            yield from block


def _parts_of(segment: Segment, chosen: list[Chosen], writer: Writer[Row, Made], backwards: bool) -> list[Part[Made]]:
    entries = [entry for each in chosen for entry in writer.rows(segment, each)]
    # Of one table they are in order but for the operations, so that this is near to nothing.
    entries.sort(key=itemgetter(0, 1, 2), reverse=backwards)
    return [
        Part(segment.begin(number), segment.key(number), writer.joined([entry[3] for entry in of]))
        for number, of in groupby(entries, key=itemgetter(0))
    ]


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
