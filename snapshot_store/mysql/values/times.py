"""Dates and times in literals, in every spelling that the server accepts; and the time zones of sessions.

A local time that occurs twice means its first occurrence; one that is skipped means the moment of the skip. Source:
`TIME_to_gmt_sec` of mysql-server `sql/tztime.cc`, compared with 9.7.

Source: refman, "String and Numeric Literals in Date and Time Context"; `str_to_datetime` and `str_to_time` of
mysql-server `mysys/my_time.cc`.
"""

import calendar
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from snapshot_store.mysql.column_type import ColumnType
from snapshot_store.mysql.sql.session import ALLOW_INVALID_DATES, NO_ZERO_DATE, NO_ZERO_IN_DATE, DdlSession

_OFFSET = re.compile(r"([+-])(\d{1,2}):(\d{2})")


def zone_of(name: str) -> tzinfo:
    """Return the zone that a session's `time_zone` names: +05:30, Europe/Berlin. Raises ValueError, also for SYSTEM."""
    if (offset := _OFFSET.fullmatch(name)) is not None:
        ahead = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return timezone(ahead if offset[1] == "+" else -ahead)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError, ValueError):
        raise ValueError(f"time zone {name!r} is not known here") from None


def utc_of(local: datetime, zone: tzinfo) -> datetime:
    """Convert local time in a zone to UTC; both without tzinfo."""
    found = _utc(local, zone)
    if local_of(found, zone) == local:
        return found
    early, late = _utc(local.replace(fold=1), zone), found
    while late - early > timedelta(seconds=1):
        middle = early + ((late - early) // 2 // timedelta(seconds=1)) * timedelta(seconds=1)
        early, late = (middle, late) if local_of(middle, zone) < local else (early, middle)
    return late.replace(microsecond=0)


def local_of(moment: datetime, zone: tzinfo) -> datetime:
    """Convert UTC to local time in a zone; both without tzinfo."""
    return moment.replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None, fold=0)


def in_utc(text: str, time_zone: str) -> str:
    """Convert a session's local time, as text, to UTC; 0000-00-00 and any text without a zone stay as they are."""
    if not time_zone:
        return text
    whole, dot, fraction = text.partition(".")
    try:
        local = datetime.fromisoformat(whole)
    except ValueError:
        return text
    moment = utc_of(local, zone_of(time_zone))
    return f"{moment:%Y-%m-%d %H:%M:%S}{dot}{fraction}"


def in_zone(text: str, time_zone: str, other: str) -> str:
    """Convert local time of a zone, as text, to that of another. Raises ValueError for no moment, or no zone."""
    whole, dot, fraction = text.partition(".")
    moment = local_of(utc_of(datetime.fromisoformat(whole), zone_of(time_zone)), zone_of(other))
    return f"{moment:%Y-%m-%d %H:%M:%S}{dot}{fraction}"


def _utc(local: datetime, zone: tzinfo) -> datetime:
    return local.replace(tzinfo=zone).astimezone(UTC).replace(tzinfo=None)


_Moment = tuple[int, int, int, int, int, int, str]
"""Year, month, day, hour, minute, second, and the digits of the fraction."""

_DELIMITED = re.compile(
    r"\s*(\d{1,4})[^\w\s]+(\d{1,2})[^\w\s]+(\d{1,2})"
    r"(?:(?:\s+|T)(\d{1,2})(?:[^\w\s]+(\d{1,2})(?:[^\w\s]+(\d{1,2})(?:\.(\d*))?)?)?)?\s*",
    re.ASCII,
)
_COMPACT = re.compile(r"\s*(\d{14}|\d{12}|\d{8}|\d{6})T?(?:\.(\d*))?\s*", re.ASCII)
_CLOCK = re.compile(
    r"\s*(-?)(?:(\d{1,2})\s+)?(?:(\d{1,3}):(\d{1,2})(?::(\d{1,2}))?|(\d{1,7}))(?:\.(\d*))?\s*", re.ASCII
)
_ZONED = re.compile(r"(.+\d:\d{1,2}(?:\.\d*)?)([+-]\d{2}:\d{2})", re.ASCII)
_FIRST_TIMESTAMP, _LAST_TIMESTAMP = "1970-01-01 00:00:01", "2038-01-19 03:14:07"


def year_text(number: bool, text: str) -> str:
    """Return the year that a literal denotes."""
    if not re.fullmatch(r"\s*\d{1,4}\s*", text, re.ASCII):
        raise ValueError(f"{text!r} is no year")
    value = int(text)
    if value == 0:
        return "0000" if number or len(text.strip()) == 4 else "2000"
    if value < 100:
        value += 2000 if value < 70 else 1900
    if not 1901 <= value <= 2155:
        raise ValueError(f"{text} is out of range")
    return str(value)


def date_text(number: bool, text: str, session: DdlSession) -> str:
    """Return the date that a literal denotes."""
    year, month, day, *_ = _moment(number, text, session)
    return f"{year:04}-{month:02}-{day:02}"


def datetime_text(number: bool, text: str, type: ColumnType, session: DdlSession) -> str:
    """Return the date and time that a literal denotes, rounded to the type's fractional digits.

    One with an offset from UTC is converted to the session's time zone, to UTC if that is not known; but a server (9.7)
    forgets the offset where the fraction is rounded up to a whole second.
    """
    zoned = None if number else _ZONED.fullmatch(text)
    if zoned is not None:
        found = datetime_text(False, zoned[1], type, session)
        if _rounded(_moment(False, zoned[1], session)[-1], type.fsp)[0]:
            return found
        known = session.time_zone if type.name == "timestamp" else session.time_zone or session.local_zone
        return in_zone(found, zoned[2], known or "+00:00")
    *whole, fraction = _moment(number, text, session)
    seconds, fraction = _rounded(fraction, type.fsp)
    year, month, day, hour, minute, second = map(int, whole)
    if seconds:
        year, month, day, hour, minute, second = _next_second(year, month, day, hour, minute, second)
    found = f"{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"
    if type.name == "timestamp" and year + month + day > 0 and not _FIRST_TIMESTAMP <= found <= _LAST_TIMESTAMP:
        raise ValueError(f"{text!r} is out of range")
    return found + fraction


def time_text(number: bool, text: str, fsp: int) -> str:
    """Return the time that a literal denotes, rounded to `fsp` fractional digits."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        moment = _DELIMITED.fullmatch(text)
        if moment is None or moment[4] is None:
            raise ValueError(f"{text!r} is no time")
        hour, minute, second = (int(moment[i] or 0) for i in (4, 5, 6))
        sign, fraction = "", moment[7] or ""
    else:
        sign, fraction = match[1], match[7] or ""
        hour, minute, second = _clock(match)
    if minute > 59 or second > 59:
        raise ValueError(f"{text!r} is no time")
    more, fraction = _rounded(fraction, fsp)
    total = hour * 3600 + minute * 60 + second + more
    if total > 838 * 3600 + 59 * 60 + 59:
        raise ValueError(f"{text!r} is out of range")
    return f"{sign}{total // 3600:02}:{total // 60 % 60:02}:{total % 60:02}{fraction}"


def _clock(found: re.Match[str]) -> tuple[int, int, int]:
    days = int(found[2] or 0)
    if found[3] is not None:
        return days * 24 + int(found[3]), int(found[4]), int(found[5] or 0)
    value = int(found[6])
    if found[2] is not None:
        return days * 24 + value, 0, 0
    return value // 10000, value // 100 % 100, value % 100


def _moment(number: bool, text: str, session: DdlSession) -> _Moment:
    moment = _read_number(text) if number else _read_text(text)
    if moment is None:
        raise ValueError(f"{text!r} is no date")
    _check(moment, text, session)
    return moment


def _read_text(text: str) -> _Moment | None:
    match = _DELIMITED.fullmatch(text)
    if match is not None:
        year = _full_year(match[1])
        rest = [int(match[i] or 0) for i in range(2, 7)]
        return (year, rest[0], rest[1], rest[2], rest[3], rest[4], match[7] or "")
    compact = _COMPACT.fullmatch(text)
    if compact is None:
        return None
    digits = compact[1]
    head = 4 if len(digits) in (8, 14) else 2
    pairs = [int(digits[i : i + 2]) for i in range(head, len(digits), 2)] + [0, 0, 0]
    return (_full_year(digits[:head]), pairs[0], pairs[1], pairs[2], pairs[3], pairs[4], compact[2] or "")


def _read_number(text: str) -> _Moment | None:
    whole, _, fraction = text.partition(".")
    if not whole.isdecimal() or len(whole) > 14:
        return None
    value = int(whole)
    if value <= 99991231:
        value *= 1_000_000
    if value and value < 10_000_101_000_000:
        # YYMMDD…, where years from 70 on are 19YY.
        value += (20_000_000 if value < 700_101_000_000 else 19_000_000) * 1_000_000
    date, clock = divmod(value, 1_000_000)
    return (date // 10000, date // 100 % 100, date % 100, clock // 10000, clock // 100 % 100, clock % 100, fraction)


def _full_year(digits: str) -> int:
    value = int(digits)
    if len(digits) <= 2:
        return value + (2000 if value < 70 else 1900)
    return value


def _check(moment: _Moment, text: str, session: DdlSession) -> None:
    year, month, day, hour, minute, second, _ = moment
    if month > 12 or day > 31 or hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{text!r} is no date")
    if year == month == day == 0:
        if session.sql_mode & NO_ZERO_DATE and session.strict:
            raise ValueError(f"{text!r} is refused by NO_ZERO_DATE")
        return
    if not month or not day:
        if session.sql_mode & NO_ZERO_IN_DATE and session.strict:
            raise ValueError(f"{text!r} is refused by NO_ZERO_IN_DATE")
        return
    last = [31, 29 if year > 0 and calendar.isleap(year) else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1]
    if day > last and not session.sql_mode & ALLOW_INVALID_DATES:
        raise ValueError(f"{text!r} is no date")


def _rounded(fraction: str, fsp: int) -> tuple[int, str]:
    """Return the seconds that rounding adds, and the fraction with `fsp` digits and its point."""
    digits = fraction[:7].ljust(7, "0")
    value = (int(digits) + 5 * 10 ** (6 - fsp)) // 10 ** (7 - fsp)
    seconds, rest = divmod(value, 10**fsp)
    return seconds, f".{rest:0{fsp}}" if fsp else ""


def _next_second(year: int, month: int, day: int, hour: int, minute: int, second: int) -> tuple[int, ...]:
    total = hour * 3600 + minute * 60 + second + 1
    if total < 86400:
        return year, month, day, total // 3600, total // 60 % 60, total % 60
    if day < calendar.monthrange(year, month)[1]:
        return year, month, day + 1, 0, 0, 0
    return (year, month + 1, 1, 0, 0, 0) if month < 12 else (year + 1, 1, 1, 0, 0, 0)
