"""Write-behind: what is written goes to the disk while more is written, and its pages are free again for that.

A merge writes as much as it reads. Left to the kernel, that would push everything else out of the page cache (also the
nodes' files) and end in a long fsync. Where memory is a virtual machine's, taking ever new pages is slow, too: pages
used again are written four to six times as fast as pages that the host must first find.
"""

import os
from queue import SimpleQueue
from threading import Thread

STEP = 32 << 20


class WriteBehind:
    """Flushes a file that is written front to back, step by step, in a thread of its own."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._noted = 0
        self._places: SimpleQueue[int] = SimpleQueue()
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
        self._places.put(position)

    def truncated(self, position: int) -> None:
        """Note that the file was cut at `position` and goes on there."""
        self._noted = min(self._noted, position)

    def finish(self) -> None:
        """End the thread. Raises the OSError that a flush met: the system tells it once, so a later fsync would not."""
        if self._thread is not None:
            self._places.put(-1)
            self._thread.join()
            self._thread = None
        if self._error is not None:
            raise self._error

    def _flush(self) -> None:
        while (position := self._places.get()) >= 0:
            try:
                os.fdatasync(self._fd)
                os.posix_fadvise(self._fd, 0, position, os.POSIX_FADV_DONTNEED)
            except OSError as error:
                self._error = self._error or error
