"""Steps and places, by which `images` decodes row images, and what it does with single cells.

Both are records of 64-bit numbers, as bytes: without the strides and the negative indexes of arrays the loop takes half
as long.
"""

from typing import Any, Final

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import types as t
from binlog_merge.binlog.kernels.column_values import days_of
from binlog_merge.binlog.kernels.memory import (
    big_64,
    copy,
    copy_64,
    i64,
    store_8,
    store_16,
    store_32,
    store_64,
    u8,
    u16,
    u32,
)
from binlog_merge.binlog.kernels.row_lengths import bitmaps_begin

# steps
(S_BEFORE, S_COLUMN, S_OP, S_SIZE, S_PREFIX, S_MOST, S_WIDTH, S_KIND, S_META, S_SIGNED, S_PAD) = range(11)
S_GROUPS: Final = 11
"""Up to three groups of a DECIMAL's digits: their bytes, and the power of ten of their digits."""
STEP: Final = 17
# what is done with a cell
SKIP, COPY, NUMBER, DATETIME, DECIMAL, TEXT, CELL = range(7)
# programs of a side
P_FIRST, P_LAST, P_FIRST_NULL, P_LAST_NULL = range(4)
# places: the buffers of a column in `out`; of a CELL, the values are offsets in `b`, and the offsets lengths
O_VALUES, O_OFFSETS, O_NULLS, O_END = range(4)
# places: the number of NULLs, whether a cell is no such value, what the texts are, and how many bytes they have
F_NULLS, F_ODD, F_TEXT, F_BYTES = range(4, 8)
PLACE: Final = 8
ASCII, UTF8, OTHER = range(3)
"""What the texts of a column are."""
# why there is no number of rows
IRREGULAR, FULL = -1, -2
SLACK: Final = 128
"""Bytes behind a column's texts into which may be written."""
DAYS: Final = 256
"""The number of dates that are remembered: (date as in DATETIME, days since 1970)."""


@njit(inline="always")
def field(records: Any, record: int, number: int) -> int:
    """Return a field of the record that begins with this number."""
    return i64(records, (record + number) << 3)


@njit(inline="always")
def put(records: Any, record: int, number: int, value: int) -> None:
    """Write a field of the record that begins with this number."""
    store_64(records, (record + number) << 3, np.uint64(value))


@njit(inline="always")
def prefixed(b: Any, at: int, prefix: int) -> int:
    """Return the length in the `prefix` bytes at `b[at]`."""
    if prefix == 1:
        return u8(b, at)
    if prefix == 2:
        return u16(b, at)
    if prefix == 3:
        return u16(b, at) | (u8(b, at + 2) << 16)
    return u32(b, at)


@njit(inline="always")
def is_null(b: Any, nulls: int, column: int) -> bool:
    """Return whether the bit of a column is set in the null bitmap."""
    return (u8(b, nulls + (column >> 3)) >> (column & 7)) & 1 == 1


@njit(inline="always")
def any_null(b: Any, at: int, columns: int) -> bool:
    """Return whether a bit of the null bitmap is set; bits behind the last column do not count."""
    last = (columns - 1) >> 3
    for n in range(last):
        if u8(b, at + n) != 0:
            return True
    return u8(b, at + last) & ((2 << ((columns - 1) & 7)) - 1) != 0


@njit(cache=True, nogil=True, _nrt=False)
def whole_images(b: Any, body: int, end: int, kind: int, columns: int) -> int:
    """Return where the rows of an event begin; -1 if it is malformed, or its images do not have all columns."""
    at = bitmaps_begin(b, body, end, kind, columns)
    bitmap = (columns + 7) >> 3
    images = 2 if t.is_whole_update(kind) else 1
    if at < 0:
        return -1
    bits = (2 << ((columns - 1) & 7)) - 1
    for _ in range(images):
        for n in range(bitmap - 1):
            if u8(b, at + n) != 0xFF:
                return -1
        if u8(b, at + bitmap - 1) & bits != bits:
            return -1
        at += bitmap
    return at


@njit(inline="always")
def _big(b: Any, at: int, size: int, most: int) -> int:
    """Read `size` bytes, of which there are 1 to 7, big endian; up to `most` eight bytes may be read."""
    if at <= most:
        return np.int64(big_64(b, at) >> np.uint64(64 - 8 * size))
    value = np.int64(0)
    for i in range(size):
        value = (value << 8) | u8(b, at + i)
    return value


@njit(inline="always")
def store(out: Any, at: int, width: int, value: int) -> None:
    """Write a number of 8, 4, 2 or 1 bytes."""
    if width == 8:
        store_64(out, at, np.uint64(value))
    elif width == 4:
        store_32(out, at, np.uint32(value))
    elif width == 2:
        store_16(out, at, np.uint16(value))
    else:
        store_8(out, at, np.uint8(value))


@njit(inline="always")
def datetime(b: Any, at: int, fsp: int, most: int, days: Any) -> tuple[int, bool]:
    """Return the microseconds of a DATETIME2 cell, and whether it is one; `days` are dates that are known."""
    width = (fsp + 1) >> 1
    number = _big(b, at, 5, most) - 0x8000000000
    date = number >> 17
    place = (date & (DAYS - 1)) * 2
    if field(days, place, 0) != date:
        months = number >> 22
        put(days, place, 0, date)
        put(days, place, 1, days_of(months // 13, months % 13, date & 31))
    hour, minute, second = (number >> 12) & 31, (number >> 6) & 63, number & 63
    micro = np.int64(0)
    if width > 0:
        micro = _big(b, at + 5, width, most)
        if width == 1:
            micro *= 10000
        elif width == 2:
            micro *= 100
    day = field(days, place, 1)
    good = day > -(1 << 40) and hour < 24 and minute < 60 and second < 60 and micro < 1000000
    return ((day * 24 + hour) * 60 + minute) * 60000000 + second * 1000000 + micro, good


@njit(inline="always")
def decimal(b: Any, at: int, steps: Any, step: int, most: int) -> tuple[int, bool]:
    """Return a DECIMAL cell of up to 18 digits without its point, and whether it is one."""
    negative = u8(b, at) & 0x80 == 0
    top, value, good = np.int64(0x80), np.int64(0), True
    for group in range(3):
        width = field(steps, step, S_GROUPS + 2 * group)
        if width == 0:
            break
        power = field(steps, step, S_GROUPS + 2 * group + 1)
        number = _big(b, at, width, most) ^ (top << (8 * width - 8))
        if negative:
            number ^= (np.int64(1) << (8 * width)) - 1
        good = good and number < power
        value = value * power + number
        at += width
        top = np.int64(0)
    return -value if negative else value, good


@njit(inline="always")
def copy_text(b: Any, at: int, size: int, out: Any, to: int) -> None:
    """Copy a text; `out` has SLACK bytes more, which what comes next overwrites.

    The processor cannot foresee when a loop over a short text ends, which costs more than to copy too much.
    """
    if size <= SLACK and at + SLACK <= len(b):
        copy_64(out, to, b, at)
        if size > 64:
            copy_64(out, to + 64, b, at + 64)
    elif size > 0:
        copy(out, to, b, at, size)


@njit(inline="always")
def clear(out: Any, bits: int, row: int) -> None:
    """Clear the bit of a row."""
    at = bits + (row >> 3)
    store_8(out, at, np.uint8(u8(out, at) & ~(1 << (row & 7))))
