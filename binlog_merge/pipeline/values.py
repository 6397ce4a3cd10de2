"""The values that the stages of a run pass on: the coordinated run, and the files it wrote."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.base.bound import Bound
from binlog_merge.pipeline.base.state import Inputs, Job
from binlog_merge.pipeline.coordinate.driver import CoordinationInput
from binlog_merge.pipeline.coordinate.stores import SchemaStore
from binlog_merge.pipeline.coordinate.value import Coordination
from binlog_merge.pipeline.gather.values import GatherResult
from binlog_merge.pipeline.order.driver import Ordered
from snapshot_store.tso import OrderKey

if TYPE_CHECKING:
    from binlog_merge.pipeline.gather.writeset_history import OpenHistory


@dataclass(frozen=True)
class Run:
    """A run after coordination: it writes transactions from `floor` on, below `bound`.

    `known` is the input of coordination, `store` the schemas it used. `gone` are nodes that no longer belong to the
    cluster, so they hold nothing back.
    """

    job: Job
    inputs: Inputs
    scanned: Sequence[ScannedNode]
    known: CoordinationInput
    store: SchemaStore
    floor: OrderKey
    watermarks: Mapping[str, OrderKey | None]
    gone: frozenset[str]
    coordination: Coordination
    bound: Bound


@dataclass(frozen=True)
class WrittenRun:
    """The transactions that a run ordered below the bound, and the output files written from them."""

    bound: Bound
    ordered: Ordered
    gathered: Sequence[GatherResult]

    @property
    def kept(self) -> list[GatherResult]:
        """Return the files to publish: those that are not empty and hold a transaction or are closed."""
        return [g for g in self.gathered if g.size and (g.last_key is not None or g.closed)]

    @property
    def open_history(self) -> "OpenHistory | None":
        """Return what transactions to come may depend on in the file that is open at the end, None if nothing of it is
        new.
        """
        from binlog_merge.pipeline.gather.writeset_history import OpenHistory

        return next((OpenHistory(g.name, g.size, g.history) for g in self.kept if g.history is not None), None)

    @property
    def last_key(self) -> OrderKey | None:
        """Return the order key of the last transaction written, None if there is none."""
        return next((g.last_key for g in reversed(self.kept) if g.last_key is not None), None)
