"""The lengths of cells in a row image, by column type.

A cell is the bytes of one column in a row image, its own length prefix included. `meta` is the column's metadata as
`TableMap.metas` holds it: the metadata bytes of the table map read as one little-endian integer, 0 where the type has
none. Encoding is in `encode.py`, decoding in `values.py`. Source: mysql-server
`libs/mysql/binlog/event/binary_log_funcs.cpp` (max_display_length_for_field, calc_field_size) and `sql/rpl_utility.cc`.
"""

from collections.abc import Callable
from typing import Final

from binlog_merge.binlog.constants import ColumnType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.wire import Buffer

T = ColumnType

METADATA_LEN: Final[dict[int, int]] = {
    T.DECIMAL: 0,
    T.TINY: 0,
    T.SHORT: 0,
    T.LONG: 0,
    T.FLOAT: 1,
    T.DOUBLE: 1,
    T.NULL: 0,
    T.TIMESTAMP: 0,
    T.LONGLONG: 0,
    T.INT24: 0,
    T.DATE: 0,
    T.TIME: 0,
    T.DATETIME: 0,
    T.YEAR: 0,
    T.NEWDATE: 0,
    T.VARCHAR: 2,
    T.BIT: 2,
    T.TIMESTAMP2: 1,
    T.DATETIME2: 1,
    T.TIME2: 1,
    T.VECTOR: 1,
    T.JSON: 1,
    T.NEWDECIMAL: 2,
    T.ENUM: 2,
    T.SET: 2,
    T.TINY_BLOB: 1,
    T.MEDIUM_BLOB: 1,
    T.LONG_BLOB: 1,
    T.BLOB: 1,
    T.VAR_STRING: 2,
    T.STRING: 2,
    T.GEOMETRY: 1,
    T.BLOB_COMPRESSED: 1,
    T.VARCHAR_COMPRESSED: 2,
}
"""The number of metadata bytes of a column in the table map, by type. Types that are missing here are not supported."""


def real_type(type_code: int, meta: int) -> int:
    """Return a column's own type: ENUM and SET are logged as STRING(254) with their type in the metadata."""
    if type_code != T.STRING:
        return type_code
    first = meta & 0xFF
    if first in (T.ENUM, T.SET):
        return first
    return T.STRING


def string_max_length(meta: int) -> int:
    """Return the greatest byte length of a STRING column.

    The length has 10 bits; its two high bits are inverted in bits 4 and 5 of the type byte
    (Field_string::do_save_field_metadata).
    """
    first, second = meta & 0xFF, meta >> 8
    return second | (((first & 0x30) ^ 0x30) << 4)


def decimal_length(precision: int, scale: int) -> int:
    """Return the bytes of a DECIMAL(precision, scale): 4 for every 9 digits, and as few as possible for the rest."""
    if not (0 < precision <= 65 and scale <= 30 and scale <= precision):
        raise BinlogFormatError(f"DECIMAL({precision},{scale}) cannot be")
    whole, part = precision - scale, scale
    return whole // 9 * 4 + DIGITS_TO_BYTES[whole % 9] + part // 9 * 4 + DIGITS_TO_BYTES[part % 9]


DIGITS_TO_BYTES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def fraction_length(fsp: int) -> int:
    """Return the bytes of a fraction of `fsp` digits."""
    if fsp > 6:
        raise BinlogFormatError(f"fractional seconds of {fsp} digits cannot be")
    return (fsp + 1) // 2


def _fixed(size: int) -> Callable[[int, Buffer, int], int]:
    return lambda meta, data, pos: size


def _prefixed(size: int, data: Buffer, pos: int) -> int:
    if pos < 0 or len(data) - pos < size:
        raise BinlogFormatError(f"cell at byte {pos}: the row ends in its length prefix")
    return size + int.from_bytes(data[pos : pos + size], "little")


def _bounded(size: int, most: int, data: Buffer, pos: int) -> int:
    length = _prefixed(size, data, pos)
    if length - size > most:
        raise BinlogFormatError(f"cell at byte {pos} of {length - size} bytes, where {most} is the most")
    return length


def _float(meta: int, data: Buffer, pos: int) -> int:
    if meta != 4:
        raise BinlogFormatError(f"FLOAT of {meta} bytes cannot be")
    return 4


def _double(meta: int, data: Buffer, pos: int) -> int:
    if meta != 8:
        raise BinlogFormatError(f"DOUBLE of {meta} bytes cannot be")
    return 8


def _varchar(meta: int, data: Buffer, pos: int) -> int:
    return _bounded(1 if meta < 256 else 2, meta, data, pos)


def _string(meta: int, data: Buffer, pos: int) -> int:
    if real_type(T.STRING, meta) != T.STRING:
        return _member(meta, data, pos)
    most = string_max_length(meta)
    return _bounded(1 if most < 256 else 2, most, data, pos)


def _member(meta: int, data: Buffer, pos: int) -> int:
    size = meta >> 8
    if not 1 <= size <= 8:
        raise BinlogFormatError(f"ENUM or SET of {size} bytes cannot be")
    return size


def _blob(meta: int, data: Buffer, pos: int) -> int:
    if not 1 <= meta <= 4:
        raise BinlogFormatError(f"BLOB with a length of {meta} bytes cannot be")
    return _prefixed(meta, data, pos)


def bit_length(meta: int) -> int:
    """Return the bytes of a BIT column: whole bytes in the high half of the metadata, left-over bits in the low."""
    bits, whole = meta & 0xFF, meta >> 8
    if bits > 7 or whole > 8 or not 1 <= whole * 8 + bits <= 64:
        raise BinlogFormatError(f"BIT of {whole} bytes and {bits} bits cannot be")
    return whole + (1 if bits else 0)


def _bit(meta: int, data: Buffer, pos: int) -> int:
    return bit_length(meta)


def _newdecimal(meta: int, data: Buffer, pos: int) -> int:
    return decimal_length(meta & 0xFF, meta >> 8)


CELL_LENGTH: Final[dict[int, Callable[[int, Buffer, int], int]]] = {
    T.TINY: _fixed(1),
    T.SHORT: _fixed(2),
    T.INT24: _fixed(3),
    T.LONG: _fixed(4),
    T.LONGLONG: _fixed(8),
    T.FLOAT: _float,
    T.DOUBLE: _double,
    T.NULL: _fixed(0),
    T.YEAR: _fixed(1),
    T.DATE: _fixed(3),
    T.NEWDATE: _fixed(3),
    T.TIME: _fixed(3),
    T.DATETIME: _fixed(8),
    T.TIMESTAMP: _fixed(4),
    T.TIME2: lambda meta, data, pos: 3 + fraction_length(meta),
    T.DATETIME2: lambda meta, data, pos: 5 + fraction_length(meta),
    T.TIMESTAMP2: lambda meta, data, pos: 4 + fraction_length(meta),
    T.NEWDECIMAL: _newdecimal,
    T.BIT: _bit,
    T.VARCHAR: _varchar,
    T.VAR_STRING: _varchar,
    T.STRING: _string,
    T.ENUM: _member,
    T.SET: _member,
    T.TINY_BLOB: _blob,
    T.BLOB: _blob,
    T.MEDIUM_BLOB: _blob,
    T.LONG_BLOB: _blob,
    T.GEOMETRY: _blob,
    T.JSON: _blob,
    T.VECTOR: _blob,
    T.BLOB_COMPRESSED: _blob,
    T.VARCHAR_COMPRESSED: _varchar,
}
"""For each column type, (meta, data, pos) -> length of the cell at `pos` with its length prefix, not bounds-checked."""


def type_name(type_code: int) -> str:
    """Return MySQL's name of a column type, or its number."""
    try:
        return ColumnType(type_code).name
    except ValueError:
        return str(type_code)


def cell_length(type_code: int, meta: int, data: Buffer, pos: int) -> int:
    """Return the length of the cell at `pos` with its length prefix. Raises BinlogFormatError if `data` ends before."""
    measure = CELL_LENGTH.get(type_code)
    if measure is None:
        raise BinlogFormatError(f"column type {type_name(type_code)} in a row cannot be read")
    size = measure(meta, data, pos)
    if pos < 0 or size > len(data) - pos:
        raise BinlogFormatError(
            f"{type_name(type_code)} cell at byte {pos} needs {size} bytes, {max(0, len(data) - pos)} are left"
        )
    return size
