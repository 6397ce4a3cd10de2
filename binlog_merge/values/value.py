"""Converts cells to Python values and back, by the schema's column types, for conversions and pad values.

    integer, year, bit, enum, set   int (an enum's index, a set's bits)
    decimal                         Decimal, with exactly the column's digits after the point
    float, double                   float
    char, varchar, text             str
    binary, varbinary, blob, vector bytes, BINARY with its zero bytes
    date, datetime, timestamp       Civil, which also holds zero and partly zero dates; timestamp in UTC
    time                            timedelta
    json                            Json

GEOMETRY has no values here: its cells are passed through.
"""

import json
import math
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

from binlog_merge.binlog import decode, encode
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.json_binary import encode_json
from binlog_merge.binlog.temporal import Civil, civil
from binlog_merge.values.types import stored_type
from snapshot_store.mysql.column_type import DATES, ColumnType, Family
from snapshot_store.mysql.text.codecs import decode_text, encode_text


@dataclass(frozen=True, slots=True)
class Json:
    """A JSON document of `binlog.json_binary`, wrapped in a class because it may be any Python value."""

    document: Any


Value = int | float | Decimal | str | bytes | Civil | timedelta | Json
Lost = list[str]
"""The losses of a conversion as texts, in order; a server in strict mode stops at the first."""


class ConversionError(Exception):
    """A value that its new column type cannot hold, or that is invalid in its old one; the message has the reason."""


def decode_cell(kind: ColumnType, cell: bytes) -> Value:
    """Return the value of a cell, which has its length prefix.

    Raises ConversionError for bytes that are invalid for this type.
    """
    code, meta = stored_type(kind)
    family = kind.family
    try:
        if family is Family.VECTOR:
            return cell[4:]
        value = decode.decode_cell(code, meta, cell, kind.unsigned, "binary")
        if family is Family.TEXT:
            return decode_text(kind.charset or "binary", value)
        if family in DATES:
            return civil(value)
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{value} is no number")
    except (BinlogFormatError, ValueError, LookupError) as error:
        raise ConversionError(f"{cell[:40].hex()} is no {kind.name}: {error}") from None
    if family is Family.JSON:
        return Json(value)
    # BINARY(n) goes without its trailing zero bytes, and is n bytes long all the same.
    return value.ljust(kind.length or 1, b"\0") if kind.name == "binary" else value


def encode_cell(kind: ColumnType, value: Value) -> bytes:
    """Return the cell of a value that is valid for this column type already (see `convert.coerce`)."""
    code, meta = stored_type(kind)
    plain: object = value
    try:
        if isinstance(value, str):
            plain = encode_text(kind.charset or "binary", value.rstrip(" ") if kind.name == "char" else value)
        elif isinstance(value, Civil):
            plain = value.text(6)
        elif isinstance(value, Json):
            document = encode_json(value.document)
            return len(document).to_bytes(4, "little") + document
        return encode.encode_cell(code, meta, plain, kind.unsigned, kind.charset or "binary")
    except (BinlogFormatError, ValueError, LookupError) as error:
        raise ConversionError(f"{value!r} does not fit {kind.name}: {error}") from None


def read_json(text: str) -> Json:
    """Parse a JSON text. Raises ConversionError if it is not JSON."""
    try:
        document = json.loads(text, parse_int=_integer, parse_float=_float, parse_constant=_no_constant)
        encode_json(document)
    except (ValueError, RecursionError, BinlogFormatError) as error:
        raise ConversionError(f"{text[:40]!r} is no JSON document: {error}") from None
    return Json(document)


def _integer(digits: str) -> int | float:
    number = int(digits)
    return number if -(1 << 63) <= number < 1 << 64 else _float(digits)


def _float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits[:40]} is too great for a DOUBLE")
    return number


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")
