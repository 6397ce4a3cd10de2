"""Finds the rows events to look at before rendering (for a filter, for keys), and rewrites them to logical columns.

The walk is that of `kernels.render`: table maps are looked up in the same plans, and are valid as long. Any irregular
event ends it; rendering reports the error when it gets there.
"""

from typing import Any

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels import types as t
from binlog_merge.binlog.kernels.memory import copy, put_u48, u16, u32, u48
from binlog_merge.binlog.kernels.render import find_map, find_plan
from binlog_merge.binlog.kernels.reshape import reshape_rows


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
