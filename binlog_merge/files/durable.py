"""The few file operations that must survive a power cut. Each returns once its effect is on disk."""

import os
from pathlib import Path

from binlog_merge.errors import io_error


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
    temporary = path.with_name(f".{path.name}.part")
    try:
        temporary.write_bytes(data)
        sync_file(temporary)
        temporary.replace(path)
    except OSError as error:
        raise io_error(error, str(path)) from error
    sync_directory(path.parent)


def truncate_file(path: Path, size: int) -> None:
    """Cut a file to `size` bytes."""
    try:
        os.truncate(path, size)
    except OSError as error:
        raise io_error(error, str(path)) from error
    sync_file(path)
