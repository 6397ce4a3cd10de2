"""A cell of one column type as a cell of another, by way of what a SELECT would print of it.

Strict: what a server in strict mode refuses is an OracleError. With `clamp` it is what a server without it stores.
"""

import calendar
import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal

from tests.oracle import json_text
from tests.oracle.binlog import OracleError
from tests.oracle.cells import BLOBS, GEOMETRY, INT_TYPES, decode, encode, to_bytes, to_text
from tests.oracle.ddl import Column

_ZERO = (0, 0, 0, 0, 0, 0, 0)
_LONGEST = (838 * 3600 + 59 * 60 + 59) * 1_000_000
_WIDE = ("ucs2", "utf16", "utf16le", "utf32")
_BINARY = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")


def passes(source: Column, target: Column) -> bool:
    """Tell whether the bytes of a column are those of another."""
    narrow = target.type in ("float", "double") and target.decimals and source.decimals != target.decimals
    return source.shape() == target.shape() and not narrow and (target.nullable or not source.nullable)


def convert(cell: bytes | None, source: Column, target: Column, clamp: bool) -> bytes | None:
    """Say in `target`'s type what a cell of `source` says; None is NULL."""
    store = Store(target, clamp)
    if cell is None:
        return None if target.nullable else store.reset()
    if source.type == target.type and (
        source.type in (*GEOMETRY, "json", "vector") or passes(source, replace(target, nullable=True))
    ):
        return cell
    if source.type in GEOMETRY and target.type in GEOMETRY:
        return cell
    return store.cell(source, _value(source, cell))


def _value(source: Column, cell: bytes) -> object:
    if source.type == "json":
        return json_text.to_value(cell[4:])
    if source.type == "vector":
        return cell[4:]
    value = decode(source, cell)
    return value.ljust(source.length, b"\0") if source.type == "binary" and isinstance(value, bytes) else value


def said(c: Column, value: object) -> str | bytes:
    """Return what SELECT prints."""
    if c.type == "json":
        return json_text.to_text(value)
    if isinstance(value, str | bytes):
        return value
    if c.type == "set" and isinstance(value, tuple):
        return ",".join(value)
    if c.type in ("date", "datetime", "timestamp") and isinstance(value, tuple):
        day = "{:04d}-{:02d}-{:02d}".format(*value)
        if c.type == "date":
            return day
        return day + " {:02d}:{:02d}:{:02d}".format(*value[3:6]) + _digits(value[6], c.decimals)
    if c.type == "time" and isinstance(value, int):
        seconds, micros = divmod(abs(value), 1_000_000)
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{_digits(micros, c.decimals)}"
        return "-" + clock if value < 0 else clock
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float):
        return _float_text(c, value)
    return f"{value:04d}" if c.type == "year" else str(value)


def _digits(micros: int, count: int) -> str:
    return f".{micros:06d}"[: count + 1] if count else ""


def _float_text(c: Column, value: float) -> str:
    if c.decimals:
        return f"{value:.{c.decimals}f}"
    number = Decimal(f"{value:.6g}" if c.type == "float" else repr(value)).normalize()
    exponent = number.adjusted() if number else 0
    if -15 <= exponent < 15 and not (c.type == "float" and len(format(number, "f")) > 12):
        return format(number, "f")
    head, _, tail = f"{number:e}".lower().partition("e")
    return f"{head}e{int(tail)}"


@dataclass
class Store:
    """What a column makes of values."""

    target: Column
    clamp: bool

    def lose(self, value: object) -> None:
        if not self.clamp:
            raise OracleError(f"{self.target.name}: {value!r} does not fit {self.target.type}")

    def reset(self) -> bytes:
        """Return what NULL becomes in a NOT NULL column."""
        self.lose("NULL")
        c = self.target
        if c.type == "json":
            return b"\x02\0\0\0\x04\0"
        if c.type == "enum":
            return bytes(1 if len(c.members) < 256 else 2)
        empty = {"date": _ZERO, "datetime": _ZERO, "timestamp": _ZERO, "set": ()}
        texts = {"char", "varchar", *BLOBS, "binary", "varbinary"}
        return encode(c, ("" if c.collation else b"") if c.type in texts else empty.get(c.type, 0))

    def cell(self, source: Column, value: object) -> bytes:
        c = self.target
        if c.type == "vector":
            assert isinstance(value, bytes)
            return len(value).to_bytes(4, "little") + value
        if c.type == "json":
            text = said(source, value)
            document = json_text.from_text(text if isinstance(text, str) else text.decode())
            return len(document).to_bytes(4, "little") + document
        if c.type in _BINARY:
            return self._bytes(source, value)
        if c.collation and c.type not in ("enum", "set"):
            return encode(c, self._text(source, value))
        if c.type in ("enum", "set"):
            return self._members(source, value)
        if c.type in ("date", "datetime", "timestamp"):
            return self._moment(source, value)
        if c.type == "time":
            return encode(c, self._time(source, value))
        return self._number(source, value)

    # strings

    def _bytes(self, source: Column, value: object) -> bytes:
        c = self.target
        if source.type == "bit" and c.type in BLOBS and isinstance(value, int):
            return encode(c, value.to_bytes((source.length + 7) // 8))
        text = said(source, value)
        data = text if isinstance(text, bytes) else to_bytes(text, source.charset or "utf8mb4")
        limit = c.length if c.type in ("binary", "varbinary") else 256 ** BLOBS[c.type] - 1
        if len(data) > limit:
            self.lose(data)
        return encode(c, data[:limit])

    def _text(self, source: Column, value: object) -> str:
        c, text = self.target, said(source, value)
        if isinstance(text, bytes):
            end = len(text)
            while end and not _is_text(text[:end], c.charset):
                end -= 1
            if end < len(text):
                self.lose(text)
            text = to_text(text[:end], c.charset)
        plain = "".join(ch if _has(ch, c.charset) else "?" for ch in text)
        if plain != text:
            self.lose(text)
        if c.length and len(plain) > c.length:
            if plain[c.length :].strip(" "):
                self.lose(plain)
            plain = plain[: c.length]
        return plain

    def _members(self, source: Column, value: object) -> bytes:
        c = self.target
        text = said(source, value)
        text = text if isinstance(text, str) else to_text(text.rstrip(b"\0"), c.charset)
        names = {m.lower(): m for m in reversed(c.members)} | {m: m for m in c.members}
        if source.type == "bit":
            names, text = {}, str(value)
        number = int(text) if text.isdigit() and len(text) < 6 else None
        if c.type == "enum":
            found = names.get(text) or names.get(text.lower())
            if found is None and number and number <= len(c.members):
                found = c.members[number - 1]
            if found is None and text != "0":
                self.lose(text)
            return encode(c, found or "")
        parts = [names.get(p) or names.get(p.lower()) for p in text.split(",")] if text else []
        known = tuple(p for p in parts if p is not None)
        if not known and number is not None and number < 1 << len(c.members):
            known = tuple(m for i, m in enumerate(c.members) if number >> i & 1)
        elif len(known) < len(parts):
            self.lose(text)
        return encode(c, known)

    # numbers

    def _number(self, source: Column, value: object) -> bytes:
        c = self.target
        if source.type in ("enum", "set"):
            number: Decimal | float | int = int.from_bytes(encode(source, value), "little")
        else:
            number = self._as_number(source, value)
        if c.type in ("float", "double"):
            return self._float(float(number))
        if c.type == "decimal":
            return self._decimal(number)
        if c.type in INT_TYPES and isinstance(value, int) and source.type == "time":
            number = Decimal(number).quantize(Decimal(1), ROUND_HALF_UP)
        whole = int(
            Decimal(number).quantize(Decimal(1), ROUND_HALF_EVEN if isinstance(number, float) else ROUND_HALF_UP)
        )
        if c.type == "year":
            whole += (2000 if whole < 70 else 1900) if 0 < whole < 100 else 0
            if whole and not 1901 <= whole <= 2155:
                self.lose(whole)
                whole = 0
            return encode(c, whole)
        if c.type == "bit":
            low, high = 0, (1 << c.length) - 1
        else:
            bits = 8 * INT_TYPES[c.type][1]
            low, high = (0, (1 << bits) - 1) if c.unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)
        if not low <= whole <= high:
            self.lose(whole)
        return encode(c, max(low, min(high, whole)))

    def _as_number(self, source: Column, value: object) -> Decimal | float | int:
        if source.type == "json" and self.target.type in ("decimal", "bit"):
            if isinstance(value, int | float):
                return value if isinstance(value, float) else int(value)
        elif isinstance(value, int | float | Decimal) and source.type not in ("time", "json"):
            return value
        if source.type == "time" and isinstance(value, int):
            seconds, micros = divmod(abs(value), 1_000_000)
            clock = seconds // 3600 * 10000 + seconds // 60 % 60 * 100 + seconds % 60
            return Decimal(clock * 1_000_000 + micros).scaleb(-6) * (-1 if value < 0 else 1)
        if source.type in ("date", "datetime", "timestamp") and isinstance(value, tuple):
            plain = "{:04d}{:02d}{:02d}".format(*value)
            if source.type != "date":
                plain += "{:02d}{:02d}{:02d}.{:06d}".format(*value[3:])
            return Decimal(plain)
        text = said(source, value)
        text = text if isinstance(text, str) else text.decode("latin-1")
        found = re.match(r"\s*([+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)", text)
        if found is None or text[found.end() :].strip(" "):
            self.lose(text)
        return Decimal(found[1]) if found else 0

    def _float(self, number: float) -> bytes:
        c = self.target
        greatest = 3.4028234663852886e38 if c.type == "float" else 1.7976931348623157e308
        if c.decimals:
            greatest = 10.0 ** (c.length - c.decimals) - 10.0**-c.decimals
            number = round(number * 10**c.decimals) / 10**c.decimals
        if abs(number) > greatest:
            self.lose(number)
            number = greatest if number > 0 else -greatest
        return encode(c, number)

    def _decimal(self, number: Decimal | float | int) -> bytes:
        c = self.target
        exact = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
        greatest = Decimal(10**c.length - 1).scaleb(-c.decimals)
        if abs(exact) > greatest and abs(exact.quantize(Decimal(1).scaleb(-c.decimals), ROUND_HALF_UP)) > greatest:
            self.lose(number)
            exact = greatest.copy_sign(exact)
        if c.unsigned and exact < 0:
            self.lose(number)
            exact = Decimal(0)
        return encode(c, exact)

    # moments

    def _moment(self, source: Column, value: object) -> bytes:
        c = self.target
        if source.type in ("date", "datetime", "timestamp") and isinstance(value, tuple):
            parts: tuple[int, ...] | None = value
        else:
            text = said(source, value)
            parts = self._read_moment(text if isinstance(text, str) else text.decode("latin-1"))
        if parts is None:
            self.lose(value)
            return encode(c, _ZERO)
        digits = 0 if c.type == "date" else c.decimals
        unit = 10 ** (6 - digits)
        micros = (parts[6] + unit // 2) // unit * unit
        if micros == 1_000_000:
            at = datetime(*parts[:6]) + timedelta(seconds=1)  # type: ignore[arg-type]
            parts = (at.year, at.month, at.day, at.hour, at.minute, at.second, 0)
        else:
            parts = (*parts[:6], micros)
        if c.type == "timestamp" and any(parts):
            known = parts[1] and parts[2]
            if not known or not 0 < calendar.timegm((*parts[:6], 0, 0, 0)) < 2**31:
                self.lose(value)
                return encode(c, _ZERO)
        return encode(c, parts)

    def _read_moment(self, text: str) -> tuple[int, ...] | None:
        found = re.fullmatch(r"(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d))?(?:\.(\d*))?", text) or re.fullmatch(
            r"(\d+)-(\d+)-(\d+)(?: (\d+):(\d+)(?::(\d+)(?:\.(\d*))?)?)?", text
        )
        if found is None:
            return None
        parts = [int(g or 0) for g in found.groups()[:6]]
        if len(found[1]) == 2:
            parts[0] += 2000 if parts[0] < 70 else 1900
        if parts[1] and parts[2] and parts[2] > calendar.monthrange(parts[0] or 4, parts[1])[1]:
            return None
        return (*parts, (int((found[7] or "").ljust(7, "0")[:7]) + 5) // 10)

    def _time(self, source: Column, value: object) -> int:
        if source.type == "time" and isinstance(value, int):
            us = value
        elif source.type in ("date", "datetime", "timestamp") and isinstance(value, tuple):
            us = ((value[3] * 60 + value[4]) * 60 + value[5]) * 1_000_000 + value[6]
        else:
            text = said(source, value)
            us = self._read_time(text if isinstance(text, str) else text.decode("latin-1"))
        unit = 10 ** (6 - self.target.decimals)
        rounded = (abs(us) + unit // 2) // unit * unit
        if rounded > _LONGEST:
            self.lose(value)
            rounded = _LONGEST
        return -rounded if us < 0 else rounded

    def _read_time(self, text: str) -> int:
        found = re.fullmatch(r"(-?)(?:(\d+) )?(\d+)(?::(\d+)(?::(\d+))?)?(?:\.(\d*))?", text)
        if found is None:
            self.lose(text)
            return 0
        sign, days, first, second, third, fraction = found.groups()
        if second is None:
            seconds = int(first) // 10000 * 3600 + int(first) // 100 % 100 * 60 + int(first) % 100
        else:
            seconds = (int(days or 0) * 24 + int(first)) * 3600 + int(second) * 60 + int(third or 0)
        return (seconds * 1_000_000 + int((fraction or "").ljust(6, "0")[:6])) * (-1 if sign else 1)


def _has(char: str, charset: str) -> bool:
    try:
        to_bytes(char, charset)
    except OracleError:
        return False
    return True


def _is_text(data: bytes, charset: str) -> bool:
    try:
        to_text(data, charset)
    except UnicodeDecodeError:
        return False
    return True
