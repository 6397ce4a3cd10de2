"""Literal defaults: the value that a column of a type stores, spelt as in information_schema.

    DECIMAL(6,2) DEFAULT 1.5 -> 1.50      DATETIME(3) DEFAULT '2001-1-1' -> 2001-01-01 00:00:00.000
    ENUM('a','b') DEFAULT 'B' -> b        YEAR DEFAULT 99 -> 1999

Two tables have the same default exactly when these texts are equal. A literal that does not fit its type is a
ValueError: a server refuses it, in every sql_mode except for dates.
"""

import re
import unicodedata
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Literal

from snapshot_store.mysql.column_type import NUMERIC, ColumnType, Family, set_text
from snapshot_store.mysql.sql.session import DdlSession
from snapshot_store.mysql.values.times import date_text, datetime_text, time_text, year_text

Kind = Literal["string", "number", "bits"]

_WIDE = Context(prec=120, rounding=ROUND_HALF_UP)
_NUMBER = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?\s*", re.ASCII)
_LITERAL = re.compile(r"(?:0x|x')(?P<hex>[0-9a-f]*)'?|(?:0b|b')(?P<bits>[01]*)'?", re.IGNORECASE)


def stored_text(kind: Kind, text: str, type: ColumnType, session: DdlSession) -> str:
    """Return the default's text for a column of this type. Raises ValueError if the literal does not fit."""
    store = _STORE.get(type.family) if type.defaults_to_literal else None
    if store is None:
        raise ValueError(f"a column of type {type.name} can have no literal as default")
    if kind == "bits" and type.family in NUMERIC:
        return store("number", str(int.from_bytes(literal_bytes(text), "big")), type, session)
    return store(kind, text, type, session)


def literal_bytes(text: str) -> bytes:
    """Return the bytes of a hexadecimal or bit literal."""
    literal = _LITERAL.fullmatch(text)
    if literal is None:
        raise ValueError(f"no hexadecimal or bit literal: {text!r}")
    if literal["hex"] is not None:
        digits = literal["hex"]
        return bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}")
    bits = literal["bits"]
    return int(bits or "0", 2).to_bytes((len(bits) + 7) // 8, "big")


def _decimal(text: str) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} is no number")
    try:
        return Decimal(text.strip())
    except InvalidOperation:
        raise ValueError(f"{text!r} is no number") from None


def _integer(kind: Kind, text: str, type: ColumnType, session: DdlSession) -> str:
    value = int(_decimal(text).quantize(Decimal(1), context=_WIDE))
    low, high = type.limits
    if not low <= value <= high:
        raise ValueError(f"{text} is out of range")
    return str(value).zfill(type.length or 0) if type.zerofill else str(value)


def _fixed(kind: Kind, text: str, type: ColumnType, session: DdlSession) -> str:
    length, decimals = type.length or 0, type.decimals or 0
    value = _decimal(text).quantize(Decimal(1).scaleb(-decimals), context=_WIDE)
    if abs(value) >= Decimal(10) ** (length - decimals) or (type.unsigned and value < 0):
        raise ValueError(f"{text} is out of range")
    found = f"{value:f}"
    if found.lstrip("-0.") == "":
        found = found.lstrip("-")
    return found.zfill(length + 1 if decimals else length) if type.zerofill else found


def _floating(kind: Kind, text: str, type: ColumnType, session: DdlSession) -> str:
    value = _decimal(text)
    if type.unsigned and value < 0:
        raise ValueError(f"{text} is out of range")
    if type.decimals is not None:
        return _fixed(kind, text, type, session)
    number = float(value)
    if abs(number) > (3.4028234663852886e38 if type.name == "float" else 1.7976931348623157e308):
        raise ValueError(f"{text} is out of range")
    return float_text(number, 6 if type.name == "float" else 17)


def float_text(number: float, digits: int) -> str:
    """Return a number as the server's my_gcvt writes it: with an exponent only beyond 15 places."""
    scientific = repr(number) if digits == 17 else f"{number:.{digits - 1}e}"
    sign, ciphers, exponent = Decimal(scientific).normalize().as_tuple()
    text = "".join(map(str, ciphers))
    if text == "0":
        return "-0" if sign else "0"
    point = len(text) + int(exponent)
    minus = "-" if sign else ""
    if not -14 <= point <= 15:
        return f"{minus}{text[0]}{'.' if len(text) > 1 else ''}{text[1:]}e{point - 1}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{text}"
    return f"{minus}{text[:point].ljust(point, '0')}{'.' if len(text) > point else ''}{text[point:]}"


def _written(kind: Kind, text: str) -> str:
    """Return a literal as a string, as the server converts a number where a string is expected."""
    if kind == "bits":
        return literal_bytes(text).decode(errors="replace")
    if kind == "number" and "e" in text.lower():
        return float_text(float(text), 17)
    return text


def _characters(kind: Kind, text: str, type: ColumnType, session: DdlSession) -> str:
    value = _written(kind, text)
    length = type.length or 0
    if len(value) > length and value[length:].strip(" "):
        raise ValueError(f"{shown(value)} is longer than {length} characters")
    value = value[:length]
    return value.rstrip(" ") if type.name == "char" else value


def _bytes(kind: Kind, text: str, type: ColumnType, session: DdlSession) -> str:
    data = literal_bytes(text) if kind == "bits" else _written(kind, text).encode(errors="surrogateescape")
    if len(data) > (type.length or 0):
        raise ValueError(f"{shown(text)} is longer than {type.length} bytes")
    return bytes_text(data)


def bytes_text(data: bytes) -> str:
    """Return a byte string as text if it is UTF-8 and does not begin with 0x, else as 0x…."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"0x{data.hex()}"
    return f"0x{data.hex()}" if text.startswith("0x") else text


def _bit(kind: Kind, text: str, type: ColumnType, session: DdlSession) -> str:
    if kind == "number":
        value = int(_decimal(text).quantize(Decimal(1), context=_WIDE))
    else:
        value = int.from_bytes(literal_bytes(text) if kind == "bits" else text.encode(), "big")
    if not 0 <= value < 2 ** (type.length or 1):
        raise ValueError(f"{shown(text)} has more than {type.length} bits")
    return f"b'{value:b}'"


def folded(text: str, collation: str | None) -> str:
    """Return the text to compare two strings by a collation: an approximation, good enough for names and members."""
    text = text.rstrip(" ")
    if collation is None or collation.endswith(("_bin", "_cs")) or collation == "binary":
        return text
    if "_as_" not in collation:
        text = "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
    return text.casefold()


def _enum(kind: Kind, text: str, type: ColumnType, session: DdlSession) -> str:
    if kind == "number":
        raise ValueError(f"{text} is no string")
    return _member(_written(kind, text), type)


def _member(value: str, type: ColumnType) -> str:
    wanted = folded(value, type.collation)
    for member in type.members:
        if folded(member, type.collation) == wanted:
            return member
    raise ValueError(f"{shown(value)} is no member")


def _set(kind: Kind, text: str, type: ColumnType, session: DdlSession) -> str:
    if kind == "number":
        raise ValueError(f"{text} is no string")
    value = _written(kind, text).rstrip(" ")
    chosen = {_member(part, type) for part in value.split(",")} if value else set()
    return set_text(member for member in type.members if member in chosen)


def shown(value: str) -> str:
    """Return a value for an error message."""
    return repr(value if len(value) <= 40 else value[:39] + "…")


_Store = Callable[[Kind, str, ColumnType, DdlSession], str]
_STORE: dict[Family, _Store] = {
    Family.INTEGER: _integer,
    Family.DECIMAL: _fixed,
    Family.FLOAT: _floating,
    Family.BIT: _bit,
    Family.TEXT: _characters,
    Family.BYTES: _bytes,
    Family.ENUM: _enum,
    Family.SET: _set,
    Family.YEAR: lambda kind, text, type, session: year_text(kind == "number", text),
    Family.DATE: lambda kind, text, type, session: date_text(kind == "number", _written(kind, text), session),
    Family.MOMENT: lambda kind, text, type, session: datetime_text(
        kind == "number", _written(kind, text), type, session
    ),
    Family.TIME: lambda kind, text, type, session: time_text(kind == "number", _written(kind, text), type.fsp),
}
