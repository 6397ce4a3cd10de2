"""Walks a binlog and indexes its transactions: headers, checksums, table names, XA ids, commit TSOs. Of query events,
transaction control and XA statements are read; everything else is DDL.

No row image is decoded. The kernel keeps its state in arrays, so it can stop at any event and continue with the next
chunk of the file. It stops when it needs Python (for more input, a bigger array, a new table name, the inside of a
compressed payload) and at everything it does not understand: its return value is the reason, `state.reg[POS]` the
position.

A *group* is the group of events that a GTID event begins (MySQL's binary log group): a local transaction, a prepared XA
branch, an XA COMMIT or XA ROLLBACK, or a DDL statement. A group whose GTID is in `elsewhere` is walked and left out: it
is read in the log of another server, which the node had before. The output are rows of int64:

    timed   a row for each branch whose commit TSO is known:                T_* columns
    local   a row for each transaction without one, and for each DDL:       L_* columns, in file order
    late    a row for each XA COMMIT / ROLLBACK whose prepare or TSO is outside this chunk of the log:  X_* columns
    xids    the open-addressing hash table of prepared branches; those still live at the end are open:  P_* columns
    gtids   the GTIDs of all groups, as intervals:                          G_* columns
"""

from typing import Any

import numpy as np
from numba import njit

from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.binlog.kernels import types as t
from binlog_merge.binlog.kernels.crc32 import crc32
from binlog_merge.binlog.kernels.memory import i64, u16, u32, u48
from binlog_merge.binlog.kernels.scan_groups import (
    by_number,
    end_local,
    follows,
    has_its_length,
    is_decided,
    is_elsewhere,
    leave_out,
    log_gtid,
    note_gtid,
    note_length,
    open_group,
    prepare,
    sequence_number,
    xa_end,
)
from binlog_merge.binlog.kernels.scan_tables import commit_rows, is_mapped, table_map
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


@njit(inline="always")
def _carried(kind: int, first: int, size: int) -> bool:
    """Return whether an event of PolarDB-X's carries a commit TSO, in the eight bytes after its first byte."""
    if kind == t.SEQUENCE_EVENT:
        return first == k.SEQUENCE_COMMIT
    return size >= 9 and first & k.GCN_COMMIT != 0 and first & k.GCN_PROPOSAL == 0


@njit(cache=True, nogil=True, _nrt=False)
def _describes(b: Any, at: int, body_end: int, crc: int) -> bool:
    """Return whether a format description fits the file: binlog version 4, headers of 19 bytes, the same checksums."""
    return body_end - at > 57 and u16(b, at) == 4 and b[at + 56] == 19 and (crc == 0 or b[body_end - 1] == 1)


@njit(cache=True, nogil=True, _nrt=False)
def scan_events(a: k.Arrays, b: Any, end: int, stop: int, crc: int, carrier: int, use_own: bool) -> int:
    """Walk the events from `b[reg[POS]]` to `b[end]`; return why it stopped.

    `stop` is a file offset: the first group that begins at or after it is not walked. `crc` is 4 if events end with a
    checksum, else 0 (also inside a payload).
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
            if log_pos != file_end & 0xFFFFFFFF and (log_pos != 0 or kind != t.FORMAT_DESCRIPTION_EVENT):
                return k.BAD_POSITION
        if reg[k.PHASE] == k.LEAVING_OUT:
            if kind not in t.BEHIND_GROUPS:
                reg[k.EVENTS] += 1
                reg[k.POS] = o + length
                continue
            reg[k.PHASE], reg[k.LAST_END] = k.IDLE, reg[k.BASE] + o
            reg[k.GROUPS] += 1
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
        if kind == t.TABLE_MAP_EVENT:
            if phase in (k.IN_LOCAL, k.IN_XA):
                result = table_map(a, b, at, body_end)
            else:
                result = k.OUTSIDE
        elif t.is_rows(kind):
            header = 10 if t.has_extra_data(kind) else 8
            if at + header > body_end:
                return k.BAD_BODY
            table_id = u48(b, at)
            if phase not in (k.IN_LOCAL, k.IN_XA):
                result = k.OUTSIDE
            elif not is_mapped(a, table_id):
                result = k.NO_TABLE_MAP
            elif table_id == reg[k.COMMIT_TABLE_ID] and t.is_write(kind):
                rows = at + 8
                if t.has_extra_data(kind):
                    rows += u16(b, at + 8)
                result = commit_rows(a, b, rows, body_end)
        elif kind == t.GTID_LOG_EVENT or kind == t.ANONYMOUS_GTID_LOG_EVENT:
            if phase != k.IDLE and phase != k.CARRIED:
                result = k.UNFINISHED
            elif phase == k.IDLE and not inner and reg[k.BASE] + o >= stop:
                return k.DONE
            elif body_end - at < 25:
                result = k.BAD_BODY
            else:
                number = sequence_number(b, at, body_end)
                gno = i64(b, at + 17)
                if number < 0 or not 0 <= gno < k.MAX_GNO:
                    return k.BAD_BODY
                if not follows(reg, number):
                    return k.SEQUENCE
                begins = reg[k.GROUP_START] if phase == k.CARRIED else reg[k.BASE] + o
                decided = (
                    is_decided(a, i64(b, at + 1), i64(b, at + 9), 0, gno, begins) if len(a.elsewhere) else k.UNDECIDED
                )
                if decided != k.UNDECIDED and reg[k.DECIDED_AT] != begins + 1:
                    return k.DECIDED
                left_out = decided == k.SKIPPED
                if gno > 0 and len(a.elsewhere):
                    left_out |= is_elsewhere(a, i64(b, at + 1), i64(b, at + 9), 0, gno)
                if left_out:
                    leave_out(reg, begins, number, gno)
                else:
                    if gno > 0 and not log_gtid(a, i64(b, at + 1), i64(b, at + 9), 0, gno):
                        return k.GROW
                    reg[k.NEXT_SEQUENCE] = number + (number != 0)
                    open_group(reg, begins, timestamp, k.STARTED)
                    note_gtid(reg, b, at, body_end, timestamp, use_own)
                    note_length(reg, b, at, body_end, reg[k.BASE] + o)
        elif kind == t.QUERY_EVENT:
            if phase == k.IDLE and not inner and reg[k.BASE] + o >= stop:
                # A log without GTID events (MySQL 5.6): only whole files are scanned, so this is never a cut.
                return k.DONE
            result = query(a, b, at, body_end, file_end, timestamp, carrier, use_own)
        elif kind == t.XID_EVENT:
            if phase != k.IN_LOCAL:
                result = k.OUTSIDE
            elif not has_its_length(reg, file_end):
                result = k.BAD_LENGTH
            else:
                end_local(a, file_end, np.int64(0), carrier, use_own)
        elif kind == t.XA_PREPARE_LOG_EVENT:
            if body_end - at < 13:
                result = k.BAD_BODY
            elif phase != k.XA_ENDED:
                result = k.OUTSIDE
            elif not has_its_length(reg, file_end):
                result = k.BAD_LENGTH
            elif b[at]:
                end_local(a, file_end, np.int64(0), carrier, use_own)
            else:
                result = prepare(a, file_end)
        elif kind == t.ROWS_QUERY_LOG_EVENT:
            pass  # the user's text
        elif kind == t.TRANSACTION_PAYLOAD_EVENT:
            return k.PAYLOAD if not inner else k.BAD_BODY
        elif kind == t.GTID_TAGGED_LOG_EVENT:
            if phase != k.IDLE and phase != k.CARRIED:
                result = k.UNFINISHED
            elif phase == k.IDLE and reg[k.BASE] + o >= stop:
                return k.DONE
            else:
                return k.TAGGED_GTID
        elif kind == t.SEQUENCE_EVENT or kind == t.GCN_EVENT:
            if body_end - at < 1 or (body_end - at < 9 and (kind == t.SEQUENCE_EVENT or b[at] & 1)):
                result = k.BAD_BODY
            else:
                carries = _carried(kind, b[at], body_end - at)
                if phase == k.IDLE and (carries or kind == t.GCN_EVENT):
                    # GCN_LOG_EVENT is the first event of a group, in front of its GTID event.
                    if not inner and reg[k.BASE] + o >= stop:
                        return k.DONE
                    open_group(reg, reg[k.BASE] + o, timestamp, k.CARRIED)
                if carries:
                    reg[k.SEQUENCE_TSO] = i64(b, at + 1)
        elif kind == t.FORMAT_DESCRIPTION_EVENT:
            # A copy of the file's own, with which a dump from the middle of a file begins.
            if not _describes(b, at, body_end, crc):
                result = k.BAD_BODY
            elif phase != k.IDLE:
                result = k.UNFINISHED
        elif kind == t.PREVIOUS_GTIDS_LOG_EVENT:
            if phase != k.IDLE:
                result = k.UNFINISHED
        elif kind == t.ROTATE_EVENT or kind == t.STOP_EVENT:
            if phase != k.IDLE:
                result = k.UNFINISHED
            reg[k.CLEAN_END] = 1
        elif kind in t.STATEMENT_TYPES:
            result = k.STATEMENT_EVENT
        elif kind == t.INCIDENT_EVENT:
            result = k.UNSUPPORTED
        elif kind in t.NO_CHANGE_TYPES or u16(b, o + 17) & t.IGNORABLE:
            reg[k.IGNORED] += 1
            reg[k.PASSED_OVER] += 0 if inner else length
        else:
            result = k.UNKNOWN_EVENT
        if result != k.MORE:
            return result
        reg[k.EVENTS] += 1
        reg[k.POS] = o + length


@njit(cache=True, nogil=True, _nrt=False)
def find_group(b: Any, end: int, base: int, start: int, crc: int, least: int = 0) -> int:
    """Return the offset in `b` of the first group that begins at or after `least`, searching from `start`.

    Returns `end` if there is no complete group, and -1 - offset if a chain of events was found: then the search must
    continue after that offset with more input. A group begins with its GTID event, or with the PolarDB-X carrier right
    before it. An offset is taken for that of an event if length and type are plausible and log_pos is its own end; with
    checksums the CRC must match, too, without them the next event must be plausible as well.
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
        own = kind == t.GCN_EVENT or kind == t.SEQUENCE_EVENT
        if own and (kind == t.GCN_EVENT or (o + 28 <= end and _carried(kind, b[o + 19], 9))):
            begins = o if begins < 0 else begins
        else:
            if kind == t.GTID_LOG_EVENT or kind == t.ANONYMOUS_GTID_LOG_EVENT or kind == t.GTID_TAGGED_LOG_EVENT:
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
