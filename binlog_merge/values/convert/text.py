"""Converts values to CHAR, VARCHAR, TEXT, BINARY, VARBINARY, BLOB, ENUM and SET, as ALTER TABLE ... MODIFY does.

A value that is too long is cut, which is a loss unless a text loses only spaces. Between binary and character columns
the bytes stay, and must be valid in the character set. Between two character sets the text stays; characters that the
new one lacks become question marks.
"""

import math
import re
import unicodedata
from datetime import timedelta
from decimal import Decimal
from typing import Final

from binlog_merge.binlog.json_binary import json_text
from binlog_merge.binlog.temporal import Civil, time_text
from binlog_merge.values.value import ConversionError, Json, Lost, Value
from snapshot_store.mysql.column_type import MEMBERS, ColumnType, Family, set_text
from snapshot_store.mysql.text.codecs import decode_text, encode_text

WIDE: Final = {"ucs2": 2, "utf16": 2, "utf16le": 2, "utf32": 4}
_LONGEST_NUMBER: Final = 21
_LONGEST_INDEX: Final = 5
"""The longest text that Field_set::store and Field_enum::store accept as a number."""
_LONGEST_CHARACTER: Final = 4  # bytes, in any character set


def text_of(kind: ColumnType, value: Value) -> str | bytes:
    """Return the text that `SELECT` prints for a value of column type `kind`; bytes for binary strings."""
    if kind.family in MEMBERS and isinstance(value, int):
        return set_text(members_of(kind, value))
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, Json):
        return json_text(value.document)
    if isinstance(value, Civil):
        return value.date_text() if kind.family is Family.DATE else value.text(kind.fsp)
    if isinstance(value, timedelta):
        return time_text(value, kind.fsp)
    if kind.family is Family.YEAR:
        return f"{value:04d}"
    if isinstance(value, float):
        return _format_float(kind, value)
    text = f"{value:f}" if isinstance(value, Decimal) else str(value)
    if not kind.zerofill:
        return text
    width = kind.length or (kind.facts.shown_width(unsigned=True) if kind.family is Family.INTEGER else 0)
    return text.zfill(width + (1 if kind.family is Family.DECIMAL and kind.decimals else 0))


def _format_float(kind: ColumnType, value: float) -> str:
    if kind.decimals is not None:
        # my_fcvt: the digits that tell the number apart, and zeros; rounded where these are more.
        told = Decimal(repr(value))
        short = len(f"{told:f}".partition(".")[2]) <= kind.decimals
        return f"{told:.{kind.decimals}f}" if short else f"{value:.{kind.decimals}f}"
    # my_gcvt: the fewest significant digits (six for a FLOAT); with an exponent if there would be more than 15 digits
    # before or after the point (but not to lose a digit after it), or more characters than the display width.
    text, width = (f"{value:.6g}", 12) if kind.name == "float" else (repr(value), 24)
    number = Decimal(text).normalize()
    if number == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    exponent = number.adjusted()
    plain = f"{number:f}"
    sign, digits, _ = number.as_tuple()
    if (-15 <= exponent < 15 or 15 <= exponent < len(digits) - 1) and len(plain) <= width:
        return plain
    mantissa = "".join(map(str, digits))
    point = mantissa[0] + ("." + mantissa[1:] if len(mantissa) > 1 else "")
    return f"{'-' if sign else ''}{point}e{exponent}"


def members_of(kind: ColumnType, value: int) -> tuple[str, ...]:
    """Return the members of an ENUM index or of SET bits; index 0 is the empty text of an invalid value."""
    if kind.family is Family.ENUM:
        if value > len(kind.members):
            raise ConversionError(f"{value} is beyond the {len(kind.members)} members of the enum")
        return (kind.members[value - 1],) if value else ("",)
    if value >> len(kind.members):
        raise ConversionError(f"bits {value:#x} are beyond the {len(kind.members)} members of the set")
    return tuple(member for i, member in enumerate(kind.members) if value >> i & 1)


def to_text(kind: ColumnType, value: str | bytes, lost: Lost) -> str:
    """Convert a value to text that fits a character column; bytes too few for a wide character get leading zeros."""
    charset = kind.charset or "binary"
    if isinstance(value, bytes):
        if len(value) % WIDE.get(charset, 1):
            value = bytes(-len(value) % WIDE[charset]) + value
        text = _decoded(charset, value, lost)
    else:
        text = _storable(charset, value, lost)
    if kind.is_lob:
        limit = kind.facts.most_bytes
        if len(text) * 4 > limit and (size := len(encode_text(charset, text))) > limit:
            lost.append(f"a text of {size} bytes is too long for {kind.name}")
            text = _cut(charset, text, limit)
        return text
    length = 1 if kind.length is None else kind.length
    # The server looks for spaces byte by byte: in a wide character set it finds none.
    if len(text) > length and (text[length:].strip(" ") or charset in WIDE):
        lost.append(f"{text[:40]!r} is longer than {length} characters")
    return text[:length]


def _decoded(charset: str, data: bytes, lost: Lost) -> str:
    """Decode bytes up to the first that are invalid."""
    try:
        return decode_text(charset, data)
    except UnicodeError as error:
        if charset == "ucs2":  # in which a server stores half of a pair, too: it is no text here
            raise ConversionError(f"{data[:40]!r} is no text in {charset}: {error}") from None
        lost.append(f"{data[:40]!r} is no text in {charset}: {error}")
    text, at = "", 0
    while at < len(data):
        for size in range(1, _LONGEST_CHARACTER + 1):
            try:
                text += decode_text(charset, data[at : at + size])
            except UnicodeError:
                continue
            at += size
            break
        else:
            break
    return text


def _storable(charset: str, text: str, lost: Lost) -> str:
    """Replace each character that the character set lacks with a question mark."""
    try:
        encode_text(charset, text)
    except UnicodeError as error:
        lost.append(f"{text[:40]!r} has no form in {charset}: {error}")
        return "".join(char if _has_form(charset, char) else "?" for char in text)
    return text


def _has_form(charset: str, char: str) -> bool:
    try:
        encode_text(charset, char)
    except UnicodeError:
        return False
    return True


def _cut(charset: str, text: str, limit: int) -> str:
    """Return the longest prefix of a text that has at most `limit` bytes."""
    low, high = 0, min(len(text), limit)
    while low < high:
        middle = (low + high + 1) // 2
        if len(encode_text(charset, text[:middle])) <= limit:
            low = middle
        else:
            high = middle - 1
    return text[:low]


def to_bytes(kind: ColumnType, value: bytes, lost: Lost) -> bytes:
    """Convert bytes to fit a binary column."""
    length = 1 if kind.length is None else kind.length
    limit = kind.facts.most_bytes if kind.is_lob else length
    if len(value) > limit:
        lost.append(f"{value[:40]!r} is longer than the {limit} bytes of {kind.name}")
    return value[:limit].ljust(limit, b"\0") if kind.name == "binary" else value[:limit]


def to_enum(kind: ColumnType, text: str | bytes, lost: Lost, numbers: bool) -> int:
    """Return the index of a member, given by name or, with `numbers`, by number; 0 is the invalid value ''."""
    text = _plain_text(kind, text, lost).rstrip(" ")
    found = _place(kind, text)
    if found is not None:
        return found + 1
    number = _number(text, _LONGEST_INDEX) if numbers else None
    if number is None or number > len(kind.members):
        lost.append(f"{text[:40]!r} is no member of the enum")
        return 0
    return number


def to_set(kind: ColumnType, text: str | bytes, lost: Lost, numbers: bool) -> int:
    """Return the bits of the members, given as names with commas between or, with `numbers`, as a number."""
    text = _plain_text(kind, text, lost)
    members = text.rstrip(" ")  # a space before a comma is part of a name, which no member has at its end
    places = [_place(kind, member) for member in members.split(",")] if text else []
    bits = sum({1 << place for place in places if place is not None})
    if not bits and numbers and (number := _number(text, _LONGEST_NUMBER)) is not None:
        if number < 1 << len(kind.members):
            return number
        places = [None]
    if None in places:
        lost.append(f"{text[:40]!r} has what is no member of the set")
    return bits


def _number(text: str, longest: int) -> int | None:
    return int(text) if len(text) <= longest and re.fullmatch(r"\s*(\+?\d+|-0+)", text, re.ASCII) else None


def member_of_number(kind: ColumnType, number: int, lost: Lost) -> int:
    """Convert a number to the index of an ENUM's member or to the bits of a SET, as for BIT columns."""
    if kind.family is Family.ENUM:
        if 1 <= number <= len(kind.members):
            return number
        lost.append(f"{number} is no member of the enum")
        return 0
    known = number & ((1 << len(kind.members)) - 1)
    if number != known:
        lost.append(f"{number:#x} has bits beyond the members of the set")
    return known


def _plain_text(kind: ColumnType, text: str | bytes, lost: Lost) -> str:
    return _decoded(kind.charset or "latin1", text, lost) if isinstance(text, bytes) else text


def _place(kind: ColumnType, name: str) -> int | None:
    """Return the index of the member with this name: equal, or else equal in the collation (case, accents)."""
    for i, member in enumerate(kind.members):
        if member.rstrip(" ") == name:
            return i
    collation = kind.collation or "_ci"
    if "_0900_" in collation:
        name = name.replace("\0", "")  # of no weight
    if collation.endswith("_ci"):
        accents = "_as_" in collation
        for i, member in enumerate(kind.members):
            if _folded(member.rstrip(" "), accents) == _folded(name, accents):
                return i
    return None


def _folded(text: str, accents: bool) -> str:
    if accents:
        return text.casefold()
    plain = unicodedata.normalize("NFD", text.casefold())
    return "".join(char for char in plain if not unicodedata.combining(char))
