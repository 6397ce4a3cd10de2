"""What a session has set: variables, its default schema, the transaction in which it is."""

import contextlib
import ctypes
import resource
import time
from dataclasses import dataclass, field
from typing import Any, Final

from binlog_merge.binlog_server.definitions import Definitions
from binlog_merge.binlog_server.tables.session import Reads
from binlog_merge.binlog_server.variables import Facts
from binlog_merge.protocol.packets import Value


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


class Kept(dict[str, Value]):
    """Values by their names; `size` is how many characters all of both have. Set, `del`, `pop` and `clear` keep it.

    To count them anew with each would take longer the more there are.
    """

    size: int = 0

    def size_without(self, name: str) -> int:
        """Return the size without this variable."""
        return self.size - (_size(name, self[name]) if name in self else 0)

    def __setitem__(self, name: str, value: Value) -> None:
        self.size = self.size_without(name) + _size(name, value)
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        self.size = self.size_without(name)
        super().__delitem__(name)

    def pop(self, name: str, default: Value = None) -> Value:  # type: ignore[override]
        """Take a variable away; return its value, or the default."""
        self.size = self.size_without(name)
        return super().pop(name, default)

    def clear(self) -> None:
        """Take all away."""
        self.size = 0
        super().clear()


def _size(name: str, value: Value) -> int:
    return len(name) + len(str(value))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a transaction WITH CONSISTENT SNAPSHOT sees: the facts as it began, and the definitions as of their log."""

    facts: Facts
    definitions: Definitions


@dataclass(slots=True)
class Settings:
    """A session's settings: user variables as `@name`, session variables by their names.

    `database` is the character set and the collation of the default schema, None without one. `tls` is the version of
    TLS in use, "" without; `snapshot` is that of the transaction in which the session is.
    `version_prefix` stands before what VERSION() tells the client; `most_kept` limits the characters of all values and
    their names.
    """

    user: str
    connection_id: int
    tls: str = ""
    version_prefix: str = ""
    schema: str | None = None
    database: tuple[str, str] | None = None
    snapshot: Snapshot | None = None
    values: Kept = field(default_factory=Kept)
    most_kept: int = Limits().variables
    reads: Reads = field(init=False)

    def __post_init__(self) -> None:
        self.reads = Reads(self.values)

    def end(self) -> None:
        """End the transaction in which the session is."""
        self.snapshot = None
        self.reads.end()

    def either(self, *names: str) -> Value:
        """Return the value of the first of these variables that is set, None if none is."""
        return next((self.values[name] for name in names if self.values.get(name) is not None), None)
