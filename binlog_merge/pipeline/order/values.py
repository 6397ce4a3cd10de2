"""What the order stage is given and what it returns: frozen values, for the driver and the executors."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from binlog_merge.pipeline.assemble.values import Block, EdgeRow, TableSet
from binlog_merge.pipeline.coordinate.holds import Holds
from binlog_merge.polardbx.places import Places
from snapshot_store.topology import Topology
from snapshot_store.tso import OrderKey


@dataclass(frozen=True, slots=True)
class OrderTask:
    """One range: rows with low <= tso < high and floor <= key < limit. `ddl` are the keys at which a logical DDL comes
    out that a marker gives. Where there are `places` they say which tables come out, else the topology. With `holds`,
    rows come out elsewhere than they stand: see `pipeline.order.held_rows`.
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
    heartbeat: int = 0  # seconds of TSO time between heartbeats that come out; 0: none do
    holds: Holds | None = None
    sets: Mapping[tuple[str, TableSet], int] = field(default_factory=dict)  # with holds: numbers of nodes' table sets


@dataclass(frozen=True, slots=True)
class OrderResult:
    """What a range holds. `last` is its greatest key, None when it is empty; `empty` counts branches that touch no
    logical table.
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
    late: tuple[OrderKey, int, int, int] | None  # a local below the floor that no run has seen: key, node, file, offset
