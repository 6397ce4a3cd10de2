"""GTIDs that are missing from a node's logs, and the record of seen GTIDs for the next run."""

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.base.logged import NodeGtids
from binlog_merge.pipeline.scan.executed import executed_before

MOST_KEPT = 1 << 12  # intervals per node in a record of the manifest


def note_gtids(scanned: ScannedNode, end_of_input: bool) -> list[str]:
    """Record the GTIDs that the node has shown, for the next run, and return warnings about gaps.

    If GTIDs carry commit TSOs most numbers are never used, so there are no gaps.
    """
    node = scanned.input
    logged = [p.logged for p in scanned.pieces]
    carrying = {source for piece in logged for source in piece.carrying.intervals}
    base = GtidSet({s: spans for s, spans in node.gtids.base.intervals.items() if s not in carrying})
    seen = node.gtids.seen
    if seen is None or any(piece.scattered for piece in logged):
        return _given_up(scanned)
    seen = GtidSet.of(item for gtids in (seen, *(piece.gtids for piece in logged)) for item in gtids.items())
    gaps = GtidSet() if carrying else _gaps(scanned, seen, end_of_input and scanned.error is None)
    warned = node.gtids.warned.union(gaps)
    if base.spans + seen.spans + warned.spans > MOST_KEPT:
        return _given_up(scanned)
    scanned.gtids = NodeGtids(base, seen, warned)
    if not gaps:
        return []
    return [
        f"{scanned.source_id}: its logs have no {gaps}, though they have GTIDs of the same source before and after. "
        "The server has not logged them: a transaction that was never given this number (SET gtid_next, group "
        "replication's blocks of numbers), or that another server kept (a replica that filters, or that began after "
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
    """Return the new gaps: GTIDs missing from everything read, for which no warning was given yet.

    Unless `final`, gaps in the last file do not count yet: parallel appliers may still log these GTIDs.
    """
    node, last = scanned.input, scanned.end[0]
    known = node.gtids.base.union(executed_before(node.files[last]) or GtidSet())
    if final:
        known = known.union(seen)
    for piece in scanned.pieces:
        if piece.file_index < last:
            known = known.union(piece.logged.gtids)
    return known.holes().minus(node.gtids.base.holes()).minus(node.gtids.warned).minus(seen)
