"""Cells of one column type as cells of another: what a MODIFY that is still under way asks for.

A converter decodes with the physical type and encodes with the logical one. Its values are those that a MySQL server
gives the column by ALTER TABLE ... MODIFY; where a server would lose something (text that does not fit, a character
that the new character set lacks, no number at all) it raises ConversionError. Integers alone are clamped.
Which pairs cannot be converted is known when the plan is made: JSON, GEOMETRY and VECTOR to or from anything else.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

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
from binlog_merge.merge.witness import GEOMETRY_TYPES, binlog_column
from snapshot_store.model import Column, ColumnType

__all__ = ["ConversionError", "Converter", "coerce", "make_converter"]

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
    if old.name in ("enum", "set") and old.name == new.name and old.charset == new.charset:
        grown = new.members[: len(old.members)] == old.members
        return grown and binlog_column(Column("", old)) == binlog_column(Column("", new))
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
    if new.name in TEXT_TYPES:
        return to_text(new, text_of(old, value))
    if new.name in BINARY_TYPES:
        text = text_of(old, value)
        return to_bytes(new, encode_text(old.charset or "ascii", text) if isinstance(text, str) else text)
    if new.name in ("enum", "set") and old.name in ("enum", "set"):
        value = _member_text(old, value)
    return _COERCE[new.name](new, value)


def _member_text(kind: ColumnType, value: Value) -> Value:
    text = text_of(kind, value)
    return text if isinstance(text, str) else value
