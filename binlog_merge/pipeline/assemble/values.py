"""The result of assembling a node's log: its blocks, and the branches that were completed on the driver."""

from dataclasses import dataclass

from binlog_merge.pipeline.assemble.local_keys import LocalKeys, Patch, local_keys
from binlog_merge.pipeline.base.blocks import Read
from binlog_merge.pipeline.base.columns import Column
from binlog_merge.pipeline.base.node_input import NodeInput
from binlog_merge.pipeline.base.pieces import BetweenRaised
from binlog_merge.pipeline.scan.block import PieceBlock
from binlog_merge.pipeline.scan.values import ScanResult, TsoSpan
from snapshot_store.tso import OrderKey

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
