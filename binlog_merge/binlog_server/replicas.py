"""Asks replicas what they do with what they were sent: of that a server of binlogs hears nothing.

A replica whose applier has stopped with an error (1062, say) goes on fetching, and looks like one that has everything.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any, Final

from binlog_merge.binlog_server.log import PublishedLog
from snapshot_store.server import ServerAddress, message_of

_EVERY: Final = 5.0
_SILENCE: Final = 10.0
_LONGEST: Final = 500
_PARSE_ERROR: Final = 1064


@dataclass(frozen=True, slots=True)
class Replica:
    """What a server says of the channels by which it follows this log.

    `server` is its address, without the password. `applies`: whether all their appliers run; None if it cannot be asked
    or follows another log, as `text` says. `error` is the number of the error with which one has stopped, 0 if none.
    """

    server: str
    applies: bool | None
    error: int = 0
    text: str = ""


class Replicas:
    """Asks servers every few seconds, each in a thread of its own, from the construction on until `close`.

    `logs` are the logs that they may follow.
    """

    def __init__(self, addresses: Iterable[ServerAddress], logs: Sequence[PublishedLog]) -> None:
        self._logs = logs
        self._closed = Event()
        self._found: dict[str, Replica] = {}
        for address in addresses:
            self._found[str(address)] = Replica(str(address), None, text="it has not answered yet")
            Thread(target=self._ask, args=(address,), daemon=True, name=f"asks {address}").start()

    def now(self) -> tuple[Replica, ...]:
        """Return what they said last, in the order in which they were given."""
        return tuple(self._found.values())

    def close(self) -> None:
        """Ask no more."""
        self._closed.set()

    def _ask(self, address: ServerAddress) -> None:
        connection: Any = None
        name = str(address)
        while not self._closed.is_set():
            try:
                connection = connection or address.connect(read_timeout=_SILENCE)
                self._found[name] = judged(name, channels(connection), *self._identity())
            except Exception as error:  # PyMySQL's, and what its sockets and TLS raise
                self._found[name] = Replica(name, None, text=f"it cannot be asked: {message_of(error)}"[:_LONGEST])
                with contextlib.suppress(Exception):
                    connection.close()
                connection = None
            self._closed.wait(_EVERY)

    def _identity(self) -> tuple[frozenset[str], frozenset[int]]:
        views = [log.view() for log in self._logs]
        return frozenset(view.header.cluster_uuid for view in views), frozenset(view.server_id for view in views)


def judged(
    server: str, channels: Sequence[Mapping[str, Any]], uuids: frozenset[str], server_ids: frozenset[int]
) -> Replica:
    """Return what rows of SHOW REPLICA STATUS say of the channels whose source has one of these UUIDs.

    MariaDB tells no UUID of a source: there its server id counts.
    """
    of_log = [
        channel
        for channel in channels
        if (channel["Source_UUID"] in uuids if "Source_UUID" in channel else channel["Source_Server_Id"] in server_ids)
    ]
    if not of_log:
        return Replica(server, None, text="none of its channels follows this log")
    stopped = next((channel for channel in of_log if channel["Replica_SQL_Running"] != "Yes"), None)
    if stopped is None:
        return Replica(server, True)
    error = int(stopped["Last_SQL_Errno"] or 0)
    text = " ".join(str(stopped["Last_SQL_Error"] or "its applier was stopped").split())
    return Replica(server, False, error, text[:_LONGEST])


def channels(connection: Any) -> list[dict[str, Any]]:
    """Return the rows of SHOW REPLICA STATUS, under MySQL 8's names of columns. Raises what PyMySQL raises."""
    import pymysql

    if "mariadb" in str(connection.get_server_info()).lower():
        return _rows(connection, "SHOW ALL SLAVES STATUS")
    try:
        return _rows(connection, "SHOW REPLICA STATUS")
    except pymysql.MySQLError as error:
        if error.args[0] != _PARSE_ERROR:
            raise
        return _rows(connection, "SHOW SLAVE STATUS")  # before 8.0.22


def _rows(connection: Any, sql: str) -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        names = [
            str(column[0]).replace("Slave_", "Replica_").replace("Master_", "Source_") for column in cursor.description
        ]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
