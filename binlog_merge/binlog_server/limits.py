"""What clients may take of a server, so that none of them, and no flood of them, is felt by the others.

A client to which the log is sent takes four file descriptors. Memory that clients have used and left goes back to the
system: the C library keeps it otherwise, in pieces that other threads do not find.
"""

import contextlib
import ctypes
import resource
import time
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a server and of each of its sessions.

    `connections` are logged in, `logins` are not yet: of those the oldest has to leave when one more comes. `statement`
    is in bytes: enough for GTID sets of thousands of intervals, and taken apart in some hundredths of a second.
    `variables` are the characters of all that a session has SET. `gtids` is in bytes of a request for a dump by GTIDs:
    some 65,000 intervals or 26,000 UUIDs, where the sets of replicas have hundreds.
    """

    connections: int = 200
    logins: int = 100
    statement: int = 1 << 18
    variables: int = 1 << 19
    gtids: int = 1 << 20


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


_EVERY: Final = 2.0


def take_of_system() -> None:
    """Let Arrow have its memory of the C library: its own allocator gives back nothing that ended threads have used."""
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())


class Memory:
    """Knows when there is something to give back. `left` is for any thread, `give_back` for the server's."""

    def __init__(self) -> None:
        self._trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None)  # there is none but in glibc
        self._left = False
        self._last = 0.0

    def left(self) -> None:
        """Note that a client has left."""
        self._left = True

    def give_back(self) -> None:
        """Give back what clients have left since the last time, which is not just now."""
        if self._trim is not None and self._left and time.monotonic() - self._last >= _EVERY:
            self._left = False
            self._trim(0)
            self._last = time.monotonic()
