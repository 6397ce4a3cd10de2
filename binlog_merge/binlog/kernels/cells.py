"""Cell lengths in a row image, by column type and table-map metadata (MySQL `calc_field_size`,
libs/mysql/binlog/event/binary_log_funcs.cpp).
"""

from typing import Any

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import column_types as t
from binlog_merge.binlog.kernels.memory import u16

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
