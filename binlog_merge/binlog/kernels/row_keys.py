"""Collapses many changes of a table to the net change of each key: the last write wins.

Only the beginning and the end of a key's changes count: whether its row existed before, and which after image it has at
the end, if any.

    keys   K_*: a row for each key, in the order of their first occurrence
    prev   for each row with an after image: the row whose after image it replaced (a row number), -1 - key if that is
           the row from before all changes, NOTHING for an INSERT
"""

from typing import Any, Final

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels.memory import hash_bytes, same_bytes

# K_SIDE and K_ROW are those of an image with the key; K_LAST is the row with the final after image, -1 if it is gone.
K_SIDE, K_ROW, K_WAS_THERE, K_LAST = range(4)
NOTHING: Final = -(1 << 62)


@njit(inline="always")
def _hash(b: Any, starts: Any, sizes: Any, columns: Any, side: int, row: int) -> int:
    value = np.int64(columns.size)
    for i in range(len(columns)):
        c = columns[i]
        size = np.int64(sizes[side, c, row])
        value = hash_bytes(b, np.int64(starts[side, c, row]), size if size > 0 else np.int64(0), value)
    return value


@njit(inline="always")
def _same(b: Any, starts: Any, sizes: Any, columns: Any, side: int, row: int, other_side: int, other: int) -> bool:
    for i in range(len(columns)):
        c = columns[i]
        size = sizes[side, c, row]
        if size != sizes[other_side, c, other]:
            return False
        if size > 0 and not same_bytes(
            b, np.int64(starts[side, c, row]), b, np.int64(starts[other_side, c, other]), np.int64(size)
        ):
            return False
    return True


@njit(inline="always")
def _entry(
    b: Any, starts: Any, sizes: Any, columns: Any, table: Any, keys: Any, count: int, side: int, row: int
) -> int:
    """Return the number of a key; for a new key `count`, after recording its first occurrence."""
    mask = len(table) - 1
    at = _hash(b, starts, sizes, columns, side, row) & mask
    while table[at] >= 0:
        k = table[at]
        if _same(b, starts, sizes, columns, side, row, keys[k, K_SIDE], keys[k, K_ROW]):
            return k
        at = (at + 1) & mask
    table[at] = count
    keys[count, K_SIDE], keys[count, K_ROW] = side, row
    keys[count, K_WAS_THERE], keys[count, K_LAST] = 1 - side, -1
    return count


@njit(cache=True, nogil=True, _nrt=False)
def collapse(
    b: Any, starts: Any, sizes: Any, columns: Any, kept: Any, table: Any, keys: Any, prev: Any, result: Any
) -> int:
    """Collapse the changes in the rows `kept` by key; return the number of keys.

    `table` is a hash table filled with -1, its length a power of two above twice the images. Returns -1 - row for a row
    that contradicts those before it: an INSERT of an existing key, or a change of a missing one.
    """
    count = np.int64(0)
    for row in range(len(kept)):
        if not kept[row]:
            continue
        before = np.int64(-1)
        prev[row] = NOTHING
        if sizes[0, columns[0], row] != -3:
            before = _entry(b, starts, sizes, columns, table, keys, count, np.int64(0), np.int64(row))
            if before == count:
                count += 1
                prev[row] = -1 - before
            elif keys[before, K_LAST] < 0:
                return -1 - row
            else:
                prev[row] = keys[before, K_LAST]
            keys[before, K_LAST] = -1
        if sizes[1, columns[0], row] != -3:
            after = before
            if before < 0 or not _same(
                b, starts, sizes, columns, np.int64(0), np.int64(row), np.int64(1), np.int64(row)
            ):
                after = _entry(b, starts, sizes, columns, table, keys, count, np.int64(1), np.int64(row))
                if after == count:
                    count += 1
                elif keys[after, K_LAST] >= 0:
                    return -1 - row
            keys[after, K_LAST] = row
    result[0] = count
    return count


@njit(cache=True, nogil=True, _nrt=False)
def trace(sizes: Any, prev: Any, rows: Any, column: int, sources: Any) -> None:
    """Find, for final rows, the row whose after image holds a column's value, which their own may not.

    It is a row number, -1 - key for the value in the table before, or NOTHING if an INSERT does not hold it.
    """
    for i in range(len(rows)):
        row = rows[i]
        while row >= 0 and sizes[1, column, row] == -2:
            row = prev[row]
        sources[i] = row
