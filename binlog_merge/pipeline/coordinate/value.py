"""The result of coordinating a run's DDL and markers, and the part of it that the schema store keeps."""

from dataclasses import dataclass

from binlog_merge.config.modes import Modes
from binlog_merge.errors import DdlNotUnderstoodError, SchemaMismatch, UnknownTableSchema
from binlog_merge.moved_keys import place_of
from binlog_merge.pipeline.base.render_values import LogicalDdl
from binlog_merge.pipeline.base.state import NO_BOUND, Bound
from binlog_merge.pipeline.coordinate.marker.announced import Change
from binlog_merge.pipeline.coordinate.marker.driver import Messages
from binlog_merge.pipeline.coordinate.shards.driver import CoordinatedShards
from binlog_merge.pipeline.coordinate.shards.notes import Lock
from binlog_merge.pipeline.coordinate.shards.values import Holds
from binlog_merge.pipeline.coordinate.statements import Listing
from binlog_merge.pipeline.coordinate.stores import Made
from binlog_merge.polardbx.table_mapping import Places
from snapshot_store.history import SchemaHistory, SchemaVersion, TableVersion
from snapshot_store.store.settings import Stop
from snapshot_store.topology import Topology
from snapshot_store.tso import OrderKey


@dataclass(frozen=True)
class Coordination:
    """The schemas for gather, the logical DDL of the output, and the bound at which coordination stopped.

    `notes` are warnings about statements handled without being understood. `messages`, `shards`, `seen` and `pending`
    are for the next run: see `cluster.kept_after`, `shards.keep_shards` and `Announced.state`.
    """

    history: SchemaHistory
    topology: Topology
    ddl: tuple[LogicalDdl, ...]
    ddl_done: dict[str, OrderKey]
    swallowed: int
    ignored: Listing
    messages: Messages
    shards: CoordinatedShards
    seen: bool = False
    pending: tuple[Change, ...] = ()
    bound: Bound = NO_BOUND
    new_tables: tuple[TableVersion, ...] = ()
    new_schemas: tuple[SchemaVersion, ...] = ()
    notes: tuple[str, ...] = ()
    places: Places | None = None
    holds: Holds | None = None
    modes: Modes | None = None
    locks: tuple[Lock, ...] = ()


def made_of(coordination: Coordination, bound: Bound, floor: OrderKey, beginning: OrderKey | None) -> Made:
    """Return what a run writes to the store: all physical versions, the logical ones below the bound, and the stop.

    `floor` is the key it continued from. `beginning` is where its binlogs begin, None unless it is the first run.
    """
    return Made(
        floor,
        [v for v in coordination.new_tables if v.node is not None or place_of(v.key).key < bound.key],
        [v for v in coordination.new_schemas if v.node is not None or place_of(v.key).key < bound.key],
        # Only for queries; the merge itself takes both from its input.
        coordination.topology,
        stop_at(bound),
        beginning,
    )


def stop_at(bound: Bound) -> Stop | None:
    """Return the store's record of an error that an operator can remedy by defining a table, None for other errors."""
    error = bound.error
    if not isinstance(error, DdlNotUnderstoodError | SchemaMismatch | UnknownTableSchema) or error.order_key is None:
        return None
    statement = isinstance(error, DdlNotUnderstoodError)
    return Stop(
        statement,
        error.node,
        error.order_key,
        error.file or "",
        error.position or 0,
        error.message,
        bound.tables if statement else (),
    )
