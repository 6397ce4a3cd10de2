"""Runs scan and assemble: one task per file or part of a file, then joins the pieces of each node."""

import logging
from collections.abc import Mapping, Sequence

from binlog_merge.pipeline.assemble.checkpoints import note_gtids
from binlog_merge.pipeline.assemble.log_faults import check_logs
from binlog_merge.pipeline.assemble.node import assemble_node, misread
from binlog_merge.pipeline.assemble.nodes import ScannedNode, half_committed
from binlog_merge.pipeline.assemble.undecided import logged_elsewhere, with_rows
from binlog_merge.pipeline.base.state import Inputs, Job
from binlog_merge.pipeline.scan.carriers import CARRIERS, POLARDBX
from binlog_merge.pipeline.scan.inputs import bundles, scan_tasks
from binlog_merge.pipeline.scan.kept import KeptPieces
from binlog_merge.pipeline.scan.task import scan_all
from binlog_merge.pipeline.scan.values import Piece, ScanResult, ScanTask

_LOG = logging.getLogger(__name__)


def scan_nodes(job: Job, inputs: Inputs, rounds: KeptPieces) -> list[ScannedNode]:
    """Scan and assemble the nodes' files; returns the nodes in order. Adds the job's warnings about them.

    `rounds` has the pieces that earlier rounds of this process have scanned, and gets those of this one.
    """
    pieces = _scanned(job, inputs, rounds)
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
    rounds.keep(inputs.nodes, pieces)
    return scanned


def _scanned(job: Job, inputs: Inputs, rounds: KeptPieces) -> dict[str, list[Piece]]:
    """Return each node's pieces, in the order of its log: those kept from earlier rounds, and what is new, scanned."""
    pieces = _scan(job, inputs, rounds, rounds.of(inputs.nodes, CARRIERS[inputs.carrier].code), frozenset())
    found = [piece for of_node in pieces.values() for piece in of_node]
    sizes = {(task.node, task.file_index): task.size for task, _ in found}
    begins = {(task.node, task.file_index): task.start for task, _ in reversed(found)}
    wrong = misread((result for _, result in found), sizes, begins)
    if wrong:
        # A row image may hold the bytes of a binlog, at matching offsets: scan such a file in a single piece.
        _LOG.info("files are scanned again, in one piece each", extra={"files": sorted(wrong)})
        files = {node.source_id: node.files for node in inputs.nodes}
        pieces = _scan(job, inputs, rounds, {}, frozenset(files[node][index].path for node, index in wrong))
    return pieces


def _scan(
    job: Job, inputs: Inputs, rounds: KeptPieces, kept: Mapping[str, Sequence[Piece]], whole: frozenset[str]
) -> dict[str, list[Piece]]:
    blocks, first = job.scratch("piece"), rounds.next_number
    tasks = scan_tasks(
        inputs.nodes, job.config, inputs.carrier, blocks, job.partitions, whole, kept, first, inputs.skipped
    )
    rounds.next_number += len(tasks)
    work, size = bundles(tasks), sum(task.length for task in tasks)
    with job.stage("scan", len(work), size):
        scanned: list[list[ScanResult]] = job.runner(size).run("scan", scan_all, work)
    results = [result for bundle in scanned for result in bundle]
    pieces = {node.source_id: list(kept.get(node.source_id, ())) for node in inputs.nodes}
    for task, result in zip(tasks, results, strict=True):
        pieces[task.node].append(Piece(task, result))
        _log_piece(task, result)
    return pieces


def _log_piece(task: ScanTask, piece: ScanResult) -> None:
    values = {"node": piece.node, "file": task.file.path, "piece": piece.piece, "from": piece.first, "to": piece.end}
    found = {"groups": piece.groups, "events": piece.events, "error": (piece.error or {}).get("code")}
    _LOG.debug("piece scanned", extra={**values, **found})


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
