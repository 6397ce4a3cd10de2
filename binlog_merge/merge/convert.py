"""Cells of one column type as cells of another: what a MODIFY that is still under way asks for.

A converter decodes with the physical type and encodes with the logical one. Its values are those that a MySQL server
gives the column by ALTER TABLE ... MODIFY; where a server would lose something (text that does not fit, a character
that the new character set lacks, no number at all) it raises ConversionError. Integers alone are clamped.
Which pairs cannot be converted is known when the plan is made: JSON, GEOMETRY and VECTOR to or from anything else.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from binlog_merge.binlog.temporal import Civil
from binlog_merge.errors import UnsupportedInput
from binlog_merge.merge.convert_charsets import encode_text, has_codec
from binlog_merge.merge.convert_numbers import to_bit, to_decimal, to_float, to_integer, to_year
from binlog_merge.merge.convert_text import text_of, to_bytes, to_enum, to_set, to_text
from binlog_merge.merge.convert_time import to_date, to_datetime, to_time, to_timestamp
from binlog_merge.merge.convert_values import (
    BINARY_TYPES,
    INTEGER_BYTES,
    TEXT_TYPES,
    ConversionError,
    Value,
    decode_cell,
    encode_cell,
)
from binlog_merge.merge.witness import GEOMETRY_TYPES, LENGTH_BYTES, binlog_column, byte_length, member_bytes
from snapshot_store.model import Column, ColumnType

__all__ = ["ConversionError", "Converter", "coerce", "make_converter"]

_SUBSETS: Final = (("utf8mb3", "utf8mb4"), ("ascii", "utf8mb4"), ("ascii", "utf8mb3"), ("ascii", "latin1"))
_TEMPORAL: Final = frozenset({"date", "datetime", "timestamp", "time"})

_COERCE: Final[dict[str, Callable[[ColumnType, Value], Value]]] = {
    **dict.fromkeys(INTEGER_BYTES, to_integer),
    "decimal": to_decimal,
    "float": to_float,
    "double": to_float,
    "bit": to_bit,
    "year": to_year,
    "date": to_date,
    "datetime": to_datetime,
    "timestamp": to_timestamp,
    "time": to_time,
    "enum": to_enum,
    "set": to_set,
}


@dataclass(frozen=True, slots=True)
class Converter:
    """Turns a cell of the physical column into a cell of the logical one; NULL never gets here."""

    physical: Column
    logical: Column

    def __call__(self, cell: bytes) -> bytes:
        """Return the logical cell; raises ConversionError with the column's name and both types."""
        try:
            value = decode_cell(self.physical.type, cell)
            return encode_cell(self.logical.type, coerce(self.physical.type, self.logical.type, value))
        except ConversionError as error:
            raise ConversionError(
                f"column {self.logical.name}, {self.physical.type.name} to {self.logical.type.name}: {error}"
            ) from None


def make_converter(physical: Column, logical: Column, actual: tuple[int, int]) -> Converter | None:
    """Return the converter between two columns of different types, or None where the bytes are the same anyway.

    `actual` is what the table map says of the physical column. Raises UnsupportedInput for a pair of types that no
    value can be converted between.
    """
    old, new = physical.type, logical.type
    if _same_bytes(old, new):
        return None
    reason = _refusal(old, new)
    if reason is None and actual != binlog_column(physical):
        reason = "the table map has an older format of its type"
    if reason is not None:
        raise UnsupportedInput(
            f"column {logical.name}: {old.name} cannot be converted to {new.name}: {reason}",
            remedy="let the MODIFY finish on every node before the logical DDL, or exclude the table",
        )
    return Converter(physical, logical)


def _same_bytes(old: ColumnType, new: ColumnType) -> bool:
    """Tell whether every cell of the old type is, byte for byte, the right cell of the new one."""
    if old.name in GEOMETRY_TYPES and new.name in GEOMETRY_TYPES:
        return True
    if old.name != new.name:
        return False
    if old.name in ("enum", "set") and old.charset == new.charset:
        grown = new.members[: len(old.members)] == old.members
        return grown and member_bytes(old) == member_bytes(new)
    if old.name in ("char", "varchar", "binary", "varbinary"):
        # The usual MODIFY to a longer column. Trailing padding of CHAR and BINARY is not in their cells.
        longer = (new.length or 1) >= (old.length or 1) and (byte_length(old) < 256) == (byte_length(new) < 256)
        return longer and (old.charset, new.charset) in (*_SUBSETS, (old.charset, old.charset))
    return False


def _refusal(old: ColumnType, new: ColumnType) -> str | None:
    for kind in (old, new):
        if kind.name == "json" or kind.name == "vector" or kind.name in GEOMETRY_TYPES:
            return f"values of type {kind.name} are only passed on as they are"
        if kind.charset and kind.charset != "binary" and not has_codec(kind.charset):
            return f"character set {kind.charset} has no codec here"
    if old.name == "time" and new.name in ("date", "datetime", "timestamp"):
        return "a server adds the day of the conversion"
    return None


def coerce(old: ColumnType, new: ColumnType, value: Value) -> Value:
    """Return a value of column type `old` as the nearest value of `new`, as ALTER TABLE ... MODIFY does."""
    if old.name == "bit" and new.name in LENGTH_BYTES and isinstance(value, int):
        value = value.to_bytes(((old.length or 1) + 7) // 8, "big")  # its bytes in a TEXT or BLOB, digits elsewhere
    if new.name in TEXT_TYPES:
        return to_text(new, text_of(old, value))
    if new.name in BINARY_TYPES:
        return to_bytes(new, _bytes_of(old, new, value))
    if new.name in _TEMPORAL and not isinstance(value, Civil | timedelta) and value != 0:
        value = text_of(old, value)  # numbers too: 20240102 is a date, 101 is none
    elif new.name in ("enum", "set") and not (isinstance(value, int) and old.name not in ("enum", "set")):
        value = text_of(old, value)
    elif old.name == "date" and isinstance(value, Civil) and new.name not in _TEMPORAL:
        value = (value.year * 100 + value.month) * 100 + value.day
    return _COERCE[new.name](new, value)


def _bytes_of(old: ColumnType, new: ColumnType, value: Value) -> bytes:
    text = text_of(old, value)
    if isinstance(text, bytes):
        return text
    data = encode_text(old.charset or "ascii", text)
    # CHAR(n) to BINARY(n) of as many bytes is done in place, and the padding of CHAR becomes part of the value; a
    # server that copies the table for another change of the same statement pads with zero bytes instead.
    in_place = old.name == "char" and new.name == "binary" and byte_length(old) == byte_length(new) == old.length
    return data.ljust(byte_length(new), b" ") if in_place else data
