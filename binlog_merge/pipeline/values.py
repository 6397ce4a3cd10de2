"""What stands between the stages of a run: what is coordinated and comes out, and what was written of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.base.bound import Bound
from binlog_merge.pipeline.base.state import Inputs, Job
from binlog_merge.pipeline.coordinate.driver import Known
from binlog_merge.pipeline.coordinate.stores import SchemaStore
from binlog_merge.pipeline.coordinate.value import Coordination
from binlog_merge.pipeline.gather.values import GatherResult
from binlog_merge.pipeline.order.driver import Ordered
from snapshot_store.tso import OrderKey


@dataclass(frozen=True)
class Run:
    """A run that has coordinated: transactions from `floor` on come out, below the bound.

    `known` is what was coordinated, `store` where its schemas are. `gone` are nodes that hold back nothing, for
    they are not in the cluster.
    """

    job: Job
    inputs: Inputs
    scanned: Sequence[ScannedNode]
    known: Known
    store: SchemaStore
    floor: OrderKey
    watermarks: Mapping[str, OrderKey | None]
    gone: frozenset[str]
    coordination: Coordination
    bound: Bound


@dataclass(frozen=True)
class Written:
    """What a run brought into order below the bound, and the output files that it wrote of that."""

    bound: Bound
    ordered: Ordered
    gathered: Sequence[GatherResult]

    @property
    def kept(self) -> list[GatherResult]:
        """Return the files that are published."""
        return [g for g in self.gathered if g.size and (g.last_key is not None or g.closed)]

    @property
    def last_key(self) -> OrderKey | None:
        """Return the key of what came out last."""
        return next((g.last_key for g in reversed(self.kept) if g.last_key is not None), None)
