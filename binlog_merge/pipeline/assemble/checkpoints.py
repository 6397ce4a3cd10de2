"""The file in which the next run begins to read a node's log."""

import numpy as np

from binlog_merge.binlog.kernels import scan_layout
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.assemble.values import Block
from binlog_merge.pipeline.base.branches import Carry
from binlog_merge.pipeline.scan.values import ScanResult
from snapshot_store.tso import OrderKey


def checkpoint(node: ScannedNode, floor: OrderKey, waiting: int | None = None) -> tuple[int, Carry]:
    """Return the index of the first file that still holds anything not merged, and the carry at its beginning.

    `waiting` is the index of the first file with rows below the floor that come out later, None if there is none.
    """
    needed = [] if waiting is None else [waiting]
    needed += [p.file_index for p in node.carry.open.values() if p.file_index >= 0]
    needed += [file_index for key, file_index, _ in node.lost if key >= floor]
    needed += [e.file_index for e in node.edges if e.key >= floor and e.file_index >= 0]
    for position, (piece, block) in enumerate(zip(node.pieces, node.blocks, strict=True)):
        after = node.carries[position + 1] if position + 1 < len(node.carries) else node.carry
        if _holds_timed(piece, block, floor) or (
            piece.local and OrderKey(after.max_tso, after.max_transaction, after.seq, node.input.number) >= floor
        ):
            needed.append(piece.file_index)
            needed += [kept.file_index for kept in block.patch.kept if kept.file_index >= 0]
    # Never after the file in which reading ended: the next run checks that it is still the same file.
    index = min([*needed, node.end[0]])
    for piece, carry in zip(node.pieces, node.carries, strict=True):
        if piece.file_index == index:
            return index, carry
    return node.input.first, node.input.carry


def _holds_timed(piece: ScanResult, block: Block, floor: OrderKey) -> bool:
    if not piece.timed:
        return False
    columns = block.timed()
    last = OrderKey(int(columns["tso"][-1]), int(columns["transaction"][-1]), 0, 0)
    if np.any(columns["flags"][-1:] & scan_layout.OWN_TSO):
        last = last._replace(node_seq=block.node)
    return last >= floor
