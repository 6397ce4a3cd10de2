"""Goes through a merged binlog from GTID event to GTID event; what stands between them is jumped over.

    out    X_*: offset in the file, length, rank, commit time in µs, whether it has rows, and the parts of its order key

A transaction's length is in its GTID event. Its order key is that of the CTS text right after BEGIN; X_TSO is -1 where
there is none (a DDL, or a log without CTS). The plain twin is `log.log.Log.items`.
"""

from typing import Any, Final

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import types as t
from binlog_merge.binlog.kernels.crc32 import crc32
from binlog_merge.binlog.kernels.log_walk import T_COMMENT, T_GTID, is_begin
from binlog_merge.binlog.kernels.memory import fetch, load_32, load_64, same_bytes, u16, u32, u48

# registers
AT, RANK, COUNT, CHECKSUM = range(4)
REGISTERS: Final = 4
# columns
X_AT, X_LENGTH, X_RANK, X_COMMIT_US, X_ROWS, X_TSO, X_ID, X_SEQ, X_NODE = range(9)
COLUMNS: Final = 9
# why it stopped
MORE, FULL, DAMAGED = range(3)
HEAD: Final = 4096
"""The most bytes of a transaction that are looked at: its GTID event, BEGIN and CTS text."""

AHEAD: Final = 8
"""How many transactions before its turn the processor begins to load one."""

_CTS = np.frombuffer(b"CTS::", np.uint8).copy()
_ARCHIVE = np.frombuffer(b"::ARCHIVE", np.uint8).copy()
_DIGITS: Final = 54
_IMMEDIATE: Final = 42
"""The offset in the body of a GTID event of the immediate commit time."""


@njit(inline="always")
def _eight(b: Any, at: int) -> int:
    """Read eight digits at once; -1 if not all are digits.

    The digits are added up in pairs, then pairs of pairs: see D. Lemire, "Quickly parsing eight digits" (2018).
    """
    text = load_64(b, at)
    high = np.uint64(0xF0F0F0F0F0F0F0F0)
    if (text & high) | (((text + np.uint64(0x0606060606060606)) & high) >> np.uint64(4)) != np.uint64(
        0x3333333333333333
    ):
        return -1
    text -= np.uint64(0x3030303030303030)
    pairs = text * np.uint64(10) + (text >> np.uint64(8))
    mask = np.uint64(0x000000FF000000FF)
    found = (pairs & mask) * np.uint64(0x000F424000000064) + ((pairs >> np.uint64(16)) & mask) * np.uint64(
        0x0000271000000001
    )
    return np.int64(found >> np.uint64(32))


@njit(inline="always")
def _number(b: Any, at: int, digits: int) -> int:
    found, end = np.int64(0), at + digits
    while at + 8 <= end:
        more = _eight(b, at)
        if more < 0:
            return -1
        found = found * 100000000 + more
        at += 8
    for i in range(at, end):
        digit = np.int64(b[i]) - 48
        if digit < 0 or digit > 9:
            return -1
        found = found * 10 + digit
    return found


@njit(inline="always")
def _whole(b: Any, at: int, size: int, checked: bool) -> bool:
    return not checked or np.uint32(crc32(b, at, size - 4)) == np.uint32(load_32(b, at + size - 4))


@njit(inline="always")
def _key(b: Any, at: int, stop: int, row: Any) -> int:
    """Read the order key in the text of a rows-query event; return its offset, -1 if no merge wrote the text."""
    at += 1
    if at + 2 <= stop and b[at] == 35 and b[at + 1] == 32:  # "# "
        at += 2
    if at + 5 + _DIGITS > stop or not same_bytes(b, at, _CTS, 0, 5):
        return -1
    end = at + 5 + _DIGITS
    if end + 9 <= stop and same_bytes(b, end, _ARCHIVE, 0, 9):  # rows whose time to live is over
        end += 9
    if end < stop and b[end] != 10:
        return -1
    at += 5
    tso, number = _number(b, at, 19), _number(b, at + 19, 19)
    seq, node = _number(b, at + 38, 10), _number(b, at + 48, 6)
    if tso >= 0 and number >= 0 and seq >= 0 and node >= 0:
        row[X_TSO], row[X_ID], row[X_SEQ], row[X_NODE] = tso, number, seq, node
        return at
    return -1


@njit(inline="always")
def _commit_time(b: Any, body: int) -> int:
    """Return the immediate commit time: seven bytes, whose top bit says that the original one follows."""
    return u48(b, body + _IMMEDIATE) | (np.int64(b[body + _IMMEDIATE + 6] & 0x7F) << 48)


@njit(cache=True, nogil=True, _nrt=False)
def begins(b: Any, transactions: Any, checksum: int, out: Any) -> int:
    """Read X_COMMIT_US and the order keys of transactions that `log_walk.walk` found in a buffer; return their count.

    X_AT becomes the offset of the key's text in the buffer, -1 where there is none. Of transactions that began before
    the buffer only a key that stands in it is read, and `out` is left as it is else. `checksum` is the size of an
    event's checksum.
    """
    for i in range(len(transactions)):
        at, row = transactions[i, T_GTID], out[i]
        if i + AHEAD < len(transactions):
            fetch(b, transactions[i + AHEAD, T_GTID] + 19 + _IMMEDIATE)
            fetch(b, transactions[i + AHEAD, T_COMMENT] + 19)
            fetch(b, transactions[i + AHEAD, T_COMMENT] + 19 + 64)
        if at >= 0:
            row[X_COMMIT_US], row[X_TSO], row[X_AT] = 0, -1, -1
            if u32(b, at + 9) >= 19 + _IMMEDIATE + 7:
                row[X_COMMIT_US] = _commit_time(b, at + 19)
        comment = transactions[i, T_COMMENT]
        if comment >= 0:
            row[X_AT] = _key(b, comment + 19, comment + u32(b, comment + 9) - checksum, row)
    return len(transactions)


@njit(cache=True, nogil=True, _nrt=False)
def index(b: Any, end: int, base: int, size: int, reg: Any, out: Any) -> int:
    """Go on from `reg[AT]`, an offset in the file, of whose `size` bytes `b[:end]` are those from `base` on.

    Returns why it stopped; `reg[AT]` is then where a transaction, or an event outside of any, begins.
    """
    while True:
        at = reg[AT] - base
        if reg[AT] >= size:
            return MORE
        if at < 0 or at + min(HEAD, size - reg[AT]) > end:
            return MORE
        if at + 19 > end:
            return DAMAGED
        length = u32(b, at + 9)
        kind = np.int64(b[at + 4])
        if length < 19 or reg[AT] + length > size:
            return DAMAGED
        if kind != t.GTID_LOG_EVENT and kind != t.ANONYMOUS_GTID_LOG_EVENT:
            if kind == t.FORMAT_DESCRIPTION_EVENT and at + length <= end and length > 24:
                reg[CHECKSUM] = b[at + length - 5]
            elif kind != t.PREVIOUS_GTIDS_LOG_EVENT and kind != t.ROTATE_EVENT and kind != t.STOP_EVENT:
                return DAMAGED
            reg[AT] += length
            continue
        checked = reg[CHECKSUM] != 0
        body, stop = at + 19, at + length - (4 if checked else 0)
        if length > 512 or stop - body < _IMMEDIATE + 8 or not _whole(b, at, length, checked):
            return DAMAGED
        if reg[COUNT] >= len(out):
            return FULL
        if kind == t.GTID_LOG_EVENT and u48(b, body + 17) | (u16(b, body + 23) << 48) != reg[RANK] + 1:
            return DAMAGED
        time = _commit_time(b, body)
        place = body + _IMMEDIATE + (14 if b[body + _IMMEDIATE + 6] & 0x80 else 7)
        whole = np.int64(0)
        if place + 9 <= at + length:
            first = np.int64(b[place])
            if first < 251:
                whole = first
            elif first == 252:
                whole = u16(b, place + 1)
            elif first == 253:
                whole = u16(b, place + 1) | (np.int64(b[place + 3]) << 16)
            elif first == 254:
                whole = u48(b, place + 1) | (u16(b, place + 7) << 48)
        if whole <= length or whole > size - reg[AT]:
            return DAMAGED
        row = out[reg[COUNT]]
        row[X_AT], row[X_LENGTH], row[X_RANK], row[X_COMMIT_US] = reg[AT], whole, reg[RANK] + 1, time
        row[X_ROWS], row[X_TSO], row[X_ID], row[X_SEQ], row[X_NODE] = 0, -1, 0, 0, 0
        second = at + length
        if second + 19 <= end and second + u32(b, second + 9) <= end and b[second + 4] == t.QUERY_EVENT:
            third = second + u32(b, second + 9)
            if is_begin(b, second + 19, third - (4 if checked else 0)):
                row[X_ROWS] = 1
                if third + 19 <= end and b[third + 4] == t.ROWS_QUERY_LOG_EVENT:
                    size_of = u32(b, third + 9)
                    if size_of >= 24 and third + size_of <= end and _whole(b, third, size_of, checked):
                        _key(b, third + 19, third + size_of - (4 if checked else 0), row)
        reg[RANK] += 1
        reg[COUNT] += 1
        reg[AT] += whole
