"""The result of assembling a node's log: its blocks, and the branches that were completed on the driver.

`local_keys` derives the order keys of local transactions from the greatest commit before them in their node's log.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from binlog_merge.pipeline.base.blocks import Read
from binlog_merge.pipeline.base.branches import KeptBranch
from binlog_merge.pipeline.base.node_input import NodeInput
from binlog_merge.pipeline.base.pieces import BetweenRaised, Column
from binlog_merge.pipeline.scan.values import PieceBlock, ScanResult, TsoSpan
from snapshot_store.tso import OrderKey


@dataclass(frozen=True, slots=True)
class Patch:
    """The data from other pieces that completes the locals of a block.

    `max_tso`, `max_transaction` and `seq` are the greatest key before the piece. `raised` has (index among the locals,
    tso, transaction) of every late commit, which raises the greatest key from that local on. `dropped` are placeholders
    that are not transactions of their own. `kept` are the placeholders that stay because their XA COMMIT has no commit
    TSO, with the data of their prepare, which may be in an earlier piece.
    """

    max_tso: int
    max_transaction: int
    seq: int
    raised: tuple[tuple[int, int, int], ...] = ()
    dropped: tuple[int, ...] = ()
    kept: tuple[KeptBranch, ...] = ()

    def following(self, first: int, count: int) -> "Patch":
        """Return the patch of `count` locals from number `first` on, but for `kept`, whose numbers stay."""
        return replace(
            self,
            raised=tuple((max(0, at - first), tso, number) for at, tso, number in self.raised if at < first + count),
            dropped=tuple(at - first for at in self.dropped if first <= at < first + count),
        )


@dataclass(frozen=True, slots=True)
class LocalKeys:
    """The order keys of a block's locals, without the node number; `alive` is False for dropped placeholders."""

    tso: npt.NDArray[np.int64]
    transaction: npt.NDArray[np.int64]
    seq: npt.NDArray[np.int64]
    alive: npt.NDArray[np.bool_]


def local_keys(max_tso: npt.NDArray[np.int64], max_transaction: npt.NDArray[np.int64], patch: Patch) -> LocalKeys:
    """Return the keys of locals, from the greatest commit before each in its own piece and the patch.

    A local inherits the greatest of: commits before it in its piece, the key before the piece, and late commits before
    it.
    """
    n = len(max_tso)
    tso, transaction = max_tso.copy(), max_transaction.copy()
    for start, raised_tso, raised_transaction in ((0, patch.max_tso, patch.max_transaction), *patch.raised):
        tail_tso, tail_transaction = tso[start:], transaction[start:]
        lower = (tail_tso < raised_tso) | ((tail_tso == raised_tso) & (tail_transaction < raised_transaction))
        tail_tso[lower], tail_transaction[lower] = raised_tso, raised_transaction
    alive = np.ones(n, np.bool_)
    alive[list(patch.dropped)] = False
    seq = np.zeros(n, np.int64)
    if n:
        changed = np.empty(n, np.bool_)
        changed[0] = True
        changed[1:] = (tso[1:] != tso[:-1]) | (transaction[1:] != transaction[:-1])
        counted = np.cumsum(alive)
        run_start = np.maximum.accumulate(np.where(changed, np.arange(n), 0))
        before_run: npt.NDArray[np.int64] = counted[run_start] - alive[run_start]
        seq = counted - before_run
        inherits = (tso == patch.max_tso) & (transaction == patch.max_transaction)
        seq[inherits] += patch.seq
    return LocalKeys(tso, transaction, seq, alive)


TableSet = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Block:
    """One scanned piece as later stages use it.

    `node` is the node's number, `patch` the data from other pieces. `sets` are the table sets that the column `set`
    indexes. The spans hold the TSOs of the branches whose commit TSO is known, and of the others; None if there are
    none.
    """

    node: int
    source_id: str
    file_index: int
    scanned: PieceBlock
    patch: Patch
    sets: tuple[TableSet, ...]
    timed_span: TsoSpan | None
    local_span: TsoSpan | None

    @classmethod
    def of(cls, node: NodeInput, piece: ScanResult, scanned: PieceBlock, patch: Patch, greatest: int) -> "Block":
        """Return the block of a piece; `greatest` is the node's greatest commit TSO at its end."""
        local = TsoSpan(patch.max_tso, greatest) if piece.local else None
        return cls(node.number, node.source_id, piece.file_index, scanned, patch, piece.sets, piece.timed_span, local)

    def has_timed(self, low: int, high: int) -> bool:
        """Return whether a branch whose commit TSO is known may have one in low <= tso < high."""
        return self.timed_span is not None and self.timed_span.meets(low, high)

    def has_local(self, low: int, high: int) -> bool:
        """Return whether another transaction may have its key there."""
        return self.local_span is not None and self.local_span.meets(low, high)

    def timed(self) -> dict[str, Column]:
        """Map the branches whose commit TSO is known, by TSO and transaction."""
        return self.scanned.timed()

    def local(self) -> tuple[dict[str, Column], LocalKeys]:
        """Map the transactions without a commit TSO and the DDL, in file order, and compute their keys."""
        columns = self.scanned.local()
        return columns, local_keys(columns["max_tso"], columns["max_transaction"], self.patch)

    def local_between(self, low: int, high: int) -> Read:
        """Return what a task reads of the locals that have their key in low <= tso < high: see `local_part`."""
        raised = ((0, self.patch.max_tso), *((start, tso) for start, tso, _ in self.patch.raised))
        return Read(self.scanned.local_path, BetweenRaised(low, high, raised))

    def local_part(self) -> tuple[int, dict[str, Column], LocalKeys]:
        """Do what `local` does with the rows that a task has, from the number of the first of them on.

        Of transactions with one `tso` there are all or none: their numbers (`seq`) are right.
        """
        first, columns = self.scanned.local_part()
        patch = self.patch.following(first, len(columns["max_tso"]))
        return first, columns, local_keys(columns["max_tso"], columns["max_transaction"], patch)


@dataclass(frozen=True, slots=True)
class EdgeRow:
    """A branch that was completed on the driver; `tables` decides whether it comes out."""

    node: int
    source_id: str
    file_index: int
    tso: int
    transaction: int
    start: int
    end: int
    commit_us: int
    tables: TableSet
    flags: int
    seq: int = 0  # > 0: a transaction without a TSO of its own

    @property
    def key(self) -> OrderKey:
        return OrderKey(self.tso, self.transaction, self.seq, self.node if self.seq else 0)
