"""Reshapes row images to the logical columns by moving cells; none is decoded.

The plain twin is `reshape.rows.reshape_rows`.
"""

from typing import Any

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels import types as t
from binlog_merge.binlog.kernels.memory import bit, copy, store_16, u16
from binlog_merge.binlog.kernels.row_lengths import cell_length


@njit(forceinline=True, _nrt=False)
def reshape_rows(p: k.Plans, plan: Any, b: Any, at: int, end: int, kind: int, out: Any, o: int) -> Any:
    """Rewrite the row images of `b[at:end]` (a rows event after its extra data) to `out[o]`; return (offset, rows).

    A negative offset is an error: -1 the images do not fit the plan, -2 the output is too small, -3 the event must be
    handled by Python.
    """
    physical, logical, shape = plan[k.PHYSICAL], plan[k.LOGICAL], plan[k.SHAPE]
    shapes, cells = p.shapes, p.cells
    source = shape + 2 * physical
    if at >= end:
        return -1, 0
    count = np.int64(b[at])
    at += 1
    if count == 252:
        if at + 2 > end:
            return -1, 0
        count = u16(b, at)
        at += 2
    if count != physical:
        return -1, 0
    bitmap, out_bitmap = (physical + 7) >> 3, (logical + 7) >> 3
    is_update, is_write = t.is_whole_update(kind), t.is_write(kind)
    images = 2 if is_update else 1
    if at + bitmap * images > end:
        return -1, 0
    if o + 3 + out_bitmap * images + 8 > len(out):
        return -2, 0
    if logical < 251:
        out[o] = logical
        o += 1
    else:
        out[o] = 252
        store_16(out, o + 1, np.uint16(logical))
        o += 3
    present, out_present = at, o
    # The numbers of columns in before and after images: stored after the cells, as nothing is allocated here.
    in_count, out_count = cells[k.MAX_COLUMNS], cells[k.MAX_COLUMNS + 1]
    in_count[0] = in_count[1] = out_count[0] = out_count[1] = 0
    for image in range(images):
        base, out_base = present + image * bitmap, out_present + image * out_bitmap
        for c in range(physical):
            if bit(b, base, c):
                in_count[image] += 1
        full = in_count[image] == physical
        told = np.int64(0)
        for c in range(out_bitmap):
            out[out_base + c] = 0
        for c in range(logical):
            origin = shapes[source + 3 * c]
            # What is absent stays absent. A column that this node lacks is given where the image is whole, and always
            # in an INSERT, which must say what every column becomes; one of the key also in every before image.
            tells = origin == k.TELLS and image == 0 and not is_write
            if (origin >= 0 and bit(b, base, origin)) or (origin < 0 and (full or is_write or tells)):
                out[out_base + (c >> 3)] |= 1 << (c & 7)
                out_count[image] += 1
                if not tells:
                    told += 1
        # A row told only by columns that the logical table lacks cannot be found there: Python says so.
        if in_count[image] > 0 and told == 0 and (image == 0 or not is_update):
            return -3, 0
    at += bitmap * images
    o += out_bitmap * images
    if in_count[0] == 0 and (not is_update or in_count[1] == 0) and at < end:
        return -1, 0  # rows of no columns take no bytes
    rows = 0
    while at < end:
        for image in range(images):
            base, out_base = present + image * bitmap, out_present + image * out_bitmap
            start = at
            nulls = at
            at += (in_count[image] + 7) >> 3
            if at > end:
                return -1, 0
            n = 0
            for c in range(physical):
                if not bit(b, base, c):
                    cells[c, 1] = -2
                    continue
                if bit(b, nulls, n):
                    cells[c, 1] = -1
                else:
                    size = cell_length(b, at, end, shapes[shape + 2 * c], shapes[shape + 2 * c + 1])
                    if size < 0:
                        return -1, 0
                    cells[c, 0], cells[c, 1] = at, size
                    at += size
                n += 1
            null_bytes = (out_count[image] + 7) >> 3
            if o + (at - start) + plan[k.PADS_LENGTH] + null_bytes + 8 > len(out):
                return -2, 0
            out_nulls = o
            for c in range(null_bytes):
                out[o + c] = 0
            o += null_bytes
            n = 0
            run = run_end = np.int64(0)  # cells that lie side by side are copied together
            for c in range(logical):
                if not bit(out, out_base, c):
                    continue
                origin = shapes[source + 3 * c]
                if origin >= 0:
                    size = cells[origin, 1]
                    if size >= 0:
                        if cells[origin, 0] != run_end:
                            copy(out, o, b, run, run_end - run)
                            o += run_end - run
                            run = cells[origin, 0]
                        run_end = cells[origin, 0] + size
                else:
                    copy(out, o, b, run, run_end - run)
                    o += run_end - run
                    run = run_end
                    size = shapes[source + 3 * c + 2]
                    if size >= 0:
                        copy(out, o, p.bytes, shapes[source + 3 * c + 1], size)
                        o += size
                if size < 0:
                    out[out_nulls + (n >> 3)] |= 1 << (n & 7)
                n += 1
            copy(out, o, b, run, run_end - run)
            o += run_end - run
        rows += 1
    return o, rows
