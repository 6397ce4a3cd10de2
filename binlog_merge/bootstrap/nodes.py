"""A node whose rows are read while it is written to: what it must be set to, its tables, and chunks of them.

A chunk is one SELECT. What it has seen is bounded by two facts, for which nothing is locked and nothing is written:

    before it   the server has executed, and shows to new statements, every transaction of a set of GTIDs
    after it    whatever it has seen stands in the binlog before the place where that ends now

The definition of the table is asked in the transaction of the SELECT, whose metadata lock no DDL passes.
"""

import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from binlog_merge.bootstrap.plan import chunk_sql, found_sql
from binlog_merge.bootstrap.values import Chunk, Identity, Name, Progress, Reading, Shard, Texts, Unsettled
from binlog_merge.errors import ServerRefused, UnsupportedInput
from binlog_merge.node_capture.server_kind import MARIADB, kind_of
from snapshot_store.ddl import parse_dump
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.model import Table
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.server import CONNECTION_LOST, NO_CONNECTION, ServerAddress, connect_remedy, message_of

_SETTINGS: Final[Mapping[str, tuple[str, str]]] = {
    "gtid_mode": ("ON", "GTIDs tell which transactions a SELECT has seen"),
    "binlog_format": ("ROW", "rows are what the log must have"),
    "binlog_row_image": ("FULL", "a row that was read while the log went on is made right by a whole row of the log"),
    "binlog_row_value_options": ("", "a difference of a JSON document makes nothing right of one read meanwhile"),
}
_CHANGED: Final = frozenset({1054, 1146, 1049, 1412})
"""No such column, table or database; the table's definition has changed."""
_RIGHTS: Final = "GRANT SELECT, REPLICATION CLIENT ON *.* TO the user, on the node"
_DUMP: Final = (
    "only tables of MySQL are read from the servers: dump those of a MariaDB with mariadb-dump --no-data, translate "
    "the dump with from-mariadb --dump, and name it in `base.physical`"
)
_DENIED: Final = 1045
_PARSE_ERROR: Final = 1064
_WAIT_SECONDS: Final = 5
_FIRST_ROWS: Final = 100
_MOST_GROWTH: Final = 8
_CHUNK_BYTES: Final = 8 << 20
_DURABLE: Final = frozenset({("sync_binlog", "1"), ("innodb_flush_log_at_trx_commit", "1")})
"""With these settings a server that is started again has every transaction that anybody has seen."""
_Result = TypeVar("_Result")


class Changed(Exception):  # noqa: N818 - named after what happened
    """Another server has the node now, or its server was started again: what was read before may never have been."""


class NodeReader:
    """A connection to a node's server, for one thread; use it as a context manager.

    `captured` returns the address and the UUID of the server that is captured now. A lost connection is made again, for
    `retry_seconds`; what was asked is asked again if the server is still the same `identity`, else `Changed` is raised.
    Raises ServerRefused.
    """

    def __init__(
        self,
        node: str,
        captured: Callable[[], tuple[ServerAddress, str | None]],
        ssl_ca: str | None,
        identity: Identity | None = None,
        retry_seconds: float = 60.0,
    ) -> None:
        self.node = node
        self.address = captured()[0]
        self.identity = identity
        self._captured = captured
        self._ssl_ca = ssl_ca
        self._retry_seconds = retry_seconds
        self._connection: Any = None
        self._shapes: dict[str, Table] = {}

    def __enter__(self) -> "NodeReader":
        self._again(lambda: None)
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    def check(self) -> None:
        """Raise UnsupportedInput if the server is set so that rows read while it is written to cannot be made right."""
        asked = ", ".join(f"'{name}'" for name in _SETTINGS)
        settings = dict(self.ask(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({asked})"))
        for name, (wanted, why) in _SETTINGS.items():
            value = str(settings.get(name, wanted)).upper()
            if value != wanted:
                raise UnsupportedInput(
                    f"{name} is {value or 'empty'}: {why}",
                    node=self.node,
                    remedy=f"SET PERSIST {name} = '{wanted}' there, and let sessions that are open end",
                )

    @property
    def logs_cascades(self) -> bool:
        """Return whether the server logs the rows that it changes because of a foreign key."""
        rows = self.ask("SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'")
        return bool(rows) and str(rows[0][1]).upper() in ("OFF", "0")

    def wait_for(self, gtids: str) -> None:
        """Wait until a new statement sees all these transactions. Raises ServerRefused if that lasts too long."""
        end = time.monotonic() + self._retry_seconds
        while gtids and self.ask("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)", (gtids, _WAIT_SECONDS)) != [(0,)]:
            if time.monotonic() > end:
                ((lacking,),) = self.ask("SELECT GTID_SUBTRACT(%s, @@global.gtid_executed)", (gtids,))
                raise ServerRefused(
                    f"{self.address} has not executed what is captured of it: {lacking}",
                    node=self.node,
                    remedy="let its replication come on, where it has taken over; it must have all that was captured",
                )

    def shards(self) -> list[Shard]:
        """Return the physical tables."""
        rows = self.ask(
            "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' AND "
            "table_schema NOT IN ('mysql', 'sys', 'performance_schema', 'information_schema', 'binlog_merge')"
        )
        return sorted(Shard(self.node, str(schema), str(name)) for schema, name in rows)

    def end(self) -> tuple[str, int]:
        """Return where the server's binlog ends now."""
        import pymysql

        try:
            row = self._again(lambda: self._rows_of("SHOW BINARY LOG STATUS"), frozenset({_PARSE_ERROR}))[0]
        except pymysql.err.ProgrammingError:
            row = self.ask("SHOW MASTER STATUS")[0]
        return str(row[0]), int(row[1])

    def chunks(
        self, shard: Shard, reading: Reading, after: Texts | None, limit: int, as_text: bool
    ) -> Iterator[Chunk | Unsettled]:
        """Yield the rows of a shard behind a key, until it ends or is not as the logical table.

        A chunk has at most `limit` rows, and fewer where they are long.
        """
        rows = min(limit, _FIRST_ROWS)
        while True:
            found = self._again(lambda at=after, n=rows: self._chunk(shard, reading, at, n, as_text))  # type: ignore[misc]
            yield found
            if isinstance(found, Unsettled) or found.done:
                return
            after, rows = found.last, next_rows(found, rows, limit)

    def unsettled(self, shard: Shard, reading: Reading) -> Unsettled | None:
        """Return why a shard cannot be read as the logical table now, None if it can."""
        found = self._again(lambda: self._chunk(shard, reading, None, 0, as_text=False))
        return found if isinstance(found, Unsettled) else None

    def found(self, shard: Shard, reading: Reading, keys: Sequence[Texts]) -> set[Texts]:
        """Return those of some keys that a shard has now."""
        return {tuple(row) for row in self.ask(found_sql(shard, reading, keys))}

    def ask(self, sql: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a query and return its rows."""
        return self._again(lambda: self._rows_of(sql, arguments))

    def _chunk(
        self, shard: Shard, reading: Reading, after: Texts | None, limit: int, as_text: bool
    ) -> Chunk | Unsettled:
        import pymysql

        self._rows_of("START TRANSACTION READ ONLY")
        try:
            rows = self._rows_of(chunk_sql(shard, reading, after, limit, as_text))
            table = self._shape(shard)
        except pymysql.MySQLError as error:
            if error.args and error.args[0] in _CHANGED:
                return Unsettled(reading.name, f"{shard}: {message_of(error)}")
            raise
        finally:
            self._rows_of("ROLLBACK")
        if (reason := difference(reading, table)) is not None:
            return Unsettled(reading.name, f"{shard}: {reason}")
        width = len(reading.columns)
        last = tuple(rows[-1][width:]) if rows else after
        return Chunk(shard, reading, rows, last, len(rows) < limit)

    def _shape(self, shard: Shard) -> Table:
        text = str(self._rows_of(f"SHOW CREATE TABLE {quote_name(shard.schema)}.{quote_name(shard.table)}")[0][1])
        found = self._shapes.get(text)
        if found is None:
            try:
                tables = parse_dump(f"{text};", shard.schema).tables
            except SnapshotStoreError as error:
                raise UnsupportedInput(f"{shard} is not understood: {error}", node=self.node) from None
            found = self._shapes[text] = tables[shard.schema, shard.table]
        return found

    def _rows_of(self, sql: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, arguments or None)
            return [tuple(row) for row in cursor.fetchall()]

    def _again(self, work: Callable[[], _Result], passed: frozenset[int] = frozenset()) -> _Result:
        """Do something with the connection; where it is lost, make another one and do it again.

        The errors `passed` are raised as they are, others as ServerRefused.
        """
        import pymysql

        end = time.monotonic() + self._retry_seconds
        while True:
            try:
                if self._connection is None:
                    self._open()
                return work()
            except (pymysql.MySQLError, OSError) as error:
                number = error.args[0] if error.args else 0
                lost = isinstance(error, OSError) or number == 0 or number in CONNECTION_LOST
                if not lost:
                    if number in passed:
                        raise
                    raise ServerRefused(
                        f"{self.address}: {message_of(error)}",
                        node=self.node,
                        remedy=connect_remedy(error, self.address) if number == _DENIED else _RIGHTS,
                    ) from error
                self._close()
                if time.monotonic() > end:
                    first = f"{connect_remedy(error, self.address)}; " if number == NO_CONNECTION else ""
                    raise ServerRefused(
                        f"{self.address}: {message_of(error)}",
                        node=self.node,
                        remedy=f"{first}run it again when the server is there; it goes on where it was",
                    ) from error
                time.sleep(0.2)

    def _open(self) -> None:
        self.address, captured = self._captured()
        self._connection = self.address.connect(self._ssl_ca)
        self._rows_of("SET SESSION time_zone = '+00:00', sql_mode = '', sql_quote_show_create = 1")
        self._rows_of("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        ((version,),) = self._rows_of("SELECT VERSION()")
        if kind_of(str(version)) is MARIADB:
            raise UnsupportedInput(f"{self.address} is a MariaDB", node=self.node, remedy=_DUMP)
        uuid, now = self._rows_of("SELECT @@global.server_uuid, UNIX_TIMESTAMP()")[0]
        identity = Identity(str(uuid), 0 if self._is_durable() else int(now) - self._uptime())
        if self.identity is not None and not self.identity.same(identity):
            raise Changed(f"{self.node}: {self.address} is another server, or was started again")
        if captured is not None and captured != identity.server_uuid:
            raise ServerRefused(
                f"{self.address} is not the server that is captured, {captured}",
                node=self.node,
                remedy="let capture follow the node (`server: [a, b]`, or capture --switch), and run it again",
            )
        self.identity = identity

    def _is_durable(self) -> bool:
        names = ", ".join(f"'{name}'" for name, _ in _DURABLE)
        settings = self._rows_of(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
        return {(str(name), str(value)) for name, value in settings} == _DURABLE

    def _uptime(self) -> int:
        return int(self._rows_of("SHOW GLOBAL STATUS LIKE 'Uptime'")[0][1])

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()


def next_rows(chunk: Chunk, rows: int, limit: int) -> int:
    """Return how many rows the chunk behind this one of so many `rows` has: as many as make _CHUNK_BYTES."""
    size = sum(len(text) for row in chunk.rows for text in row if text is not None)
    return max(1, min(limit, rows * _MOST_GROWTH, rows * _CHUNK_BYTES // max(1, size)))


def difference(reading: Reading, physical: Table) -> str | None:
    """Return how a physical table differs from what is read of it; None if each value is what the logical one has."""
    there = {column.name.lower(): column for column in physical.columns}
    for column in reading.columns:
        if column.name.lower() in reading.constants:
            continue
        counterpart = there.get(column.name.lower())
        if counterpart is None:
            return f"it has no column {column.name}"
        own, wanted = counterpart.type, column.type
        if (own.name, own.length, own.decimals, own.fsp, own.unsigned, own.charset, own.members, own.srid) != (
            wanted.name, wanted.length, wanted.decimals, wanted.fsp, wanted.unsigned, wanted.charset, wanted.members,
            wanted.srid,
        ):  # fmt: skip
            return f"its column {column.name} has another type"
    return None


_WAITING_CHUNKS: Final = 4


def copied_by_threads(
    readers: Mapping[str, NodeReader],
    work: Mapping[Shard, Reading],
    progress: Mapping[Shard, Progress],
    chunk_rows: int,
    as_text: bool,
    given_up: Collection[Name],
) -> Iterator[Chunk | Unsettled]:
    """Yield what the nodes' tables have behind what is copied of them. Raises what the readers raise.

    Tables that are `given_up` meanwhile are not read on.
    """
    found: queue.Queue[Any] = queue.Queue(_WAITING_CHUNKS)
    stop = threading.Event()
    begun = dict(progress)  # the caller's grows meanwhile

    def put(item: Any) -> None:
        while not stop.is_set():
            try:
                found.put(item, timeout=0.5)
                return
            except queue.Full:
                continue

    def read(node: str) -> None:
        try:
            for shard, reading in work.items():
                done = begun.get(shard, Progress())
                if shard.node != node or done.done or reading.name in given_up:
                    continue
                for item in readers[node].chunks(shard, reading, done.after, chunk_rows, as_text):
                    put(item)
                    if stop.is_set() or reading.name in given_up:
                        break
        except BaseException as error:  # for the thread that asks
            put(error)
        put(node)

    threads = [threading.Thread(target=read, args=(node,), daemon=True) for node in readers]
    for thread in threads:
        thread.start()
    left = len(threads)
    try:
        while left:
            item = found.get()
            if isinstance(item, str):
                left -= 1
            elif isinstance(item, BaseException):
                raise item
            else:
                yield item
    finally:
        stop.set()
        for thread in threads:
            thread.join()
