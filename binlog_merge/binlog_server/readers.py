"""The state note of a serve's readers: who is attached, and up to where the log was sent to each.

`status` shows them, and removals keep what they still have to get (`files.removal`).
"""

import contextlib
import re
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Final

from binlog_merge.binlog_server.log import DumpRequest, LogView, PublishedLog
from binlog_merge.errors import IoError
from binlog_merge.files.state_notes import (
    NOTES_FOLDER,
    REFRESH_SECONDS,
    SERVE_NOTES,
    remove_state_note,
    write_state_note,
)
from binlog_merge.log.rank_set import RankSet
from snapshot_store.server import ServerAddress, message_of

_EVERY: Final = 1.0
_SILENCE: Final = 10.0
_LONGEST: Final = 500
_PARSE_ERROR: Final = 1064

_ASK_EVERY: Final = 5.0


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
            self._closed.wait(_ASK_EVERY)

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


LONGEST_NAME: Final = 80
"""Characters of a name that a client gives, in what is shown and told."""
_WINDOW: Final = 5.0
_FORGOTTEN_SECONDS: Final = 86400.0


@dataclass(frozen=True, slots=True)
class Reader:
    """A client to which the log is sent. `since` is when the dump began, in seconds since 1970.

    Everything before `file`:`position` has been sent, in `sent` bytes of events. `waiting`: that is all that is
    published. `acknowledged` is the place before which a semi-synchronous replica has stored everything, "" if it said
    none. `tls` is the version, `compression` the algorithm in use; both may be "".
    """

    peer: str
    server_id: int
    uuid: str
    host: str
    since: float
    file: str
    position: int
    waiting: bool
    user: str = ""
    sent: int = 0
    acknowledged: str = ""
    tls: str = ""
    compression: str = ""


@dataclass(frozen=True, slots=True)
class Repeated:
    """A reader that has begun `times` times at `place`, from `since` until `latest`, in seconds since 1970."""

    reader: str
    place: str
    times: int
    since: float
    latest: float


class Pace:
    """Bytes a second over the last five to ten seconds. `add` is for one thread, `now` for any."""

    def __init__(self) -> None:
        self._window: tuple[float, int, float | None] = time.monotonic(), 0, None

    def add(self, size: int) -> None:
        """Count bytes as sent."""
        begun, sent, before = self._window
        now = time.monotonic()
        if now - begun >= _WINDOW:
            begun, sent, before = now, 0, sent / (now - begun)
        self._window = begun, sent + size, before

    def now(self) -> int:
        """Return the rate."""
        begun, sent, before = self._window
        passed = time.monotonic() - begun
        if before is None or passed >= _WINDOW:
            return int(sent / max(passed, 1.0))
        return int((sent + before * (_WINDOW - passed)) / _WINDOW)


class ReadersNote:
    """The note of one serve, for the thread that runs it; `remove` may be called by any.

    A note that cannot be written is reported once, and stops no serve.
    """

    def __init__(self, directory: Path, address: tuple[str, int], report: Callable[[str], None]) -> None:
        self._folder = directory / NOTES_FOLDER
        # Serves of one machine may listen on the same port of different addresses.
        where = re.sub(r"[^A-Za-z0-9.-]", "_", f"{socket.gethostname()}-{address[0]}-{address[1]}")
        self._path = self._folder / f"serve-{where}.json"
        self._address = address
        self._report = report
        self._begun = time.time()
        self._written = 0.0
        self._last: dict[str, Any] | None = None
        self._reported = self._removed = False
        self._lock = Lock()

    def refresh(
        self,
        readers: Callable[[], Sequence[Reader]],
        unmatched: Mapping[str, Sequence[str]] | None = None,
        replicas: Sequence[Replica] = (),
        repeats: Sequence[Repeated] = (),
    ) -> None:
        """Write the note if it has changed, at most once a second, and from time to time if it has not.

        `unmatched` are rules of streams that match no table, by stream; `replicas` what servers say that are asked;
        `repeats` who begins again and again.
        """
        now = time.monotonic()
        if self._written and now - self._written < _EVERY:
            return
        values = {
            "host": self._address[0],
            "port": self._address[1],
            "since": self._begun,
            "readers": [asdict(reader) for reader in readers()],
            "unmatched": {name: list(rules) for name, rules in (unmatched or {}).items()},
            "replicas": [asdict(replica) for replica in replicas],
            "repeats": [asdict(one) for one in repeats],
        }
        if values == self._last and now - self._written < REFRESH_SECONDS:
            return
        with self._lock:
            if self._removed:
                return
            if self._last is None:
                self._remove_forgotten()
            self._written, self._last = now, values
            try:
                write_state_note(self._path, values)
            except IoError as error:
                self._last = None  # the next second tries again
                if not self._reported:
                    self._report(
                        "`status` will not show the readers, and `retention` and `purge` may remove what they still "
                        f"have to get: {error.message} ({error.file})"
                    )
                self._reported = True

    def remove(self) -> None:
        """Remove the note, for good."""
        with self._lock, contextlib.suppress(IoError):
            self._removed = True
            remove_state_note(self._path)

    def _remove_forgotten(self) -> None:
        """Remove notes that a killed serve left long ago, under another host's name or port."""
        with contextlib.suppress(OSError):
            for path in self._folder.glob(SERVE_NOTES):
                if time.time() - path.stat().st_mtime > _FORGOTTEN_SECONDS:
                    path.unlink(missing_ok=True)


OFTEN: Final = 3
_SETTLED: Final = 600.0
"""Seconds without another beginning after which a reader is over it, or gone: nobody waits longer to start it again."""
_MOST: Final = 1000


Who = tuple[str, str, int]
At = RankSet | tuple[str, int]


class Repeats:
    """Counts at which place each reader begins, one after the other; for any thread.

    A reader is known by its user, UUID (else its address) and server id. `clock` returns seconds since 1970.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = Lock()
        self._begun: dict[Who, tuple[At, Repeated]] = {}

    def begins(self, reader: Reader, start: DumpRequest, view: LogView, place: str) -> None:
        """Take a beginning; `place` is what it is called. A reader that has the whole log has kept everything."""
        address = reader.peer.rpartition(":")[0]
        who = reader.user, reader.uuid or address, reader.server_id
        at = _at(view, start)
        name = f"{reader.uuid or address}, server id {reader.server_id}, user {reader.user}"
        with self._lock:
            before, now = self._begun.pop(who, None), self._clock()
            if at is None:
                return
            if before is None or before[0] != at or now - before[1].latest > _SETTLED:
                repeated = Repeated(name, place, 1, now, now)
            else:
                repeated = replace(before[1], times=before[1].times + 1, latest=now)
            self._begun[who] = at, repeated
            if len(self._begun) > _MOST:
                del self._begun[next(iter(self._begun))]  # who has not come for the longest time

    def now(self) -> tuple[Repeated, ...]:
        """Return the readers that have begun often at one place, the last time not long ago."""
        with self._lock:
            repeated = [one for _, one in self._begun.values()]
        return tuple(one for one in repeated if one.times >= OFTEN and self._clock() - one.latest <= _SETTLED)


def _at(view: LogView, start: DumpRequest) -> At | None:
    """Return a place in a form that is equal for equal places; None at the end of the log."""
    if start.has is not None and not start.file:
        has = view.ranks_of(start.has)
        return has if (RankSet.upto(view.state.rank) - has).intervals else None
    at = start.file or view.name(view.first), start.position
    return at if view.size_behind(*at) else None
