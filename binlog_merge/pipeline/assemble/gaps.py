"""GTIDs that a node's logs leave out, and what the next run must know of those they have."""

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.base.logged import NodeGtids
from binlog_merge.pipeline.scan.executed import executed_before

MOST_KEPT = 1 << 12  # intervals of a node, in every record of the manifest


def note_gtids(scanned: ScannedNode, end_of_input: bool) -> list[str]:
    """Note what the node has shown, for the next run, and return what is to be said of it.

    Where GTIDs carry commit TSOs most numbers are never used, so there are no gaps.
    """
    node = scanned.input
    logged = [p.logged for p in scanned.pieces]
    carrying = {source for one in logged for source in one.carrying.intervals}
    base = GtidSet({s: spans for s, spans in node.gtids.base.intervals.items() if s not in carrying})
    seen = node.gtids.seen
    if seen is None or any(one.scattered for one in logged):
        return _given_up(scanned)
    seen = GtidSet.of(item for one in (seen, *(one.gtids for one in logged)) for item in one.items())
    gaps = GtidSet() if carrying else _gaps(scanned, seen, end_of_input and scanned.error is None)
    told = node.gtids.told.union(gaps)
    if base.spans + seen.spans + told.spans > MOST_KEPT:
        return _given_up(scanned)
    scanned.gtids = NodeGtids(base, seen, told)
    if not gaps:
        return []
    return [
        f"{scanned.source_id}: its logs have no {gaps}, though they have GTIDs of the same source before and behind. "
        "The server has not logged them: a transaction that was never given this number (SET gtid_next, group "
        "replication's blocks of numbers), or that another server kept (a replica that filters, or that began behind "
        "it); or a log was changed. What they did is not in the output"
    ]


def _given_up(scanned: ScannedNode) -> list[str]:
    if scanned.input.gtids.seen is None:
        scanned.gtids = scanned.input.gtids
        return []
    scanned.gtids = NodeGtids(seen=None)
    return [
        f"{scanned.source_id}: its GTIDs are so scattered (more than {MOST_KEPT} intervals) that they are not compared "
        "with those of other nodes, of later runs, and of later files; sequence numbers are"
    ]


def _gaps(scanned: ScannedNode, seen: GtidSet, final: bool) -> GtidSet:
    """Return the gaps that nothing read fills and nobody was told of.

    Other than at the end of input what the last file leaves out is not one yet: appliers in parallel may log it there.
    """
    node, last = scanned.input, scanned.end[0]
    known = node.gtids.base.union(executed_before(node.files[last]) or GtidSet())
    if final:
        known = known.union(seen)
    for piece in scanned.pieces:
        if piece.file_index < last:
            known = known.union(piece.logged.gtids)
    return known.holes().minus(node.gtids.base.holes()).minus(node.gtids.told).minus(seen)
