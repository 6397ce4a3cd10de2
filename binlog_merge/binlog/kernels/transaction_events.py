"""Writes the events that frame a transaction of the merged log: GTID, BEGIN, XID, and the CTS text.

`written_transactions` writes whole ones around rows events that are given as bodies: GTID? BEGIN body* XID.
"""

from typing import Any

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels import types as t
from binlog_merge.binlog.kernels.crc32 import crc32
from binlog_merge.binlog.kernels.memory import copy, put_u48, store_16, store_32, store_64


def _text(word: str) -> Any:
    return np.frombuffer(word.encode(), np.uint8).copy()


BEGIN_SIZE, XID_SIZE = 19 + 14 + 5 + 4, 19 + 8 + 4
GTID_SIZE = 19 + 49 + 4 + 4
"""Without the packed length of its transaction."""
_BEGIN, _CTS, _ARCHIVE = _text("BEGIN"), _text("# CTS::"), _text("::ARCHIVE")


@njit(forceinline=True, _nrt=False)
def write_header(out: Any, o: int, reg: Any, kind: int, length: int, flags: int) -> None:
    store_32(out, o, np.uint32(reg[k.TIMESTAMP]))
    out[o + 4] = kind
    store_32(out, o + 5, np.uint32(reg[k.SERVER_ID]))
    store_32(out, o + 9, np.uint32(length))
    store_32(out, o + 13, np.uint32((reg[k.FILE_BASE] + o + length) & 0xFFFFFFFF))
    store_16(out, o + 17, np.uint16(flags))
    store_32(out, o + length - 4, np.uint32(crc32(out, o, length - 4)))


@njit(cache=True)
def packed_width(length: int) -> int:
    """Return the bytes of a length-encoded integer (MySQL `net_length_size`)."""
    if length < 251:
        return 1
    if length < 65536:
        return 3
    if length < 16777216:
        return 4
    return 9


@njit(cache=True)
def length_width(rest: int) -> int:
    """Return the width of the packed length of a transaction that has `rest` bytes without it."""
    width = 1
    while packed_width(rest + width) > width:
        width = packed_width(rest + width)
    return width


@njit(inline="always")
def gtid_size(width: int) -> int:
    """Return the length of a GTID event whose transaction length is packed in `width` bytes."""
    return GTID_SIZE + width


@njit(cache=True, _nrt=False)
def write_gtid(
    out: Any, o: int, reg: Any, sid: Any, commit_us: int, length: int, width: int, flags: int, last: int
) -> int:  # fmt: skip
    """Write the GTID event of a transaction `length` bytes long, which depends on the `last` one that it must wait for.

    Returns the event's own length.
    """
    size = gtid_size(width)
    at = o + 19
    anonymous = reg[k.ANONYMOUS] != 0
    out[at] = flags
    for n in range(16):
        out[at + 1 + n] = 0 if anonymous else sid[n]
    store_64(out, at + 17, np.uint64(0 if anonymous else reg[k.RANK]))
    out[at + 25] = 2
    store_64(out, at + 26, np.uint64(last))
    store_64(out, at + 34, np.uint64(reg[k.SEQUENCE]))
    put_u48(out, at + 42, commit_us)
    out[at + 48] = (commit_us >> 48) & 0x7F
    at += 49
    if width == 1:
        out[at] = length
    elif width == 3:
        out[at] = 252
        store_16(out, at + 1, np.uint16(length))
    elif width == 4:
        out[at] = 253
        store_16(out, at + 1, np.uint16(length & 0xFFFF))
        out[at + 3] = length >> 16
    else:
        out[at] = 254
        store_64(out, at + 1, np.uint64(length))
    store_32(out, at + width, np.uint32(reg[k.SERVER_VERSION]))
    write_header(out, o, reg, t.ANONYMOUS_GTID_LOG_EVENT if anonymous else t.GTID_LOG_EVENT, size, 0)
    return size


@njit(forceinline=True, _nrt=False)
def _eight_digits(value: Any) -> Any:
    """Return the last eight decimal digits of a number as ASCII, with the first in the lowest byte.

    They are computed together: halves of four, then pairs, then single digits, by multiplication with reciprocals.
    """
    value = np.uint64(value) % np.uint64(100_000_000)
    halves = value // np.uint64(10_000) | (value % np.uint64(10_000)) << np.uint64(32)
    hundreds = (halves * np.uint64(10486) >> np.uint64(20)) & np.uint64(0x7F_0000_007F)
    pairs = hundreds | (halves - hundreds * np.uint64(100)) << np.uint64(16)
    tens = (pairs * np.uint64(103) >> np.uint64(10)) & np.uint64(0x0F_000F_000F_000F)
    return tens | (pairs - tens * np.uint64(10)) << np.uint64(8) | np.uint64(0x3030_3030_3030_3030)


@njit(forceinline=True, _nrt=False)
def _nineteen_digits(out: Any, at: int, value: int) -> None:
    """Write a number of 19 digits; up to five bytes before it are overwritten, so texts are written from the end."""
    store_64(out, at + 11, _eight_digits(value))
    store_64(out, at + 3, _eight_digits(value // 100_000_000))
    store_64(out, at - 5, _eight_digits(value // 10_000_000_000_000_000))


@njit(forceinline=True, _nrt=False)
def _write_cts(out: Any, o: int, reg: Any, key: Any, skip: int) -> int:
    """Write the ROWS_QUERY event with the CTS text of an order key, and return its end.

    The text is `# CTS::` without its first `skip` characters, the 54 digits, and `::ARCHIVE` if the key has that flag.
    """
    at = o + 20
    digits = at + len(_CTS) - skip
    store_64(out, digits + 46, _eight_digits(key[k.K_NODE]))
    store_64(out, digits + 40, _eight_digits(key[k.K_SEQ]))
    store_64(out, digits + 32, _eight_digits(key[k.K_SEQ] // 100_000_000))
    _nineteen_digits(out, digits + 19, key[k.K_TRANSACTION])
    _nineteen_digits(out, digits, key[k.K_TSO])
    copy(out, at, _CTS, skip, len(_CTS) - skip)
    end = digits + 54
    if key[k.K_ARCHIVE]:
        copy(out, end, _ARCHIVE, 0, len(_ARCHIVE))
        end += len(_ARCHIVE)
    out[o + 19] = end - at
    write_header(out, o, reg, t.ROWS_QUERY_LOG_EVENT, end - o + 4, t.IGNORABLE)
    return end + 4


@njit(forceinline=True, _nrt=False)
def write_begin(out: Any, o: int, reg: Any) -> int:
    """Write the QUERY event of BEGIN, and return its end."""
    for n in range(13 + 1):
        out[o + 19 + n] = 0
    copy(out, o + 19 + 14, _BEGIN, 0, 5)
    write_header(out, o, reg, t.QUERY_EVENT, BEGIN_SIZE, t.SUPPRESS_USE)
    return o + BEGIN_SIZE


@njit(forceinline=True, _nrt=False)
def write_xid(out: Any, o: int, reg: Any) -> int:
    """Write the XID event, whose number is the transaction's rank, and return its end."""
    store_64(out, o + 19, np.uint64(reg[k.RANK]))
    write_header(out, o, reg, t.XID_EVENT, XID_SIZE, 0)
    return o + XID_SIZE


@njit(cache=True, _nrt=False)
def begin_transaction(out: Any, reg: Any, sid: Any, key: Any, width: int) -> None:
    """Write BEGIN and optionally the CTS text of a transaction at OUT, after room for its GTID event.

    The GTID event has the transaction's length, so it is written last.
    """
    o = reg[k.OUT]
    reg[k.TXN_OUT], reg[k.LENGTH_WIDTH] = o, width
    reg[k.TIMESTAMP] = key[k.K_COMMIT_US] // 1000000
    reg[k.SERVER_ID] = key[k.K_SERVER] if key[k.K_SERVER] != 0 else reg[k.OWN_SERVER_ID]
    reg[k.SAVED_EVENTS], reg[k.SAVED_ROW_EVENTS], reg[k.SAVED_RESHAPED] = (
        reg[k.EVENTS],
        reg[k.ROW_EVENTS],
        reg[k.RESHAPED_ROWS],
    )
    reg[k.LAST_ROWS] = reg[k.STATEMENT_OUT] = -1
    reg[k.FILTERED] = 0
    o = write_begin(out, o + gtid_size(width), reg)
    if reg[k.CTS] != k.CTS_END:
        o = _write_cts(out, o, reg, key, 0)
    reg[k.OUT] = o


@njit(cache=True, _nrt=False)
def end_transaction(out: Any, reg: Any, key: Any) -> None:
    """Write the XID event at OUT; the GTID event is written again by the caller, with the length now known.

    The CTS text after it is that of PolarDB-X's global binlog: `CTS::`, the mark of a complete transaction.
    """
    o = write_xid(out, reg[k.OUT], reg)
    reg[k.EVENTS] += 4
    if reg[k.CTS] != k.CTS_BEGIN:
        o = _write_cts(out, o, reg, key, 2)
        reg[k.EVENTS] += reg[k.CTS] == k.CTS_BOTH
    reg[k.OUT] = o


B_BEGIN, B_END, B_KIND = range(3)
FRAME = 23
"""The bytes of an event that are not its body: header and checksum."""
MOST_AROUND = GTID_SIZE + 9 + BEGIN_SIZE + XID_SIZE
"""The most bytes of GTID event, BEGIN and XID."""


@njit(cache=True, nogil=True, _nrt=False)
def write_transactions(data: Any, bodies: Any, counts: Any, commit_us: Any, sid: Any, reg: Any, out: Any) -> int:
    """Write transactions of `counts` bodies each (B_*, in `data`) that committed at `commit_us`; return the end.

    Without a `sid` they have no GTID events. RANK and SEQUENCE are those of the transaction before the first one.
    """
    o, first = np.int64(0), np.int64(0)
    for n in range(len(counts)):
        last = first + counts[n]
        reg[k.RANK] += 1
        reg[k.SEQUENCE] += 1
        reg[k.TIMESTAMP] = commit_us[n] // 1000000
        if len(sid) > 0:
            length = GTID_SIZE + BEGIN_SIZE + XID_SIZE
            for i in range(first, last):
                length += FRAME + bodies[i, B_END] - bodies[i, B_BEGIN]
            width = length_width(length)
            o += write_gtid(out, o, reg, sid, commit_us[n], length + width, width, 0, reg[k.SEQUENCE] - 1)
        o = write_begin(out, o, reg)
        for i in range(first, last):
            size = bodies[i, B_END] - bodies[i, B_BEGIN]
            copy(out, o + 19, data, bodies[i, B_BEGIN], size)
            write_header(out, o, reg, bodies[i, B_KIND], size + FRAME, 0)
            o += size + FRAME
        o = write_xid(out, o, reg)
        first = last
    return o
