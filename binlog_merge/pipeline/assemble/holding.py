"""Why a node holds the others back, in words for people."""

from datetime import UTC, datetime, timedelta

from binlog_merge.binlog.kernels.scan_layout import SYNC_POINT
from binlog_merge.pipeline.assemble.nodes import Place, ScannedNode
from binlog_merge.pipeline.base.branches import Prepared
from binlog_merge.pipeline.base.clock import tso_us
from snapshot_store.tso import OrderKey, carries_time, tso_millis

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def why(node: ScannedNode, watermark: OrderKey | None) -> str:
    """Return what keeps a node's watermark where it is."""
    if node.error is not None:
        return "its log cannot be read any further"
    if (unfinished := _unfinished(node)) is not None:
        return f"what begins at {_place(node, unfinished)} is not whole yet"
    if (prepared := _prepared(node, watermark)) is not None:
        where = _place(node, (prepared.file_index, prepared.start)) if prepared.file_index >= 0 else "an earlier file"
        return f"the transaction prepared at {where} has neither committed nor been rolled back"
    if node.as_of is not None and watermark is not None and watermark.seq == 0:
        return f"idle, and its clock was at {_time(node.as_of.clock_us)} when it was asked last"
    read_to = _place(node, node.read_to)
    if watermark is None or not node.carry.max_tso:
        return f"it has shown no commit {'time' if node.by_time else 'TSO'} yet, read to {read_to}"
    return f"idle since {_moment(node)}, read to {read_to}"


def _unfinished(node: ScannedNode) -> Place | None:
    """Return where a transaction or event begins at the end of the log that is not whole, None if all are."""
    if not node.pieces:
        return None
    last = max(node.pieces, key=lambda piece: (piece.file_index, piece.piece))
    at = last.truncated if last.unfinished is None else last.unfinished
    return None if at is None else (last.file_index, at)


def _prepared(node: ScannedNode, watermark: OrderKey | None) -> Prepared | None:
    """Return the open branch that the watermark waits for."""
    if node.by_time or watermark is None or watermark.seq:
        return None
    found = sorted(
        node.carry.open.values(), key=lambda prepared: (prepared.max_tso, prepared.file_index, prepared.start)
    )
    least = next(iter(found), None)
    if least is None:
        return None
    waits_for = least.max_tso + (0 if least.flags & SYNC_POINT else 1)
    return least if watermark.commit_tso <= waits_for else None


def _moment(node: ScannedNode) -> str:
    tso = node.carry.max_tso
    if node.by_time:
        return _time(tso_us(tso))
    return f"commit TSO {tso} ({_time(tso_millis(tso) * 1000)})" if carries_time(tso) else f"commit TSO {tso}"


def _time(us: int) -> str:
    return (_EPOCH + timedelta(microseconds=us)).strftime("%Y-%m-%d %H:%M:%S.%f UTC")


def _place(node: ScannedNode, place: Place) -> str:
    return f"{node.input.files[place[0]].name}:{place[1]}"
