"""What is done with the rows of index blocks: a merge sort of a few sorted runs, such as those of several nodes; points
that cut them into parts of about the same number of bytes; and a search for transactions with different commit TSOs, by
a hash table of transaction ids, a part of them at a time.
"""

from typing import Any

import numpy as np
from numba import njit


@njit(inline="always")
def _less(keys: Any, a: int, b: int) -> bool:
    for column in range(len(keys)):
        if keys[column, a] != keys[column, b]:
            return keys[column, a] < keys[column, b]
    return False


@njit(cache=True, nogil=True)
def _runs(keys: Any, n: int) -> Any:
    """Return the beginnings of the ascending runs, and n at the end; without rows there is a single empty run."""
    bounds = np.empty(n + 2, np.int64)
    count = 1
    bounds[0] = 0
    for i in range(1, n):
        if _less(keys, i, i - 1):
            bounds[count] = i
            count += 1
    bounds[count] = n
    return bounds[: count + 1].copy()


@njit(cache=True, nogil=True)
def sorted_places(keys: Any) -> Any:
    """Return the indexes that sort the columns of `keys`, int64[k, n], by its first row, then its second, and so on.

    Stable. Neighbouring runs are merged pairwise until a single run remains: n log(runs) steps.
    """
    n = keys.shape[1]
    bounds = _runs(keys, n)
    source, target = np.arange(n), np.empty(n, np.int64)
    while len(bounds) > 2:
        kept = 0
        for run in range(0, len(bounds) - 1, 2):
            left, middle = bounds[run], bounds[run + 1]
            end = bounds[run + 2] if run + 2 < len(bounds) else middle
            right = middle
            bounds[kept] = left
            kept += 1
            for out in range(left, end):
                if left < middle and (right >= end or not _less(keys, source[right], source[left])):
                    target[out] = source[left]
                    left += 1
                else:
                    target[out] = source[right]
                    right += 1
        bounds[kept] = n
        bounds = bounds[: kept + 1]
        source, target = target, source
    return source


@njit(cache=True, nogil=True, _nrt=False)
def points(rows: Any, tso: int, begin: int, end: int, count: int, out: Any) -> int:
    """Write up to `count` points (TSO, bytes since the last point), evenly spaced by bytes, to `out`; return how many.

    `tso`, `begin` and `end` are columns of `rows`, which are sorted by TSO.
    """
    total, reached, told = np.int64(0), np.int64(0), np.int64(0)
    for i in range(len(rows)):
        total += rows[i, end] - rows[i, begin]
    found, wanted = np.int64(0), np.int64(1)
    for i in range(len(rows)):
        reached += rows[i, end] - rows[i, begin]
        if wanted > count or reached < wanted * total // count:
            continue
        out[found, 0], out[found, 1] = rows[i, tso], reached - told
        found, told = found + 1, reached
        while wanted <= count and reached >= wanted * total // count:
            wanted += 1
    return found


MIX = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True, nogil=True)
def note_tsos(transaction: Any, tso: Any, table: Any, part: int, parts: int, found: Any, count: int) -> int:
    """Put the transactions of a part into `table`, and those that it has with another TSO into `found`.

    `table` is int64[n, 2]: transaction, and TSO or -1 if empty; n and `parts` are powers of two, n greater than the
    number of transactions in a part. Returns the number of transactions in `found`, -1 if it is full.
    """
    mask = np.uint64(len(table) - 1)
    for i in range(len(transaction)):
        h = np.uint64(transaction[i]) * MIX
        if np.int64(h >> np.uint64(48)) & (parts - 1) != part:
            continue
        slot = np.int64((h >> np.uint64(20)) & mask)
        while table[slot, 1] >= 0 and table[slot, 0] != transaction[i]:
            slot = np.int64(np.uint64(slot + 1) & mask)
        if table[slot, 1] < 0:
            table[slot, 0], table[slot, 1] = transaction[i], tso[i]
        elif table[slot, 1] != tso[i]:
            if count >= len(found):
                return -1
            found[count] = transaction[i]
            count += 1
    return count
