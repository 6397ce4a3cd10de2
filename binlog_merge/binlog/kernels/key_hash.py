"""Hashes of rows' keys whose cells are equal if their bytes are: numbers, times, members of ENUM and SET.

The plain twin is in `tests/pipeline/gather/test_key_changes.py`.
"""

from typing import Any, Final

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels.memory import hash_bytes
from binlog_merge.binlog.kernels.row_cells import ABSENT as _ABSENT
from binlog_merge.binlog.kernels.row_cells import NULL as _NULL

VALUE: Final = 0
NULL: Final = 1
"""A part of the key is NULL: it equals nothing."""
ABSENT: Final = 2
"""The image does not hold a part of the key."""


@njit(cache=True, nogil=True, _nrt=False)
def hash_keys(
    b: Any, starts: Any, sizes: Any, columns: Any, side: int, rows: Any, seed: int, values: Any, states: Any
) -> None:
    """Write the hash of each row's key, and whether it has one; `starts` and `sizes` are those of `row_cells`."""
    for n in range(len(rows)):
        row = rows[n]
        value, state = np.int64(seed), np.int64(VALUE)
        for i in range(len(columns)):
            c = columns[i]
            size = np.int64(sizes[side, c, row])
            if size == _NULL:
                state = NULL
            elif size == _ABSENT:
                state = state if state == NULL else ABSENT
            elif size >= 0:
                value = hash_bytes(b, np.int64(starts[side, c, row]), size, value)
        values[n], states[n] = value, state
