"""Encoding of cells: a Python value, or MySQL's text for it, to the bytes of a row image.

Text is accepted for every type, as in a column's DEFAULT: '1.5', '2024-00-00', "b'101'". A value that the column cannot
hold raises CellValueError; only decimals are rounded, and fractions of a second cut, as MySQL does.
"""

import struct
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

from binlog_merge.binlog.cell_length import bit_length, cell_length, real_type, string_max_length, type_name
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.decimals import encode_decimal
from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from binlog_merge.binlog.json_binary import encode_json
from binlog_merge.binlog.temporal import encode_temporal
from snapshot_store.mysql.text.codecs import encode_text


class _Column(NamedTuple):
    kind: int
    meta: int
    unsigned: bool
    charset: str
    members: Sequence[str] | None


def encode_cell(
    type_code: int,
    meta: int,
    value: Any,
    unsigned: bool = False,
    charset: str = "utf8mb4",
    members: Sequence[str] | None = None,
) -> bytes:
    """Return the cell of `value`, its length prefix included. NULL has no cell.

    Strings take str (encoded as `charset`) or bytes; ENUM an index, SET its bits, or with `members` their text; BIT
    an int; JSON a Python value as `json_binary` has them; temporal types Python's or MySQL's text (TIMESTAMP in UTC,
    or seconds).
    """
    column = _Column(real_type(type_code, meta), meta, unsigned, charset, members)
    encode = _ENCODE.get(column.kind)
    if encode is None:
        raise CellValueError(f"column type {type_name(type_code)} cannot be written")
    if value is None:
        raise CellValueError("NULL has no cell: set its bit in the null bitmap")
    try:
        cell = encode(column, value)
        cell_length(type_code, meta, cell, 0)  # the metadata itself may be impossible
    except (
        BinlogFormatError,
        OverflowError,
        UnicodeError,
        LookupError,
        TypeError,
        InvalidOperation,
        struct.error,
    ) as error:
        raise CellValueError(f"{type_name(column.kind)}: {value!r} cannot be written: {error}") from None
    return cell


def _integer(value: Any) -> int:
    """Return a whole number from an int, bool, Decimal, float or text, rounded as MySQL does; also b'101' and 0x41."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        text = value.strip()
        if text[:2].lower() in ("b'", "x'") and text.endswith("'"):
            return int(text[2:-1] or "0", 2 if text[0] in "bB" else 16)
        if text[:2].lower() in ("0b", "0x"):
            return int(text[2:], 2 if text[1] in "bB" else 16)
        value = Decimal(text)
    if isinstance(value, float | Decimal):
        number = Decimal(value)
        if not number.is_finite() or abs(number.adjusted()) > 40:
            raise CellValueError(f"{value!r} is no whole number")
        return int(number.quantize(Decimal(1), rounding=ROUND_HALF_UP))
    raise CellValueError(f"{value!r} is no number")


def _int(size: int) -> Callable[[_Column, Any], bytes]:
    return lambda column, value: _integer(value).to_bytes(size, "little", signed=not column.unsigned)


def _year(column: _Column, value: Any) -> bytes:
    year = value.year if isinstance(value, date) else _integer(value)
    if year != 0 and not 1901 <= year <= 2155:
        raise CellValueError(f"YEAR {year} cannot be")
    return bytes([year - 1900 if year else 0])


def _float(form: str) -> Callable[[_Column, Any], bytes]:
    return lambda column, value: struct.pack(form, float(value))


def _decimal(column: _Column, value: Any) -> bytes:
    number = value if isinstance(value, Decimal) else Decimal(str(value).strip())
    return encode_decimal(number, column.meta & 0xFF, column.meta >> 8)


def _raw(column: _Column, value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode() if column.charset == "binary" else encode_text(column.charset, value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise CellValueError(f"{value!r} is neither str nor bytes")


def _limited(data: bytes, limit: int) -> bytes:
    if len(data) > limit:
        raise CellValueError(f"{len(data)} bytes, the column holds {limit}")
    return len(data).to_bytes(1 if limit < 256 else 2, "little") + data


def _varchar(column: _Column, value: Any) -> bytes:
    return _limited(_raw(column, value), column.meta)


def _string(column: _Column, value: Any) -> bytes:
    # Field_string::pack leaves the padding out: spaces of CHAR, zeros of BINARY.
    data = _raw(column, value)
    stripped = data.rstrip(b"\0") if column.charset == "binary" else data.rstrip(b" ")
    wide = column.charset in ("ucs2", "utf16", "utf16le", "utf32")
    return _limited(data if wide else stripped, string_max_length(column.meta))


def _blob(column: _Column, value: Any) -> bytes:
    return _prefixed(column, _raw(column, value))


def _prefixed(column: _Column, data: bytes) -> bytes:
    if not 1 <= column.meta <= 4:
        raise CellValueError(f"a BLOB's length has 1 to 4 bytes, not {column.meta}")
    return len(data).to_bytes(column.meta, "little") + data


def _json(column: _Column, value: Any) -> bytes:
    return _prefixed(column, encode_json(value))


def _vector(column: _Column, value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return _prefixed(column, bytes(value))
    return _prefixed(column, struct.pack(f"<{len(value)}f", *value))


def _bit(column: _Column, value: Any) -> bytes:
    number = int.from_bytes(value, "big") if isinstance(value, bytes) else _integer(value)
    bits = (column.meta >> 8) * 8 + (column.meta & 0xFF)
    if number >> bits:
        raise CellValueError(f"{number} does not fit BIT({bits})")
    return number.to_bytes(bit_length(column.meta), "big")


def _enum(column: _Column, value: Any) -> bytes:
    index = value
    if isinstance(value, str) and column.members is not None:
        if value not in column.members and value != "":
            raise CellValueError(f"{value!r} is no member")
        index = column.members.index(value) + 1 if value in column.members else 0
    return _integer(index).to_bytes(column.meta >> 8, "little")


def _set(column: _Column, value: Any) -> bytes:
    bits = value
    if isinstance(value, str) and column.members is not None:
        names = value.split(",") if value else []
        if any(name not in column.members for name in names):
            raise CellValueError(f"{value!r} names a member that is not there")
        bits = sum({1 << column.members.index(name) for name in names})
    return _integer(bits).to_bytes(column.meta >> 8, "little")


def _temporal(column: _Column, value: Any) -> bytes:
    if not isinstance(value, date | timedelta | str | int):
        raise CellValueError(f"{value!r} is no date or time")
    fsp = column.meta if column.kind in (T.TIME2, T.DATETIME2, T.TIMESTAMP2) else 0
    return encode_temporal(column.kind, fsp, value)


_ENCODE: Final[dict[int, Callable[[_Column, Any], bytes]]] = {
    T.TINY: _int(1),
    T.SHORT: _int(2),
    T.INT24: _int(3),
    T.LONG: _int(4),
    T.LONGLONG: _int(8),
    T.FLOAT: _float("<f"),
    T.DOUBLE: _float("<d"),
    T.YEAR: _year,
    T.NEWDECIMAL: _decimal,
    T.VARCHAR: _varchar,
    T.VAR_STRING: _varchar,
    T.STRING: _string,
    T.ENUM: _enum,
    T.SET: _set,
    T.BIT: _bit,
    T.JSON: _json,
    T.VECTOR: _vector,
    **dict.fromkeys((T.TINY_BLOB, T.BLOB, T.MEDIUM_BLOB, T.LONG_BLOB, T.GEOMETRY), _blob),
    **dict.fromkeys(
        (T.DATE, T.NEWDATE, T.TIME, T.TIME2, T.DATETIME, T.DATETIME2, T.TIMESTAMP, T.TIMESTAMP2), _temporal
    ),
}
