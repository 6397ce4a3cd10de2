"""Waits for files in folders to change: at once where the system tells of it (inotify), else by looking again.

Of a folder on a network or in a FUSE file system it tells only what this host writes, so these are looked at again and
again, as are folders of systems without inotify.
"""

import contextlib
import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from select import POLLIN, poll
from threading import Event
from types import TracebackType
from typing import Any, Final, Self

LOCAL: Final = frozenset({"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "tmpfs", "xfs", "zfs"})
"""The types of file systems that only this host writes to."""
_MOUNTS: Final = Path("/proc/self/mountinfo")
_STOPS_WITHIN: Final = 0.25
"""How often a wait looks whether it is to stop, in seconds."""


class FolderWatch:
    """Tells that files in folders may have changed; `fileno` is for a selector, and readable then.

    Of the files in a folder those of `name` count; None: all. `tells` is false where nothing tells of changes: nothing
    ever becomes readable, and who waits must look.
    """

    def __init__(self, folders: Sequence[str | Path], name: str | None = None) -> None:
        self.folders = folders
        self._name = name
        self._inotify: Any = None
        with contextlib.suppress(OSError, ImportError):  # no watch is left for this user; another system
            self._inotify = _watching(folders)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def tells(self) -> bool:
        """Return whether changes are told of."""
        return self._inotify is not None

    def fileno(self) -> int:
        """Return what becomes readable when files change. Raises ValueError where nothing tells of changes."""
        if self._inotify is None:
            raise ValueError("nothing tells of changes")
        return int(self._inotify.fileno())

    def take(self) -> bool:
        """Return whether files have changed since this was last asked; where nothing tells of changes, True."""
        if self._inotify is None:
            return True
        # An event without a name is of a folder, or says that events were lost.
        return any(self._name in (None, event.name) or not event.name for event in self._inotify.read(timeout=0))

    def wait(self, stop: Event, seconds: float, every: float) -> None:
        """Return when files have changed since the last wait, at a stop, or after so many `seconds`; after `every` if
        nothing tells of changes.
        """
        if self._inotify is None:
            stop.wait(min(seconds, every))
            return
        told = poll()  # not select: it knows no descriptor above 1023
        told.register(self._inotify, POLLIN)
        end = time.monotonic() + seconds
        while not stop.is_set() and (left := end - time.monotonic()) > 0:
            if told.poll(1000 * min(left, _STOPS_WITHIN)) and self.take():
                return

    def close(self) -> None:
        """Forget the folders. Closing twice is allowed."""
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None


def _watching(folders: Iterable[str | Path]) -> Any:
    """Return an inotify instance of all folders; None if one is not local. Raises OSError, and ImportError."""
    if sys.platform != "linux":
        return None
    from inotify_simple import INotify, flags

    paths = [Path(folder) for folder in folders]
    types = _types_of_file_systems()
    if not paths or any(types.get(path.stat().st_dev) not in LOCAL for path in paths):
        return None
    mask = flags.CREATE | flags.DELETE | flags.MODIFY | flags.MOVED_TO | flags.MOVED_FROM
    inotify = INotify(nonblocking=True)
    try:
        for path in paths:
            inotify.add_watch(path, mask)
    except OSError:
        inotify.close()
        raise
    return inotify


def _types_of_file_systems() -> dict[int, str]:
    """Return the type of the file system of each device that is mounted (proc_pid_mountinfo(5)).

    A file system with several devices of its own, as btrfs has for each subvolume, may be missing.
    """
    types = {}
    for line in _MOUNTS.read_text().splitlines():
        before, _, after = line.partition(" - ")
        major, minor = before.split()[2].split(":")
        types[os.makedev(int(major), int(minor))] = after.split()[0]
    return types
