"""A node after the scan: its joined pieces, and how far its log was read and is usable.

Its watermark is the least order key that may still arrive from it; `why` says in words why it holds the others back.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np

from binlog_merge.binlog.kernels.scan_layout import SYNC_POINT
from binlog_merge.errors import LateTransaction, MergeError
from binlog_merge.files.as_of import AsOf
from binlog_merge.pipeline.assemble.assemble import lost_branch
from binlog_merge.pipeline.assemble.values import Block, EdgeRow
from binlog_merge.pipeline.base.branches import Carry, Prepared
from binlog_merge.pipeline.base.clock import time_tso, tso_us
from binlog_merge.pipeline.base.logged import NodeGtids
from binlog_merge.pipeline.base.node_input import NodeInput
from binlog_merge.pipeline.scan.values import ScanResult
from snapshot_store.tso import OrderKey, carries_time, tso_millis

FileOffset = tuple[int, int]


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
    def read_to(self) -> FileOffset:
        """Return (file index, offset) before which every event was read, and every group is whole."""
        begun = (self.input.first, self.input.resume.start)
        return max([begun, *([self.input.seen] if self.input.seen else ()), *map(_read_to, self.pieces)])


def _read_to(piece: ScanResult) -> FileOffset:
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


def node_watermark(
    carry: Carry, node_seq: int, max_disorder: int = 0, prepared_earlier: bool = True
) -> OrderKey | None:
    """Return the least order key that may still arrive from a node, or None if it has shown no commit TSO yet.

    The next transaction without a TSO sorts right after the greatest commit. A branch that is still prepared may commit
    with any TSO greater than those committed before its prepare, and a branch not yet prepared with any TSO greater
    than all. `prepared_earlier` False: a transaction's order depends only on its commit, whenever it was prepared.
    """
    if carry.max_tso == 0 and carry.max_transaction == 0:
        return None
    least = OrderKey(carry.max_tso, carry.max_transaction, carry.seq + 1, node_seq)
    for prepared in carry.open.values() if prepared_earlier else ():
        # Locals in a sync point's window follow right after the commits before it.
        next_tso = prepared.max_tso + (0 if prepared.flags & SYNC_POINT else 1)
        least = min(least, OrderKey(next_tso, 0, 0, 0))
    if max_disorder:
        least = min(least, OrderKey(max(0, carry.max_tso - max_disorder), 0, 0, 0))
    return least


def as_of_watermark(note: AsOf | None, max_disorder: int, max_step_back: int) -> OrderKey | None:
    """Return the least order key that may still arrive from a node whose log was read to where its note says.

    Later commits have the note's time or a later one, unless the clock steps back: steps of up to `max_step_back`
    microseconds are allowed for, so that they make no transaction late.
    """
    if note is None:
        return None
    tso: int = time_tso(max(0, note.clock_us - max_step_back))
    return OrderKey(max(0, tso - max_disorder), 0, 0, 0)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def why(node: ScannedNode, watermark: OrderKey | None) -> str:
    """Return what keeps a node's watermark where it is."""
    if node.error is not None:
        return "its log cannot be read any further"
    if (unfinished := _unfinished(node)) is not None:
        return f"what begins at {_place(node, unfinished)} is not whole yet"
    if (prepared := _prepared(node, watermark)) is not None:
        where = _place(node, (prepared.file_index, prepared.start)) if prepared.file_index >= 0 else "an earlier file"
        return f"the transaction prepared at {where} has neither committed nor been rolled back"
    if node.as_of is not None and watermark is not None and watermark.seq == 0:
        return f"idle, and its clock was at {_time(node.as_of.clock_us)} when it was asked last"
    read_to = _place(node, node.read_to)
    if watermark is None or not node.carry.max_tso:
        return f"it has shown no commit {'time' if node.by_time else 'TSO'} yet, read to {read_to}"
    return f"idle since {_moment(node)}, read to {read_to}"


def _unfinished(node: ScannedNode) -> FileOffset | None:
    """Return where a transaction or event begins at the end of the log that is not whole, None if all are."""
    if not node.pieces:
        return None
    last = max(node.pieces, key=lambda piece: (piece.file_index, piece.piece))
    at = last.truncated if last.unfinished is None else last.unfinished
    return None if at is None else (last.file_index, at)


def _prepared(node: ScannedNode, watermark: OrderKey | None) -> Prepared | None:
    """Return the open branch that the watermark waits for."""
    if node.by_time or watermark is None or watermark.seq:
        return None
    found = sorted(
        node.carry.open.values(), key=lambda prepared: (prepared.max_tso, prepared.file_index, prepared.start)
    )
    least = next(iter(found), None)
    if least is None:
        return None
    waits_for = least.max_tso + (0 if least.flags & SYNC_POINT else 1)
    return least if watermark.commit_tso <= waits_for else None


def _moment(node: ScannedNode) -> str:
    tso = node.carry.max_tso
    if node.by_time:
        return _time(tso_us(tso))
    return f"commit TSO {tso} ({_time(tso_millis(tso) * 1000)})" if carries_time(tso) else f"commit TSO {tso}"


def _time(us: int) -> str:
    return (_EPOCH + timedelta(microseconds=us)).strftime("%Y-%m-%d %H:%M:%S.%f UTC")


def _place(node: ScannedNode, place: FileOffset) -> str:
    return f"{node.input.files[place[0]].name}:{place[1]}"
