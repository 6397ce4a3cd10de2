"""Finds transactions with different commit TSOs, by a hash table of transaction ids, a part of them at a time."""

from typing import Any

import numpy as np
from numba import njit

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
