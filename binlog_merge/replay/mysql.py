"""A MySQL server as the target: rows go in as the server's own row events, in one transaction with the position.

    BEGIN; BINLOG '<table map, rows>'; …; UPDATE replay_position SET `rank` = …; COMMIT

The server applies the events as a replica would: every type byte for byte, partial JSON, tables without keys, foreign
keys; triggers do not fire again. A row that is not there, or is there already, is an error. The position counts
transactions of one cluster; it is kept in a schema of ours, with a lock that lets in one replay at a time. The user
needs REPLICATION_APPLIER (or BINLOG_ADMIN with SESSION_VARIABLES_ADMIN, or SUPER) beside the rights on the tables.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from binlog_merge.binlog.constants import EventType, RowsFlag
from binlog_merge.binlog.header import RawEvent, pack_event
from binlog_merge.binlog.rows import RowsEvent
from binlog_merge.errors import ReplayStopped, ServerRefused, TargetBusy
from binlog_merge.files.failpoint import failpoint
from binlog_merge.replay.reader import Rows
from snapshot_store.introspect import ServerAddress

LOST: Final = frozenset({1053, 1152, 1153, 1184, 2003, 2006, 2013, 2055, 3169, 4031})
"""Errors of a connection that is gone: https://dev.mysql.com/doc/mysql-errors/en/."""
RETRY: Final = frozenset({1205, 1213, 3572})
"""Lock wait timeout, deadlock, NOWAIT: the same again may work."""
META_SCHEMA: Final = "binlog_merge"
_STATEMENT_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class TargetPosition:
    """How far a target is: `rank` transactions are applied, and `step` parts of the DDL behind them.

    `intent` is the part that was begun, with the state of its tables before; None where none was.
    """

    rank: int
    step: int = 0
    intent: str | None = None
    before: str | None = None


class MysqlTarget:
    """One session on the target. `open` takes the lock and returns the position; not thread-safe."""

    def __init__(self, address: ServerAddress, cluster: str, ssl_ca: str | None = None, lock_seconds: int = 0) -> None:
        self.address = address
        self.cluster = cluster
        self._ssl_ca = ssl_ca
        self._lock_seconds = lock_seconds
        self._connection: Any = None
        self._packet = self._limit = _STATEMENT_BYTES
        self._rows: list[tuple[RawEvent, RawEvent, RowsEvent]] = []
        self._bytes = 0

    def open(self, description: RawEvent | None) -> TargetPosition | None:
        """Connect, take the lock and return the position, None on a target that has none.

        `description` is that of the binlog whose rows will come. Raises ServerRefused and TargetBusy.
        """
        import pymysql

        try:
            self._connection = pymysql.connect(
                host=self.address.host,
                port=self.address.port,
                user=self.address.user,
                password=self.address.password,
                unix_socket=self.address.socket,
                charset="utf8mb4",
                autocommit=False,
                connect_timeout=10,
                ssl_ca=self._ssl_ca,
                max_allowed_packet=1 << 30,
            )
        except pymysql.MySQLError as error:
            raise ServerRefused(f"{self.address}: {_told(error)}", remedy="check address, user and password") from error
        self._rows, self._bytes = [], 0
        self._lock()
        self.run("SET SESSION sql_mode = '', time_zone = '+00:00'")
        self._packet = int(self.ask("SELECT @@max_allowed_packet")[0][0])
        self._limit = min(_STATEMENT_BYTES, self._packet // 2)
        self._prepare()
        if description is not None:
            self.run("ROLLBACK")
            self._binlog([_description(description)])
            # The server now waits for a GTID event; our transactions get GTIDs of its own.
            self.run("SET SESSION gtid_next = 'AUTOMATIC'")
        return self.position()

    def close(self) -> None:
        """Give the session up; what is not committed is undone. Closing twice is allowed."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def position(self) -> TargetPosition | None:
        """Return what the target says of itself."""
        sql = f"SELECT `rank`, step, intent, before_intent FROM {META_SCHEMA}.replay_position WHERE cluster = %s"
        rows = self.ask(sql, (self.cluster,))
        return TargetPosition(int(rows[0][0]), int(rows[0][1]), rows[0][2], rows[0][3]) if rows else None

    def start_at(self, rank: int) -> None:
        """Record a first position: `rank` transactions are taken as applied."""
        self.run(f"INSERT INTO {META_SCHEMA}.replay_position (cluster, `rank`) VALUES (%s, %s)", (self.cluster, rank))
        self.run("COMMIT")

    def add(self, rows: Rows, event: RowsEvent) -> None:
        """Take rows into the open transaction; they reach the server when there are enough of them, or at a commit."""
        if self._bytes and self._bytes + len(event.rows) > self._limit:
            self.flush()
        self._rows.append((rows.raw_table, rows.raw, event))
        self._bytes += len(event.rows) + 200

    def flush(self) -> None:
        """Send what was taken in."""
        rows, self._rows, self._bytes = self._rows, [], 0
        if rows:
            self._binlog(_events(rows))

    def commit(self, rank: int, gtid: str, key: str | None, since: int) -> None:
        """Commit rows and position together. Raises ReplayStopped if someone else moved the position from `since`."""
        self.flush()
        changed = self.run(
            f"UPDATE {META_SCHEMA}.replay_position SET `rank` = %s, step = 0, gtid = %s, order_key = %s, "
            "intent = NULL, before_intent = NULL WHERE cluster = %s AND `rank` = %s",
            (rank, gtid, key, self.cluster, since),
        )
        if changed != 1:
            self.run("ROLLBACK")
            raise ReplayStopped(f"the target's position is no longer {since}: something else has moved it")
        failpoint("replay-before-commit")
        self.run("COMMIT")
        failpoint("replay-committed")

    def rollback(self) -> None:
        """Undo what is not committed."""
        self._rows, self._bytes = [], 0
        self.run("ROLLBACK")

    def intend(self, step: int, sql: str, before: str) -> None:
        """Record, before a DDL is begun, that it will be, and what its tables were."""
        self._update("step = %s, intent = %s, before_intent = %s", (step, sql, before))

    def did(self, step: int) -> None:
        """Record that so many parts of the DDL are carried out."""
        self._update("step = %s, intent = NULL, before_intent = NULL", (step,))

    def skipped(self, rank: int, gtid: str) -> None:
        """Record, in the open transaction, that one was left out by order of the user."""
        self.run(
            f"INSERT INTO {META_SCHEMA}.replay_skipped (cluster, `rank`, gtid) VALUES (%s, %s, %s)",
            (self.cluster, rank, gtid),
        )

    def ask(self, sql: str, arguments: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """Run a query and return its rows."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql, arguments)
            return [tuple(row) for row in cursor.fetchall()]

    def run(self, sql: str, arguments: Sequence[Any] | None = None) -> int:
        """Run a statement and return how many rows it changed."""
        with self._connection.cursor() as cursor:
            return int(cursor.execute(sql, arguments))

    def send(self, sql: bytes) -> None:
        """Run a statement whose bytes must stay as they are."""
        self._connection.query(sql)

    def use(self, schema: str) -> None:
        """Make a schema the default database."""
        self._connection.select_db(schema)

    def _update(self, what: str, arguments: Sequence[Any]) -> None:
        sql = f"UPDATE {META_SCHEMA}.replay_position SET {what} WHERE cluster = %s"
        self.run(sql, (*arguments, self.cluster))
        self.run("COMMIT")

    def _lock(self) -> None:
        name = f"binlog-merge {self.cluster}"
        ((held,),) = self.ask("SELECT GET_LOCK(%s, %s)", (name, self._lock_seconds))
        if held != 1:
            raise TargetBusy(f"another replay of this cluster is writing to {self.address}")

    def _prepare(self) -> None:
        there = self.ask(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = 'replay_skipped'",
            (META_SCHEMA,),
        )
        if not there:
            for statement in _META_TABLES:
                self.run(statement)

    def _binlog(self, events: Sequence[bytes]) -> None:
        """Send events by BINLOG statements that the server's packet takes; a group of events is never cut."""
        texts = [base64.b64encode(event) for event in events]
        size = sum(map(len, texts)) + len(texts) + 16
        if size > self._packet:
            raise ReplayStopped(
                f"rows of {size} bytes are more than the target takes at once ({self._packet})",
                remedy="raise max_allowed_packet on the target, and run the replay again",
            )
        import pymysql

        try:
            self.send(b"BINLOG '" + b"\n".join(texts) + b"'")
        except pymysql.MySQLError as error:
            if passes(error):
                raise
            # The applier tells its reasons as warnings; the error may be no more than "Unknown error".
            reasons = [str(row[2]) for row in self.ask("SHOW WARNINGS")]
            raise type(error)(error.args[0] if error.args else 0, "; ".join(reasons) or _told(error)) from error


_META_TABLES: Final = (
    f"CREATE DATABASE IF NOT EXISTS {META_SCHEMA}",
    f"""CREATE TABLE IF NOT EXISTS {META_SCHEMA}.replay_position (
  cluster CHAR(36) NOT NULL PRIMARY KEY, `rank` BIGINT UNSIGNED NOT NULL, gtid VARCHAR(80), order_key CHAR(54),
  step INT UNSIGNED NOT NULL DEFAULT 0, intent LONGTEXT, before_intent LONGTEXT
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4""",
    f"""CREATE TABLE IF NOT EXISTS {META_SCHEMA}.replay_skipped (
  cluster CHAR(36) NOT NULL, `rank` BIGINT UNSIGNED NOT NULL, gtid VARCHAR(80) NOT NULL,
  skipped_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (cluster, `rank`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4""",
)


def _description(event: RawEvent) -> bytes:
    """Return a format description that announces events without checksums."""
    body = bytes(event.body[:-1]) + b"\0"
    return pack_event(
        EventType.FORMAT_DESCRIPTION_EVENT, body, timestamp=0, server_id=event.header.server_id, position=4
    )


def _events(rows: Sequence[tuple[RawEvent, RawEvent, RowsEvent]]) -> list[bytes]:
    """Return table maps and rows as statements of one table each, so that they may be cut between any two tables."""
    packed: list[bytes] = []
    for i, (table, raw, event) in enumerate(rows):
        if i == 0 or rows[i - 1][0] is not table:
            packed.append(_plain(table, bytes(table.body)))
        last = i + 1 == len(rows) or rows[i + 1][0] is not table
        flags = event.flags | RowsFlag.STMT_END_F if last else event.flags & ~RowsFlag.STMT_END_F
        packed.append(_plain(raw, replace(event, flags=flags).pack()))
    return packed


def _plain(event: RawEvent, body: bytes) -> bytes:
    header = event.header
    return pack_event(
        header.type_code, body, timestamp=header.timestamp, server_id=header.server_id, position=0, checksum=False
    )


def passes(error: Exception) -> bool:
    """Tell whether an error of the server, or of the connection, may be gone the next time."""
    number = error.args[0] if error.args else 0
    return number == 0 or number in LOST or number in RETRY


def _told(error: Exception) -> str:
    """Return what the server, or the client library, said."""
    return str(error.args[1]) if len(error.args) > 1 else str(error)
