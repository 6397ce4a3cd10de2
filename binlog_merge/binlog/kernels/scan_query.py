"""Query events in the scan kernel: transaction control and XA statements; everything else is DDL."""

# Inlined into `scan_events`: see `kernels.scan`.

from typing import Any

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.binlog.kernels.memory import i64, u16
from binlog_merge.binlog.kernels.scan_groups import by_number, end_local, has_its_length, open_group, xa_end
from binlog_merge.binlog.kernels.xid import parse_xid


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


@njit(forceinline=True, _nrt=False)
def query(a: k.Arrays, b: Any, at: int, end: int, group_end: int, timestamp: int, carrier: int, use_own: bool) -> int:
    """Handle a QUERY_EVENT body `b[at:end]`: transaction control, XA, or DDL."""
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
            if not has_its_length(reg, group_end):
                return k.BAD_LENGTH
            end_local(a, group_end, np.int64(0), carrier, use_own)
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
        if reg[k.NEXT_SEQUENCE] > 0:
            return k.NO_GTID
        open_group(reg, reg[k.BASE] + reg[k.POS], timestamp, k.STARTED)
    elif phase == k.CARRIED:
        reg[k.PHASE], reg[k.COMMIT_US] = k.STARTED, timestamp * 1000000
    if _is(b, text, end, _BEGIN):
        reg[k.PHASE] = k.IN_LOCAL
    elif _starts(b, text, end, _XA_START):
        if not parse_xid(b, text + len(_XA_START), end, reg):
            return k.BAD_XID
        by_number(reg, carrier)
        if reg[k.XID_KIND] == k.STRANGE_XID:
            return k.XA_FORMAT
        if reg[k.XID_KIND] == k.ARCHIVE_XID:
            reg[k.FLAGS] |= k.ARCHIVE
        elif reg[k.XID_KIND] == k.IGNORED_XID:
            reg[k.FLAGS] |= k.DISCARD
        reg[k.PHASE] = k.IN_XA
    elif not has_its_length(reg, group_end):
        return k.BAD_LENGTH
    else:
        commits, rolls_back = _starts(b, text, end, _XA_COMMIT), _starts(b, text, end, _XA_ROLLBACK)
        if not commits and not rolls_back:
            end_local(a, group_end, k.DDL, carrier, use_own)
            return k.MORE
        if not parse_xid(b, text + (len(_XA_COMMIT) if commits else len(_XA_ROLLBACK)), end, reg):
            return k.BAD_XID
        if commits:
            by_number(reg, carrier)
            if carrier == k.BY_SEQUENCE:
                status_sequence(reg, b, at + 13, at + 13 + status)
        xa_end(a, group_end, carrier, rolls_back)
    return k.MORE


@njit(inline="always")
def status_size(b: Any, at: int, end: int) -> int:
    """Return the length of the status variable with its code at `b[at]`, -1 if unknown (MySQL `Query_event`)."""
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
def status_sequence(reg: Any, b: Any, at: int, end: int) -> None:
    """Read status variable 200 (Q_LIZARD_COMMIT_GCN); after an unknown variable it is searched at the end.

    PolarDB-X writes it there.
    """
    while at < end:
        size = status_size(b, at, end)
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
