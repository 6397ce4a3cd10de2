"""A node after the scan: its joined pieces, and how far its log was read and is usable."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from binlog_merge.errors import LateTransaction, MergeError
from binlog_merge.files.as_of import AsOf
from binlog_merge.pipeline.assemble.assemble import lost_branch
from binlog_merge.pipeline.assemble.values import Block, EdgeRow
from binlog_merge.pipeline.assemble.watermark import as_of_watermark, node_watermark
from binlog_merge.pipeline.base.branches import Carry
from binlog_merge.pipeline.base.clock import time_tso
from binlog_merge.pipeline.base.logged import NodeGtids
from binlog_merge.pipeline.base.node_input import NodeInput
from binlog_merge.pipeline.scan.values import ScanResult
from snapshot_store.tso import OrderKey

Place = tuple[int, int]


@dataclass
class ScannedNode:
    """One assembled node. `error` is where its log stops being usable; `carries` are the carries before each piece."""

    input: NodeInput
    pieces: list[ScanResult] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    carries: list[Carry] = field(default_factory=list)
    edges: list[EdgeRow] = field(default_factory=list)
    lost: list[tuple[OrderKey, int, int]] = field(default_factory=list)  # XA COMMITs without a prepare: file, offset
    carry: Carry = field(default_factory=Carry)
    without_tso: list[tuple[tuple[int, int], int]] = field(default_factory=list)
    asks: bool = False  # an XA COMMIT asks for a commit row that is not at hand
    error: MergeError | None = None
    warnings: list[str] = field(default_factory=list)
    least_new: tuple[int, int] | None = None
    gtids: NodeGtids = field(default_factory=NodeGtids)  # those that this run and earlier ones have seen

    @property
    def source_id(self) -> str:
        return self.input.source_id

    @property
    def end(self) -> tuple[int, int]:
        """Return (file index, offset) after the last group that was read, in this run or before."""
        seen = self.input.seen or (self.input.first, 4)
        return next((max(seen, (p.file_index, p.end)) for p in reversed(self.pieces) if p.groups), seen)

    @property
    def by_time(self) -> bool:
        """Return whether the node's clock gives the order."""
        return self.input.by_time or any(p.clock is not None for p in self.pieces)

    @property
    def begins(self) -> tuple[int, int] | None:
        """Return the least (tso, transaction) that is new in this run, None if nothing is new."""
        times = [p.clock.least for p in self.pieces if p.clock is not None]
        return (time_tso(min(times)), 0) if times else self.least_new

    def watermark(self, max_disorder: int, max_step_back: int = 0) -> OrderKey | None:
        """Return the least order key that may still arrive, None if nothing is known of that.

        `max_disorder` is a distance of TSOs, `max_step_back` one of clocks in microseconds.
        """
        least = node_watermark(self.carry, self.input.number, max_disorder, not self.by_time)
        known = as_of_watermark(self.as_of, max_disorder, max_step_back)
        return least if known is None else max(least or known, known)

    @property
    def as_of(self) -> AsOf | None:
        """Return the capture's note, if everything that it covers was read."""
        note = self.input.as_of
        if note is None or not self.by_time or self.error is not None:
            return None
        index = self.input.file_index(note.file)
        return note if index is not None and self.read_to >= (index, note.position) else None

    @property
    def read_to(self) -> Place:
        """Return (file index, offset) before which every event was read, and every group is whole."""
        begun = (self.input.first, self.input.resume.start)
        return max([begun, *([self.input.seen] if self.input.seen else ()), *map(_read_to, self.pieces)])


def _read_to(piece: ScanResult) -> Place:
    return piece.file_index, min(at for at in (piece.reached, piece.truncated, piece.unfinished) if at is not None)


def first_lost(nodes: Sequence[ScannedNode], floor: OrderKey) -> MergeError | None:
    """Return the error for the first transaction from `floor` on that has a committed branch without a prepare."""
    found = [(key, node, file, at) for node in nodes for key, file, at in node.lost if key >= floor]
    if not found:
        return None
    key, node, file, at = min(found, key=lambda lost: lost[0])
    return lost_branch(at).located(node=node.source_id, file=node.input.files[file].path, order_key=key)


def check_late(node: ScannedNode, floor: OrderKey) -> None:
    """Raise LateTransaction if a transaction that is new in this run commits below what is published.

    Of nodes whose clocks give the order only DDL is looked at here; rows are when they are put in order.
    """
    if node.by_time and node.input.seen is not None:
        _check_late_ddl(node, floor)
    if node.least_new is not None and node.input.seen is not None:
        key = OrderKey(*node.least_new, 0, 0)
        if key < floor:
            raise LateTransaction(
                f"a transaction commits at TSO {key.commit_tso}, below the published watermark",
                node=node.source_id,
                order_key=key,
            )


def _check_late_ddl(node: ScannedNode, floor: OrderKey) -> None:
    for piece, block in zip(node.pieces, node.blocks, strict=True):
        if not piece.ddl or piece.clock is None or time_tso(piece.clock.least) > floor.commit_tso:
            continue
        columns, keys = block.local()
        for i in piece.ddl:
            key = OrderKey(int(keys.tso[i]), int(keys.transaction[i]), int(keys.seq[i]), block.node)
            place = piece.file_index, int(columns["start"][i])
            if key < floor and keys.alive[i] and place >= (node.input.seen or place):
                raise LateTransaction(
                    "a DDL stands below the published watermark",
                    node=node.source_id, file=node.input.files[place[0]].path, position=place[1], order_key=key,
                )  # fmt: skip


def half_committed(nodes: Sequence[ScannedNode]) -> list[str]:
    """Return warnings for branches that are in doubt although other branches of their transaction have committed."""
    warnings = []
    wanted = sorted({branch.transaction for node in nodes for branch in node.carry.open.values()})
    found = {node.source_id: _committed(node, wanted) for node in nodes} if wanted else {}
    for node in nodes:
        for branch in node.carry.open.values():
            committed = [name for name, transactions in found.items() if branch.transaction in transactions]
            if committed:
                name = node.input.files[branch.file_index].name if branch.file_index >= 0 else "an earlier file"
                warnings.append(
                    f"transaction {branch.transaction} has committed on {', '.join(committed)}, but its branch on "
                    f"{node.source_id} ({name}:{branch.start}) is in doubt: that branch's rows are not in the output"
                )
    return warnings


def _committed(node: ScannedNode, wanted: Sequence[int]) -> frozenset[int]:
    """Return which of these transactions have committed on a node."""
    known = np.array(wanted, np.int64)
    found = {edge.transaction for edge in node.edges}
    for block in node.blocks:
        transactions = block.timed()["transaction"]
        found.update(transactions[np.isin(transactions, known)].tolist())
    return frozenset(found)
