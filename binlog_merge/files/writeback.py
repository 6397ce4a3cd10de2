"""Write-behind: flushes what is written while more is written, and frees its pages for the rest.

A merge writes as much as it reads. Left to the kernel, that would push everything else out of the page cache (also the
nodes' files) and end in a long fsync. On a virtual machine, taking ever new pages is slow, too: reused pages are
written four to six times as fast as pages that the host must first allocate.
"""

import os
from queue import SimpleQueue
from threading import Thread

STEP = 32 << 20


class WriteBehind:
    """Flushes a file that is written sequentially, in steps of STEP bytes, in a thread of its own."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._noted = 0
        self._positions: SimpleQueue[int] = SimpleQueue()
        self._thread: Thread | None = None
        self._error: OSError | None = None

    def wrote(self, position: int) -> None:
        """Note that the file is written up to `position`."""
        if position - self._noted < STEP:
            return
        self._noted = position
        if self._thread is None:
            self._thread = Thread(target=self._flush, daemon=True)
            self._thread.start()
        self._positions.put(position)

    def truncated(self, position: int) -> None:
        """Note that the file was cut at `position` and goes on there."""
        self._noted = min(self._noted, position)

    def finish(self) -> None:
        """End the thread. Raises the OSError of a failed flush: the system reports it once, a later fsync would not."""
        if self._thread is not None:
            self._positions.put(-1)
            self._thread.join()
            self._thread = None
        if self._error is not None:
            raise self._error

    def _flush(self) -> None:
        while (position := self._positions.get()) >= 0:
            try:
                os.fdatasync(self._fd)
                os.posix_fadvise(self._fd, 0, position, os.POSIX_FADV_DONTNEED)
            except OSError as error:
                self._error = self._error or error
