"""Expressions evaluated by a server and by the project, value by value: equal, or refused."""

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation, localcontext
from typing import Any, Final, cast

import duckdb
import pyarrow as pa
import pymysql

from binlog_merge.binlog.arrow import rows_to_batch
from binlog_merge.binlog.events import RowsEvent, TableMap
from binlog_merge.binlog.json_binary import json_text
from binlog_merge.binlog.rows import RowImage, split_rows
from binlog_merge.values.duckdb.collations import UnknownCollation
from binlog_merge.values.duckdb.columns import TableColumns, engine_array
from binlog_merge.values.duckdb.compile import compile_value, parse
from binlog_merge.values.duckdb.piece import ExpressionError, Sql, why_stopped
from binlog_merge.values.evaluate.kinds import TYPES, NotComputableError
from binlog_merge.values.evaluate.row import Computed, Row, computed, value_for
from binlog_merge.values.value import ConversionError, decode_cell
from snapshot_store import Column, parse_table
from snapshot_store.mysql.column_type import ColumnType
from snapshot_store.mysql.text.codecs import encode_text
from tests.binlog.real_files import parsed
from tests.mysql_server import MySqlServer
from tests.values.random_expressions import CREATE, Expressions

_MANY: Final = 40


_COMPUTED: Final = (
    *("tinyint", "smallint", "mediumint", "int", "bigint", "year", "decimal", "float", "double", "date", "datetime"),
    *("timestamp", "time", "json", "char", "varchar", "text"),
)
_RESULTS: Final = {kind: Column("r", TYPES[kind]) for kind in ("decimal", "double", "text", "date", "datetime", "json")}
_RESULTS["int"] = Column("r", ColumnType("decimal", length=65, decimals=0))


def _plain(kind: str, value: Any) -> tuple[str, Any]:
    """Return a computed value in the kind and form of one that the engine has computed."""
    if value is None or kind in ("int", "decimal", "double"):
        return kind, value
    if kind in ("date", "datetime"):
        return kind, re.sub("[- :]", "", value.text(6))
    return ("json", json_text(value.document)) if kind == "json" else ("string", value)


@dataclass
class Difference:
    """An expression whose values are not a server's: its rows, each with what is ours and theirs."""

    text: str
    rows: list[tuple[int, Any, Any]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.text}\n" + "\n".join(f"    row {n}: ours {a!r}, theirs {b!r}" for n, a, b in self.rows[:3])


class Attack:
    """A table with random rows, on a server and as a batch out of its binlog."""

    def __init__(self, server: MySqlServer, made: Expressions, rows: int) -> None:
        server.execute("CREATE DATABASE f")
        server.execute(CREATE, "f")
        with contextlib.closing(server.connect("f")) as connection, connection.cursor() as cursor:
            cursor.execute("SET sql_mode = '', time_zone = '+00:00'")
            cursor.execute(f"INSERT INTO t VALUES {', '.join(made.row(number) for number in range(rows))}")
        self.made = made
        self.table = parse_table(CREATE, schema="f")
        images, table_map = rows_of_binlog(server)
        self._batch = rows_to_batch(images, table_map, temporal_text=True)
        self._columns = {column.name: column for column in self.table.columns}
        self._rows = [Row(self._values(image), 0, 0) for image in images]
        self._connection = server.connect("f")
        self._cursor = self._connection.cursor()
        self._cursor.execute("SET sql_mode = '', time_zone = '+00:00'")
        self._connection.decoders = {}
        self._connection.use_unicode = False
        self._engine = duckdb.connect(config={"threads": 1})
        self._engine.register("rows_of_t", pa.table(dict(self._arrays())))
        self.count = rows
        self.refused = 0
        self.equal = 0

    def _values(self, image: RowImage) -> dict[str, Any]:
        """Return a row's values as the evaluator takes them that computes row by row."""
        return {
            column.name: None if cell is None else decode_cell(column.type, cast(bytes, cell))
            for column, cell in zip(self.table.columns, image, strict=True)
            if column.type.name in _COMPUTED
        }

    def close(self) -> None:
        self._connection.close()
        self._engine.close()

    def compiled(self, text: str) -> Sql | None:
        """Return an expression as SQL; None if it is refused."""
        try:
            return compile_value(parse(text), TableColumns(self.table, ()))
        except (ExpressionError, UnknownCollation):
            return None

    def computed_otherwise(self, texts: Sequence[str]) -> Iterator[Difference]:
        """Yield the expressions that are computed row by row, and whose values differ.

        At which a server stops is no expression of a generated column that has rows.
        """
        ready = [one for text in texts if (one := self._computed(text)) is not None]
        for begin in range(0, len(ready), _MANY):
            some = ready[begin : begin + _MANY]
            for expression, told in zip(some, self._theirs([one.source for one in some]), strict=True):
                found = Difference(expression.source)
                if isinstance(told, str):
                    continue
                for number, row in enumerate(self._rows):
                    try:
                        mine = value_for(expression, _RESULTS[expression.kind], row)
                    except ConversionError:
                        continue
                    if not _same(*_plain(expression.kind, mine), _in_column(expression.kind, told[number])):
                        found.rows.append((number, f"{expression.kind} {mine!r}", told[number]))
                self.equal += not found.rows
                if found.rows:
                    yield found

    def _computed(self, text: str) -> Computed | None:
        try:
            found = computed(text, self._columns)
        except NotComputableError:
            return None
        return found if found.kind in _RESULTS and not found.at_commit else None

    def differences(self, texts: Sequence[str]) -> Iterator[Difference]:
        """Yield the expressions that are not refused and whose values differ."""
        pieces = [(text, piece) for text in texts if (piece := self.compiled(text)) is not None]
        self.refused += len(texts) - len(pieces)
        for begin in range(0, len(pieces), _MANY):
            some = pieces[begin : begin + _MANY]
            ours = self._ours([piece for _, piece in some])
            some, ours = _without(some, ours)
            self.refused += _MANY - len(some) if begin + _MANY <= len(pieces) else len(pieces) - begin - len(some)
            theirs = self._theirs([text for text, _ in some])
            for (text, piece), mine, told in zip(some, ours, theirs, strict=True):
                found = Difference(text)
                for number in range(self.count):
                    their = told if isinstance(told, str) else told[number]
                    their = _number_of(their) if piece.bit else their
                    if isinstance(told, str) or not _same(piece.kind, mine[number], their):
                        found.rows.append((number, _shown(piece.kind, mine[number]), their))
                if found.rows:
                    yield found
                else:
                    self.equal += 1

    def _arrays(self) -> Iterator[tuple[str, Any]]:
        """Yield the columns that the engine is asked about, as `TableColumns` names them."""
        for place, column in enumerate(self.table.columns):
            if column.name != "d65":
                yield f"c{place}", engine_array(column, self._batch.column(column.name), "UTC")

    def _ours(self, pieces: Sequence[Sql]) -> list[list[Any] | None]:
        """Return the values of each expression; None of one at which the engine stops."""
        if not pieces:
            return []
        try:
            return list(self._evaluated(pieces))
        except duckdb.Error as error:
            if len(pieces) == 1:
                _check_stop(error)
                return [None]
        half = len(pieces) // 2
        return self._ours(pieces[:half]) + self._ours(pieces[half:])

    def _evaluated(self, pieces: Sequence[Sql]) -> Iterator[list[Any]]:
        outputs = ", ".join(f"{_readable(piece)} AS v{i}" for i, piece in enumerate(pieces))
        rows = self._engine.execute(f"SELECT {outputs} FROM rows_of_t").fetchall()
        yield from map(list, zip(*rows, strict=True))

    def _theirs(self, texts: Sequence[str]) -> list[list[Any] | str]:
        """Return the values of each expression, or the error that it gives."""
        if not texts:
            return []
        try:
            self._cursor.execute(f"SELECT {', '.join(texts)} FROM t ORDER BY id".replace("%", "%"))
            rows = self._cursor.fetchall()
            return [list(values) for values in zip(*rows, strict=True)]
        except pymysql.MySQLError as error:
            if len(texts) == 1:
                return [f"error {error.args[0]}: {error.args[1]}"]
        half = len(texts) // 2
        return self._theirs(texts[:half]) + self._theirs(texts[half:])


def _readable(piece: Sql) -> str:
    return f"({piece.text})::VARCHAR" if piece.kind in ("int", "decimal", "date", "datetime", "time") else piece.text


def _without(some: Any, ours: Any) -> tuple[Any, Any]:
    kept = [(one, values) for one, values in zip(some, ours, strict=True) if values is not None]
    return [one for one, _ in kept], [values for _, values in kept]


def _check_stop(error: Exception) -> None:
    """Fail unless an expression stops the engine as it says itself; what else does is a fault of its SQL."""
    assert why_stopped(error) is not None, error


def _shown(kind: str, value: Any) -> Any:
    return f"{kind} {value}"


def _same(kind: str, mine: Any, theirs: Any) -> bool:
    if mine is None or theirs is None:
        return mine is None and theirs is None
    text = theirs.decode("utf-8", "surrogateescape") if isinstance(theirs, bytes) else str(theirs)
    try:
        match kind:
            case "int" | "decimal":
                return Decimal(mine) == Decimal(text)
            case "bool":
                return Decimal(int(mine)) == Decimal(text)
            case "double":  # of a FLOAT six digits are shown, and of one with decimals these
                shown = f"{mine:.{len(text.partition('.')[2])}f}" if "e" not in text else f"{mine:.6g}"
                return float(text) in (float(mine), float(f"{mine:.6g}"), float(shown))
            case "date" | "datetime":
                return _moment(mine) == _of_digits(text)
            case "time":
                return Decimal(mine) == Decimal(text.replace(":", ""))
            case "json":
                return bool(json.loads(mine, parse_float=str) == json.loads(text, parse_float=str))
            case "binary":
                return bytes(mine) == (theirs if isinstance(theirs, bytes) else theirs.encode())
    except (ValueError, InvalidOperation):
        return False
    return bool(str(mine) == text)


def _in_column(kind: str, theirs: Any) -> Any:
    """Return a server's number as a column has it: with 30 digits after the point, where a constant may have more."""
    if kind != "decimal" or theirs is None:
        return theirs
    with localcontext(Context(prec=100)):
        return Decimal(theirs.decode()).quantize(Decimal("1e-30"), ROUND_HALF_UP)


def _number_of(bits: Any) -> Any:
    """Return the number of a BIT."""
    number = bits is None or re.fullmatch(rb"-?[\d.]+(e[-+]?\d+)?", bits)
    return bits if number else int.from_bytes(_as_sent(bits), "big")


def _as_sent(bits: bytes) -> bytes:
    """Return a BIT's bytes, which a server may take for a text in latin1 that it makes one in UTF-8 of."""
    try:
        return encode_text("latin1", bits.decode()) if len(bits) > 1 else bits
    except UnicodeError:
        return bits


def _moment(digits: str) -> str:
    whole, _, fraction = digits.partition(".")
    return f"{int(whole):014d}.{fraction:0<6}"


def _of_digits(text: str) -> str:
    whole, _, fraction = text.partition(".")
    digits = re.sub(r"\D", "", whole)
    return f"{digits:0<14}.{fraction:0<6}"


def rows_of_binlog(server: MySqlServer) -> tuple[list[RowImage], TableMap]:
    """Return the rows that the server's binlog says were inserted, and how they are written."""
    images: list[RowImage] = []
    found: TableMap | None = None
    for file in server.binlog_files():
        for _, value in parsed(file.read_bytes()):
            if isinstance(value, TableMap):
                found = value
            elif isinstance(value, RowsEvent) and found is not None:
                images += [after for _, after in split_rows(value, found) if after is not None]
    assert found is not None
    return images, found
