"""Folders in TMPDIR that only this user can enter: one for each output that is written, those of readers and of tasks.

A reader's or a task's folder goes with its process; what a killed one has left is removed by the next that makes one.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final

from binlog_merge.errors import ConfigError, io_error

_READING: Final = "reading-"
_TASK: Final = "task-"
_LOCK: Final = ".lock"


def users_folder() -> Path:
    """Return the folder of this user in TMPDIR, made if necessary. Raises ConfigError if it belongs to another."""
    parent = Path(tempfile.gettempdir()) / f"binlog-merge-{os.getuid()}"
    try:
        parent.mkdir(mode=0o700, exist_ok=True)
        if parent.stat().st_uid != os.getuid():
            raise ConfigError("it belongs to another user", file=str(parent), remedy="set TMPDIR to another folder")
    except OSError as error:
        raise io_error(error, str(parent)) from error
    return parent


def reading_folder() -> AbstractContextManager[Path]:
    """Yield a new folder for a reader, which is removed at the end."""
    return _folder(_READING)


def scratch_folder() -> AbstractContextManager[Path]:
    """Yield a new folder for what a task writes for the moment; it is removed at the end."""
    return _folder(_TASK)


def remake(folder: Path) -> None:
    """Make a folder of this process anew if somebody who tidies up has removed it. Raises as `users_folder` does."""
    if not folder.exists():
        users_folder()
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise io_error(error, str(folder)) from error


@contextmanager
def _folder(prefix: str) -> Iterator[Path]:
    parent = users_folder()
    _sweep(parent, prefix)
    folder, fd = _made(parent, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(fd)


def _made(parent: Path, prefix: str) -> tuple[Path, int]:
    """Return a new folder and its lock, which is held; another one if a sweep came in between making and locking."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        with suppress(FileNotFoundError):
            fd = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(fd, fcntl.LOCK_EX)
            if (folder / _LOCK).exists():
                return folder, fd
            os.close(fd)


def _sweep(parent: Path, prefix: str) -> None:
    """Remove the folders of processes that are gone. One without a lock file is just being made, or being removed."""
    for folder in parent.glob(f"{prefix}*"):
        with suppress(OSError):
            fd = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(fd)
