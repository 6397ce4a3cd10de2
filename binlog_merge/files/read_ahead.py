"""Reads a remote file ahead of its reader, which asks for one small range after the other, mostly forward.

A request to a store takes a while to be answered, however little it asks for. So a file is asked for in blocks, and the
next ones while the reader works on what it has. A range that lies apart is read alone: it says nothing of what follows.
"""

import os
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import lru_cache
from typing import Final

from binlog_merge.files.source import Closing, Source

BLOCK: Final = 8 << 20
LEAST_BLOCK: Final = 256 << 10
_ALL_BLOCKS: Final = 48 << 20
MOST_HELD: Final = 96 << 20
"""So much may the files of a reader hold before those are released that it does not read now."""
_AHEAD: Final = 2
_TURNS: Final = 3
"""So many ranges in a row that lie apart, but near each other, are where the reader goes on."""
_THREADS: Final = 8


def block_size(files: int) -> int:
    """Return the size of blocks, in bytes, for so many files that are read side by side: memory stays bounded."""
    return min(BLOCK, max(LEAST_BLOCK, _ALL_BLOCKS // max(files, 1)))


class ReadAhead(Closing):
    """A source that several threads may read at once, in blocks; what begins at `stop` or later is not read ahead."""

    def __init__(self, source: Source, block: int, stop: int = 0) -> None:
        self._source, self._block = source, block
        self.size, self.stop = source.size, stop
        self._blocks: dict[int, Future[bytearray]] = {}
        self._asked: list[Future[bytearray]] = []
        self._next: int | None = None  # the block that is read next if the reader goes on as before
        self._apart: list[int] = []  # the blocks of the last ranges, as long as they lay apart

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill `buffer` from `offset` on; see Source."""
        done, end = 0, max(offset, min(self.size, offset + len(buffer)))
        while offset + done < end:
            at = offset + done
            block = self._held(at // self._block)
            if block is None:
                return done + self._source.read_into(buffer[done : end - offset], at)
            begin = at % self._block
            part = memoryview(block)[begin : begin + end - at]
            if not part:  # the file is shorter than it was
                return done
            buffer[done : done + len(part)] = part
            done += len(part)
        return done

    @property
    def held(self) -> int:
        """Return how many bytes it holds, or has asked for."""
        return len(self._blocks) * self._block

    def release(self) -> None:
        """Forget what is held: the reader is elsewhere."""
        self._drop()
        self._asked = [asked for asked in self._asked if not asked.done()]

    def _held(self, number: int) -> bytearray | None:
        """Return a block, None if it lies apart from those that are read one after the other."""
        if number not in self._blocks and not self._goes_on(number):
            return None
        self._apart.clear()
        for wanted in range(number, number + 1 + _AHEAD):
            if wanted not in self._blocks and (wanted == number or wanted * self._block < min(self.size, self.stop)):
                self._blocks[wanted] = _threads(os.getpid()).submit(self._read, wanted)
                self._asked = [asked for asked in self._asked if not asked.done()] + [self._blocks[wanted]]
        self._next = max(self._next or 0, number + 1)
        for passed in [held for held in self._blocks if held < self._next - 2]:
            del self._blocks[passed]
        return self._blocks[number].result()

    def _goes_on(self, number: int) -> bool:
        """Return whether a block that is not held is the next one, or one where the reader goes on from now."""
        if number * self._block >= self.stop:
            return False
        if self._next is None or number == self._next:
            return True
        if self._apart and not 0 <= number - self._apart[-1] <= 1:
            self._apart.clear()
        self._apart.append(number)
        if len(self._apart) < _TURNS:
            return False
        self._drop()
        return True

    def _drop(self) -> None:
        for future in self._blocks.values():
            future.cancel()
        self._blocks, self._next = {}, None

    def _read(self, number: int) -> bytearray:
        begin = number * self._block
        block = bytearray(min(self._block, self.size - begin))
        with memoryview(block) as view:
            got = self._source.read_into(view, begin)
        del block[got:]
        return block

    def close(self) -> None:
        """Close the source, when no thread reads it any more."""
        self._drop()
        wait(self._asked)
        self._source.close()


@lru_cache(maxsize=1)
def _threads(process: int) -> ThreadPoolExecutor:
    """Return the threads of a process: those of its parent did not come along."""
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="read-ahead")
