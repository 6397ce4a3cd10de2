"""Groups in the scan kernel: their beginning, their GTID event, and the rows written at their end.

A group's length is compared with that in its GTID event, which reveals a missing or duplicate event. Servers write the
length since 8.0.2: from the GTID event to the last event of the group, including checksums.

Duplicate and missing groups are detected by GTIDs and sequence numbers. A server numbers the groups of each of its
files from 1 on, with or without GTIDs (MySQL 5.6 does not). GTIDs are kept as intervals in the order of the log, so a
server that writes its own has one row.
"""

from typing import Any

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.binlog.kernels.memory import hash_bytes, i64, load_64, u16
from binlog_merge.binlog.kernels.xid import find

# Inlined into `scan_events`: see `kernels.scan`.


@njit(inline="always")
def advance(reg: Any, tso: int, transaction: int) -> None:
    """Update the greatest key that the node has committed so far."""
    if tso > reg[k.MAX_TSO] or (tso == reg[k.MAX_TSO] and transaction > reg[k.MAX_TRANSACTION]):
        reg[k.MAX_TSO], reg[k.MAX_TRANSACTION] = tso, transaction


@njit(forceinline=True, _nrt=False)
def note_gtid(reg: Any, b: Any, at: int, end: int, timestamp: int, use_own: bool) -> None:
    """Record a GTID event's GTID and commit times (MySQL `Gtid_event`; 5.6 writes no timestamps)."""
    reg[k.GNO] = i64(b, at + 17)
    if use_own:
        reg[k.GTID_HASH] = hash_bytes(b, at + 1, 24, 7)
    reg[k.COMMIT_US] = timestamp * 1000000
    reg[k.ORIGINAL_US] = -1
    if end - at >= 49:
        low = np.int64(load_64(b, at + 41) >> np.uint64(8))  # 7 bytes at 42
        reg[k.COMMIT_US] = low & ((np.int64(1) << 55) - 1)
        if low >> 55 and end - at >= 56:
            reg[k.ORIGINAL_US] = np.int64(load_64(b, at + 48) >> np.uint64(8)) & ((np.int64(1) << 55) - 1)


@njit(inline="always")
def time_tso(us: int) -> int:
    """Return the TSO of a time in microseconds since 1970: milliseconds << 22 | the remaining microseconds."""
    return ((us // 1000) << 22) | (us % 1000)


@njit(inline="always")
def tick(reg: Any) -> None:
    """Advance the node's clock, its greatest TSO, to the open group's original commit time in its GTID event.

    A replica keeps the original time; 0 means that the source wrote none, and an invalid time is ignored. If the clock
    stepped back, the greatest TSO stays, so that the order of the log is the order of keys.
    """
    if 0 < reg[k.ORIGINAL_US] < k.END_OF_TIME:
        reg[k.COMMIT_US] = reg[k.ORIGINAL_US]
    elif reg[k.COMMIT_US] >= k.END_OF_TIME:
        reg[k.COMMIT_US] = reg[k.FIRST_TIMESTAMP] * 1000000
    advance(reg, time_tso(reg[k.COMMIT_US]), 0)


@njit(inline="always")
def follow(a: k.Arrays, start: int, end: int, set_number: int, flags: int) -> None:
    """Write the row of a group that sorts right after the greatest key of its node so far."""
    reg = a.reg
    row = a.local[reg[k.N_LOCAL]]
    row[k.L_START], row[k.L_END], row[k.L_COMMIT_US] = start, end, reg[k.COMMIT_US]
    row[k.L_SET], row[k.L_FLAGS] = set_number, flags
    row[k.L_MAX_TSO], row[k.L_MAX_TRANSACTION] = reg[k.MAX_TSO], reg[k.MAX_TRANSACTION]
    reg[k.N_LOCAL] += 1


@njit(inline="always")
def own_tso(reg: Any, carrier: int) -> int:
    """Return the commit TSO in the open group itself, or -1."""
    if carrier == k.BY_ORIGINAL_TIMESTAMP and reg[k.ORIGINAL_US] >= 0:
        return reg[k.ORIGINAL_US] << 9
    if carrier == k.BY_ORIGINAL_MICROSECONDS and reg[k.ORIGINAL_US] >= 0:
        return time_tso(reg[k.ORIGINAL_US])
    if carrier == k.BY_GTID and reg[k.GNO] > 0:
        return reg[k.GNO]
    if carrier == k.BY_SEQUENCE:
        return reg[k.SEQUENCE_TSO]
    return -1


@njit(inline="always")
def close_group(reg: Any, end: int) -> None:
    """End the open group."""
    reg[k.PHASE] = k.IDLE
    reg[k.LAST_END] = end
    reg[k.GROUPS] += 1
    reg[k.SEQUENCE_TSO] = -1


@njit(inline="always")
def open_group(reg: Any, start: int, timestamp: int, phase: int) -> None:
    """Begin a group with its start offset and timestamp, and reset everything else."""
    reg[k.PHASE] = phase
    reg[k.GROUP_START] = start
    reg[k.SET] = 0
    reg[k.FLAGS] = 0
    reg[k.SEEN_IDS] = 0
    reg[k.COMMIT_TABLE_ID] = -1
    reg[k.LOG_TSO] = -1
    reg[k.FIRST_TIMESTAMP] = timestamp
    reg[k.COMMIT_US] = timestamp * 1000000
    reg[k.ORIGINAL_US] = -1
    reg[k.GNO] = 0
    reg[k.GTID_HASH] = 0
    reg[k.LOGGED_LENGTH] = -1


@njit(forceinline=True, _nrt=False)
def end_local(a: k.Arrays, end: int, flags: int, carrier: int, use_own_tso: bool) -> None:
    """Write the row of a transaction without a distributed commit TSO, unless it only writes the commit table."""
    reg = a.reg
    flags |= reg[k.FLAGS]
    tso = np.int64(-1)
    logged = reg[k.LOG_TSO] >= 0
    if logged:
        # The row that it wrote into the transaction log has the branch's transaction id, and the commit TSO.
        advance(reg, reg[k.LOG_TSO], reg[k.LOG_TRANSACTION])
    if logged and reg[k.SET] != 0 and not flags & k.DISCARD:
        row = a.timed[reg[k.N_TIMED]]
        row[k.T_TSO], row[k.T_TRANSACTION] = reg[k.LOG_TSO], reg[k.LOG_TRANSACTION]
        row[k.T_START], row[k.T_END], row[k.T_COMMIT_US] = reg[k.GROUP_START], end, reg[k.COMMIT_US]
        row[k.T_SET], row[k.T_FLAGS], row[k.T_COMMIT_AT] = reg[k.SET], flags, reg[k.GROUP_START]
        reg[k.N_TIMED] += 1
    elif not (flags & k.DISCARD or (flags & k.HAS_COMMIT_ROWS and reg[k.SET] == 0)):
        if use_own_tso and not flags & k.DDL:
            tso = own_tso(reg, carrier)
        if tso >= 0:
            row = a.timed[reg[k.N_TIMED]]
            row[k.T_TSO], row[k.T_TRANSACTION] = tso, reg[k.GTID_HASH]
            row[k.T_START], row[k.T_END], row[k.T_COMMIT_US] = reg[k.GROUP_START], end, reg[k.COMMIT_US]
            row[k.T_SET], row[k.T_FLAGS], row[k.T_COMMIT_AT] = reg[k.SET], flags | k.OWN_TSO, reg[k.GROUP_START]
            reg[k.N_TIMED] += 1
            advance(reg, tso, reg[k.GTID_HASH])
        else:
            if carrier == k.BY_TIME:
                tick(reg)
            follow(a, reg[k.GROUP_START], end, reg[k.SET], flags)
    if tso >= 0 and carrier == k.BY_GTID:
        carries_tso(a)
    close_group(reg, end)


@njit(forceinline=True, _nrt=False)
def prepare(a: k.Arrays, end: int) -> int:
    """End a prepared branch, which is kept until its XA COMMIT or XA ROLLBACK."""
    reg = a.reg
    if reg[k.FLAGS] & k.DISCARD:
        close_group(reg, end)
        return k.MORE
    slot = find(a.xids, reg[k.XID_1], reg[k.XID_2], k.P_STATE)
    if slot >= 0 and a.xids[slot, k.P_STATE] == 1:
        return k.DUPLICATE_XID
    if slot < 0:
        slot = ~slot
        reg[k.N_XIDS] += 1
    row = a.xids[slot]
    row[k.P_XID_1], row[k.P_XID_2], row[k.P_GTRID_1], row[k.P_GTRID_2] = (
        reg[k.XID_1],
        reg[k.XID_2],
        reg[k.GTRID_1],
        reg[k.GTRID_2],
    )
    row[k.P_TRANSACTION], row[k.P_START], row[k.P_END] = reg[k.TRANSACTION_ID], reg[k.GROUP_START], end
    row[k.P_SET], row[k.P_FLAGS], row[k.P_STATE] = reg[k.SET], reg[k.FLAGS], 1
    row[k.P_MAX_TSO], row[k.P_MAX_TRANSACTION] = reg[k.MAX_TSO], reg[k.MAX_TRANSACTION]
    close_group(reg, end)
    return k.MORE


@njit(forceinline=True, _nrt=False)
def xa_end(a: k.Arrays, end: int, carrier: int, rollback: bool) -> None:
    """Join XA COMMIT or XA ROLLBACK with its prepare and its commit TSO; write it to `late` if either is missing."""
    reg = a.reg
    if reg[k.XID_KIND] == k.IGNORED_XID:
        close_group(reg, end)
        return
    prepared = find(a.xids, reg[k.XID_1], reg[k.XID_2], k.P_STATE)
    if prepared >= 0 and a.xids[prepared, k.P_STATE] != 1:
        prepared = np.int64(-1)
    tso = np.int64(-2)
    if not rollback:
        tso = own_tso(reg, carrier)
        if carrier == k.BY_COMMIT_TABLE or (carrier == k.BY_SEQUENCE and tso < 0):
            slot = find(a.tsos, reg[k.GTRID_1], reg[k.GTRID_2], k.C_STATE)
            if slot >= 0:
                tso = a.tsos[slot, k.C_TSO]
                a.tsos[slot, k.C_STATE] = 2
        tso = max(tso, np.int64(-1))  # more than 63 bits are no TSO
        if carrier == k.BY_TIME:
            tick(reg)
    if prepared >= 0 and rollback:
        a.xids[prepared, k.P_STATE] = 2
    elif prepared >= 0 and tso >= 0 and not a.xids[prepared, k.P_FLAGS] & k.SYNC_POINT:
        p, row = a.xids[prepared], a.timed[reg[k.N_TIMED]]
        row[k.T_TSO], row[k.T_TRANSACTION], row[k.T_START], row[k.T_END] = (
            tso,
            p[k.P_TRANSACTION],
            p[k.P_START],
            p[k.P_END],
        )
        row[k.T_COMMIT_US], row[k.T_SET], row[k.T_FLAGS] = reg[k.COMMIT_US], p[k.P_SET], p[k.P_FLAGS]
        row[k.T_COMMIT_AT] = reg[k.GROUP_START]
        p[k.P_STATE] = 2
        reg[k.N_TIMED] += 1
        advance(reg, tso, reg[k.TRANSACTION_ID])
    elif prepared >= 0 and carrier == k.BY_TIME:
        p = a.xids[prepared]
        follow(a, p[k.P_START], p[k.P_END], p[k.P_SET], p[k.P_FLAGS])
        p[k.P_STATE] = 2
    else:
        row = a.late[reg[k.N_LATE]]
        row[k.X_LOCAL], row[k.X_LOCALS_BEFORE] = -1, reg[k.N_LOCAL]
        row[k.X_XID_1], row[k.X_XID_2], row[k.X_GTRID_1], row[k.X_GTRID_2] = (
            reg[k.XID_1], reg[k.XID_2], reg[k.GTRID_1], reg[k.GTRID_2],
        )  # fmt: skip
        row[k.X_TRANSACTION], row[k.X_TSO] = reg[k.TRANSACTION_ID], tso
        row[k.X_COMMIT_US], row[k.X_COMMIT_AT] = reg[k.COMMIT_US], reg[k.GROUP_START]
        row[k.X_START], row[k.X_END], row[k.X_SET], row[k.X_FLAGS] = -1, -1, 0, 0
        if prepared >= 0:
            p = a.xids[prepared]
            row[k.X_START], row[k.X_END], row[k.X_SET], row[k.X_FLAGS] = (
                p[k.P_START],
                p[k.P_END],
                p[k.P_SET],
                p[k.P_FLAGS],
            )
            row[k.X_MAX_TSO], row[k.X_MAX_TRANSACTION] = p[k.P_MAX_TSO], p[k.P_MAX_TRANSACTION]
            p[k.P_STATE] = 2
        if tso == -1:
            row[k.X_LOCAL] = reg[k.N_LOCAL]
            follow(a, row[k.X_START], row[k.X_END], row[k.X_SET], row[k.X_FLAGS] | k.PLACEHOLDER)
        elif tso >= 0:
            advance(reg, tso, reg[k.TRANSACTION_ID])
        reg[k.N_LATE] += 1
    if carrier == k.BY_GTID:
        carries_tso(a)
    close_group(reg, end)


@njit(inline="always")
def by_number(reg: Any, carrier: int) -> None:
    """Use PolarDB-X's transaction id instead of the gtrid, as the transaction log does."""
    if carrier == k.BY_SEQUENCE and reg[k.XID_KIND] != k.FOREIGN_XID:
        reg[k.GTRID_1], reg[k.GTRID_2] = reg[k.TRANSACTION_ID], k.BY_NUMBER


# Inlined into `scan_events`: see `kernels.scan`.


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


# Inlined into `scan_events`: see `kernels.scan`.


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
