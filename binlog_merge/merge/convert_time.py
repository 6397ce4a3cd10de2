"""Values to DATE, DATETIME, TIMESTAMP and TIME, as MySQL's ALTER TABLE ... MODIFY turns them.

TIMESTAMP is UTC in a row image, and DATETIME is whatever the session's clock showed; a server converts between them in
the session's time zone, which a binlog does not tell: here it is UTC. TIME to a date takes the day it is converted on,
so it is refused.
"""

import re
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from binlog_merge.binlog.temporal import Civil, time_text
from binlog_merge.merge.convert_numbers import MICROSECOND, carried, number_of, rounded, rounded_moment
from binlog_merge.merge.convert_values import ConversionError, Value
from snapshot_store.model import ColumnType

_MAX_HOURS: Final = 838
_MAX_TIME: Final = (_MAX_HOURS * 3600 + 59 * 60 + 59) * 1_000_000
_DATE_TIME: Final = re.compile(
    r"\s*(\d{4}|\d{2})[^\w\s](\d{1,2})[^\w\s](\d{1,2})"
    r"(?:(?:T|\s+)(\d{1,2})(?:[^\w\s](\d{1,2})(?:[^\w\s](\d{1,2})(?:\.(\d*))?)?)?)?\s*",
    re.ASCII,
)
_TIME: Final = re.compile(
    r"\s*(-?)(?:(\d+) +)?(\d+)(?::(\d{1,2}))?(?::(\d{1,2}))?(?:\.(\d*))?\s*",
    re.ASCII,
)
_FIRST_TIMESTAMP: Final = Civil(1970, 1, 1, 0, 0, 1)
_LAST_TIMESTAMP: Final = Civil(2038, 1, 19, 3, 14, 7, 999_999)
_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def moment_of(microseconds: int) -> Civil:
    """Return a time since 1970 as UTC."""
    at = datetime(1970, 1, 1) + timedelta(microseconds=microseconds)
    return Civil(at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond)


def _span(microseconds: int) -> timedelta:
    return timedelta(microseconds=microseconds)


def _time_of_day(moment: Civil) -> timedelta:
    return _span(((moment.hour * 60 + moment.minute) * 60 + moment.second) * 1_000_000 + moment.micro)


def to_date(kind: ColumnType, value: Value) -> Civil:
    """Return the day of a date, datetime, text or number; half a second before midnight is the next day."""
    moment = rounded_moment(_moment(value), 0)
    return Civil(moment.year, moment.month, moment.day)


def to_datetime(kind: ColumnType, value: Value) -> Civil:
    """Return a moment rounded to the column's digits of a second."""
    return rounded_moment(_moment(value), kind.fsp)


def to_timestamp(kind: ColumnType, value: Value) -> Civil:
    """Return a moment that a TIMESTAMP can hold: the zero date, or from 1970-01-01 00:00:01 to 2038-01-19 03:14:07."""
    moment = rounded_moment(_moment(value), kind.fsp)
    valid = moment.month and moment.day and _FIRST_TIMESTAMP <= moment <= _LAST_TIMESTAMP
    if moment != Civil(0, 0, 0) and not valid:
        raise ConversionError(f"{moment.text(kind.fsp)} is no TIMESTAMP")
    return moment


def to_time(kind: ColumnType, value: Value) -> timedelta:
    """Return a time of day or a duration, rounded to the column's digits of a second."""
    if isinstance(value, Civil):
        value = _time_of_day(value)
    elif isinstance(value, str | bytes):
        value = parse_time(value if isinstance(value, str) else value.decode("latin-1"))
    elif not isinstance(value, timedelta):
        value = _time_of_number(rounded(number_of(value), 6))
    unit = 10 ** (6 - kind.fsp)
    micros = (abs(value) // MICROSECOND + unit // 2) // unit * unit
    if micros > _MAX_TIME:
        raise ConversionError(f"{time_text(value, 6)} is longer than 838:59:59")
    return _span(-micros if value < timedelta(0) else micros)


def _moment(value: Value) -> Civil:
    if isinstance(value, Civil):
        return value
    if isinstance(value, timedelta):
        raise ConversionError("a TIME becomes a date only with the day of the conversion, which is not known")
    if isinstance(value, str | bytes):
        return parse_moment(value if isinstance(value, str) else value.decode("latin-1"))
    return _moment_of_number(rounded(number_of(value), 6))


def parse_moment(text: str) -> Civil:
    """Read a date with or without a time of day, with delimiters or as bare digits."""
    found = _DATE_TIME.fullmatch(text)
    if found is None:
        if re.fullmatch(r"\s*\d{6}(\d{2})?(\d{4}|\d{6})?(\.\d*)?\s*", text):
            return _moment_of_number(rounded(Decimal(text.strip().rstrip(".")), 6), len(text.strip().split(".")[0]))
        raise ConversionError(f"{text[:40]!r} is no date")
    year, month, day, *clock = (int(group or 0) for group in found.groups()[:6])
    if len(found[1]) == 2 and (year or month or day):
        year += 2000 if year < 70 else 1900
    return _checked(Civil(year, month, day, *clock), found[7] or "", text)


def _moment_of_number(number: Decimal, digits: int = 0) -> Civil:
    if number < 0:
        raise ConversionError(f"{number} is no date")
    whole, fraction = divmod(number, 1)
    text = str(int(whole))
    digits = digits or len(text)
    if number == 0:
        return Civil(0, 0, 0)
    # YYMMDD, YYYYMMDD, YYMMDDhhmmss, YYYYMMDDhhmmss, each with its leading zeros lost.
    if digits <= 8:
        text = text.zfill(6 if digits <= 6 else 8)
        clock = (0, 0, 0)
    else:
        text = text.zfill(12 if digits <= 12 else 14)
        clock = (int(text[-6:-4]), int(text[-4:-2]), int(text[-2:]))
        text = text[:-6]
    year, month, day = int(text[:-4]), int(text[-4:-2]), int(text[-2:])
    if len(text) == 6:
        year += 2000 if year < 70 else 1900
    return _checked(Civil(year, month, day, *clock), str(fraction)[2:], str(number))


def _checked(moment: Civil, fraction: str, text: str) -> Civil:
    leap = moment.year % 4 == 0 and (moment.year % 100 != 0 or moment.year % 400 == 0)
    days = 31 if not moment.month else 28 if moment.month == 2 and not leap else _DAYS[min(moment.month, 12) - 1]
    if moment.month > 12 or moment.day > days or moment.hour > 23 or moment.minute > 59 or moment.second > 59:
        raise ConversionError(f"{text[:40]!r} is no date")
    return _with_fraction(moment, fraction)


def _with_fraction(moment: Civil, fraction: str) -> Civil:
    # A seventh digit rounds the sixth (MySQL keeps nanoseconds while it parses).
    micros = int((fraction + "0" * 7)[:7])
    return carried(moment, (micros + 5) // 10)


def parse_time(text: str) -> timedelta:
    """Read [-][D ]H:M:S[.fraction], H:M, or bare digits HHMMSS; a date with a time gives its time of day."""
    if not text:
        return timedelta(0)
    if (moment := _DATE_TIME.fullmatch(text)) and moment[4]:
        return _time_of_day(parse_moment(text))
    found = _TIME.fullmatch(text)
    if found is None:
        raise ConversionError(f"{text[:40]!r} is no time")
    sign, days, first, second, third, fraction = found.groups()
    micros = (int(((fraction or "") + "0" * 7)[:7]) + 5) // 10
    if second is None and days is None:
        plain = _time_of_number(Decimal(first))
        return _span((plain // MICROSECOND + micros) * (-1 if sign else 1))
    if int(second or 0) > 59 or int(third or 0) > 59:
        raise ConversionError(f"{text[:40]!r} is no time")
    if int(days or 0) * 24 + int(first) > _MAX_HOURS:
        raise ConversionError(f"{text[:40]!r} is longer than 838:59:59")
    seconds = (int(days or 0) * 24 + int(first)) * 3600 + int(second or 0) * 60 + int(third or 0)
    return _span((seconds * 1_000_000 + micros) * (-1 if sign else 1))


def _time_of_number(number: Decimal) -> timedelta:
    if number >= 10**10:  # number_to_time: too long for a time, so a date with a time of day
        return _time_of_day(_moment_of_number(number))
    whole, fraction = divmod(abs(number), 1)
    hours, minutes, seconds = int(whole) // 10_000, int(whole) // 100 % 100, int(whole) % 100
    if hours > _MAX_HOURS or minutes > 59 or seconds > 59:
        raise ConversionError(f"{number} is no time")
    micros = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + int(fraction * 1_000_000)
    return _span(-micros if number < 0 else micros)
