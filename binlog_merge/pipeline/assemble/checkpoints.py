"""Where the next run goes on in a node's log, with the record of the GTIDs that were seen and of those that are
missing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog.kernels import scan_layout
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.assemble.values import Block
from binlog_merge.pipeline.base.branches import Carry, Hash
from binlog_merge.pipeline.base.logged import NodeGtids
from binlog_merge.pipeline.base.node_input import FILE_BEGINS, Resume
from binlog_merge.pipeline.scan.inputs import executed_before
from binlog_merge.pipeline.scan.values import ScanResult
from snapshot_store.tso import OrderKey

FileOffset = tuple[int, int]
"""File index, offset."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The scan of the next run begins in the file with index `file`, at `resume`; `carry` is the state there.

    `apart` is where branches begin before that, whose rows the next run may read: they were prepared, and ended later
    or have not ended. `oldest` is the index of the first file of which the next run may read anything.
    """

    oldest: int
    file: int
    resume: Resume
    carry: Carry
    apart: tuple[FileOffset, ...] = ()

    @property
    def begins(self) -> int:
        """Return the offset in the oldest file before which the next run reads nothing but what it is known by."""
        places = [(self.file, self.resume.start), *self.apart]
        return min(start for file, start in places if file == self.oldest)


def checkpoint(
    node: ScannedNode, floor: OrderKey, done: OrderKey, waiting: int | None = None, inside: bool = True
) -> Checkpoint:
    """Return where the next run goes on: before the first piece with anything that is not merged, else at the end.

    `done` is the key up to which the node's DDL is in the schema history. `waiting` is the index of the first file with
    rows below the floor that come out later, None if there is none. Without `inside` the scan begins with a file:
    another carrier of commit TSOs may show, for which the file is to be scanned again.
    """
    needed = list(_needed(node, floor, done))
    # What waits was read in this run.
    needed += [] if waiting is None else [max((waiting, FILE_BEGINS), (node.input.first, node.input.resume.start))]
    file, resume, carry = _resume(node, min(needed, default=node.end), inside)
    needed += [(p.file_index, p.start) for p in node.carry.open.values() if p.file_index >= 0]
    apart = tuple(sorted({place for place in needed if place < (file, resume.start)}))
    return Checkpoint(min([file, *(index for index, _ in apart)]), file, resume, carry, apart)


def _needed(node: ScannedNode, floor: OrderKey, done: OrderKey) -> Iterator[FileOffset]:
    """Yield the places of what is not merged, and of DDL that is not in the schema history."""
    yield from ((file_index, at) for key, file_index, at in node.lost if key >= floor)
    yield from ((e.file_index, e.start) for e in node.edges if e.key >= floor and e.file_index >= 0)
    for position, (piece, block) in enumerate(zip(node.pieces, node.blocks, strict=True)):
        after = node.carries[position + 1] if position + 1 < len(node.carries) else node.carry
        last = OrderKey(after.max_tso, after.max_transaction, after.seq, node.input.number)
        if _holds_timed(piece, block, floor) or (piece.local and last >= floor) or _holds_ddl(piece, block, done):
            yield piece.file_index, piece.first
            yield from ((kept.file_index, kept.start) for kept in block.patch.kept if kept.file_index >= 0)


def _holds_timed(piece: ScanResult, block: Block, floor: OrderKey) -> bool:
    if piece.last_timed is None:
        return False
    tso, transaction, flags = piece.last_timed
    return OrderKey(tso, transaction, 0, block.node if flags & scan_layout.OWN_TSO else 0) >= floor


def _holds_ddl(piece: ScanResult, block: Block, done: OrderKey) -> bool:
    if not piece.ddl:
        return False
    _, keys = block.local()
    return any(
        keys.alive[i] and OrderKey(int(keys.tso[i]), int(keys.transaction[i]), int(keys.seq[i]), block.node) > done
        for i in piece.ddl
    )


def _resume(node: ScannedNode, needed: FileOffset, inside: bool) -> tuple[int, Resume, Carry]:
    """Return the last place up to `needed` at which a scan may begin: (file index, resume, carry)."""
    begins = [(piece.file_index, piece.first) for piece in node.pieces]
    places = [*zip(range(len(begins)), begins, node.carries, strict=True)]
    if node.error is None and node.pieces:
        places.append((len(begins), node.end, node.carry))
    for before, place, carry in reversed(places):
        # Transactions in a sync point's window are numbered from its prepare on.
        window = any(prepared.flags & scan_layout.SYNC_POINT for prepared in carry.open.values())
        begins_file = place[1] == FILE_BEGINS
        if place <= needed and (begins_file or (inside and place[1] > FILE_BEGINS)) and not window:
            return place[0], _at(node, before, place), _with_rows(carry, node.pieces[before:])
    return node.input.first, node.input.resume, _with_rows(node.input.carry, node.pieces)


def _with_rows(carry: Carry, pieces: Sequence[ScanResult]) -> Carry:
    """Add the commit rows of other nodes that XA COMMITs of these pieces need: they may not be read again.

    `assemble.undecided` gave them to the piece with the XA COMMIT. The node's own rows are read again with the
    pieces; in the carry they would stay for ever once one piece holds both the row and its XA COMMIT.
    """
    rows = dict[Hash, int]()
    for piece in pieces:
        wanted = {late.gtrid for late in piece.late if late.tso is None and not late.rollback}
        rows |= {(g1, g2): tso for g1, g2, tso in piece.commit_rows if (g1, g2) in wanted}
    return replace(carry, commit_rows={**carry.commit_rows, **rows}) if rows else carry


def _at(node: ScannedNode, count: int, place: FileOffset) -> Resume:
    """Return the resume at a place of which `count` pieces lie before it."""
    file_index, start = place
    known = node.input.resume if file_index == node.input.first else Resume()
    if start == FILE_BEGINS:
        return Resume()
    number, executed, last = known.next_number, known.executed, known.last
    for piece in node.pieces[:count]:
        if piece.file_index == file_index:
            number = piece.logged.next_number if piece.logged.first_number >= 0 else number
            executed = None if executed is None or piece.logged.scattered else executed.union(piece.logged.all)
            last = piece.logged.last or last
    return Resume(start, number, _kept(executed), last)


def _kept(executed: GtidSet | None) -> GtidSet | None:
    return executed if executed is not None and executed.spans <= MOST_KEPT else None


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
