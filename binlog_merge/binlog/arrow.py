"""Row images as Arrow record batches.

| column | Arrow type |
|---|---|
| TINY..LONGLONG, YEAR | int8..int64 or uint8..uint64; MEDIUMINT int32; YEAR int16 |
| NEWDECIMAL | decimal128, beyond 38 digits decimal256 |
| FLOAT, DOUBLE | float32, float64 |
| text | string, with `0x...` for bytes that are invalid in their character set; binary for the binary one |
| DATE, DATETIME, TIMESTAMP, TIME | date32, timestamp[us], timestamp[us, UTC], duration[us] |
| ENUM, SET | string where the members are known, else the index or the bits as uint64 |
| BIT | uint64 | JSON | string (JSON text) | VECTOR | list<float32> | GEOMETRY | binary (SRID, then WKB) |

Both NULL and absent columns become null; only the row images distinguish them.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from binlog_merge.binlog.cell_length import string_max_length
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.decode import decode_cell
from binlog_merge.binlog.errors import CellValueError
from binlog_merge.binlog.json_binary import json_text
from binlog_merge.binlog.rows import ABSENT, PartialJson, RowImage
from binlog_merge.binlog.table_map import TableMap, column_charsets, column_names, member_text, temporal_as_text
from binlog_merge.binlog.temporal import STOP, ZeroDates
from snapshot_store.mysql.text.codecs import text_or_bytes

_FIXED: Final[dict[int, Any]] = {
    T.FLOAT: pa.float32(),
    T.DOUBLE: pa.float64(),
    T.YEAR: pa.int16(),
    T.DATE: pa.date32(),
    T.NEWDATE: pa.date32(),
    T.TIME: pa.duration("us"),
    T.TIME2: pa.duration("us"),
    T.DATETIME: pa.timestamp("us"),
    T.DATETIME2: pa.timestamp("us"),
    T.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    T.TIMESTAMP2: pa.timestamp("us", tz="UTC"),
    T.BIT: pa.uint64(),
    T.JSON: pa.string(),
    T.VECTOR: pa.list_(pa.float32()),
    T.GEOMETRY: pa.binary(),
    T.NULL: pa.null(),
}
DATES: Final = frozenset((T.DATE, T.NEWDATE, T.DATETIME, T.DATETIME2, T.TIMESTAMP, T.TIMESTAMP2))
_INTEGERS: Final = {
    T.TINY: (pa.int8(), pa.uint8()),
    T.SHORT: (pa.int16(), pa.uint16()),
    T.INT24: (pa.int32(), pa.uint32()),
    T.LONG: (pa.int32(), pa.uint32()),
    T.LONGLONG: (pa.int64(), pa.uint64()),
}
TEMPORAL: Final = frozenset((T.DATE, T.NEWDATE, T.TIME, T.TIME2, T.DATETIME, T.DATETIME2, T.TIMESTAMP, T.TIMESTAMP2))


def arrow_type(kind: int, meta: int, unsigned: bool, charset: str, members: bool, temporal_text: bool = False) -> Any:
    """Return the Arrow type of a column; `kind` is its real type."""
    if kind in _INTEGERS:
        return _INTEGERS[T(kind)][unsigned]
    if kind == T.NEWDECIMAL:
        precision, scale = meta & 0xFF, meta >> 8
        return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
    if kind in (T.ENUM, T.SET):
        return pa.string() if members else pa.uint64()
    if temporal_text and kind in TEMPORAL:
        return pa.string()
    return _FIXED.get(kind) or (pa.binary() if charset == "binary" else pa.string())


def rows_to_batch(
    images: Sequence[RowImage],
    table_map: TableMap,
    names: Sequence[str] | None = None,
    charsets: Sequence[str] | None = None,
    temporal_text: bool = False,
    zero_dates: ZeroDates = STOP,
) -> pa.RecordBatch:
    """Return row images (all before, or all after) as a batch with one column per table column.

    Names and character sets come from the table map unless given. Dates that no calendar has raise CellValueError, or
    become what `zero_dates` says; `temporal_text` gives all dates and times as MySQL's text instead.
    """
    names = column_names(table_map) if names is None else names
    charsets = column_charsets(table_map) if charsets is None else charsets
    unsigned, members = table_map.unsigned(), table_map.members()
    arrays, fields = [], []
    for i, kind in enumerate(table_map.real_types()):
        meta, texts = table_map.metas[i], member_texts(members[i], charsets[i])
        rule = zero_dates.of(names[i])
        as_text = temporal_text or (rule == "text" and kind in DATES)
        kind_of = arrow_type(kind, meta, unsigned[i], charsets[i], texts is not None, as_text)
        values = [
            cell_value(image[i], table_map.types[i], meta, unsigned[i], charsets[i], texts, kind, as_text)
            for image in images
        ]
        if kind in TEMPORAL and not as_text:
            values = without_zero_dates(names[i], values, rule == "null")
        try:
            arrays.append(pa.array(values, kind_of))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise CellValueError(f"column {names[i]}: {error}") from None
        fields.append(pa.field(names[i], kind_of))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def without_zero_dates(name: str, values: list[Any], null: bool) -> list[Any]:
    """Return decoded dates and times, with NULL for dates that no calendar has if they are to be null.

    Raises CellValueError if they are not: such a date has no value, but MySQL's text.
    """
    if null:
        return [None if isinstance(value, str) else value for value in values]
    for value in values:
        if isinstance(value, str):
            raise CellValueError(f"column {name}: {value} is a date that no calendar has, and so has no type here")
    return values


def array_over(values: Any, type_: Any, missing: Any = None) -> Any:
    """Return an array over the memory of numbers; `missing` is a mask of those that are null.

    `pa.array` of numbers looks for pandas, and importing that takes longer than a small question.
    """
    count = 0 if missing is None else int(np.count_nonzero(missing))
    mask = pa.py_buffer(np.packbits(~missing, bitorder="little")) if count else None
    return pa.Array.from_buffers(type_, len(values), [mask, pa.py_buffer(np.ascontiguousarray(values))], count)


def texts_over(texts: Sequence[str | None]) -> Any:
    """Return an array of texts, as `pa.array` does."""
    data = [b"" if text is None else text.encode() for text in texts]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(each) for each in data], dtype=np.int64)])
    if offsets[-1] >= 1 << 31:
        raise pa.ArrowInvalid(f"{offsets[-1]} bytes of text are more than one batch holds")
    missing = np.array([text is None for text in texts], bool)
    count = int(np.count_nonzero(missing))
    mask = pa.py_buffer(np.packbits(~missing, bitorder="little")) if count else None
    offsets_32, joined = pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(b"".join(data))
    return pa.StringArray.from_buffers(len(data), offsets_32, joined, mask, count)


def text_over(text: str, count: int) -> Any:
    """Return an array of a text, `count` times."""
    data = text.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * len(data)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(data * count))


def member_texts(members: tuple[bytes, ...] | None, charset: str) -> tuple[str, ...] | None:
    """Return the members of an ENUM or SET as text; None if they are not known."""
    if members is None:
        return None
    texts = (text_or_bytes(charset, member) for member in members)
    return tuple(text if isinstance(text, str) else text.decode("latin-1") for text in texts)


def cell_value(
    cell: Any,
    type_code: int,
    meta: int,
    unsigned: bool,
    charset: str,
    members: tuple[str, ...] | None,
    kind: int,
    temporal_text: bool,
) -> Any:
    """Return the value of a cell for Arrow; None for NULL and for a column that the image lacks."""
    if cell is None or cell is ABSENT:
        return None
    if isinstance(cell, PartialJson):
        raise CellValueError("JSON differences have no value of their own: apply them first (json_diff.apply_to_cell)")
    value = decode_cell(type_code, meta, cell, unsigned, charset)
    if kind == T.JSON:
        return json_text(value)
    if kind in (T.ENUM, T.SET):
        return value if members is None else member_text(kind, value, members)
    if kind in TEMPORAL:
        fsp = meta if kind in (T.TIME2, T.DATETIME2, T.TIMESTAMP2) else 0
        return temporal_as_text(value, fsp) if temporal_text else value
    if isinstance(value, bytes) and charset != "binary" and kind != T.GEOMETRY:
        return "0x" + value.hex()
    if isinstance(value, bytes):
        return value.ljust(padded_length(type_code, meta, charset), b"\0")
    return value


def padded_length(type_code: int, meta: int, charset: str) -> int:
    """Return the length to which a BINARY(n) value is padded, as row images omit zero bytes at the end; else 0."""
    return string_max_length(meta) if type_code == T.STRING and charset == "binary" else 0
