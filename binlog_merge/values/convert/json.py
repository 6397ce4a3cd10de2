"""Converts JSON documents to and from other columns, as MySQL's ALTER TABLE ... MODIFY does.

A document is converted as its text is, except for DECIMAL and BIT columns, which use its value. Text is parsed as a
document; text that is not JSON cannot be stored, not even without strict mode.
"""

import json
import math
from decimal import Decimal
from typing import Any

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.json_binary import encode_json
from binlog_merge.values.value import ConversionError, Json, Lost
from snapshot_store.mysql.column_type import ColumnType, Family

_INTEGERS = (-(1 << 63), (1 << 64) - 1)
_GREATEST_SIGNED = (1 << 63) - 1


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
    return number if _INTEGERS[0] <= number <= _INTEGERS[1] else _float(digits)


def _float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits[:40]} is too great for a DOUBLE")
    return number


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def number_of_document(kind: ColumnType, value: Json, lost: Lost) -> int | float | str | Decimal:
    """Return a document's value for DECIMAL and BIT columns: a number, a text that may hold one, true or false."""
    document = value.document
    if isinstance(document, float) and not math.isfinite(document):
        raise ConversionError(f"{document} is no number")
    if isinstance(document, int) and document > _GREATEST_SIGNED and kind.family is Family.DECIMAL:
        return document - (1 << 64)  # a server takes its bits for a signed number's
    if isinstance(document, int | float | str | Decimal):  # bool is an int
        return int(document) if isinstance(document, bool) else document
    lost.append("the document is no number")
    return 0
