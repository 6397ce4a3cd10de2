"""The scan stage: walk one piece of a binlog file and write its index block.

A piece owns the groups that begin in [start, stop). Its result is final except for three things that assemble settles
per node: the greatest commit TSO in earlier pieces, XA COMMITs whose prepare or TSO is in an earlier piece, and
prepares that are still open at the end. A piece with damage keeps what precedes the damage and returns its offset.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog.header import EventHeader
from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.binlog.kernels.index_rows import points, sorted_places
from binlog_merge.binlog.kernels.scan import find_group
from binlog_merge.errors import ChecksumMismatch, MergeError
from binlog_merge.files.node_file import open_known
from binlog_merge.files.source import BLOCK, Source
from binlog_merge.pipeline.base.branches import LateCommit, OpenBranch
from binlog_merge.pipeline.base.clock import clocked
from binlog_merge.pipeline.base.logged import MOST_SPANS, Gtid, Logged
from binlog_merge.pipeline.base.pieces import from_rows
from binlog_merge.pipeline.scan.values import Passed, ScanResult, ScanTask, TsoSpan
from binlog_merge.pipeline.scan.walk import (
    CHUNK,
    Walk,
    giant_event,
    last_gtid,
    leaving_out,
    new_arrays,
    prepared_again,
    read,
    run,
)

FIND_BUFFER = 20 << 20  # more than find_group asks to see of one event
GIANT_EVENT = 64 << 20  # a bigger row event is not held in memory: its checksum is taken piece by piece


def scan(task: ScanTask) -> ScanResult:
    """Walk one piece and write its block; damage is returned as `error`, never raised."""
    rows = min(1 << 20, max(1 << 10, (min(task.stop, task.size) - task.start) // 512))
    walk = leaving_out(Walk(task, new_arrays(rows, branches=rows)))
    walk.reg[k.NEXT_SEQUENCE] = k.FILE_BEGINS if task.start <= 4 else k.ANY_SEQUENCE
    first, truncated, error = -1, None, None
    try:
        with open_known(task.file, BLOCK) as source:
            source.expect(task.stop)
            first, truncated = _walk_piece(walk, source)
    except MergeError as raised:
        error = raised.located(node=task.node, file=task.file.path).to_dict()
    except BinlogFormatError as raised:
        position = raised.offset if raised.offset >= 0 else int(walk.reg[k.BASE] + walk.reg[k.POS])
        error = ChecksumMismatch(raised.reason, node=task.node, file=task.file.path, position=position).to_dict()
    return result(walk, first, truncated, error)


def scan_all(tasks: Sequence[ScanTask]) -> list[ScanResult]:
    """Walk several small pieces, one after the other."""
    return [scan(task) for task in tasks]


def _walk_piece(walk: Walk, source: Source) -> tuple[int, int | None]:
    """Walk the piece; returns the offset where its first group may begin (-1: it owns none), and that of a truncated
    event.
    """
    task, reg = walk.task, walk.reg
    crc = 4 if task.checksum else 0
    first = offset = max(4, task.start) if task.exact or task.start <= 4 else _find_group(source, task, crc)
    if first < 0:
        return -1, None
    buffer = np.empty(min(CHUNK, max(task.size, 1 << 12)), np.uint8)
    if offset == 4:
        # The FDE was checked when the file was found; while the file is in use its checksum does not cover its flags.
        read(source, buffer, offset, task.size)
        offset += EventHeader.parse(buffer[:19].tobytes()).event_size
    while True:
        got = read(source, buffer, offset, task.size)
        reg[k.BASE], reg[k.POS] = offset, 0
        reason = run(walk, buffer, got, crc)
        offset = int(reg[k.BASE] + reg[k.POS])
        left = task.size - offset
        if reason == k.DONE or left == 0:
            return first, None
        if left < 19:
            return first, offset
        head = np.empty(19, np.uint8)
        read(source, head, offset, task.size)
        length = EventHeader.parse(head.tobytes()).event_size
        if length > left:
            return first, offset
        if length > GIANT_EVENT:
            giant_event(walk, source, offset, length)
            offset += length
        elif length > len(buffer):
            buffer = np.empty(length + CHUNK, np.uint8)


def _find_group(source: Source, task: ScanTask, crc: int) -> int:
    """Return the offset of the first group that begins at or after the piece's start and before its stop, or -1."""
    buffer = np.empty(min(FIND_BUFFER, task.size), np.uint8)
    offset = max(4, task.start - k.GCN_SIZE)  # a GTID event right after the start may belong to a group before it
    while offset < task.stop and offset + 19 <= task.size:
        got = read(source, buffer, offset, task.size)
        found = int(find_group(buffer, got, offset, 0, crc, max(0, task.start - offset)))
        if 0 <= found < got:
            return offset + found if offset + found < task.stop else -1
        known = -1 - found if found < 0 else got
        if offset + got >= task.size and known == 0:
            return -1
        # At `known` an event begins that is not whole in the buffer; without progress it is no event at all.
        offset += known if known > 0 else 1
    return -1


QUANTILES, FEWEST_QUANTILES = 256, 16
QUANTILE_BYTES = 1 << 20

TIMED_COLUMNS = ("tso", "transaction", "start", "end", "commit_us", "set", "flags")
_TIMED_FROM = (k.T_TSO, k.T_TRANSACTION, k.T_START, k.T_END, k.T_COMMIT_US, k.T_SET, k.T_FLAGS)
ROW_COLUMNS = ("gtrid_1", "gtrid_2", "tso")
LOCAL_COLUMNS = ("start", "end", "commit_us", "set", "flags", "max_tso", "max_transaction")


def result(walk: Walk, first: int, truncated: int | None, error: dict[str, Any] | None) -> ScanResult:
    """Write the piece's block and return its summary."""
    task, reg, a = walk.task, walk.reg, walk.arrays
    timed, local = a.timed[: reg[k.N_TIMED]], a.local[: reg[k.N_LOCAL]]
    late = a.late[: reg[k.N_LATE]]
    timed = timed[sorted_places(np.stack([timed[:, k.T_TSO], timed[:, k.T_TRANSACTION]]))]
    used = a.tsos[a.tsos[:, k.C_STATE] == 2]
    task.block.write(
        from_rows(timed, TIMED_COLUMNS, _TIMED_FROM),
        from_rows(local, LOCAL_COLUMNS, range(k.L_COLUMNS)),
        from_rows(used, ROW_COLUMNS, (k.C_GTRID_1, k.C_GTRID_2, k.C_TSO)),
    )
    live = a.xids[a.xids[:, k.P_STATE] == 1]
    live = live[np.argsort(live[:, k.P_START], kind="stable")]
    new = np.flatnonzero(timed[:, k.T_COMMIT_AT] >= task.seen)[:1]
    markers = timed[(timed[:, k.T_FLAGS] & k.MARKER) != 0]
    after_max = (local[:, k.L_MAX_TSO] == reg[k.MAX_TSO]) & (local[:, k.L_MAX_TRANSACTION] == reg[k.MAX_TRANSACTION])
    return ScanResult(
        piece=task.piece,
        node=task.node,
        file_index=task.file_index,
        first=first,
        end=int(reg[k.LAST_END]),
        reached=int(reg[k.BASE] + reg[k.POS]),
        clean_end=bool(reg[k.CLEAN_END]),
        truncated=truncated,
        timed=len(timed),
        local=len(local),
        groups=int(reg[k.GROUPS]),
        events=int(reg[k.EVENTS]),
        ignored=int(reg[k.IGNORED]),
        max_tso=int(reg[k.MAX_TSO]),
        max_transaction=int(reg[k.MAX_TRANSACTION]),
        locals_after_max=int(np.count_nonzero(after_max)),
        least_new=next(((tso, number) for tso, number in timed[new][:, [k.T_TSO, k.T_TRANSACTION]].tolist()), None),
        quantiles=(
            *_quantiles(timed, k.T_TSO, k.T_START, k.T_END),
            *_quantiles(local, k.L_MAX_TSO, k.L_START, k.L_END),
        ),
        sets=tuple(_sets(walk)),
        late=tuple(_late(row) for row in late.tolist()),
        open=tuple(_open(row) for row in live.tolist()),
        commit_rows=tuple(_pending_commit_rows(a, live)),
        used_rows=len(used),
        ddl=tuple(np.flatnonzero(local[:, k.L_FLAGS] & (k.DDL | k.FLAG_CREATE_SELECT)).tolist()),
        markers=tuple((r[k.T_TSO], r[k.T_TRANSACTION], r[k.T_START], r[k.T_END]) for r in markers.tolist()),
        local_markers=tuple(np.flatnonzero(local[:, k.L_FLAGS] & k.MARKER).tolist()),
        unfinished=None if reg[k.PHASE] in (k.IDLE, k.LEAVING_OUT) else int(reg[k.GROUP_START]),
        logged=logged(walk),
        clock=clocked(local[:, k.L_MAX_TSO], local[:, k.L_COMMIT_US]) if task.carrier == k.BY_TIME else None,
        timed_span=TsoSpan(int(timed[0, k.T_TSO]), int(timed[-1, k.T_TSO])) if len(timed) else None,
        last_timed=tuple(timed[-1, [k.T_TSO, k.T_TRANSACTION, k.T_FLAGS]].tolist()) if len(timed) else None,
        again=tuple(sorted(prepared_again(walk))) if task.awaited else (),
        passed=tuple(Passed(*kind, count, tuple(first)) for kind, (count, first) in sorted(walk.passed.items())),
        error=error,
    )


def _quantiles(rows: npt.NDArray[np.int64], tso: int, begin: int, end: int) -> list[tuple[int, int]]:
    """Return points (tso, bytes since the last point), evenly spaced by bytes, of rows that are sorted by `tso`.

    There are up to QUANTILES of them, of a small piece fewer: the driver holds those of all pieces.
    """
    size = int((rows[:, end] - rows[:, begin]).sum())
    count = min(QUANTILES, max(FEWEST_QUANTILES, size // QUANTILE_BYTES))
    found = np.empty((count, 2), np.int64)
    number = int(points(rows, tso, begin, end, count, found))
    return [(at, weight) for at, weight in found[:number].tolist()]


def _sets(walk: Walk) -> Iterator[tuple[tuple[str, str], ...]]:
    """Yield the tables of each table set, in order of the sets' numbers."""
    sets = walk.arrays.sets
    for number in range(int(walk.reg[k.N_SETS])):
        tables, here = [], number
        while here > 0:
            tables.append(walk.names[int(sets[here, 1])])
            here = int(sets[here, 0])
        yield tuple(reversed(tables))


def _late(row: list[int]) -> LateCommit:
    branch = (row[k.X_START], row[k.X_END], row[k.X_SET], row[k.X_FLAGS]) if row[k.X_START] >= 0 else None
    return LateCommit(
        local=row[k.X_LOCAL],
        locals_before=row[k.X_LOCALS_BEFORE],
        xid=(row[k.X_XID_1], row[k.X_XID_2]),
        gtrid=(row[k.X_GTRID_1], row[k.X_GTRID_2]),
        transaction=row[k.X_TRANSACTION],
        tso=row[k.X_TSO] if row[k.X_TSO] >= 0 else None,
        rollback=row[k.X_TSO] == -2,
        commit_us=row[k.X_COMMIT_US],
        commit_at=row[k.X_COMMIT_AT],
        branch=branch,
        greatest=(row[k.X_MAX_TSO], row[k.X_MAX_TRANSACTION]) if branch is not None else (0, 0),
    )


def _open(row: list[int]) -> OpenBranch:
    return OpenBranch(
        xid=(row[k.P_XID_1], row[k.P_XID_2]),
        gtrid=(row[k.P_GTRID_1], row[k.P_GTRID_2]),
        transaction=row[k.P_TRANSACTION],
        start=row[k.P_START],
        end=row[k.P_END],
        set=row[k.P_SET],
        flags=row[k.P_FLAGS],
        max_tso=row[k.P_MAX_TSO],
        max_transaction=row[k.P_MAX_TRANSACTION],
    )


def _pending_commit_rows(a: k.Arrays, live: npt.NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """Yield the commit rows that a later piece may need: rows not used here, and rows of transactions with an open
    branch.
    """
    rows = a.tsos[a.tsos[:, k.C_STATE] != 0]
    open_gtrids = {(r[k.P_GTRID_1], r[k.P_GTRID_2]) for r in live.tolist()}
    unused = rows[rows[:, k.C_STATE] == 1]
    used = rows[rows[:, k.C_STATE] == 2] if open_gtrids else rows[:0]
    for g1, g2, tso, _ in unused.tolist():
        yield g1, g2, tso
    for g1, g2, tso, _ in used.tolist():
        if (g1, g2) in open_gtrids:
            yield g1, g2, tso


def logged(walk: Walk) -> Logged:
    """Return the GTIDs and sequence numbers of the piece's complete groups."""
    reg, rows = walk.reg, walk.arrays.gtids[: walk.reg[k.N_GTIDS]].copy()
    next_number, partial = int(reg[k.NEXT_SEQUENCE]), reg[k.PHASE] not in (k.IDLE, k.CARRIED)
    if partial and reg[k.GNO] > 0 and reg[k.PHASE] != k.LEAVING_OUT:
        rows[reg[k.GTID_ROW], k.G_END] -= 1  # of a group that is not whole
    if partial and next_number > 0:
        next_number -= 1
    rows = rows[rows[:, k.G_END] > rows[:, k.G_START]]
    count = int((rows[:, k.G_END] - rows[:, k.G_START]).sum())
    own = rows[:, k.G_OWN] != 0
    gtids, carrying = _set(walk, rows[~own]), _set(walk, rows[own])
    scattered = gtids.spans + carrying.spans > MOST_SPANS
    return Logged(
        first_number=int(reg[k.FIRST_SEQUENCE]),
        next_number=next_number,
        first=_first(walk) if len(rows) else None,
        last=last_gtid(walk) if len(rows) else None,
        gtids=GtidSet() if scattered else gtids,
        carrying=GtidSet() if scattered else carrying,
        without=int(reg[k.GROUPS] - reg[k.LEFT_OUT]) + (reg[k.PHASE] == k.LEAVING_OUT) - count,
        twice=gtids.count + carrying.count < count or bool(gtids.intersection(carrying)),
        scattered=scattered,
        breaks=tuple(walk.breaks),
    )


def _first(walk: Walk) -> Gtid:
    row = walk.arrays.gtids[0]
    return row[:2].tobytes(), walk.tags[row[k.G_TAG]], int(row[k.G_START])


def _set(walk: Walk, rows: npt.NDArray[Any]) -> GtidSet:
    if not len(rows):
        return GtidSet()
    spans = zip(rows[:, k.G_TAG].tolist(), rows[:, k.G_START].tolist(), rows[:, k.G_END].tolist(), strict=True)
    sids = rows[:, k.G_SID_1 : k.G_SID_2 + 1]
    return GtidSet.of(
        (sid.tobytes(), walk.tags[tag], start, end) for sid, (tag, start, end) in zip(sids, spans, strict=True)
    )
