"""Checks that the nodes' logs are complete: no transaction is in them twice and none is missing.

`log_faults` checks one node's GTIDs and sequence numbers for transactions that are in its log twice or are missing from
it.

Each piece brings the numbers of its own groups (`Logged`); the boundaries between pieces and files are checked here:

    file 7     1 … 40 | 41 … 90        sequence numbers continue from piece to piece
    file 8     executed before: u:1-90  all that the server had executed when it began the file is in earlier files

A GTID that was executed before is never logged again. The reverse does not hold: a GTID may be in a file and not yet in
the PREVIOUS_GTIDS of the next, as servers begin a file while XA or non-transactional groups are still committing (seen
on 9.7).

`shared_faults` finds GTIDs that several nodes have: a primary and its replica, given as two nodes, would yield every
transaction twice.

A node with a fault is read up to the group before it: that piece is scanned
again with an earlier stop. With `log-doubts: warn` it is read on, and every fault is a warning.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.errors import MergeError, TransactionMissing, TransactionTwice, UnsupportedInput
from binlog_merge.files.node_file import Group, NodeFile, groups
from binlog_merge.pipeline.base.logged import Gtid, changes_source, out_of_sequence, text_of
from binlog_merge.pipeline.base.node_input import FILE_BEGINS, NodeInput
from binlog_merge.pipeline.base.state import Inputs, Job
from binlog_merge.pipeline.scan.carriers import POLARDBX
from binlog_merge.pipeline.scan.inputs import elsewhere, executed_before
from binlog_merge.pipeline.scan.task import scan
from binlog_merge.pipeline.scan.values import Piece, ScanResult

RESET = (
    "if the node's GTIDs were reset (RESET BINARY LOGS AND GTIDS), begin a new output with the files behind that; else "
    "copy the file from the node again. `log-doubts: warn` merges the transaction as often as it is logged"
)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault in a node's log: the group at `position` must not come out. If it is not `certain` it only causes a
    warning.
    """

    piece: int  # index among the node's pieces
    position: int
    error: MergeError
    certain: bool = True


@dataclass
class _Walk:
    """The numbers seen in the pieces up to the current one."""

    node: NodeInput
    pieces: Sequence[ScanResult]
    executed: GtidSet  # before the current piece
    known: GtidSet  # all that may be executed before the next file
    blind: bool = False  # `known` is not complete
    last: Gtid | None = None


def log_faults(node: NodeInput, pieces: Sequence[ScanResult], polardbx: bool) -> Iterator[Fault]:
    """Yield the faults of a node's log, in order, up to the first damage.

    Skips the part of the log that earlier runs have read and checked.
    """
    for fault in _faults(node, pieces, polardbx):
        if _is_new(node, pieces[fault.piece].file_index, fault.position):
            yield fault


def _is_new(node: NodeInput, file_index: int, position: int) -> bool:
    return node.seen is None or (file_index, position) >= node.seen


def _faults(node: NodeInput, pieces: Sequence[ScanResult], polardbx: bool) -> Iterator[Fault]:
    before_file, before_start = executed_before(node.files[node.first]), node.resume.executed
    executed = (before_file or GtidSet()).union(before_start or GtidSet())
    seen = node.gtids.seen
    known = executed.union(node.gtids.base).union(seen or GtidSet())
    blind = before_file is None or before_start is None or seen is None
    walk = _Walk(node, pieces, executed, known, blind, node.resume.last)
    number = node.resume.next_number if node.resume.start > FILE_BEGINS else None
    for index, piece in enumerate(pieces):
        logged, file = piece.logged, node.files[piece.file_index]
        if index and piece.file_index != pieces[index - 1].file_index:
            number = None
            yield from _lost(walk, index, certain=not polardbx)
            before = executed_before(file)
            walk.blind = walk.blind or before is None
            walk.executed = walk.executed.union(before or GtidSet())
            walk.known = walk.known.union(before or GtidSet())
        for position, found, wanted in logged.breaks:
            yield Fault(index, position, out_of_sequence(found, wanted))
        if logged.first_number >= 0:
            if not _runs_on(number, logged.first_number) and not (polardbx and changes_source(walk.last, logged.first)):
                yield Fault(index, piece.first, out_of_sequence(logged.first_number, -1 if number is None else number))
            number = logged.next_number
        walk.last = logged.last or walk.last
        own = logged.all
        if logged.twice or walk.executed.intersection(own):
            yield _again(walk, index)
        if file.earlier is not None and logged.without:
            yield Fault(index, piece.first, _anonymous(file))
        walk.blind = walk.blind or logged.scattered
        walk.executed, walk.known = walk.executed.union(own), walk.known.union(own)
        if piece.error is not None:
            return


def _anonymous(file: NodeFile) -> MergeError:
    return UnsupportedInput(
        f"{file.name} has transactions without a GTID, so that it cannot be known which of them the node's server "
        "before had, too",
        file=file.path,
        remedy="a node that fails over needs gtid_mode=ON on all its servers; begin a new output with these files",
    )


def _runs_on(expected: int | None, number: int) -> bool:
    """Return whether a number is the expected one: None at the beginning of a file, negative if none is known."""
    return number in (0, 1) if expected is None else expected < 0 or number == expected


def find(node: NodeInput, piece: ScanResult, wanted: GtidSet) -> Group | None:
    """Return the first group of a piece with one of the wanted GTIDs, None if there is none."""
    for group in groups(node.files[piece.file_index], piece.first, piece.reached):
        if group.gno and (group.sid, group.tag, group.gno) in wanted:
            return group
    return None


def _again(walk: _Walk, index: int) -> Fault:
    """Return the fault of a piece that repeats a GTID: one executed before it, or one of its own."""
    piece, here = walk.pieces[index], set[Gtid]()
    file = walk.node.files[piece.file_index]
    left_out = elsewhere(file)
    for group in groups(file, piece.first, piece.reached):
        gtid = (group.sid, group.tag, group.gno)
        if gtid in left_out:
            continue
        if group.gno and (gtid in here or gtid in walk.executed):
            break
        here.add(gtid)
    else:
        raise AssertionError("a piece's GTIDs are not those of its groups")
    where = f"it stands in {file.name} before"
    if gtid not in here:
        where = _place_of(walk, index, gtid)
    return Fault(index, group.offset, TransactionTwice(f"GTID {text_of(gtid)} comes again: {where}", remedy=RESET))


def _place_of(walk: _Walk, index: int, gtid: Gtid) -> str:
    """Return text that says where a GTID is first: in an earlier piece, or in files that are no longer read."""
    for piece in walk.pieces[:index]:
        if gtid in piece.logged.all:
            group = find(walk.node, piece, GtidSet.of([(*gtid, gtid[2] + 1)]))
            if group is not None:
                return f"it stands at {walk.node.files[piece.file_index].name}:{group.offset}, too"
    return "the server had executed it before this file"


def _lost(walk: _Walk, index: int, certain: bool) -> Iterator[Fault]:
    """Yield the fault of a file whose PREVIOUS_GTIDS include GTIDs that no earlier file has.

    On an empty server `gtid_purged` may be set, which MySQL 5.6 records like GTIDs it executed itself. On PolarDB-X the
    fault is not certain: a replica that follows begins files while it still applies transactions of earlier ones.
    """
    file, earlier = walk.node.files[walk.pieces[index].file_index], walk.pieces[index - 1]
    before = executed_before(file)
    if walk.blind or before is None or not walk.known:
        return
    lost = before.minus(walk.known)
    own = [p for p in walk.pieces[:index] if p.file_index == earlier.file_index]
    if walk.node.seen is None and earlier.file_index == 0:
        lost = lost.minus(_still_committing(own))
    if not lost:
        return
    where = walk.node.files[earlier.file_index]
    error = TransactionMissing(
        f"{file.name} says that {lost} was executed before it, but neither {where.name} nor a file before it has that",
        file=where.path,
    )
    at = (index, 4)
    numbered = walk.node.resume.next_number > 0 and earlier.file_index == walk.node.first
    if not numbered and not any(p.logged.first_number > 0 for p in own):
        # No sequence numbers: the transaction may be missing anywhere before the first group with a greater GTID.
        at = _first_greater(walk, index, lost) or at
    yield Fault(*at, error, certain)


def _still_committing(own: Sequence[ScanResult]) -> GtidSet:
    """Return the GTIDs that may have been committing in the previous file when the first one was begun.

    These are all that are lower than those in the file, of the same source.
    """
    least: dict[tuple[bytes, str], int] = {}
    for sid, tag, start, _ in (item for piece in own for item in piece.logged.all.items()):
        least[sid, tag] = min(start, least.get((sid, tag), start))
    return GtidSet.of((sid, tag, 1, start) for (sid, tag), start in least.items() if start > 1)


def _first_greater(walk: _Walk, index: int, lost: GtidSet) -> tuple[int, int] | None:
    """Return (piece, offset) of the first new group with a GTID greater than the least lost one of its source."""
    least = {source: spans[0][0] for source, spans in lost.intervals.items()}
    file_index = walk.pieces[index - 1].file_index
    for number, piece in enumerate(walk.pieces[:index]):
        if piece.file_index == file_index and piece.first >= 0:
            for group in groups(walk.node.files[file_index], piece.first, piece.reached):
                greater = group.gno > least.get((group.sid, group.tag), group.gno)
                if greater and _is_new(walk.node, file_index, group.offset):
                    return number, group.offset
    return None


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


def check_logs(job: Job, inputs: Inputs, scanned: Mapping[str, Sequence[Piece]]) -> dict[str, list[Piece]]:
    """Return each node's pieces up to the first fault of its log."""
    pieces = {node.source_id: list(scanned[node.source_id]) for node in inputs.nodes}
    polardbx = inputs.carrier == POLARDBX
    for node in inputs.nodes:
        found = pieces[node.source_id]
        for fault in log_faults(node, _results(found), polardbx):
            if fault.certain and job.config.log_doubts == "error":
                pieces[node.source_id] = _cut(job, node, found, fault)
                break
            job.warnings.append(_warning(node, found, fault))
    shared = shared_faults(inputs.nodes, {name: _results(pairs) for name, pairs in pieces.items()})
    for node in inputs.nodes:
        repeats = shared.get(node.source_id)
        if repeats is not None and job.config.log_doubts == "error":
            pieces[node.source_id] = _cut(job, node, pieces[node.source_id], repeats)
        elif repeats is not None:
            job.warnings.append(_warning(node, pieces[node.source_id], repeats))
    return pieces


def _results(pieces: Sequence[Piece]) -> list[ScanResult]:
    return [result for _, result in pieces]


def _cut(job: Job, node: NodeInput, pieces: Sequence[Piece], fault: Fault) -> list[Piece]:
    """Return a node's pieces up to the fault, which becomes the error of the last one."""
    task = replace(pieces[fault.piece][0], stop=fault.position)
    again: list[ScanResult] = job.runner(task.length).run("scan", scan, [task])
    error = fault.error.located(node=node.source_id, file=task.file.path, position=fault.position)
    return [*pieces[: fault.piece], Piece(task, replace(again[0], error=error.to_dict()))]


def _warning(node: NodeInput, pieces: Sequence[Piece], fault: Fault) -> str:
    return f"log-doubts: {node.source_id}, {pieces[fault.piece][0].file.path}:{fault.position}: {fault.error.message}"
