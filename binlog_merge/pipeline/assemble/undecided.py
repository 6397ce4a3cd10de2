"""XA COMMITs whose commit TSO may still be found, in PolarDB-X's old transaction log on another node.

The row with the TSO was committed there before the XA COMMIT here. Any branch prepared here after the XA COMMIT fetches
its TSO later still, and commits with a TSO as great come after the row in the other node's log. So a node that has
shown such a TSO has shown the row, if it has it. Until all nodes have, the branch holds its node back.

PolarDB-X's old transaction log is on one node of each transaction. On the other nodes the XA COMMITs carry no TSO. So a
TSO that a node lacks is looked up among the commit rows of all nodes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.assemble.values import Block
from binlog_merge.pipeline.base.branches import Hash, KeptBranch
from binlog_merge.pipeline.scan.values import PieceBlock, ScanResult
from snapshot_store.tso import OrderKey

_NEVER = (1 << 63) - 1
_OF_ITS_OWN = k.HAS_COMMIT_ROWS | k.OWN_TSO  # its TSO was not fetched after its prepare


def undecided(nodes: Sequence[ScannedNode]) -> dict[str, tuple[OrderKey, frozenset[Hash]]]:
    """Return, by node, the least key at which such branches may come out, and their gtrids.

    `nodes` are the nodes that are in the cluster.
    """
    found = {}
    for node in nodes:
        pairs = ((block, branch) for block in node.blocks for branch in block.patch.kept)
        kept = [(block, branch) for block, branch in pairs if branch.gtrid[1] == k.BY_NUMBER]
        reached = min((n.carry.max_tso for n in nodes if n is not node), default=_NEVER)
        open_ = _open(node, kept, reached) if kept else []
        if open_:
            found[node.source_id] = _least_key(open_), frozenset(branch.gtrid for _, branch in open_)
    return found


def _open(node: ScannedNode, kept: Sequence[tuple[Block, KeptBranch]], reached: int) -> list[tuple[Block, KeptBranch]]:
    """Return the branches for which some node has not yet shown a TSO fetched after their commit."""
    position, tso = _prepared(node)
    least_after = np.append(np.minimum.accumulate(tso[::-1])[::-1], _NEVER)
    committed = np.array([_position(block.file_index, branch.commit_at) for block, branch in kept], np.int64)
    fetched = least_after[np.searchsorted(position, committed)]
    return [pair for pair, waits in zip(kept, (fetched > reached).tolist(), strict=True) if waits]


def _prepared(node: ScannedNode) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the log positions of a node's committed branches, in order, and their TSOs."""
    positions = [np.array([_position(e.file_index, e.start) for e in node.edges if not e.seq], np.int64)]
    tsos = [np.array([e.tso for e in node.edges if not e.seq], np.int64)]
    for block in node.blocks:
        columns = block.timed()
        fetched = (columns["flags"] & _OF_ITS_OWN) == 0
        positions.append(columns["start"][fetched] + _position(block.file_index, 0))
        tsos.append(columns["tso"][fetched])
    position, tso = np.concatenate(positions), np.concatenate(tsos)
    order = np.argsort(position)
    return position[order], tso[order]


def _position(file_index: int, offset: int) -> int:
    return max(file_index, 0) << 44 | offset


def _least_key(open_: Iterable[tuple[Block, KeptBranch]]) -> OrderKey:
    """Return the least key at which the branches may come out: as locals, or after the commits before their prepare."""
    least, keys = OrderKey(_NEVER, 0, 0, 0), {}
    for block, branch in open_:
        if block.scanned not in keys:
            _, keys[block.scanned] = block.local()
        known, i = keys[block.scanned], branch.local
        local = OrderKey(int(known.tso[i]), int(known.transaction[i]), int(known.seq[i]), block.node)
        least = min(least, local, OrderKey(branch.tso_before + 1, 0, 0, 0))
    return least


def logged_elsewhere(
    pieces: Sequence[tuple[ScanResult, PieceBlock]], carried: Iterable[Mapping[Hash, int]], polardbx: bool
) -> Mapping[Hash, int]:
    """Return the commit TSOs, by gtrid, of XA COMMITs whose TSO their own piece did not know.

    `pieces` are all pieces with their blocks, `carried` the commit rows carried over from earlier runs.
    """
    wanted = {late.gtrid for piece, _ in pieces for late in piece.late if late.tso is None and not late.rollback}
    found: dict[Hash, int] = {}
    if not polardbx or not wanted:
        return found
    for rows in carried:
        found |= {gtrid: tso for gtrid, tso in rows.items() if gtrid in wanted}
    numbers = np.array(sorted(first for first, _ in wanted), np.int64)
    for piece, block in pieces:
        found |= {(g1, g2): tso for g1, g2, tso in piece.commit_rows if (g1, g2) in wanted}
        if piece.used_rows:
            columns = block.used_rows()
            for i in np.flatnonzero(np.isin(columns["gtrid_1"], numbers)).tolist():
                gtrid = (int(columns["gtrid_1"][i]), int(columns["gtrid_2"][i]))
                if gtrid in wanted:
                    found[gtrid] = int(columns["tso"][i])
    return found


def with_rows(piece: ScanResult, elsewhere: Mapping[Hash, int]) -> ScanResult:
    """Return the piece, with the commit rows of other nodes that its XA COMMITs need. `elsewhere` maps gtrid to TSO."""
    own = {row[:2] for row in piece.commit_rows}
    needed = dict.fromkeys(late.gtrid for late in piece.late if late.gtrid in elsewhere and late.gtrid not in own)
    if not needed:
        return piece
    return replace(piece, commit_rows=(*piece.commit_rows, *((*gtrid, elsewhere[gtrid]) for gtrid in needed)))
