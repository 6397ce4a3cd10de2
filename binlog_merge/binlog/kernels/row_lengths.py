"""Checks that row images fit their table map, by lengths alone: no cell is decoded or copied.

A table's *steps* are computed from its table map (`cell_steps`): for each column, and once more for rows without NULLs,
in which only the cells with a length prefix are read:

    columns, JSON columns, steps | per column (bytes, prefix, most, nullable) | per step (bytes before it, prefix, most)

`prefix` bytes are a cell's length, up to `most`; 0: the cell has `bytes` bytes. The last step is the end of the row.
The plain twin is `binlog.rows.iter_rows`.

Cell lengths in a row image, by column type and table-map metadata (MySQL `calc_field_size`,
libs/mysql/binlog/event/binary_log_funcs.cpp).
"""

from typing import Any

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import types as t
from binlog_merge.binlog.kernels.memory import bit, u16, u32

BAD, MORE = -1, -2
"""Returned instead of an offset: the images do not fit the table map; the row does not end before `end`."""


@njit(inline="always")
def prefixed(b: Any, at: int, prefix: int) -> int:
    """Return the length in the `prefix` bytes at `b[at]`."""
    if prefix == 1:
        return np.int64(b[at])
    if prefix == 2:
        return u16(b, at)
    if prefix == 3:
        return u16(b, at) | (np.int64(b[at + 2]) << 16)
    return u32(b, at)


@njit(inline="always")
def cell(b: Any, at: int, end: int, steps: Any, column: int) -> int:
    """Return the length of the cell at `b[at]` with its prefix, by its column's step; BAD if it does not fit."""
    size, prefix = steps[column], steps[column + 1]
    if prefix:
        if at + prefix > end:
            return BAD
        length = prefixed(b, at, prefix)
        if length > steps[column + 2]:
            return BAD
        size = prefix + length
    return size if at + size <= end else BAD


@njit(inline="always")
def _whole_image(b: Any, at: int, end: int, steps: Any, first: int, count: int) -> int:
    """Return the end of the cells of an image without NULLs, BAD or MORE."""
    for s in range(count - 1):
        step = first + 3 * s
        at += steps[step]
        prefix = steps[step + 1]
        if at + prefix > end:
            return MORE
        length = prefixed(b, at, prefix)
        if length > steps[step + 2]:
            return BAD
        at += prefix + length
    at += steps[first + 3 * (count - 1)]
    return at if at <= end else MORE


@njit(inline="always")
def _cells(b: Any, at: int, end: int, steps: Any, columns: int, shape: int, present: int, nulls: int) -> int:
    """Return the end of the cells of an image with the columns of the bitmap at `present`, BAD or MORE."""
    n = 0
    for c in range(columns):
        if not bit(b, present, c):
            continue
        column = shape + 4 * c
        if bit(b, nulls, n):
            if steps[column + 3] == 0:
                return BAD
        else:
            prefix = steps[column + 1]
            if prefix == 0:
                at += steps[column]
            else:
                if at + prefix > end:
                    return MORE
                length = prefixed(b, at, prefix)
                if length > steps[column + 2]:
                    return BAD
                at += prefix + length
        n += 1
    return at if at <= end else MORE


@njit(inline="always")
def _value_options(b: Any, at: int, end: int, json: int) -> int:
    """Return the offset of a partial image's null bitmap, which is after its value options; BAD or MORE."""
    if at >= end:
        return MORE
    if b[at] > 1:
        return BAD
    at += 1 + ((json + 7) >> 3 if b[at] else 0)
    return at if at <= end else MORE


@njit(cache=True, nogil=True, _nrt=False)
def rows_end(b: Any, bitmaps: int, at: int, end: int, kind: int, steps: Any, shape: int) -> int:
    """Walk the rows at `b[at:end]`, whose column bitmaps are at `b[bitmaps]`; return the end of the last, or BAD."""
    columns, json, count = steps[shape], steps[shape + 1], steps[shape + 2]
    shape += 3
    program = shape + 4 * columns
    width = (columns + 7) >> 3
    images = 2 if t.is_update(kind) else 1
    held_0, held_1 = np.int64(0), np.int64(0)
    for c in range(columns):
        held_0 += bit(b, bitmaps, c)
        if images == 2:
            held_1 += bit(b, bitmaps + width, c)
    if held_0 + held_1 == 0 and at < end and kind != t.PARTIAL_UPDATE_ROWS_EVENT:
        return BAD  # rows of no columns take no bytes
    row = at
    while at < end:
        for image in range(images):
            if image == 1 and kind == t.PARTIAL_UPDATE_ROWS_EVENT:
                at = _value_options(b, at, end, json)
                if at < 0:
                    return row if at == MORE else BAD
            held = held_0 if image == 0 else held_1
            nulls = at
            at += (held + 7) >> 3
            if at > end:
                return row
            whole = held == columns
            if whole:
                any_null = np.uint8(0)
                for n in range(held >> 3):
                    any_null |= b[nulls + n]
                if held & 7:
                    any_null |= b[at - 1] & np.uint8((1 << (held & 7)) - 1)
                whole = any_null == 0
            if whole:
                at = _whole_image(b, at, end, steps, program, count)
            else:
                at = _cells(b, at, end, steps, columns, shape, bitmaps + image * width, nulls)
            if at < 0:
                return row if at == MORE else BAD
        row = at
    return row


@njit(cache=True, nogil=True, _nrt=False)
def rows_begin(b: Any, at: int, end: int, kind: int, columns: int) -> int:
    """Return the offset of a rows event's columns-present bitmaps; `b[at:end]` is its body after its extra data.

    BAD if it has another number of columns, or ends in the bitmaps.
    """
    if at >= end:
        return BAD
    count = np.int64(b[at])
    at += 1
    if count == 252:
        if at + 2 > end:
            return BAD
        count = u16(b, at)
        at += 2
    if count != columns or at + ((columns + 7) >> 3) * (2 if t.is_update(kind) else 1) > end:
        return BAD
    return at


@njit(cache=True, nogil=True, _nrt=False)
def bitmaps_begin(b: Any, at: int, end: int, kind: int, columns: int) -> int:
    """Return the offset of a rows event's columns-present bitmaps; `b[at:end]` is its body.

    BAD if its extra data do not fit, or as of `rows_begin`.
    """
    at += 8
    if t.has_extra_data(kind):
        if at + 2 > end or u16(b, at) < 2:
            return BAD
        at += u16(b, at)
    return rows_begin(b, at, end, kind, columns)


@njit(forceinline=True, _nrt=False)
def rows_fit(b: Any, at: int, end: int, kind: int, steps: Any, shape: int) -> bool:
    """Return whether the rows of `b[at:end]`, a rows event after its extra data, end exactly at its end."""
    columns = steps[shape]
    bitmaps = rows_begin(b, at, end, kind, columns)
    if bitmaps < 0:
        return False
    rows = bitmaps + ((columns + 7) >> 3) * (2 if t.is_update(kind) else 1)
    return rows_end(b, bitmaps, rows, end, kind, steps, shape) == end


_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


@njit(cache=True, nogil=True, _nrt=False)
def decimal_length(precision: int, scale: int) -> int:
    """Return the bytes of a DECIMAL cell: nine digits take four bytes, fewer take `_DIGIT_BYTES`."""
    whole = precision - scale
    if whole < 0:
        return -1
    return (whole // 9) * 4 + _DIGIT_BYTES[whole % 9] + (scale // 9) * 4 + _DIGIT_BYTES[scale % 9]


@njit(inline="always")
def string_length(b: Any, at: int, end: int, most: int) -> int:
    """Return the length of a string of at most `most` bytes, with its one or two length bytes; -1 if it is longer."""
    prefix = 1 if most < 256 else 2
    if at + prefix > end:
        return -1
    length = np.int64(b[at]) if prefix == 1 else u16(b, at)
    return prefix + length if length <= most else -1


@njit(cache=True, nogil=True, _nrt=False)
def cell_length(b: Any, at: int, end: int, kind: int, meta: int) -> int:
    """Return the length of the cell at `b[at]` with its length prefix.

    Returns -1 if it does not fit before `end`, or the type is unknown. `meta` is the column's metadata as the
    little-endian number of its table-map bytes.
    """
    size = np.int64(-1)
    if kind == t.LONG or kind == t.FLOAT:
        size = 4
    elif kind == t.LONGLONG or kind == t.DOUBLE:
        size = 8
    elif kind == t.TINY or kind == t.YEAR:
        size = 1
    elif kind == t.SHORT:
        size = 2
    elif kind == t.INT24 or kind == t.DATE or kind == t.NEWDATE or kind == t.TIME:
        size = 3
    elif kind == t.TIMESTAMP:
        size = 4
    elif kind == t.DATETIME:
        size = 8
    elif kind == t.VARCHAR or kind == t.VAR_STRING:
        size = string_length(b, at, end, meta)
    elif kind == t.NEWDECIMAL:
        size = decimal_length(meta & 255, meta >> 8)
    elif kind == t.DATETIME2:
        size = 5 + (meta + 1) // 2
    elif kind == t.TIMESTAMP2:
        size = 4 + (meta + 1) // 2
    elif kind == t.TIME2:
        size = 3 + (meta + 1) // 2
    elif (
        kind == t.BLOB or kind == t.JSON or kind == t.GEOMETRY or kind == t.VECTOR or t.TINY_BLOB <= kind <= t.LONG_BLOB
    ):
        prefix = meta
        if 1 <= prefix <= 4 and at + prefix <= end:
            size = np.int64(0)
            for k in range(prefix):
                size |= np.int64(b[at + k]) << (8 * k)
            size += prefix
    elif kind == t.STRING:
        real, length = meta & 255, meta >> 8
        if real == t.ENUM or real == t.SET:
            size = length
        else:
            if (real & 0x30) != 0x30:
                length |= ((real & 0x30) ^ 0x30) << 4
            size = string_length(b, at, end, length)
    elif kind == t.ENUM or kind == t.SET:
        size = meta >> 8
    elif kind == t.BIT:
        size = (meta >> 8) + ((meta & 255) + 7) // 8
    elif kind == t.NULL:
        size = 0
    if size < 0 or at + size > end:
        return -1
    return size
