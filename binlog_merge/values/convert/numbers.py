"""Converts values to integers, decimals, floats, bits and years, as MySQL's ALTER TABLE ... MODIFY does.

Each function returns what a server without strict mode stores (clamped, cut, or 0), and adds to `lost` why a server in
strict mode refuses it. Rounding: decimals and texts half away from zero, floats half to even (`rint`).
"""

import math
import re
import struct
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Final

from binlog_merge.binlog.temporal import Civil
from binlog_merge.values.value import ConversionError, Json, Lost, Value
from snapshot_store.mysql.column_type import ColumnType, Family
from snapshot_store.mysql.sql.session import TIME_TRUNCATE_FRACTIONAL

MICROSECOND: Final = timedelta(microseconds=1)
_EXACT: Final = Context(prec=400)
_SPACES: Final = " \t\n\v\f\r"
_NUMBER: Final = re.compile(r"\s*([+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)", re.ASCII)
_DIGITS: Final = re.compile(r"\s*([+-]?\d+)", re.ASCII)
_MAX_FLOAT: Final = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
_MAX_DOUBLE: Final = struct.unpack("<d", b"\xff" * 6 + b"\xef\x7f")[0]
_BIGINT: Final = (-(1 << 63), (1 << 63) - 1)


def number_of(value: Value, lost: Lost) -> int | float | Decimal:
    """Convert a value to a number: of a text the number at its beginning, a date as YYYYMMDD, a time as HHMMSS."""
    if isinstance(value, str | bytes):
        text = value if isinstance(value, str) else value.decode("latin-1")
        match = _NUMBER.match(text)
        # Spaces after a number are ignored in a text, but not in a binary string.
        if match is None or (text[match.end() :].strip(_SPACES) if text is value else text[match.end() :]):
            lost.append(f"{value[:40]!r} is not a number")
        return _limited(Decimal(match[1])) if match else Decimal(0)
    if isinstance(value, timedelta):
        seconds, micros = divmod(abs(value) // MICROSECOND, 1_000_000)
        clock = seconds // 3600 * 10_000 + seconds // 60 % 60 * 100 + seconds % 60
        return Decimal(clock * 1_000_000 + micros).scaleb(-6, _EXACT) * (-1 if value < timedelta(0) else 1)
    if isinstance(value, Civil):
        date = (value.year * 100 + value.month) * 100 + value.day
        clock = (value.hour * 100 + value.minute) * 100 + value.second
        return Decimal((date * 1_000_000 + clock) * 1_000_000 + value.micro).scaleb(-6, _EXACT)
    if isinstance(value, int | float | Decimal):
        return value
    raise ConversionError(f"{value!r} is no number")


def _limited(number: Decimal) -> Decimal:
    """Limit a number to a size that arithmetic can handle: still beyond every column, without millions of digits."""
    if number and abs(number.adjusted()) > 330:
        return Decimal(10).scaleb(330).copy_sign(number) if number.adjusted() > 0 else Decimal(0)
    return number


def in_whole_seconds(value: Value) -> Value:
    """Round a time or date and time to seconds, carried into minutes, hours and days; other values are unchanged.

    That is what becomes an integer, in any sql_mode (`TIME_to_ulonglong_datetime_round`).
    """
    if isinstance(value, timedelta):
        seconds = (abs(value) // MICROSECOND + 500_000) // 1_000_000
        return timedelta(seconds=-seconds if value < timedelta(0) else seconds)
    return rounded_moment(value, 0) if isinstance(value, Civil) else value


def rounded_moment(moment: Civil, fsp: int, sql_mode: int = 0) -> Civil:
    """Round a date and time to `fsp` fraction digits; a full second is carried into the date.

    TIME_TRUNCATE_FRACTIONAL cuts the digits off. Raises ConversionError if there is no next second.
    """
    unit = 10 ** (6 - fsp)
    half = 0 if sql_mode & TIME_TRUNCATE_FRACTIONAL else unit // 2
    return carried(moment, (moment.micro + half) // unit * unit)


def carried(moment: Civil, micros: int) -> Civil:
    """Return the date and time with these microseconds instead of its own; a million are carried as a second.

    With it, a day behind the month's end (ALLOW_INVALID_DATES) becomes one of the next month (`date_add_interval`).
    """
    if micros < 1_000_000:
        return moment._replace(micro=micros)
    beyond = not moment.year  # Python has no year 0, which a server takes for one of 365 days, like year 1
    try:
        first = datetime(moment.year + beyond, moment.month, min(moment.day, 1), *moment[3:6])
        at = first + timedelta(days=moment.day - 1, seconds=1)
    except (ValueError, OverflowError):
        raise ConversionError(f"{moment.text(6)} cannot be rounded up to the next second") from None
    return Civil(at.year - beyond, at.month, at.day, at.hour, at.minute, at.second)


def rounded(value: int | float | Decimal, scale: int = 0) -> Decimal:
    """Round a number to `scale` digits after the point, half away from zero."""
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    try:
        return exact.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
    except InvalidOperation:
        raise ConversionError(f"{value} is not a number that fits") from None


def _within(number: int, low: int, high: int, kind: ColumnType, lost: Lost) -> int:
    if not low <= number <= high:
        lost.append(f"{number} is out of the range of {kind.name}{' unsigned' if kind.unsigned else ''}")
    return max(low, min(high, number))


def _whole(value: Value, lost: Lost) -> int:
    try:
        value = in_whole_seconds(value)
    except ConversionError as error:
        lost.append(str(error))
    number = number_of(value, lost)
    return round(number) if isinstance(number, float) else int(rounded(number))


def to_integer(kind: ColumnType, value: Value, lost: Lost, sql_mode: int = 0) -> int:
    """Convert a value to the range of an integer column."""
    low, high = kind.limits
    if isinstance(value, float):  # val_int is signed
        low, high = max(low, _BIGINT[0]), min(high, _BIGINT[1])
    return _within(_whole(value, lost), low, high, kind, lost)


def whole_of_decimal(value: Decimal, unsigned: bool, lost: Lost) -> int:
    """Return the integer of a DECIMAL column's value, which is a BIGINT, or if the column is UNSIGNED such a BIGINT."""
    return _within(int(rounded(value)), *((0, (1 << 64) - 1) if unsigned else _BIGINT), ColumnType("bigint"), lost)


def to_decimal(kind: ColumnType, value: Value, lost: Lost, sql_mode: int = 0) -> Decimal:
    """Convert a value to a decimal with the column's digits."""
    scale = kind.decimals or 0
    precision = 10 if kind.length is None else kind.length
    exact = number_of(value, lost)
    number = rounded(exact, scale)
    greatest = Decimal(10**precision - 1).scaleb(-scale, _EXACT)
    if number.copy_abs() > greatest:  # abs() would round to 28 digits
        lost.append(f"{number} has more than {precision - scale} digits before the point")
        number = greatest.copy_sign(number)
    if exact < 0 and kind.unsigned:
        lost.append(f"{exact} is negative, the column is UNSIGNED")
        return Decimal(0).scaleb(-scale)
    return number


def to_float(kind: ColumnType, value: Value, lost: Lost, sql_mode: int = 0) -> float:
    """Convert a value to a float in the column's range, rounded to (M,D) if the column has them."""
    number = float(number_of(value, lost))
    if number < 0 and kind.unsigned:
        lost.append(f"{number} is negative, the column is UNSIGNED")
        return 0.0
    greatest = _MAX_FLOAT if kind.name == "float" else _MAX_DOUBLE
    if kind.decimals is not None and kind.length is not None:
        # Field_real::truncate rounds the fraction, counted from the next lower integer.
        factor = 10.0**kind.decimals
        greatest = min(greatest, 10.0 ** (kind.length - kind.decimals) - 1 / factor)
        if math.isfinite(number):
            below = math.floor(number)
            number = below + round((number - below) * factor) / factor
    if abs(number) > greatest:
        lost.append(f"{number} is out of the range of {kind.name}")
        return math.copysign(greatest, number)
    return number


def to_bit(kind: ColumnType, value: Value, lost: Lost, sql_mode: int = 0) -> int:
    """Convert a value to an integer of the column's bits; of a text the digits at its beginning."""
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, str):
        match = _DIGITS.match(value)
        if match is None or value[match.end() :].strip(_SPACES):
            lost.append(f"{value[:40]!r} is not an integer")
        number = int(match[1][:60]) if match else 0
        low, high = _BIGINT
    else:
        number = _whole(value, lost)
        low, high = _BIGINT if isinstance(value, float | Decimal) else (_BIGINT[0], (1 << 64) - 1)
    number = _within(number, low, high, kind, lost) & ((1 << 64) - 1)
    return _within(number, 0, (1 << (kind.length or 1)) - 1, kind, lost)


def to_year(kind: ColumnType, value: Value, lost: Lost, sql_mode: int = 0) -> int:
    """Convert a value to a year from 1901 to 2155, or 0; two digits mean 1970 to 2069."""
    year = _whole(value, lost)
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    if 0 < year < 100 or (year == 0 and isinstance(text, str) and len(text.encode()) != 4 and _NUMBER.match(text)):
        year += 2000 if year < 70 else 1900
    if year and not 1901 <= year <= 2155:
        lost.append(f"{year} is no YEAR")
        return 0
    return year


def number_of_document(kind: ColumnType, value: Json, lost: Lost) -> int | float | str | Decimal:
    """Return a document's value for DECIMAL and BIT columns: a number, a text that may hold one, true or false."""
    document = value.document
    if isinstance(document, float) and not math.isfinite(document):
        raise ConversionError(f"{document} is no number")
    if isinstance(document, int) and document > _BIGINT[1] and kind.family is Family.DECIMAL:
        return document - (1 << 64)  # a server takes its bits for a signed number's
    if isinstance(document, int | float | str | Decimal):  # bool is an int
        return int(document) if isinstance(document, bool) else document
    lost.append("the document is no number")
    return 0
