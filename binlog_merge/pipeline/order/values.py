"""The input and result of an order task: frozen values, shared by the driver and the executors."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from binlog_merge.pipeline.assemble.values import Block, EdgeRow, TableSet
from binlog_merge.pipeline.base.blocks import Read
from binlog_merge.pipeline.base.pieces import Between
from binlog_merge.pipeline.coordinate.holds import Holds
from binlog_merge.polardbx.places import Places
from snapshot_store.topology import Topology
from snapshot_store.tso import OrderKey


@dataclass(frozen=True, slots=True)
class OrderTask:
    """One range: rows with low <= tso < high and floor <= key < limit.

    `ddl` are (TSO, transaction) of markers at which a logical DDL comes out. `places` decide which tables come out;
    without them the topology does. With `holds`, rows may come out later than their own key: see
    `pipeline.order.held_rows`.
    """

    number: int
    low: int
    high: int
    floor: OrderKey
    limit: OrderKey
    blocks: tuple[Block, ...]
    edges: tuple[EdgeRow, ...]
    topology: Topology
    ddl: frozenset[tuple[int, int]]
    seen: Mapping[int, tuple[int, int]]  # by node: (file, offset) up to which earlier runs had read
    path: str
    places: Places | None = None
    heartbeat: int = 0  # seconds of TSO time between heartbeats that come out; 0: none
    holds: Holds | None = None
    sets: Mapping[tuple[str, TableSet], int] = field(default_factory=dict)  # with holds: numbers of nodes' table sets
    apart: frozenset[int] = frozenset()  # with holds: the sets of which no table comes out

    @property
    def reads(self) -> tuple[Read, ...]:
        """Return what the range has of each block."""
        timed = (b.scanned.timed_path for b in self.blocks if b.has_timed(self.low, self.high))
        local = (b.local_between(self.low, self.high) for b in self.blocks if b.has_local(self.low, self.high))
        return (*(Read(path, Between(self.low, self.high)) for path in timed), *local)


@dataclass(frozen=True, slots=True)
class OrderResult:
    """The totals of a range. `last` is its greatest key, None if it is empty; `empty` counts branches without a logical
    table.
    """

    number: int
    path: str
    rows: int
    transactions: int
    bytes: int
    last: OrderKey | None
    empty: int
    ddl: int
    held: int  # branches at or after the limit, and their bytes
    held_bytes: int
    late: tuple[OrderKey, int, int, int] | None  # a new local below the floor: key, node, file, offset
