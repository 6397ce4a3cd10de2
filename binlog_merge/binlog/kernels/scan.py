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

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels.cells import cell_length
from binlog_merge.binlog.kernels.crc32 import crc32
from binlog_merge.binlog.kernels.memory import hash_bytes, i64, load_64, same_bytes, u16, u32, u48

# Why the kernel stopped.
(
    MORE,  # the next event is not whole in the buffer
    DONE,  # the next group begins at or after the stop offset
    GROW,  # an array is full: see `Scan.grow`
    NEW_TABLE,  # a table map names a table that is not in the dictionary
    PAYLOAD,  # a TRANSACTION_PAYLOAD_EVENT, to be unpacked by Python
    TAGGED_GTID,  # a GTID_TAGGED_LOG_EVENT, to be parsed by Python
    QUERY_IN_TRANSACTION,  # a statement inside a transaction: CREATE TABLE ... SELECT, or statement-format DML
    BAD_SIZE,
    BAD_CHECKSUM,
    BAD_POSITION,
    BAD_BODY,
    UNKNOWN_EVENT,
    STATEMENT_EVENT,
    NO_TABLE_MAP,
    UNFINISHED,  # a group begins inside another
    OUTSIDE,  # an event of a transaction outside one
    BAD_XID,
    DUPLICATE_XID,
    UNSUPPORTED,  # INCIDENT, ROLLBACK of a logged transaction, MariaDB's own events
) = range(19)

# Registers.
(
    POS,  # offset in the buffer of the next event
    BASE,  # file offset of buffer[0]
    PHASE,
    GROUP_START,
    INNER_END,  # >= 0: the buffer is the inside of a payload event that ends there
    SET,  # node of the table-set automaton
    FLAGS,
    GNO,
    COMMIT_US,
    ORIGINAL_US,  # -1: none
    GTID_HASH,
    FIRST_TIMESTAMP,
    XID_1,
    XID_2,
    GTRID_1,
    GTRID_2,
    TRANSACTION_ID,
    MAX_TSO,
    MAX_TRANSACTION,
    SEQUENCE_TSO,  # the last commit sequence seen (events 80, 105, status variable 200); -1: none
    COMMIT_TABLE_ID,
    SEEN_IDS,  # table maps seen in the open group
    LAST_END,  # file offset behind the last complete group
    CLEAN_END,  # a ROTATE or STOP event ended the file
    EVENTS,
    IGNORED,  # events skipped because they carry the ignorable flag
    NAMES_END,
    N_TABLES,
    N_SETS,
    N_TIMED,
    N_LOCAL,
    N_LATE,
    N_XIDS,  # used slots, dead ones too
    N_TSOS,
    GROUPS,
    COMMIT_ROWS,
) = range(36)
REGISTERS = 40

IDLE, STARTED, IN_LOCAL, IN_XA, XA_ENDED = range(5)  # values of PHASE

# Flags of a branch.
HAS_COMMIT_ROWS = 1
MARKER = 2
COMPRESSED = 4
DDL = 8
OWN_TSO = 16  # a local transaction placed by a TSO of its own
PLACEHOLDER = 32  # an XA COMMIT without a known TSO holds this place
FLAG_CREATE_SELECT = 64

T_TSO, T_TRANSACTION, T_START, T_END, T_COMMIT_US, T_SET, T_FLAGS, T_COMMIT_AT, T_COLUMNS = range(9)
L_START, L_END, L_COMMIT_US, L_SET, L_FLAGS, L_MAX_TSO, L_MAX_TRANSACTION, L_COLUMNS = range(8)
(
    X_LOCAL,  # index of its placeholder among the locals, or -1
    X_LOCALS_BEFORE,
    X_XID_1,
    X_XID_2,
    X_GTRID_1,
    X_GTRID_2,
    X_TRANSACTION,
    X_TSO,  # -1: unknown, -2: this is a rollback
    X_COMMIT_US,
    X_COMMIT_AT,
    X_START,  # of the prepared branch, or -1
    X_END,
    X_SET,
    X_FLAGS,
    X_COLUMNS,
) = range(15)
(
    P_XID_1,
    P_XID_2,
    P_GTRID_1,
    P_GTRID_2,
    P_TRANSACTION,
    P_START,
    P_END,
    P_SET,
    P_FLAGS,
    P_MAX_TSO,  # the greatest commit TSO before the prepare
    P_STATE,  # 0 empty, 1 live, 2 dead
    P_COLUMNS,
) = range(12)
C_GTRID_1, C_GTRID_2, C_TSO, C_STATE, C_COLUMNS = range(5)  # C_STATE: 0 empty, 1 unused, 2 used

ORDINARY, COMMIT_TABLE, MARKER_TABLE = range(3)  # what a table name is to the scan

# Carriers of the commit TSO (design: one function per carrier; `merge/carriers.py` names and describes them).
BY_COMMIT_TABLE, BY_ORIGINAL_TIMESTAMP, BY_ORIGINAL_MICROSECONDS, BY_GTID, BY_SEQUENCE = range(1, 6)

MAX_TABLES_IN_GROUP = 65536
MAX_EVENT_SIZE = (1 << 30) + (1 << 20)  # max_allowed_packet is at most 1 GiB; the event's own parts come on top


class Arrays(NamedTuple):
    """The arrays of a scan; Python replaces one by a bigger one when the kernel says GROW."""

    reg: Any  # int64[REGISTERS]
    names: Any  # uint8: schema NUL table NUL, one after the other
    tables: Any  # int64[n, 5]: hash, offset, length, table index + 1 (0: empty), kind
    steps: Any  # int64[n, 3]: set, table, set reached + 1 (0: empty)
    sets: Any  # int64[n, 2]: parent set, table
    timed: Any
    local: Any
    late: Any
    xids: Any
    tsos: Any
    ids: Any  # int64[MAX_TABLES_IN_GROUP]: table ids mapped in the open group


def _text(word: str) -> Any:
    return np.frombuffer(word.encode(), np.uint8).copy()


_BEGIN, _COMMIT, _ROLLBACK = _text("BEGIN"), _text("COMMIT"), _text("ROLLBACK")
_XA_START, _XA_END, _XA_COMMIT = _text("XA START "), _text("XA END "), _text("XA COMMIT ")
_XA_ROLLBACK, _SAVEPOINT = _text("XA ROLLBACK "), _text("SAVEPOINT ")
_DRDS = _text("drds-")

_FNV_PRIME = np.uint64(0x100000001B3)
_FNV_BASIS = np.uint64(0xCBF29CE484222325)


@njit(inline="always")
def _starts(b: Any, at: int, end: int, word: Any) -> bool:
    if at + len(word) > end:
        return False
    for k in range(len(word)):  # noqa: SIM110 - numba compiles the loop, not `all`
        if b[at + k] != word[k]:
            return False
    return True


@njit(inline="always")
def _is(b: Any, at: int, end: int, word: Any) -> bool:
    return end - at == len(word) and _starts(b, at, end, word)


@njit(inline="always")
def _hex_digit(c: int) -> int:
    if 48 <= c <= 57:
        return c - 48
    if 97 <= c <= 102:
        return c - 87
    if 65 <= c <= 70:
        return c - 55
    return -1


@njit(inline="always")
def _mix(h1: Any, h2: Any, byte: int) -> Any:
    h1 = (h1 ^ np.uint64(byte)) * _FNV_PRIME
    h2 = (h2 + np.uint64(byte) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    h2 ^= h2 >> np.uint64(32)
    return h1, h2


@njit(cache=True)
def _parse_xid(b: Any, at: int, end: int, reg: Any) -> bool:
    """Read `X'gtrid',X'bqual',formatID` into the XID, GTRID and TRANSACTION_ID registers; False where it is malformed.

    The transaction id is the hexadecimal number after `drds-` (PolarDB-X), else FNV-1a of the gtrid.
    """
    h1, h2 = _FNV_BASIS, np.uint64(0)
    number, is_drds, in_number = np.int64(0), True, True
    for part in range(2):
        if at + 3 > end or b[at] != 88 or b[at + 1] != 39:  # X'
            return False
        at += 2
        length = 0
        while at + 1 < end and b[at] != 39:
            high, low = _hex_digit(b[at]), _hex_digit(b[at + 1])
            if high < 0 or low < 0:
                return False
            byte = high * 16 + low
            if part == 0:
                if length < 5:
                    is_drds = is_drds and byte == _DRDS[length]
                elif in_number:
                    digit = _hex_digit(byte)
                    if digit < 0:
                        in_number = False
                    else:
                        number = (number << 4) | digit
            h1, h2 = _mix(h1, h2, byte)
            length += 1
            at += 2
        if at >= end or b[at] != 39:
            return False
        at += 1
        if at >= end or b[at] != 44:  # a comma
            return False
        at += 1
        if part == 0:
            reg[GTRID_1], reg[GTRID_2] = np.int64(h1), np.int64(h2)
            if is_drds and length > 5:
                reg[TRANSACTION_ID] = number & np.int64(0x7FFFFFFFFFFFFFFF)
            else:
                reg[TRANSACTION_ID] = np.int64(h1 & np.uint64(0x7FFFFFFFFFFFFFFF))
        h1, h2 = _mix(h1, h2, 256)  # the parts end somewhere: 'ab','c' is not 'a','bc'
    while at < end and b[at] != 32:
        if not 48 <= b[at] <= 57:
            return False
        h1, h2 = _mix(h1, h2, b[at])
        at += 1
    reg[XID_1], reg[XID_2] = np.int64(h1), np.int64(h2)
    return True


@njit(inline="always")
def _find(table: Any, k1: int, k2: int, state_column: int) -> int:
    """Return the slot that holds (k1, k2), or ~slot of the empty one where the search ended."""
    mask = len(table) - 1
    slot = np.int64((np.uint64(k1) ^ (np.uint64(k2) >> np.uint64(7))) & np.uint64(mask))
    while table[slot, state_column] != 0:
        if table[slot, 0] == k1 and table[slot, 1] == k2:
            return slot
        slot = (slot + 1) & mask
    return ~slot


@njit(cache=True)
def rehash(old: Any, new: Any, state_column: int, drop_dead: bool) -> int:
    """Copy the entries of an open-addressing table into a bigger, empty one; return how many there are."""
    count = 0
    for i in range(len(old)):
        state = old[i, state_column]
        if state == 0 or (drop_dead and state == 2):
            continue
        slot = _find(new, old[i, 0], old[i, 1], state_column)
        new[~slot if slot < 0 else slot] = old[i]
        count += 1
    return count


@njit(inline="always")
def _advance(reg: Any, tso: int, transaction: int) -> None:
    if tso > reg[MAX_TSO] or (tso == reg[MAX_TSO] and transaction > reg[MAX_TRANSACTION]):
        reg[MAX_TSO], reg[MAX_TRANSACTION] = tso, transaction


@njit(cache=True)
def _add_table_to_set(a: Arrays, table: int) -> None:
    """Move the table-set automaton: the same tables in the same first-seen order reach the same set."""
    reg = a.reg
    here = reg[SET]
    mask = len(a.steps) - 1
    slot = np.int64((np.uint64(here) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(table)) & np.uint64(mask))
    while a.steps[slot, 2] != 0:
        if a.steps[slot, 0] == here and a.steps[slot, 1] == table:
            reg[SET] = a.steps[slot, 2] - 1
            return
        slot = (slot + 1) & mask
    reached = here
    while reached > 0 and a.sets[reached, 1] != table:
        reached = a.sets[reached, 0]
    if reached > 0:
        reached = here  # it is in the set already
    else:
        reached = reg[N_SETS]
        a.sets[reached, 0], a.sets[reached, 1] = here, table
        reg[N_SETS] += 1
    a.steps[slot, 0], a.steps[slot, 1], a.steps[slot, 2] = here, table, reached + 1
    reg[SET] = reached


@njit(cache=True)
def _find_table(a: Arrays, b: Any, at: int, length: int) -> int:
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


@njit(cache=True)
def name_hash(name: Any) -> int:
    """Return the hash under which the kernel looks a table name up."""
    return hash_bytes(name, 0, len(name), 0)


@njit(cache=True)
def _table_map(a: Arrays, b: Any, at: int, end: int) -> int:
    """Note a table map: returns MORE to go on, NEW_TABLE, or BAD_BODY."""
    reg = a.reg
    if at + 10 > end:
        return BAD_BODY
    schema = np.int64(b[at + 8])
    if at + 9 + schema + 2 > end:
        return BAD_BODY
    table = np.int64(b[at + 10 + schema])
    name_end = at + 11 + schema + table + 1
    if name_end > end:
        return BAD_BODY
    # The key is "len schema NUL len table": lengths are part of it, so no two names share one.
    slot = _find_table(a, b, at + 8, schema + table + 3)
    if slot < 0:
        return NEW_TABLE
    if reg[SEEN_IDS] >= len(a.ids):
        return UNSUPPORTED
    kind = a.tables[slot, 4]
    table_id = u48(b, at)
    a.ids[reg[SEEN_IDS]] = table_id
    reg[SEEN_IDS] += 1
    if kind == COMMIT_TABLE:
        reg[FLAGS] |= HAS_COMMIT_ROWS
        reg[COMMIT_TABLE_ID] = table_id
        return _commit_table_shape(a, b, name_end, end)
    if kind == MARKER_TABLE:
        reg[FLAGS] |= MARKER
    _add_table_to_set(a, a.tables[slot, 3] - 1)
    return MORE


@njit(cache=True)
def _metadata_size(column_type: int) -> int:
    """Return how many metadata bytes a column type has in a table map (MySQL
    `Table_map_event::save_field_metadata`).
    """
    if column_type in (15, 16, 246, 247, 248, 253, 254):
        return 2
    if column_type in (4, 5, 17, 18, 19, 242, 245, 249, 250, 251, 252, 255):
        return 1
    return 0


@njit(cache=True)
def _commit_table_shape(a: Arrays, b: Any, at: int, end: int) -> int:
    """Keep the types of the commit table's first columns in `ids`, from the end backwards: count, then (type,
    metadata).
    """
    if at >= end or b[at] > 64:
        return BAD_BODY
    count = np.int64(b[at])
    types = at + 1
    if types + count + 1 > end or b[types + count] > 250:
        return BAD_BODY
    meta = types + count + 1
    if meta + np.int64(b[types + count]) > end:
        return BAD_BODY
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
    # gtrid: a string; tso: BIGINT. Anything else is not a commit table.
    if count < 2 or a.ids[top - 3] != 8 or a.ids[top - 1] not in (15, 252, 253, 254):
        return BAD_BODY
    return MORE


@njit(cache=True)
def _commit_rows(a: Arrays, b: Any, at: int, end: int) -> int:
    """Read (gtrid, tso) from a WRITE_ROWS body whose columns-present bitmap starts at `at`."""
    reg, top = a.reg, len(a.ids) - 1
    count = a.ids[top]
    if at >= end or np.int64(b[at]) != count:
        return BAD_BODY
    bitmap = (count + 7) >> 3
    at += 1
    if at + bitmap > end:
        return BAD_BODY
    for c in range(count):
        if not (b[at + (c >> 3)] >> (c & 7)) & 1:
            return BAD_BODY
    at += bitmap
    while at < end:
        if (reg[N_TSOS] + 2) * 2 > len(a.tsos):
            return GROW
        nulls = at
        at += bitmap
        if at > end or b[nulls] & 3:
            return BAD_BODY
        for c in range(count):
            if (b[nulls + (c >> 3)] >> (c & 7)) & 1:
                continue
            column_type, meta = a.ids[top - 1 - 2 * c], a.ids[top - 2 - 2 * c]
            size = cell_length(b, at, end, column_type, meta)
            if size < 0 or at + size > end:
                return BAD_BODY
            if c == 0:
                prefix = meta if column_type == 252 else (2 if column_type == 15 and meta > 255 else 1)
                h1, h2 = _FNV_BASIS, np.uint64(0)
                for k in range(at + prefix, at + size):
                    h1, h2 = _mix(h1, h2, b[k])
                key_1, key_2 = np.int64(h1), np.int64(h2)
            elif c == 1:
                tso = i64(b, at)
            at += size
        slot = _find(a.tsos, key_1, key_2, C_STATE)
        if slot < 0:
            slot = ~slot
            reg[N_TSOS] += 1
        reg[COMMIT_ROWS] += 1
        a.tsos[slot, C_GTRID_1], a.tsos[slot, C_GTRID_2] = key_1, key_2
        a.tsos[slot, C_TSO], a.tsos[slot, C_STATE] = tso, 1
    return MORE


@njit(cache=True)
def _note_gtid(reg: Any, b: Any, at: int, end: int, timestamp: int) -> None:
    """Keep what a GTID event says: gno, commit times (MySQL `Gtid_event`; 5.6 writes no timestamps)."""
    reg[GNO] = i64(b, at + 17)
    reg[GTID_HASH] = hash_bytes(b, at + 1, 24, 7)
    reg[COMMIT_US] = timestamp * 1000000
    reg[ORIGINAL_US] = -1
    if end - at >= 49:
        low = np.int64(load_64(b, at + 41) >> np.uint64(8))  # 7 bytes at 42
        reg[COMMIT_US] = low & ((np.int64(1) << 55) - 1)
        if low >> 55 and end - at >= 56:
            reg[ORIGINAL_US] = np.int64(load_64(b, at + 48) >> np.uint64(8)) & ((np.int64(1) << 55) - 1)


@njit(inline="always")
def _own_tso(reg: Any, carrier: int) -> int:
    """Return the commit TSO that the open group itself carries, or -1."""
    if carrier == BY_ORIGINAL_TIMESTAMP and reg[ORIGINAL_US] >= 0:
        return reg[ORIGINAL_US] << 9
    if carrier == BY_ORIGINAL_MICROSECONDS and reg[ORIGINAL_US] >= 0:
        return ((reg[ORIGINAL_US] // 1000) << 22) | (reg[ORIGINAL_US] % 1000)
    if carrier == BY_GTID and reg[GNO] > 0:
        return reg[GNO]
    if carrier == BY_SEQUENCE:
        return reg[SEQUENCE_TSO]
    return -1


@njit(inline="always")
def _close(reg: Any, end: int) -> None:
    reg[PHASE] = IDLE
    reg[LAST_END] = end
    reg[GROUPS] += 1
    reg[SEQUENCE_TSO] = -1


@njit(inline="always")
def _open(reg: Any, start: int, timestamp: int, phase: int) -> None:
    reg[PHASE] = phase
    reg[GROUP_START] = start
    reg[SET] = 0
    reg[FLAGS] = 0
    reg[SEEN_IDS] = 0
    reg[COMMIT_TABLE_ID] = -1
    reg[FIRST_TIMESTAMP] = timestamp
    reg[COMMIT_US] = timestamp * 1000000
    reg[ORIGINAL_US] = -1
    reg[GNO] = 0
    reg[GTID_HASH] = 0


@njit(cache=True)
def _end_local(a: Arrays, end: int, flags: int, carrier: int, use_own_tso: bool) -> None:
    """Write the row of a transaction without a distributed commit TSO; one that only feeds the commit table has
    none.
    """
    reg = a.reg
    flags |= reg[FLAGS]
    if not (flags & HAS_COMMIT_ROWS and reg[SET] == 0):
        tso = np.int64(-1)
        if use_own_tso and not flags & DDL:
            tso = _own_tso(reg, carrier)
        if tso >= 0:
            row = a.timed[reg[N_TIMED]]
            row[T_TSO], row[T_TRANSACTION] = tso, reg[GTID_HASH]
            row[T_START], row[T_END], row[T_COMMIT_US] = reg[GROUP_START], end, reg[COMMIT_US]
            row[T_SET], row[T_FLAGS], row[T_COMMIT_AT] = reg[SET], flags | OWN_TSO, reg[GROUP_START]
            reg[N_TIMED] += 1
            _advance(reg, tso, reg[GTID_HASH])
        else:
            row = a.local[reg[N_LOCAL]]
            row[L_START], row[L_END], row[L_COMMIT_US] = reg[GROUP_START], end, reg[COMMIT_US]
            row[L_SET], row[L_FLAGS] = reg[SET], flags
            row[L_MAX_TSO], row[L_MAX_TRANSACTION] = reg[MAX_TSO], reg[MAX_TRANSACTION]
            reg[N_LOCAL] += 1
    _close(reg, end)


@njit(cache=True)
def _prepare(a: Arrays, end: int) -> int:
    reg = a.reg
    slot = _find(a.xids, reg[XID_1], reg[XID_2], P_STATE)
    if slot >= 0 and a.xids[slot, P_STATE] == 1:
        return DUPLICATE_XID
    if slot < 0:
        slot = ~slot
        reg[N_XIDS] += 1
    row = a.xids[slot]
    row[P_XID_1], row[P_XID_2], row[P_GTRID_1], row[P_GTRID_2] = reg[XID_1], reg[XID_2], reg[GTRID_1], reg[GTRID_2]
    row[P_TRANSACTION], row[P_START], row[P_END] = reg[TRANSACTION_ID], reg[GROUP_START], end
    row[P_SET], row[P_FLAGS], row[P_MAX_TSO], row[P_STATE] = reg[SET], reg[FLAGS], reg[MAX_TSO], 1
    _close(reg, end)
    return MORE


@njit(cache=True)
def _xa_end(a: Arrays, end: int, carrier: int, rollback: bool) -> None:
    """Join XA COMMIT or XA ROLLBACK with its prepare and its commit TSO; what is missing goes to `late`."""
    reg = a.reg
    prepared = _find(a.xids, reg[XID_1], reg[XID_2], P_STATE)
    if prepared >= 0 and a.xids[prepared, P_STATE] != 1:
        prepared = np.int64(-1)
    tso = np.int64(-2)
    if not rollback:
        tso = _own_tso(reg, carrier)
        if carrier == BY_COMMIT_TABLE:
            slot = _find(a.tsos, reg[GTRID_1], reg[GTRID_2], C_STATE)
            if slot >= 0:
                tso = a.tsos[slot, C_TSO]
                a.tsos[slot, C_STATE] = 2
    if prepared >= 0 and rollback:
        a.xids[prepared, P_STATE] = 2
    elif prepared >= 0 and tso >= 0:
        p, row = a.xids[prepared], a.timed[reg[N_TIMED]]
        row[T_TSO], row[T_TRANSACTION], row[T_START], row[T_END] = tso, p[P_TRANSACTION], p[P_START], p[P_END]
        row[T_COMMIT_US], row[T_SET], row[T_FLAGS] = reg[COMMIT_US], p[P_SET], p[P_FLAGS]
        row[T_COMMIT_AT] = reg[GROUP_START]
        p[P_STATE] = 2
        reg[N_TIMED] += 1
        _advance(reg, tso, reg[TRANSACTION_ID])
    else:
        row = a.late[reg[N_LATE]]
        row[X_LOCAL], row[X_LOCALS_BEFORE] = -1, reg[N_LOCAL]
        row[X_XID_1], row[X_XID_2], row[X_GTRID_1], row[X_GTRID_2] = (
            reg[XID_1], reg[XID_2], reg[GTRID_1], reg[GTRID_2],
        )  # fmt: skip
        row[X_TRANSACTION], row[X_TSO] = reg[TRANSACTION_ID], tso
        row[X_COMMIT_US], row[X_COMMIT_AT] = reg[COMMIT_US], reg[GROUP_START]
        row[X_START], row[X_END], row[X_SET], row[X_FLAGS] = -1, -1, 0, 0
        if prepared >= 0:
            p = a.xids[prepared]
            row[X_START], row[X_END], row[X_SET], row[X_FLAGS] = p[P_START], p[P_END], p[P_SET], p[P_FLAGS]
            p[P_STATE] = 2
        if tso == -1:
            row[X_LOCAL] = reg[N_LOCAL]
            place = a.local[reg[N_LOCAL]]
            place[L_START], place[L_END], place[L_COMMIT_US] = row[X_START], row[X_END], reg[COMMIT_US]
            place[L_SET], place[L_FLAGS] = row[X_SET], row[X_FLAGS] | PLACEHOLDER
            place[L_MAX_TSO], place[L_MAX_TRANSACTION] = reg[MAX_TSO], reg[MAX_TRANSACTION]
            reg[N_LOCAL] += 1
        elif tso >= 0:
            _advance(reg, tso, reg[TRANSACTION_ID])
        reg[N_LATE] += 1
    _close(reg, end)


@njit(cache=True)
def _query(a: Arrays, b: Any, at: int, end: int, group_end: int, timestamp: int, carrier: int, use_own: bool) -> int:
    """Take a QUERY_EVENT body `b[at:end]`: transaction control, XA, or DDL."""
    reg = a.reg
    if at + 13 > end:
        return BAD_BODY
    status = u16(b, at + 11)
    text = at + 13 + status + np.int64(b[at + 8]) + 1
    if text > end:
        return BAD_BODY
    phase = reg[PHASE]
    if phase in (IN_LOCAL, IN_XA, XA_ENDED):
        if phase == IN_LOCAL and _is(b, text, end, _COMMIT):
            _end_local(a, group_end, 0, carrier, use_own)
            return MORE
        if phase == IN_XA and _starts(b, text, end, _XA_END):
            reg[PHASE] = XA_ENDED
            return MORE
        if _starts(b, text, end, _SAVEPOINT):
            return MORE
        if phase == IN_LOCAL and _is(b, text, end, _ROLLBACK):
            return UNSUPPORTED
        return QUERY_IN_TRANSACTION
    if phase == IDLE:
        _open(reg, reg[BASE] + reg[POS], timestamp, STARTED)
    if _is(b, text, end, _BEGIN):
        reg[PHASE] = IN_LOCAL
    elif _starts(b, text, end, _XA_START):
        if not _parse_xid(b, text + len(_XA_START), end, reg):
            return BAD_XID
        reg[PHASE] = IN_XA
    elif _starts(b, text, end, _XA_COMMIT):
        if not _parse_xid(b, text + len(_XA_COMMIT), end, reg):
            return BAD_XID
        if carrier == BY_SEQUENCE and reg[SEQUENCE_TSO] < 0:
            _status_sequence(reg, b, at + 13, at + 13 + status)
        _xa_end(a, group_end, carrier, False)
    elif _starts(b, text, end, _XA_ROLLBACK):
        if not _parse_xid(b, text + len(_XA_ROLLBACK), end, reg):
            return BAD_XID
        _xa_end(a, group_end, carrier, True)
    else:
        _end_local(a, group_end, DDL, carrier, use_own)
    return MORE


@njit(cache=True)
def _status_sequence(reg: Any, b: Any, at: int, end: int) -> None:
    """Find status variable 200 (Q_LIZARD_COMMIT_GCN); PolarDB-X writes it last, so it is sought from the end."""
    if end - at >= 9 and b[end - 9] == 200:
        reg[SEQUENCE_TSO] = i64(b, end - 8)
    elif end - at >= 18 and b[end - 18] == 200:
        reg[SEQUENCE_TSO] = i64(b, end - 17)


@njit(cache=True)
def _is_mapped(a: Arrays, table_id: int) -> bool:
    i = a.reg[SEEN_IDS] - 1
    while i >= 0:
        if a.ids[i] == table_id:
            return True
        i -= 1
    return table_id == 0xFFFFFF  # the dummy id of a row event that only ends its statement


@njit(cache=True, nogil=True)
def scan_events(a: Arrays, b: Any, end: int, stop: int, crc: int, carrier: int, use_own: bool) -> int:
    """Walk events from `b[reg[POS]]` to `b[end]`; returns why it stopped.

    `stop` is a file offset: the first group that begins at or after it is not walked. `crc` is 4 where events end with
    a checksum, else 0 (also inside a payload).
    """
    reg = a.reg
    while True:
        o = reg[POS]
        if o + 19 > end:
            return MORE
        length = u32(b, o + 9)
        kind = np.int64(b[o + 4])
        if length < 19 + crc or length > MAX_EVENT_SIZE:
            return BAD_SIZE
        if o + length > end:
            return MORE
        inner = reg[INNER_END] >= 0
        file_end = reg[INNER_END] if inner else reg[BASE] + o + length
        if not inner:
            if crc and crc32(b, o, length - 4) != np.uint32(u32(b, o + length - 4)):
                return BAD_CHECKSUM
            log_pos = u32(b, o + 13)
            if log_pos != file_end & 0xFFFFFFFF and (log_pos != 0 or kind != 15):
                return BAD_POSITION
        if (
            (reg[N_XIDS] + 2) * 2 > len(a.xids)
            or reg[N_TIMED] + 1 > len(a.timed)
            or reg[N_LOCAL] + 1 > len(a.local)
            or reg[N_LATE] + 1 > len(a.late)
            or (reg[N_SETS] + 2) * 4 > len(a.steps)
            or reg[N_SETS] + 1 > len(a.sets)
        ):
            return GROW
        at, body_end = o + 19, o + length - crc
        timestamp = u32(b, o)
        phase = reg[PHASE]
        result = MORE
        if kind == 19:
            if phase in (IN_LOCAL, IN_XA):
                result = _table_map(a, b, at, body_end)
            else:
                result = OUTSIDE
        elif 30 <= kind <= 32 or 23 <= kind <= 25 or kind == 39:
            header = 8 if kind <= 25 else 10
            if at + header > body_end:
                return BAD_BODY
            table_id = u48(b, at)
            if phase not in (IN_LOCAL, IN_XA):
                result = OUTSIDE
            elif not _is_mapped(a, table_id):
                result = NO_TABLE_MAP
            elif table_id == reg[COMMIT_TABLE_ID] and kind in (23, 30):
                rows = at + 8
                if kind == 30:
                    rows += u16(b, at + 8)
                result = _commit_rows(a, b, rows, body_end)
        elif kind == 33 or kind == 34:
            if phase != IDLE:
                result = UNFINISHED
            elif not inner and reg[BASE] + o >= stop:
                return DONE
            elif body_end - at < 25:
                result = BAD_BODY
            else:
                _open(reg, reg[BASE] + o, timestamp, STARTED)
                _note_gtid(reg, b, at, body_end, timestamp)
        elif kind == 2:
            if phase == IDLE and not inner and reg[BASE] + o >= stop:
                # A log without GTID events (MySQL 5.6): only whole files are scanned, so this is never a cut.
                return DONE
            result = _query(a, b, at, body_end, file_end, timestamp, carrier, use_own)
        elif kind == 16:
            if phase == IN_LOCAL:
                _end_local(a, file_end, 0, carrier, use_own)
            else:
                result = OUTSIDE
        elif kind == 38:
            if body_end - at < 13:
                result = BAD_BODY
            elif phase != XA_ENDED:
                result = OUTSIDE
            elif b[at]:
                _end_local(a, file_end, 0, carrier, use_own)
            else:
                result = _prepare(a, file_end)
        elif kind == 29:
            pass  # ROWS_QUERY_LOG_EVENT: the user's text
        elif kind == 40:
            return PAYLOAD if not inner else BAD_BODY
        elif kind == 42:
            if phase != IDLE:
                result = UNFINISHED
            elif reg[BASE] + o >= stop:
                return DONE
            else:
                return TAGGED_GTID
        elif kind == 80:
            if body_end - at < 9:
                result = BAD_BODY
            elif b[at] == 2:
                reg[SEQUENCE_TSO] = i64(b, at + 1)
        elif kind == 105:
            if body_end - at < 9:
                result = BAD_BODY
            elif b[at] & 4:
                reg[SEQUENCE_TSO] = i64(b, at + 1)
        elif kind == 15 or kind == 35:
            if phase != IDLE:
                result = UNFINISHED
        elif kind == 4 or kind == 3:
            if phase != IDLE:
                result = UNFINISHED
            reg[CLEAN_END] = 1
        elif kind in (5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 17, 18):
            result = STATEMENT_EVENT
        elif kind == 26:
            result = UNSUPPORTED
        elif kind in (27, 28, 36, 37, 41):
            reg[IGNORED] += 1  # heartbeats and group replication's own notes carry no change
        elif u16(b, o + 17) & 0x80:
            reg[IGNORED] += 1
        else:
            result = UNKNOWN_EVENT
        if result != MORE:
            return result
        reg[EVENTS] += 1
        reg[POS] = o + length


@njit(cache=True, nogil=True)
def find_group(b: Any, end: int, base: int, start: int, crc: int) -> int:
    """Return the offset in `b`, at or after `start`, of the first GTID event; `end` where there is none whole; -1 -
    offset for 'an event chain was found, look on behind this offset with more input'.

    A place is taken for an event when its length and type are plausible and its log_pos names its own end; with
    checksums the CRC must agree too, without them the next event must look right as well.
    """
    o = start
    while o + 19 <= end:
        length = u32(b, o + 9)
        if (
            19 + crc <= length <= MAX_EVENT_SIZE
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
    while o + 19 <= end:
        kind = b[o + 4]
        if kind == 33 or kind == 34 or kind == 42:
            return o
        length = u32(b, o + 9)
        if length < 19:
            return end
        if o + length > end:
            return -1 - o
        o += length
    return -1 - o if o <= end else end
