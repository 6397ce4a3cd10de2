"""Cells to Python values and back, by the schema's column types: what conversions and pad values are made of.

    integer, year, bit, enum, set   int (an enum's index, a set's bits)
    decimal                         Decimal, exactly as many digits behind the point as the column has
    float, double                   float
    char, varchar, text             str
    binary, varbinary, blob         bytes, BINARY with its zero bytes
    date, datetime, timestamp       Civil, which also holds zero and partly zero dates; timestamp in UTC
    time                            timedelta

JSON, GEOMETRY and VECTOR have no values here: their cells only pass.
"""

from datetime import timedelta
from decimal import Decimal
from typing import Final

from binlog_merge.binlog import decode, encode
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.temporal import Civil, civil
from binlog_merge.merge.convert_charsets import decode_text, encode_text
from binlog_merge.merge.witness import binlog_column
from snapshot_store.model import Column, ColumnType

Value = int | float | Decimal | str | bytes | Civil | timedelta

INTEGER_BYTES: Final = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}
TEXT_TYPES: Final = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
BINARY_TYPES: Final = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})


class ConversionError(Exception):
    """A value that its new column type cannot hold, or that is no value of its old one; says which and why."""


def decode_cell(kind: ColumnType, cell: bytes) -> Value:
    """Return the value of a cell, its length prefix included in `cell`.

    Raises ConversionError for bytes that are no value of this type.
    """
    code, meta = binlog_column(Column("", kind))
    try:
        value = decode.decode_cell(code, meta, cell, kind.unsigned, "binary")
        if kind.name in TEXT_TYPES:
            return decode_text(kind.charset or "binary", value)
        if kind.name in ("date", "datetime", "timestamp"):
            return civil(value)
    except (BinlogFormatError, ValueError, LookupError) as error:
        raise ConversionError(f"{cell[:40].hex()} is no {kind.name}: {error}") from None
    # BINARY(n) goes without its trailing zero bytes, and is n bytes long all the same.
    return value.ljust(kind.length or 1, b"\0") if kind.name == "binary" else value


def encode_cell(kind: ColumnType, value: Value) -> bytes:
    """Return the cell of a value that already is one of this column type (see `convert.coerce`)."""
    code, meta = binlog_column(Column("", kind))
    plain: object = value
    try:
        if isinstance(value, str):
            plain = encode_text(kind.charset or "binary", value.rstrip(" ") if kind.name == "char" else value)
        elif isinstance(value, Civil):
            plain = value.text(6)
        return encode.encode_cell(code, meta, plain, kind.unsigned, kind.charset or "binary")
    except (BinlogFormatError, ValueError, LookupError) as error:
        raise ConversionError(f"{value!r} does not fit {kind.name}: {error}") from None
