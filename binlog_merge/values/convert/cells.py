"""Converts cells from one column type to another, for rows written while a MODIFY is in progress.

A converter decodes with the physical type and encodes with the logical one. The result is the value that a MySQL server
gives the column by ALTER TABLE ... MODIFY. If a server in strict mode would refuse the value (text that does not fit, a
character that the new character set lacks, a number out of range, no number at all) the policy decides:

    error     ConversionError, which stops the merge before the row's transaction
    clamp     what a server without strict mode stores: the nearest number, the text cut, '?', the zero date
    default   the column's DEFAULT, as for a column that the physical table lacks

Pairs of types that cannot be converted are refused when the plan is made: GEOMETRY to or from anything else, TIME to a
date, binary strings to JSON.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Final, Literal

from binlog_merge.binlog.temporal import Civil
from binlog_merge.errors import UnsupportedInput
from binlog_merge.values.convert.clock import without_displacement
from binlog_merge.values.convert.numbers import (
    number_of_document,
    to_bit,
    to_decimal,
    to_float,
    to_integer,
    to_year,
    whole_of_decimal,
)
from binlog_merge.values.convert.text import WIDE, member_of_number, text_of, to_bytes, to_enum, to_set, to_text
from binlog_merge.values.convert.time import shifted, to_date, to_datetime, to_time, to_timestamp
from binlog_merge.values.types import DEFAULT_VECTOR_LENGTH, binlog_column, byte_length
from binlog_merge.values.value import (
    ConversionError,
    Json,
    Lost,
    Value,
    decode_cell,
    encode_cell,
    read_json,
)
from snapshot_store.diff import same_type
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import DATES, MEMBERS, NUMERIC, TEMPORAL, ColumnType, Family
from snapshot_store.mysql.text.codecs import encode_text, has_codec

__all__ = [
    "DEFAULT_OPTIONS",
    "ConversionError",
    "Converter",
    "Policy",
    "ReshapeOptions",
    "coerce",
    "make_converter",
    "passes",
]

Policy = Literal["error", "clamp", "default"]
Local = Callable[[Civil], Civil]
"""Moves a moment from UTC to a session's time zone."""

_SUBSETS: Final = (("utf8mb3", "utf8mb4"), ("ascii", "utf8mb4"), ("ascii", "utf8mb3"), ("ascii", "latin1"))
_CONVERTED: Final = frozenset(Family) - {Family.GEOMETRY}
_LONGEST_MOMENT: Final = 14
_LONGEST_WIDE_MOMENT: Final = 31
_LONGEST_WIDE_TIME: Final = 25


@dataclass(frozen=True, slots=True)
class ReshapeOptions:
    """The options of reshaping: the policy, and the session time zone and sql_mode of the DDL.

    `offset` is that time zone's offset from UTC in minutes; of the mode, only what concerns dates and times counts.
    `local` moves a moment from UTC to it where the offset is not always the same.
    """

    policy: Policy = "error"
    offset: int = 0
    sql_mode: int = 0
    local: Local | None = None

    def moved(self, moment: Civil) -> Civil:
        """Move a moment from UTC to the session's time zone."""
        return shifted(moment, self.offset) if self.local is None else self.local(moment)


DEFAULT_OPTIONS: Final = ReshapeOptions()

_COERCE: Final[dict[Family, Callable[[ColumnType, Value, Lost, int], Value]]] = {
    Family.INTEGER: to_integer,
    Family.DECIMAL: to_decimal,
    Family.FLOAT: to_float,
    Family.BIT: to_bit,
    Family.YEAR: to_year,
    Family.DATE: to_date,
    Family.MOMENT: to_datetime,
}


@dataclass(frozen=True, slots=True)
class Converter:
    """Converts a cell of the physical column to a cell of the logical one.

    `default` is the cell that the policy of that name uses for a value that does not fit, None for NULL. If the bytes
    are the same in both types, only NULL is converted.
    """

    physical: Column
    logical: Column
    options: ReshapeOptions = DEFAULT_OPTIONS
    default: bytes | None = None
    bytes_pass: bool = False

    def __call__(self, cell: bytes | None) -> bytes | None:
        """Return the logical cell, None for NULL; raises ConversionError with the column's name and both types."""
        try:
            new, lost = self.nearest(cell)
        except ConversionError as error:
            lost = [str(error)]
            if self.options.policy != "default":
                raise self._failed(lost[0]) from None
        if not lost:
            return new
        if self.options.policy == "error":
            raise self._failed(lost[0])
        return new if self.options.policy == "clamp" else self.default

    def nearest(self, cell: bytes | None) -> tuple[bytes | None, Lost]:
        """Return the cell that a server without strict mode stores, and what is lost.

        Raises ConversionError if it would store nothing at all.
        """
        lost: Lost = []
        if cell is None:
            if self.logical.nullable:
                return None, lost
            lost.append("NULL, and the column is NOT NULL")
            # The invalid value of an ENUM: the column's reset value, not its implicit default.
            reset = encode_cell(self.logical.type, 0) if self.logical.type.family is Family.ENUM else None
            return reset or implicit_default(self.logical.type), lost
        if self.bytes_pass:
            return cell, lost
        old, new = self.physical.type, self.logical.type
        value, options = decode_cell(old, cell), self.options
        found = coerce(old, new, value, lost, options.offset, options.sql_mode, options.moved)
        return encode_cell(new, found), lost

    def _failed(self, reason: str) -> ConversionError:
        return ConversionError(
            f"column {self.logical.name}, {self.physical.type.name} to {self.logical.type.name}: {reason}"
        )


def passes(physical: Column, logical: Column) -> bool:
    """Return whether every cell of the physical column, also NULL, is a valid cell of the logical one."""
    old, new = physical.type, logical.type
    # FLOAT(M,D) and DOUBLE(M,D) are rounded when they are stored, which their bytes do not show.
    digits = (old.length, old.decimals) != (new.length, new.decimals)
    rounded = new.family is Family.FLOAT and new.decimals is not None and digits
    return same_type(old, new) and not rounded and (logical.nullable or not physical.nullable)


def make_converter(
    physical: Column,
    logical: Column,
    actual: tuple[int, int],
    options: ReshapeOptions = DEFAULT_OPTIONS,
    default: bytes | None = None,
) -> Converter | None:
    """Return the converter between two columns that differ, or None if the bytes are the same anyway.

    `actual` is the physical column in the table map; `default` is for the policy of that name. Raises UnsupportedInput
    for a pair of types between which no value can be converted.
    """
    old, new = physical.type, logical.type
    if _same_bytes(old, new) or passes(replace(physical, nullable=False), logical):
        if logical.nullable or not physical.nullable:
            return None
        return Converter(physical, logical, options, default, bytes_pass=True)
    reason = _refusal(old, new)
    if reason is None and actual != binlog_column(physical):
        reason = "the table map has an older format of its type"
    if reason is not None:
        raise UnsupportedInput(
            f"column {logical.name}: {old.name} cannot be converted to {new.name}: {reason}",
            remedy="let the MODIFY finish on every node before the logical DDL, or exclude the table",
        )
    return Converter(physical, logical, options, default)


def _same_bytes(old: ColumnType, new: ColumnType) -> bool:
    """Return whether every cell of the old type is, byte for byte, the right cell of the new one."""
    if old.family is new.family is Family.GEOMETRY:
        return True
    if old.name != new.name:
        return False
    if old.family is Family.VECTOR:
        return (new.length or DEFAULT_VECTOR_LENGTH) >= (old.length or DEFAULT_VECTOR_LENGTH)
    if old.family in MEMBERS and old.charset == new.charset:
        grown = new.members[: len(old.members)] == old.members
        return grown and old.member_bytes == new.member_bytes
    if old.is_sized:
        # The usual MODIFY to a longer column. Trailing padding of CHAR and BINARY is not in their cells.
        longer = (new.length or 1) >= (old.length or 1) and (byte_length(old) < 256) == (byte_length(new) < 256)
        return longer and (old.charset, new.charset) in (*_SUBSETS, (old.charset, old.charset))
    return False


def _refusal(old: ColumnType, new: ColumnType) -> str | None:
    for kind in (old, new):
        if kind.family not in _CONVERTED:
            return f"values of type {kind.name} are only passed on as they are"
        if kind.charset and kind.charset != "binary" and not has_codec(kind.charset):
            return f"character set {kind.charset} has no codec here"
    if old.charset in WIDE and new.family in (Family.BIT, Family.YEAR):
        return "a server reads the bytes of its characters one by one"
    families = {old.family, new.family}
    if Family.VECTOR in families and families - {Family.VECTOR, Family.BYTES}:
        return "a VECTOR becomes nothing but another VECTOR or a binary string"
    if new.family is Family.JSON and old.family in (Family.BYTES, Family.BIT):
        return "a JSON document is not made from binary strings"
    if old.family is Family.TIME and new.family in DATES:
        return "a server adds the day of the conversion"
    return None


def coerce(
    old: ColumnType,
    new: ColumnType,
    value: Value,
    lost: Lost,
    offset: int = 0,
    sql_mode: int = 0,
    local: Local | None = None,
) -> Value:
    """Convert a value of column type `old` to the nearest value of `new`, as ALTER TABLE ... MODIFY does.

    Losses are appended to `lost`; `offset` is the session time zone's, in minutes, and `sql_mode` the session's; for
    texts of moments with an offset of their own, `local` moves a moment to its time zone. Raises ConversionError if
    there is no such value.
    """
    was, to = old.family, new.family
    if old.name == "timestamp" and isinstance(value, Civil):
        if new.name == "timestamp":
            return to_timestamp(new, value, lost, 0, sql_mode)
        value = shifted(value, offset)
    if was is Family.BIT and new.is_lob and isinstance(value, int):
        value = value.to_bytes(((old.length or 1) + 7) // 8, "big")  # its bytes in a TEXT or BLOB, digits elsewhere
    if to is Family.TEXT:
        return to_text(new, text_of(old, value), lost)
    if to is Family.BYTES:
        return to_bytes(new, _bytes_of(old, new, value), lost)
    if to is Family.VECTOR:
        return _to_vector(new, value)
    if to is Family.JSON:
        text = text_of(old, value)
        return read_json(text if isinstance(text, str) else text.decode("utf-8"))
    if to in MEMBERS:
        if was is Family.BIT and isinstance(value, int):
            return member_of_number(new, value, lost)
        numbers = (old.charset or "") not in WIDE  # which the server reads byte by byte
        return (to_enum if to is Family.ENUM else to_set)(new, text_of(old, value), lost, numbers)
    if isinstance(value, Json):
        by_value = to in (Family.DECIMAL, Family.BIT)
        value = number_of_document(new, value, lost) if by_value else text_of(old, value)
    if to in TEMPORAL and was is not Family.BIT and not isinstance(value, Civil | timedelta):
        value = text_of(old, value)  # numbers too: 20240102 is a date, 101 is none
        if old.zerofill and len(value) > _LONGEST_MOMENT:
            raise ConversionError(f"{value!r} has more digits than a date and time")
        if was not in NUMERIC:
            value = _read_as_moment(old, new, value, sql_mode, local or _unknown_zone)
    elif was is Family.DATE and isinstance(value, Civil) and to not in TEMPORAL:
        value = (value.year * 100 + value.month) * 100 + value.day
    elif isinstance(value, Decimal) and was is Family.DECIMAL and to in (Family.INTEGER, Family.BIT):
        value = whole_of_decimal(value, old.unsigned, lost)
    elif old.name == "float" and isinstance(value, float) and to in (Family.INTEGER, Family.BIT, Family.YEAR):
        _check_bigint(value)
    if new.name == "timestamp":
        return to_timestamp(new, value, lost, offset, sql_mode)
    if to is Family.TIME:
        return to_time(new, value, lost, sql_mode, any_day=was not in NUMERIC)
    return _COERCE[to](new, value, lost, sql_mode)


def _read_as_moment(old: ColumnType, new: ColumnType, value: str | bytes, sql_mode: int, local: Local) -> str:
    """Return the text that a server reads as a date or time, in the session's time zone."""
    text = value if isinstance(value, str) else value.decode("latin-1")
    if old.charset in WIDE:  # which a server makes ASCII first, as far as its buffer goes (`to_ascii`)
        longest = _LONGEST_WIDE_TIME if new.family is Family.TIME else _LONGEST_WIDE_MOMENT
        text = re.split(r"[^\x00-\x7f]", text, maxsplit=1)[0][:longest]
    return without_displacement(text, None if new.family is Family.TIME else new.fsp, sql_mode, local)


def _unknown_zone(moment: Civil) -> Civil:
    raise ConversionError("a text has an offset from UTC, and the session's time zone is not known here")


def _check_bigint(value: float) -> None:
    if not -(2.0**63) <= value < 2.0**63:
        raise ConversionError(f"what {value} of a FLOAT is as an integer depends on the server's processor")


def _bytes_of(old: ColumnType, new: ColumnType, value: Value) -> bytes:
    text = text_of(old, value)
    if isinstance(text, bytes):
        return text
    data = encode_text(old.charset or "utf8mb4", text)
    # CHAR(n) to BINARY(n) of as many bytes is done in place, and the padding of CHAR becomes part of the value; a
    # server that copies the table for another change of the same statement pads with zero bytes instead.
    in_place = old.name == "char" and new.name == "binary" and byte_length(old) == byte_length(new) == old.length
    return data.ljust(byte_length(new), b" ") if in_place else data


def _to_vector(kind: ColumnType, value: Value) -> bytes:
    if (
        not isinstance(value, bytes)
        or len(value) % 4
        or not 1 <= len(value) // 4 <= (kind.length or DEFAULT_VECTOR_LENGTH)
    ):
        raise ConversionError(f"{value!r} is no vector of up to {kind.length or DEFAULT_VECTOR_LENGTH} entries")
    return value


def implicit_default(kind: ColumnType) -> bytes:
    """Return MySQL's implicit default of a NOT NULL column: 0, '', the zero date, the first member of an ENUM.

    Raises ConversionError for types that have none.
    """
    if kind.family is Family.VECTOR:
        return bytes(4)  # the value that ALTER TABLE ... ADD v VECTOR(n) NOT NULL gives existing rows
    if kind.family not in _IMPLICIT:
        raise ConversionError(f"{kind.name} NOT NULL has no default")
    value = _IMPLICIT[kind.family]
    return encode_cell(kind, bytes(kind.length or 1) if kind.name == "binary" else value)


_IMPLICIT: Final[dict[Family, Value]] = {
    **dict.fromkeys((Family.INTEGER, Family.DECIMAL, Family.FLOAT, Family.BIT, Family.YEAR, Family.SET), 0),
    **dict.fromkeys(DATES, Civil(0, 0, 0)),
    Family.TIME: timedelta(0),
    Family.TEXT: "",
    Family.BYTES: b"",
    Family.ENUM: 1,
    Family.JSON: Json(None),
}
