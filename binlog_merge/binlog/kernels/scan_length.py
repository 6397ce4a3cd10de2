"""Compares a group's length with that in its GTID event, which reveals a missing or duplicate event.

Servers write the length since 8.0.2: from the GTID event to the last event of the group, including checksums.
"""

# Inlined into `scan_events`: see `kernels.scan`.

from typing import Any

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.binlog.kernels.memory import i64, u16


@njit(inline="always")
def note_length(reg: Any, b: Any, at: int, end: int, start: int) -> None:
    """Record the length in a GTID event's body `b[at:end]`; the event begins at file offset `start`."""
    reg[k.LENGTH_FROM], reg[k.PASSED_OVER], reg[k.LOGGED_LENGTH] = start, 0, -1
    if end - at < 50:
        return
    at += 56 if b[at + 48] & 0x80 else 49
    if at >= end:
        return
    first = np.int64(b[at])
    if first < 251:
        reg[k.LOGGED_LENGTH] = first
    elif first == 252 and at + 3 <= end:
        reg[k.LOGGED_LENGTH] = u16(b, at + 1)
    elif first == 253 and at + 4 <= end:
        reg[k.LOGGED_LENGTH] = u16(b, at + 1) | (np.int64(b[at + 3]) << 16)
    elif first == 254 and at + 9 <= end:
        reg[k.LOGGED_LENGTH] = i64(b, at + 1) & 0x7FFFFFFFFFFFFFFF


@njit(inline="always")
def has_its_length(reg: Any, end: int) -> bool:
    """Return whether the group that ends at file offset `end` has the length in its GTID event.

    Events that were passed over in it, and those that PolarDB-X writes before the GTID event, may count or not.
    """
    logged, length = reg[k.LOGGED_LENGTH], end - reg[k.LENGTH_FROM]
    return logged < 0 or logged == length or logged == length - reg[k.PASSED_OVER] or logged == end - reg[k.GROUP_START]
