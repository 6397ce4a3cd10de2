"""Decodes the cells of a column to Arrow's layout: fixed-width numbers, or concatenated texts.

`starts` and `sizes` are those of the cells; a negative size means no value. Types and metadata are the table map's. The
plain twin is `binlog.decode.decode_cell`.
"""

from typing import Any, Final

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import types as t
from binlog_merge.binlog.kernels.memory import copy, load_32, load_64, store_16, store_32, store_64, u32

_DIGITS: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_POWERS: Final = (1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000)
SLACK: Final = 8
"""Bytes that `texts` may write behind the last text."""
_UNITS: Final = (1000000, 10000, 100, 1)
_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@njit(inline="always")
def _little(b: Any, at: int, size: int) -> int:
    value = np.int64(0)
    for i in range(size):
        value |= np.int64(b[at + i]) << (8 * i)
    return value


@njit(inline="always")
def _big(b: Any, at: int, size: int) -> int:
    value = np.int64(0)
    for i in range(size):
        value = (value << 8) | np.int64(b[at + i])
    return value


@njit(cache=True, nogil=True, _nrt=False)
def days_of(year: int, month: int, day: int) -> int:
    """Return the days since 1970 of a date of the Gregorian calendar, or -(1 << 40) for an invalid date."""
    if year < 1 or year > 9999 or month < 1 or month > 12 or day < 1:
        return -(1 << 40)
    leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
    if day > _DAYS[month - 1] + (1 if leap and month == 2 else 0):
        return -(1 << 40)
    y = year - 1 if month <= 2 else year
    era = y // 400
    of_era = y - era * 400
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


@njit(inline="always")
def _fraction(b: Any, at: int, fsp: int) -> int:
    width = (fsp + 1) // 2
    return _big(b, at, width) * _UNITS[width]


@njit(inline="always")
def _moment(days: int, hour: int, minute: int, second: int, micro: int) -> int:
    return ((days * 24 + hour) * 60 + minute) * 60000000 + second * 1000000 + micro


@njit(inline="always")
def _number(b: Any, at: int, size: int, kind: int, meta: int, signed: bool) -> tuple[int, bool]:
    """Return the number of a cell, and whether it is one."""
    value, good = np.int64(0), True
    if kind == t.TINY or kind == t.SHORT or kind == t.INT24 or kind == t.LONG or kind == t.LONGLONG:
        value = _little(b, at, size)
        if signed and size < 8 and value >> (8 * size - 1):
            value -= np.int64(1) << (8 * size)
    elif kind == t.FLOAT or kind == t.DOUBLE or kind == t.ENUM or kind == t.SET:
        value = _little(b, at, size)
    elif kind == t.YEAR:
        value = np.int64(b[at]) + 1900 if b[at] != 0 else np.int64(0)
    elif kind == t.BIT:
        value = _big(b, at, size)
    elif kind == t.DATE or kind == t.NEWDATE:
        number = _little(b, at, 3)
        value = days_of(number >> 9, (number >> 5) & 15, number & 31)
        good = value > -(1 << 40)
    elif kind == t.DATETIME:
        number = _little(b, at, 8)
        days = days_of(number // 10000000000, number // 100000000 % 100, number // 1000000 % 100)
        hour, minute, second = number // 10000 % 100, number // 100 % 100, number % 100
        good = number >= 0 and days > -(1 << 40) and hour < 24 and minute < 60 and second < 60
        value = _moment(days, hour, minute, second, np.int64(0)) if good else np.int64(0)
    elif kind == t.TIMESTAMP2:
        number, micro = _big(b, at, 4), _fraction(b, at + 4, meta)
        good = number > 0 and micro < 1000000
        value = number * 1000000 + micro
    elif kind == t.TIMESTAMP:
        number = _little(b, at, 4)
        good = number > 0
        value = number * 1000000
    elif kind == t.TIME2:
        width = (meta + 1) // 2
        number = _big(b, at, 3 + width) - (np.int64(0x800000) << (8 * width))
        negative = number < 0
        if negative:
            number = -number
        hms = number >> (8 * width)
        micro = (number & ((np.int64(1) << (8 * width)) - 1)) * _UNITS[width]
        good = (hms >> 12) < 839 and ((hms >> 6) & 63) < 60 and (hms & 63) < 60 and micro < 1000000
        value = _moment(np.int64(0), hms >> 12, (hms >> 6) & 63, hms & 63, micro)
        if negative:
            value = -value
    elif kind == t.TIME:
        number = _little(b, at, 3)
        if number >> 23:
            number -= 1 << 24
        negative = number < 0
        if negative:
            number = -number
        good = number // 10000 < 839 and number // 100 % 100 < 60 and number % 100 < 60
        value = _moment(np.int64(0), number // 10000, number // 100 % 100, number % 100, np.int64(0))
        if negative:
            value = -value
    else:
        good = False
    return value, good


@njit(cache=True, nogil=True, _nrt=False)
def number_of(b: Any, at: int, size: int, kind: int, meta: int, signed: bool) -> tuple[int, bool]:
    """Return the number of a cell, of the types of `numbers`, and whether it is one."""
    return _number(b, at, size, kind, meta, signed)


@njit(inline="always")
def _big_32(b: Any, at: int) -> int:
    """Read four bytes, big endian: the compiler makes one load and one swap of it."""
    value = u32(b, at)
    return ((value & 0xFF) << 24) | ((value & 0xFF00) << 8) | ((value >> 8) & 0xFF00) | (value >> 24)


@njit(cache=True, nogil=True, _nrt=False)
def numbers(
    b: Any, starts: Any, sizes: Any, kind: int, meta: int, signed: bool, width: int, out: Any, valid: Any
) -> int:
    """Decode integers, YEAR, FLOAT and DOUBLE (as bits), BIT, ENUM, SET, dates and times to `width` bytes each.

    Returns -1, or the index of the first cell without such a value: an invalid date, or damage.
    """
    # A loop for each of the common types: what is decided in a loop is decided for each cell.
    count = len(starts)
    if (kind == t.LONGLONG or kind == t.DOUBLE) and width == 8:
        for i in range(count):
            there = sizes[i] >= 0
            valid[i] = there
            store_64(out, 8 * i, load_64(b, np.int64(starts[i])) if there else np.uint64(0))
        return -1
    if (kind == t.LONG or kind == t.FLOAT) and width == 4:
        for i in range(count):
            there = sizes[i] >= 0
            valid[i] = there
            store_32(out, 4 * i, load_32(b, np.int64(starts[i])) if there else np.uint32(0))
        return -1
    if kind == t.DATETIME2:
        return _datetimes(b, starts, sizes, meta, out, valid)
    odd = np.int64(-1)
    for i in range(count):
        value, good = np.int64(0), True
        valid[i] = sizes[i] >= 0
        if valid[i]:
            value, good = _number(b, np.int64(starts[i]), np.int64(sizes[i]), kind, meta, signed)
        if width == 8:
            store_64(out, 8 * i, np.uint64(value))
        elif width == 4:
            store_32(out, 4 * i, np.uint32(value))
        elif width == 2:
            store_16(out, 2 * i, np.uint16(value))
        else:
            out[i] = np.uint8(value)
        if not good and odd < 0:
            odd = i
    return odd


@njit(cache=True, nogil=True, _nrt=False)
def _datetimes(b: Any, starts: Any, sizes: Any, fsp: int, out: Any, valid: Any) -> int:
    odd, known, days = np.int64(-1), np.int64(-1), np.int64(0)
    width = (fsp + 1) // 2
    for i in range(len(starts)):
        value = np.int64(0)
        valid[i] = sizes[i] >= 0
        if valid[i]:
            at = np.int64(starts[i])
            number = ((_big_32(b, at) << 8) | np.int64(b[at + 4])) - 0x8000000000
            if number >> 17 != known:  # neighbours are often of one day
                known = number >> 17
                months = number >> 22
                days = days_of(months // 13, months % 13, known & 31)
            hour, minute, second = (number >> 12) & 31, (number >> 6) & 63, number & 63
            micro = np.int64(0)
            if width == 2:
                micro = ((np.int64(b[at + 5]) << 8) | np.int64(b[at + 6])) * 100
            elif width != 0:
                micro = _big(b, at + 5, width) * _UNITS[width]
            if days > -(1 << 40) and hour < 24 and minute < 60 and second < 60 and micro < 1000000:
                value = _moment(days, hour, minute, second, micro)
            elif odd < 0:
                odd = i
        store_64(out, 8 * i, np.uint64(value))
    return odd


@njit(inline="always")
def _group(b: Any, at: int, width: int) -> int:
    """Read the digits of a DECIMAL's group of up to four bytes, big endian."""
    return _big_32(b, at) if width == 4 else _big(b, at, width)


@njit(cache=True, nogil=True, _nrt=False)
def _short_decimals(b: Any, starts: Any, sizes: Any, whole: int, scale: int, out: Any, valid: Any) -> int:
    """Decode DECIMAL cells of up to 18 digits, whose groups of nine digits and of fewer make a number of 64 bits."""
    odd = np.int64(-1)
    digits = (whole % 9, 9 if whole >= 9 else 0, 9 if whole >= 18 else 0,
              9 if scale >= 9 else 0, 9 if scale >= 18 else 0, scale % 9)  # fmt: skip
    for i in range(len(starts)):
        value, negative = np.int64(0), False
        valid[i] = sizes[i] >= 0
        if valid[i]:
            at = np.int64(starts[i])
            negative, top = (b[at] & 0x80) == 0, np.int64(0x80)
            for count in digits:
                if count > 0:
                    width = _DIGITS[count]
                    number = _group(b, at, width) ^ (top << (8 * (width - 1)))
                    if negative:
                        number ^= (np.int64(1) << (8 * width)) - 1
                    if number >= _POWERS[count] and odd < 0:
                        odd = i
                    value = value * _POWERS[count] + number
                    at += width
                    top = np.int64(0)
            if negative:
                value = -value
        out[i, 0] = np.uint64(value)
        out[i, 1] = np.uint64(value >> 63)
    return odd


@njit(cache=True, nogil=True, _nrt=False)
def decimals(b: Any, starts: Any, sizes: Any, precision: int, scale: int, out: Any, valid: Any) -> int:
    """Decode DECIMAL cells of up to 38 digits to 128-bit numbers without their point: `out[i]` is (low, high) 64 bits.

    Returns -1, or the index of the first cell that is not such a number.
    """
    if precision <= 18:
        return _short_decimals(b, starts, sizes, precision - scale, scale, out, valid)
    whole = precision - scale
    odd = np.int64(-1)
    low32 = np.uint64(0xFFFFFFFF)
    for i in range(len(starts)):
        out[i, 0], out[i, 1] = np.uint64(0), np.uint64(0)
        if sizes[i] < 0:
            valid[i] = 0
            continue
        valid[i] = 1
        at = np.int64(starts[i])
        negative = (b[at] & 0x80) == 0
        flip = np.int64(0xFF) if negative else np.int64(0)
        a0, a1, a2, a3 = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0)  # 32 bits each, the lowest first
        first = True
        for part in range(2):
            digits = whole if part == 0 else scale
            odds, nines = digits % 9, digits // 9
            for group in range(nines + (1 if odds else 0)):
                leading = odds if (part == 0 and group == 0 and odds) or (part == 1 and group == nines) else 9
                width = _DIGITS[leading]
                number = np.int64(0)
                for k in range(width):
                    byte = np.int64(b[at + k]) ^ flip
                    if first:
                        byte ^= 0x80
                        first = False
                    number = (number << 8) | byte
                at += width
                if number >= _POWERS[leading] and odd < 0:
                    odd = i
                factor = np.uint64(_POWERS[leading])
                a0 = a0 * factor + np.uint64(number)
                a1 = a1 * factor + (a0 >> np.uint64(32))
                a2 = a2 * factor + (a1 >> np.uint64(32))
                a3 = a3 * factor + (a2 >> np.uint64(32))
                a0, a1, a2, a3 = a0 & low32, a1 & low32, a2 & low32, a3 & low32
        low, high = a0 | (a1 << np.uint64(32)), a2 | (a3 << np.uint64(32))
        if negative:
            low, high = ~low + np.uint64(1), ~high
            if low == 0:
                high += np.uint64(1)
        out[i, 0], out[i, 1] = low, high
    return odd


@njit(cache=True, nogil=True, _nrt=False)
def text_sizes(starts: Any, sizes: Any, prefix: int, pad: int, offsets: Any, valid: Any) -> int:
    """Compute the offsets of texts: text i will be `offsets[i]` to `offsets[i + 1]`. Returns their total size.

    The first `prefix` bytes of each cell are its length; texts shorter than `pad` will be padded to that. The offsets
    have 32 bits, so they are right if the total has no more than 31.
    """
    total = np.int64(0)
    for i in range(len(starts)):
        offsets[i] = total
        size = np.int64(sizes[i])
        valid[i] = size >= 0
        if size >= 0:
            total += size - prefix if size - prefix > pad else pad
    offsets[len(starts)] = total
    return total


@njit(cache=True, nogil=True, _nrt=False)
def texts(b: Any, starts: Any, sizes: Any, prefix: int, pad: int, offsets: Any, out: Any) -> bool:
    """Copy texts, padded with zero bytes; return whether all are ASCII.

    `out` has SLACK bytes more than the texts: short ones are copied eight bytes at a time, what is too much is
    overwritten by the next one.
    """
    most = len(b) - SLACK
    for i in range(len(starts)):
        size = np.int64(sizes[i]) - prefix
        at, origin = np.int64(offsets[i]), np.int64(starts[i]) + prefix
        if size > 64 or origin > most - size:
            if size > 0:
                copy(out, at, b, origin, size)
        else:
            done = np.int64(0)
            while done < size:
                store_64(out, at + done, load_64(b, origin + done))
                done += 8
        if pad > 0 and sizes[i] >= 0:
            for k in range(at + size, at + pad):
                out[k] = 0
    end = np.int64(offsets[len(starts)])
    seen, at = np.uint64(0), np.int64(0)
    while at + 8 <= end:
        seen |= load_64(out, at)
        at += 8
    last = np.uint8(0)
    while at < end:
        last |= out[at]
        at += 1
    return (seen & np.uint64(0x8080808080808080)) == 0 and last < 0x80
