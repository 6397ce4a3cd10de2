"""Values of a DuckDB table that an ALTER changes: computed as a MySQL server computes them for the rows that are there.

A column that is added gets its DEFAULT, or what its expression gives row by row; one whose type changes is converted
value by value, by what converts rows of a merge that are mid-MODIFY. What a server in strict mode refuses stops the
replay: the server that the log is of has not refused it.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa

from binlog_merge.binlog.arrow import cell_value
from binlog_merge.binlog.encode import encode_cell
from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from binlog_merge.errors import ReplayStopped, UnsupportedInput
from binlog_merge.merge.convert import ReshapeOptions, make_converter
from binlog_merge.merge.convert_values import ConversionError, decode_cell
from binlog_merge.merge.evaluate import Computed, Row
from binlog_merge.merge.reshape_pads import compute_pad, encode_now, pad_cell, pads_now
from binlog_merge.merge.witness import LENGTH_BYTES, binlog_column
from binlog_merge.replay.duckdb_types import column_facts_of, duckdb_type, for_duckdb
from snapshot_store.model import Column, ColumnType

_RANGES: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}


def carries(old: Column, new: Column) -> bool:
    """Tell whether DuckDB's own cast of the old values gives the new ones, or they are the same anyway."""
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


def convert_values(old: Column, new: Column, values: Any, temporal_text: bool) -> Any:
    """Return an Arrow array of the old column's values as the new one's; raises ReplayStopped where there are none."""
    try:
        converter = make_converter(old, new, binlog_column(old), ReshapeOptions("error", 0))
        cells = cells_of(old, values)
        found = cells if converter is None else [converter(cell) for cell in cells]
        return array_of(new, found, temporal_text)
    except (ConversionError, CellValueError, BinlogFormatError, UnsupportedInput) as error:
        raise ReplayStopped(f"the values that are there cannot be converted: {error}") from None


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
        import json

        return json.loads(value)
    if kind.name == "char" and isinstance(value, str):
        return value.rstrip(" ")
    if kind.name == "binary" and isinstance(value, bytes):
        return value.rstrip(b"\0")
    return value


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


def constant_of(column: Column, columns: Sequence[Column], commit_us: int, temporal_text: bool) -> Any | None:
    """Return what every row gets in a column that is added, as an array of one value; None where rows differ."""
    cell = encode_now(column, commit_us) if pads_now(column) else pad_cell(column, columns)
    return None if isinstance(cell, Computed) else array_of(column, [cell], temporal_text)


def needed_columns(column: Column, columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns that a column's expression is computed from."""
    cell = pad_cell(column, columns)
    if not isinstance(cell, Computed):
        return ()
    return tuple(other for other in columns if other.name.lower() in cell.columns)


def compute_values(column: Column, columns: Sequence[Column], rows: Any, commit_us: int, temporal_text: bool) -> Any:
    """Return what a column's expression gives for each row; `rows` has the columns that it needs, as Arrow."""
    expression = pad_cell(column, columns)
    assert isinstance(expression, Computed)
    needed = needed_columns(column, columns)
    try:
        values = [
            [None if cell is None else decode_cell(other.type, cell) for cell in cells_of(other, rows[other.name])]
            for other in needed
        ]
        names = [other.name.lower() for other in needed]
        cells = [
            compute_pad(column, expression, Row(dict(zip(names, row, strict=True)), commit_us, 0))
            for row in (zip(*values, strict=True) if values else [()] * len(rows))
        ]
        return array_of(column, cells, temporal_text)
    except (ConversionError, CellValueError, BinlogFormatError) as error:
        raise ReplayStopped(f"column {column.name} cannot be computed for the rows that are there: {error}") from None
