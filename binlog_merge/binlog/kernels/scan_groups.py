"""Groups in the scan kernel: their beginning, their GTID event, and the rows written at their end."""

# Inlined into `scan_events`: see `kernels.scan`.

from typing import Any

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.binlog.kernels.memory import hash_bytes, i64, load_64
from binlog_merge.binlog.kernels.scan_gtids import carries_tso
from binlog_merge.binlog.kernels.xid import find


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
