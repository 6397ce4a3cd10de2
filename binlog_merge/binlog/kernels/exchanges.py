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
from binlog_merge.binlog.kernels.memory import bit, same_bytes
from binlog_merge.binlog.kernels.row_lengths import bitmaps_begin, cell

NO_KEYS: Final = -1
"""The number of keys of a table that is known to have none."""
PASSED, OF_SUSPECT, NEAR = range(3)
"""What a rows event is: of a transaction in which no branch frees what another takes; of another one; of a table of it
of which one branch may free what another takes, as the types of their events tell.
"""
FREES, TAKES, KEYS, LEAST, MOST, E_FIELDS = range(6)
"""What a transaction does to a table: whether it may free values, and take some, whether the table may have keys, and
the least and the greatest of the branches that do.
"""


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
        if not (bit(b, at, c) and bit(b, at + nulls, c)):
            return True
    at += 2 * nulls
    shape += 3
    while at < end:
        before, one = at, at + nulls
        if one > end:
            return True
        after = one
        for c in range(columns):
            if not bit(b, before, c):
                size = cell(b, after, end, shapes, shape + 4 * c)
                if size < 0:
                    return True
                after += size
        other, next_one = after + nulls, watched + 2
        if other > end:
            return True
        for c in range(columns):
            null, was_null = bit(b, after, c), bit(b, before, c)
            was = np.int64(0) if was_null else cell(b, one, end, shapes, shape + 4 * c)
            size = np.int64(0) if null else cell(b, other, end, shapes, shape + 4 * c)
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


@njit(inline="always")
def _table(p: k.Plans, found: Any, table_of: Any, n: int) -> int:
    """Return the number of the table of a rows event."""
    return table_of[p.plans[found[n, k.F_PLAN], k.KEYED]]


@njit(inline="always")
def _note(done: Any, kind: int, branch: int, keys: int) -> None:
    """Add what a rows event does to what its transaction does to its table."""
    if done[FREES] + done[TAKES] == 0:
        done[KEYS], done[LEAST], done[MOST] = 0, branch, branch
    done[LEAST], done[MOST] = min(done[LEAST], branch), max(done[MOST], branch)
    if not t.is_write(kind):
        done[FREES] = 1
    if t.is_write(kind) or t.is_update(kind):
        done[TAKES] = 1
    if keys != NO_KEYS:
        done[KEYS] = 1


@njit(inline="always")
def _is_between_branches(done: Any) -> bool:
    """Return whether one branch may free what another one takes."""
    return done[FREES] != 0 and done[TAKES] != 0 and done[LEAST] < done[MOST]


@njit(cache=True, nogil=True, _nrt=False)
def may_exchange(b: Any, p: k.Plans, found: Any, of: Any, table_of: Any, most: int, tables: Any, out: Any) -> int:
    """Note in `out` what rows events (F_*) are: PASSED, OF_SUSPECT or NEAR; return how many are not passed over.

    `of` is the transaction of each event, whose events are neighbours, `table_of` the table of each number of keys,
    `tables` zeros, E_FIELDS for each table. A transaction whose rows may make more than `most` changes is judged by the
    types of its events alone.
    """
    count, begin = np.int64(0), np.int64(0)
    while begin < len(found):
        stop, size = begin, np.int64(0)
        while stop < len(found) and of[stop] == of[begin]:
            keys = p.shapes[p.plans[found[stop, k.F_PLAN], k.WATCHED]]
            # An image has a byte at least, and changes each key once at most.
            size += (found[stop, k.F_END] - found[stop, k.F_BODY]) * max(np.int64(1), keys)
            _note(tables[_table(p, found, table_of, stop)], found[stop, k.F_KIND], found[stop, k.F_SEGMENT], keys)
            stop += 1
        chosen = False
        for n in range(begin, stop):
            out[n] = NEAR if _is_between_branches(tables[_table(p, found, table_of, n)]) else OF_SUSPECT
            chosen = chosen or out[n] == NEAR
        for n in range(begin, stop):
            table = _table(p, found, table_of, n)
            tables[table, FREES] = tables[table, TAKES] = 0
        if chosen and size <= most:
            # Now without the updates that leave the keys alone.
            chosen = False
            for n in range(begin, stop):
                plan, kind = p.plans[found[n, k.F_PLAN]], found[n, k.F_KIND]
                if out[n] != NEAR or (
                    t.is_update(kind)
                    and not changes_keys(
                        b, found[n, k.F_BODY], found[n, k.F_END], kind, p.shapes, plan[k.STEPS], plan[k.WATCHED]
                    )
                ):
                    continue
                done = tables[table_of[plan[k.KEYED]]]
                _note(done, kind, found[n, k.F_SEGMENT], p.shapes[plan[k.WATCHED]])
                chosen = chosen or (_is_between_branches(done) and done[KEYS] != 0)
            for n in range(begin, stop):
                table = _table(p, found, table_of, n)
                tables[table, FREES] = tables[table, TAKES] = 0
        if chosen:
            count += stop - begin
        else:
            for n in range(begin, stop):
                out[n] = PASSED
        begin = stop
    return count
