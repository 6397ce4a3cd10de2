"""The values that the stages of a run pass on, the result of a merge, and what the rounds of one process pass on, so
that a round costs what is new. A run of its own begins with nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.files.as_of import AsOf
from binlog_merge.files.listing import KnownHeads
from binlog_merge.files.manifest import Elsewhere, Manifest
from binlog_merge.files.node_file import Discovery
from binlog_merge.pipeline.archiving import Archiver
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.base.state import Bound, Inputs, Job
from binlog_merge.pipeline.coordinate.driver import CoordinationInput
from binlog_merge.pipeline.coordinate.stores import SchemaCache, SchemaStore, cache_of
from binlog_merge.pipeline.coordinate.value import Coordination
from binlog_merge.pipeline.gather.collisions import KnownKeys
from binlog_merge.pipeline.gather.values import GatherResult
from binlog_merge.pipeline.order.driver import Ordered
from binlog_merge.pipeline.scan.driver import KeptPieces
from binlog_merge.reshape.target_keys import TargetKeys
from snapshot_store.tso import OrderKey

if TYPE_CHECKING:
    from binlog_merge.pipeline.gather.writeset_history import OpenHistory


@dataclass(frozen=True, slots=True)
class NodeResult:
    """One node at the end of a run. `watermark` is a 54-digit key, None if the node has shown no commit TSO.

    `why` says what a node that holds the others back waits for, None if it does not.
    """

    watermark: str | None
    holds_back: bool
    files: int
    read_to: str
    open_branches: int
    why: str | None = None


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What a run published and what it held back.

    `files` are the output files written or extended by this run. `transactions` includes DDL; `branches` are the nodes'
    parts of the transactions; `events` are output events; `rows_reshaped` are rows that did not pass unchanged. `held`
    are branches at or above the watermark.

    `locks` are DDL of shards without markers that wait for other shards, `waiting` the number of branches that wait
    with them. `waiting_shards` has these per shard: node, schema, table, transactions, bytes, and the first order key.

    `hidden` are the tables of gh-ost, pt-online-schema-change, spirit and Vitess that are not part of the output, with
    the number of `rows` of theirs that this run has left out: node, schema, table, tool (None: not known yet), the
    table that each is a copy `of`, and its first and last order key.

    `ignored` counts input that is left out on purpose: unknown `events` that are flagged ignorable, `branches` that
    touch no output table, `transactions` of nodes that `ignore-transactions` leaves out (`transactions_of` these
    tables), `markers` that were used up, and `ddl`, of which `statements` lists the first of each kind and reason.
    `left_out` are files that match a node's `files` but were not read, with the reason. `read_again` are published
    files that had changed since the last run and were checked byte by byte. `removed` is what `retention` took away:
    see `pipeline.retention`. `keys` is how far the run was looked through for keys of shards that collide: see
    `gather.collisions.looked_at`; empty if markers coordinate all tables. `dependencies` is what the transactions
    depend on (`reshape.writesets.Dependencies`); empty with `output.dependencies: commit-order`.
    """

    files: tuple[Mapping[str, Any], ...]
    watermark: str | None
    end_of_input: bool
    first_key: str | None
    last_key: str | None
    transactions: int
    branches: int
    events: int
    row_events: int
    rows_reshaped: int
    ddl: int
    input_bytes: int
    output_bytes: int
    held: int
    held_bytes: int
    held_back_by: str | None
    in_doubt: tuple[Mapping[str, Any], ...]
    nodes: Mapping[str, NodeResult]
    carrier: str | None
    ignored: Mapping[str, Any]
    hidden: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    locks: tuple[Mapping[str, Any], ...] = ()
    waiting: int = 0
    waiting_shards: tuple[Mapping[str, Any], ...] = ()
    left_out: tuple[Mapping[str, str], ...] = ()
    read_again: tuple[str, ...] = ()
    removed: Mapping[str, Any] = field(default_factory=dict)
    keys: Mapping[str, Any] = field(default_factory=dict)
    dependencies: Mapping[str, Any] = field(default_factory=dict)
    stages: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


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
    """The transactions that a run ordered below the bound, and the output files written from them.

    `target` has the tables of which a target of the log may hold other keys than the schema history has.
    """

    bound: Bound
    ordered: Ordered
    gathered: Sequence[GatherResult]
    target: TargetKeys = field(default_factory=TargetKeys)

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


@dataclass(frozen=True)
class RoundState:
    """What a round leaves for the next.

    `schemas`, `pieces` and `heads` are what it has read: of the schema store, its scanned pieces, the nodes' files.
    `keys` are those that stand in the log. `archiver` is told what is published, `elsewhere` and `allowed` are the
    manifest's.

    `manifest` is None if it is to be loaded, and the output checked. `found` is what the last round found of the nodes'
    files, `notes` those of the capture (`files.as_of`) about the nodes that hold something back, which may let it out.
    `removed_at` is when `retention` was looked at last, by the monotonic clock. `history` is what transactions to come
    may depend on in the open file.
    """

    schemas: SchemaCache
    pieces: KeptPieces = field(default_factory=KeptPieces)
    heads: KnownHeads = field(default_factory=dict)
    keys: KnownKeys = field(default_factory=KnownKeys)
    archiver: Archiver | None = None
    elsewhere: Elsewhere | None = None
    allowed: Callable[[], None] | None = None
    manifest: Manifest | None = None
    found: Discovery | None = None
    notes: Mapping[str, tuple[AsOf, ...]] = field(default_factory=dict)
    removed_at: float | None = None
    history: "OpenHistory | None" = None

    @classmethod
    def of(
        cls,
        config: MergeConfig,
        directory: Path,
        elsewhere: Elsewhere | None = None,
        allowed: Callable[[], None] | None = None,
    ) -> "RoundState":
        """Return what a first round begins with: nothing."""
        return cls(cache_of(config, directory), elsewhere=elsewhere, allowed=allowed)

    def forgotten(self) -> "RoundState":
        """Return the state after a round that failed: the next one begins with what is on disk."""
        self.pieces.clear()
        self.schemas.clear()
        return replace(self, heads={}, keys=KnownKeys(), manifest=None, found=None, history=None)
