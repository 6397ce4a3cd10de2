"""How many files and sockets a process may have open: a client to which the log is sent takes four."""

import contextlib
import resource
from typing import Final

from binlog_merge.binlog_server.limits import Limits

_OF_A_READER: Final = 4
_BESIDE: Final = 64
_ENOUGH: Final = 1 << 20
"""More is never asked for: some systems allow any number, and refuse to set it."""


def take_descriptors() -> int:
    """Let this process have as many file descriptors as it may; return how many."""
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if most == resource.RLIM_INFINITY else min(most, _ENOUGH)
    if least != resource.RLIM_INFINITY and least < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
            least = wanted
    return _ENOUGH if least == resource.RLIM_INFINITY else least


def too_few(descriptors: int, limits: Limits) -> str:
    """Return what to tell if so many file descriptors do not do for all clients that there may be, else ""."""
    needed = limits.connections * _OF_A_READER + limits.logins + _BESIDE
    if descriptors >= needed:
        return ""
    readers = max(0, descriptors - limits.logins - _BESIDE) // _OF_A_READER
    return (
        f"this process may open {descriptors} files and sockets (ulimit -Hn), enough for {readers} readers; the "
        f"{limits.connections} of --max-connections may take {needed}: raise it (LimitNOFILE= in a systemd unit), "
        "or lower --max-connections"
    )
