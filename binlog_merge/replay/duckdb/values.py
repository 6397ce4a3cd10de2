"""Values of a DuckDB table that an ALTER changes: computed as a MySQL server computes them for the rows that are there.

A column that is added gets its DEFAULT, or what its expression gives row by row; one whose type changes is converted
value by value, by what converts rows of a merge that are mid-MODIFY. What a server in strict mode refuses stops the
replay: the server that the log is of has not refused it.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from binlog_merge.binlog.arrow import cell_value
from binlog_merge.binlog.encode import encode_cell
from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from binlog_merge.binlog.json_binary import float_text
from binlog_merge.binlog.temporal import Civil
from binlog_merge.errors import ReplayStopped, UnsupportedInput
from binlog_merge.replay.duckdb.generated import cells_by_engine, columns_of
from binlog_merge.replay.duckdb.statement_session import StatementSession
from binlog_merge.replay.duckdb.types import BY_HAND, column_facts_of, duckdb_type, for_duckdb
from binlog_merge.reshape.pads import compute_pad, encode_now, pad_cell
from binlog_merge.values.binlog_types import LENGTH_BYTES, binlog_column
from binlog_merge.values.convert import ReshapeOptions, make_converter
from binlog_merge.values.evaluate.row import Computed, Row
from binlog_merge.values.value import ConversionError, Value, decode_cell
from binlog_merge.values.value import encode_cell as cell_of
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import ColumnType

_RANGES: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}


def carries(old: Column, new: Column) -> bool:
    """Return whether DuckDB's own cast of the old values gives the new ones, or they are the same anyway."""
    a, b = old.type, new.type
    if old.generated != new.generated:
        return False
    if old.nullable and not new.nullable:
        return False
    if a.name in _RANGES and b.name in _RANGES:
        low, high = _range(a), _range(b)
        return high[0] <= low[0] and low[1] <= high[1]
    if a.charset and b.charset and _capacity(a) and _capacity(b):
        wide = b.charset in ("utf8mb4", a.charset)
        return wide and a.name != "char" and b.name != "char" and (_capacity(a) or 0) <= (_capacity(b) or 0)
    if a.name == b.name == "decimal":
        whole = ((b.length or 10) - (b.decimals or 0)) >= ((a.length or 10) - (a.decimals or 0))
        return whole and (b.decimals or 0) >= (a.decimals or 0) and not (b.unsigned and not a.unsigned)
    if a.name == b.name and a.name in ("datetime", "timestamp", "time"):
        return b.fsp >= a.fsp and duckdb_type(a) == duckdb_type(b)
    return a == b


def _range(kind: ColumnType) -> tuple[int, int]:
    bits = _RANGES[kind.name]
    return (0, (1 << bits) - 1) if kind.unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)


def _capacity(kind: ColumnType) -> int | None:
    """Return how many characters a text column holds, however wide they are; None for what is no text."""
    if kind.name in ("char", "varchar"):
        return kind.length or 1
    if kind.name in LENGTH_BYTES and kind.name.endswith("text"):
        return int((1 << 8 * LENGTH_BYTES[kind.name]) - 1) // 4
    return None


def convert_values(old: Column, new: Column, values: Any, session: StatementSession, temporal_text: bool) -> Any:
    """Return an Arrow array of the old column's values as the new one's; raises ReplayStopped where there are none.

    What does not fit is an error in a session in strict mode, and made to fit in another.
    """
    zoned = (old.type.name == "timestamp") != (new.type.name == "timestamp")
    try:
        cells = cells_of(old, values)
        if zoned and old.type.name == "timestamp":
            cells, old = [_moved(old, cell, session.local) for cell in cells], _on_the_clock(old)
        if zoned and new.type.name == "timestamp":
            cells, old = _converted(old, _on_the_clock(new), cells, session), _on_the_clock(new)
            cells = [_moved(old, cell, session.utc) for cell in cells]
        return array_of(new, _converted(old, new, cells, session), temporal_text)
    except (ConversionError, CellValueError, BinlogFormatError, UnsupportedInput) as error:
        raise ReplayStopped(f"the values that are there cannot be converted: {error}") from None


def _converted(old: Column, new: Column, cells: list[bytes | None], session: StatementSession) -> list[bytes | None]:
    options = ReshapeOptions("error" if session.ddl.strict else "clamp")
    converter = make_converter(old, new, binlog_column(old), options)
    return cells if converter is None else [converter(cell) for cell in cells]


def _on_the_clock(column: Column) -> Column:
    """Return a TIMESTAMP column as the DATETIME that a session's clock makes of it."""
    return replace(column, type=ColumnType("datetime", fsp=column.type.fsp))


def _moved(column: Column, cell: bytes | None, move: Callable[[Civil], Civil]) -> bytes | None:
    """Return the cell of a column without a zone, or of a TIMESTAMP, at another moment."""
    kind = _on_the_clock(column).type
    if cell is None:
        return None
    moment = decode_cell(column.type, cell)
    assert isinstance(moment, Civil)
    return cell_of(kind, move(moment))


def cells_of(column: Column, values: Any) -> list[bytes | None]:
    """Return the cells of an Arrow array of a column's values."""
    facts = column_facts_of(column)
    encoded: dict[Any, bytes] = {}
    found: list[bytes | None] = []
    for value in values.to_pylist():
        if value is None:
            found.append(None)
            continue
        plain = _plain(column.type, value)
        key = plain if plain.__hash__ is not None else repr(plain)
        if key not in encoded:
            encoded[key] = encode_cell(
                facts.code, facts.meta, plain, facts.unsigned, facts.charset, column.type.members or None
            )
        found.append(encoded[key])
    return found


def _plain(kind: ColumnType, value: Any) -> Any:
    """Return what `encode_cell` takes for a value as DuckDB's Arrow gives it."""
    if kind.name == "time" and isinstance(value, tuple):
        months, days, nanoseconds = value
        return timedelta(days=days + 30 * months, microseconds=nanoseconds // 1000)
    if kind.name == "json" and isinstance(value, str):
        return json.loads(value, parse_float=_number)
    if kind.name == "char" and isinstance(value, str):
        return value.rstrip(" ")
    if kind.name == "binary" and isinstance(value, bytes):
        return value.rstrip(b"\0")
    return value


def _number(text: str) -> float | Decimal:
    """Return a number of a document as what shows the same digits again."""
    number = float(text)
    return number if float_text(number) == text else Decimal(text)


def array_of(column: Column, cells: Sequence[bytes | None], temporal_text: bool) -> Any:
    """Return cells of a column as an Arrow array that DuckDB takes."""
    facts = column_facts_of(column, temporal_text)
    values = [
        None
        if cell is None
        else cell_value(
            cell, facts.code, facts.meta, facts.unsigned, facts.charset, facts.members, facts.kind, temporal_text
        )
        for cell in cells
    ]
    try:
        return for_duckdb(pa.array(values, facts.type))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise CellValueError(f"column {column.name}: {error}") from None


def constant_of(
    column: Column, columns: Sequence[Column], session: StatementSession, temporal_text: bool
) -> Any | None:
    """Return what every row gets in a column that is added, as an array of one value; None where rows differ."""
    if _gets_now(column):
        offset = 0 if column.type.name == "timestamp" else session.offset
        return array_of(column, [encode_now(column, session.now_us, offset)], temporal_text)
    if column.type.name == "timestamp" and column.default is not None and column.default.kind == "literal":
        session.known_zone()  # by which the literal has become UTC's
    cell = _expression(column, columns)
    if isinstance(cell, UnsupportedInput):
        return None
    if isinstance(cell, Computed):
        return None if cell.columns else compute_values(column, columns, [None], session, temporal_text)
    return array_of(column, [cell], temporal_text)


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
    """Return a column's pad; why there is none, where DuckDB may know one."""
    try:
        return pad_cell(column, columns)
    except UnsupportedInput as error:
        if not columns_of(column):
            raise
        return error


def compute_values(
    column: Column, columns: Sequence[Column], rows: Any, session: StatementSession, temporal_text: bool
) -> Any:
    """Return what a column's expression gives for each row; `rows` has the columns that it needs, as Arrow.

    Raises ReplayStopped where neither this program nor DuckDB can compute it as a server does.
    """
    expression = _expression(column, columns)
    try:
        if isinstance(expression, Computed):
            cells = _evaluated(column, columns, expression, rows, session)
        else:
            cells = cells_by_engine(column, columns, rows, _zone_for(needed_columns(column, columns), session))
        return array_of(column, cells, temporal_text)
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
    """Return the value of a cell as a session sees it."""
    value = None if cell is None else decode_cell(column.type, cell)
    return session.local(value) if column.type.name == "timestamp" and isinstance(value, Civil) else value


def _zone_for(needed: Sequence[Column], session: StatementSession) -> str:
    if any(column.type.name == "timestamp" for column in needed):
        session.known_zone()
    return session.zone
