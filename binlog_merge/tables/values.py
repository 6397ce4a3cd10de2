"""Computes the values that an ALTER gives to existing rows of a DuckDB table, as a MySQL server does.

An added column gets its DEFAULT, or the value of its expression for each row. A column whose type changes is converted
value by value, with the conversion of a merge's rows during a MODIFY. A value that strict mode refuses stops the
replay: the log's server did not refuse it.
"""

import json
import re
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from binlog_merge.binlog.arrow import TEMPORAL, cell_value, without_zero_dates
from binlog_merge.binlog.encode import encode_cell
from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from binlog_merge.binlog.json_binary import float_text
from binlog_merge.binlog.temporal import STOP, Civil, ZeroDates
from binlog_merge.errors import ReplayStopped, UnsupportedInput
from binlog_merge.log.altered_cells import altered_cells
from binlog_merge.log.statement import StatementSession
from binlog_merge.reshape.pads import compute_pad, encode_now, pad_cell
from binlog_merge.tables.generated import cells_by_engine, columns_of
from binlog_merge.tables.types import BY_HAND, duckdb_type, for_duckdb
from binlog_merge.values.evaluate.row import Computed, Row
from binlog_merge.values.types import column_facts_of
from binlog_merge.values.value import ConversionError, Json, Value, decode_cell
from binlog_merge.values.value import encode_cell as cell_of
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import NUMERIC, ColumnType, Family

_LIKE_OPAQUE: Final = re.compile(r'"(\d{4}-\d\d-\d\d|-?\d\d+:\d\d:\d\d\.\d{6}"|base64:)', re.ASCII)
"""The texts of documents that are dates, times and others."""


def carries(old: Column, new: Column) -> bool:
    """Return whether DuckDB's cast of the old values gives the right new ones, or they do not change."""
    a, b = old.type, new.type
    if old.generated != new.generated:
        return False
    if old.nullable and not new.nullable:
        return False
    if a.family is b.family is Family.INTEGER:
        return b.holds_numbers_of(a)
    if a.charset and b.charset and (most := _capacity(a, 1)) and (certain := _capacity(b, 4)):
        wide = b.charset in ("utf8mb4", a.charset)
        return a == b or (wide and a.name != "char" and b.name != "char" and most <= certain)
    if a.family is b.family is Family.DECIMAL:
        if max(a.length or 10, b.length or 10) > 38:
            return a == b  # it is text here, which has the digits of the old column
        return b.holds_numbers_of(a)
    if a.name == b.name and a.family in (Family.TIME, Family.MOMENT):
        return b.fsp >= a.fsp and duckdb_type(a) == duckdb_type(b)
    return a == b


def _capacity(kind: ColumnType, width: int) -> int | None:
    """Return how many characters of `width` bytes a text column holds; None for other types."""
    if kind.family is not Family.TEXT:
        return None
    return kind.facts.most_bytes // width if kind.is_lob else kind.length or 1


def convert_values(
    old: Column, new: Column, values: Any, session: StatementSession, temporal_text: bool, alone: bool = False
) -> Any:
    """Convert an Arrow array of the old column's values to the new column. Raises ReplayStopped if that fails.

    `alone`: the statement does nothing else (see `log.altered_cells`).
    """
    try:
        _check_told(old, new, values)
        cells = altered_cells(old, new, cells_of(old, values), session, alone)
        return array_of(new, cells, temporal_text, session.zero_dates)
    except (ConversionError, CellValueError, BinlogFormatError, UnsupportedInput) as error:
        raise ReplayStopped(f"the values that are there cannot be converted: {error}", remedy=BY_HAND) from None


def _check_told(old: Column, new: Column, values: Any) -> None:
    """Raise ConversionError for a conversion by what the file does not tell apart."""
    if old.type.family is Family.JSON and new.type.family in (Family.DECIMAL, Family.BIT):
        for text in filter(None, values.to_pylist()):
            if _LIKE_OPAQUE.match(text):
                raise ConversionError(f"column {old.name}: {text[:40]} is a text, or a document's date, time or bytes")
    if "" in old.type.members and new.type.family in NUMERIC | {Family.BIT}:
        raise ConversionError(f"the member '' of column {old.name} is not told from no member here")


def cells_of(column: Column, values: Any) -> list[bytes | None]:
    """Return the cells of an Arrow array of a column's values."""
    encoded: dict[Any, bytes] = {}
    cells: list[bytes | None] = []
    for value in values.to_pylist():
        if value is None:
            cells.append(None)
            continue
        key = repr(value) if isinstance(value, float | list) else value  # 0.0 and -0.0 are two values
        if key not in encoded:
            encoded[key] = _cell(column, value)
        cells.append(encoded[key])
    return cells


def _cell(column: Column, value: Any) -> bytes:
    plain = _plain(column.type, value)
    if column.type.family is Family.JSON:
        return cell_of(column.type, Json(plain))  # the document null is not NULL
    facts = column_facts_of(column)
    return encode_cell(facts.code, facts.meta, plain, facts.unsigned, facts.charset, column.type.members or None)


def _plain(kind: ColumnType, value: Any) -> Any:
    """Convert a value from DuckDB's Arrow to one for `encode_cell`."""
    if kind.family is Family.TIME and isinstance(value, tuple):
        months, days, nanoseconds = value
        return timedelta(days=days + 30 * months, microseconds=nanoseconds // 1000)
    if kind.family is Family.JSON and isinstance(value, str):
        return json.loads(value, parse_float=_number)
    if kind.name == "char" and isinstance(value, str):
        return value.rstrip(" ")
    if kind.name == "binary" and isinstance(value, bytes):
        return value.rstrip(b"\0")
    return value


def _number(text: str) -> float | Decimal:
    """Parse a number of a document so that it prints the same digits again."""
    number = float(text)
    return number if float_text(number) == text else Decimal(text)


def array_of(column: Column, cells: Sequence[bytes | None], temporal_text: bool, zero_dates: ZeroDates = STOP) -> Any:
    """Return cells of a column as an Arrow array for DuckDB."""
    facts = column_facts_of(column, temporal_text, None, zero_dates)
    values = [
        None
        if cell is None
        else cell_value(
            cell, facts.code, facts.meta, facts.unsigned, facts.charset, facts.members, facts.kind, temporal_text
        )
        for cell in cells
    ]
    if facts.kind in TEMPORAL and not temporal_text:
        values = without_zero_dates(column.name, values, facts.zero_null)
    try:
        return for_duckdb(pa.array(values, facts.type))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise CellValueError(f"column {column.name}: {error}") from None


def constant_of(
    column: Column, columns: Sequence[Column], session: StatementSession, temporal_text: bool
) -> Any | None:
    """Return the value that all rows get in an added column, as an array of length 1; None if rows differ."""
    if _gets_now(column):
        offset = 0 if column.type.name == "timestamp" else session.offset
        return array_of(column, [encode_now(column, session.now_us, offset)], temporal_text)
    if column.type.name == "timestamp" and column.default is not None and column.default.kind == "literal":
        session.known_zone()  # in which the literal was written
    cell = _expression(column, columns)
    if isinstance(cell, UnsupportedInput):
        return None
    if isinstance(cell, Computed):
        return None if cell.columns else compute_values(column, columns, [None], session, temporal_text)
    return array_of(column, [cell], temporal_text, session.zero_dates)


def _gets_now(column: Column) -> bool:
    return column.generated is None and column.default is not None and column.default.kind == "now"


def needed_columns(column: Column, columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns that a column's expression is computed from."""
    if _gets_now(column):
        return ()
    expression = _expression(column, columns)
    if isinstance(expression, UnsupportedInput):
        names = columns_of(column)
    else:
        names = expression.columns if isinstance(expression, Computed) else frozenset()
    return tuple(other for other in columns if other.name.lower() in names)


def _expression(column: Column, columns: Sequence[Column]) -> bytes | Computed | UnsupportedInput | None:
    """Return the value or expression for a column; an error if only DuckDB may be able to compute it."""
    try:
        return pad_cell(column, columns)
    except UnsupportedInput as error:
        if not columns_of(column):
            raise
        return error


def compute_values(
    column: Column, columns: Sequence[Column], rows: Any, session: StatementSession, temporal_text: bool
) -> Any:
    """Return the values of a column's expression for `rows`, which has the columns it needs, as Arrow.

    Raises ReplayStopped if neither this program nor DuckDB can compute it as a server does.
    """
    expression = _expression(column, columns)
    try:
        if isinstance(expression, Computed):
            cells = _evaluated(column, columns, expression, rows, session)
        else:
            cells = cells_by_engine(column, columns, rows, _zone_for(needed_columns(column, columns), session))
        return array_of(column, cells, temporal_text, session.zero_dates)
    except (ConversionError, CellValueError, BinlogFormatError) as error:
        reason = expression.message if isinstance(expression, UnsupportedInput) else str(error)
        raise ReplayStopped(
            f"column {column.name} cannot be computed for the rows that are there: {reason}", remedy=BY_HAND
        ) from None


def _evaluated(
    column: Column, columns: Sequence[Column], expression: Computed, rows: Any, session: StatementSession
) -> list[bytes | None]:
    needed = needed_columns(column, columns)
    values = [[_shown(other, cell, session) for cell in cells_of(other, rows[other.name])] for other in needed]
    names = [other.name.lower() for other in needed]
    now = (session.now_us, session.offset if expression.at_commit else 0)
    try:
        return [
            compute_pad(column, expression, Row(dict(zip(names, row, strict=True)), *now))
            for row in (zip(*values, strict=True) if values else [()] * len(rows))
        ]
    except ConversionError:
        if not needed:
            raise
        return cells_by_engine(column, columns, rows, _zone_for(needed, session))


def _shown(column: Column, cell: bytes | None, session: StatementSession) -> Value | None:
    """Return the value of a cell, in the session's time zone."""
    value = None if cell is None else decode_cell(column.type, cell)
    return session.local(value) if column.type.name == "timestamp" and isinstance(value, Civil) else value


def _zone_for(needed: Sequence[Column], session: StatementSession) -> str:
    if any(column.type.name == "timestamp" for column in needed):
        session.known_zone()
    return session.zone
