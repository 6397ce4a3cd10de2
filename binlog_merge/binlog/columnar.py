"""Decodes row images in bulk: a kernel cuts the rows of many events, and columns are decoded directly to Arrow arrays.

The result is that of `arrow.rows_to_batch`, much faster: numbers, dates, decimals and texts never become Python values.
Rare values (vectors, unusual character sets, invalid dates; of JSON doubles, decimals and times) are decoded as there.
"""

import struct
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from binlog_merge.binlog.arrow import (
    TEMPORAL,
    arrow_type,
    cell_value,
    member_texts,
    padded_length,
    texts_over,
    without_zero_dates,
)
from binlog_merge.binlog.cell_length import cell_length, real_type, string_max_length
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from binlog_merge.binlog.json_binary import OPAQUE, decode_json, float_text, json_text
from binlog_merge.binlog.kernels import column_values, json_documents
from binlog_merge.binlog.kernels.row_cells import ABSENT, FIXED, count_rows, cut_events
from binlog_merge.binlog.rows import RowsEvent, iter_rows
from binlog_merge.binlog.table_map import TableMap, column_charsets, column_names, member_text
from snapshot_store.mysql.text.codecs import is_ascii_compatible, is_utf8

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[Any]
BEFORE: Final = 0
AFTER: Final = 1
_NOTHING: Final = bytes(255)
"""A cell of any fixed length."""


@dataclass(frozen=True, slots=True)
class CutRows:
    """Rows of a table, cut: cell (side, column, row) is `buffer[starts:starts + sizes]`; sizes: `kernels.row_cells`.

    `events` is the index of each row's event.
    """

    table: TableMap
    buffer: Bytes
    starts: Numbers
    sizes: Numbers
    events: Numbers

    def __len__(self) -> int:
        return int(self.sizes.shape[2])


def cut_rows(buffer: Bytes, events: Numbers, table: TableMap) -> CutRows:
    """Cut the rows of events (columns: begin of the body, end of the body, type) of the same table map.

    Raises BinlogFormatError for rows that do not fit the table map.
    """
    events = np.ascontiguousarray(events[:, :3], np.int64)
    types, metas = cell_types(table.types, tuple(table.metas))
    counts = _counted(buffer, events, table, types, metas)
    shape = (2, len(types), int(counts.sum()))
    starts, sizes = np.zeros(shape, np.int32), np.empty(shape, np.int32)
    cut_events(buffer, events, types, metas, starts, sizes)
    return CutRows(table, buffer, starts, sizes, np.repeat(np.arange(len(events)), counts))


def rows_of_events(buffer: Bytes, events: Numbers, table: TableMap) -> Numbers:
    """Return how many rows each event has; arguments and errors are those of `cut_rows`."""
    types, metas = cell_types(table.types, tuple(table.metas))
    return _counted(buffer, np.ascontiguousarray(events[:, :3], np.int64), table, types, metas)


@lru_cache(1 << 10)
def cell_types(types: bytes, metas: tuple[int, ...]) -> tuple[Numbers, Numbers]:
    """Return types and metadata for the kernels: FIXED and the length for columns whose cells all have the same.

    Raises BinlogFormatError for an invalid decimal type.
    """
    found = [_cell_type(kind, meta) for kind, meta in zip(types, metas, strict=True)]
    return np.array(found, np.int64), np.array(metas, np.int64)


def _cell_type(kind: int, meta: int) -> int:
    real = real_type(kind, meta)
    if real not in _DECODE or _DECODE[real] in (_texts, _json):
        return kind
    return FIXED + cell_length(kind, meta, _NOTHING, 0)


def _counted(buffer: Bytes, events: Numbers, table: TableMap, types: Numbers, metas: Numbers) -> Numbers:
    counts = np.zeros(len(events), np.int64)
    wrong = count_rows(buffer, events, types, metas, np.zeros((2, 0, 0), np.int32), counts)
    if wrong >= 0:
        _explain(buffer, events[wrong], table)
    return counts


def _explain(buffer: Bytes, event: Numbers, table: TableMap) -> NoReturn:
    """Raise the error of `iter_rows` for an event that the kernel rejected."""
    body, end, kind = (int(number) for number in event)
    for _ in iter_rows(RowsEvent.parse(kind, buffer[body:end].tobytes()), table):
        pass
    raise BinlogFormatError(f"rows event of {table.schema}.{table.table} cannot be cut")


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """What determines the values of a column; `members` are the texts of ENUM or SET, `type` is its Arrow type.

    With `zero_null` a date that no calendar has is null; else it is an error, unless dates are text.
    """

    name: str
    code: int
    meta: int
    kind: int
    unsigned: bool
    charset: str
    members: tuple[str, ...] | None
    temporal_text: bool
    type: Any
    zero_null: bool = False


def column_facts(
    table: TableMap,
    names: Sequence[str] | None = None,
    charsets: Sequence[str] | None = None,
    temporal_text: bool = False,
) -> tuple[ColumnFacts, ...]:
    """Return the facts about a table map's columns; arguments take precedence over the table map."""
    names = column_names(table) if names is None else names
    charsets = column_charsets(table) if charsets is None else charsets
    unsigned, members = table.unsigned(), table.members()
    found = []
    for i, code in enumerate(table.types):
        kind = real_type(code, table.metas[i])
        texts = member_texts(members[i], charsets[i])
        type_ = arrow_type(kind, table.metas[i], unsigned[i], charsets[i], texts is not None, temporal_text)
        facts = ColumnFacts(names[i], code, table.metas[i], kind, unsigned[i], charsets[i], texts, temporal_text, type_)
        found.append(facts)
    return tuple(found)


def decode_column(facts: ColumnFacts, buffer: Bytes, starts: Numbers, sizes: Numbers) -> Any:
    """Return cells as an Arrow array of `facts.type`; raises CellValueError and BinlogFormatError."""
    starts, sizes = np.ascontiguousarray(starts), np.ascontiguousarray(sizes)
    decode = _DECODE.get(facts.kind)
    if facts.temporal_text and facts.kind in TEMPORAL:
        decode = None
    array = None if decode is None else decode(facts, buffer, starts, sizes)
    return _cell_by_cell(facts, buffer, starts, sizes) if array is None else array


def decode_rows(
    rows: CutRows,
    side: int,
    facts: Sequence[ColumnFacts],
    chosen: Numbers | None = None,
    columns: Sequence[int] | None = None,
) -> Any:
    """Return one side of the rows, or of the `chosen` ones, as a record batch of all columns or of `columns`."""
    of = slice(None) if chosen is None else chosen
    numbers = range(len(facts)) if columns is None else columns
    arrays = [pa.nulls(rows.sizes[side].shape[1] if chosen is None else len(chosen))]
    arrays += [decode_column(facts[i], rows.buffer, rows.starts[side, i][of], rows.sizes[side, i][of]) for i in numbers]
    schema = pa.schema([pa.field("", pa.null()), *(pa.field(facts[i].name, facts[i].type) for i in numbers)])
    # Through a column of nothing, for a batch of no columns has rows too.
    return pa.RecordBatch.from_arrays(arrays, schema=schema).select(range(1, len(arrays)))


def decode_held(
    rows: CutRows, side: int, facts: Sequence[ColumnFacts], wanted: Collection[str], chosen: Numbers | None = None
) -> Any:
    """Return the wanted columns of one side of the rows, or of the `chosen` ones, without columns that a row lacks."""
    of = slice(None) if chosen is None else chosen
    held = [i for i, c in enumerate(facts) if c.name in wanted and not (rows.sizes[side, i][of] == ABSENT).any()]
    return decode_rows(rows, side, facts, chosen, held)


def _cell_by_cell(facts: ColumnFacts, buffer: Bytes, starts: Numbers, sizes: Numbers) -> Any:
    """Decode cell by cell, and equal cells only once."""
    known: dict[bytes, Any] = {}
    values: list[Any] = []
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        if size < 0:
            values.append(None)
            continue
        cell = buffer[start : start + size].tobytes()
        if cell not in known:
            if len(known) > 10_000:
                known.clear()
            known[cell] = cell_value(
                cell, facts.code, facts.meta, facts.unsigned, facts.charset, facts.members, facts.kind,
                facts.temporal_text,
            )  # fmt: skip
        values.append(known[cell])
    if facts.kind in TEMPORAL and not facts.temporal_text:
        values = without_zero_dates(facts.name, values, facts.zero_null)
    try:
        return texts_over(values) if facts.type == pa.string() else pa.array(values, facts.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise CellValueError(f"column {facts.name}: {error}") from None


def _array(type_: Any, valid: Bytes, *buffers: Any) -> Any:
    """Return an array over buffers; `valid` has a byte for each value."""
    missing = len(valid) - int(np.count_nonzero(valid.view(np.bool_)))
    mask = pa.py_buffer(np.packbits(valid, bitorder="little")) if missing else None
    return pa.Array.from_buffers(type_, len(valid), [mask, *(pa.py_buffer(b) for b in buffers)], missing)


def _numbers(facts: ColumnFacts, buffer: Bytes, starts: Numbers, sizes: Numbers) -> Any:
    width = _WIDTHS[facts.kind]
    out, valid = np.empty(width * len(starts), np.uint8), np.empty(len(starts), np.uint8)
    if column_values.numbers(buffer, starts, sizes, facts.kind, facts.meta, not facts.unsigned, width, out, valid) >= 0:
        return None
    return _array(facts.type, valid, out)


def _decimals(facts: ColumnFacts, buffer: Bytes, starts: Numbers, sizes: Numbers) -> Any:
    precision, scale = facts.meta & 0xFF, facts.meta >> 8
    if precision > 38:
        return None
    out, valid = np.empty((len(starts), 2), np.uint64), np.empty(len(starts), np.uint8)
    if column_values.decimals(buffer, starts, sizes, precision, scale, out, valid) >= 0:
        return None
    return _array(facts.type, valid, out)


def _members(facts: ColumnFacts, buffer: Bytes, starts: Numbers, sizes: Numbers) -> Any:
    out, valid = np.empty(8 * len(starts), np.uint8), np.empty(len(starts), np.uint8)
    if column_values.numbers(buffer, starts, sizes, facts.kind, facts.meta, False, 8, out, valid) >= 0:
        return None
    numbers = _array(pa.uint64(), valid, out)
    return numbers if facts.members is None else texts_of_members(facts, numbers)


def texts_of_members(facts: ColumnFacts, numbers: Any) -> Any:
    """Return the texts of an ENUM's or a SET's numbers."""
    assert facts.members is not None
    encoded = numbers.dictionary_encode()
    texts = [member_text(facts.kind, number, facts.members) for number in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


def _texts(facts: ColumnFacts, buffer: Bytes, starts: Numbers, sizes: Numbers) -> Any:
    binary = facts.charset == "binary" or facts.kind == T.GEOMETRY
    utf8 = is_utf8(facts.charset)
    if not binary and not utf8 and not is_ascii_compatible(facts.charset):
        return None
    offsets, valid = np.empty(len(starts) + 1, np.int32), np.empty(len(starts), np.uint8)
    prefix = _prefix(facts)
    pad = padded_length(facts.code, facts.meta, facts.charset)
    total = column_values.text_sizes(starts, sizes, prefix, pad, offsets, valid)
    if total >= 1 << 31:
        raise CellValueError(f"column {facts.name}: {total} bytes of text are more than one batch holds")
    out = np.empty(total + column_values.SLACK, np.uint8)
    ascii_only = column_values.texts(buffer, starts, sizes, prefix, pad, offsets, out)
    if not (binary or ascii_only or utf8):
        return None
    array = _array(facts.type, valid, offsets, out[:total])
    return array if ascii_only or not utf8 or _all_utf8(out, offsets, total) else None


def _all_utf8(texts: Bytes, offsets: Numbers, total: int) -> bool:
    """Return whether each text is UTF-8: all of them together are, and each one begins with a character.

    Arrow checks one long text several times faster than many short ones.
    """
    begins = texts[offsets[:-1][offsets[:-1] < total]]
    if ((begins & 0xC0) == 0x80).any():
        return False
    ends = pa.py_buffer(np.array([0, total], np.int32))
    try:
        pa.StringArray.from_buffers(1, ends, pa.py_buffer(texts)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _prefix(facts: ColumnFacts) -> int:
    """Return the length of a cell's length prefix."""
    if facts.kind in (T.VARCHAR, T.VAR_STRING):
        return 1 if facts.meta < 256 else 2
    if facts.kind == T.STRING:
        return 1 if string_max_length(facts.meta) < 256 else 2
    return facts.meta


def _json(facts: ColumnFacts, buffer: Bytes, starts: Numbers, sizes: Numbers) -> Any:
    prefix, odd = _prefix(facts), np.empty(len(starts), np.uint8)
    stack = np.empty((json_documents.DEPTH, json_documents.FRAME), np.int64)
    count, places = -1, np.empty((16 + len(starts), 4), np.int64)
    while count < 0:
        total, count = json_documents.measure(buffer, starts, sizes, prefix, stack, odd, places)
        places = places[:count] if count >= 0 else np.empty((4 * len(places), 4), np.int64)
    try:
        texts = texts_over(_texts_at(facts, buffer, places))
    except (BinlogFormatError, CellValueError):
        return None  # cell by cell, the first of all errors is found
    _, ends, data = texts.buffers()
    total += texts.nbytes
    if total >= 1 << 31:
        raise CellValueError(f"column {facts.name}: {total} bytes of text are more than one batch holds")
    offsets, valid = np.empty(len(starts) + 1, np.int32), np.empty(len(starts), np.uint8)
    out = np.empty(total, np.uint8)
    begins = np.frombuffer(ends, np.int32).astype(np.int64)
    given = np.frombuffer(data, np.uint8)
    json_documents.write(buffer, starts, sizes, prefix, stack, odd, places, begins, given, offsets, valid, out)
    total = int(offsets[-1])
    return _array(facts.type, valid, offsets, out[:total]) if _all_utf8(out, offsets, total) else None


def _texts_at(facts: ColumnFacts, buffer: Bytes, places: Numbers) -> list[str]:
    """Return the texts of what the kernel does not write."""
    found, known = list[str](), dict[bytes, str]()
    for start, end, kind, _ in places.tolist():
        data = buffer[start:end].tobytes()
        if kind == json_documents.ODD:
            found.append(
                cell_value(data, facts.code, facts.meta, facts.unsigned, facts.charset, None, facts.kind, False)
            )
            continue
        if kind == json_documents.DOUBLE:
            found.append(float_text(struct.unpack("<d", data)[0]))
            continue
        if data not in known:
            if len(known) > 10_000:
                known.clear()
            known[data] = json_text(decode_json(bytes([OPAQUE]) + data))
        found.append(known[data])
    return found


_INTEGERS: Final = (T.TINY, T.SHORT, T.INT24, T.LONG, T.LONGLONG)
_WIDTHS: Final[dict[int, int]] = {
    T.TINY: 1,
    T.SHORT: 2,
    T.INT24: 4,
    T.LONG: 4,
    T.FLOAT: 4,
    T.YEAR: 2,
    T.DATE: 4,
    T.NEWDATE: 4,
    **dict.fromkeys((T.LONGLONG, T.DOUBLE, T.BIT, T.TIME, T.TIME2), 8),
    **dict.fromkeys((T.DATETIME, T.DATETIME2, T.TIMESTAMP, T.TIMESTAMP2), 8),
}
"""The bytes of a value in an Arrow array."""
_DECODE: Final[dict[int, Callable[[ColumnFacts, Bytes, Numbers, Numbers], Any]]] = {
    **dict.fromkeys((*_INTEGERS, T.FLOAT, T.DOUBLE, T.YEAR, T.BIT, *TEMPORAL), _numbers),
    **dict.fromkeys((T.ENUM, T.SET), _members),
    **dict.fromkeys(
        (T.VARCHAR, T.VAR_STRING, T.STRING, T.TINY_BLOB, T.BLOB, T.MEDIUM_BLOB, T.LONG_BLOB, T.GEOMETRY), _texts
    ),
    T.NEWDECIMAL: _decimals,
    T.JSON: _json,
}
