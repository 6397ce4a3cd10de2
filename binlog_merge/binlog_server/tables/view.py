"""A consistent view of the tables: a transaction of DuckDB of its own, as of one position of the log."""

import contextlib
import logging
from collections.abc import Callable, Iterator
from tempfile import TemporaryFile
from typing import IO, Any, Final

import duckdb

from binlog_merge.binlog.wire import pack_uint
from binlog_merge.binlog_server.log import LogView
from binlog_merge.binlog_server.refused import Refused
from binlog_merge.binlog_server.tables.compiled import Compiled, Shape
from binlog_merge.binlog_server.tables.fields import Reading, Results
from binlog_merge.binlog_server.tables.values import rows_of
from binlog_merge.errors import IoError
from binlog_merge.protocol.packets import ErrorCode
from binlog_merge.tables.types import CATALOG, qualified
from binlog_merge.values.duckdb.piece import OUT_OF_RANGE, why_stopped
from snapshot_store.model import Catalog

_LOG = logging.getLogger(__name__)
_BATCH: Final = 2048
_HEAD: Final = 4
_MOST_BYTES: Final = 8 << 20


class View:
    """The tables as of the end of `log`; it stays so until `close`. For one thread at a time."""

    def __init__(self, connection: Any, log: LogView, catalog: Catalog, temporal_text: bool) -> None:
        self.log = log
        self.catalog = catalog
        self.temporal_text = temporal_text
        self._connection = connection
        self._reading: Rows | None = None
        self._columns: dict[tuple[str, str], tuple[str, ...]] = {}

    def shape(self, minutes: int) -> Shape:
        """Return what is known of the file, for a session's time zone."""
        return Shape(self.catalog, self.columns, qualified, Reading(self.temporal_text, minutes))

    def columns(self, schema: str, table: str) -> tuple[str, ...]:
        """Return a table's columns in the file, none if it does not exist."""
        columns = self._columns.get((schema, table))
        if columns is None:
            rows = self._connection.execute(
                "SELECT column_name FROM duckdb_columns() WHERE database_name = ? AND schema_name = ? AND "
                "table_name = ? ORDER BY column_index",
                [CATALOG, schema, table],
            ).fetchall()
            columns = self._columns[schema, table] = tuple(name for (name,) in rows)
        return columns

    def rows(self, compiled: Compiled, results: Results, binary: bool, done: Callable[[], None]) -> "Rows":
        """Run a SELECT; `done` is called when its rows are read or given up. Raises IoError."""
        if self._reading is not None:
            self._reading.spool()
        reader = self._reader(compiled.sql)
        self._reading = Rows(reader, compiled, results, binary, done)
        return self._reading

    def _reader(self, sql: str) -> Any:
        try:
            return self._connection.sql(sql).to_arrow_reader(_BATCH)
        except duckdb.Error as error:
            raise _failed(error) from None

    def interrupt(self) -> None:
        """Make a query that runs fail; for any thread."""
        with contextlib.suppress(duckdb.Error):
            self._connection.interrupt()

    def release(self) -> None:
        """End the transaction of a view whose result has ended."""
        with contextlib.suppress(duckdb.Error):
            self._connection.close()

    def close(self) -> None:
        """End the transaction."""
        if self._reading is not None:
            self._reading.close()
        self.release()


class Rows:
    """The packets of a result's rows, read as they are asked for."""

    def __init__(self, reader: Any, compiled: Compiled, results: Results, binary: bool, done: Callable[[], None]):
        self.ended = False
        self._done = done
        self._rows = self._read(reader, compiled, results, binary)
        self._spooled: IO[bytes] | None = None

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._rows)
        except BaseException:  # its end among them
            self.close()
            raise

    def close(self) -> None:
        """Give up what has not been read."""
        if not self.ended:
            self.ended = True
            self._rows.close()
            if self._spooled is not None:
                self._spooled.close()
            self._done()

    def spool(self) -> None:
        """Read the rest into a temporary file: DuckDB reads one result at a time in a transaction."""
        if self.ended or self._spooled is not None:
            return
        self._spooled = TemporaryFile()  # noqa: SIM115 (closed with the result)
        for row in self._rows:
            self._spooled.write(pack_uint(len(row), _HEAD) + row)
        self._spooled.seek(0)
        self._rows = _unspooled(self._spooled)

    @staticmethod
    def _read(reader: Any, compiled: Compiled, results: Results, binary: bool) -> "_Packets":
        try:
            for batch in reader:
                for part in _parts(batch):
                    yield from rows_of(compiled.outputs, part, results, binary)
        except duckdb.Error as error:
            raise _failed(error) from None
        except OSError as error:  # pyarrow's for what the engine says while it streams
            raise _failed(error) from None


def _parts(batch: Any) -> Iterator[Any]:
    """Yield a batch in parts of few bytes: each is there several times while packets are made of it."""
    rows = max(1, len(batch) * _MOST_BYTES // max(1, batch.nbytes))
    for begin in range(0, len(batch), rows):
        yield batch.slice(begin, rows)


_Packets = Any


def _unspooled(file: IO[bytes]) -> "_Packets":
    while head := file.read(_HEAD):
        yield file.read(int.from_bytes(head, "little"))


_ABORTED: Final = "Current transaction is aborted"
_ENDED: Final = (
    "a row stopped a SELECT of this transaction, and the engine has ended its view with it: ROLLBACK, and begin anew"
)


def _failed(error: Exception) -> IoError | Refused:
    """Return why rows cannot be read: for what a condition asks of one of them, or because reading fails."""
    if _ABORTED in str(error):
        return Refused(ErrorCode.ER_NOT_SUPPORTED_YET, _ENDED)
    stopped = why_stopped(error)
    if stopped is None:
        _LOG.error("the tables cannot be read: %s", str(error)[:1000])
        return IoError("the file of --tables cannot be read: serve's own log says why")
    if stopped.endswith(OUT_OF_RANGE):
        return Refused(ErrorCode.ER_DATA_OUT_OF_RANGE, stopped)
    return Refused(ErrorCode.ER_NOT_SUPPORTED_YET, f"binlog-merge serve does not compare so: {stopped[:300]}")
