"""Commit rows that one node has and others need: PolarDB-X's old transaction log is on one node of each transaction.

On the other nodes the XA COMMITs carry no TSO. So a TSO that a node lacks is looked up among the commit rows of all
nodes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from binlog_merge.pipeline.base.branches import Hash
from binlog_merge.pipeline.scan.block import PieceBlock
from binlog_merge.pipeline.scan.values import ScanResult


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
