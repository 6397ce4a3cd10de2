"""The scanned pieces that rounds of one process keep, so that each round scans only what is new.

    round 1   file 7  [4, 900) ……………………………           scanned; its last whole group ends at 880
    round 2   file 7  [4, 880) kept, [880, 2100) scanned
    round 3   all below 880 is published: [880, 2100) kept, and so on

A piece is kept until everything in it is published. Many small pieces, of rounds in which something holds all nodes
back, are scanned again as one: each byte as often as the logarithm of their number says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from binlog_merge.pipeline.base.node_input import NodeInput
from binlog_merge.pipeline.scan.values import Piece, ScanResult

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
