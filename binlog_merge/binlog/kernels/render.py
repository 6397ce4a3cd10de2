"""Rewrite a transaction's events into the merged log: frame, rename, renumber, reshape, checksum.

The kernel reads branches from one buffer and writes whole transactions into another. It decides nothing about schemas:
every table map it meets must have a *plan* (see `Plans`), looked up by the table map's own bytes and confirmed byte by
byte; an unknown one stops it. It also stops where the output buffer is full and at row events that only Python can
rewrite. The reason is its return value.

A transaction in the output, as MySQL writes one:

    GTID | QUERY BEGIN | ROWS_QUERY "# CTS::<54 digits>" | { TABLE_MAP | rows ... } of each branch | XID
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels.cells import cell_length
from binlog_merge.binlog.kernels.crc32 import crc32
from binlog_merge.binlog.kernels.memory import (
    copy,
    hash_bytes,
    put_u48,
    same_bytes,
    store_16,
    store_32,
    store_64,
    u16,
    u32,
    u48,
)

# Why the kernel stopped.
(
    FINISHED,  # all segments are written
    FULL,  # the transaction that is open does not fit the output buffer any more
    NEW_PLAN,  # no plan for the table map at IN
    SLOW,  # the rows event at IN is for Python: its new body goes into `inject`
    DDL_NEXT,  # the next transaction is a DDL, for Python to write
    OTHER_LENGTH,  # the transaction's length needs another width than guessed: restart it
    NOT_WHOLE,  # the event at IN is not whole in its segment
    BAD_CHECKSUM,
    NO_TABLE_MAP,
    BAD_ROWS,  # a row image contradicts its table map
    TOO_MANY_TABLES,
) = range(11)

# Registers.
(
    SEGMENT,  # the segment being read
    IN,  # offset of the next event in the source buffer; -1: the segment is not begun
    OUT,  # offset behind what is written
    FILE_BASE,  # file position of out[0]
    SERVER_ID,
    SERVER_VERSION,
    ANONYMOUS,
    RANK,  # of the next transaction
    SEQUENCE,  # sequence_number of the next transaction in this file
    TXN_OUT,  # where the open transaction begins in the output
    TXN_SEGMENT,
    TIMESTAMP,
    LENGTH_WIDTH,  # bytes of the packed transaction length; 0: to be guessed
    LAST_ROWS,  # the last rows event of the open statement in the output, or -1
    N_MAPS,
    INJECT,  # > 0: the rows event at IN has this new body, in `inject`
    EVENTS,
    ROW_EVENTS,
    RESHAPED_ROWS,
    BYTES_OUT,
    SAVED_EVENTS,
    SAVED_ROW_EVENTS,
    SAVED_RESHAPED,
    PLAN,  # of the event that stopped the kernel
) = range(24)
REGISTERS = 32

# Columns of `Plans.plans`.
(
    KIND,
    TABLE_ID,
    BODY,  # offset in `bytes` of the output table map's body behind table id and flags
    BODY_LENGTH,
    PHYSICAL,  # column count
    LOGICAL,
    SHAPE,  # offset in `shapes`: physical (type, meta) pairs, then logical (source, pad offset, pad length) triples
    PADS_LENGTH,  # of all pads together
    PLAN_COLUMNS,
) = range(9)
DROP, IDENTITY, RESHAPE, SLOWLY = range(4)

MAX_COLUMNS = 4096
MAX_MAPS = 65536

# Columns of a window's segments.
S_POS, S_END, S_CRC, S_NODE, S_FIRST, S_LAST, S_DDL, S_BYTES, S_COLUMNS = range(9)
# S_BYTES: input bytes of the whole transaction, on its first segment.
K_TSO, K_TRANSACTION, K_SEQ, K_NODE, K_COMMIT_US, K_COLUMNS = range(6)


class Plans(NamedTuple):
    """What to do with each table map met: `index` is an open-addressing table by its bytes, `plans` the
    instructions.
    """

    index: Any  # int64[n, 5]: hash, offset of the key in `keys`, its length, plan + 1 (0: empty), node
    keys: Any  # uint8: table map bodies behind table id and flags
    plans: Any  # int64[n, PLAN_COLUMNS]
    bytes: Any  # uint8: output table map bodies and pad cells
    shapes: Any  # int64
    maps: Any  # int64[MAX_MAPS, 2]: (table id, plan) of the open branch
    cells: Any  # int64[MAX_COLUMNS, 2]: (offset, length) of a row's cells; length -1 NULL, -2 absent


def _text(word: str) -> Any:
    return np.frombuffer(word.encode(), np.uint8).copy()


_BEGIN, _CTS = _text("BEGIN"), _text("# CTS::")
FRAME = 512  # more than the events that frame a transaction take


@njit(inline="always")
def _header(out: Any, o: int, reg: Any, kind: int, length: int, flags: int) -> None:
    store_32(out, o, np.uint32(reg[TIMESTAMP]))
    out[o + 4] = kind
    store_32(out, o + 5, np.uint32(reg[SERVER_ID]))
    store_32(out, o + 9, np.uint32(length))
    store_32(out, o + 13, np.uint32((reg[FILE_BASE] + o + length) & 0xFFFFFFFF))
    store_16(out, o + 17, np.uint16(flags))
    store_32(out, o + length - 4, np.uint32(crc32(out, o, length - 4)))


@njit(cache=True)
def packed_width(length: int) -> int:
    """Return the bytes of a length-encoded integer (MySQL `net_length_size`)."""
    if length < 251:
        return 1
    if length < 65536:
        return 3
    if length < 16777216:
        return 4
    return 9


@njit(cache=True)
def length_width(rest: int) -> int:
    """Return the width of the packed length of a transaction that is `rest` bytes long without it."""
    width = 1
    while packed_width(rest + width) > width:
        width = packed_width(rest + width)
    return width


@njit(cache=True)
def write_gtid(out: Any, o: int, reg: Any, sid: Any, commit_us: int, length: int, width: int, flags: int) -> int:
    """Write the GTID event of a transaction `length` bytes long; returns the event's own length."""
    size = 19 + 49 + width + 4 + 4
    at = o + 19
    anonymous = reg[ANONYMOUS] != 0
    out[at] = flags
    for k in range(16):
        out[at + 1 + k] = 0 if anonymous else sid[k]
    store_64(out, at + 17, np.uint64(0 if anonymous else reg[RANK]))
    out[at + 25] = 2
    store_64(out, at + 26, np.uint64(reg[SEQUENCE] - 1))
    store_64(out, at + 34, np.uint64(reg[SEQUENCE]))
    put_u48(out, at + 42, commit_us)
    out[at + 48] = (commit_us >> 48) & 0x7F
    at += 49
    if width == 1:
        out[at] = length
    elif width == 3:
        out[at] = 252
        store_16(out, at + 1, np.uint16(length))
    elif width == 4:
        out[at] = 253
        store_16(out, at + 1, np.uint16(length & 0xFFFF))
        out[at + 3] = length >> 16
    else:
        out[at] = 254
        store_64(out, at + 1, np.uint64(length))
    store_32(out, at + width, np.uint32(reg[SERVER_VERSION]))
    _header(out, o, reg, 34 if anonymous else 33, size, 0)
    return size


@njit(inline="always")
def _digits(out: Any, at: int, value: int, count: int) -> int:
    for k in range(count):
        out[at + count - 1 - k] = 48 + value % 10
        value //= 10
    return at + count


@njit(cache=True)
def begin_transaction(out: Any, reg: Any, sid: Any, key: Any, width: int) -> None:
    """Write GTID (its length still unknown), BEGIN and the CTS text of the transaction with this key at OUT."""
    o = reg[OUT]
    reg[TXN_OUT], reg[LENGTH_WIDTH] = o, width
    reg[TIMESTAMP] = key[K_COMMIT_US] // 1000000
    reg[SAVED_EVENTS], reg[SAVED_ROW_EVENTS], reg[SAVED_RESHAPED] = reg[EVENTS], reg[ROW_EVENTS], reg[RESHAPED_ROWS]
    reg[LAST_ROWS] = -1
    o += write_gtid(out, o, reg, sid, key[K_COMMIT_US], 0, width, 0)
    for k in range(13 + 1):
        out[o + 19 + k] = 0
    copy(out, o + 19 + 14, _BEGIN, 0, 5)
    _header(out, o, reg, 2, 19 + 14 + 5 + 4, 8)
    o += 19 + 14 + 5 + 4
    text = len(_CTS) + 54
    out[o + 19] = text
    copy(out, o + 20, _CTS, 0, len(_CTS))
    at = _digits(out, o + 20 + len(_CTS), key[K_TSO], 19)
    at = _digits(out, at, key[K_TRANSACTION], 19)
    at = _digits(out, at, key[K_SEQ], 10)
    _digits(out, at, key[K_NODE], 6)
    _header(out, o, reg, 29, 20 + text + 4, 0x80)
    reg[OUT] = o + 20 + text + 4


@njit(cache=True)
def end_transaction(out: Any, reg: Any) -> None:
    """Write the XID event at OUT; the GTID event is written again by the caller, with the length now known."""
    o = reg[OUT]
    store_64(out, o + 19, np.uint64(reg[RANK]))
    _header(out, o, reg, 16, 31, 0)
    reg[OUT] = o + 31
    reg[EVENTS] += 4


@njit(cache=True)
def _find_plan(p: Plans, b: Any, at: int, length: int, node: int) -> int:
    h = hash_bytes(b, at, length, node)
    mask = len(p.index) - 1
    slot = h & mask
    while p.index[slot, 3] != 0:
        if (
            p.index[slot, 0] == h
            and p.index[slot, 4] == node
            and p.index[slot, 2] == length
            and same_bytes(p.keys, p.index[slot, 1], b, at, length)
        ):
            return p.index[slot, 3] - 1
        slot = (slot + 1) & mask
    return -1


@njit(cache=True)
def plan_hash(key: Any, node: int) -> int:
    """Return the hash under which the kernel looks a plan up."""
    return hash_bytes(key, 0, len(key), node)


@njit(inline="always")
def _bit(b: Any, at: int, i: int) -> bool:
    return (b[at + (i >> 3)] >> (i & 7)) & 1 == 1


@njit(cache=True)
def _reshape(p: Plans, plan: Any, b: Any, at: int, end: int, kind: int, out: Any, o: int) -> Any:
    """Rewrite the row images of `b[at:end]` (a rows event behind its extra data) to `out[o]`; returns (new offset,
    rows).

    A negative offset says why not: -1 the images contradict the plan, -2 the output is too small.
    """
    physical, logical, shape = plan[PHYSICAL], plan[LOGICAL], plan[SHAPE]
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
    is_update, is_write = kind in (24, 31), kind in (23, 30)
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
    in_count, out_count = np.zeros(2, np.int64), np.zeros(2, np.int64)
    for image in range(images):
        base, out_base = present + image * bitmap, out_present + image * out_bitmap
        for c in range(physical):
            if _bit(b, base, c):
                in_count[image] += 1
        full = in_count[image] == physical
        for c in range(out_bitmap):
            out[out_base + c] = 0
        for c in range(logical):
            origin = shapes[source + 3 * c]
            # What is absent stays absent. A column that this node lacks is given where the image is whole, and always
            # in an INSERT, which must say what every column becomes.
            if (origin >= 0 and _bit(b, base, origin)) or (origin < 0 and (full or is_write)):
                out[out_base + (c >> 3)] |= 1 << (c & 7)
                out_count[image] += 1
    at += bitmap * images
    o += out_bitmap * images
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
                if not _bit(b, base, c):
                    cells[c, 1] = -2
                    continue
                if _bit(b, nulls, n):
                    cells[c, 1] = -1
                else:
                    size = cell_length(b, at, end, shapes[shape + 2 * c], shapes[shape + 2 * c + 1])
                    if size < 0:
                        return -1, 0
                    cells[c, 0], cells[c, 1] = at, size
                    at += size
                n += 1
            null_bytes = (out_count[image] + 7) >> 3
            if o + (at - start) + plan[PADS_LENGTH] + null_bytes + 8 > len(out):
                return -2, 0
            out_nulls = o
            for c in range(null_bytes):
                out[o + c] = 0
            o += null_bytes
            n = 0
            for c in range(logical):
                if not _bit(out, out_base, c):
                    continue
                origin = shapes[source + 3 * c]
                if origin >= 0:
                    size = cells[origin, 1]
                    if size >= 0:
                        copy(out, o, b, cells[origin, 0], size)
                        o += size
                else:
                    size = shapes[source + 3 * c + 2]
                    if size >= 0:
                        copy(out, o, p.bytes, shapes[source + 3 * c + 1], size)
                        o += size
                if size < 0:
                    out[out_nulls + (n >> 3)] |= 1 << (n & 7)
                n += 1
        rows += 1
    return o, rows


@njit(inline="always")
def _statement_ends(out: Any, reg: Any) -> None:
    """Mark the last rows event written as the end of its statement, whose real end is not written."""
    o = reg[LAST_ROWS]
    out[o + 25] |= 1
    length = u32(out, o + 9)
    store_32(out, o + length - 4, np.uint32(crc32(out, o, length - 4)))
    reg[LAST_ROWS] = -1


@njit(cache=True, nogil=True)
def render_events(reg: Any, p: Plans, b: Any, end: int, crc: int, node: int, out: Any, inject: Any) -> int:
    """Write the table maps and rows of `b[reg[IN]:end]`; FINISHED, or why it stopped."""
    while reg[IN] < end:
        i, o = reg[IN], reg[OUT]
        if i + 19 > end:
            return NOT_WHOLE
        length = u32(b, i + 9)
        if length < 19 + crc or i + length > end:
            return NOT_WHOLE
        if crc and crc32(b, i, length - 4) != np.uint32(u32(b, i + length - 4)):
            return BAD_CHECKSUM
        kind = np.int64(b[i + 4])
        at, body_end = i + 19, i + length - crc
        if kind == 19:
            if body_end - at < 10:
                return BAD_ROWS
            plan_at = _find_plan(p, b, at + 8, body_end - at - 8, node)
            if plan_at < 0:
                return NEW_PLAN
            if reg[N_MAPS] >= len(p.maps):
                return TOO_MANY_TABLES
            plan = p.plans[plan_at]
            if plan[KIND] != DROP:
                size = 19 + 8 + plan[BODY_LENGTH] + 4
                if o + size + FRAME > len(out):
                    return FULL
                put_u48(out, o + 19, plan[TABLE_ID])
                store_16(out, o + 25, np.uint16(u16(b, at + 6)))
                copy(out, o + 27, p.bytes, plan[BODY], plan[BODY_LENGTH])
                _header(out, o, reg, 19, size, 0)
                reg[OUT] = o + size
                reg[EVENTS] += 1
            p.maps[reg[N_MAPS], 0], p.maps[reg[N_MAPS], 1] = u48(b, at), plan_at
            reg[N_MAPS] += 1
        elif 30 <= kind <= 32 or 23 <= kind <= 25 or kind == 39:
            extra = 8
            if kind >= 30:
                if body_end - at < 10:
                    return BAD_ROWS
                extra = 8 + u16(b, at + 8)
            if body_end - at < extra or extra < 8:
                return BAD_ROWS
            table_id, flags = u48(b, at), u16(b, at + 6)
            plan_at = np.int64(-1)
            k = reg[N_MAPS] - 1
            while k >= 0:
                if p.maps[k, 0] == table_id:
                    plan_at = p.maps[k, 1]
                    break
                k -= 1
            if plan_at < 0 and table_id != 0xFFFFFF:
                return NO_TABLE_MAP
            if plan_at < 0 or p.plans[plan_at, KIND] == DROP:
                if flags & 1 and reg[LAST_ROWS] >= 0:
                    _statement_ends(out, reg)
            else:
                plan = p.plans[plan_at]
                reg[PLAN] = plan_at
                if plan[KIND] == IDENTITY:
                    size = length - crc + 4
                    if o + size + FRAME > len(out):
                        return FULL
                    copy(out, o + 19, b, at, body_end - at)
                    put_u48(out, o + 19, plan[TABLE_ID])
                elif reg[INJECT] > 0 or plan[KIND] == SLOWLY or kind == 39:
                    if reg[INJECT] == 0:
                        return SLOW
                    size = 19 + reg[INJECT] + 4
                    if o + size + FRAME > len(out):
                        return FULL
                    copy(out, o + 19, inject, 0, reg[INJECT])
                    reg[INJECT] = 0
                else:
                    if o + 19 + extra + FRAME > len(out):
                        return FULL
                    copy(out, o + 19, b, at, extra)
                    put_u48(out, o + 19, plan[TABLE_ID])
                    new_end, rows = _reshape(p, plan, b, at + extra, body_end, kind, out, o + 19 + extra)
                    if new_end == -1:
                        return BAD_ROWS
                    if new_end == -2 or new_end + FRAME > len(out):
                        return FULL
                    size = new_end + 4 - o
                    reg[RESHAPED_ROWS] += rows
                _header(out, o, reg, kind, size, 0)
                reg[OUT] = o + size
                reg[LAST_ROWS] = -1 if flags & 1 else o
                reg[EVENTS] += 1
                reg[ROW_EVENTS] += 1
        reg[IN] = i + length
    return FINISHED


@njit(cache=True, nogil=True)
def render_window(reg: Any, p: Plans, b: Any, segments: Any, keys: Any, sid: Any, out: Any, inject: Any) -> int:
    """Write the transactions of a window, whose branches lie in `b` as `segments` say; FINISHED, or why it stopped.

    After FULL and OTHER_LENGTH the open transaction is undone: the registers stand at its beginning.
    """
    while reg[SEGMENT] < len(segments):
        s = segments[reg[SEGMENT]]
        key = keys[reg[SEGMENT]]
        if reg[IN] < 0:
            if s[S_FIRST]:
                if s[S_DDL]:
                    return DDL_NEXT
                if reg[OUT] + 2 * FRAME > len(out):
                    reg[TXN_OUT] = reg[OUT]
                    return FULL
                width = reg[LENGTH_WIDTH]
                if width == 0:
                    width = packed_width(s[S_BYTES] + 200)
                reg[TXN_SEGMENT] = reg[SEGMENT]
                begin_transaction(out, reg, sid, key, width)
            reg[IN] = s[S_POS]
            reg[N_MAPS] = 0
            reg[INJECT] = 0
        result = render_events(reg, p, b, s[S_END], s[S_CRC], s[S_NODE], out, inject)
        if result == FULL:
            _undo(reg)
            reg[LENGTH_WIDTH] = 0
            return FULL
        if result != FINISHED:
            return result
        if s[S_LAST]:
            end_transaction(out, reg)
            length = reg[OUT] - reg[TXN_OUT]
            width = length_width(length - reg[LENGTH_WIDTH])
            if width != reg[LENGTH_WIDTH]:
                _undo(reg)
                reg[LENGTH_WIDTH] = width
                continue
            write_gtid(out, reg[TXN_OUT], reg, sid, key[K_COMMIT_US], length, width, 0)
            reg[RANK] += 1
            reg[SEQUENCE] += 1
            reg[LENGTH_WIDTH] = 0
        reg[SEGMENT] += 1
        reg[IN] = -1
    return FINISHED


@njit(inline="always")
def _undo(reg: Any) -> None:
    reg[SEGMENT], reg[OUT], reg[IN] = reg[TXN_SEGMENT], reg[TXN_OUT], -1
    reg[EVENTS], reg[ROW_EVENTS], reg[RESHAPED_ROWS] = reg[SAVED_EVENTS], reg[SAVED_ROW_EVENTS], reg[SAVED_RESHAPED]
    reg[INJECT] = 0
    reg[LAST_ROWS] = -1
