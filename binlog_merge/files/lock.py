"""One writer per output directory at a time.

The lock is one of the operating system (flock), so it ends with the process, however that ends. The lock file stays.
"""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from binlog_merge.errors import OutputBusy, io_error
from binlog_merge.files.source import directory_error

LOCK_NAME = ".lock"
_OF_MERGED = ("merge", "run")
"""What can be given another --merged, as the default remedy says."""


class OutputLock:
    """Locks an output directory, and creates it if necessary: `with OutputLock(out): …`. Raises OutputBusy.

    `what` is the word for the holder in the message; `name` that of the lock file.
    """

    def __init__(self, directory: str | os.PathLike[str], what: str = "merge", name: str = LOCK_NAME) -> None:
        self._directory = Path(directory)
        self._what = what
        self._name = name
        self._fd = -1

    def __enter__(self) -> Self:
        path = self._directory / self._name
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise directory_error(error, str(self._directory)) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
            os.close(fd)
            who = f" (process {holder})" if holder else ""
            raise OutputBusy(
                f"another {self._what}{who} is writing to this directory",
                file=str(self._directory),
                remedy=None if self._what in _OF_MERGED else "wait for it to end, or stop it",
            ) from None
        except OSError as error:
            os.close(fd)
            raise io_error(error, str(path)) from error
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)  # for people; the flock is what counts
        self._fd = fd
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
