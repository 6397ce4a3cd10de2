"""Values from the DuckDB file as the bytes of either protocol.

The text protocol has what MySQL prints, the binary one numbers, dates and times in a form of their own and all else as
in the text protocol. Texts are in the character set that the session wants, with ? for characters that it lacks.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.json_binary import float_text
from binlog_merge.binlog.wire import pack_packed
from binlog_merge.binlog_server.tables.fields import Form, Results, display_width
from binlog_merge.protocol.fields import NULL, SHORTEST, Bytes, Field, binary_of, binary_rows
from snapshot_store.model import Column
from snapshot_store.mysql.text.codecs import encode_text
from snapshot_store.surrogates import is_text

_REALS: Final = {T.FLOAT: struct.Struct("<f"), T.DOUBLE: struct.Struct("<d")}
_PLAIN: Final = 1e15
_LENGTHS: Final = pa.array(SHORTEST, pa.large_binary())
_NOTHING: Final = pa.scalar(b"", pa.large_binary())


@dataclass(frozen=True, slots=True)
class Output:
    """A column of a result: its description, the form of its values, and the table's column that they are of."""

    field: Field
    form: Form
    column: Column | None = None


def rows_of(outputs: Sequence[Output], batch: Any, results: Results, binary: bool) -> Iterable[bytes]:
    """Return the packets of a batch's rows."""
    columns = [batch.column(n) for n in range(len(outputs))]
    if binary:
        return binary_rows([binaries_of(o, values, results) for o, values in zip(outputs, columns, strict=True)])
    parts: list[Any] = []
    for output, values in zip(outputs, columns, strict=True):
        parts += _prefixed(_plain(output, values, results))
    joined: list[bytes] = pc.binary_join_element_wise(*parts, _NOTHING).to_pylist()
    return joined


def _prefixed(values: Any) -> tuple[Any, Any]:
    """Return the lengths that stand before values in a row of the text protocol, and the values, NULL as nothing."""
    lengths = pc.binary_length(values)
    if (pc.max(lengths).as_py() or 0) < len(SHORTEST):
        found = pc.take(_LENGTHS, lengths)
    else:
        found = pa.array([None if n is None else pack_packed(n) for n in lengths.to_pylist()], pa.large_binary())
    return pc.fill_null(found, NULL), pc.fill_null(values, b"")


def _plain(output: Output, values: Any, results: Results) -> Any:
    """Return an Arrow array of the bytes that the text protocol has."""
    plain = output.form in (Form.ASCII, Form.BYTES)
    if plain or (output.form is Form.TEXT and _charset(output, results) == "utf8mb4"):
        return pc.cast(values, pa.large_binary())
    return pa.array(texts_of(output, values, results), pa.large_binary())


def _charset(output: Output, results: Results) -> str:
    """Return the character set in which a column's texts are sent."""
    if results.as_stored and output.column is not None:
        return output.column.type.charset or "utf8mb4"
    return results.charset or "utf8mb4"


def texts_of(output: Output, values: Any, results: Results) -> Bytes:
    """Return an Arrow array's values as the text protocol has them, without their lengths."""
    column, form = output.column, output.form
    if form is Form.ASCII or form is Form.BYTES or column is None:
        return _bytes(values)
    if form is Form.TEXT:
        charset = _charset(output, results)
        if charset == "utf8mb4":
            return _bytes(values)
        return [None if text is None else encoded(charset, text) for text in values.to_pylist()]
    return [None if value is None else _printed(column, form, value) for value in values.to_pylist()]


def binaries_of(output: Output, values: Any, results: Results) -> Bytes:
    """Return an Arrow array's values as the binary protocol has them."""
    kind = output.field.kind
    if kind in _REALS:
        return [None if value is None else _REALS[kind].pack(value) for value in values.to_pylist()]
    return binary_of(output.field, texts_of(output, values, results))


def _bytes(values: Any) -> Bytes:
    if not pa.types.is_binary(values.type) and not pa.types.is_large_binary(values.type):
        values = pc.cast(values, pa.large_binary() if pa.types.is_large_string(values.type) else pa.binary())
    found: Bytes = values.to_pylist()
    return found


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


@lru_cache(4096)
def encoded(charset: str, text: str) -> bytes:
    """Return a text in a character set; stray bytes stay as they are. Raises LookupError for one that is not known."""
    try:
        return encode_text(charset, text)
    except UnicodeError:
        return b"".join(_character(charset, char) for char in text)


def _character(charset: str, char: str) -> bytes:
    if not is_text(char):
        return char.encode("utf-8", "surrogateescape")
    try:
        return encode_text(charset, char)
    except UnicodeError:
        return encode_text(charset, "?")
