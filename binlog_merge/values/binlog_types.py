"""The type and metadata that MySQL writes into a table map for a column.

They are those of MySQL 9.7 (`Field::save_field_metadata`), checked against a real server with every type.
"""

from collections.abc import Callable
from typing import Final

from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.errors import UnsupportedInput
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import ColumnType
from snapshot_store.mysql.text.charsets import max_bytes

INTEGERS: Final[dict[str, T]] = {
    "tinyint": T.TINY,
    "smallint": T.SHORT,
    "mediumint": T.INT24,
    "int": T.LONG,
    "bigint": T.LONGLONG,
}
NUMERIC: Final = frozenset({*INTEGERS, "decimal", "float", "double", "year"})
"""Types with a signedness bit; YEAR has one, always set."""

LENGTH_BYTES: Final[dict[str, int]] = {
    "tinytext": 1,
    "text": 2,
    "mediumtext": 3,
    "longtext": 4,
    "tinyblob": 1,
    "blob": 2,
    "mediumblob": 3,
    "longblob": 4,
}
GEOMETRY_TYPES: Final[dict[str, int]] = {
    "geometry": 0,
    "point": 1,
    "linestring": 2,
    "polygon": 3,
    "multipoint": 4,
    "multilinestring": 5,
    "multipolygon": 6,
    "geomcollection": 7,
    "geometrycollection": 7,
}
DEFAULT_VECTOR_LENGTH: Final = 2048


def binlog_column(column: Column) -> tuple[int, int]:
    """Return (type, metadata) as in a table map; metadata as a little-endian integer, 0 if there is none."""
    kind = column.type
    if kind.name in INTEGERS:
        return INTEGERS[kind.name], 0
    if kind.name in LENGTH_BYTES:
        return T.BLOB, LENGTH_BYTES[kind.name]
    if kind.name in GEOMETRY_TYPES:
        return T.GEOMETRY, 4
    describe = _BINLOG_COLUMN.get(kind.name)
    if describe is None:
        raise UnsupportedInput(
            f"column {column.name}: type {kind.name} has no form in a binlog that is known here",
            remedy="report the type and the server version",
        )
    return describe(kind)


def byte_length(kind: ColumnType) -> int:
    """Return the greatest length in bytes of a CHAR, VARCHAR, BINARY or VARBINARY column."""
    try:
        width = max_bytes(kind.charset)
    except LookupError as error:
        raise UnsupportedInput(f"character set {error}", remedy="report the character set's name") from None
    return (1 if kind.length is None else kind.length) * width


def member_bytes(kind: ColumnType) -> int:
    """Return the size of an ENUM or SET value in bytes."""
    count = len(kind.members)
    if kind.name == "enum":
        return 1 if count < 256 else 2
    size = max(1, (count + 7) // 8)
    return size if size <= 4 else 8


def _string(kind: ColumnType) -> tuple[int, int]:
    # Field_string::do_save_field_metadata: the length has 10 bits, its high two go inverted into bits 4 and 5 of the
    # type byte: 1020 = 0x3FC -> CE FC.
    length = byte_length(kind)
    return T.STRING, (T.STRING ^ ((length & 0x300) >> 4)) | (length & 0xFF) << 8


def _member(kind: ColumnType) -> tuple[int, int]:
    return T.STRING, (T.ENUM if kind.name == "enum" else T.SET) | member_bytes(kind) << 8


def _bit(kind: ColumnType) -> tuple[int, int]:
    whole, left = divmod(kind.length or 1, 8)
    return T.BIT, left | whole << 8


def _decimal(kind: ColumnType) -> tuple[int, int]:
    precision = 10 if kind.length is None else kind.length
    return T.NEWDECIMAL, precision | (kind.decimals or 0) << 8


_BINLOG_COLUMN: Final[dict[str, Callable[[ColumnType], tuple[int, int]]]] = {
    "float": lambda kind: (T.FLOAT, 4),
    "double": lambda kind: (T.DOUBLE, 8),
    "decimal": _decimal,
    "bit": _bit,
    "year": lambda kind: (T.YEAR, 0),
    "date": lambda kind: (T.DATE, 0),
    "time": lambda kind: (T.TIME2, kind.fsp),
    "datetime": lambda kind: (T.DATETIME2, kind.fsp),
    "timestamp": lambda kind: (T.TIMESTAMP2, kind.fsp),
    "char": _string,
    "binary": _string,
    "varchar": lambda kind: (T.VARCHAR, byte_length(kind)),
    "varbinary": lambda kind: (T.VARCHAR, byte_length(kind)),
    "enum": _member,
    "set": _member,
    "json": lambda kind: (T.JSON, 4),
    "vector": lambda kind: (T.VECTOR, 4),
}
