"""Where a server's binlog ends, as of which moment of the server's clock.

The clock is read first, then the end of the log. SHOW BINARY LOG STATUS takes the server's LOCK_log, and a transaction
gets the commit time in its GTID event under the same lock, right before its bytes are written. So whatever lies behind
that end commits at the clock's time or later, also with many commits at once, whatever they wait for afterwards
(sync_binlog, semi-synchronous replicas). Four cases are different, and the server vouches for nothing then:

- it is a replica: what it applies keeps the commit time of another server;
- it is in a replication group: a transaction gets its time before the group has agreed on it;
- it is older than 8.0.1: its GTID events have no commit time;
- a session sets original_commit_timestamp, as the output of mysqlbinlog does. No server tells of that.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from snapshot_store.server import CONNECTION_LOST, message_of

Ask = Callable[[str], list[tuple[Any, ...]]]
"""Runs a statement and returns its rows; raises what PyMySQL raises."""

_PARSE_ERROR: Final = 1064
_UNKNOWN_VARIABLE: Final = 1193
_FIRST_WITH_TIMES: Final = (8, 0, 1)


@dataclass(frozen=True, slots=True)
class Standing:
    """The server's log ends at `position` of `file`, as of `clock_us`, in microseconds since 1970.

    `doubt` is why later commits may have earlier times, None if they cannot. `file` is "" if there is no binlog.
    """

    server_uuid: str
    file: str
    position: int
    clock_us: int
    doubt: str | None = None


def standing_of(ask: Ask) -> Standing:
    """Ask a server. Raises what `ask` raises; the user needs REPLICATION CLIENT."""
    clock = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
    ((server_uuid, version, clock_us),) = ask(f"SELECT @@global.server_uuid, @@global.version, {clock}")
    doubt = _doubt(ask, str(version))
    status = _either(ask, "SHOW BINARY LOG STATUS", "SHOW MASTER STATUS")
    file, position = (str(status[0][0]), int(status[0][1])) if status else ("", 0)
    return Standing(str(server_uuid), file, position, int(clock_us), doubt)


def _doubt(ask: Ask, version: str) -> str | None:
    import pymysql

    numbers = tuple(map(int, re.findall(r"\d+", version)[:3]))
    if numbers < _FIRST_WITH_TIMES:
        return f"MySQL {version} writes no commit times"
    try:
        if _either(ask, "SHOW REPLICA STATUS", "SHOW SLAVE STATUS"):
            return "it is a replica, and what it applies keeps the commit times of another server"
        if _group(ask):
            return "it is in a replication group, whose transactions get their commit times before they are agreed on"
    except pymysql.MySQLError as error:
        if error.args[0] in CONNECTION_LOST:
            raise
        return f"whether it is a replica is not known: {message_of(error)}"
    return None


def _group(ask: Ask) -> bool:
    """Return whether group replication is configured; its variables are there once the plugin is loaded."""
    import pymysql

    try:
        return bool(ask("SELECT @@global.group_replication_group_name")[0][0])
    except pymysql.MySQLError as error:
        if error.args[0] != _UNKNOWN_VARIABLE:
            raise
        return False


def _either(ask: Ask, now: str, before: str) -> list[tuple[Any, ...]]:
    """Run a statement, or the one that older servers know by another name."""
    import pymysql

    try:
        return ask(now)
    except pymysql.MySQLError as error:
        if error.args[0] != _PARSE_ERROR:
            raise
        return ask(before)
