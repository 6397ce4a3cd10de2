"""The two sides of a comparison: tables on servers, and the tables of a merged binlog.

Both return a row as the same texts, column by column, as the server prints them, and the same checksums of tables:

    row       its columns' texts with | between them, \\N for NULL
    bucket    the low bits of CRC32(the key's texts), or of the whole row if the table has no key
    checksum  of a bucket: the number of rows, and BIT_XOR of their CRC32, which depends on no order

Bytes are hexadecimal digits, FLOAT is shown as DOUBLE, TIMESTAMP in UTC.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.binlog.json_binary import float_text
from binlog_merge.binlog.kernels.crc32 import crc32_each
from binlog_merge.errors import ServerRefused
from binlog_merge.tables.rows import keys_of
from binlog_merge.tables.types import CATALOG, in_duckdb, qualified
from binlog_merge.values.sql import text_of
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import Family
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.server import ServerAddress, connect_remedy, message_of

BUCKETS: Final = 4096
Sums = dict[int, tuple[int, int]]
"""By bucket: the number of rows, and the BIT_XOR of their checksums."""
Texts = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """A table to compare: its columns, and the indexes of its key's columns, or of all columns without a key."""

    table: Table
    key: tuple[int, ...]

    @classmethod
    def of(cls, table: Table) -> "Compared":
        """Return a table with its primary key, else with a unique key without NULL."""
        return cls(table, tuple(next(keys_of(table), range(len(table.columns)))))

    @property
    def keyed(self) -> bool:
        """Return whether the table has a key."""
        return next(keys_of(self.table), None) is not None


def bucket_of(key: Texts) -> int:
    """Return the bucket of a key."""
    return zlib.crc32("|".join("\\N" if text is None else text for text in key).encode()) & (BUCKETS - 1)


class Side(Protocol):
    """One side of a comparison."""

    def has(self, table: Table) -> bool:
        """Return whether the table is there."""

    def sums(self, compared: Compared) -> Sums:
        """Return the checksums of the table's buckets."""

    def rows(self, compared: Compared, buckets: Sequence[int]) -> Iterator[Texts]:
        """Yield the rows of some buckets, as texts of all columns."""


@dataclass
class ServerSide:
    """Tables on MySQL servers, each read in one consistent snapshot; use it as a context manager.

    `places` maps a logical table to its physical tables: (number of the server, schema, table); None: the tables are
    on the only server, under their own names. Raises ServerRefused.
    """

    addresses: Sequence[ServerAddress]
    ssl_ca: str | None = None
    places: Mapping[tuple[str, str], Sequence[tuple[int, str, str]]] | None = None
    _connections: list[Any] = field(default_factory=list)

    def __enter__(self) -> "ServerSide":
        try:
            for address in self.addresses:
                self._connections.append(self._connect(address))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for connection in self._connections:
            connection.close()
        self._connections.clear()

    def _connect(self, address: ServerAddress) -> Any:
        import pymysql

        try:
            connection = address.connect(self.ssl_ca)
            with connection.cursor() as cursor:
                cursor.execute("SET SESSION time_zone = '+00:00', sql_mode = ''")
                cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        except pymysql.MySQLError as error:
            raise ServerRefused(f"{address}: {message_of(error)}", remedy=connect_remedy(error, address)) from error
        return connection

    def ask(self, sql: str, arguments: Sequence[Any] = (), number: int = 0) -> list[tuple[Any, ...]]:
        """Run a query in a server's snapshot."""
        import pymysql

        try:
            with self._connections[number].cursor() as cursor:
                cursor.execute(sql, arguments or None)
                return [tuple(row) for row in cursor.fetchall()]
        except pymysql.MySQLError as error:
            raise ServerRefused(f"{self.addresses[number]}: {message_of(error)}", remedy=_REFUSED) from error

    def names(self, number: int = 0) -> set[tuple[str, str]]:
        """Return the tables of users on a server."""
        rows = self.ask(
            "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' AND "
            "table_schema NOT IN ('mysql', 'sys', 'performance_schema', 'information_schema', 'binlog_merge')",
            (),
            number,
        )
        return {(schema, name) for schema, name in rows}

    def has(self, table: Table) -> bool:
        """Return whether the table is there."""
        return all(
            self.ask(
                "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s",
                (schema, name),
                number,
            )
            for number, schema, name in self._places(table)
        )

    def columns(self, table: Table) -> set[str]:
        """Return the names, in lower case, of a table's columns that all servers have."""
        columns = [
            {
                str(row[0]).lower()
                for row in self.ask(f"SHOW COLUMNS FROM {quote_name(schema)}.{quote_name(name)}", (), number)
            }
            for number, schema, name in self._places(table)
        ]
        return set.intersection(*columns) if columns else set()

    def sums(self, compared: Compared) -> Sums:
        """Return the checksums of the table's buckets, over all servers."""
        sums: Sums = {}
        row = _joined(compared.table.columns)
        for number, schema, name in self._places(compared.table):
            sql = (
                f"SELECT {_bucket(compared)}, COUNT(*), BIT_XOR(CRC32({row})) "
                f"FROM {quote_name(schema)}.{quote_name(name)} GROUP BY 1"
            )
            for bucket, count, xor in self.ask(sql, (), number):
                before = sums.get(int(bucket), (0, 0))
                sums[int(bucket)] = (before[0] + int(count), before[1] ^ int(xor))
        return sums

    def rows(self, compared: Compared, buckets: Sequence[int]) -> Iterator[Texts]:
        """Yield the rows of some buckets."""
        shown = ", ".join(_shown(column) for column in compared.table.columns)
        chosen = ", ".join(map(str, buckets))
        for number, schema, name in self._places(compared.table):
            source = f"{quote_name(schema)}.{quote_name(name)}"
            yield from self.ask(f"SELECT {shown} FROM {source} WHERE {_bucket(compared)} IN ({chosen})", (), number)

    def all_rows(self, compared: Compared) -> Iterator[Texts]:
        """Yield all rows, in any order."""
        from pymysql.cursors import SSCursor

        shown = ", ".join(_shown(column) for column in compared.table.columns)
        for number, schema, name in self._places(compared.table):
            with self._connections[number].cursor(SSCursor) as cursor:
                cursor.execute(f"SELECT {shown} FROM {quote_name(schema)}.{quote_name(name)}")
                yield from map(tuple, cursor)

    def _places(self, table: Table) -> Sequence[tuple[int, str, str]]:
        if self.places is None:
            return ((0, table.schema, table.name),)
        return self.places.get((table.schema, table.name), ())


_REFUSED: Final = "the user needs SELECT on the tables, and they must not be altered meanwhile"


def _shown(column: Column) -> str:
    """Return the SQL of a column's text on a server."""
    return text_of(column, quote_name(column.name))


_NULL: Final = "'\\\\N'"


def _joined(columns: Iterable[Column]) -> str:
    texts = ", ".join(f"IFNULL({_shown(column)}, {_NULL})" for column in columns)
    return f"CONCAT_WS('|', {texts})"


def _bucket(compared: Compared) -> str:
    return f"CRC32({_joined(compared.table.columns[c] for c in compared.key)}) & {BUCKETS - 1}"


@dataclass(frozen=True)
class LogSide:
    """The tables of a merged binlog, loaded into DuckDB with dates as text."""

    connection: Any
    batch_rows: int = 100_000

    def has(self, table: Table) -> bool:
        """Return whether the table is there."""
        found = self.connection.execute(
            "SELECT 1 FROM duckdb_tables() WHERE database_name = ? AND schema_name = ? AND table_name = ?",
            [CATALOG, table.schema, table.name],
        )
        return bool(found.fetchall())

    def sums(self, compared: Compared) -> Sums:
        """Return the checksums of the table's buckets."""
        counts, xors = np.zeros(BUCKETS, np.int64), np.zeros(BUCKETS, np.int64)
        for columns in self._batches(compared.table):
            places = self._places(compared, columns)
            counts += np.bincount(places, minlength=BUCKETS)
            np.bitwise_xor.at(xors, places, _checksums(columns))
        return {bucket: (int(counts[bucket]), int(xors[bucket])) for bucket in np.flatnonzero(counts).tolist()}

    def rows(self, compared: Compared, buckets: Sequence[int]) -> Iterator[Texts]:
        """Yield the rows of some buckets."""
        for columns in self._batches(compared.table):
            chosen = pa.array(np.flatnonzero(np.isin(self._places(compared, columns), buckets)))
            yield from zip(*(column.take(chosen).to_pylist() for column in columns), strict=True)

    def recorded(self, compared: Compared, place: str) -> Iterator[tuple[Texts, frozenset[str] | None]]:
        """Yield the keys, as texts, in an extra table (`found_there`), and the columns recorded with them."""
        reader = self.connection.sql(f"SELECT DISTINCT * FROM {place}").to_arrow_reader(self.batch_rows)
        for batch in reader:
            keys = [_as_key(compared.table.columns[c], batch.column(i)) for i, c in enumerate(compared.key)]
            listed = batch.column(len(keys)).to_pylist() if batch.num_columns > len(keys) else [None] * batch.num_rows
            texts = zip(*(key.to_pylist() for key in keys), strict=True)
            yield from zip(texts, (None if c is None else frozenset(c) for c in listed), strict=True)

    def _places(self, compared: Compared, columns: Sequence[Any]) -> Any:
        return _checksums([columns[c] for c in compared.key]) & (BUCKETS - 1)

    def _batches(self, table: Table) -> Iterator[list[Any]]:
        """Yield the table's columns as texts, in batches of rows."""
        shown = ", ".join(f"{in_duckdb(column)} AS c{i}" for i, column in enumerate(table.columns))
        reader = self.connection.sql(f"SELECT {shown} FROM {qualified(table.schema, table.name)}").to_arrow_reader(
            self.batch_rows
        )
        for batch in reader:
            if batch.num_rows:
                yield [_as_text(column, batch.column(i)) for i, column in enumerate(table.columns)]


def _as_text(column: Column, values: Any) -> Any:
    kind = column.type.family
    if kind is Family.VECTOR:
        return pa.array([_vector(value) for value in values.to_pylist()], pa.string())
    if kind is not Family.FLOAT:
        return values
    encoded = values.dictionary_encode(null_encoding="encode")
    texts = [None if value is None else f"[{float_text(value)}]" for value in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


def _as_key(column: Column, values: Any) -> Any:
    """Convert the texts of a key from `in_duckdb` to those of a server."""
    if column.type.family is not Family.FLOAT:
        return values
    return _as_text(column, pa.array([None if text is None else float(text) for text in values.to_pylist()]))


def _vector(value: list[float] | None) -> str | None:
    return None if value is None else np.array(value, "<f4").tobytes().hex().upper()


def _checksums(columns: Sequence[Any]) -> Any:
    """Return the CRC32 of each row of these columns."""
    filled = [pc.fill_null(column, "\\N") for column in columns]
    rows = (pc.binary_join_element_wise(*filled, "|") if len(filled) > 1 else filled[0]).cast(pa.large_string())
    _, offsets, data = rows.buffers()
    texts = np.frombuffer(data, np.uint8).copy() if data is not None and data.size else np.zeros(0, np.uint8)
    places = np.frombuffer(offsets, np.int64)[rows.offset : rows.offset + len(rows) + 1].copy()
    out = np.empty(len(rows), np.int64)
    crc32_each(texts, places, out)
    return out
