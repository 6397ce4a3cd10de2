"""Write the groups of a node's binlog: events as MySQL 9.7 lays them out, with positions and checksums.

Texts and tables come as bytes made by the product's packers; the kernel fills in numbers, xids and rows.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from benchmarks.schedule import (
    COMMIT_ROW,
    DELETE,
    G_COMMIT_US,
    G_KIND,
    G_OPERATION,
    G_ROWS,
    G_STATEMENTS,
    G_TABLE,
    G_TRANSACTION,
    G_TSO,
    LOCAL,
    PREPARE,
    UPDATE,
)
from binlog_merge.binlog.kernels.crc32 import crc32
from binlog_merge.binlog.kernels.memory import copy, put_u48, store_16, store_32, store_64
from binlog_merge.binlog.kernels.render import packed_width

SERVER_VERSION = 90704
ROW_EVENT_BYTES = 8192  # binlog_row_event_max_size
GTRID = 38  # bytes: drds-, 16 hexadecimal digits, @, 16 more
GROUP_FRAME = 2048  # more than the events that frame a group take

# Registers.
(
    OUT,  # offset behind what is written
    BASE,  # file position of out[0]
    NEXT_GROUP,
    GNO,  # of the next group
    SEQUENCE,  # sequence_number of the next group in this file
    XID,
    ROW_ID,
    GROUPS,
    ROWS,
    REGISTERS,
) = range(10)


class Node(NamedTuple):
    """What a node's binlog is made of."""

    server_id: int
    sid: Any  # uint8[16]
    status: Any  # uint8: status variables of QUERY events
    bqual: Any  # uint8
    maps: Any  # uint8: table map bodies, the commit table's last
    map_spans: Any  # int64[tables + 1, 2]
    tables_per_shape: int  # a transaction's statements change tables of one shape
    tables: Any  # benchmarks.tables.Cells.tables
    columns: Any
    cells: Any
    data: Any
    widest: Any


def _text(word: str) -> Any:
    return np.frombuffer(word.encode(), np.uint8).copy()


_BEGIN, _DRDS, _HEX = _text("BEGIN"), _text("drds-"), _text("0123456789abcdef")
_XA_START, _XA_END, _XA_COMMIT = _text("XA START "), _text("XA END "), _text("XA COMMIT ")


@njit(inline="always")
def _mix(value: int) -> Any:
    x = np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)
    x ^= x >> np.uint64(32)
    x *= np.uint64(0xD6E8FEB86659FD93)
    return x ^ (x >> np.uint64(29))


@njit(cache=True)
def _event(out: Any, o: int, end: int, kind: int, timestamp: int, server_id: int, flags: int, base: int) -> int:
    """Give the body between o + 19 and `end` its header and checksum; returns the event's end."""
    store_32(out, o, np.uint32(timestamp))
    out[o + 4] = kind
    store_32(out, o + 5, np.uint32(server_id))
    store_32(out, o + 9, np.uint32(end + 4 - o))
    store_32(out, o + 13, np.uint32((base + end + 4) & 0xFFFFFFFF))
    store_16(out, o + 17, np.uint16(flags))
    store_32(out, end, np.uint32(crc32(out, o, end - o)))
    return end + 4


@njit(cache=True)
def _hex_16(out: Any, at: int, value: int) -> int:
    for k in range(16):
        out[at + k] = _HEX[(value >> (60 - 4 * k)) & 15]
    return at + 16


@njit(cache=True)
def _gtrid(out: Any, at: int, transaction: int) -> int:
    copy(out, at, _DRDS, 0, 5)
    _hex_16(out, at + 5, transaction)
    out[at + 21] = 64
    return _hex_16(out, at + 22, np.int64(_mix(transaction) >> np.uint64(1)))


@njit(cache=True)
def _hex_of(out: Any, at: int, source: Any, start: int, length: int) -> int:
    out[at], out[at + 1] = 88, 39
    at += 2
    for k in range(length):
        byte = source[start + k]
        out[at], out[at + 1] = _HEX[byte >> 4], _HEX[byte & 15]
        at += 2
    out[at] = 39
    return at + 1


@njit(cache=True)
def _query(out: Any, o: int, n: Node, word: Any, transaction: int, timestamp: int, base: int) -> int:
    """Write BEGIN, or an XA statement with its xid."""
    at = o + 19
    store_32(out, at, np.uint32(18))
    store_32(out, at + 4, np.uint32(0))
    out[at + 8] = 0
    store_16(out, at + 9, np.uint16(0))
    store_16(out, at + 11, np.uint16(len(n.status)))
    copy(out, at + 13, n.status, 0, len(n.status))
    at += 13 + len(n.status)
    out[at] = 0
    at += 1
    copy(out, at, word, 0, len(word))
    at += len(word)
    flags = 8
    if transaction >= 0:
        flags = 0
        raw = np.empty(GTRID, np.uint8)
        _gtrid(raw, 0, transaction)
        at = _hex_of(out, at, raw, 0, GTRID)
        out[at] = 44
        at = _hex_of(out, at + 1, n.bqual, 0, len(n.bqual))
        out[at], out[at + 1] = 44, 49
        at += 2
    return _event(out, o, at, 2, timestamp, n.server_id, flags, base)


@njit(cache=True)
def _gtid(out: Any, o: int, n: Node, reg: Any, commit_us: int, length: int, width: int, base: int) -> int:
    at = o + 19
    out[at] = 0
    copy(out, at + 1, n.sid, 0, 16)
    store_64(out, at + 17, np.uint64(reg[GNO]))
    out[at + 25] = 2
    store_64(out, at + 26, np.uint64(reg[SEQUENCE] - 1))
    store_64(out, at + 34, np.uint64(reg[SEQUENCE]))
    put_u48(out, at + 42, commit_us)
    out[at + 48] = (commit_us >> 48) & 0x7F
    at += 49
    if width == 3:
        out[at] = 252
        store_16(out, at + 1, np.uint16(length))
    elif width == 4:
        out[at] = 253
        store_16(out, at + 1, np.uint16(length & 0xFFFF))
        out[at + 3] = length >> 16
    else:
        out[at] = 254
        store_64(out, at + 1, np.uint64(length))
    at += width
    store_32(out, at, np.uint32(SERVER_VERSION))
    return _event(out, o, at + 4, 33, commit_us // 1000000, n.server_id, 0, base)


@njit(cache=True)
def _row(out: Any, o: int, n: Node, table: int, row_id: int, salt: int) -> int:
    first, count = n.tables[table, 0], n.tables[table, 1]
    nulls = o
    for k in range((count + 7) >> 3):
        out[o + k] = 0
    o += (count + 7) >> 3
    h = _mix(row_id * 4 + salt)
    for c in range(count):
        pool, null_chance = n.columns[first + c, 0], n.columns[first + c, 1]
        if pool < 0:
            store_64(out, o, np.uint64(row_id))
            o += 8
            continue
        h = h * np.uint64(0xD1342543DE82EF95) + np.uint64(c)
        if null_chance and np.int64((h >> np.uint64(40)) & np.uint64(255)) < null_chance:
            out[nulls + (c >> 3)] |= 1 << (c & 7)
            continue
        cell = pool * 256 + np.int64(h >> np.uint64(56))
        copy(out, o, n.data, n.cells[cell, 0], n.cells[cell, 1])
        o += n.cells[cell, 1]
    return o


@njit(cache=True)
def _rows(out: Any, o: int, n: Node, reg: Any, g: Any, table: int, rows: int, timestamp: int, base: int) -> int:
    """Write one statement: a table map and row events of up to ROW_EVENT_BYTES."""
    start, length = n.map_spans[table, 0], n.map_spans[table, 1]
    copy(out, o + 19, n.maps, start, length)
    table_id = 100 + table
    put_u48(out, o + 19, table_id)
    o = _event(out, o, o + 19 + length, 19, timestamp, n.server_id, 0, base)
    operation, count = g[G_OPERATION], n.tables[table, 1]
    images = 2 if operation == UPDATE else 1
    while rows > 0:
        at = o + 19
        put_u48(out, at, table_id)
        store_16(out, at + 8, np.uint16(2))
        out[at + 10] = count
        at += 11
        for k in range(images * ((count + 7) >> 3)):
            out[at + k] = 255
        at += images * ((count + 7) >> 3)
        while rows > 0 and at - o < ROW_EVENT_BYTES:
            for image in range(images):
                at = _row(out, at, n, table, reg[ROW_ID], image)
            reg[ROW_ID] += 1
            rows -= 1
        store_16(out, o + 25, np.uint16(1 if rows == 0 else 0))
        kind = 31 if operation == UPDATE else (32 if operation == DELETE else 30)
        o = _event(out, o, at, kind, timestamp, n.server_id, 0, base)
    return o


@njit(cache=True)
def _commit_row(out: Any, o: int, n: Node, g: Any, timestamp: int, base: int) -> int:
    table = len(n.map_spans) - 1
    start, length = n.map_spans[table, 0], n.map_spans[table, 1]
    copy(out, o + 19, n.maps, start, length)
    put_u48(out, o + 19, 100 + table)
    o = _event(out, o, o + 19 + length, 19, timestamp, n.server_id, 0, base)
    at = o + 19
    put_u48(out, at, 100 + table)
    store_16(out, at + 6, np.uint16(1))
    store_16(out, at + 8, np.uint16(2))
    out[at + 10], out[at + 11], out[at + 12], out[at + 13] = 2, 255, 0, GTRID
    _gtrid(out, at + 14, g[G_TRANSACTION])
    store_64(out, at + 14 + GTRID, np.uint64(g[G_TSO]))
    return _event(out, o, at + 22 + GTRID, 30, timestamp, n.server_id, 0, base)


@njit(cache=True)
def _xid(out: Any, o: int, n: Node, reg: Any, timestamp: int, base: int) -> int:
    store_64(out, o + 19, np.uint64(reg[XID]))
    reg[XID] += 1
    return _event(out, o, o + 27, 16, timestamp, n.server_id, 0, base)


@njit(cache=True)
def _xa_prepare(out: Any, o: int, n: Node, transaction: int, timestamp: int, base: int) -> int:
    at = o + 19
    out[at] = 0
    store_32(out, at + 1, np.uint32(1))
    store_32(out, at + 5, np.uint32(GTRID))
    store_32(out, at + 9, np.uint32(len(n.bqual)))
    _gtrid(out, at + 13, transaction)
    copy(out, at + 13 + GTRID, n.bqual, 0, len(n.bqual))
    return _event(out, o, at + 13 + GTRID + len(n.bqual), 38, timestamp, n.server_id, 0, base)


@njit(cache=True)
def _body(out: Any, o: int, n: Node, reg: Any, g: Any, base: int) -> int:
    """Write a group's events behind its GTID event."""
    kind, transaction, timestamp = g[G_KIND], g[G_TRANSACTION], g[G_COMMIT_US] // 1000000
    if kind <= PREPARE:
        if kind == LOCAL:
            o = _query(out, o, n, _BEGIN, -1, timestamp, base)
        else:
            o = _query(out, o, n, _XA_START, transaction, timestamp, base)
        left, statements = g[G_ROWS], g[G_STATEMENTS]
        first = g[G_TABLE] - g[G_TABLE] % n.tables_per_shape
        for s in range(statements):
            share = left // (statements - s)
            o = _rows(out, o, n, reg, g, first + (g[G_TABLE] + s) % n.tables_per_shape, share, timestamp, base)
            left -= share
        if kind == LOCAL:
            return _xid(out, o, n, reg, timestamp, base)
        o = _query(out, o, n, _XA_END, transaction, timestamp, base)
        return _xa_prepare(out, o, n, transaction, timestamp, base)
    if kind == COMMIT_ROW:
        o = _query(out, o, n, _BEGIN, -1, timestamp, base)
        o = _commit_row(out, o, n, g, timestamp, base)
        return _xid(out, o, n, reg, timestamp, base)
    return _query(out, o, n, _XA_COMMIT, transaction, timestamp, base)


@njit(cache=True)
def room_for(n: Node, g: Any) -> int:
    """Return a bound on the bytes of a group."""
    if g[G_KIND] > PREPARE:
        return GROUP_FRAME
    rows = g[G_ROWS] * 2 * n.widest[g[G_TABLE]]  # a transaction's tables are of one shape
    return GROUP_FRAME + rows + (rows // ROW_EVENT_BYTES + g[G_STATEMENTS]) * 1024


@njit(cache=True)
def most_room(n: Node, groups: Any) -> int:
    """Return a bound on the bytes of the largest group."""
    most = np.int64(0)
    for i in range(len(groups)):
        most = max(most, room_for(n, groups[i]))
    return most


@njit(cache=True, nogil=True)
def write_groups(n: Node, groups: Any, out: Any, reg: Any, limit: int) -> None:
    """Write groups until the buffer may not hold the next one, the file is at its limit, or all are written."""
    base = reg[BASE]
    while reg[NEXT_GROUP] < len(groups):
        g = groups[reg[NEXT_GROUP]]
        o = reg[OUT]
        if base + o >= limit or o + room_for(n, g) > len(out):
            return
        row_id, xid = reg[ROW_ID], reg[XID]
        width = 3
        while True:
            reg[ROW_ID], reg[XID] = row_id, xid
            gtid = 19 + 49 + width + 4 + 4
            end = _body(out, o + gtid, n, reg, g, base)
            right = max(3, packed_width(end - o))
            if right == width:
                break
            width = right
        _gtid(out, o, n, reg, g[G_COMMIT_US], end - o, width, base)
        if g[G_KIND] <= PREPARE:
            reg[ROWS] += g[G_ROWS]
        reg[OUT] = end
        reg[GNO] += 1
        reg[SEQUENCE] += 1
        reg[GROUPS] += 1
        reg[NEXT_GROUP] += 1
