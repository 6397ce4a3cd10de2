"""Decodes whole row images of many events in one pass, to the buffers of Arrow arrays: no cell is looked at twice.

What happens to each column is in `steps`; `programs` says which of them are those of a side, without and with NULLs:
in images without NULLs, adjacent columns that nobody wants are one step. The buffers of all columns are in `out`;
where, and what was found in a column, is in `places`. The plain twins are `binlog.rows.split_rows` and
`binlog.decode.decode_cell`.
"""

from typing import Any

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import types as t
from binlog_merge.binlog.kernels.column_values import number_of
from binlog_merge.binlog.kernels.image_cells import (
    ASCII,
    CELL,
    COPY,
    DATETIME,
    DECIMAL,
    F_BYTES,
    F_NULLS,
    F_ODD,
    F_TEXT,
    FULL,
    IRREGULAR,
    NUMBER,
    O_END,
    O_NULLS,
    O_OFFSETS,
    O_VALUES,
    OTHER,
    P_FIRST,
    P_FIRST_NULL,
    P_LAST,
    P_LAST_NULL,
    PLACE,
    S_BEFORE,
    S_COLUMN,
    S_KIND,
    S_META,
    S_MOST,
    S_OP,
    S_PAD,
    S_PREFIX,
    S_SIGNED,
    S_SIZE,
    S_WIDTH,
    SKIP,
    STEP,
    TEXT,
    UTF8,
    any_null,
    clear,
    copy_text,
    datetime,
    decimal,
    field,
    is_null,
    prefixed,
    put,
    store,
    whole_images,
)
from binlog_merge.binlog.kernels.memory import (
    load_16,
    load_32,
    load_64,
    store_8,
    store_16,
    store_32,
    store_64,
    trailing_zeros,
    u8,
    u32,
)


@njit(cache=True, nogil=True, _nrt=False)
def measure(b: Any, events: Any, columns: int, steps: Any, programs: Any, texts: Any) -> int:
    """Return how many rows events (body, end, kind) have; `texts[side, column]` become the bytes of the cells.

    IRREGULAR if an event is malformed, or has images without some columns.
    """
    row = np.int64(0)
    bitmap = (columns + 7) >> 3
    for i in range(len(events)):
        end, kind = events[i, 1], events[i, 2]
        at = whole_images(b, events[i, 0], end, kind, columns)
        if at < 0:
            return IRREGULAR
        images = 2 if t.is_whole_update(kind) else 1
        first_side = 1 if t.is_write(kind) else 0
        while at < end:
            for image in range(images):
                nulls = at
                at += bitmap
                if at > end:
                    return IRREGULAR
                some = any_null(b, nulls, columns)
                first, last = programs[P_FIRST], programs[P_LAST]
                if some:
                    first, last = programs[P_FIRST_NULL], programs[P_LAST_NULL]
                for s in range(first, last):
                    step = s * STEP
                    at += field(steps, step, S_BEFORE)
                    column, prefix = field(steps, step, S_COLUMN), field(steps, step, S_PREFIX)
                    if some and column >= 0 and is_null(b, nulls, column):
                        continue
                    at += field(steps, step, S_SIZE) + prefix
                    if at > end:
                        return IRREGULAR
                    if prefix > 0:
                        size = prefixed(b, at - prefix, prefix)
                        texts[first_side + image, column] += max(size, field(steps, step, S_PAD))
                        at += size
                if at > end:
                    return IRREGULAR
            row += 1
    return row


@njit(cache=True, nogil=True, _nrt=False)
def decode(
    b: Any, events: Any, columns: int, steps: Any, programs: Any, places: Any, room: int, there: Any, out: Any,
    counts: Any, missing: Any, days: Any,
) -> int:  # fmt: skip
    """Decode the rows of events (body, end, kind), at most `room`; return their number, IRREGULAR or FULL.

    `counts` become the rows of each event, `missing[side]` the number of rows that lack a side, whose bitmap is at
    `there[side]`. The bytes of bitmaps and of lengths of cells are 255 before, those of values and offsets 0.
    """
    row = np.int64(0)
    bitmap = (columns + 7) >> 3
    most = len(b) - 8
    for i in range(len(events)):
        end, kind = events[i, 1], events[i, 2]
        at = whole_images(b, events[i, 0], end, kind, columns)
        if at < 0:
            return IRREGULAR
        is_update = t.is_whole_update(kind)
        images = 2 if is_update else 1
        first_side = 1 if t.is_write(kind) else 0
        begun = row
        while at < end:
            if row >= room:
                return FULL
            for image in range(images):
                side = first_side + image
                side_place = side * columns * PLACE
                nulls = at
                at += bitmap
                if at > end:
                    return IRREGULAR
                some = any_null(b, nulls, columns)
                first, last = programs[side, P_FIRST], programs[side, P_LAST]
                if some:
                    first, last = programs[side, P_FIRST_NULL], programs[side, P_LAST_NULL]
                for s in range(first, last):
                    step = s * STEP
                    at += field(steps, step, S_BEFORE)
                    column = field(steps, step, S_COLUMN)
                    op = field(steps, step, S_OP)
                    place = side_place + column * PLACE
                    if some and column >= 0 and is_null(b, nulls, column):
                        if op != SKIP:
                            put(places, place, F_NULLS, field(places, place, F_NULLS) + 1)
                            clear(out, field(places, place, O_NULLS), row)
                        continue
                    size, prefix = field(steps, step, S_SIZE), field(steps, step, S_PREFIX)
                    if at + size + prefix > end:
                        return IRREGULAR
                    if prefix > 0:
                        size = prefixed(b, at, prefix)
                        if size > field(steps, step, S_MOST) or at + prefix + size > end:
                            return IRREGULAR
                    if op == COPY:
                        to = field(places, place, O_VALUES) + row * size
                        if size == 8:
                            store_64(out, to, load_64(b, at))
                        elif size == 4:
                            store_32(out, to, load_32(b, at))
                        elif size == 2:
                            store_16(out, to, load_16(b, at))
                        else:
                            store_8(out, to, np.uint8(u8(b, at)))
                    elif op == TEXT:
                        text = at + prefix
                        begin = field(places, place, F_BYTES)
                        padded = max(size, field(steps, step, S_PAD))
                        to = field(places, place, O_VALUES) + begin
                        if to + padded > field(places, place, O_END):
                            return FULL
                        if size > 0 and u8(b, text) & 0xC0 == 0x80:
                            put(places, place, F_ODD, np.int64(1))
                        copy_text(b, text, size, out, to)
                        for pad in range(size, padded):
                            store_8(out, to + pad, np.uint8(0))
                        store_32(out, field(places, place, O_OFFSETS) + 4 * row + 4, np.uint32(begin + padded))
                        put(places, place, F_BYTES, begin + padded)
                    elif op == DATETIME:
                        value, good = datetime(b, at, field(steps, step, S_META), most, days)
                        if not good:
                            put(places, place, F_ODD, np.int64(1))
                        store_64(out, field(places, place, O_VALUES) + 8 * row, np.uint64(value))
                    elif op == DECIMAL:
                        value, good = decimal(b, at, steps, step, most)
                        if not good:
                            put(places, place, F_ODD, np.int64(1))
                        to = field(places, place, O_VALUES) + 16 * row
                        store_64(out, to, np.uint64(value))
                        store_64(out, to + 8, np.uint64(value >> 63))
                    elif op == NUMBER:
                        kind_of, signed = field(steps, step, S_KIND), field(steps, step, S_SIGNED) != 0
                        value, good = number_of(b, at, size, kind_of, field(steps, step, S_META), signed)
                        if not good:
                            put(places, place, F_ODD, np.int64(1))
                        width = field(steps, step, S_WIDTH)
                        store(out, field(places, place, O_VALUES) + row * width, width, value)
                    elif op == CELL:
                        store_32(out, field(places, place, O_VALUES) + 4 * row, np.uint32(at))
                        store_32(out, field(places, place, O_OFFSETS) + 4 * row, np.uint32(prefix + size))
                    at += prefix + size
            row += 1
        counts[i] = row - begun
        if not is_update:
            side = 1 - first_side
            missing[side] += row - begun
            for gone in range(begun, row):
                clear(out, there[side], gone)
    return row


@njit(cache=True, nogil=True, _nrt=False)
def finish_texts(columns: int, steps: Any, programs: Any, places: Any, rows: int, missing: Any, out: Any) -> int:
    """Complete the offsets of texts, and tell what the texts are; return the number of columns with texts.

    A text's end is the greatest so far, and 0 where there is no text: it becomes that of the row before.
    """
    count = 0
    for side in range(2):
        for s in range(programs[side, P_FIRST_NULL], programs[side, P_LAST_NULL]):
            step = s * STEP
            if field(steps, step, S_OP) != TEXT:
                continue
            count += 1
            place = (side * columns + field(steps, step, S_COLUMN)) * PLACE
            offsets, begin = field(places, place, O_OFFSETS), field(places, place, O_VALUES)
            size = field(places, place, F_BYTES)
            if missing[side] + field(places, place, F_NULLS) > 0:
                before = np.uint32(0)
                for row in range(1, rows + 1):
                    before = max(before, load_32(out, offsets + 4 * row))
                    store_32(out, offsets + 4 * row, before)
            if field(steps, step, S_META) != 0:
                put(places, place, F_TEXT, _texts_are(out, begin, begin + size))
            else:
                put(places, place, F_ODD, np.int64(0))
    return count


@njit(cache=True, nogil=True, _nrt=False)
def _texts_are(b: Any, at: int, end: int) -> int:
    """Return whether `b[at:end]` is ASCII, UTF-8, or neither; SLACK bytes behind it may be read.

    UTF-8 is that of RFC 3629: no surrogates, nothing longer than it need be, nothing above U+10FFFF.
    """
    kind = ASCII
    high = np.uint64(0x8080808080808080)
    while at < end:
        more = load_64(b, at) & high
        if more == 0:
            at += 8
            continue
        at += np.int64(trailing_zeros(more)) >> 3
        if at >= end:
            break
        kind = UTF8
        c = u32(b, at)
        if c & 0xC0E0 == 0x80C0:
            if c & 0x1E == 0:
                return OTHER
            at += 2
        elif c & 0xC0C0F0 == 0x8080E0:
            first = c & 0x200F
            if first == 0 or first == 0x200D:
                return OTHER
            at += 3
        elif c & 0xC0C0C0F8 == 0x808080F0:
            lead, rest = c & 7, c & 0x3000
            if lead > 4 or (lead == 0 and rest == 0) or (lead == 4 and rest != 0):
                return OTHER
            at += 4
        else:
            return OTHER
        if at > end:
            return OTHER
    return kind
