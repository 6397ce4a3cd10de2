"""Whether a disk has room: what is written to a full one is not lost, but waits."""

import errno
import os
from pathlib import Path
from typing import Final

from binlog_merge.errors import MergeError

ROOM: Final = 16 << 20
"""Bytes: with less a round, or a capture, soon cannot go on."""

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


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
