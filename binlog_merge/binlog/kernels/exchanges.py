"""Tells apart the transactions of several branches in which one branch may free a key's value that another one takes.

Nearly none does: their branches only insert, only delete, or update rows and leave the keys alone. Those are passed
over here, and the others looked at row by row (`pipeline.gather.key_changes`).

    shapes[plan[WATCHED]:]   the number of a table's unique keys, that of the columns of which they are made, these

The plain twin is in `tests/pipeline/gather/test_exchanges.py`.
"""

from typing import Any, Final

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels import types as t
from binlog_merge.binlog.kernels.memory import same_bytes
from binlog_merge.binlog.kernels.row_lengths import BAD, bitmaps_begin, prefixed

NO_KEYS: Final = -1
"""The number of keys of a table that is known to have none."""
MOST_EVENTS: Final = 64
"""A transaction with more rows events is not looked at here."""


@njit(inline="always")
def _bit(b: Any, at: int, i: int) -> bool:
    return (b[at + (i >> 3)] >> (i & 7)) & 1 == 1


@njit(inline="always")
def _cell(b: Any, at: int, end: int, steps: Any, column: int) -> int:
    """Return the length of a cell with its prefix, BAD if it does not fit."""
    size, prefix = steps[column], steps[column + 1]
    if prefix:
        if at + prefix > end:
            return BAD
        length = prefixed(b, at, prefix)
        if length > steps[column + 2]:
            return BAD
        size = prefix + length
    return size if at + size <= end else BAD


@njit(cache=True, nogil=True, _nrt=False)
def changes_keys(b: Any, body: int, end: int, kind: int, shapes: Any, shape: int, watched: int) -> bool:
    """Return whether an UPDATE, `b[body:end]`, may change one of the columns of keys; `shape` is where its steps are.

    So it may if its images do not have all columns.
    """
    columns, wanted, last = shapes[shape], shapes[watched + 1], watched + 2 + shapes[watched + 1]
    if wanted == 0:
        return False
    at = bitmaps_begin(b, body, end, kind, columns)
    if at < 0 or not t.is_whole_update(kind):
        return True
    nulls = (columns + 7) >> 3
    for c in range(columns):
        if not (_bit(b, at, c) and _bit(b, at + nulls, c)):
            return True
    at += 2 * nulls
    shape += 3
    while at < end:
        before, one = at, at + nulls
        if one > end:
            return True
        after = one
        for c in range(columns):
            if not _bit(b, before, c):
                size = _cell(b, after, end, shapes, shape + 4 * c)
                if size < 0:
                    return True
                after += size
        other, next_one = after + nulls, watched + 2
        if other > end:
            return True
        for c in range(columns):
            null, was_null = _bit(b, after, c), _bit(b, before, c)
            was = np.int64(0) if was_null else _cell(b, one, end, shapes, shape + 4 * c)
            size = np.int64(0) if null else _cell(b, other, end, shapes, shape + 4 * c)
            if size < 0:
                return True
            if next_one < last and shapes[next_one] == c:
                next_one += 1
                if null != was_null or size != was or not same_bytes(b, one, b, other, size):
                    return True
            one += was
            other += size
        at = other
    return False


@njit(cache=True, nogil=True, _nrt=False)
def may_exchange(b: Any, p: k.Plans, found: Any, of: Any, table_of: Any, most: int, out: Any) -> int:
    """Note in `out` which rows events (F_*) are of transactions whose branches may exchange values; return how many.

    `of` is the transaction of each event, whose events are neighbours, `table_of` the table of each number of keys. One
    whose rows may make more than `most` changes is among them.
    """
    count, begin = np.int64(0), np.int64(0)
    while begin < len(found):
        stop, size = begin, np.int64(0)
        while stop < len(found) and of[stop] == of[begin]:
            plan = p.plans[found[stop, k.F_PLAN]]
            # An image has a byte at least, and changes each key once at most.
            size += (found[stop, k.F_END] - found[stop, k.F_BODY]) * max(np.int64(1), p.shapes[plan[k.WATCHED]])
            out[stop] = 0
            stop += 1
        chosen = stop - begin > MOST_EVENTS
        for i in range(begin, stop if not chosen else begin):
            for j in range(begin, i):
                if chosen or found[i, k.F_SEGMENT] == found[j, k.F_SEGMENT]:
                    continue
                a, c = p.plans[found[i, k.F_PLAN]], p.plans[found[j, k.F_PLAN]]
                if table_of[a[k.KEYED]] != table_of[c[k.KEYED]]:
                    continue
                one, other = found[i, k.F_KIND], found[j, k.F_KIND]
                updates, other_updates = t.is_update(one), t.is_update(other)
                if not updates and not other_updates and t.is_write(one) == t.is_write(other):
                    continue
                if size > most:
                    chosen = True
                    continue
                if p.shapes[a[k.WATCHED]] == NO_KEYS and p.shapes[c[k.WATCHED]] == NO_KEYS:
                    continue
                # What is known of an update stays in `out` until the transaction is done: 2, it changes keys; 1 not.
                if updates and out[i] == 0:
                    out[i] = 1 + changes_keys(
                        b, found[i, k.F_BODY], found[i, k.F_END], one, p.shapes, a[k.STEPS], a[k.WATCHED]
                    )
                if other_updates and out[j] == 0:
                    out[j] = 1 + changes_keys(
                        b, found[j, k.F_BODY], found[j, k.F_END], other, p.shapes, c[k.STEPS], c[k.WATCHED]
                    )
                chosen = (not updates or out[i] == 2) and (not other_updates or out[j] == 2)
        for n in range(begin, stop):
            out[n] = chosen
        count += stop - begin if chosen else 0
        begin = stop
    return count
