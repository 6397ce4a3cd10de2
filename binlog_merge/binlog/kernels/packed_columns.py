"""Columns of integers in as few bytes as their values need, or the steps from one to the next: packed, and unpacked.

    layout[c]   L_*: what is taken off each value, or step; how many bytes each of them then has (0: all are the same);
                whether they are steps, and the value with which these begin; the least and the greatest value

The plain twin is in `tests/binlog/test_packed_columns.py`.
"""

from typing import Any

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels.memory import i64, store_8, store_16, store_32, store_64, u8, u16, u32

L_BASE, L_WIDTH, L_STEPS, L_FIRST, L_LEAST, L_MOST, L_FIELDS = range(7)


@njit(inline="always")
def _width(least: int, most: int) -> int:
    """Return how many bytes the distance of two numbers needs; it may be beyond the greatest signed number."""
    span = np.uint64(most) - np.uint64(least)
    if span == np.uint64(0):
        return 0
    if span < np.uint64(1 << 8):
        return 1
    if span < np.uint64(1 << 16):
        return 2
    return 4 if span < np.uint64(1 << 32) else 8


@njit(cache=True, nogil=True, _nrt=False)
def pack(columns: Any, layout: Any, out: Any) -> int:
    """Write the columns int64[k, n] to `out`, which has room for all of their bytes, and their layout; return the end.

    Steps wrap, as do the numbers that are taken off: what is right modulo 2^64 is right.
    """
    o, n = np.int64(0), columns.shape[1]
    for c in range(len(columns)):
        least = most = low = high = first = np.int64(0)
        if n > 0:
            first = least = most = columns[c, 0]
        if n > 1:
            low = high = columns[c, 1] - first
        for i in range(1, n):
            value = columns[c, i]
            step = value - columns[c, i - 1]
            least, most = min(least, value), max(most, value)
            low, high = min(low, step), max(high, step)
        width, narrow = _width(least, most), _width(low, high)
        steps = narrow < width
        base, begins = least, np.int64(0)
        if steps:
            base, begins, width = low, np.int64(1), narrow
        layout[c, L_BASE], layout[c, L_WIDTH], layout[c, L_STEPS], layout[c, L_FIRST] = base, width, steps, first
        layout[c, L_LEAST], layout[c, L_MOST] = least, most
        for i in range(begins, n if width else begins):
            value = columns[c, i]
            if steps:
                value -= columns[c, i - 1]
            above = np.uint64(value - base)
            if width == 1:
                store_8(out, o, np.uint8(above))
            elif width == 2:
                store_16(out, o, np.uint16(above))
            elif width == 4:
                store_32(out, o, np.uint32(above))
            else:
                store_64(out, o, above)
            o += width
    return o


@njit(cache=True, nogil=True, _nrt=False)
def unpack(b: Any, at: int, layout: Any, wanted: Any, out: Any) -> bool:
    """Write the columns whose numbers are `wanted`, in order, to int64[len(wanted), n]; return whether they are there.

    `b[at:]` has all columns of `layout`.
    """
    n, found = out.shape[1], np.int64(0)
    for c in range(len(layout)):
        width, base, steps = layout[c, L_WIDTH], layout[c, L_BASE], layout[c, L_STEPS] != 0 and n > 0
        stored = n - 1 if steps else n
        end = at + stored * width
        if width < 0 or width > 8 or end > len(b):
            return False
        if found == len(wanted) or wanted[found] != c:
            at = end
            continue
        value, begins = layout[c, L_FIRST], np.int64(0)
        if steps:
            out[found, 0], begins = value, np.int64(1)
        for i in range(begins, n):
            above = np.int64(0)
            if width == 1:
                above = u8(b, at)
            elif width == 2:
                above = u16(b, at)
            elif width == 4:
                above = u32(b, at)
            elif width == 8:
                above = i64(b, at)
            at += width
            value = base + above + (value if steps else np.int64(0))
            out[found, i] = value
        at = end
        found += 1
    return found == len(wanted)
