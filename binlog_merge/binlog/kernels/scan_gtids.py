"""GTIDs and sequence numbers in the scan kernel, by which duplicate and missing groups are detected.

A server numbers the groups of each of its files from 1 on, with or without GTIDs (MySQL 5.6 does not). GTIDs are kept
as intervals in the order of the log, so a server that writes its own has one row.
"""

# Inlined into `scan_events`: see `kernels.scan`.

from typing import Any

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.binlog.kernels.memory import i64

_LOOK_BACK = 16  # rows in which a GTID is sought its place: sources and tags take turns, parallel appliers overtake


@njit(inline="always")
def sequence_number(b: Any, at: int, end: int) -> int:
    """Return the sequence number in a GTID event's body `b[at:end]`, 0 if it has none."""
    if end - at < 42 or b[at + 25] != 2:
        return np.int64(0)
    return i64(b, at + 34)


@njit(inline="always")
def follows(reg: Any, number: int) -> bool:
    """Return whether a group's sequence number, which is not negative, is the next one."""
    expected = reg[k.NEXT_SEQUENCE]
    if number == expected:
        return True
    if expected >= 0 or (expected == k.FILE_BEGINS and number > 1):
        return False
    reg[k.FIRST_SEQUENCE] = number
    return True


@njit(inline="always")
def is_elsewhere(a: k.Arrays, sid_1: int, sid_2: int, tag: int, gno: int) -> bool:
    """Return whether a group with this GTID is left out."""
    found = False
    for row in range(len(a.elsewhere)):
        g = a.elsewhere[row]
        if g[k.G_START] <= gno < g[k.G_END] and g[k.G_SID_1] == sid_1 and g[k.G_SID_2] == sid_2 and g[k.G_TAG] == tag:
            found = True
    return found


@njit(inline="always")
def is_decided(a: k.Arrays, sid_1: int, sid_2: int, tag: int, gno: int, place: int) -> int:
    """Return what somebody decided about the group with this GTID (0: none), or the one at this offset."""
    found = np.int64(k.UNDECIDED)
    for row in range(len(a.elsewhere)):
        g = a.elsewhere[row]
        if g[k.G_OWN] == 0:
            continue
        if g[k.G_TAG] < 0:
            here = g[k.G_START] <= place < g[k.G_END]
        else:
            here = g[k.G_START] <= gno < g[k.G_END] and g[k.G_SID_1] == sid_1 and g[k.G_SID_2] == sid_2
            here = here and gno > 0 and g[k.G_TAG] == tag
        if here:
            found = max(found, g[k.G_OWN])
    return found


@njit(inline="always")
def leave_out(reg: Any, begins: int, number: int, gno: int) -> None:
    """Open a group that is left out: nothing of it counts but its sequence number."""
    reg[k.NEXT_SEQUENCE] = number + (number != 0)
    reg[k.GROUP_START], reg[k.GNO], reg[k.PHASE] = begins, gno, k.LEAVING_OUT
    reg[k.LEFT_OUT] += 1


@njit(inline="always")
def log_gtid(a: k.Arrays, sid_1: int, sid_2: int, tag: int, gno: int) -> bool:
    """Add a GTID to the intervals; return False if there is no room for two more, which a group may need."""
    reg = a.reg
    row, count = reg[k.GTID_ROW], reg[k.N_GTIDS]
    least = max(np.int64(0), count - _LOOK_BACK)
    back = count
    while row >= least:
        g = a.gtids[row]
        if (
            g[k.G_END] == gno
            and g[k.G_SID_1] == sid_1
            and g[k.G_SID_2] == sid_2
            and g[k.G_TAG] == tag
            and g[k.G_OWN] == 0
        ):
            if count >= len(a.gtids):
                break
            g[k.G_END] = gno + 1
            reg[k.GTID_ROW] = row
            return True
        back -= 1
        row = back
    if count + 2 > len(a.gtids):
        return False
    g = a.gtids[count]
    g[k.G_SID_1], g[k.G_SID_2], g[k.G_TAG], g[k.G_OWN], g[k.G_START], g[k.G_END] = sid_1, sid_2, tag, 0, gno, gno + 1
    reg[k.GTID_ROW] = count
    reg[k.N_GTIDS] += 1
    return True


@njit(inline="always")
def carries_tso(a: k.Arrays) -> None:
    """Give the open group's GTID, the last one, an interval of its own, as it carries the commit TSO."""
    reg = a.reg
    if reg[k.GNO] > 0:
        row = a.gtids[reg[k.GTID_ROW]]
        if row[k.G_END] - row[k.G_START] > 1:
            row[k.G_END] -= 1
            own = a.gtids[reg[k.N_GTIDS]]
            own[k.G_SID_1], own[k.G_SID_2], own[k.G_TAG] = row[k.G_SID_1], row[k.G_SID_2], row[k.G_TAG]
            own[k.G_START], own[k.G_END] = row[k.G_END], row[k.G_END] + 1
            row = own
            reg[k.GTID_ROW] = reg[k.N_GTIDS]
            reg[k.N_GTIDS] += 1
        row[k.G_OWN] = 1
