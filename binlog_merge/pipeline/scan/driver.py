"""The scan stage: one task per file or part of a file, and the pieces that rounds of one process keep, so that each
round scans only what is new.

    round 1   file 7  [4, 900) ……………………………           scanned; its last whole group ends at 880
    round 2   file 7  [4, 880) kept, [880, 2100) scanned
    round 3   all below 880 is published: [880, 2100) kept, and so on

A piece is kept until everything in it is published. Many small pieces, of rounds in which something holds all nodes
back, are scanned again as one: each byte as often as the logarithm of their number says.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from binlog_merge.pipeline.base.node_input import NodeInput
from binlog_merge.pipeline.base.state import Inputs, Job
from binlog_merge.pipeline.scan.carriers import CARRIERS
from binlog_merge.pipeline.scan.inputs import bundles, scan_tasks
from binlog_merge.pipeline.scan.task import scan_all
from binlog_merge.pipeline.scan.values import Piece, ScanResult, ScanTask

_LOG = logging.getLogger(__name__)
MOST_PIECES = 8
MOST_BYTES = 256 << 20


@dataclass
class KeptPieces:
    """The kept pieces of all nodes, with the names of their files; `next_number` is that of the next piece."""

    pieces: dict[str, list[tuple[str, Piece]]] = field(default_factory=dict)
    next_number: int = 0

    def of(self, nodes: Sequence[NodeInput], carrier: int) -> dict[str, list[Piece]]:
        """Return, by node, the kept pieces that follow each other from where the node resumes.

        Pieces that were scanned for another carrier of commit TSOs, before the cluster showed which it has, are none.
        """
        if any(piece.task.carrier != carrier for pieces in self.pieces.values() for _, piece in pieces):
            self.clear()
        return {node.source_id: _fewer(node, _chain(node, self.pieces.get(node.source_id, ()))) for node in nodes}

    def keep(self, nodes: Sequence[NodeInput], scanned: Mapping[str, Sequence[Piece]]) -> None:
        """Keep the pieces of a round that came to its end, for the next."""
        self.pieces = {
            node.source_id: [
                (node.files[piece.task.file_index].name, piece) for piece in _final(scanned.get(node.source_id, ()))
            ]
            for node in nodes
        }

    def paths(self) -> frozenset[str]:
        """Return the paths that the files of the kept pieces' blocks begin with."""
        return frozenset(piece.task.block.path for pieces in self.pieces.values() for _, piece in pieces)

    def clear(self) -> None:
        """Forget all pieces: the next round scans from where the nodes resume."""
        self.pieces = {}


def _final(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces without what may still change: a group that is not whole at the end of the last."""
    kept = [Piece(task, replace(result, least_new=None)) for task, result in pieces]
    while kept and not kept[-1].result.groups:
        kept.pop()
    if kept:
        task, result = kept[-1]
        kept[-1] = Piece(replace(task, stop=result.end), _up_to_last_group(result))
    return kept


def _up_to_last_group(result: ScanResult) -> ScanResult:
    return replace(result, reached=result.end, clean_end=False, truncated=None, unfinished=None)


def _chain(node: NodeInput, known: Sequence[tuple[str, Piece]]) -> list[Piece]:
    """Return the pieces from the one that begins where the node resumes, with this round's files and their indexes."""
    begins = node.files[node.first].name, node.resume.start
    at = next((i for i, (name, piece) in enumerate(known) if (name, piece.result.first) == begins), None)
    chain: list[Piece] = []
    for name, piece in known[at:] if at is not None else ():
        index = node.file_index(name)
        if index is None or node.files[index].identity != piece.task.file.identity:
            break
        file = node.files[index]
        if file.size < piece.result.reached:
            break
        task = replace(piece.task, file_index=index, file=file.known)
        chain.append(Piece(task, replace(piece.result, file_index=index)))
    return chain


def _fewer(node: NodeInput, pieces: list[Piece]) -> list[Piece]:
    """Leave out pieces at the end that are to be scanned again together with what is new."""
    if len(pieces) <= MOST_PIECES:
        return pieces
    left, file = list(pieces), pieces[-1].task.file_index
    size = sum(f.size for f in node.files[file + 1 :]) + node.files[file].size - left[-1].result.reached
    while len(left) > 1 and left[-2].task.file_index == file:
        own = left[-1].result.reached - left[-2].result.reached
        if own > size or own + size > MOST_BYTES:
            break
        size += own
        left.pop()
    return left


def scan(job: Job, inputs: Inputs, rounds: KeptPieces) -> dict[str, list[Piece]]:
    """Return each node's pieces, in the order of its log: those kept from earlier rounds, and what is new, scanned.

    `rounds` has the pieces that earlier rounds of this process have scanned, and gets those of this one.
    """
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
    rounds.keep(inputs.nodes, pieces)
    return pieces


def _scan(
    job: Job, inputs: Inputs, rounds: KeptPieces, kept: Mapping[str, Sequence[Piece]], whole: frozenset[str]
) -> dict[str, list[Piece]]:
    blocks, first = job.scratch("piece"), rounds.next_number
    tasks = scan_tasks(
        inputs.nodes, job.config, inputs.carrier, blocks, job.partitions, whole, kept, first, inputs.skipped
    )
    rounds.next_number += len(tasks)
    size = sum(task.length for task in tasks)
    runner = job.runner(size)
    work = bundles(tasks, runner.slots)
    with job.stage("scan", len(work), size):
        scanned: list[list[ScanResult]] = runner.run("scan", scan_all, work)
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


FileOf = tuple[str, int]
"""Node, file index."""


def misread(
    results: Iterable[ScanResult], sizes: Mapping[FileOf, int], begins: Mapping[FileOf, int] | None = None
) -> frozenset[FileOf]:
    """Return the files whose pieces do not join, or do not reach the file's end.

    `begins` are the offsets at which the pieces of files begin that are not read from their beginning.
    In the first case a piece began where the group before it did not end. In the second no piece found its own groups:
    in a log without GTID events (MySQL 5.6) a group can only be found from the group before it.
    """
    wrong = set()
    expected: dict[FileOf, int] = {}
    damaged, torn = set[FileOf](), set[FileOf]()
    for piece in results:
        file = (piece.node, piece.file_index)
        if piece.first < 0 or file in damaged:
            continue
        if piece.first != expected.get(file, (begins or {}).get(file, 4)):
            wrong.add(file)
        expected[file] = piece.reached
        if piece.error is not None:
            damaged.add(file)
        if piece.truncated is not None:
            torn.add(file)  # a tail still being written, unless a later piece finds groups after it
    short = {file for file, end in expected.items() if file not in damaged | torn and end < sizes[file]}
    return frozenset(wrong | short)
