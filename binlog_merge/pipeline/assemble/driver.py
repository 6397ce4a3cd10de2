"""The assemble stage: joins each node's pieces, in the order of its log, up to the first damage."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

import numpy as np

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.errors import MergeError, TruncatedEvent
from binlog_merge.files.node_file import NodeFile
from binlog_merge.pipeline.assemble.assemble import assemble_piece
from binlog_merge.pipeline.assemble.checkpoints import note_gtids
from binlog_merge.pipeline.assemble.log_faults import check_logs
from binlog_merge.pipeline.assemble.nodes import ScannedNode, half_committed
from binlog_merge.pipeline.assemble.sync_points import moved_locals
from binlog_merge.pipeline.assemble.undecided import logged_elsewhere, with_rows
from binlog_merge.pipeline.assemble.values import Block, EdgeRow
from binlog_merge.pipeline.base.branches import Carry
from binlog_merge.pipeline.base.node_input import NodeInput
from binlog_merge.pipeline.base.state import Inputs, Job
from binlog_merge.pipeline.scan.carriers import POLARDBX
from binlog_merge.pipeline.scan.inputs import nothing_is_missing
from binlog_merge.pipeline.scan.values import Piece, PieceBlock, ScanResult
from snapshot_store.tso import OrderKey

_LOG = logging.getLogger(__name__)


def assemble(job: Job, inputs: Inputs, pieces: Mapping[str, Sequence[Piece]]) -> list[ScannedNode]:
    """Join the nodes' pieces; returns the nodes in order. Adds the job's warnings about them."""
    with job.stage("assemble"):
        by_node = check_logs(job, inputs, pieces)
        scanned = []
        carried = [node.carry.commit_rows for node in inputs.nodes]
        all_pieces = [(result, task.block) for pairs in by_node.values() for task, result in pairs]
        elsewhere = logged_elsewhere(all_pieces, carried, inputs.carrier == POLARDBX)
        for node in inputs.nodes:
            pairs = by_node[node.source_id]
            results, blocks = [with_rows(result, elsewhere) for _, result in pairs], [task.block for task, _ in pairs]
            scanned.append(assemble_node(node, results, blocks, job.end_of_input))
    for scanned_node in scanned:
        _log_node(scanned_node)
        job.warnings += [] if job.following else scanned_node.warnings
        job.warnings += note_gtids(scanned_node, job.end_of_input)
    if job.end_of_input and all(scanned_node.error is None for scanned_node in scanned):
        job.warnings += half_committed(scanned)
    return scanned


def _log_node(node: ScannedNode) -> None:
    file, position = node.end
    values = {
        "node": node.source_id,
        "pieces": len(node.pieces),
        "edges": len(node.edges),
        "max_tso": node.carry.max_tso,
    }
    read_to = f"{node.input.files[file].name}:{position}"
    error = None if node.error is None else node.error.code
    _LOG.info("node assembled", extra={**values, "read_to": read_to, "open": len(node.carry.open), "error": error})


def assemble_node(
    node: NodeInput, results: Sequence[ScanResult], blocks: Sequence[PieceBlock], end_of_input: bool
) -> ScannedNode:
    """Join a node's pieces, in the order of its log, up to the first damage.

    The commit rows that pieces have used are read if one may be missing: seldom, and there is one for each transaction.
    """
    scanned = _assembled(node, results, blocks, end_of_input, {})
    used = _may_miss_rows(scanned)
    if used:
        scanned = _assembled(node, results, blocks, end_of_input, {}, used)
    moved = moved_locals(scanned)
    return _assembled(node, results, blocks, end_of_input, moved, used) if moved else scanned


def _may_miss_rows(scanned: ScannedNode) -> bool:
    """Return whether commit rows that pieces have used may change the result, or be needed by the next run: those of
    branches that were open before such a piece and are still.
    """
    before = ({*carry.open} for piece, carry in zip(scanned.pieces, scanned.carries, strict=True) if piece.used_rows)
    return scanned.error is not None or scanned.asks or any(scanned.carry.open.keys() & xids for xids in before)


def _assembled(
    node: NodeInput,
    results: Sequence[ScanResult],
    blocks: Sequence[PieceBlock],
    end_of_input: bool,
    moved: Mapping[int, Sequence[tuple[int, OrderKey]]],
    used: bool = False,
) -> ScannedNode:
    """Join a node's pieces. `moved` maps a piece to its locals, by index, that have a key of their own. With `used`,
    the commit rows that pieces have used are looked at.
    """
    scanned, last = ScannedNode(node, carry=node.carry), {piece.file_index: piece.piece for piece in results}
    for piece, block in zip(results, blocks, strict=True):
        file = node.files[piece.file_index]
        try:
            elsewhere = moved.get(len(scanned.pieces), ())
            whole = _with_used_rows(piece, block, scanned.carry) if used else piece
            assembled = assemble_piece(whole, scanned.carry, [index for index, _ in elsewhere])
        except MergeError as error:
            scanned.error = error.located(node=node.source_id, file=file.path)
            break
        scanned.pieces.append(piece)
        scanned.carries.append(scanned.carry)
        scanned.blocks.append(Block.of(node, piece, block, assembled.patch, assembled.carry.max_tso))
        scanned.edges += [
            EdgeRow(
                node.number,
                node.source_id,
                e.file_index,
                e.tso,
                e.transaction,
                e.start,
                e.end,
                e.commit_us,
                e.tables,
                e.flags,
            )
            for e in assembled.edges
        ]
        scanned.edges += _edges_of(node, piece, block, elsewhere)
        scanned.without_tso += assembled.without_tso
        scanned.asks |= assembled.asks
        ended = (*assembled.new_edges, *assembled.lost)
        _note_new(scanned, piece, [(t, x) for t, x, at in ended if _is_new(node, piece.file_index, at)])
        scanned.lost += [(OrderKey(t, x, 0, 0), piece.file_index, at) for t, x, at in assembled.lost]
        scanned.carry = assembled.carry
        if piece.error is not None:
            scanned.error = MergeError.from_dict(piece.error)
        elif last[piece.file_index] == piece.piece:
            scanned.error = _file_end(node, scanned.pieces, file, end_of_input, scanned.warnings)
        if scanned.error is not None:
            break
    return scanned


def _edges_of(
    node: NodeInput, piece: ScanResult, block: PieceBlock, moved: Sequence[tuple[int, OrderKey]]
) -> Iterator[EdgeRow]:
    columns = block.local() if moved else {}
    for index, key in moved:
        start, end, commit_us, tables, flags = (
            int(columns[name][index]) for name in ("start", "end", "commit_us", "set", "flags")
        )
        yield EdgeRow(
            node.number,
            node.source_id,
            piece.file_index,
            key.commit_tso,
            key.transaction_id,
            start,
            end,
            commit_us,
            piece.sets[tables],
            flags,
            key.seq,
        )


def _with_used_rows(piece: ScanResult, block: PieceBlock, carry: Carry) -> ScanResult:
    """Add the commit rows used in the piece, of transactions that have branches open from before it.

    A node may hold several branches of one transaction, with a piece boundary between their commits.
    """
    if not carry.open or not piece.used_rows:
        return piece
    columns = block.used_rows()
    wanted = {p.gtrid for p in carry.open.values()}
    near = np.flatnonzero(np.isin(columns["gtrid_1"], [g for g, _ in wanted]))
    rows = [(int(columns["gtrid_1"][i]), int(columns["gtrid_2"][i]), int(columns["tso"][i])) for i in near.tolist()]
    return replace(piece, commit_rows=(*piece.commit_rows, *(row for row in rows if row[:2] in wanted)))


def _walked_to_end(pieces: Sequence[ScanResult]) -> ScanResult:
    """Return the piece that walked to the end of the last file: the last one in which a group begins."""
    own = list(takewhile(lambda piece: piece.file_index == pieces[-1].file_index, reversed(pieces)))
    return next((piece for piece in own if piece.first >= 0), own[-1])


def _is_new(node: NodeInput, file_index: int, offset: int) -> bool:
    return node.seen is None or (file_index, offset) >= node.seen


def _note_new(scanned: ScannedNode, piece: ScanResult, edges: list[tuple[int, int]]) -> None:
    new = [k for k in (piece.least_new, scanned.least_new, *edges) if k is not None]
    scanned.least_new = min(new) if new else None


def _file_end(
    node: NodeInput, pieces: Sequence[ScanResult], file: NodeFile, end_of_input: bool, warnings: list[str]
) -> MergeError | None:
    """Return the error that stops reading at the end of the last piece's file, or None.

    A tail that is still being written only adds a warning.
    """
    piece = _walked_to_end(pieces)
    last = piece.file_index == len(node.files) - 1
    location = {"node": node.source_id, "file": file.path}
    if piece.truncated is not None:
        if last and file.in_use and not end_of_input:
            warnings.append(f"{file.path}: the last event is not whole yet (at {piece.truncated}); it is held back")
            return None
        return TruncatedEvent("the file ends inside an event", position=piece.truncated, **location)
    if piece.unfinished is not None:
        if last and not end_of_input:
            warnings.append(
                f"{file.path}: the last transaction is not whole yet (at {piece.unfinished}); it is held back"
            )
            return None
        return TruncatedEvent("the file ends inside a transaction", position=piece.unfinished, **location)
    skipped = node.resume.executed if piece.file_index == node.first else GtidSet()
    if last or piece.clean_end or file.in_use or nothing_is_missing(node.files, pieces, piece.file_index, skipped):
        return None
    return TruncatedEvent(
        "the file has no ROTATE or STOP event at its end",
        position=piece.reached,
        remedy="copy the file from the node again. If it is the same there, the node crashed, and without GTIDs "
        "(gtid_mode=ON) nothing tells whether the file is whole: begin a new output with the files behind it",
        **location,
    )
