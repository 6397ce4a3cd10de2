"""Values to integers, decimals, floats, bits and years, as MySQL's ALTER TABLE ... MODIFY turns them.

An integer out of range is clamped, as a server without strict mode does; anything else that does not fit is a
ConversionError. Rounding: decimals and texts half away from zero, floats half to even (`rint`).
"""

import math
import re
import struct
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Final

from binlog_merge.binlog.temporal import Civil
from binlog_merge.merge.convert_values import INTEGER_BYTES, ConversionError, Value
from snapshot_store.model import ColumnType

MICROSECOND: Final = timedelta(microseconds=1)
_EXACT: Final = Context(prec=200)
_DIGITS: Final = re.compile(r"\s*\+?\d+\s*", re.ASCII)
_NUMBER: Final = re.compile(r"\s*([+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,5})?)\s*")


def number_of(value: Value) -> int | float | Decimal:
    """Return a value as a number: text parsed whole, a date as YYYYMMDD, a time as HHMMSS."""
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, str):
        found = _NUMBER.fullmatch(value)
        if found is None:
            raise ConversionError(f"{value[:40]!r} is not a number")
        return Decimal(found[1])
    if isinstance(value, timedelta):
        seconds, micros = divmod(abs(value) // MICROSECOND, 1_000_000)
        clock = seconds // 3600 * 10_000 + seconds // 60 % 60 * 100 + seconds % 60
        return Decimal(clock * 1_000_000 + micros).scaleb(-6, _EXACT) * (-1 if value < timedelta(0) else 1)
    if isinstance(value, Civil):
        date = (value.year * 100 + value.month) * 100 + value.day
        clock = (value.hour * 100 + value.minute) * 100 + value.second
        return Decimal((date * 1_000_000 + clock) * 1_000_000 + value.micro).scaleb(-6, _EXACT)
    return value


def in_whole_seconds(value: Value) -> Value:
    """Return a time or moment rounded to seconds, carried into minutes, hours and days; other values as they are."""
    if isinstance(value, timedelta):
        seconds = (abs(value) // MICROSECOND + 500_000) // 1_000_000
        return timedelta(seconds=-seconds if value < timedelta(0) else seconds)
    return rounded_moment(value, 0) if isinstance(value, Civil) else value


def rounded_moment(moment: Civil, fsp: int) -> Civil:
    """Return a moment rounded to `fsp` digits of a second, a full second carried into the date."""
    unit = 10 ** (6 - fsp)
    return carried(moment, (moment.micro + unit // 2) // unit * unit)


def carried(moment: Civil, micros: int) -> Civil:
    """Return the moment with these microseconds instead of its own; a million are a second more."""
    if micros < 1_000_000:
        return moment._replace(micro=micros)
    try:
        at = datetime(*moment[:6]) + timedelta(seconds=1)
    except (ValueError, OverflowError):
        raise ConversionError(f"{moment.text(6)} cannot be rounded up to the next second") from None
    return Civil(at.year, at.month, at.day, at.hour, at.minute, at.second)


def rounded(value: int | float | Decimal, scale: int = 0) -> Decimal:
    """Return a number with `scale` digits behind the point, half away from zero."""
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    try:
        return exact.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
    except InvalidOperation:
        raise ConversionError(f"{value} is not a number that fits") from None


def to_integer(kind: ColumnType, value: Value) -> int:
    """Return an integer in the range of an integer column; clamped where it lies outside."""
    number = number_of(in_whole_seconds(value))
    if isinstance(number, float):
        if not math.isfinite(number):
            raise ConversionError(f"{number} is no integer")
        whole = round(number)
    else:
        whole = int(rounded(number))
    bits = 8 * INTEGER_BYTES[kind.name]
    low, high = (0, (1 << bits) - 1) if kind.unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return max(low, min(high, whole))


def to_decimal(kind: ColumnType, value: Value) -> Decimal:
    """Return a decimal with as many digits as the column has; more digits before the point are an error."""
    scale = kind.decimals or 0
    whole = (10 if kind.length is None else kind.length) - scale
    number = rounded(number_of(value), scale)
    if abs(number) >= Decimal(1).scaleb(whole):
        raise ConversionError(f"{number} has more than {whole} digits before the point")
    if number < 0 and kind.unsigned:
        raise ConversionError(f"{number} is negative, the column is UNSIGNED")
    return number


def to_float(kind: ColumnType, value: Value) -> float:
    """Return a float in the range of the column, rounded to (M,D) where it has them."""
    number = float(number_of(value))
    if kind.decimals is not None and kind.length is not None:
        # Field_real::truncate rounds what is behind the point, counted from the next lower integer.
        factor, below = 10.0**kind.decimals, math.floor(number)
        number = below + round((number - below) * factor) / factor
        if abs(number) >= 10.0 ** (kind.length - kind.decimals):
            raise ConversionError(f"{number} does not fit {kind.name}({kind.length},{kind.decimals})")
    if number < 0 and kind.unsigned:
        raise ConversionError(f"{number} is negative, the column is UNSIGNED")
    if kind.name == "float":
        try:
            struct.pack("<f", number)
        except OverflowError:
            raise ConversionError(f"{number} is out of the range of FLOAT") from None
    return number


def to_bit(kind: ColumnType, value: Value) -> int:
    """Return an integer of as many bits as the column has; text must be a plain integer."""
    if isinstance(value, str | bytes) and not _DIGITS.fullmatch(
        value if isinstance(value, str) else value.decode("latin-1")
    ):
        raise ConversionError(f"{value[:40]!r} is not an integer")
    number = number_of(value)
    whole = round(number) if isinstance(number, float) else int(rounded(number))
    if not 0 <= whole < 1 << (kind.length or 1):
        raise ConversionError(f"{whole} does not fit {kind.length or 1} bits")
    return whole


def to_year(kind: ColumnType, value: Value) -> int:
    """Return a year from 1901 to 2155, or 0; two digits mean 1970 to 2069."""
    number = number_of(value)
    year = round(number) if isinstance(number, float) else int(rounded(number))
    if 0 < year < 100 or (year == 0 and isinstance(value, str) and len(value.strip()) < 4):
        year += 2000 if year < 70 else 1900
    if year and not 1901 <= year <= 2155:
        raise ConversionError(f"{year} is no YEAR")
    return year
