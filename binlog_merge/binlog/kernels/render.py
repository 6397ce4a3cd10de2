"""Rewrites a transaction's events into the merged log: frame, rename, renumber, reshape, checksum.

The kernel reads branches from one buffer and writes whole transactions into another. It decides nothing about schemas:
every table map must have a *plan* (see `Plans`), which is looked up by the table map's bytes and confirmed byte by
byte; it stops at an unknown one. It also stops when the output buffer is full, and at rows events that only Python can
rewrite. Its return value is the reason.

A transaction in the output, as MySQL writes one:

    GTID | QUERY BEGIN | ROWS_QUERY "# CTS::<54 digits>" | { TABLE_MAP | rows ... } of each branch | XID

Rows events that are to be looked at first (for a filter, for keys) are found by the same walk (`find_in_window`), and
rewritten to logical columns (`reshape_found`). Any irregular event ends it; rendering reports the error when
it gets there.
"""

from typing import Any

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels import types as t
from binlog_merge.binlog.kernels import writesets as w
from binlog_merge.binlog.kernels.crc32 import crc32
from binlog_merge.binlog.kernels.memory import copy, hash_bytes, put_u48, same_bytes, store_16, store_32, u16, u32, u48
from binlog_merge.binlog.kernels.reshape import reshape_rows
from binlog_merge.binlog.kernels.row_lengths import rows_fit
from binlog_merge.binlog.kernels.transaction_events import (
    begin_transaction,
    end_transaction,
    length_width,
    packed_width,
    write_gtid,
    write_header,
)


@njit(inline="always")
def _is_plan(p: k.Plans, slot: int, b: Any, at: int, length: int, node: int) -> bool:
    return (
        p.index[slot, 3] != 0
        and p.index[slot, 4] == node
        and p.index[slot, 2] == length
        and same_bytes(p.keys, p.index[slot, 1], b, at, length)
    )


@njit(forceinline=True, _nrt=False)
def find_plan(reg: Any, p: k.Plans, b: Any, at: int, length: int, node: int) -> int:
    """Return the plan of a table map, or -1. Maps of a table often come in runs, so the last slot is tried first."""
    if _is_plan(p, reg[k.LAST_SLOT], b, at, length, node):
        return p.index[reg[k.LAST_SLOT], 3] - 1
    h = hash_bytes(b, at, length, node)
    mask = len(p.index) - 1
    slot = h & mask
    while p.index[slot, 3] != 0:
        if p.index[slot, 0] == h and _is_plan(p, slot, b, at, length, node):
            reg[k.LAST_SLOT] = slot
            return p.index[slot, 3] - 1
        slot = (slot + 1) & mask
    return -1


@njit(cache=True)
def plan_hash(key: Any, node: int) -> int:
    """Return the hash by which the kernel looks up a plan."""
    return hash_bytes(key, 0, len(key), node)


@njit(forceinline=True, _nrt=False)
def find_map(reg: Any, p: k.Plans, table_id: int) -> int:
    """Return the index of the open branch's table map for a table id, or -1; the last map is tried first."""
    m = reg[k.N_MAPS] - 1
    while m >= 0 and p.maps[m, 0] != table_id:
        m -= 1
    return m


@njit(forceinline=True, _nrt=False)
def _statement_ends(out: Any, reg: Any) -> None:
    """Set STMT_END_F in the last rows event written, if the statement's real last rows event is not written."""
    o = reg[k.LAST_ROWS]
    out[o + 25] |= t.STMT_END
    length = u32(out, o + 9)
    store_32(out, o + length - 4, np.uint32(crc32(out, o, length - 4)))
    reg[k.LAST_ROWS] = -1


@njit(cache=True, nogil=True, _nrt=False)
def render_events(
    reg: Any, p: k.Plans, b: Any, end: int, crc: int, node: int, out: Any, inject: Any, d: w.Sets
) -> int:  # fmt: skip
    """Write the table maps and rows events of `b[reg[IN]:end]`; return FINISHED, or why it stopped."""
    while reg[k.IN] < end:
        i, o = reg[k.IN], reg[k.OUT]
        if i + 19 > end:
            return k.NOT_WHOLE
        length = u32(b, i + 9)
        if length < 19 + crc or i + length > end:
            return k.NOT_WHOLE
        if crc and crc32(b, i, length - 4) != np.uint32(u32(b, i + length - 4)):
            return k.BAD_CHECKSUM
        kind = np.int64(b[i + 4])
        at, body_end = i + 19, i + length - crc
        if kind == t.TABLE_MAP_EVENT:
            if body_end - at < 10:
                return k.BAD_ROWS
            plan_at = find_plan(reg, p, b, at + 8, body_end - at - 8, node)
            if plan_at < 0:
                return k.NEW_PLAN
            if reg[k.N_MAPS] >= len(p.maps):
                return k.TOO_MANY_TABLES
            plan = p.plans[plan_at]
            if plan[k.KIND] != k.DROP:
                size = 19 + 8 + plan[k.BODY_LENGTH] + 4
                if o + size + k.FRAME > len(out):
                    return k.FULL
                put_u48(out, o + 19, plan[k.TABLE_ID])
                store_16(out, o + 25, np.uint16(u16(b, at + 6)))
                copy(out, o + 27, p.bytes, plan[k.BODY], plan[k.BODY_LENGTH])
                write_header(out, o, reg, t.TABLE_MAP_EVENT, size, 0)
                reg[k.OUT] = o + size
                reg[k.EVENTS] += 1
                if reg[k.STATEMENT_OUT] < 0:
                    reg[k.STATEMENT_OUT], reg[k.STATEMENT_MAPS] = o, 0
                reg[k.STATEMENT_MAPS] += 1
            table_id = u48(b, at)
            m = find_map(reg, p, table_id)
            if m < 0:
                m = reg[k.N_MAPS]
                reg[k.N_MAPS] += 1
            p.maps[m, 0], p.maps[m, 1] = table_id, plan_at
        elif t.is_rows(kind):
            extra = 8
            if t.has_extra_data(kind):
                if body_end - at < 10:
                    return k.BAD_ROWS
                extra = 8 + u16(b, at + 8)
                if extra < 10:  # the length of the extra data counts itself
                    return k.BAD_ROWS
            if body_end - at < extra:
                return k.BAD_ROWS
            table_id, flags = u48(b, at), u16(b, at + 6)
            m = find_map(reg, p, table_id)
            plan_at = p.maps[m, 1] if m >= 0 else np.int64(-1)
            if plan_at < 0 and table_id != t.NO_TABLE:
                return k.NO_TABLE_MAP
            verdict = np.int64(k.KEPT)
            if plan_at >= 0 and p.plans[plan_at, k.ASKED] and reg[k.INJECT] == 0:
                verdict = np.int64(p.verdicts[i]) if i < len(p.verdicts) else np.int64(k.NOT_JUDGED)
            left_out = verdict == k.LEFT_OUT or reg[k.INJECT] == k.NOTHING
            if plan_at < 0 or p.plans[plan_at, k.KIND] == k.DROP or left_out:
                if left_out:
                    reg[k.INJECT], reg[k.FILTERED] = 0, 1
                if flags & t.STMT_END:
                    if reg[k.LAST_ROWS] >= 0:
                        _statement_ends(out, reg)
                    elif reg[k.FILTERED] and reg[k.STATEMENT_OUT] >= 0:
                        # Nothing is left of the statement: its table maps go too.
                        reg[k.OUT] = reg[k.STATEMENT_OUT]
                        reg[k.EVENTS] -= reg[k.STATEMENT_MAPS]
                    reg[k.STATEMENT_OUT], reg[k.FILTERED] = -1, 0
            else:
                plan = p.plans[plan_at]
                reg[k.PLAN] = plan_at
                if (crc == 0 or reg[k.CHECK_ROWS]) and not rows_fit(
                    b, at + extra, body_end, kind, p.shapes, plan[k.STEPS]
                ):
                    return k.BAD_ROWS
                if verdict != k.KEPT:
                    return k.SLOW
                if plan[k.KIND] == k.IDENTITY and reg[k.INJECT] == 0:
                    size = length - crc + 4
                    if o + size + k.FRAME > len(out):
                        return k.FULL
                    copy(out, o + 19, b, at, body_end - at)
                    put_u48(out, o + 19, plan[k.TABLE_ID])
                elif reg[k.INJECT] > 0 or plan[k.KIND] >= k.SLOWLY or kind == t.PARTIAL_UPDATE_ROWS_EVENT:
                    if reg[k.INJECT] == 0:
                        return k.SLOW
                    size = 19 + reg[k.INJECT] + 4
                    if o + size + k.FRAME > len(out):
                        return k.FULL
                    copy(out, o + 19, inject, 0, reg[k.INJECT])
                    reg[k.INJECT] = 0
                else:
                    if o + 19 + extra + k.FRAME > len(out):
                        return k.FULL
                    copy(out, o + 19, b, at, extra)
                    put_u48(out, o + 19, plan[k.TABLE_ID])
                    new_end, rows = reshape_rows(p, plan, b, at + extra, body_end, kind, out, o + 19 + extra)
                    if new_end == -1:
                        return k.BAD_ROWS
                    if new_end == -3:
                        return k.SLOW
                    if new_end == -2 or new_end + k.FRAME > len(out):
                        return k.FULL
                    size = new_end + 4 - o
                    reg[k.RESHAPED_ROWS] += rows
                table = plan[k.WRITESET] if d.reg[w.ON] else np.int64(0)
                if table and not w.take_rows(d, out, o + 19, o + size - 4, kind, table - 1):
                    return k.BAD_ROWS
                write_header(out, o, reg, kind, size, 0)
                reg[k.OUT] = o + size
                reg[k.LAST_ROWS] = -1 if flags & t.STMT_END else o
                reg[k.STATEMENT_OUT] = -1
                if flags & t.STMT_END:
                    reg[k.FILTERED] = 0
                reg[k.EVENTS] += 1
                reg[k.ROW_EVENTS] += 1
        reg[k.IN] = i + length
    return k.FINISHED


@njit(cache=True, nogil=True, _nrt=False)
def render_window(
    reg: Any, p: k.Plans, b: Any, segments: Any, keys: Any, sid: Any, out: Any, inject: Any, d: w.Sets
) -> int:  # fmt: skip
    """Write the transactions of a window, whose branches in `b` are the `segments`; return FINISHED, or why it stopped.

    After FULL and OTHER_LENGTH the open transaction is undone: the registers are as at its beginning.
    """
    while reg[k.SEGMENT] < len(segments):
        s = segments[reg[k.SEGMENT]]
        key = keys[reg[k.SEGMENT]]
        if reg[k.IN] < 0:
            if s[k.S_FIRST]:
                if s[k.S_DDL]:
                    return k.DDL_NEXT
                if reg[k.OUT] + 2 * k.FRAME > len(out):
                    reg[k.TXN_OUT] = reg[k.OUT]
                    return k.FULL
                width = reg[k.LENGTH_WIDTH]
                if width == 0:
                    width = packed_width(s[k.S_BYTES] + 200)
                reg[k.TXN_SEGMENT] = reg[k.SEGMENT]
                begin_transaction(out, reg, sid, key, width)
                if d.reg[w.ON]:
                    w.begun(d)
            reg[k.IN] = s[k.S_POS]
            reg[k.N_MAPS] = 0
            reg[k.INJECT] = 0
        result = render_events(reg, p, b, s[k.S_END], s[k.S_CRC], s[k.S_NODE], out, inject, d)
        if result == k.FULL:
            _undo(reg)
            reg[k.LENGTH_WIDTH] = 0
            return k.FULL
        if result != k.FINISHED:
            return result
        if s[k.S_LAST]:
            end_transaction(out, reg, key)
            length = reg[k.OUT] - reg[k.TXN_OUT]
            width = length_width(length - reg[k.LENGTH_WIDTH])
            if width != reg[k.LENGTH_WIDTH]:
                _undo(reg)
                reg[k.LENGTH_WIDTH] = width
                continue
            sequence = reg[k.SEQUENCE]
            last = w.ended(d, sequence, length) if d.reg[w.ON] else sequence - 1
            write_gtid(out, reg[k.TXN_OUT], reg, sid, key[k.K_COMMIT_US], length, width, np.int64(0), last)
            reg[k.RANK] += 1
            reg[k.SEQUENCE] += 1
            reg[k.LENGTH_WIDTH] = 0
        reg[k.SEGMENT] += 1
        reg[k.IN] = -1
    return k.FINISHED


@njit(inline="always")
def _undo(reg: Any) -> None:
    reg[k.SEGMENT], reg[k.OUT], reg[k.IN] = reg[k.TXN_SEGMENT], reg[k.TXN_OUT], -1
    reg[k.EVENTS], reg[k.ROW_EVENTS], reg[k.RESHAPED_ROWS] = (
        reg[k.SAVED_EVENTS],
        reg[k.SAVED_ROW_EVENTS],
        reg[k.SAVED_RESHAPED],
    )
    reg[k.INJECT] = reg[k.FILTERED] = 0
    reg[k.LAST_ROWS] = reg[k.STATEMENT_OUT] = -1


@njit(cache=True, nogil=True, _nrt=False)
def find_in_events(reg: Any, p: k.Plans, b: Any, end: int, crc: int, node: int, found: Any, column: int) -> int:
    """Find the rows events of `b[reg[IN]:end]` whose plan has `column` set, and count them in reg[ROW_EVENTS].

    Returns FINISHED, or why it stopped.
    """
    while reg[k.IN] < end:
        i = reg[k.IN]
        if i + 19 > end:
            return k.NOT_WHOLE
        length = u32(b, i + 9)
        if length < 19 + crc or i + length > end:
            return k.NOT_WHOLE
        kind = np.int64(b[i + 4])
        at, body_end = i + 19, i + length - crc
        is_rows = t.is_rows(kind)
        if (is_rows or kind == t.TABLE_MAP_EVENT) and body_end - at < 10:
            return k.BAD_ROWS
        if kind == t.TABLE_MAP_EVENT:
            plan_at = find_plan(reg, p, b, at + 8, body_end - at - 8, node)
            if plan_at < 0:
                return k.NEW_PLAN
            table_id = u48(b, at)
            m = find_map(reg, p, table_id)
            if m < 0:
                m = reg[k.N_MAPS]
                if m >= len(p.maps):
                    return k.TOO_MANY_TABLES
                reg[k.N_MAPS] += 1
            p.maps[m, 0], p.maps[m, 1] = table_id, plan_at
        elif is_rows:
            m = find_map(reg, p, u48(b, at))
            if m >= 0 and p.plans[p.maps[m, 1], column]:
                n = reg[k.ROW_EVENTS]
                if n == len(found):
                    return k.FULL
                found[n, k.F_EVENT], found[n, k.F_BODY], found[n, k.F_END] = i, at, body_end
                found[n, k.F_KIND], found[n, k.F_PLAN] = kind, p.maps[m, 1]
                found[n, k.F_SEGMENT] = reg[k.SEGMENT]
                reg[k.ROW_EVENTS] += 1
        reg[k.IN] = i + length
    return k.FINISHED


@njit(cache=True, nogil=True, _nrt=False)
def find_in_window(reg: Any, p: k.Plans, b: Any, segments: Any, found: Any, column: int) -> int:
    """Find such events in the segments of a window from reg[SEGMENT] on; returns FINISHED, or why it stopped."""
    while reg[k.SEGMENT] < len(segments):
        s = segments[reg[k.SEGMENT]]
        if not s[k.S_DDL]:
            if reg[k.IN] < 0:
                reg[k.IN], reg[k.N_MAPS] = s[k.S_POS], 0
            result = find_in_events(reg, p, b, s[k.S_END], s[k.S_CRC], s[k.S_NODE], found, column)
            if result != k.FINISHED:
                return result
        reg[k.SEGMENT] += 1
        reg[k.IN] = -1
    return k.FINISHED


@njit(cache=True, nogil=True, _nrt=False)
def reshape_found(p: k.Plans, b: Any, found: Any, out: Any, bodies: Any, rows: Any) -> int:
    """Write the bodies of the events found, with the logical columns, to `out`.

    `bodies` receives begin, end and type of each, `rows` its number of rows. Returns the number of events written: the
    next one does not fit, or must be handled by Python (its `rows` are -1).
    """
    o = np.int64(0)
    for n in range(len(found)):
        at, end, kind = found[n, k.F_BODY], found[n, k.F_END], found[n, k.F_KIND]
        plan = p.plans[found[n, k.F_PLAN]]
        extra = np.int64(8)
        if t.has_extra_data(kind):
            extra += u16(b, at + 8)
        rows[n] = -1
        if end - at < extra or (t.has_extra_data(kind) and extra < 10):
            return n
        if o + extra + k.FRAME > len(out):
            rows[n] = 0
            return n
        copy(out, o, b, at, extra)
        put_u48(out, o, plan[k.TABLE_ID])
        new_end, count = reshape_rows(p, plan, b, at + extra, end, kind, out, o + extra)
        if new_end < 0:
            rows[n] = 0 if new_end == -2 else -1
            return n
        bodies[n, 0], bodies[n, 1], bodies[n, 2], rows[n] = o, new_end, kind, count
        o = new_end
    return len(found)
