"""Walk a binlog and index its transactions: headers, checksums, table names, XA ids, commit TSOs; no row image is
decoded.

The kernel keeps its state in arrays, so it stops at any event and goes on with the next piece of the file. It stops
when it needs what only Python can give (more input, a bigger array, a table name it has not seen, the inside of a
compressed payload) and at everything it does not understand: the reason is its return value, the place is
`state.reg[POS]`.

A *group* is what one GTID event introduces (MySQL's binary log group): a local transaction, a prepared XA branch, an
XA COMMIT or XA ROLLBACK, or a DDL statement. Out come rows of int64:

    timed   one per branch whose commit TSO is known:      T_* columns
    local   one per transaction without one, and per DDL:  L_* columns, in file order
    late    one per XA COMMIT / ROLLBACK whose prepare or TSO lies outside this piece of the log:  X_* columns
    xids    the open-addressing table of prepared branches; what is still live at the end is open:  P_* columns
"""

# The helpers take all arrays as one value, a hundred words: as real calls they would cost three times what they do. So
# they are inlined, and, since nothing here allocates, compiled without reference counts (`_nrt`).

from typing import Any

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.binlog.kernels.cells import cell_length
from binlog_merge.binlog.kernels.crc32 import crc32
from binlog_merge.binlog.kernels.memory import hash_bytes, i64, load_64, same_bytes, u16, u32, u48
from binlog_merge.binlog.kernels.xid import FNV_BASIS, find, mix, parse_xid


def _text(word: str) -> Any:
    return np.frombuffer(word.encode(), np.uint8).copy()


_BEGIN, _COMMIT, _ROLLBACK = _text("BEGIN"), _text("COMMIT"), _text("ROLLBACK")
_XA_START, _XA_END, _XA_COMMIT = _text("XA START "), _text("XA END "), _text("XA COMMIT ")
_XA_ROLLBACK, _SAVEPOINT = _text("XA ROLLBACK "), _text("SAVEPOINT ")


@njit(inline="always")
def _starts(b: Any, at: int, end: int, word: Any) -> bool:
    if at + len(word) > end:
        return False
    for n in range(len(word)):  # noqa: SIM110 - numba compiles the loop, not `all`
        if b[at + n] != word[n]:
            return False
    return True


@njit(inline="always")
def _is(b: Any, at: int, end: int, word: Any) -> bool:
    return end - at == len(word) and _starts(b, at, end, word)


@njit(inline="always")
def _advance(reg: Any, tso: int, transaction: int) -> None:
    if tso > reg[k.MAX_TSO] or (tso == reg[k.MAX_TSO] and transaction > reg[k.MAX_TRANSACTION]):
        reg[k.MAX_TSO], reg[k.MAX_TRANSACTION] = tso, transaction


@njit(forceinline=True, _nrt=False)
def _add_table_to_set(a: k.Arrays, table: int) -> None:
    """Move the table-set automaton: the same tables in the same first-seen order reach the same set."""
    reg = a.reg
    here = reg[k.SET]
    mask = len(a.steps) - 1
    slot = np.int64((np.uint64(here) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(table)) & np.uint64(mask))
    while a.steps[slot, 2] != 0:
        if a.steps[slot, 0] == here and a.steps[slot, 1] == table:
            reg[k.SET] = a.steps[slot, 2] - 1
            return
        slot = (slot + 1) & mask
    reached = here
    while reached > 0 and a.sets[reached, 1] != table:
        reached = a.sets[reached, 0]
    if reached > 0:
        reached = here  # it is in the set already
    else:
        reached = reg[k.N_SETS]
        a.sets[reached, 0], a.sets[reached, 1] = here, table
        reg[k.N_SETS] += 1
    a.steps[slot, 0], a.steps[slot, 1], a.steps[slot, 2] = here, table, reached + 1
    reg[k.N_STEPS] += 1
    reg[k.SET] = reached


@njit(forceinline=True, _nrt=False)
def _find_table(a: k.Arrays, b: Any, at: int, length: int) -> int:
    """Return the dictionary slot of the name `schema NUL table` at `b[at]`, or -1."""
    h = hash_bytes(b, at, length, 0)
    mask = len(a.tables) - 1
    slot = h & mask
    while a.tables[slot, 3] != 0:
        if (
            a.tables[slot, 0] == h
            and a.tables[slot, 2] == length
            and same_bytes(a.names, a.tables[slot, 1], b, at, length)
        ):
            return slot
        slot = (slot + 1) & mask
    return -1


@njit(cache=True, _nrt=False)
def name_hash(name: Any) -> int:
    """Return the hash under which the kernel looks a table name up."""
    return hash_bytes(name, 0, len(name), 0)


@njit(forceinline=True, _nrt=False)
def _is_mapped(a: k.Arrays, table_id: int) -> bool:
    i = a.reg[k.SEEN_IDS] - 1
    while i >= 0:
        if a.ids[i] == table_id:
            return True
        i -= 1
    return table_id == 0xFFFFFF  # the dummy id of a row event that only ends its statement


@njit(forceinline=True, _nrt=False)
def _table_map(a: k.Arrays, b: Any, at: int, end: int) -> int:
    """Note a table map: returns MORE to go on, NEW_TABLE, or BAD_BODY."""
    reg = a.reg
    if at + 10 > end:
        return k.BAD_BODY
    schema = np.int64(b[at + 8])
    if at + 9 + schema + 2 > end:
        return k.BAD_BODY
    table = np.int64(b[at + 10 + schema])
    name_end = at + 11 + schema + table + 1
    if name_end > end:
        return k.BAD_BODY
    # The key is "len schema NUL len table": lengths are part of it, so no two names share one.
    slot = _find_table(a, b, at + 8, schema + table + 3)
    if slot < 0:
        return k.NEW_TABLE
    kind = a.tables[slot, 4]
    table_id = u48(b, at)
    if not _is_mapped(a, table_id):  # every statement of a transaction maps its tables again
        if reg[k.SEEN_IDS] >= k.MAX_TABLES_IN_GROUP:
            return k.UNSUPPORTED
        a.ids[reg[k.SEEN_IDS]] = table_id
        reg[k.SEEN_IDS] += 1
    if kind == k.COMMIT_TABLE or kind == k.LOG_TABLE:
        reg[k.FLAGS] |= k.HAS_COMMIT_ROWS
        reg[k.COMMIT_TABLE_ID] = table_id
        return _commit_table_shape(a, b, name_end, end, kind == k.LOG_TABLE)
    if kind == k.SYSTEM_TABLE:
        return k.MORE
    if kind == k.MARKER_TABLE:
        reg[k.FLAGS] |= k.MARKER
    elif kind == k.HEARTBEAT_TABLE:
        reg[k.FLAGS] |= k.HEARTBEAT
    elif kind == k.SYNC_POINT_TABLE:
        reg[k.FLAGS] |= k.MARKER | k.SYNC_POINT
    _add_table_to_set(a, a.tables[slot, 3] - 1)
    return k.MORE


@njit(forceinline=True, _nrt=False)
def _metadata_size(column_type: int) -> int:
    """Return how many metadata bytes a column type has in a table map (MySQL
    `Table_map_event::save_field_metadata`).
    """
    if column_type in (15, 16, 246, 247, 248, 253, 254):
        return 2
    if column_type in (4, 5, 17, 18, 19, 242, 245, 249, 250, 251, 252, 255):
        return 1
    return 0


@njit(forceinline=True, _nrt=False)
def _commit_table_shape(a: k.Arrays, b: Any, at: int, end: int, is_log: bool) -> int:
    """Keep the types of the commit table's first columns in `ids`, from the end backwards: count, then (type,
    metadata). In PolarDB-X's transaction log the TSO is the second BIGINT, behind the transaction id (polardbx-sql
    `GlobalTxLogManager`; older clusters have it near the end).
    """
    if at >= end or b[at] > 64:
        return k.BAD_BODY
    count = np.int64(b[at])
    types = at + 1
    if types + count + 1 > end or b[types + count] > 250:
        return k.BAD_BODY
    meta = types + count + 1
    if meta + np.int64(b[types + count]) > end:
        return k.BAD_BODY
    top = len(a.ids) - 1
    a.ids[top] = count
    for c in range(count):
        size = _metadata_size(b[types + c])
        value = np.int64(0)
        if size == 1:
            value = np.int64(b[meta])
        elif size == 2:
            value = u16(b, meta)
        meta += size
        a.ids[top - 1 - 2 * c], a.ids[top - 2 - 2 * c] = np.int64(b[types + c]), value
    a.reg[k.ROW_KEY_IS_NUMBER], a.reg[k.ROW_TSO] = 0, 1
    if is_log:
        a.reg[k.ROW_KEY_IS_NUMBER], a.reg[k.ROW_TSO] = 1, -1
        for c in range(1, count):
            if a.ids[top - 1 - 2 * c] == 8 and a.reg[k.ROW_TSO] < 0:
                a.reg[k.ROW_TSO] = c
        return k.MORE if count > 0 and a.ids[top - 1] == 8 else k.BAD_BODY
    # gtrid: a string; tso: BIGINT. Anything else is not a commit table.
    if count < 2 or a.ids[top - 3] != 8 or a.ids[top - 1] not in (15, 252, 253, 254):
        return k.BAD_BODY
    return k.MORE


@njit(forceinline=True, _nrt=False)
def _commit_rows(a: k.Arrays, b: Any, at: int, end: int) -> int:
    """Read (gtrid, tso) from a WRITE_ROWS body whose columns-present bitmap starts at `at`."""
    reg, top = a.reg, len(a.ids) - 1
    count, is_log = a.ids[top], reg[k.ROW_KEY_IS_NUMBER] != 0
    if at >= end or np.int64(b[at]) != count:
        return k.BAD_BODY
    bitmap = (count + 7) >> 3
    at += 1
    if at + bitmap > end:
        return k.BAD_BODY
    for c in range(count):
        if not (b[at + (c >> 3)] >> (c & 7)) & 1:
            return k.BAD_BODY
    at += bitmap
    while at < end:
        if (reg[k.N_TSOS] + 2) * 2 > len(a.tsos):
            return k.GROW
        nulls = at
        at += bitmap
        if at > end or b[nulls] & (1 if is_log else 3):
            return k.BAD_BODY
        tso = np.int64(-1)
        for c in range(count):
            if (b[nulls + (c >> 3)] >> (c & 7)) & 1:
                continue
            column_type, meta = a.ids[top - 1 - 2 * c], a.ids[top - 2 - 2 * c]
            size = cell_length(b, at, end, column_type, meta)
            if size < 0 or at + size > end:
                return k.BAD_BODY
            if c == 0 and is_log:
                key_1, key_2 = i64(b, at), np.int64(k.BY_NUMBER)
            elif c == 0:
                prefix = meta if column_type == 252 else (2 if column_type == 15 and meta > 255 else 1)
                h1, h2 = FNV_BASIS, np.uint64(0)
                for n in range(at + prefix, at + size):
                    h1, h2 = mix(h1, h2, b[n])
                key_1, key_2 = np.int64(h1), np.int64(h2)
            elif c == reg[k.ROW_TSO]:
                tso = i64(b, at)
            at += size
        if tso < 0:
            if is_log:
                continue  # a transaction of a kind that has no TSO
            return k.BAD_TSO
        if is_log:
            reg[k.LOG_TSO], reg[k.LOG_TRANSACTION] = tso, key_1
        slot = find(a.tsos, key_1, key_2, k.C_STATE)
        reg[k.COMMIT_ROWS] += 1
        if slot >= 0:
            if a.tsos[slot, k.C_TSO] != tso:
                return k.TWO_TSOS
            continue
        slot = ~slot
        reg[k.N_TSOS] += 1
        a.tsos[slot, k.C_GTRID_1], a.tsos[slot, k.C_GTRID_2] = key_1, key_2
        a.tsos[slot, k.C_TSO], a.tsos[slot, k.C_STATE] = tso, 1
    return k.MORE


@njit(forceinline=True, _nrt=False)
def _note_gtid(reg: Any, b: Any, at: int, end: int, timestamp: int) -> None:
    """Keep what a GTID event says: gno, commit times (MySQL `Gtid_event`; 5.6 writes no timestamps)."""
    reg[k.GNO] = i64(b, at + 17)
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
    """Return the TSO of a time in microseconds since 1970: its milliseconds << 22 | the microseconds beyond."""
    return ((us // 1000) << 22) | (us % 1000)


@njit(inline="always")
def _tick(reg: Any) -> None:
    """Let the node's clock, its greatest TSO, follow the open group's time: when it was committed where it ran first,
    by the GTID event. A replica keeps that time; 0 is a source that wrote none, and what is no time counts for nothing.

    A clock that stepped back leaves the greatest TSO, so order in the log stays the order of keys.
    """
    if 0 < reg[k.ORIGINAL_US] < k.END_OF_TIME:
        reg[k.COMMIT_US] = reg[k.ORIGINAL_US]
    elif reg[k.COMMIT_US] >= k.END_OF_TIME:
        reg[k.COMMIT_US] = reg[k.FIRST_TIMESTAMP] * 1000000
    _advance(reg, time_tso(reg[k.COMMIT_US]), 0)


@njit(inline="always")
def _follow(a: k.Arrays, start: int, end: int, set_number: int, flags: int) -> None:
    """Write the row of what sorts right behind the greatest key of its node so far."""
    reg = a.reg
    row = a.local[reg[k.N_LOCAL]]
    row[k.L_START], row[k.L_END], row[k.L_COMMIT_US] = start, end, reg[k.COMMIT_US]
    row[k.L_SET], row[k.L_FLAGS] = set_number, flags
    row[k.L_MAX_TSO], row[k.L_MAX_TRANSACTION] = reg[k.MAX_TSO], reg[k.MAX_TRANSACTION]
    reg[k.N_LOCAL] += 1


@njit(inline="always")
def _own_tso(reg: Any, carrier: int) -> int:
    """Return the commit TSO that the open group itself carries, or -1."""
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
def _close(reg: Any, end: int) -> None:
    reg[k.PHASE] = k.IDLE
    reg[k.LAST_END] = end
    reg[k.GROUPS] += 1
    reg[k.SEQUENCE_TSO] = -1


@njit(inline="always")
def _open(reg: Any, start: int, timestamp: int, phase: int) -> None:
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


@njit(forceinline=True, _nrt=False)
def _end_local(a: k.Arrays, end: int, flags: int, carrier: int, use_own_tso: bool) -> None:
    """Write the row of a transaction without a distributed commit TSO; one that only feeds the commit table has
    none.
    """
    reg = a.reg
    flags |= reg[k.FLAGS]
    logged = reg[k.LOG_TSO] >= 0
    if logged:
        # The row that it wrote into the transaction log tells whose branch it is, and the commit TSO.
        _advance(reg, reg[k.LOG_TSO], reg[k.LOG_TRANSACTION])
    if logged and reg[k.SET] != 0 and not flags & k.DISCARD:
        row = a.timed[reg[k.N_TIMED]]
        row[k.T_TSO], row[k.T_TRANSACTION] = reg[k.LOG_TSO], reg[k.LOG_TRANSACTION]
        row[k.T_START], row[k.T_END], row[k.T_COMMIT_US] = reg[k.GROUP_START], end, reg[k.COMMIT_US]
        row[k.T_SET], row[k.T_FLAGS], row[k.T_COMMIT_AT] = reg[k.SET], flags, reg[k.GROUP_START]
        reg[k.N_TIMED] += 1
    elif not (flags & k.DISCARD or (flags & k.HAS_COMMIT_ROWS and reg[k.SET] == 0)):
        tso = np.int64(-1)
        if use_own_tso and not flags & k.DDL:
            tso = _own_tso(reg, carrier)
        if tso >= 0:
            row = a.timed[reg[k.N_TIMED]]
            row[k.T_TSO], row[k.T_TRANSACTION] = tso, reg[k.GTID_HASH]
            row[k.T_START], row[k.T_END], row[k.T_COMMIT_US] = reg[k.GROUP_START], end, reg[k.COMMIT_US]
            row[k.T_SET], row[k.T_FLAGS], row[k.T_COMMIT_AT] = reg[k.SET], flags | k.OWN_TSO, reg[k.GROUP_START]
            reg[k.N_TIMED] += 1
            _advance(reg, tso, reg[k.GTID_HASH])
        else:
            if carrier == k.BY_TIME:
                _tick(reg)
            _follow(a, reg[k.GROUP_START], end, reg[k.SET], flags)
    _close(reg, end)


@njit(forceinline=True, _nrt=False)
def _prepare(a: k.Arrays, end: int) -> int:
    reg = a.reg
    if reg[k.FLAGS] & k.DISCARD:
        _close(reg, end)
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
    _close(reg, end)
    return k.MORE


@njit(forceinline=True, _nrt=False)
def _xa_end(a: k.Arrays, end: int, carrier: int, rollback: bool) -> None:
    """Join XA COMMIT or XA ROLLBACK with its prepare and its commit TSO; what is missing goes to `late`."""
    reg = a.reg
    if reg[k.XID_KIND] == k.IGNORED_XID:
        _close(reg, end)
        return
    prepared = find(a.xids, reg[k.XID_1], reg[k.XID_2], k.P_STATE)
    if prepared >= 0 and a.xids[prepared, k.P_STATE] != 1:
        prepared = np.int64(-1)
    tso = np.int64(-2)
    if not rollback:
        tso = _own_tso(reg, carrier)
        if carrier == k.BY_COMMIT_TABLE or (carrier == k.BY_SEQUENCE and tso < 0):
            slot = find(a.tsos, reg[k.GTRID_1], reg[k.GTRID_2], k.C_STATE)
            if slot >= 0:
                tso = a.tsos[slot, k.C_TSO]
                a.tsos[slot, k.C_STATE] = 2
        tso = max(tso, np.int64(-1))  # more than 63 bits are no TSO
        if carrier == k.BY_TIME:
            _tick(reg)
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
        _advance(reg, tso, reg[k.TRANSACTION_ID])
    elif prepared >= 0 and carrier == k.BY_TIME:
        p = a.xids[prepared]
        _follow(a, p[k.P_START], p[k.P_END], p[k.P_SET], p[k.P_FLAGS])
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
            _follow(a, row[k.X_START], row[k.X_END], row[k.X_SET], row[k.X_FLAGS] | k.PLACEHOLDER)
        elif tso >= 0:
            _advance(reg, tso, reg[k.TRANSACTION_ID])
        reg[k.N_LATE] += 1
    _close(reg, end)


@njit(inline="always")
def _by_number(reg: Any, carrier: int) -> None:
    """Let PolarDB-X's transaction id stand for its gtrid, as in the transaction log."""
    if carrier == k.BY_SEQUENCE and reg[k.XID_KIND] != k.FOREIGN_XID:
        reg[k.GTRID_1], reg[k.GTRID_2] = reg[k.TRANSACTION_ID], k.BY_NUMBER


@njit(forceinline=True, _nrt=False)
def _query(a: k.Arrays, b: Any, at: int, end: int, group_end: int, timestamp: int, carrier: int, use_own: bool) -> int:
    """Take a QUERY_EVENT body `b[at:end]`: transaction control, XA, or DDL."""
    reg = a.reg
    if at + 13 > end:
        return k.BAD_BODY
    status = u16(b, at + 11)
    text = at + 13 + status + np.int64(b[at + 8]) + 1
    if text > end:
        return k.BAD_BODY
    phase = reg[k.PHASE]
    if phase in (k.IN_LOCAL, k.IN_XA, k.XA_ENDED):
        if phase == k.IN_LOCAL and _is(b, text, end, _COMMIT):
            _end_local(a, group_end, 0, carrier, use_own)
            return k.MORE
        if phase == k.IN_XA and _starts(b, text, end, _XA_END):
            reg[k.PHASE] = k.XA_ENDED
            return k.MORE
        if _starts(b, text, end, _SAVEPOINT):
            return k.MORE
        if phase == k.IN_LOCAL and _is(b, text, end, _ROLLBACK):
            return k.UNSUPPORTED
        return k.QUERY_IN_TRANSACTION
    if phase == k.IDLE:
        _open(reg, reg[k.BASE] + reg[k.POS], timestamp, k.STARTED)
    elif phase == k.CARRIED:
        reg[k.PHASE], reg[k.COMMIT_US] = k.STARTED, timestamp * 1000000
    if _is(b, text, end, _BEGIN):
        reg[k.PHASE] = k.IN_LOCAL
    elif _starts(b, text, end, _XA_START):
        if not parse_xid(b, text + len(_XA_START), end, reg):
            return k.BAD_XID
        _by_number(reg, carrier)
        if reg[k.XID_KIND] == k.STRANGE_XID:
            return k.XA_FORMAT
        if reg[k.XID_KIND] == k.ARCHIVE_XID:
            reg[k.FLAGS] |= k.ARCHIVE
        elif reg[k.XID_KIND] == k.IGNORED_XID:
            reg[k.FLAGS] |= k.DISCARD
        reg[k.PHASE] = k.IN_XA
    elif _starts(b, text, end, _XA_COMMIT):
        if not parse_xid(b, text + len(_XA_COMMIT), end, reg):
            return k.BAD_XID
        _by_number(reg, carrier)
        if carrier == k.BY_SEQUENCE:
            _status_sequence(reg, b, at + 13, at + 13 + status)
        _xa_end(a, group_end, carrier, False)
    elif _starts(b, text, end, _XA_ROLLBACK):
        if not parse_xid(b, text + len(_XA_ROLLBACK), end, reg):
            return k.BAD_XID
        _xa_end(a, group_end, carrier, True)
    else:
        _end_local(a, group_end, k.DDL, carrier, use_own)
    return k.MORE


@njit(inline="always")
def _status_size(b: Any, at: int, end: int) -> int:
    """Return the length of the status variable whose code stands at `b[at]`, or -1 where it is not known (MySQL
    `Query_event`).
    """
    code = b[at]
    if code in (0, 3, 10):
        return 5
    if code in (1, 9, 14, 17, 129, 200, 201):
        return 9
    if code == 15:
        return 17
    if code == 4:
        return 7
    if code in (7, 8, 18):
        return 3
    if code in (13, 128):
        return 4
    if code in (16, 19, 20, 21):
        return 2
    if code in (5, 6) and at + 1 < end:
        return 2 + np.int64(b[at + 1])
    if code == 11 and at + 1 < end and at + 2 + np.int64(b[at + 1]) < end:
        user = np.int64(b[at + 1])
        return 3 + user + np.int64(b[at + 2 + user])
    return -1


@njit(forceinline=True, _nrt=False)
def _status_sequence(reg: Any, b: Any, at: int, end: int) -> None:
    """Take status variable 200 (Q_LIZARD_COMMIT_GCN). Behind a variable that is not known it is sought from the end,
    where PolarDB-X writes it.
    """
    while at < end:
        size = _status_size(b, at, end)
        if size < 0 or at + size > end:
            break
        if b[at] == 200:
            reg[k.SEQUENCE_TSO] = i64(b, at + 1)
            return
        at += size
    if end - at >= 9 and b[end - 9] == 200:
        reg[k.SEQUENCE_TSO] = i64(b, end - 8)
    elif end - at >= 18 and b[end - 18] == 200 and b[end - 9] == 201:
        reg[k.SEQUENCE_TSO] = i64(b, end - 17)


@njit(inline="always")
def _carried(kind: int, first: int, size: int) -> bool:
    """Tell whether an event of PolarDB-X's own carries a commit TSO, in the eight bytes behind its first."""
    if kind == k.SEQUENCE_EVENT:
        return first == k.SEQUENCE_COMMIT
    return size >= 9 and first & k.GCN_COMMIT != 0 and first & k.GCN_PROPOSAL == 0


@njit(cache=True, nogil=True, _nrt=False)
def scan_events(a: k.Arrays, b: Any, end: int, stop: int, crc: int, carrier: int, use_own: bool) -> int:
    """Walk events from `b[reg[POS]]` to `b[end]`; returns why it stopped.

    `stop` is a file offset: the first group that begins at or after it is not walked. `crc` is 4 where events end with
    a checksum, else 0 (also inside a payload).
    """
    reg = a.reg
    while True:
        o = reg[k.POS]
        if o + 19 > end:
            return k.MORE
        length = u32(b, o + 9)
        kind = np.int64(b[o + 4])
        if length < 19 + crc or length > k.MAX_EVENT_SIZE:
            return k.BAD_SIZE
        if o + length > end:
            return k.MORE
        inner = reg[k.INNER_END] >= 0
        file_end = reg[k.INNER_END] if inner else reg[k.BASE] + o + length
        if not inner:
            if crc and crc32(b, o, length - 4) != np.uint32(u32(b, o + length - 4)):
                return k.BAD_CHECKSUM
            log_pos = u32(b, o + 13)
            if log_pos != file_end & 0xFFFFFFFF and (log_pos != 0 or kind != 15):
                return k.BAD_POSITION
        if (
            (reg[k.N_XIDS] + 2) * 2 > len(a.xids)
            or reg[k.N_TIMED] + 1 > len(a.timed)
            or reg[k.N_LOCAL] + 1 > len(a.local)
            or reg[k.N_LATE] + 1 > len(a.late)
            or (reg[k.N_STEPS] + 2) * 2 > len(a.steps)
            or reg[k.N_SETS] + 1 > len(a.sets)
        ):
            return k.GROW
        at, body_end = o + 19, o + length - crc
        timestamp = u32(b, o)
        phase = reg[k.PHASE]
        result = k.MORE
        if kind == 19:
            if phase in (k.IN_LOCAL, k.IN_XA):
                result = _table_map(a, b, at, body_end)
            else:
                result = k.OUTSIDE
        elif 30 <= kind <= 32 or 23 <= kind <= 25 or kind == 39:
            header = 8 if kind <= 25 else 10
            if at + header > body_end:
                return k.BAD_BODY
            table_id = u48(b, at)
            if phase not in (k.IN_LOCAL, k.IN_XA):
                result = k.OUTSIDE
            elif not _is_mapped(a, table_id):
                result = k.NO_TABLE_MAP
            elif table_id == reg[k.COMMIT_TABLE_ID] and kind in (23, 30):
                rows = at + 8
                if kind == 30:
                    rows += u16(b, at + 8)
                result = _commit_rows(a, b, rows, body_end)
        elif kind == 33 or kind == 34:
            if phase != k.IDLE and phase != k.CARRIED:
                result = k.UNFINISHED
            elif phase == k.IDLE and not inner and reg[k.BASE] + o >= stop:
                return k.DONE
            elif body_end - at < 25:
                result = k.BAD_BODY
            else:
                begins = reg[k.GROUP_START] if phase == k.CARRIED else reg[k.BASE] + o
                _open(reg, begins, timestamp, k.STARTED)
                _note_gtid(reg, b, at, body_end, timestamp)
        elif kind == 2:
            if phase == k.IDLE and not inner and reg[k.BASE] + o >= stop:
                # A log without GTID events (MySQL 5.6): only whole files are scanned, so this is never a cut.
                return k.DONE
            result = _query(a, b, at, body_end, file_end, timestamp, carrier, use_own)
        elif kind == 16:
            if phase == k.IN_LOCAL:
                _end_local(a, file_end, 0, carrier, use_own)
            else:
                result = k.OUTSIDE
        elif kind == 38:
            if body_end - at < 13:
                result = k.BAD_BODY
            elif phase != k.XA_ENDED:
                result = k.OUTSIDE
            elif b[at]:
                _end_local(a, file_end, 0, carrier, use_own)
            else:
                result = _prepare(a, file_end)
        elif kind == 29:
            pass  # ROWS_QUERY_LOG_EVENT: the user's text
        elif kind == 40:
            return k.PAYLOAD if not inner else k.BAD_BODY
        elif kind == 42:
            if phase != k.IDLE and phase != k.CARRIED:
                result = k.UNFINISHED
            elif phase == k.IDLE and reg[k.BASE] + o >= stop:
                return k.DONE
            else:
                return k.TAGGED_GTID
        elif kind == k.SEQUENCE_EVENT or kind == k.GCN_EVENT:
            if body_end - at < 1 or (body_end - at < 9 and (kind == k.SEQUENCE_EVENT or b[at] & 1)):
                result = k.BAD_BODY
            else:
                carries = _carried(kind, b[at], body_end - at)
                if phase == k.IDLE and (carries or kind == k.GCN_EVENT):
                    # GCN_LOG_EVENT is the first event of a group, in front of its GTID event.
                    if not inner and reg[k.BASE] + o >= stop:
                        return k.DONE
                    _open(reg, reg[k.BASE] + o, timestamp, k.CARRIED)
                if carries:
                    reg[k.SEQUENCE_TSO] = i64(b, at + 1)
        elif kind == 15 or kind == 35:
            if phase != k.IDLE:
                result = k.UNFINISHED
        elif kind == 4 or kind == 3:
            if phase != k.IDLE:
                result = k.UNFINISHED
            reg[k.CLEAN_END] = 1
        elif kind in (5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 17, 18):
            result = k.STATEMENT_EVENT
        elif kind == 26:
            result = k.UNSUPPORTED
        elif kind in (27, 28, 36, 37, 41) or 101 <= kind <= 104:
            # Heartbeats, and what group replication and PolarDB-X's consensus layer note for themselves: no change.
            reg[k.IGNORED] += 1
        elif u16(b, o + 17) & 0x80:
            reg[k.IGNORED] += 1
        else:
            result = k.UNKNOWN_EVENT
        if result != k.MORE:
            return result
        reg[k.EVENTS] += 1
        reg[k.POS] = o + length


@njit(cache=True, nogil=True, _nrt=False)
def find_group(b: Any, end: int, base: int, start: int, crc: int, least: int = 0) -> int:
    """Return the offset in `b` of the first group that begins at or after `least`, seen from `start`; `end` where there
    is none whole; -1 - offset for 'an event chain was found, look on behind this offset with more input'.

    A group begins with its GTID event, or with the PolarDB-X carrier right in front of it. A place is taken for an
    event when its length and type are plausible and its log_pos names its own end; with checksums the CRC must agree
    too, without them the next event must look right as well.
    """
    o = start
    while o + 19 <= end:
        length = u32(b, o + 9)
        if (
            19 + crc <= length <= k.MAX_EVENT_SIZE
            and u32(b, o + 13) == (base + o + length) & 0xFFFFFFFF
            and b[o + 4] < 128
        ):
            if o + length > end:
                if length <= (1 << 24):
                    return -1 - o
            elif crc:
                if crc32(b, o, length - 4) == np.uint32(u32(b, o + length - 4)):
                    break
            elif o + length + 19 <= end:
                following = o + length + u32(b, o + length + 9)
                if u32(b, o + length + 13) == (base + following) & 0xFFFFFFFF:
                    break
            else:
                return -1 - o
        o += 1
    begins = np.int64(-1)  # of the carriers right in front of `o`
    while o + 19 <= end:
        kind = b[o + 4]
        length = u32(b, o + 9)
        if length < 19:
            return end
        own = kind == k.GCN_EVENT or kind == k.SEQUENCE_EVENT
        if own and (kind == k.GCN_EVENT or (o + 28 <= end and _carried(kind, b[o + 19], 9))):
            begins = o if begins < 0 else begins
        else:
            if kind == 33 or kind == 34 or kind == 42:
                first = o if begins < 0 else begins
                if first >= least:
                    return first
            begins = np.int64(-1)
        if o + length > end:
            break
        o += length
    if o > end:
        return end
    return -1 - (o if begins < 0 else begins)
