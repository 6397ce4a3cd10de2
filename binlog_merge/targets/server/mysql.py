"""Sessions on a MySQL server as the target, which send rows as row events in BINLOG statements.

    BEGIN; BINLOG '<table map, rows>'; …; UPDATE replay_worker SET ranks = …; COMMIT

The server applies the events as a replica would: every type byte for byte, partial JSON, tables without keys, foreign
keys; triggers do not fire again. A missing row, or a duplicate, is an error. The record of what is applied is in a
schema of ours and committed with the rows: each session has a row of its own there (`ledger`), and a lock of its own,
which lasts until the server has noticed that the session is gone. The user needs REPLICATION_APPLIER (or BINLOG_ADMIN
with SESSION_VARIABLES_ADMIN, or SUPER) in addition to privileges on the tables.
"""

import base64
import contextlib
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from binlog_merge.binlog.constants import EventType, RowsFlag
from binlog_merge.binlog.header import RawEvent, pack_event
from binlog_merge.binlog.rows import Row, RowsEvent, iter_rows, join_rows, row_padding
from binlog_merge.errors import IoError, ReplayStopped, ServerRefused, TargetBusy
from binlog_merge.files.failpoint import failpoint
from binlog_merge.log.rank_set import RankSet
from binlog_merge.log.reader import Rows
from binlog_merge.log.rows import row_text
from binlog_merge.targets.server.overwriting import overwriting
from binlog_merge.targets.server.target_shape import TargetShapes
from snapshot_store.server import CONNECTION_LOST, ServerAddress, connect_remedy, message_of

RETRY: Final = frozenset({1205, 1213, 3572})
"""Errors after which a retry may succeed: lock wait timeout, deadlock, NOWAIT."""
META_SCHEMA: Final = "binlog_merge"
NOTICE_SECONDS: Final = 1.0
"""The time that a server may take to notice that a session is gone."""
_STATEMENT_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class MysqlTarget:
    """The server that a replay writes to, and the cluster that it records. `ssl_ca`: use TLS, and trust this CA."""

    address: ServerAddress
    cluster: str
    ssl_ca: str | None = None


class Session:
    """A session on the target, in autocommit mode, for one thread; only `break_off` may be called from another."""

    def __init__(self, target: MysqlTarget) -> None:
        self.target = target
        self._connection: Any = None

    def open(self) -> None:
        """Connect. Raises ServerRefused."""
        import pymysql

        address = self.target.address
        try:
            self._connection = address.connect(self.target.ssl_ca)
        except pymysql.MySQLError as error:
            raise ServerRefused(f"{address}: {message_of(error)}", remedy=connect_remedy(error, address)) from error
        except OSError as error:
            raise IoError(f"cannot be used as a CA: {error}", file=self.target.ssl_ca) from error
        # A session that waits for a long DDL must not be closed as idle.
        self.run("SET SESSION sql_mode = '', time_zone = '+00:00', wait_timeout = 2147483")

    @property
    def is_open(self) -> bool:
        """Return whether the session is open."""
        return self._connection is not None

    def lock(self, number: int, seconds: float = 0) -> bool:
        """Take a session's lock (0: the replay's own), waiting at most `seconds`; return whether that succeeded."""
        ((held,),) = self.ask("SELECT GET_LOCK(%s, %s)", (lock_name(self.target.cluster, number), seconds))
        return bool(held == 1)

    def close(self) -> None:
        """Close the session; what is not committed is rolled back. Closing twice is allowed."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def break_off(self) -> None:
        """Make whatever waits for the server fail at once."""
        sock = getattr(self._connection, "_sock", None)
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def ask(self, sql: str, arguments: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """Run a query and return its rows."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql, arguments)
            return [tuple(row) for row in cursor.fetchall()]

    def run(self, sql: str, arguments: Sequence[Any] | None = None) -> int:
        """Run a statement and return the number of rows changed."""
        with self._connection.cursor() as cursor:
            return int(cursor.execute(sql, arguments))

    def send(self, sql: bytes) -> None:
        """Run a statement whose bytes must stay as they are."""
        self._connection.query(sql)

    def use(self, schema: str) -> None:
        """Make a schema the default database."""
        self._connection.select_db(schema)


class RowSession(Session):
    """A session that applies transactions and records their ranks; `number` is that of its row and its lock.

    `open` needs the ledger's rows, the number that its `take_over` returned, and the format description of the binlog
    of the rows. With `row_by_row` each row is sent alone, so that `row` is the one refused. With `overwrite` rows are
    written whatever the target has there.
    """

    def __init__(
        self,
        target: MysqlTarget,
        number: int,
        given: int,
        description: RawEvent | None,
        row_by_row: bool = False,
        overwrite: bool = False,
    ) -> None:
        super().__init__(target)
        self.number = number
        self._given = given
        self._row_by_row = row_by_row
        self._overwrite = overwrite
        self._at: tuple[Rows, Row] | None = None
        self.done = RankSet()
        self._description = description
        self._recorded = RankSet()
        self._commits = given
        self._begun = self._implicit = False
        self._packet = self._limit = _STATEMENT_BYTES
        self._rows: list[tuple[RawEvent, RawEvent, RowsEvent]] = []
        self._bytes = 0

    def open(self) -> None:
        """Connect, take the lock, prepare for rows. Raises ServerRefused, TargetBusy if another replay took over."""
        super().open()
        if not self.lock(self.number, NOTICE_SECONDS) or not self.ask(
            f"SELECT 1 FROM {META_SCHEMA}.replay_worker WHERE cluster = %s AND worker = %s AND commits = %s",
            (self.target.cluster, self.number, self._given),
        ):
            self.close()
            raise TargetBusy(f"another replay of this cluster has taken over {self.target.address}")
        self.done, self._commits, self._begun, self._implicit = RankSet(), self._given, False, False
        self._rows, self._bytes = [], 0
        self._shapes = TargetShapes(self.ask)
        # The log has every column of a table, also an invisible primary key that the source generated.
        if any(value == "ON" for _, value in self.ask("SHOW VARIABLES LIKE 'sql_generate_invisible_primary_key'")):
            self.run("SET SESSION sql_generate_invisible_primary_key = OFF")
        if self._overwrite:
            self.run("SET SESSION rbr_exec_mode = 'IDEMPOTENT'")
        self._packet = int(self.ask("SELECT @@max_allowed_packet")[0][0])
        self._limit = min(_STATEMENT_BYTES, self._packet // 2)
        if self._description is not None:
            self._binlog([_description(self._description)])
            # The server now waits for a GTID event; our transactions get GTIDs of its own.
            self.run("SET SESSION gtid_next = 'AUTOMATIC'")

    def rows_only(self) -> None:
        """Switch autocommit off, as only rows are sent: then BEGIN is not needed."""
        self.run("SET SESSION autocommit = 0")
        self._implicit = True

    def side_by_side(self) -> None:
        """Set isolation and lock waits for running in parallel with other sessions: few locks, short waits."""
        self.run("SET SESSION innodb_lock_wait_timeout = 1")
        if not self.ask("SELECT 1 WHERE @@binlog_format = 'STATEMENT' AND @@log_bin"):
            self.run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")

    def add(self, rows: Rows, event: RowsEvent) -> None:
        """Add rows to the open transaction; they are sent when there are enough of them, or at a commit."""
        self._shapes.check(rows.table)
        if self._row_by_row:
            for row in iter_rows(event, rows.table):
                self._at = rows, row
                alone = join_rows(event, [row], rows.table, row_padding(event))
                self._rows = [(rows.raw_table, rows.raw, one) for one in self._as_sent(rows, alone)]
                self.flush()
            self._at = None
            return
        for one in self._as_sent(rows, event):
            self._add(rows, one)

    def _as_sent(self, rows: Rows, event: RowsEvent) -> list[RowsEvent]:
        return overwriting(event, rows.table) if self._overwrite else [event]

    def _add(self, rows: Rows, event: RowsEvent) -> None:
        if self._bytes and self._bytes + len(event.rows) > self._limit:
            self.flush()
        self._rows.append((rows.raw_table, rows.raw, event))
        self._bytes += len(event.rows) + 200

    def row(self) -> str:
        """Return the row that was sent last as text; "" if rows are not sent alone."""
        return "" if self._at is None else row_text(*self._at)

    def flush(self) -> None:
        """Send the rows added."""
        rows, self._rows, self._bytes = self._rows, [], 0
        if rows:
            self.begin()
            self._binlog(_events(rows))

    def begin(self) -> None:
        """Begin the transaction, unless it is begun."""
        if not self._begun and not self._implicit:
            self.run("BEGIN")
        self._begun = True

    def record(self, ranks: RankSet, known: RankSet) -> None:
        """Record, in the transaction, that these ranks are applied; `known` are recorded in the ledger already.

        Raises ReplayStopped if someone else has changed the record.
        """
        self.flush()
        self.begin()
        done = (self.done - known) | ranks
        changed = self.run(
            f"UPDATE {META_SCHEMA}.replay_worker SET ranks = %s, commits = commits + 1 "
            "WHERE cluster = %s AND worker = %s AND commits = %s",
            (str(done), self.target.cluster, self.number, self._commits),
        )
        if changed != 1:
            self.rollback()
            raise ReplayStopped("something else has changed what the target says is applied")
        self._recorded = done

    def commit(self) -> None:
        """Commit rows and record together."""
        failpoint("replay-before-commit")
        self.run("COMMIT")
        self.done, self._begun = self._recorded, False
        self._commits += 1
        failpoint("replay-committed")

    def rollback(self) -> None:
        """Roll back what is not committed."""
        self._rows, self._bytes, self._begun = [], 0, False
        self.run("ROLLBACK")

    def skipped(self, rank: int, gtid: str) -> None:
        """Record, in the transaction, that the user has asked to skip a transaction."""
        self.begin()
        self.run(
            f"INSERT INTO {META_SCHEMA}.replay_skipped (cluster, `rank`, gtid) VALUES (%s, %s, %s)",
            (self.target.cluster, rank, gtid),
        )

    def _binlog(self, events: Sequence[bytes]) -> None:
        """Send a group of events in a BINLOG statement. Raises ReplayStopped if max_allowed_packet is too small."""
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
            # The applier reports reasons as warnings; the error may be no more than "Unknown error".
            warnings = [str(row[2]) for row in self.ask("SHOW WARNINGS")]
            reasons = [text for text in warnings if text != "Unknown error"]
            raise type(error)(error.args[0] if error.args else 0, "; ".join(reasons) or message_of(error)) from error


def lock_name(cluster: str, number: int) -> str:
    """Return the name of a session's lock; 0 is the replay's own."""
    return f"binlog-merge {cluster}" + (f" {number}" if number else "")


def _description(event: RawEvent) -> bytes:
    """Return a format description that announces events without checksums."""
    body = bytes(event.body[:-1]) + b"\0"
    return pack_event(
        EventType.FORMAT_DESCRIPTION_EVENT, body, timestamp=0, server_id=event.header.server_id, position=4
    )


def _events(rows: Sequence[tuple[RawEvent, RawEvent, RowsEvent]]) -> list[bytes]:
    """Return table maps and rows events as statements of one table each, so that any two tables may be separated."""
    packed: list[bytes] = []
    for i, (table, raw, event) in enumerate(rows):
        if i == 0 or rows[i - 1][0] is not table:
            packed.append(_plain(table, bytes(table.body)))
        last = i + 1 == len(rows) or rows[i + 1][0] is not table
        flags = event.flags | RowsFlag.STMT_END_F if last else event.flags & ~RowsFlag.STMT_END_F
        packed.append(_plain(raw, replace(event, flags=flags).pack(), event.type_code))
    return packed


def _plain(event: RawEvent, body: bytes, type_code: int | None = None) -> bytes:
    header = event.header
    return pack_event(
        header.type_code if type_code is None else type_code,
        body,
        timestamp=header.timestamp,
        server_id=header.server_id,
        position=0,
        checksum=False,
    )


def passes(error: Exception) -> bool:
    """Return whether an error of the server, or of the connection, may be gone at a retry."""
    number = error.args[0] if error.args else 0
    return number == 0 or number in CONNECTION_LOST or number in RETRY
