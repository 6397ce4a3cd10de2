"""Dates and times as cells, and their text.

Values have Python's types; a date that these cannot represent (`0000-00-00`, `2024-00-15`, 30 February) is MySQL's
text. TIMESTAMP is UTC on both sides: decoding returns an aware datetime; a naive one and text are encoded as UTC.
Digits beyond the column's are cut, as MySQL does for NOW().

    DATE       year << 9 | month << 5 | day, 3 bytes little-endian
    DATETIME2  1 | (year * 13 + month) << 5 | day << 17 | hour << 12 | minute << 6 | second: 40 bits big-endian,
               then the fraction
    TIME2      1 | hour << 12 | minute << 6 | second: 24 bits big-endian, then the fraction;
               negative ones are the complement
    TIMESTAMP2 seconds since 1970, 4 bytes big-endian, then the fraction
    fraction   1, 2 or 3 bytes big-endian with 2, 4 or 6 digits

Source: mysql-server `mysys/my_time.cc` (my_datetime_packed_to_binary and its kin).

What becomes of dates that no calendar has (0000-00-00, 2024-02-00) where dates have a type: a rule for each column.

null          every such date becomes NULL
born=null     those of columns called born do; others stop the reader
text,at=null  columns of dates are MySQL's text, but for those called at, whose such dates become NULL
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Final, Literal, NamedTuple, cast, get_args

from binlog_merge.binlog.cell_length import fraction_length
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from binlog_merge.binlog.wire import Buffer

Temporal = date | datetime | timedelta | str

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DATETIME2_OFFSET: Final = 1 << 39
_TIME2_OFFSET: Final = 1 << 23
_MAX_HOURS: Final = 838
_TEXT: Final = re.compile(
    r"\s*(\d{1,4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,9}))?)?)?\s*", re.ASCII
)
_TIME_TEXT: Final = re.compile(r"\s*([+-]?)(\d{1,3}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,9}))?)?\s*", re.ASCII)


class Civil(NamedTuple):
    """A date and time of day as MySQL stores it: any part may be zero."""

    year: int
    month: int
    day: int
    hour: int = 0
    minute: int = 0
    second: int = 0
    micro: int = 0

    def check(self) -> "Civil":
        """Return self. Raises BinlogFormatError if a part is out of MySQL's range."""
        if self.year > 9999 or self.month > 12 or self.day > 31:
            raise BinlogFormatError(f"date {self.year}-{self.month}-{self.day} cannot be")
        if self.hour > 23 or self.minute > 59 or self.second > 59 or self.micro > 999_999:
            raise BinlogFormatError(f"time of day {self.hour}:{self.minute}:{self.second}.{self.micro} cannot be")
        return self

    def date_text(self) -> str:
        return f"{self.year:04d}-{self.month:02d}-{self.day:02d}"

    def text(self, fsp: int) -> str:
        """Return MySQL's text with `fsp` fraction digits."""
        return f"{self.date_text()} {self.hour:02d}:{self.minute:02d}:{self.second:02d}{fraction_text(self.micro, fsp)}"

    def as_date(self) -> date | str:
        try:
            return date(self.year, self.month, self.day)
        except ValueError:
            return self.date_text()

    def as_datetime(self, fsp: int) -> datetime | str:
        try:
            return datetime(*self)
        except ValueError:
            return self.text(fsp)


def fraction_text(micro: int, fsp: int) -> str:
    """Return `.` and the first `fsp` digits of the microseconds; "" if `fsp` is 0."""
    return f".{micro:06d}"[: fsp + 1] if fsp else ""


def time_text(value: timedelta, fsp: int) -> str:
    """Return MySQL's text of a TIME: [-]hh:mm:ss[.fraction]."""
    total = abs(value) // timedelta(microseconds=1)
    seconds, micro = divmod(total, 1_000_000)
    sign = "-" if value < timedelta(0) else ""
    return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction_text(micro, fsp)}"


def _micro(digits: str | None) -> int:
    return int((digits or "")[:6].ljust(6, "0"))


def civil(value: Temporal | int) -> Civil:
    """Return the parts of a date, a datetime or MySQL's text of one."""
    if isinstance(value, datetime):
        return Civil(value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond)
    if isinstance(value, date):
        return Civil(value.year, value.month, value.day)
    if isinstance(value, str) and (match := _TEXT.fullmatch(value)):
        year, month, day, hour, minute, second = (int(match[i] or 0) for i in range(1, 7))
        try:
            return Civil(year, month, day, hour, minute, second, _micro(match[7])).check()
        except BinlogFormatError as error:
            raise CellValueError(error.reason) from None
    if value in ("0", 0):
        return Civil(0, 0, 0)
    raise CellValueError(f"{value!r} is no date")


def _span(value: Temporal | int) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str) and (match := _TIME_TEXT.fullmatch(value)):
        hour, minute, second = (int(match[i] or 0) for i in (2, 3, 4))
        if minute < 60 and second < 60:
            span = timedelta(hours=hour, minutes=minute, seconds=second, microseconds=_micro(match[5]))
            return -span if match[1] == "-" else span
    if value in ("0", 0):
        return timedelta(0)
    raise CellValueError(f"{value!r} is no time")


def _instant(value: Temporal | int) -> tuple[int, int]:
    """Return seconds and microseconds since 1970 of a TIMESTAMP value; (0, 0) is the zero timestamp."""
    if isinstance(value, int):
        seconds, micro = value, 0
    elif isinstance(value, datetime) and value.tzinfo is not None:
        seconds, micro = divmod((value - _EPOCH) // timedelta(microseconds=1), 1_000_000)
    else:
        parts = civil(value)
        if parts == Civil(0, 0, 0):
            return 0, 0
        moment = parts.as_datetime(6)
        if isinstance(moment, str):
            raise CellValueError(f"{value!r} is no timestamp")
        seconds, micro = divmod((moment.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1), 1_000_000)
    if not 0 <= seconds < 1 << 32:
        raise CellValueError(f"{value!r} is outside what a TIMESTAMP holds")
    return seconds, micro


_UNIT: Final = (1_000_000, 10_000, 100, 1)


def _encode_fraction(micro: int, fsp: int) -> bytes:
    size = fraction_length(fsp)
    cut = micro // 10 ** (6 - fsp) * 10 ** (6 - fsp)
    return (cut // _UNIT[size]).to_bytes(size, "big")


def _decode_fraction(data: Buffer, fsp: int) -> int:
    micro = int.from_bytes(data, "big") * _UNIT[fraction_length(fsp)] if fsp else 0
    if micro > 999_999:
        raise BinlogFormatError(f"fraction of {micro} microseconds cannot be")
    return micro


def encode_temporal(kind: int, fsp: int, value: Temporal | int) -> bytes:
    """Return the cell of a date or time column."""
    fraction_length(fsp)  # raises for an fsp that cannot be
    if kind in (T.DATE, T.NEWDATE):
        c = civil(value)
        return (c.year << 9 | c.month << 5 | c.day).to_bytes(3, "little")
    if kind == T.DATETIME2:
        c = civil(value)
        packed = ((c.year * 13 + c.month) << 5 | c.day) << 17 | c.hour << 12 | c.minute << 6 | c.second
        return (packed | _DATETIME2_OFFSET).to_bytes(5, "big") + _encode_fraction(c.micro, fsp)
    if kind == T.DATETIME:
        c = civil(value)
        number = int(f"{c.year:04d}{c.month:02d}{c.day:02d}{c.hour:02d}{c.minute:02d}{c.second:02d}")
        return number.to_bytes(8, "little")
    if kind in (T.TIMESTAMP, T.TIMESTAMP2):
        seconds, micro = _instant(value)
        if kind == T.TIMESTAMP:
            return seconds.to_bytes(4, "little")
        return seconds.to_bytes(4, "big") + _encode_fraction(micro, fsp)
    return _encode_time(kind, fsp, _span(value))


def _encode_time(kind: int, fsp: int, span: timedelta) -> bytes:
    total = abs(span) // timedelta(microseconds=1)
    seconds, micro = divmod(total, 1_000_000)
    hour, minute, second = seconds // 3600, seconds // 60 % 60, seconds % 60
    if hour > _MAX_HOURS:
        raise CellValueError(f"{span} is outside what a TIME holds")
    sign = -1 if span < timedelta(0) else 1
    if kind == T.TIME:
        return (sign * (hour * 10000 + minute * 100 + second)).to_bytes(3, "little", signed=True)
    # The whole cell is a big-endian number: hms, then the fraction's digits; all of it is complemented if negative.
    width = fraction_length(fsp)
    fraction = int.from_bytes(_encode_fraction(micro, fsp), "big")
    number = (hour << 12 | minute << 6 | second) << 8 * width | fraction
    return ((_TIME2_OFFSET << 8 * width) + sign * number).to_bytes(3 + width, "big")


def decode_temporal(kind: int, fsp: int, data: Buffer) -> Temporal:
    """Return the value of a date or time cell; text if Python's types cannot represent it."""
    fraction_length(fsp)
    if kind in (T.DATE, T.NEWDATE):
        n = int.from_bytes(data, "little")
        return Civil(n >> 9, n >> 5 & 15, n & 31).check().as_date()
    if kind == T.DATETIME2:
        n = int.from_bytes(data[:5], "big") - _DATETIME2_OFFSET
        if n < 0:
            raise BinlogFormatError("DATETIME before year 0 cannot be")
        months = n >> 22
        parts = (months // 13, months % 13, n >> 17 & 31, n >> 12 & 31, n >> 6 & 63, n & 63)
        return Civil(*parts, micro=_decode_fraction(data[5:], fsp)).check().as_datetime(fsp)
    if kind == T.DATETIME:
        digits = f"{int.from_bytes(data, 'little'):014d}"
        if len(digits) != 14:
            raise BinlogFormatError(f"DATETIME {digits} cannot be")
        cuts = (0, 4, 6, 8, 10, 12, 14)
        return Civil(*(int(digits[a:b]) for a, b in pairwise(cuts))).check().as_datetime(0)
    if kind == T.TIMESTAMP:
        return _decode_instant(int.from_bytes(data, "little"), 0, 0)
    if kind == T.TIMESTAMP2:
        return _decode_instant(int.from_bytes(data[:4], "big"), _decode_fraction(data[4:], fsp), fsp)
    return _decode_time(kind, fsp, data)


def _decode_instant(seconds: int, micro: int, fsp: int) -> datetime | str:
    if seconds == 0:
        return Civil(0, 0, 0, micro=micro).text(fsp)
    return _EPOCH + timedelta(seconds=seconds, microseconds=micro)


def _decode_time(kind: int, fsp: int, data: Buffer) -> timedelta:
    if kind == T.TIME:
        number = int.from_bytes(data, "little", signed=True)
        hour, minute, second, micro = abs(number) // 10000, abs(number) // 100 % 100, abs(number) % 100, 0
    else:
        width = fraction_length(fsp)
        number = int.from_bytes(data, "big") - (_TIME2_OFFSET << 8 * width)
        hms, fraction = divmod(abs(number), 1 << 8 * width)
        hour, minute, second = hms >> 12, hms >> 6 & 63, hms & 63
        micro = _decode_fraction(fraction.to_bytes(width, "big"), fsp)
    if minute > 59 or second > 59 or hour > _MAX_HOURS:
        raise BinlogFormatError(f"TIME {hour}:{minute}:{second} cannot be")
    span = timedelta(hours=hour, minutes=minute, seconds=second, microseconds=micro)
    return -span if number < 0 else span


def packed_to_temporal(kind: int, packed: int) -> Temporal:
    """Return the value of the 64-bit packed form that JSON documents hold (DATE, TIME, DATETIME, TIMESTAMP)."""
    number, micro = abs(packed) >> 24, abs(packed) & 0xFFFFFF
    if kind == T.TIME:
        hour, minute, second = number >> 12, number >> 6 & 63, number & 63
        if hour > _MAX_HOURS or minute > 59 or second > 59 or micro > 999_999:
            raise BinlogFormatError(f"TIME {hour}:{minute}:{second} cannot be")
        span = timedelta(hours=hour, minutes=minute, seconds=second, microseconds=micro)
        return -span if packed < 0 else span
    if packed < 0:
        raise BinlogFormatError("date before year 0 cannot be")
    months = number >> 22
    parts = (months // 13, months % 13, number >> 17 & 31, number >> 12 & 31, number >> 6 & 63, number & 63)
    whole = Civil(*parts, micro=micro).check()
    return whole.as_date() if kind == T.DATE else whole.as_datetime(6)


def temporal_to_packed(kind: int, value: Temporal) -> int:
    """Return the 64-bit packed form of a value."""
    if kind == T.TIME:
        span = _span(value)
        seconds, micro = divmod(abs(span) // timedelta(microseconds=1), 1_000_000)
        number = (seconds // 3600 << 12 | seconds // 60 % 60 << 6 | seconds % 60) << 24 | micro
        return -number if span < timedelta(0) else number
    c = civil(value)
    days = ((c.year * 13 + c.month) << 5 | c.day) << 17
    return (days | c.hour << 12 | c.minute << 6 | c.second) << 24 | c.micro


ZeroDateRule = Literal["stop", "null", "text"]
RULES: Final = get_args(ZeroDateRule)


@dataclass(frozen=True, slots=True)
class ZeroDates:
    """The rules: those of columns, by lower-case name, and that of all others."""

    others: ZeroDateRule = "stop"
    columns: tuple[tuple[str, ZeroDateRule], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "ZeroDates":
        """Return the rules of a text like `null` or `born=null,at=text`. Raises ValueError."""
        others: ZeroDateRule = "stop"
        columns: list[tuple[str, ZeroDateRule]] = []
        for part in text.split(","):
            name, equals, rule = part.strip().rpartition("=")
            if rule not in RULES or (equals and not name):
                raise ValueError(f"{part.strip()!r} is none of {', '.join(RULES)}, or COLUMN=RULE")
            if equals:
                columns.append((name.lower(), cast(ZeroDateRule, rule)))
            else:
                others = cast(ZeroDateRule, rule)
        return cls(others, tuple(columns))

    def of(self, column: str) -> ZeroDateRule:
        """Return the rule of a column."""
        return dict(self.columns).get(column.lower(), self.others)

    @property
    def as_text(self) -> str:
        """Return the rules that make text of columns, as a text: they decide the columns' types."""
        named = (f"{name}={rule}" for name, rule in self.columns if "text" in (rule, self.others))
        return ",".join((*(["text"] if self.others == "text" else []), *sorted(named)))


STOP: Final = ZeroDates()
REMEDY: Final = (
    "say what becomes of such dates: zero_dates='null' or 'text', --zero-dates null, or of one column "
    "born=null; or ask for all dates and times as MySQL's text (temporal='text', --temporal text)"
)
