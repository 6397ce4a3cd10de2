"""XA COMMITs whose commit TSO may still come to light: in PolarDB-X's old transaction log, on another node.

The row was committed there before the XA COMMIT here. Whatever is prepared here behind the XA COMMIT fetches its TSO
later still, and what a node commits with a TSO as great comes behind the row in that node's log. So a node that has
shown such a TSO has shown the row, if there is one; until all have, the branch holds its node back.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.assemble.values import Block
from binlog_merge.pipeline.base.branches import Hash, KeptBranch
from snapshot_store.tso import OrderKey

_NEVER = (1 << 63) - 1
_OF_ITS_OWN = k.HAS_COMMIT_ROWS | k.OWN_TSO  # its TSO was not fetched behind its prepare


def undecided(nodes: Sequence[ScannedNode]) -> dict[str, tuple[OrderKey, frozenset[Hash]]]:
    """Return, by node, the least key at which such branches may come out, and their gtrids. `nodes` are those that are
    in the cluster.
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
    """Return the branches of which not every node has shown a TSO fetched behind their commit."""
    place, tso = _prepared(node)
    least_behind = np.append(np.minimum.accumulate(tso[::-1])[::-1], _NEVER)
    committed = np.array([_place(block.file_index, branch.commit_at) for block, branch in kept], np.int64)
    fetched = least_behind[np.searchsorted(place, committed)]
    return [pair for pair, waits in zip(kept, (fetched > reached).tolist(), strict=True) if waits]


def _prepared(node: ScannedNode) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the places of a node's committed branches, in order, and their TSOs."""
    places = [np.array([_place(e.file_index, e.start) for e in node.edges if not e.seq], np.int64)]
    tsos = [np.array([e.tso for e in node.edges if not e.seq], np.int64)]
    for block in node.blocks:
        columns = block.timed()
        fetched = (columns["flags"] & _OF_ITS_OWN) == 0
        places.append(columns["start"][fetched] + _place(block.file_index, 0))
        tsos.append(columns["tso"][fetched])
    place, tso = np.concatenate(places), np.concatenate(tsos)
    order = np.argsort(place)
    return place[order], tso[order]


def _place(file_index: int, offset: int) -> int:
    return max(file_index, 0) << 44 | offset


def _least_key(open_: Iterable[tuple[Block, KeptBranch]]) -> OrderKey:
    """Return the least key of branches that stand as locals do, or behind what was committed before their prepare."""
    least, keys = OrderKey(_NEVER, 0, 0, 0), {}
    for block, branch in open_:
        if block.scanned not in keys:
            _, keys[block.scanned] = block.local()
        known, i = keys[block.scanned], branch.local
        local = OrderKey(int(known.tso[i]), int(known.transaction[i]), int(known.seq[i]), block.node)
        least = min(least, local, OrderKey(branch.behind + 1, 0, 0, 0))
    return least
