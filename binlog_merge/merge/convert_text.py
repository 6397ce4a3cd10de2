"""Values to CHAR, VARCHAR, TEXT, BINARY, VARBINARY, BLOB, ENUM and SET, as ALTER TABLE ... MODIFY turns them.

What is too long is a ConversionError, unless a text loses only spaces. Between binary and character columns the bytes
stay and must be text in the character set; between two character sets the text stays and the bytes change.
"""

import math
from datetime import timedelta
from decimal import Decimal
from typing import Final

from binlog_merge.binlog.temporal import Civil, time_text
from binlog_merge.merge.convert_charsets import decode_text, encode_text
from binlog_merge.merge.convert_values import ConversionError, Value
from binlog_merge.merge.witness import LENGTH_BYTES
from snapshot_store.model import ColumnType

_WIDE: Final = {"ucs2": 2, "utf16": 2, "utf16le": 2, "utf32": 4}
_ZEROFILL_WIDTH: Final = {"tinyint": 3, "smallint": 5, "mediumint": 8, "int": 10, "bigint": 20}


def text_of(kind: ColumnType, value: Value) -> str | bytes:
    """Return what `SELECT` prints of a value of column type `kind`; bytes for binary strings."""
    if kind.name in ("enum", "set") and isinstance(value, int):
        return ",".join(members_of(kind, value))
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, Civil):
        return value.date_text() if kind.name == "date" else value.text(kind.fsp)
    if isinstance(value, timedelta):
        return time_text(value, kind.fsp)
    if kind.name == "year":
        return f"{value:04d}"
    if isinstance(value, float):
        return _format_float(kind, value)
    text = f"{value:f}" if isinstance(value, Decimal) else str(value)
    width = (kind.length or _ZEROFILL_WIDTH.get(kind.name, 0)) if kind.zerofill else 0
    return text.zfill(width + (1 if kind.zerofill and kind.name == "decimal" and kind.decimals else 0))


def _format_float(kind: ColumnType, value: float) -> str:
    if kind.decimals is not None:
        return f"{value:.{kind.decimals}f}"
    # my_gcvt: the fewest digits that tell the value apart (six of a FLOAT); with an exponent when they would need more
    # than 15 places behind or before the point, or more characters than the column shows.
    text, width = (f"{value:.6g}", 12) if kind.name == "float" else (repr(value), 24)
    number = Decimal(text).normalize()
    if number == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    exponent = number.adjusted()
    plain = f"{number:f}"
    if -15 <= exponent < 15 and len(plain) <= width:
        return plain
    sign, digits, _ = number.as_tuple()
    mantissa = "".join(map(str, digits))
    point = mantissa[0] + ("." + mantissa[1:] if len(mantissa) > 1 else "")
    return f"{'-' if sign else ''}{point}e{exponent}"


def members_of(kind: ColumnType, value: int) -> tuple[str, ...]:
    """Return the members an ENUM index or SET bits stand for; index 0 is the empty text of an invalid value."""
    if kind.name == "enum":
        if value > len(kind.members):
            raise ConversionError(f"{value} is beyond the {len(kind.members)} members of the enum")
        return (kind.members[value - 1],) if value else ("",)
    if value >> len(kind.members):
        raise ConversionError(f"bits {value:#x} are beyond the {len(kind.members)} members of the set")
    return tuple(member for i, member in enumerate(kind.members) if value >> i & 1)


def to_text(kind: ColumnType, value: str | bytes) -> str:
    """Return text that fits a character column; bytes too few for a wide character get zeros before them."""
    charset = kind.charset or "binary"
    if isinstance(value, bytes) and len(value) % _WIDE.get(charset, 1):
        value = bytes(-len(value) % _WIDE[charset]) + value
    try:
        text = decode_text(charset, value) if isinstance(value, bytes) else value
        size = len(encode_text(charset, text))
    except (UnicodeError, LookupError) as error:
        raise ConversionError(f"{value[:40]!r} has no form in {charset}: {error}") from None
    if kind.name in LENGTH_BYTES:
        if size >= 1 << 8 * LENGTH_BYTES[kind.name]:
            raise ConversionError(f"a text of {size} bytes is too long for {kind.name}")
        return text
    length = 1 if kind.length is None else kind.length
    if len(text) > length and text[length:].strip(" "):
        raise ConversionError(f"{text[:40]!r} is longer than {length} characters")
    return text[:length]


def to_bytes(kind: ColumnType, value: bytes) -> bytes:
    """Return bytes that fit a binary column."""
    if kind.name in LENGTH_BYTES:
        if len(value) >= 1 << 8 * LENGTH_BYTES[kind.name]:
            raise ConversionError(f"{len(value)} bytes are too long for {kind.name}")
        return value
    length = 1 if kind.length is None else kind.length
    if len(value) > length:
        raise ConversionError(f"{value[:40]!r} is longer than {length} bytes")
    return value.ljust(length, b"\0") if kind.name == "binary" else value


def to_enum(kind: ColumnType, value: Value) -> int:
    """Return the index of a member, given by name or, as MySQL allows, by number; 0 is the invalid value ''."""
    if isinstance(value, int):
        return _within(kind, value, len(kind.members))
    text = _plain_text(value)
    found = _place(kind, text)
    if found is not None:
        return found + 1
    return 0 if not text else _within(kind, _number(kind, text), len(kind.members))


def to_set(kind: ColumnType, value: Value) -> int:
    """Return the bits of the members, given by names with commas between or by number."""
    greatest = (1 << len(kind.members)) - 1
    if isinstance(value, int):
        return _within(kind, value, greatest)
    text = _plain_text(value)
    places = [_place(kind, member) for member in text.split(",")] if text else []
    if None in places:
        return _within(kind, _number(kind, text), greatest)
    return sum({1 << place for place in places if place is not None})


def _plain_text(value: Value) -> str:
    return value.rstrip(b"\0").decode("latin-1") if isinstance(value, bytes) else str(value)


def _number(kind: ColumnType, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ConversionError(f"{text[:40]!r} is no member of the {kind.name}")
    return int(text[:20])


def _within(kind: ColumnType, value: int, greatest: int) -> int:
    if not 0 <= value <= greatest:
        raise ConversionError(f"{value} is no value of the {kind.name}")
    return value


def _place(kind: ColumnType, name: str) -> int | None:
    """Return a member's place: spelt alike, or else but for case where the collation takes no notice of it."""
    name = name.rstrip(" ")
    for i, member in enumerate(kind.members):
        if member.rstrip(" ") == name:
            return i
    if (kind.collation or "_ci").endswith("_ci"):
        for i, member in enumerate(kind.members):
            if member.rstrip(" ").casefold() == name.casefold():
                return i
    return None
