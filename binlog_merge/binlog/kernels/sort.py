"""A merge sort for rows that consist of a few sorted runs, such as those of several nodes."""

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
