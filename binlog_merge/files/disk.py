"""The disk: file operations that must survive a power cut, write-behind, and whether there is room.

Each of the former returns once its effect is on disk. Write-behind flushes what is written while more is written, and
frees its pages for the rest. A merge writes as much as it reads. Left to the kernel, that would push everything else
out of the page cache (also the nodes' files) and end in a long fsync. On a virtual machine, taking ever new pages is
slow, too: reused pages are written four to six times as fast as pages that the host must first allocate.

What is written to a full disk is not lost, but waits.
"""

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Final

from binlog_merge.errors import MergeError, io_error
from binlog_merge.whole_files import write_whole


def sync_file(path: Path) -> None:
    """Flush a file's bytes to disk."""
    _sync(path, os.O_RDONLY)


def sync_directory(path: Path) -> None:
    """Flush a directory's entries to disk: names made, changed and removed in it."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    try:
        fd = os.open(path, flags | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise io_error(error, str(path)) from error


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file's contents atomically: readers see the old or the new contents, never a mixture."""
    write_whole(path, data, synced=True)
    sync_directory(path.parent)


def truncate_file(path: Path, size: int) -> None:
    """Cut a file to `size` bytes."""
    try:
        os.truncate(path, size)
    except OSError as error:
        raise io_error(error, str(path)) from error
    sync_file(path)


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


ROOM: Final = 16 << 20
"""Bytes: with less a round, or a capture, soon cannot go on."""

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True, slots=True)
class Room:
    """What a disk still takes of programs that are not root's: bytes, of how many; whether it takes a file more."""

    free_bytes: int
    total_bytes: int
    files_free: bool

    @property
    def is_too_little(self) -> bool:
        """Return whether there is no room for what a round, or a capture, writes."""
        return self.free_bytes < ROOM or not self.files_free


def room_at(path: Path) -> Room | None:
    """Return what is free of the disk that has a file, or would have it; None if that cannot be told."""
    there = next((folder for folder in (path, *path.absolute().parents) if folder.exists()), path)
    try:
        disk = os.statvfs(there)
    except OSError:
        return None
    return Room(disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize, disk.f_favail > 0 or not disk.f_files)


def for_want_of_room(error: MergeError) -> bool:
    """Return whether an error is that of a disk, or of a quota, that is full."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in _FULL


def has_room(directory: Path) -> bool:
    """Return whether a file of `ROOM` bytes can be made in a directory; it is removed again.

    True also if something else than room is wanting: whoever writes there finds that out, and says it.
    """
    path = directory / ".room.part"
    try:
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, ROOM)
    except OSError as error:
        return error.errno not in _FULL
    finally:
        path.unlink(missing_ok=True)
    return True
