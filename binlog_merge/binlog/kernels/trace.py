"""PolarDB-X's trace hints: the order of a transaction's statements over its branches.

A compute node puts a comment before each statement, which is in the ROWS_QUERY event before its table maps:

    /*DRDS /<client>/<trace id, hex>[-<seq>]/<sub seq>/<server id>/ */ UPDATE …

Branches are cut into *pieces*, one for each statement: from its ROWS_QUERY event or first table map to its last rows
event. Sorted by (seq, sub seq), the pieces of all branches are the transaction as its client wrote it.
"""

from typing import Any

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels import types as t
from binlog_merge.binlog.kernels.memory import u16, u32

_HINT = np.frombuffer(b"/*DRDS /", np.uint8).copy()

# Columns of pieces: the segment a piece is of, its bytes, its trace, the server id its hint tells (0: none), and
# whether it has a hint.
P_SEGMENT, P_POS, P_END, P_SEQ, P_SUB, P_SERVER, P_HINTED, P_COLUMNS = range(8)


@njit(cache=True, nogil=True, _nrt=False)
def read_hint(b: Any, at: int, end: int, found: Any) -> bool:
    """Read the hint at the beginning of a text into found[0:3] = seq, sub seq, server id; False if there is none."""
    while at < end and b[at] == 32:
        at += 1
    if at + len(_HINT) > end:
        return False
    for n in range(len(_HINT)):
        if b[at + n] != _HINT[n]:
            return False
    at += len(_HINT)
    found[0] = found[1] = found[2] = 0
    field, number, dashed, plain = 0, np.int64(0), False, True
    while at < end and field < 4:
        c = b[at]
        if c == 47 or (c == 42 and at + 1 < end and b[at + 1] == 47):  # a slash, or the end of the comment
            if plain and (field > 1 or dashed):
                found[field - 1] = number
            field, number, dashed, plain = field + 1, np.int64(0), False, True
            if c == 42:
                return True
        elif field == 1 and c == 45:
            number, dashed, plain = np.int64(0), True, True
        elif 48 <= c <= 57:
            number = min(number * 10 + (c - 48), np.int64(9999999999))
        else:
            plain = False
        at += 1
    return True


@njit(cache=True, nogil=True, _nrt=False)
def cut_pieces(b: Any, at: int, end: int, crc: int, segment: int, pieces: Any, count: int, found: Any) -> int:
    """Cut the branch b[at:end] into its pieces, from row `count` on; return the new count.

    Returns -1 if there is no room, and -2 if an event is incomplete.
    """
    begin = at
    open_, ends, has_rows = np.int64(-1), True, False
    seq, sub, server, hinted = np.int64(0), np.int64(0), np.int64(0), 0
    while at < end:
        if at + 19 > end:
            return -2
        length = u32(b, at + 9)
        if length < 19 + crc or at + length > end:
            return -2
        kind = b[at + 4]
        if (kind == t.ROWS_QUERY_LOG_EVENT or kind == t.TABLE_MAP_EVENT) and ends and has_rows:
            # The statement before is over.
            if count >= len(pieces):
                return -1
            row = pieces[count]
            row[P_SEGMENT], row[P_POS], row[P_END], row[P_SEQ] = segment, open_, at, seq
            row[P_SUB], row[P_SERVER], row[P_HINTED] = sub, server, hinted
            count += 1
            open_, has_rows, ends = np.int64(-1), False, True
        if kind == t.ROWS_QUERY_LOG_EVENT and not has_rows:
            if read_hint(b, at + 20, at + length - crc, found):
                seq, sub, server, hinted = found[0], found[1], found[2], 1
            open_ = at if open_ < 0 else open_
        elif kind == t.TABLE_MAP_EVENT:
            open_ = at if open_ < 0 else open_
        elif t.is_rows(kind):
            if length < 27 + crc:
                return -2
            open_ = at if open_ < 0 else open_
            has_rows, ends = True, u16(b, at + 25) & t.STMT_END != 0
        at += length
    if count >= len(pieces):
        return -1
    row = pieces[count]
    row[P_SEGMENT], row[P_POS], row[P_END], row[P_SEQ] = segment, open_ if open_ >= 0 else begin, end, seq
    row[P_SUB], row[P_SERVER], row[P_HINTED] = sub, server, hinted
    return count + 1


@njit(cache=True, nogil=True, _nrt=False)
def first_hint(b: Any, at: int, end: int, found: Any) -> bool:
    """Read the first hint of a branch; return False if its first statement has none."""
    while at + 19 <= end:
        length = u32(b, at + 9)
        kind = b[at + 4]
        if kind == t.TABLE_MAP_EVENT or length < 19 or at + length > end:
            return False
        if kind == t.ROWS_QUERY_LOG_EVENT and read_hint(b, at + 20, at + length, found):
            return True
        at += length
    return False


@njit(cache=True, nogil=True, _nrt=False)
def trace_window(b: Any, segments: Any, pieces: Any, found: Any) -> int:
    """Cut a window's branches into pieces, in order of the segments; return their count.

    Returns -1 if there is no room, and -2 if an event is incomplete. A transaction with a single branch or without
    hints, or a DDL, is not cut: its pieces are its segments.
    """
    count, start = np.int64(0), 0
    while start < len(segments):
        stop = start + 1
        while stop < len(segments) and not segments[stop, k.S_FIRST]:
            stop += 1
        hinted, server = 0, np.int64(0)
        if not segments[start, k.S_DDL]:
            for i in range(start, stop):
                s = segments[i]
                if first_hint(b, s[k.S_POS], s[k.S_END], found):
                    hinted = 1
                    if server == 0:
                        server = found[2]
        if hinted and stop - start > 1:
            for i in range(start, stop):
                s = segments[i]
                count = cut_pieces(b, s[k.S_POS], s[k.S_END], s[k.S_CRC], i, pieces, count, found)
                if count < 0:
                    return count
        else:
            for i in range(start, stop):
                if count >= len(pieces):
                    return -1
                s, row = segments[i], pieces[count]
                row[P_SEGMENT], row[P_POS], row[P_END] = i, s[k.S_POS], s[k.S_END]
                row[P_SEQ], row[P_SUB], row[P_SERVER], row[P_HINTED] = 0, 0, server, hinted
                count += 1
        start = stop
    return count
