"""Where tests write: into memory where there is room, as servers and merges need a third less of a core there.

A disk takes its time from whoever writes it, and most of what tests write lives for seconds.
"""

import os
from pathlib import Path
from typing import Final

IN_MEMORY: Final = Path("/dev/shm")
_ROOM: Final = 6 << 30
"""Bytes that a whole run never has at once, with a margin."""


def write_into_memory() -> None:
    """Let pytest make its folders in memory, if there is room and PYTEST_DEBUG_TEMPROOT says nothing else."""
    if has_room(IN_MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))


def has_room(folder: Path) -> bool:
    """Return whether a folder takes what a run writes, programs to run among it."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    shut = found.f_flag & (os.ST_NOEXEC | os.ST_RDONLY)
    return not shut and os.access(folder, os.W_OK) and found.f_bavail * found.f_frsize >= _ROOM and _free() >= _ROOM


def _free() -> int:
    """Return the bytes of memory that nobody uses, or that could be had at once."""
    lines = Path("/proc/meminfo").read_text().splitlines() if Path("/proc/meminfo").exists() else []
    sizes = {name: int(rest.split()[0]) << 10 for name, _, rest in (line.partition(":") for line in lines)}
    return sizes.get("MemAvailable", 0)
