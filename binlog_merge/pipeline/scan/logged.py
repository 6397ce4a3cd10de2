"""Reads the GTIDs and sequence numbers of a piece from the scan kernel's arrays."""

from typing import Any

import numpy.typing as npt

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.pipeline.base.logged import MOST_SPANS, Gtid, Logged
from binlog_merge.pipeline.scan.walk import Walk, last_gtid


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
    spans = zip(rows[:, k.G_TAG].tolist(), rows[:, k.G_START].tolist(), rows[:, k.G_END].tolist(), strict=True)
    sids = rows[:, k.G_SID_1 : k.G_SID_2 + 1]
    return GtidSet.of(
        (sid.tobytes(), walk.tags[tag], start, end) for sid, (tag, start, end) in zip(sids, spans, strict=True)
    )
