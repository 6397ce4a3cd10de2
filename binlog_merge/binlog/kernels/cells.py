"""Cell lengths in a row image, by column type and table-map metadata (MySQL `calc_field_size`,
libs/mysql/binlog/event/binary_log_funcs.cpp).
"""

from typing import Any

import numpy as np
from numba import njit

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
def _string_length(b: Any, at: int, end: int, most: int) -> int:
    """Return the length of a string that has at most so many bytes, with the one or two that tell it; -1: longer."""
    prefix = 1 if most < 256 else 2
    if at + prefix > end:
        return -1
    length = np.int64(b[at]) if prefix == 1 else u16(b, at)
    return prefix + length if length <= most else -1


@njit(cache=True, nogil=True, _nrt=False)
def cell_length(b: Any, at: int, end: int, kind: int, meta: int) -> int:
    """Return the length of the cell at `b[at]`, its length prefix included; -1 where it does not fit before `end` or
    the type is unknown.

    `meta` is the column's metadata as the little-endian number of its table-map bytes.
    """
    size = np.int64(-1)
    if kind == 3 or kind == 4:
        size = 4
    elif kind == 8 or kind == 5:
        size = 8
    elif kind == 1 or kind == 13:
        size = 1
    elif kind == 2:
        size = 2
    elif kind == 9 or kind == 10 or kind == 14 or kind == 11:
        size = 3
    elif kind == 7:
        size = 4
    elif kind == 12:
        size = 8
    elif kind == 15 or kind == 253:
        size = _string_length(b, at, end, meta)
    elif kind == 246:
        size = decimal_length(meta & 255, meta >> 8)
    elif kind == 18:
        size = 5 + (meta + 1) // 2
    elif kind == 17:
        size = 4 + (meta + 1) // 2
    elif kind == 19:
        size = 3 + (meta + 1) // 2
    elif kind == 252 or kind == 245 or kind == 255 or kind == 242 or 249 <= kind <= 251:
        prefix = meta
        if 1 <= prefix <= 4 and at + prefix <= end:
            size = np.int64(0)
            for k in range(prefix):
                size |= np.int64(b[at + k]) << (8 * k)
            size += prefix
    elif kind == 254:
        real, length = meta & 255, meta >> 8
        if real == 247 or real == 248:
            size = length
        else:
            if (real & 0x30) != 0x30:
                length |= ((real & 0x30) ^ 0x30) << 4
            size = _string_length(b, at, end, length)
    elif kind == 247 or kind == 248:
        size = meta >> 8
    elif kind == 16:
        size = (meta >> 8) + ((meta & 255) + 7) // 8
    elif kind == 6:
        size = 0
    if size < 0 or at + size > end:
        return -1
    return size
