"""Makes rows events of some rows of others: in their order, or undoing them, last row first and with images swapped.

Images are copied, no cell is looked into. The rows are cut already (`row_cells`).

    events   R_*: an event's bytes and type, its rows in the cut ones, its chosen rows; where the rows begin, its head
    heads    H_*: what stands before the rows of a new event, in `texts`, and the bytes of the bitmaps of old images
"""

from typing import Any

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import types as t
from binlog_merge.binlog.kernels.memory import copy, same_bytes
from binlog_merge.binlog.kernels.row_lengths import bitmaps_begin

R_BODY, R_END, R_KIND, R_FIRST, R_LAST, R_FROM, R_TO, R_ROWS, R_HEAD = range(9)
R_COLUMNS = 9
H_BEGIN, H_LENGTH, H_BEFORE, H_AFTER = range(4)
H_COLUMNS = 4
NOT_HERE = -1
"""The value of H_LENGTH for events that the caller makes."""


@njit(cache=True, nogil=True, _nrt=False)
def find_heads(b: Any, events: Any, columns: int, found: Any) -> int:
    """Write R_ROWS and R_HEAD of events that have been cut; return how many heads there are, each different.

    `found` gets the number of an event for each head, and has room for one an event.
    """
    count = np.int64(0)
    for i in range(len(events)):
        body, end, kind = events[i, R_BODY], events[i, R_END], events[i, R_KIND]
        images = 2 if t.is_whole_update(kind) else 1
        rows = bitmaps_begin(b, body, end, kind, columns) + images * ((columns + 7) >> 3)
        number = count - 1
        while number >= 0:
            other = found[number]
            begin, size = events[other, R_BODY], rows - body
            if (
                events[other, R_KIND] == kind
                and events[other, R_ROWS] - begin == size
                and same_bytes(b, begin, b, body, size)
            ):
                break
            number -= 1
        if number < 0:
            number = count
            found[number] = i
            count += 1
        events[i, R_ROWS], events[i, R_HEAD] = rows, number
    return count


@njit(inline="always")
def _last_end(starts: Any, sizes: Any, side: int, row: int) -> int:
    """Return where the last cell of an image ends, 0 if none has bytes."""
    end = np.int64(0)
    for c in range(sizes.shape[1]):
        if sizes[side, c, row] >= 0:
            end = max(end, np.int64(starts[side, c, row]) + np.int64(sizes[side, c, row]))
    return end


@njit(cache=True, nogil=True, _nrt=False)
def find_extents(starts: Any, sizes: Any, events: Any, heads: Any, chosen: Any, extents: Any, lengths: Any) -> int:
    """Write (begin, end of the first image, end) of each chosen row, and the length of each new event.

    An image ends with its last cell that has bytes, and with its bitmap if none has. Returns -1, or the number of an
    event that its rows do not fill.
    """
    for i in range(len(events)):
        number, n = events[i, R_HEAD], events[i, R_FROM]
        at, length = events[i, R_ROWS], heads[number, H_LENGTH]
        for row in range(events[i, R_FIRST], events[i, R_LAST]):
            middle = max(at + heads[number, H_BEFORE], _last_end(starts, sizes, 0, row))
            stop = max(middle + heads[number, H_AFTER], _last_end(starts, sizes, 1, row))
            if n < events[i, R_TO] and chosen[n] == row:
                extents[n, 0], extents[n, 1], extents[n, 2] = at, middle, stop
                length += stop - at
                n += 1
            at = stop
        if at != events[i, R_END]:
            return i
        lengths[i] = length
    return -1


@njit(cache=True, nogil=True, _nrt=False)
def write_events(b: Any, events: Any, heads: Any, texts: Any, extents: Any, undo: bool, places: Any, out: Any) -> int:
    """Write the bodies of new events to their places in `out`; return how many they are."""
    count = np.int64(0)
    for i in range(len(events)):
        number = events[i, R_HEAD]
        length = heads[number, H_LENGTH]
        if length == NOT_HERE:
            continue
        o = places[i]
        copy(out, o, texts, heads[number, H_BEGIN], length)
        o += length
        first, last = events[i, R_FROM], events[i, R_TO]
        for n in range(last - first):
            if undo:
                begin, middle, end = extents[last - 1 - n, 0], extents[last - 1 - n, 1], extents[last - 1 - n, 2]
                copy(out, o, b, middle, end - middle)
                copy(out, o + end - middle, b, begin, middle - begin)
            else:
                begin, end = extents[first + n, 0], extents[first + n, 2]
                copy(out, o, b, begin, end - begin)
            o += end - begin
        count += 1
    return count
