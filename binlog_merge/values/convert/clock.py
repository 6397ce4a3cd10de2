"""Parses dates and times from texts and integers, as a MySQL server does.

Parsing is lenient: any punctuation separates, a year may have two digits, bare digits are cut into fields from the
left. Text after the part that is understood is lost; text that is no date or time is zero. Source: `str_to_datetime`,
`str_to_time`, `number_to_datetime` and `number_to_time` in mysql-server mysys/my_time.cc.
"""

import calendar
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from binlog_merge.binlog.temporal import Civil
from binlog_merge.values.convert.numbers import carried
from binlog_merge.values.value import ConversionError, Lost
from snapshot_store.mysql.sql.session import (
    ALLOW_INVALID_DATES,
    NO_ZERO_DATE,
    NO_ZERO_IN_DATE,
    TIME_TRUNCATE_FRACTIONAL,
)

MAX_TIME: Final = (838 * 3600 + 59 * 60 + 59) * 1_000_000
ZERO_DATE: Final = Civil(0, 0, 0)

_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_EXPONENT: Final = re.compile(r"[eE][+-]?\d", re.ASCII)
_SPACES: Final = " \t\n\v\f\r"
_PUNCTUATION: Final = r"[!-/:-@\[-`{-~]"
_DELIMITERS: Final = re.compile(rf"(?:{_PUNCTUATION}|\s)*", re.ASCII)
_DIGITS: Final = re.compile(r"\d+", re.ASCII)
_LIKE_TIMESTAMP: Final = re.compile(
    rf"\d{{11,}}(?:\Z|\.)|\d{{1,6}}[^\s\d!-/:-@\[-`{{-~]|(?:\d+{_PUNCTUATION}+){{2}}\d+{_PUNCTUATION}*\s", re.ASCII
)
"""What the server takes for a date with a time of day once it is long enough, and for nothing if it then is none."""
_PLAIN_TIME: Final = re.compile(
    r"\d{4}-\d\d?-\d\d?(T\d\d?|[ T]\d\d?:\d\d?:\d\d?(\.\d*)?([+-][\d:]*)?)?\s*(\Z|[a-zA-Z])"
    r"|(\d{1,3} )?\d{1,8}(:\d{1,8}){0,2}((\.\d+)?\Z|\s+\Z|\s*[a-zA-Z])"
    r"|\d+(\.\d*)?([eE][+-]?\d+)?\Z|[^\d\s]",
    re.ASCII,
)
"""Beginnings of texts that are read in one way, whatever follows."""
_DISPLACEMENT: Final = re.compile(r"([+-])(\d\d):([0-5]\d)\s*", re.ASCII)
_GREATEST_DISPLACEMENT: Final = 14 * 60  # minutes
_FIRST_DISPLACED: Final = datetime(1970, 1, 1, 0, 0, 1)
_LAST_DISPLACED: Final = datetime(3001, 1, 18, 23, 59, 59)
"""The moments that a server converts between time zones at all."""
_MAX_NUMBER: Final = (1 << 32) - 1
_FULL_TIMESTAMP: Final = 12  # bytes from which a text is tried as a date with a time of day


def is_date(moment: Civil, sql_mode: int = 0) -> bool:
    """Return whether a server stores the date: month and day may be 0, but the day not beyond the month's end.

    With NO_ZERO_IN_DATE and NO_ZERO_DATE they may not, with ALLOW_INVALID_DATES every month has 31 days.
    """
    zero = NO_ZERO_IN_DATE if any(moment[:3]) else NO_ZERO_DATE
    if sql_mode & zero and not (moment.month and moment.day):
        return False
    leap = moment.year > 0 and calendar.isleap(moment.year)  # of year 0 a server has it otherwise
    if moment.month > 12 or moment.hour > 23 or moment.minute > 59 or moment.second > 59:
        return False
    if not moment.month or sql_mode & ALLOW_INVALID_DATES:
        return moment.day <= 31
    last = 28 if moment.month == 2 and not leap else _DAYS[moment.month - 1]
    return moment.day <= last


def time_of_day(moment: Civil) -> timedelta:
    """Return the time of day of a moment."""
    return _span(((moment.hour * 60 + moment.minute) * 60 + moment.second) * 1_000_000 + moment.micro)


def _span(microseconds: int) -> timedelta:
    return timedelta(microseconds=microseconds)


def _micros(digits: str, sql_mode: int) -> int:
    """Return the microseconds of the digits after the point; a seventh digit rounds the sixth, unless the mode cuts."""
    half = 0 if sql_mode & TIME_TRUNCATE_FRACTIONAL else 5
    return (int((digits + "0" * 7)[:7]) + half) // 10


def read_moment(text: str, lost: Lost, sql_mode: int = 0) -> Civil:
    """Return the date, with or without a time of day, at the beginning of a text; the zero date if there is none."""
    found = _read_moment(text, sql_mode)
    if found is None:
        lost.append(f"{text[:40]!r} is no date")
        return ZERO_DATE
    moment, fraction, rest, _ = found
    if rest.strip(_SPACES):
        lost.append(f"{text[:40]!r} is a date followed by {rest[:20]!r}")
    return _with_fraction(moment, _micros(fraction, sql_mode), lost)


def without_displacement(text: str, fsp: int | None, sql_mode: int, local: Callable[[Civil], Civil]) -> str:
    """Return the text of a date and time without the offset from UTC at its end, in the session's time zone.

    `local` moves a moment from UTC to it. Other texts are unchanged. A server forgets the offset where the fraction is
    rounded up to a whole second at the `fsp` digits of the column, which is None for TIME. Raises ConversionError for a
    moment that is not moved.
    """
    if fsp is None and not _like_timestamp(text.lstrip(_SPACES)):
        return text
    day_mode = sql_mode | ALLOW_INVALID_DATES if fsp is None else sql_mode
    found = _read_moment(text, day_mode, any_day=fsp is None)
    if found is None or (minutes := found.displacement) is None:
        return text
    moment, fraction = found.moment, found.fraction
    unit = 1 if fsp is None else 10 ** (6 - fsp)
    half = 0 if sql_mode & TIME_TRUNCATE_FRACTIONAL else unit // 2
    if fsp is not None and _micros(fraction, sql_mode) + half >= 1_000_000:
        return f"{moment.text(0)}.{fraction}"
    try:
        first = datetime(moment.year, moment.month, 1, *moment[3:6])
        utc = first + timedelta(days=moment.day - 1, minutes=-minutes)
    except (ValueError, OverflowError):
        utc = datetime.min
    if not (moment.day and _FIRST_DISPLACED <= utc <= _LAST_DISPLACED):
        # A server without strict mode leaves the value of the row before in place.
        raise ConversionError(f"{text[:40]!r} is not between 1970 and 3001, and has an offset from UTC")
    there = local(Civil(utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second))
    return f"{there.text(0)}.{fraction}"


def _with_fraction(moment: Civil, micros: int, lost: Lost) -> Civil:
    try:
        return carried(moment, micros)
    except ConversionError as error:
        lost.append(str(error))
        return ZERO_DATE


class _Read(NamedTuple):
    """A date and time that was read: the digits of its fraction, the rest of the text, and its offset from UTC.

    `displacement` is in minutes, and None where there is none.
    """

    moment: Civil
    fraction: str
    rest: str
    displacement: int | None


def _read_moment(text: str, sql_mode: int, any_day: bool = False) -> _Read | None:
    """Return the date and time at the beginning of a text, None if there is none.

    With `any_day` the zero date has a time of day, too.
    """
    text = text.lstrip(_SPACES)
    digits = re.match(r"[\dT]*", text, re.ASCII)
    assert digits is not None
    first = len(digits[0])
    if not digits[0][:1].isdigit():
        return None
    bare = first == len(text) or text[first] == "."
    if bare:
        fields, fraction, rest = _fixed_fields(text, 4 if first in (4, 8) or first >= 14 else 2)
    else:
        fields, fraction, rest = _divided_fields(text)
    if any(len(field.lstrip("0")) > 6 for field in fields):
        return None
    numbers = [int(field) for field in fields]
    if len(numbers) < 3:
        return None
    displacement = None
    if len(numbers) == 6 and rest[:1] in ("+", "-"):
        displacement, rest = _displacement(rest), ""
        if displacement is None:
            return None
    if (first not in (4, 8) and first < 14 if bare else len(fields[0]) == 2) and (any(numbers) or fraction.strip("0")):
        numbers[0] += 2000 if numbers[0] < 70 else 1900
    moment = Civil(*numbers)
    if (
        not is_date(moment, sql_mode)
        or moment.year > 9999
        or (moment[:3] == (0, 0, 0) and any(numbers) and not any_day)
    ):
        return None
    if moment == ZERO_DATE and rest.strip(_SPACES):
        return None
    return _Read(moment, fraction, rest, displacement)


def _displacement(text: str) -> int | None:
    """Return the minutes of an offset from UTC, None for what is none (`time_zone_displacement_to_seconds`)."""
    match = _DISPLACEMENT.fullmatch(text)
    if match is None:
        return None
    minutes = int(match[2]) * 60 + int(match[3])
    if minutes > _GREATEST_DISPLACEMENT or (match[1] == "-" and not minutes):
        return None
    return -minutes if match[1] == "-" else minutes


def _fixed_fields(text: str, width: int) -> tuple[list[str], str, str]:
    """Split YYYYMMDD, YYMMDDhhmmss and the like into fields."""
    fields: list[str] = []
    at = 0
    while len(fields) < 6 and text[at : at + 1].isdigit():
        match = re.compile(rf"\d{{1,{width}}}", re.ASCII).match(text, at)
        assert match is not None
        fields.append(match[0])
        at, width = match.end(), 2
        if len(fields) == 3 and text[at : at + 1] == "T":
            at += 1
        elif len(fields) < 6:
            delimiters = _DELIMITERS.match(text, at)
            assert delimiters is not None
            if len(fields) != 3 and any(char.isspace() for char in delimiters[0]):
                return [], "", text
            at = delimiters.end()
    return fields, *_fraction(text, at, len(fields))


def _divided_fields(text: str) -> tuple[list[str], str, str]:
    """Split YYYY-MM-DD hh:mm:ss, with any punctuation between, into fields; space only after the day."""
    fields: list[str] = []
    at = end = 0
    while len(fields) < 6:
        match = _DIGITS.match(text, at)
        if match is None:
            break
        fields.append(match[0])
        at = end = match.end()
        if len(fields) == 6:
            break
        if len(fields) == 3 and text[at : at + 1] == "T":
            at = end = at + 1
            continue
        delimiters = _DELIMITERS.match(text, at)
        between = delimiters[0] if delimiters else ""
        if len(fields) != 3 and any(char.isspace() for char in between):
            return [], "", text
        at = end = at + len(between)
    return fields, *_fraction(text, end, len(fields))


def _fraction(text: str, at: int, count: int) -> tuple[str, str]:
    match = re.compile(r"\.(\d*)", re.ASCII).match(text, at) if count == 6 else None
    return (match[1], text[match.end() :]) if match else ("", text[at:])


def moment_of_number(number: int, lost: Lost, sql_mode: int = 0) -> Civil:
    """Return the date of YYMMDD, YYYYMMDD, YYMMDDhhmmss or YYYYMMDDhhmmss; the zero date if it is none."""
    moment = _moment_of_number(number, sql_mode)
    if moment is None:
        lost.append(f"{number} is no date")
    return moment or ZERO_DATE


def _moment_of_number(number: int, sql_mode: int) -> Civil | None:
    if number and number < 10_000_101_000_000:
        if number < 101:
            return None
        if number <= 691_231:
            number = (number + 20_000_000) * 1_000_000
        elif number < 700_101:
            return None
        elif number <= 991_231:
            number = (number + 19_000_000) * 1_000_000
        elif number <= 99_991_231:
            number *= 1_000_000
        elif number < 101_000_000:
            return None
        elif number <= 691_231_235_959:
            number += 20_000_000_000_000
        elif number < 700_101_000_000:
            return None
        elif number <= 991_231_235_959:
            number += 19_000_000_000_000
    date, clock = divmod(number, 1_000_000)
    moment = Civil(date // 10_000, date // 100 % 100, date % 100, clock // 10_000, clock // 100 % 100, clock % 100)
    return moment if is_date(moment, sql_mode) and moment.year <= 9999 else None


def time_of_number(number: int, lost: Lost, sql_mode: int = 0) -> timedelta:
    """Return the time of hhmmss, or the time of day of a date with one; the nearest time if it is neither."""
    if number > 8_385_959:
        if number >= 10**10 and (moment := _moment_of_number(number, sql_mode)) is not None:
            return time_of_day(moment)
        lost.append(f"{number} is longer than 838:59:59")
        return _span(MAX_TIME)
    hours, minutes, seconds = number // 10_000, number // 100 % 100, number % 100
    if minutes > 59 or seconds > 59:
        lost.append(f"{number} is no time")
        return timedelta(0)
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)


def read_time(text: str, lost: Lost, sql_mode: int = 0, any_day: bool = False) -> timedelta:
    """Return the time at the beginning of a text: [-][D ]H:M:S[.fraction], H:M, or bare digits HHMMSS.

    With `any_day` also that of a day that no calendar has, whatever the mode, as a server reads a text: a number's day
    must be one.

    Raises ConversionError for a longer text that is no time and is oddly separated: without strict mode a server stores
    a part of it, and which one depends on each of its bytes.
    """
    told: list[str] = []
    found = _read_time(text, told, sql_mode, any_day)
    if told and len(text.encode()) >= _FULL_TIMESTAMP and not _PLAIN_TIME.match(text.lstrip(_SPACES).removeprefix("-")):
        raise ConversionError(f"{text[:40]!r} is no time, and what a server makes of it is not known")
    lost += told
    return found


def _read_time(text: str, lost: Lost, sql_mode: int, any_day: bool) -> timedelta:
    plain = text.lstrip(_SPACES)
    negative = plain.startswith("-")
    plain = plain[1:] if negative else plain
    if not plain:
        return timedelta(0)
    if _like_timestamp(plain):
        return _time_of_timestamp(plain, lost, sql_mode, any_day)
    parts = _time_parts(plain)
    if parts is None or _EXPONENT.match(parts[-1]):  # which even a strict server stores as zero, without a word
        if plain[0] in _SPACES:  # between the sign and the digits: it may be no date, either, which has a warning
            lost.append(f"{text[:40]!r} is no time")
        return timedelta(0)
    days, hours, minutes, seconds, fraction, rest = parts
    if minutes > 59 or seconds > 59:
        lost.append(f"{text[:40]!r} is no time")
        return timedelta(0)
    # What rounds the sixth digit of a time is the last one, not the seventh (`nanoseconds` in str_to_time).
    micros = ((days * 24 + hours) * 3600 + minutes * 60 + seconds) * 1_000_000 + _micros(
        fraction[:6] + fraction[6:][-1:], sql_mode
    )
    if days * 24 + hours > 838:
        lost.append(f"{text[:40]!r} is longer than 838:59:59")
        micros = MAX_TIME
    elif rest.strip(_SPACES):
        lost.append(f"{text[:40]!r} is a time followed by {rest[:20]!r}")
    return _span(-micros if negative else micros)


def _like_timestamp(text: str) -> bool:
    """Return whether a server that reads a time takes a text for a date with a time of day."""
    long = len(text.encode()) >= _FULL_TIMESTAMP
    return bool(long and _LIKE_TIMESTAMP.match(text) and not _displaced_wrongly(text))


def _displaced_wrongly(text: str) -> bool:
    """Return whether what should be an offset from UTC follows a date and time, and is none."""
    fields, _, rest = _divided_fields(text)
    return len(fields) == 6 and rest[:1] in ("+", "-") and _displacement(rest) is None


def _time_of_timestamp(text: str, lost: Lost, sql_mode: int, any_day: bool) -> timedelta:
    day_mode = sql_mode & TIME_TRUNCATE_FRACTIONAL | ALLOW_INVALID_DATES if any_day else sql_mode
    found = _read_moment(text, day_mode, any_day)
    if found is None:
        lost.append(f"{text[:40]!r} is no time")
        return timedelta(0)
    moment, fraction, rest, _ = found
    if rest.strip(_SPACES):
        lost.append(f"{text[:40]!r} is a time followed by {rest[:20]!r}")
    return time_of_day(moment) + _span(_micros(fraction, sql_mode))  # up to 24:00:00, the day is not carried into


def _time_parts(text: str) -> tuple[int, int, int, int, str, str] | None:
    match = re.match(r"(\d*)(\s*)", text, re.ASCII)
    assert match is not None
    value, at = int(match[1] or "0"), match.end()
    left = text[at:]
    if value > _MAX_NUMBER:
        return None
    if len(left) > 1 and match[2] and left[0].isdigit():  # no digits before the spaces are no days
        days, numbers = value, []
    elif len(left) > 1 and left[0] == ":" and left[1].isdigit():
        days, numbers, left = 0, [value], left[1:]
    else:
        fraction, rest = _time_fraction(left)
        return 0, value // 10_000, value // 100 % 100, value % 100, fraction, rest
    while True:
        field = re.match(r"\d+", left, re.ASCII)
        assert field is not None
        numbers.append(int(field[0][:18]))
        left = left[field.end() :]
        if len(numbers) == 3 or len(left) < 2 or left[0] != ":" or not left[1].isdigit():
            break
        left = left[1:]
    if max(numbers) > _MAX_NUMBER:
        return None
    numbers += [0] * (3 - len(numbers))
    fraction, rest = _time_fraction(left)
    return days, numbers[0], numbers[1], numbers[2], fraction, rest


def _time_fraction(text: str) -> tuple[str, str]:
    if re.match(r"\.\d", text, re.ASCII) or text == ".":
        match = re.match(r"\.(\d*)", text, re.ASCII)
        assert match is not None
        return match[1], text[match.end() :]
    return "", text
