"""Prepared statements as clients send them: the commands' bodies, and parameters as values.

Source: https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_command_phase_ps.html and
page_protocol_binary_resultset.html.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from struct import Struct
from typing import Final, Self

from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.wire import Buffer, pack_uint
from binlog_merge.protocol.packets import Sent

CURSOR_READ_ONLY: Final = 1
_UNSIGNED: Final = 0x80
_INTEGERS: Final = {T.TINY: 1, T.SHORT: 2, T.YEAR: 2, T.INT24: 4, T.LONG: 4, T.LONGLONG: 8}
_LONG: Final = range(T.TINY_BLOB, T.STRING + 1)
"""Types of parameters that may come before the execution."""
_REALS: Final = {T.FLOAT: Struct("<f"), T.DOUBLE: Struct("<d")}

Parameter = int | float | Decimal | str | bytes | None
"""The value of a parameter: dates and times are text, strings are bytes."""
_PLAIN: Final = re.compile(rb"[+-]?(?:\d+(?:\.\d*)?|\.\d+)")
Types = Sequence[tuple[int, bool]]
"""The types of parameters, each with whether it is unsigned."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The response to COM_STMT_PREPARE, before the descriptions of parameters and columns."""

    statement: int
    columns: int
    parameters: int

    def pack(self) -> bytes:
        numbers = pack_uint(self.statement, 4) + pack_uint(self.columns, 2) + pack_uint(self.parameters, 2)
        return b"\0" + numbers + b"\0" + pack_uint(0, 2)


@dataclass(frozen=True, slots=True)
class Execute:
    """COM_STMT_EXECUTE; `types` are those of the parameters, to be kept for the next time."""

    flags: int
    parameters: tuple[Parameter, ...]
    types: Types

    @classmethod
    def parse(cls, r: Sent, count: int, types: Types, long: Mapping[int, bytes]) -> Self:
        """Parse what follows the statement's number. `types` are the last ones, `long` values that came before."""
        flags = r.u8("flags")
        r.take(4, "iterations")
        if not count:
            return cls(flags, (), types)
        nulls = int.from_bytes(r.take((count + 7) // 8, "bitmap of NULLs"), "little")
        if r.u8("new types"):
            types = tuple((r.u8("type"), bool(r.u8("flags of the type") & _UNSIGNED)) for _ in range(count))
        if len(types) != count:
            raise r.fail("the types of the parameters are missing")
        values: list[Parameter] = []
        for place, (kind, unsigned) in enumerate(types):
            if place in long:
                if kind not in _LONG:
                    raise r.fail(f"type {kind} of a parameter that came before")
                values.append(long[place])
            else:
                values.append(None if nulls >> place & 1 else _value(r, kind, unsigned))
        return cls(flags, tuple(values), types)


@dataclass(frozen=True, slots=True)
class Fetch:
    """COM_STMT_FETCH: the statement's number, and how many rows are wanted."""

    statement: int
    rows: int

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        r = Sent(body, "fetch")
        return cls(r.u32("statement"), r.u32("rows"))


def _value(r: Sent, kind: int, unsigned: bool) -> Parameter:
    if kind in _INTEGERS:
        size = _INTEGERS[T(kind)]
        return int.from_bytes(r.take(size, "number"), "little", signed=not unsigned)
    if kind in _REALS:
        form = _REALS[T(kind)]
        (real,) = form.unpack(r.take(form.size, "number"))
        return float(real)
    read = _OTHERS.get(kind)
    return r.packed_bytes("string") if read is None else read(r)


def _moment(r: Sent) -> str:
    size = r.packed("length of a date")
    if size not in (0, 4, 7, 11):
        raise r.fail("a date of that length")
    year, month, day = (r.u16("year"), r.u8("month"), r.u8("day")) if size else (0, 0, 0)
    text = f"{year:04d}-{month:02d}-{day:02d}"
    if size > 4:
        text += f" {r.u8('hour'):02d}:{r.u8('minute'):02d}:{r.u8('second'):02d}"
    return text + (f".{r.u32('microseconds'):06d}" if size > 7 else "")


def _clock(r: Sent) -> str:
    size = r.packed("length of a time")
    if size not in (0, 8, 12):
        raise r.fail("a time of that length")
    if not size:
        return "00:00:00"
    sign = "-" if r.u8("sign") else ""
    hours = 24 * r.u32("days") + r.u8("hours")
    text = f"{sign}{hours:02d}:{r.u8('minutes'):02d}:{r.u8('seconds'):02d}"
    return text + (f".{r.u32('microseconds'):06d}" if size > 8 else "")


def _decimal(r: Sent) -> Parameter:
    """Return a DECIMAL: a number, of however many digits; what is not plainly one stays text."""
    text = r.packed_bytes("decimal")
    return Decimal(text.decode()) if _PLAIN.fullmatch(text) else text


_OTHERS: Final[dict[int, Callable[[Sent], Parameter]]] = {
    T.NULL: lambda r: None,
    T.DATE: _moment,
    T.DATETIME: _moment,
    T.TIMESTAMP: _moment,
    T.TIME: _clock,
    T.DECIMAL: _decimal,
    T.NEWDECIMAL: _decimal,
}
