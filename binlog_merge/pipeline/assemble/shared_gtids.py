"""GTIDs that several nodes have: a primary and its replica, given as two nodes, would yield every transaction twice."""

from collections.abc import Mapping, Sequence

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.errors import TransactionTwice
from binlog_merge.pipeline.assemble.log_faults import Fault, find
from binlog_merge.pipeline.base.logged import text_of
from binlog_merge.pipeline.base.node_input import NodeInput
from binlog_merge.pipeline.scan.values import ScanResult

REPLICA = (
    "if one of the two is a replica of the other, or both are of a third server, give only one of them: the other adds "
    "nothing. Where both must be read (shards that replicate a table which the configuration filters out), "
    "`log-doubts: warn` merges every transaction as often as it is logged"
)

Pieces = Mapping[str, Sequence[ScanResult]]


def shared_faults(nodes: Sequence[NodeInput], pieces: Pieces) -> dict[str, Fault]:
    """Return, for each node that repeats transactions of another, its first group that does.

    The fault is given to the node that brings the GTID in this run; if both do, to the one with the greater number.
    """
    own = {n.source_id: _union([p.logged.gtids for p in pieces.get(n.source_id, ())]) for n in nodes}
    everything = {n.source_id: own[n.source_id].union(n.gtids.seen or GtidSet()) for n in nodes}
    faults: dict[str, Fault] = {}
    for first, second in _pairs(nodes, everything):
        shared = everything[first.source_id].intersection(everything[second.source_id])
        for node, other in ((second, first), (first, second)):
            new = shared.minus(node.gtids.seen or GtidSet()).intersection(own[node.source_id])
            if new:
                fault = _fault(node, other, pieces, new, shared)
                known = faults.get(node.source_id)
                if known is None or (fault.piece, fault.position) < (known.piece, known.position):
                    faults[node.source_id] = fault
                break
    return faults


def _union(sets: Sequence[GtidSet]) -> GtidSet:
    return GtidSet.of(item for gtids in sets for item in gtids.items())


def _pairs(nodes: Sequence[NodeInput], everything: Mapping[str, GtidSet]) -> list[tuple[NodeInput, NodeInput]]:
    """Return the pairs of nodes that share a GTID, in order of their numbers."""
    intervals: dict[tuple[bytes, str], list[tuple[int, int, int]]] = {}
    for index, node in enumerate(nodes):
        for sid, tag, start, end in everything[node.source_id].items():
            intervals.setdefault((sid, tag), []).append((start, end, index))
    pairs = set[tuple[int, int]]()
    for spans in intervals.values():
        open_spans: list[tuple[int, int]] = []
        for start, end, index in sorted(spans):
            open_spans = [(until, other) for until, other in open_spans if until > start]
            pairs |= {(min(index, other), max(index, other)) for _, other in open_spans}
            open_spans.append((end, index))
    return [(nodes[a], nodes[b]) for a, b in sorted(pairs)]


def _fault(node: NodeInput, other: NodeInput, pieces: Pieces, new: GtidSet, shared: GtidSet) -> Fault:
    for index, piece in enumerate(pieces[node.source_id]):
        wanted = piece.logged.gtids.intersection(new)
        group = find(node, piece, wanted) if wanted else None
        if group is None:
            continue
        gtid = (group.sid, group.tag, group.gno)
        where = _place(other, pieces, GtidSet.of([(*gtid, gtid[2] + 1)]))
        many = f", as are {shared.count - 1} more" if shared.count > 1 else ""
        text = f"GTID {text_of(gtid)} is in the log of node {other.source_id} too{where}{many}"
        return Fault(index, group.offset, TransactionTwice(text, remedy=REPLICA))
    raise AssertionError("a node's GTIDs are not those of its groups")


def _place(node: NodeInput, pieces: Pieces, gtid: GtidSet) -> str:
    for piece in pieces.get(node.source_id, ()):
        if piece.logged.gtids.intersection(gtid):
            group = find(node, piece, gtid)
            if group is not None:
                return f" ({node.files[piece.file_index].path}:{group.offset})"
    return ""
