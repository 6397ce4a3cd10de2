"""Turns what the scan kernel found in a piece into its index block and a `ScanResult`."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.binlog.kernels.sort import sorted_places
from binlog_merge.pipeline.base.branches import LateCommit, OpenBranch
from binlog_merge.pipeline.base.clock import clocked
from binlog_merge.pipeline.base.columns import from_rows
from binlog_merge.pipeline.scan.logged import logged
from binlog_merge.pipeline.scan.values import Passed, ScanResult, TsoSpan
from binlog_merge.pipeline.scan.walk import Walk

QUANTILES = 256

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
    new = timed[timed[:, k.T_COMMIT_AT] >= task.seen]
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
        least_new=(int(new[0, k.T_TSO]), int(new[0, k.T_TRANSACTION])) if len(new) else None,
        quantiles=tuple(_quantiles(timed[:, k.T_TSO], timed[:, k.T_END] - timed[:, k.T_START]))
        + tuple(_quantiles(local[:, k.L_MAX_TSO], local[:, k.L_END] - local[:, k.L_START])),
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
        passed=tuple(Passed(*kind, count, tuple(first)) for kind, (count, first) in sorted(walk.passed.items())),
        error=error,
    )


def _quantiles(tso: npt.NDArray[np.int64], weight: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield up to QUANTILES points (tso, bytes since the last point), evenly spaced by bytes; `tso` is sorted."""
    if not len(tso):
        return
    total = np.cumsum(weight)
    wanted = (np.arange(1, QUANTILES + 1) * int(total[-1])) // QUANTILES
    at = np.unique(np.minimum(np.searchsorted(total, wanted), len(tso) - 1))
    yield from zip(tso[at].tolist(), np.diff(total[at], prepend=0).tolist(), strict=True)


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
