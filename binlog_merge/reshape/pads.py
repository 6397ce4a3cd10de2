"""Pad cells: the value of a logical column in rows of a physical table that lacks the column.

The pad is the logical DEFAULT. Without a DEFAULT it is NULL, or for a NOT NULL column MySQL's implicit default (0, '',
the zero date, the first member of an ENUM, no member of a SET, JSON null). CURRENT_TIMESTAMP is the commit time, so its
cell is made per transaction. For DATETIME it is in the configured time zone, since a binlog does not record the
session's. An expression default or a generated column is computed where `evaluate` can.
"""

import json
import re
from collections.abc import Sequence
from typing import Final

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.json_binary import encode_json
from binlog_merge.errors import UnsupportedInput
from binlog_merge.values.convert.cells import coerce, implicit_default
from binlog_merge.values.convert.time import moment_of, shifted
from binlog_merge.values.evaluate.row import Computed, NotComputableError, Row, computed, value_for
from binlog_merge.values.value import ConversionError, Lost, Value, encode_cell
from snapshot_store.model import Column
from snapshot_store.mysql.column_type import CHARACTERS, ColumnType, Family
from snapshot_store.mysql.sql.functions import FUNCTIONS

# Not UTC_TIMESTAMP, which is the same in every time zone: it is evaluated.
_CLOCKS: Final = "|".join(
    name
    for function in FUNCTIONS.values()
    if function.gives == "datetime" and function.depends and function.name != "utc_timestamp"
    for name in function.names
)
_NOW: Final = re.compile(rf"\(*\s*({_CLOCKS})\s*(\(\s*\d?\s*\))?\s*\)*", re.I)
_BITS: Final = re.compile(r"[bB]'([01]*)'|0b([01]+)")
_HEX: Final = re.compile(r"[xX]'((?:[0-9a-fA-F]{2})*)'|0x([0-9a-fA-F]+)")
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_STRING: Final = re.compile(r"(?:_[a-z0-9]+\s*)?'((?:[^'\\]|\\.|'')*)'", re.S)
_JSON_OF: Final = re.compile(r"json_(array|object)\s*\(\s*\)", re.I)
_CAST_JSON: Final = re.compile(rf"cast\s*\(\s*{_STRING.pattern}\s+as\s+json\s*\)", re.I | re.S)
_ESCAPES: Final = {"0": "\0", "n": "\n", "r": "\r", "t": "\t", "b": "\b", "Z": "\x1a"}

# A literal reaches its column as text of the widest character set.
_LITERAL: Final = ColumnType("varchar", length=65535, charset="utf8mb4")
_LITERAL_BYTES: Final = ColumnType("varbinary", length=65535)
_LITERAL_NUMBER: Final = ColumnType("bigint", unsigned=True)


def pads_now(column: Column) -> bool:
    """Return whether the column's pad is the commit time."""
    default = column.default
    if default is None or column.generated is not None:
        return False
    return default.kind == "now" or (default.kind == "expression" and _NOW.fullmatch(default.text.strip()) is not None)


def encode_now(column: Column, commit_us: int, offset: int = 0) -> bytes:
    """Return the commit time (microseconds since 1970) as a cell of the column, truncated to its fractional digits.

    A TIMESTAMP is in UTC. Other types get local time in the time zone that is `offset` minutes ahead of UTC.
    """
    unit = 10 ** (6 - column.type.fsp)
    moment = moment_of(commit_us // unit * unit)
    if column.type.name != "timestamp":
        moment = shifted(moment, offset)
    # A default of another type than a moment is converted as in an INSERT: now() in a DATE or an INT column.
    return _encoded(column, ColumnType("datetime", fsp=column.type.fsp), moment)


def pad_cell(column: Column, columns: Sequence[Column] = ()) -> bytes | Computed | None:
    """Return the pad's cell, None for NULL, or the expression that computes it per row from the other `columns`.

    Raises UnsupportedInput if the value cannot be determined.
    """
    default = column.default
    if column.generated is not None:
        return _computed(column, column.generated.expression, columns)
    if default is None or default.kind == "null":
        return None if column.nullable else _implicit(column)
    if default.kind == "expression":
        return _expression(column, default.text, columns)
    return _literal(column, default.text)


def constant_pad(column: Column) -> bytes | None:
    """Return the pad's cell, or the column's implicit default if the pad is the commit time or differs per row.

    None is NULL: also for a nullable column whose pad is the commit time.
    """
    cell = _implicit(column) if pads_now(column) and not column.nullable else None
    return cell if pads_now(column) or isinstance(found := pad_cell(column), Computed) else found


def compute_pad(column: Column, expression: Computed, row: Row) -> bytes | None:
    """Return the cell of a computed pad for one row.

    Raises ConversionError if the expression needs a column that the row image lacks, or yields NULL for a NOT NULL
    column.
    """
    try:
        value = value_for(expression, column, row)
    except KeyError as error:
        raise ConversionError(
            f"column {column.name} is computed from {error.args[0]}, which the row image lacks; "
            "set binlog_row_image=FULL on the nodes while such a column exists"
        ) from None
    if value is None and not column.nullable:
        raise ConversionError(f"column {column.name} is NOT NULL, and ({expression.source}) is NULL")
    return None if value is None else encode_cell(column.type, value)


def _implicit(column: Column) -> bytes:
    try:
        return implicit_default(column.type)
    except ConversionError as error:
        raise UnsupportedInput(
            f"column {column.name} is missing in a physical table and has no default: {error}",
            remedy="make the column nullable, or let the DDL finish on every node first",
        ) from None


def _literal(column: Column, text: str) -> bytes:
    """Return the cell of a literal default: text, or a bit or hexadecimal literal."""
    kind = column.type
    bits, digits = _BITS.fullmatch(text), _HEX.fullmatch(text)
    # The model writes DEFAULT '0x41' and DEFAULT 0x41 alike. SHOW CREATE TABLE only has the former, so in a text column
    # it is text; nothing but a bit or hexadecimal literal is likely elsewhere.
    if bits is None and (digits is None or kind.family in CHARACTERS):
        return _encoded(column, _LITERAL, text)
    if bits is not None:
        plain = bits[1] if bits[1] is not None else bits[2]
        number, size = int(plain or "0", 2), (len(plain) + 7) // 8
    else:
        plain = (digits and (digits[1] if digits[1] is not None else digits[2])) or ""
        number, size = int(plain or "0", 16), (len(plain) + 1) // 2
    if kind.family in CHARACTERS | {Family.BYTES}:
        return _encoded(column, _LITERAL_BYTES, number.to_bytes(size, "big"))
    return _encoded(column, _LITERAL_NUMBER, number)


def _expression(column: Column, source: str, columns: Sequence[Column]) -> bytes | Computed | None:
    text = source.strip()
    while text.startswith("(") and text.endswith(")"):
        text = text[1:-1].strip()
    if text.lower() == "null":
        return None if column.nullable else _implicit(column)
    if text.lower() in ("true", "false"):
        return _encoded(column, _LITERAL_NUMBER, int(text.lower() == "true"))
    if column.type.family is Family.JSON:
        if (shape := _JSON_OF.fullmatch(text)) is not None:
            return _json_cell(column, "[]" if shape[1].lower() == "array" else "{}")
        if (quoted := _STRING.fullmatch(text) or _CAST_JSON.fullmatch(text)) is not None:
            return _json_cell(column, _unescaped(quoted[1]))
    elif _NUMBER.fullmatch(text) or _BITS.fullmatch(text) or _HEX.fullmatch(text):
        return _literal(column, text)
    elif (quoted := _STRING.fullmatch(text)) is not None:
        return _encoded(column, _LITERAL, _unescaped(quoted[1]))
    return _computed(column, source, columns)


def _computed(column: Column, source: str, columns: Sequence[Column]) -> bytes | Computed | None:
    what = "default" if column.generated is None else "expression"
    try:
        expression = computed(source, {other.name.lower(): other for other in columns})
        if expression.columns or expression.at_commit:
            return expression
        return compute_pad(column, expression, Row({}, 0, 0))
    except (NotComputableError, ConversionError) as error:
        raise UnsupportedInput(
            f"column {column.name} is missing in a physical table, and its {what} ({source}) cannot be computed here: "
            f"{error}",
            remedy="let the DDL finish on every node first, or give the column a literal default",
        ) from None


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)|''", lambda m: _ESCAPES.get(m[1], m[1]) if m[1] else "'", text, flags=re.S)


def _json_cell(column: Column, text: str) -> bytes:
    try:
        document = encode_json(json.loads(text))
    except (ValueError, BinlogFormatError) as error:
        raise UnsupportedInput(f"column {column.name}: the default {text!r} is no JSON document: {error}") from None
    return len(document).to_bytes(4, "little") + document


def _encoded(column: Column, literal: ColumnType, value: Value) -> bytes:
    try:
        lost: Lost = []
        cell = encode_cell(column.type, coerce(literal, column.type, value, lost))
        if lost:
            raise ConversionError(lost[0])
        return cell
    except (ConversionError, KeyError) as error:
        raise UnsupportedInput(
            f"column {column.name} is missing in a physical table, and its default {value!r} is no {column.type.name}: "
            f"{error}",
            remedy="report the column's definition",
        ) from None
