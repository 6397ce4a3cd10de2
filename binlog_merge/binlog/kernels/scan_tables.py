"""Tables in the scan kernel: the dictionary of names, the sets of tables of groups, rows of the commit table.

A group's set is the state of an automaton; adding a table is a transition, stored in `steps`.
"""

# Inlined into `scan_events`: see `kernels.scan`.

from typing import Any

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.binlog.kernels import types as t
from binlog_merge.binlog.kernels.memory import hash_bytes, i64, same_bytes, u16, u48
from binlog_merge.binlog.kernels.row_lengths import cell_length
from binlog_merge.binlog.kernels.xid import FNV_BASIS, find, mix


@njit(forceinline=True, _nrt=False)
def add_table_to_set(a: k.Arrays, table: int) -> None:
    """Add a table to the open group's set; the same tables in the same order of first occurrence are the same set."""
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
def find_table(a: k.Arrays, b: Any, at: int, length: int) -> int:
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
    """Return the hash by which the kernel looks up a table name."""
    return hash_bytes(name, 0, len(name), 0)


@njit(forceinline=True, _nrt=False)
def is_mapped(a: k.Arrays, table_id: int) -> bool:
    """Return whether the open group has a table map with the table id."""
    i = a.reg[k.SEEN_IDS] - 1
    while i >= 0:
        if a.ids[i] == table_id:
            return True
        i -= 1
    return table_id == 0xFFFFFF  # the dummy id of a row event that only ends its statement


@njit(inline="always")
def _is_laid_out(b: Any, at: int, end: int) -> bool:
    """Return whether the columns after a table map's names are well formed: count, types, metadata, null bitmap.

    This is checked also for tables that are not in the output: a table mistaken for another would hide its rows.
    """
    if at >= end:
        return False
    count = np.int64(b[at])
    at += 1
    if count == 252 and at + 2 <= end:
        count = u16(b, at)
        at += 2
    elif count > 250:
        return False
    at += count
    if at >= end:
        return False
    metadata = np.int64(b[at])
    at += 1
    if metadata == 252 and at + 2 <= end:
        metadata = u16(b, at)
        at += 2
    elif metadata > 250:
        return False
    return at + metadata + ((count + 7) >> 3) <= end


@njit(forceinline=True, _nrt=False)
def table_map(a: k.Arrays, b: Any, at: int, end: int) -> int:
    """Handle a table map; return MORE to continue, NEW_TABLE, or BAD_BODY."""
    reg = a.reg
    if at + 10 > end:
        return k.BAD_BODY
    schema = np.int64(b[at + 8])
    if at + 9 + schema + 2 > end:
        return k.BAD_BODY
    table = np.int64(b[at + 10 + schema])
    name_end = at + 11 + schema + table + 1
    if name_end > end or b[at + 9 + schema] != 0 or b[name_end - 1] != 0 or not _is_laid_out(b, name_end, end):
        return k.BAD_BODY
    # The key is "len schema NUL len table": lengths are part of it, so no two names share one.
    slot = find_table(a, b, at + 8, schema + table + 3)
    if slot < 0:
        return k.NEW_TABLE
    kind = a.tables[slot, 4]
    table_id = u48(b, at)
    if not is_mapped(a, table_id):  # every statement of a transaction maps its tables again
        if reg[k.SEEN_IDS] >= k.MAX_TABLES_IN_GROUP:
            return k.UNSUPPORTED
        a.ids[reg[k.SEEN_IDS]] = table_id
        reg[k.SEEN_IDS] += 1
    if kind == k.COMMIT_TABLE or kind == k.LOG_TABLE:
        reg[k.FLAGS] |= k.HAS_COMMIT_ROWS
        reg[k.COMMIT_TABLE_ID] = table_id
        return commit_table_shape(a, b, name_end, end, kind == k.LOG_TABLE)
    if kind == k.SYSTEM_TABLE:
        return k.MORE
    if kind == k.MARKER_TABLE:
        reg[k.FLAGS] |= k.MARKER
    elif kind == k.HEARTBEAT_TABLE:
        reg[k.FLAGS] |= k.HEARTBEAT
    elif kind == k.SYNC_POINT_TABLE:
        reg[k.FLAGS] |= k.MARKER | k.SYNC_POINT
    add_table_to_set(a, a.tables[slot, 3] - 1)
    return k.MORE


@njit(forceinline=True, _nrt=False)
def metadata_size(column_type: int) -> int:
    """Return the number of metadata bytes of a column type (MySQL `Table_map_event::save_field_metadata`)."""
    if column_type in t.TWO_BYTES_OF_METADATA:
        return 2
    if column_type in t.ONE_BYTE_OF_METADATA:
        return 1
    return 0


@njit(forceinline=True, _nrt=False)
def commit_table_shape(a: k.Arrays, b: Any, at: int, end: int, is_log: bool) -> int:
    """Store the types of the commit table's first columns in `ids`, from the end backwards: count, (type, metadata)*.

    In PolarDB-X's transaction log the TSO is the second BIGINT, after the transaction id (polardbx-sql
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
        size = metadata_size(b[types + c])
        value = np.int64(0)
        if meta + size > end:
            return k.BAD_BODY
        if size == 1:
            value = np.int64(b[meta])
        elif size == 2:
            value = u16(b, meta)
        meta += size
        a.ids[top - 1 - 2 * c], a.ids[top - 2 - 2 * c] = np.int64(b[types + c]), value
    if meta != types + count + 1 + np.int64(b[types + count]):
        return k.BAD_BODY
    a.reg[k.ROW_KEY_IS_NUMBER], a.reg[k.ROW_TSO] = 0, 1
    if is_log:
        a.reg[k.ROW_KEY_IS_NUMBER], a.reg[k.ROW_TSO] = 1, -1
        for c in range(1, count):
            if a.ids[top - 1 - 2 * c] == t.LONGLONG and a.reg[k.ROW_TSO] < 0:
                a.reg[k.ROW_TSO] = c
        return k.MORE if count > 0 and a.ids[top - 1] == t.LONGLONG else k.BAD_BODY
    # gtrid: a string; tso: BIGINT. Anything else is not a commit table.
    if count < 2 or a.ids[top - 3] != t.LONGLONG or a.ids[top - 1] not in (t.VARCHAR, t.BLOB, t.VAR_STRING, t.STRING):
        return k.BAD_BODY
    return k.MORE


@njit(forceinline=True, _nrt=False)
def commit_rows(a: k.Arrays, b: Any, at: int, end: int) -> int:
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
                prefix = meta if column_type == t.BLOB else (2 if column_type == t.VARCHAR and meta > 255 else 1)
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
