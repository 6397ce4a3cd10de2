"""Cuts the row images of many events into cells, column by column: the offset and the length of each cell.

    starts[side, column, row], sizes[side, column, row]     side 0: before, 1: after

A negative size is the reason for which there are no bytes: NULL, ABSENT (the image does not hold the column), NONE
(there is no such image). A cell includes its length prefix. The plain twin is `binlog.rows.split_rows`.
"""

from typing import Any, Final

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import types as t
from binlog_merge.binlog.kernels.memory import bit
from binlog_merge.binlog.kernels.row_lengths import bitmaps_begin, cell_length, string_length
from binlog_merge.binlog.kernels.types import VARCHAR

NULL: Final = -1
ABSENT: Final = -2
NONE: Final = -3
FIXED: Final = 1 << 16
"""What is added to a length that all cells of a column have, for the kernels to take it as the column's type."""


@njit(cache=True, nogil=True, _nrt=False)
def cut_rows(
    b: Any, body: int, end: int, kind: int, types: Any, metas: Any, starts: Any, sizes: Any, row: int, store: bool
) -> int:
    """Cut the rows of an event, the first of them as number `row`; return their count, -1 for a malformed event.

    Without `store` they are only counted. A column's type may be FIXED plus the length of all of its cells. Cells that
    an UPDATE's after image does not hold are those of its before image, if that holds them. Python must rewrite partial
    JSON events first.
    """
    columns = len(types)
    at = bitmaps_begin(b, body, end, kind, columns)
    if at < 0:
        return -1
    is_update = t.is_whole_update(kind)
    is_write = t.is_write(kind)
    bitmap = (columns + 7) >> 3
    present, images = at, 2 if is_update else 1
    at += bitmap * images
    first_side = 1 if is_write else 0
    counts0, counts1 = np.int64(0), np.int64(0)
    for c in range(columns):
        counts0 += bit(b, present, c)
        if is_update:
            counts1 += bit(b, present + bitmap, c)
    rows = np.int64(0)
    while at < end:
        begun, number = at, row + rows
        if store and not is_update:
            for c in range(columns):
                sizes[1 - first_side, c, number] = NONE
        for image in range(images):
            base, side = present + image * bitmap, first_side + image
            nulls = at
            held = counts0 if image == 0 else counts1
            at += (held + 7) >> 3
            if at > end:
                return -1
            n, bits = 0, np.int64(0)
            for c in range(columns):
                if held != columns and not bit(b, base, c):
                    if store:
                        sizes[side, c, number] = ABSENT
                        if image == 1:
                            sizes[1, c, number], starts[1, c, number] = sizes[0, c, number], starts[0, c, number]
                    continue
                if n & 7 == 0:
                    bits = np.int64(b[nulls + (n >> 3)])
                if (bits >> (n & 7)) & 1:
                    if store:
                        sizes[side, c, number] = NULL
                else:
                    kind = types[c]
                    if kind >= FIXED:
                        size = kind - FIXED
                        if at + size > end:
                            return -1
                    elif kind == VARCHAR:  # as `cell_length`, which asks for most other types first
                        size = string_length(b, at, end, metas[c])
                        if size < 0 or at + size > end:
                            return -1
                    else:
                        size = cell_length(b, at, end, kind, metas[c])
                        if size < 0:
                            return -1
                    if store:
                        starts[side, c, number] = at
                        sizes[side, c, number] = size
                    at += size
                n += 1
        if at == begun:
            return -1  # rows without columns cannot be counted
        rows += 1
    return rows


@njit(cache=True, nogil=True, _nrt=False)
def count_rows(b: Any, events: Any, types: Any, metas: Any, nothing: Any, counts: Any) -> int:
    """Count the rows of events (body, end, kind); return -1, or the index of the first malformed event.

    `nothing` is an unused array of the type of `starts` and `sizes`.
    """
    for i in range(len(events)):
        found = cut_rows(
            b, events[i, 0], events[i, 1], events[i, 2], types, metas, nothing, nothing, np.int64(0), False
        )
        if found < 0:
            return i
        counts[i] = found
    return -1


@njit(cache=True, nogil=True, _nrt=False)
def cut_events(b: Any, events: Any, types: Any, metas: Any, starts: Any, sizes: Any) -> int:
    """Cut the rows of events that `count_rows` has accepted; return their count."""
    row = np.int64(0)
    for i in range(len(events)):
        row += cut_rows(b, events[i, 0], events[i, 1], events[i, 2], types, metas, starts, sizes, row, True)
    return row


@njit(cache=True, nogil=True, _nrt=False)
def differing(b: Any, starts: Any, sizes: Any, column: int, out: Any) -> int:
    """Write for each row whether its cell before is not the one after; return how many differ.

    NULL equals NULL; a row without one of the images differs in all its columns.
    """
    count = 0
    for row in range(sizes.shape[2]):
        size = sizes[0, column, row]
        differs = size != sizes[1, column, row]
        if not differs:
            before, after = starts[0, column, row], starts[1, column, row]
            for i in range(max(size, 0)):
                if b[before + i] != b[after + i]:
                    differs = True
                    break
        out[row] = 1 if differs else 0
        count += 1 if differs else 0
    return count
