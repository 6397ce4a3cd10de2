"""Walks a merged binlog and indexes its rows events by table, transaction and offset, without reading row images.

The input is a window of a file, with the state in `reg`; the output are rows of int64:

    transactions   T_*: offsets of begin and end, rank, offset of the order key's event
    events         E_*: the rows events, in file order
    maps           M_*: the table maps, each distinct one once (or a few times; Python compares them again)

The kernel stops at events that Python must handle (a statement, a format description, damage) and returns the reason.
Its plain twin is `log.reader.Log.items`.
"""

from typing import Any, Final

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import types as t
from binlog_merge.binlog.kernels.crc32 import crc32
from binlog_merge.binlog.kernels.memory import load_32, same_bytes, u16, u32, u48

# registers
AT, RANK, LAST_RANK, OPEN, COMMENTED, CHECKSUM, TRANSACTIONS, EVENTS, MAPS = range(9)
REGISTERS: Final = 9
IN_ROWS: Final = 2
"""The value of OPEN after a transaction's BEGIN; 1 before it."""
# columns
T_GTID, T_COMMENT, T_FIRST_EVENT, T_EVENTS, T_END, T_RANK = range(6)
E_BODY, E_END, E_KIND, E_MAP, E_TRANSACTION, E_AT = range(6)
M_ID, M_BODY, M_END, M_RANK = range(4)
# why it stopped
MORE, PYTHON, FULL, DAMAGED, BEYOND = range(5)
SLOTS: Final = 4096
"""The size of `slots`: for a table id's low bits, the number of the last map with such an id, or -1."""

_BEGIN, _COMMIT = np.frombuffer(b"BEGIN", np.uint8).copy(), np.frombuffer(b"COMMIT", np.uint8).copy()


@njit(inline="always")
def _query_is(b: Any, body: int, end: int, word: Any) -> bool:
    if body + 13 > end:
        return False
    at = body + 13 + u16(b, body + 11) + np.int64(b[body + 8]) + 1
    return end - at == len(word) and same_bytes(b, at, word, 0, len(word))


@njit(inline="always")
def is_begin(b: Any, body: int, end: int) -> bool:
    """Return whether the body of a query event is that of BEGIN."""
    return _query_is(b, body, end, _BEGIN)


@njit(inline="always")
def _find_map(maps: Any, slots: Any, count: int, table_id: int) -> int:
    found = np.int64(slots[table_id & 4095])
    if found >= 0 and maps[found, M_ID] == table_id:
        return found
    # Ids are counted up, so that two of one window rarely share a slot: then the later map has it.
    for i in range(count - 1, -1, -1):
        if maps[i, M_ID] == table_id:
            return i
    return -1


@njit(inline="always")
def _is_map(b: Any, maps: Any, number: int, table_id: int, body: int, stop: int) -> bool:
    """Return whether a table map has the same bytes as the one with this number."""
    if number < 0 or maps[number, M_ID] != table_id or maps[number, M_BODY] < 0:
        return False
    size = stop - body
    return maps[number, M_END] - maps[number, M_BODY] == size and same_bytes(b, maps[number, M_BODY], b, body, size)


@njit(cache=True, nogil=True, _nrt=False)
def walk(b: Any, end: int, reg: Any, transactions: Any, events: Any, maps: Any, slots: Any) -> int:
    """Walk from `reg[AT]` on; return why it stopped. The event at which it stopped is at `reg[AT]`."""
    while True:
        at = reg[AT]
        if at + 19 > end:
            return MORE
        size = u32(b, at + 9)
        if size < 19:
            return DAMAGED
        if at + size > end:
            return MORE
        kind, body, stop = np.int64(b[at + 4]), at + 19, at + size
        if kind == t.FORMAT_DESCRIPTION_EVENT:
            return PYTHON
        if reg[CHECKSUM] != 0:
            stop -= 4
            if stop < body or np.uint32(crc32(b, at, stop - at)) != np.uint32(load_32(b, stop)):
                return DAMAGED
        if kind == t.GTID_LOG_EVENT or kind == t.ANONYMOUS_GTID_LOG_EVENT:
            if reg[RANK] >= reg[LAST_RANK]:
                return BEYOND
            if reg[TRANSACTIONS] >= len(transactions):
                return FULL
            if reg[OPEN] != 0 or stop - body < 25:
                return DAMAGED
            if kind == t.GTID_LOG_EVENT:
                number = u48(b, body + 17) | (u16(b, body + 23) << 48)
                if number != reg[RANK] + 1:
                    return DAMAGED
            reg[RANK] += 1
            reg[OPEN], reg[COMMENTED] = 1, 0
            row = transactions[reg[TRANSACTIONS]]
            row[T_GTID], row[T_COMMENT], row[T_FIRST_EVENT], row[T_EVENTS] = at, -1, reg[EVENTS], 0
            row[T_END], row[T_RANK] = -1, reg[RANK]
            reg[TRANSACTIONS] += 1
        elif kind == t.TABLE_MAP_EVENT:
            if reg[MAPS] >= len(maps):
                return FULL
            if stop - body < 8 or reg[OPEN] == 0:
                return DAMAGED
            table_id = u48(b, body)
            found = np.int64(slots[table_id & 4095])
            if not _is_map(b, maps, found, table_id, body, stop):
                found = reg[MAPS]
                reg[MAPS] += 1
                maps[found, M_ID], maps[found, M_BODY], maps[found, M_END] = table_id, body, stop
                slots[table_id & 4095] = found
            maps[found, M_RANK] = reg[RANK]
        elif t.is_rows(kind):
            if reg[EVENTS] >= len(events):
                return FULL
            if stop - body < 8 or reg[OPEN] == 0:
                return DAMAGED
            found = _find_map(maps, slots, reg[MAPS], u48(b, body))
            # A server takes rows by a map of the same transaction alone, and so do all who read the log after us.
            if found < 0 or maps[found, M_RANK] != reg[RANK]:
                return DAMAGED
            e = events[reg[EVENTS]]
            e[E_BODY], e[E_END], e[E_KIND], e[E_MAP], e[E_AT] = body, stop, kind, found, at
            e[E_TRANSACTION] = reg[TRANSACTIONS] - 1
            reg[EVENTS] += 1
            transactions[reg[TRANSACTIONS] - 1, T_EVENTS] += 1
        elif kind == t.ROWS_QUERY_LOG_EVENT:
            if reg[OPEN] != 0 and reg[COMMENTED] == 0:
                transactions[reg[TRANSACTIONS] - 1, T_COMMENT] = at
                reg[COMMENTED] = 1
        elif kind == t.XID_EVENT or (kind == t.QUERY_EVENT and _query_is(b, body, stop, _COMMIT)):
            if reg[OPEN] == 0:
                return DAMAGED
            reg[OPEN] = 0
            transactions[reg[TRANSACTIONS] - 1, T_END] = at + size
        elif kind == t.QUERY_EVENT:
            if not _query_is(b, body, stop, _BEGIN):
                return PYTHON
            reg[OPEN] = IN_ROWS
        elif kind != t.PREVIOUS_GTIDS_LOG_EVENT and kind != t.ROTATE_EVENT and kind != t.STOP_EVENT:
            return PYTHON
        reg[AT] = at + size
