"""Values as plain text where Arrow's own text is not what a format has."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.binlog.columnar import decode_column
from binlog_merge.messages import json_text as j
from binlog_merge.messages.rows import TableRows
from snapshot_store.mysql.column_type import MEMBERS, Family


def float_texts(array: Any) -> Any:
    """Return FLOAT and DOUBLE values as the fewest digits that are that number, without an exponent."""
    single = pa.types.is_float32(array.type)
    return pa.array(
        [
            None if v is None else np.format_float_positional(np.float32(v) if single else v, unique=True, trim="-")
            for v in array.to_pylist()
        ],
        pa.string(),
    )


def member_numbers(rows: TableRows, side: int, place: int) -> Any:
    """Return the numbers of an ENUM's members, or the bits of a SET's."""
    cut = rows.cut
    facts = replace(rows.facts(place), members=None, type=pa.uint64())
    return decode_column(facts, cut.buffer, cut.starts[side, place][rows.rows], cut.sizes[side, place][rows.rows])


def value_texts(rows: TableRows, side: int, place: int, binary: Callable[[Any], Any]) -> Any:
    """Return a column's values as JSON strings; `binary` makes those of bytes."""
    family = rows.table.columns[place].type.family
    if family in MEMBERS:
        return j.quoted(pc.cast(member_numbers(rows, side, place), pa.string()))
    array = rows.column(side, place, temporal_text=True)
    if pa.types.is_binary(array.type):
        return binary(array)
    if pa.types.is_decimal(array.type):
        return j.quoted(j.plain_decimals(array))
    if pa.types.is_floating(array.type):
        return j.quoted(float_texts(array))
    if family is Family.VECTOR:
        return j.quoted(vector_texts(array))
    return j.quoted(array if pa.types.is_string(array.type) else pc.cast(array, pa.string()))


def vector_texts(array: Any) -> Any:
    """Return vectors as texts like [1,2.5]."""
    texts = [
        None
        if v is None
        else "[" + ",".join(np.format_float_positional(np.float32(x), unique=True, trim="-") for x in v) + "]"
        for v in array.to_pylist()
    ]
    return pa.array(texts, pa.string())


def member_lists(array: Any) -> Any:
    """Return SETs as JSON arrays of their members, from texts with commas; members have none."""
    import json

    known: dict[str, str] = {}
    encoded = array.dictionary_encode()
    for text in encoded.dictionary.to_pylist():
        known[text] = json.dumps(text.split(",") if text else [], ensure_ascii=False, separators=(",", ":"))
    texts = pa.array([known[text] for text in encoded.dictionary.to_pylist()], pa.string())
    return pc.take(texts, encoded.indices)


def go_quoted(array: Any) -> Any:
    """Return bytes as Go's strconv.Quote writes them, without the quotes."""
    return pa.array([None if v is None else go_quote(v) for v in array.to_pylist()], pa.string())


def go_quote(cell: bytes) -> str:
    """Return bytes as Go's strconv.Quote writes them, without the quotes."""
    pieces = []
    for char in cell.decode("utf-8", "surrogateescape"):
        code = ord(char)
        if char in _GO:
            pieces.append(_GO[char])
        elif 0xDC80 <= code <= 0xDCFF:
            pieces.append(f"\\x{code - 0xDC00:02x}")
        elif char.isprintable():
            pieces.append(char)
        elif code < 0x80:
            pieces.append(f"\\x{code:02x}")
        else:
            pieces.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    return "".join(pieces)


_GO = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\", '"': '\\"',
}  # fmt: skip
