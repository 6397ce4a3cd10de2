"""Converts values to DATE, DATETIME, TIMESTAMP and TIME, as MySQL's ALTER TABLE ... MODIFY does.

TIMESTAMP is UTC in a row image, DATETIME has no time zone; a server converts between them in the session's time zone,
which the configuration has as an offset. TIME to a date uses the day of the conversion, so the plan refuses it.
"""

from datetime import datetime, timedelta
from typing import Final

from binlog_merge.binlog.temporal import Civil, time_text
from binlog_merge.values.convert.clock import (
    MAX_TIME,
    ZERO_DATE,
    is_date,
    moment_of_number,
    read_moment,
    read_time,
    time_of_day,
    time_of_number,
)
from binlog_merge.values.convert.numbers import MICROSECOND, rounded_moment
from binlog_merge.values.value import ConversionError, Lost, Value
from snapshot_store.mysql.column_type import ColumnType
from snapshot_store.mysql.sql.session import (
    ALLOW_INVALID_DATES,
    NO_ZERO_DATE,
    NO_ZERO_IN_DATE,
    TIME_TRUNCATE_FRACTIONAL,
)

_FIRST_TIMESTAMP: Final = Civil(1970, 1, 1, 0, 0, 1)
_LAST_TIMESTAMP: Final = Civil(2038, 1, 19, 3, 14, 7, 999_999)


def moment_of(microseconds: int) -> Civil:
    """Return the date and time in UTC of microseconds since 1970."""
    at = datetime(1970, 1, 1) + timedelta(microseconds=microseconds)
    return Civil(at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond)


def shifted(moment: Civil, minutes: int) -> Civil:
    """Return a date and time `minutes` later; an invalid date is unchanged."""
    if not minutes:
        return moment
    try:
        at = datetime(*moment) + timedelta(minutes=minutes)
    except (ValueError, OverflowError):
        return moment
    return Civil(at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond)


def to_date(kind: ColumnType, value: Value, lost: Lost, sql_mode: int = 0) -> Civil:
    """Convert a value to a date; from half a second before midnight on, it is the next day."""
    moment = _rounded(_moment(value, lost, sql_mode), 0, lost, sql_mode)
    return Civil(moment.year, moment.month, moment.day)


def to_datetime(kind: ColumnType, value: Value, lost: Lost, sql_mode: int = 0) -> Civil:
    """Convert a value to a date and time, rounded to the column's fraction digits."""
    return _rounded(_moment(value, lost, sql_mode), kind.fsp, lost, sql_mode)


def to_timestamp(kind: ColumnType, value: Value, lost: Lost, offset: int, sql_mode: int = 0) -> Civil:
    """Convert a value to a TIMESTAMP in UTC: the zero date, or 1970-01-01 00:00:01 to 2038-01-19 03:14:07.

    `offset` is the session time zone's offset from UTC in minutes.
    """
    moment = _rounded(_moment(value, lost, sql_mode), kind.fsp, lost, sql_mode)
    if moment == ZERO_DATE:
        return moment
    utc = shifted(moment, -offset)
    if not (moment.month and moment.day and _FIRST_TIMESTAMP <= utc <= _LAST_TIMESTAMP):
        lost.append(f"{moment.text(kind.fsp)} is no TIMESTAMP")
        return ZERO_DATE
    return utc


def to_time(kind: ColumnType, value: Value, lost: Lost, sql_mode: int = 0, any_day: bool = False) -> timedelta:
    """Convert a value to a time of day or a duration, rounded to the column's fraction digits.

    `any_day`: see `read_time`.
    """
    if isinstance(value, Civil):
        value = time_of_day(value)
    elif isinstance(value, int):
        value = time_of_number(value, lost, sql_mode)
    elif not isinstance(value, timedelta):
        value = read_time(_text(value), lost, sql_mode, any_day)
    unit = 10 ** (6 - kind.fsp)
    half = 0 if sql_mode & TIME_TRUNCATE_FRACTIONAL else unit // 2
    micros = (abs(value) // MICROSECOND + half) // unit * unit
    if micros > MAX_TIME:
        lost.append(f"{time_text(value, 6)} is longer than 838:59:59")
        micros = MAX_TIME
    return timedelta(microseconds=-micros if value < timedelta(0) else micros)


def _rounded(moment: Civil, fsp: int, lost: Lost, sql_mode: int) -> Civil:
    try:
        return rounded_moment(moment, fsp, sql_mode)
    except ConversionError as error:
        lost.append(str(error))
        return ZERO_DATE


def _moment(value: Value, lost: Lost, sql_mode: int) -> Civil:
    if isinstance(value, Civil):
        if not is_date(value, sql_mode & (NO_ZERO_IN_DATE | NO_ZERO_DATE) | ALLOW_INVALID_DATES):
            lost.append(f"{value.text(0)} is no date in this sql_mode")
            return ZERO_DATE
        return value
    if isinstance(value, timedelta):
        raise ConversionError("a TIME becomes a date only with the day of the conversion, which is not known")
    if isinstance(value, int):
        return moment_of_number(value, lost, sql_mode)
    return read_moment(_text(value), lost, sql_mode)


def _text(value: Value) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
