"""Values from the DuckDB file as the bytes of either protocol.

The text protocol has what MySQL prints, the binary one numbers, dates and times in a form of their own and all else as
in the text protocol. Texts are in the character set that the session wants, with ? for characters that it lacks.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.json_binary import float_text
from binlog_merge.binlog.wire import pack_packed_bytes
from binlog_merge.protocol.fields import Field, FieldFlag
from binlog_merge.serve.tables.columns import Form, display_width
from binlog_merge.serve.tables.fields import Results
from snapshot_store.model import Column
from snapshot_store.mysql.text.codecs import encode_text

Bytes = Sequence[bytes | None]
_UTF8: Final = ("utf8mb4", "utf8mb3", "utf8")
_SIZES: Final = {T.TINY: 1, T.SHORT: 2, T.YEAR: 2, T.INT24: 4, T.LONG: 4, T.LONGLONG: 8}
_REALS: Final = {T.FLOAT: struct.Struct("<f"), T.DOUBLE: struct.Struct("<d")}
_MICROSECONDS: Final = 6
_PLAIN: Final = 1e15


@dataclass(frozen=True, slots=True)
class Output:
    """A column of a result: its description, the form of its values, and the table's column that they are of."""

    field: Field
    form: Form
    column: Column | None = None


def texts_of(output: Output, values: Any, results: Results) -> Bytes:
    """Return an Arrow array's values as the text protocol has them, without their lengths."""
    column, form = output.column, output.form
    if form is Form.ASCII or form is Form.BYTES or column is None:
        return _bytes(values)
    if form is Form.TEXT:
        charset = (column.type.charset or "utf8mb4") if results.as_stored else (results.charset or "utf8mb4")
        if charset == "utf8mb4":
            return _bytes(values)
        return [None if text is None else _encoded(charset, text) for text in values.to_pylist()]
    return [None if value is None else _printed(column, form, value) for value in values.to_pylist()]


def binaries_of(output: Output, values: Any, results: Results) -> Bytes:
    """Return an Arrow array's values as the binary protocol has them."""
    kind = output.field.kind
    if kind in _REALS:
        return [None if value is None else _REALS[kind].pack(value) for value in values.to_pylist()]
    return binary_of(output.field, texts_of(output, values, results))


def binary_of(field: Field, texts: Bytes) -> Bytes:
    """Return values of the text protocol, FLOAT and DOUBLE aside, as the binary protocol has them."""
    form: Callable[[bytes], bytes] = pack_packed_bytes
    if field.kind in _SIZES:
        size, signed = _SIZES[field.kind], not field.flags & FieldFlag.UNSIGNED
        form = lambda text: int(text).to_bytes(size, "little", signed=signed)  # noqa: E731
    elif field.kind in (T.DATE, T.DATETIME, T.TIMESTAMP):
        form = _moment
    elif field.kind == T.TIME:
        form = _clock
    return [None if text is None else form(text) for text in texts]


def _bytes(values: Any) -> Bytes:
    if not pa.types.is_binary(values.type) and not pa.types.is_large_binary(values.type):
        values = pc.cast(values, pa.large_binary() if pa.types.is_large_string(values.type) else pa.binary())
    found: Bytes = values.to_pylist()
    return found


@lru_cache(4096)
def _encoded(charset: str, text: str) -> bytes:
    try:
        return encode_text(charset, text)
    except UnicodeError:
        return b"".join(_character(charset, char) for char in text)


def _character(charset: str, char: str) -> bytes:
    try:
        return encode_text(charset, char)
    except UnicodeError:
        return encode_text(charset, "?")


def _printed(column: Column, form: Form, value: Any) -> bytes:
    kind = column.type
    if form is Form.BIT:
        return int(value).to_bytes(((kind.length or 1) + 7) // 8, "big")
    if form is Form.VECTOR:
        return struct.pack(f"<{len(value)}f", *value)
    text = real_text(value, form is Form.FLOAT, kind.decimals)
    return text.rjust(display_width(kind), "0").encode() if kind.zerofill else text.encode()


def real_text(value: float, single: bool, decimals: int | None) -> str:
    """Return a FLOAT (`single`) or DOUBLE as MySQL prints it: six significant digits, or as few as tell it apart."""
    if decimals is not None:
        return f"{value:.{decimals}f}"
    value = float(f"{value:.6g}") if single else value
    text = repr(value)  # the same digits, and the same layout but for what is very great or small
    if "e" in text or not -_PLAIN < value < _PLAIN:
        text = float_text(value)
    return text.removesuffix(".0")


def _moment(text: bytes) -> bytes:
    """Return a DATE, DATETIME or TIMESTAMP: as many fields as are needed, with their length before them."""
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    hour, minute, second = (int(text[11:13]), int(text[14:16]), int(text[17:19])) if len(text) > 10 else (0, 0, 0)
    micro = int(text[20:].ljust(_MICROSECONDS, b"0"))
    found = struct.pack("<HBBBBBI", year, month, day, hour, minute, second, micro)
    size = 11 if micro else 7 if hour or minute or second else 4 if year or month or day else 0
    return bytes([size]) + found[:size]


def _clock(text: bytes) -> bytes:
    negative = text[:1] == b"-"
    whole, _, fraction = text[negative:].partition(b".")
    hours, minutes, seconds = map(int, whole.split(b":"))
    micro = int(fraction.ljust(_MICROSECONDS, b"0"))
    found = struct.pack("<BIBBBI", negative, hours // 24, hours % 24, minutes, seconds, micro)
    size = 12 if micro else 8 if hours or minutes or seconds else 0
    return bytes([size]) + found[:size]
