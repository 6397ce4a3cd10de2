"""Runs questions in DuckDB on tables in memory: no files, no network, and bounds of time and memory.

A database has 256 MiB, and a question ten seconds. However many clients ask, few are answered at a time, so that the
memory of all together is bounded: a large result keeps its place until it is sent.
"""

import logging
import re
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Lock, Timer
from typing import Any, Final

from binlog_merge.binlog.constants import ColumnType
from binlog_merge.binlog_server.definitions import Row
from binlog_merge.binlog_server.refused import Refused
from binlog_merge.protocol.packets import Column, ErrorCode, Value
from binlog_merge.values.duckdb.piece import OUT_OF_RANGE, why_stopped

_MOST_HELD: Final = 1 << 29
_LARGE: Final = 1 << 20
_OF_A_VALUE: Final = 64
"""Bytes of memory that a value takes beside its characters."""
_BATCH: Final = 10_000
_SECONDS: Final = 10.0
_WAIT: Final = 60.0
CASE_MATTERS: Final = re.compile(r"Tables_in_.*|Database.*|Name|Table|Db|Definer")
"""Columns of a SHOW whose texts compare with regard to case (utf8mb3_bin on a server); all others do without."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A table for a question: its rows, and the columns whose texts compare with regard to case.

    `fleeting` is one whose rows are of this question only.
    """

    columns: Sequence[Column]
    rows: Iterable[Sequence[Value]]
    cased: Collection[str]
    fleeting: bool = False


class Rows(list[Row]):
    """Rows of a result; `held` is about how many bytes of memory they take."""

    held = 0


Run = Callable[[str], tuple[list[tuple[str, bool]], Rows]]
Tables = Mapping[str, Filled]


def stored(name: str) -> str:
    """Return the name of a table in the database."""
    return f"of {name}"


class Database:
    """Tables in memory, for any thread. It is made once for many questions: that takes longer than most of them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._open()

    def _open(self) -> None:
        import duckdb

        settings = {"threads": "1", "memory_limit": "256MB", "temp_directory": ""}  # "": nothing goes to the disk
        settings |= {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
        settings["async_threads"] = "0"  # for files, of which there are none: a database would keep eight
        self._root = duckdb.connect(":memory:", config=settings)
        self._root.execute("SET enable_external_access = false; SET lock_configuration = true")
        self._there: set[str] = set()

    def _sound(self) -> None:
        """Open it anew if a fault of the engine has made it useless."""
        import duckdb

        try:
            self._root.execute("SELECT 1")
        except duckdb.Error:
            self._open()

    @contextmanager
    def of(self, tables: Tables) -> Iterator[Run]:
        """Yield a function that runs a query over these tables; one that is there already is not filled again."""
        with self._lock, _refused():
            self._sound()
            for name, table in tables.items():
                if name not in self._there and not table.fleeting:
                    _fill(self._root, stored(name), table)
                    self._there.add(name)
        with self._root.cursor() as connection:
            with _refused():
                for name, table in tables.items():
                    if table.fleeting:
                        _fill(connection, stored(name), table, "TEMP ")
            yield lambda sql: _run(connection, sql)


def _run(connection: Any, sql: str) -> tuple[list[tuple[str, bool]], Rows]:
    """Return names of columns and whether they are numbers, and rows."""
    timer = Timer(_SECONDS, connection.interrupt)
    timer.start()
    try:
        with _refused():
            answer = connection.execute(sql)
            described = [(str(name), str(kind) in _NUMBERS) for name, kind, *_ in answer.description or ()]
            return described, _fetched(answer)
    finally:
        timer.cancel()


@contextmanager
def _refused() -> Iterator[None]:
    import duckdb

    try:
        yield
    except duckdb.InterruptException:
        raise Refused(
            ErrorCode.ER_QUERY_TIMEOUT, "Query execution was interrupted, maximum statement execution time exceeded"
        ) from None
    except duckdb.Error as error:
        raise in_mysqls_words(error) from None


def _fetched(answer: Any) -> Rows:
    rows = Rows()
    while batch := answer.fetchmany(_BATCH):
        for row in batch:
            values = tuple(map(_value, row))
            rows.held += sum(_OF_A_VALUE + len(value) if isinstance(value, str) else _OF_A_VALUE for value in values)
            rows.append(values)
        if rows.held > _MOST_HELD:
            raise Refused(ErrorCode.ER_OUT_OF_RESOURCES, f"the result is too large; it has {len(rows)} rows and more")
    return rows


def places(count: int) -> "SimpleQueue[None]":
    """Return so many places; unlike a semaphore they can be given back while the interpreter collects garbage."""
    free: SimpleQueue[None] = SimpleQueue()
    for _ in range(count):
        free.put(None)
    return free


_PLACES: Final = places(2)


@contextmanager
def in_turn() -> Iterator[Callable[[Rows], None]]:
    """Wait for a place; yields a function that keeps it for as long as rows are needed, if they are many."""
    try:
        _PLACES.get(timeout=_WAIT)
    except Empty:
        text = "too many clients ask for definitions at once; ask again"
        raise Refused(ErrorCode.ER_OUT_OF_RESOURCES, text) from None
    kept: list[Rows] = []
    try:
        yield kept.append
    finally:
        if kept and kept[0].held > _LARGE:
            weakref.finalize(kept[0], _PLACES.put, None)
        else:
            _PLACES.put(None)


_NUMBERS: Final = ("BIGINT", "INTEGER", "HUGEINT", "BOOLEAN", "NUMBER", "SMALLINT", "TINYINT")


def _value(value: Any) -> Value:
    if isinstance(value, bool):
        return int(value)
    return value if value is None or isinstance(value, int | str) else str(value).removesuffix(".0")


def _fill(connection: Any, name: str, table: Filled, kind: str = "") -> None:
    """Make a table; texts compare as in MySQL's information_schema."""
    import pyarrow as pa

    columns = table.columns
    lists: list[list[Value | float]] = [[] for _ in columns]
    for row in table.rows:
        for values, value in zip(lists, row, strict=True):
            values.append(value if value is None or isinstance(value, int | float) else str(value))
    types = [_stored_type(column, column.name in table.cased) for column in columns]
    kinds = [{"BIGINT": pa.int64(), "DOUBLE": pa.float64()}.get(type, pa.string()) for type in types]
    fields = ", ".join(f'"{column.name}" {type}' for column, type in zip(columns, types, strict=True))
    connection.execute(f'CREATE OR REPLACE {kind}TABLE "{name}" ({fields})')
    arrays = [pa.array(values, kind) for values, kind in zip(lists, kinds, strict=True)]
    connection.register("filling", pa.table(arrays, names=[column.name for column in columns]))
    connection.execute(f'INSERT INTO "{name}" SELECT * FROM filling')
    connection.unregister("filling")


def _stored_type(column: Column, cased: bool) -> str:
    if column.kind in (ColumnType.DOUBLE, ColumnType.FLOAT, ColumnType.NEWDECIMAL):
        return "DOUBLE"
    if column.number:
        return "BIGINT"
    return "VARCHAR" if cased else "VARCHAR COLLATE NOCASE"


_LOG = logging.getLogger(__name__)
_WORDS: Final = tuple(
    (re.compile(pattern), code, message)
    for pattern, code, message in (
        (
            r'Referenced column "(.*)" not found|column "(.*)" must appear in the GROUP BY clause or be used',
            ErrorCode.ER_BAD_FIELD_ERROR,
            "Unknown column '{}' in 'field list'",
        ),
        (r'Referenced table "(.*)" not found', ErrorCode.ER_BAD_FIELD_ERROR, "Unknown table '{}' before a column"),
        (
            r'Ambiguous reference to column name "(.*?)"',
            ErrorCode.ER_NON_UNIQ_ERROR,
            "Column '{}' in field list is ambiguous",
        ),
        (
            r'column "(.*)" must appear in the GROUP BY clause',
            ErrorCode.ER_WRONG_FIELD_WITH_GROUP,
            "Expression of SELECT list is not in GROUP BY clause and contains nonaggregated column '{}' which is not "
            "functionally dependent on columns in GROUP BY clause; this is incompatible with "
            "sql_mode=only_full_group_by",
        ),
        (r"cannot contain aggregates", ErrorCode.ER_INVALID_GROUP_FUNC_USE, "Invalid use of group function"),
        (r"More than one row returned by a sub", ErrorCode.ER_SUBQUERY_NO_1_ROW, "Subquery returns more than 1 row"),
        (r"ORDER term out of range", ErrorCode.ER_BAD_FIELD_ERROR, "Unknown column in 'order clause'"),
        (r"stopped: ", ErrorCode.ER_NOT_SUPPORTED_YET, "binlog-merge serve does not know the value of an expression"),
        (r"Out of Memory Error", ErrorCode.ER_OUT_OF_RESOURCES, "Out of memory: binlog-merge serve bounds a question"),
        (
            r"Conversion Error|No function matches|Cannot (?:mix|compare) values",
            ErrorCode.ER_NOT_SUPPORTED_YET,
            "binlog-merge serve takes no text for a number here: write texts beside texts, numbers beside numbers",
        ),
        (r"Out of Range Error", ErrorCode.ER_DATA_OUT_OF_RANGE, "BIGINT value is out of range"),
    )
)
"""What is found in DuckDB's text, and the error of which it is the cause; the first that is found."""
_OTHER: Final = "binlog-merge serve does not answer this SELECT"


def in_mysqls_words(error: Exception) -> Refused:
    """Return the error that a client gets for one of DuckDB's; what is not known goes to the operator's log."""
    stopped = why_stopped(error)
    if stopped is not None and stopped.endswith(OUT_OF_RANGE):
        return Refused(ErrorCode.ER_DATA_OUT_OF_RANGE, stopped)
    text = (str(error).splitlines() or [""])[0]
    for pattern, code, message in _WORDS:
        if match := pattern.search(text):
            named = next((group for group in match.groups() if group is not None), "")
            return Refused(code, message.format(named[:64]))
    _LOG.warning("%s: %s", _OTHER, text[:1000])
    return Refused(ErrorCode.ER_NOT_SUPPORTED_YET, _OTHER)
