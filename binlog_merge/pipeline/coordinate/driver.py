"""The coordinate stage: from the nodes' DDL and markers to both schema histories and the logical DDL of the output.

`CoordinationReader` does all reading; everything else computes on values.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.moved_keys import place_of
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.base.node_input import NodeInput
from binlog_merge.pipeline.base.render_values import LogicalDdl
from binlog_merge.pipeline.base.state import GREATEST_KEY, NO_BOUND, Bound
from binlog_merge.pipeline.coordinate.histories import Extended, PhysicalDdl, extend_logical, extend_physical
from binlog_merge.pipeline.coordinate.marker.announced import Announced, Applications, Change, physical_tables
from binlog_merge.pipeline.coordinate.marker.driver import ClusterView, Messages, take_messages
from binlog_merge.pipeline.coordinate.marker.polardbx import Shapes
from binlog_merge.pipeline.coordinate.marker.sightings import NodeMarkers, local_markers, markers_below
from binlog_merge.pipeline.coordinate.read_again import first_rows
from binlog_merge.pipeline.coordinate.remedies import HistoryCursor, Remedies
from binlog_merge.pipeline.coordinate.row_counts import Called, copied_rows, rows_at
from binlog_merge.pipeline.coordinate.shards.driver import (
    KnownShards,
    coordinated_shards,
    read_decisions,
    take_shards,
    unknown_rows,
)
from binlog_merge.pipeline.coordinate.shards.row_findings import Swap
from binlog_merge.pipeline.coordinate.shards.tools import FirstRows, FoundRows
from binlog_merge.pipeline.coordinate.shards.values import Decided, Shard
from binlog_merge.pipeline.coordinate.statements import Listing, NotCarried, subject_of
from binlog_merge.pipeline.coordinate.stores import SchemaStore
from binlog_merge.pipeline.coordinate.touched import HistoryQueries, same_but_for_case, touched_keys
from binlog_merge.pipeline.coordinate.value import Coordination
from snapshot_store.errors import AmbiguousRoute
from snapshot_store.history import HistoryKey, SchemaHistory, SchemaVersion, TableVersion
from snapshot_store.store.merge import StoredSchemas
from snapshot_store.surrogates import is_text
from snapshot_store.topology import Topology
from snapshot_store.tso import ORIGIN, OrderKey


@dataclass(frozen=True)
class Added:
    """What a run adds to the histories, up to the bound."""

    tables: tuple[TableVersion, ...] = ()
    schemas: tuple[SchemaVersion, ...] = ()
    notes: tuple[str, ...] = ()
    ignored: tuple[NotCarried, ...] = ()
    bound: Bound = NO_BOUND

    def plus(
        self,
        steps: Iterable[Extended] = (),
        *,
        notes: Iterable[str] = (),
        ignored: Iterable[NotCarried] = (),
        bound: Bound = NO_BOUND,
    ) -> "Added":
        """Return this with more added. Of bounds with equal keys this one's own wins, then those of the steps."""
        steps = tuple(steps)
        return Added(
            (*self.tables, *(version for step in steps for version in step.versions)),
            (*self.schemas, *(version for step in steps for version in step.schemas)),
            (*self.notes, *(note for step in steps for note in step.notes), *notes),
            (*self.ignored, *(statement for step in steps for statement in step.ignored), *ignored),
            min(self.bound, *(Bound.at(step.stopped, step.error, step.tables) for step in steps), bound),
        )

    def history(self, part: StoredSchemas) -> SchemaHistory:
        """Return the history in the store, extended by what has been added."""
        return part.history.continued(
            [*part.given_tables, *self.tables], [*part.given_schemas, *self.schemas], part.numbers
        )


def cursor_of(part: StoredSchemas, node: str | None, opaque: bool) -> HistoryCursor:
    """Return the cursor of a node's history, or of the logical one, at the start of the run.

    `opaque`: tables whose statements are not understood become opaque.
    """
    catalog = part.history.catalog(GREATEST_KEY, node)
    unknown = [
        (schema, name)
        for schema, name in part.history.names(node)
        if (version := part.history.at(schema, name, GREATEST_KEY, node)) is not None and version.opaque
    ]
    return HistoryCursor(catalog, unknown, Remedies.of(node, part.given_tables, part.given_schemas, opaque))


def node_history(
    part: StoredSchemas,
    node: str,
    ddls: Sequence[PhysicalDdl],
    shapes: Sequence[Shapes],
    topology: Topology,
    opaque: bool,
) -> list[Extended]:
    """Return what a node's DDL and the snapshots add to its history, in order."""
    cursor, remaining = cursor_of(part, node, opaque), list(ddls)
    steps: list[Extended] = []
    for shape in (*shapes, None):
        before = [ddl for ddl in remaining if shape is None or ddl.key < shape.key]
        remaining = remaining[len(before) :]
        steps.append(extend_physical(part.history, cursor, node, before, topology))
        if steps[-1].stopped is not None:
            break
        versions = shape.physical_versions(node, cursor.catalog) if shape is not None else []
        steps.append(Extended(tuple(versions), ()))
        for version in versions:
            if version.table is not None:
                cursor.catalog = cursor.catalog.with_table(version.table)
    return steps


def done_by(steps: Sequence[Extended], ddls: Sequence[PhysicalDdl], before: OrderKey) -> OrderKey:
    """Return the key up to which a node's DDL is in its history; `before` is that of the previous run."""
    stopped = next((step.stopped for step in steps if step.stopped is not None), None)
    return stopped.previous() if stopped is not None else max([before, *(ddl.key for ddl in ddls[-1:])])


def logical_history(
    part: StoredSchemas,
    ddls: Sequence[LogicalDdl],
    added: Added,
    messages: Messages,
    server_version: int,
    opaque: bool,
) -> tuple[list[LogicalDdl], list[Extended]]:
    """Return the logical DDL of the output below the bound, and what these and the snapshots add to the logical
    history.

    `added` is what the nodes' own histories and the shards have added before.
    """
    cursor, bound = cursor_of(part, None, opaque), added.bound
    for database in added.schemas:
        if database.node is None and database.value is not None:
            cursor.catalog = cursor.catalog.with_schema(database.value)
    for version in added.tables:
        if version.node is None and version.table is not None:
            cursor.catalog = cursor.catalog.with_table(version.table)
    remaining: Sequence[LogicalDdl | Shapes] = [*ddls, *messages.shapes]
    remaining = sorted(remaining, key=lambda step: step.key)
    done, steps = list[LogicalDdl](), list[Extended]()
    while remaining and remaining[0].key < bound.key:
        together = _run_of(remaining, messages.asks)
        remaining = remaining[len(together) :]
        if isinstance(together[0], Shapes):
            steps.append(_shape(cursor, together[0]))
            continue
        coming_out = [ddl for ddl in together if isinstance(ddl, LogicalDdl) and ddl.key < bound.key]
        if messages.asks(coming_out[0]):
            coming_out = messages.answer(coming_out[0], cursor.catalog)
        coming_out = [replace(ddl, parsed=ddl.read(server_version)) if ddl.sql else ddl for ddl in coming_out]
        extended = extend_logical(cursor, [ddl for ddl in coming_out if ddl.sql], server_version)
        steps.append(extended)
        bound = min(bound, Bound.at(extended.stopped, extended.error))
        done += coming_out
    return done, steps


def _run_of(steps: Sequence[LogicalDdl | Shapes], alone: Callable[[LogicalDdl], bool]) -> Sequence[LogicalDdl | Shapes]:
    """Return the first steps that can be applied together: a snapshot, and a DDL for which `alone` holds, come
    alone.
    """
    for count, step in enumerate(steps):
        if isinstance(step, Shapes) or alone(step):
            return steps[: max(1, count)]
    return steps


def _shape(cursor: HistoryCursor, shape: Shapes) -> Extended:
    """Add the tables and databases that only a snapshot has to the logical history."""
    tables, schemas = shape.logical_versions(cursor.catalog)
    for schema in schemas:
        cursor.catalog = cursor.catalog if schema.value is None else cursor.catalog.with_schema(schema.value)
    for version in tables:
        cursor.catalog = cursor.catalog if version.table is None else cursor.catalog.with_table(version.table)
    return Extended(tuple(tables), tuple(schemas))


@dataclass(frozen=True)
class CoordinationInput:
    """The input of coordinating a run from `floor` on, as far as it is read in advance.

    `nodes` are all nodes, `joined` those new in this run. `ddls` is the DDL that each node ran; `done` is, by node, the
    key up to which earlier runs had added its DDL to the history. `markers` are those of each node.
    """

    config: MergeConfig
    server_version: int
    floor: OrderKey
    nodes: tuple[str, ...]
    joined: tuple[str, ...]
    ddls: Mapping[str, Sequence[PhysicalDdl]]
    done: Mapping[str, OrderKey]
    markers: Sequence[NodeMarkers]
    cluster: ClusterView
    shards: KnownShards
    announced: Announced


@dataclass(frozen=True)
class CoordinationReader:
    """Reads the schema store and the nodes' scanned logs while a run is coordinated."""

    store: SchemaStore
    scanned: Sequence[ScannedNode]
    topology: Topology

    def part(self, known: CoordinationInput, messages: Messages) -> StoredSchemas:
        """Return the part of the store's histories that concerns the tables this run touches."""
        topology = known.cluster.routes
        placed = messages.history_keys(self.scanned)
        return self.store.read(
            lambda names: (
                placed
                | touched_keys(names, self.scanned, known.ddls, messages.logical.ddl, topology)
                | known.shards.history_keys(names, known.joined)
                | known.announced.history_keys()
                | _of_dropped(names, known.ddls, topology)
            ),
            known.floor,
            known.joined,
        )

    def decisions(self) -> tuple[Decided, ...]:
        """Return the decisions of operators about shards."""
        return read_decisions(self.store.directory, self.store.cache)

    def unknown_rows(self, shards: KnownShards, versions: Iterable[TableVersion]) -> Bound:
        """Return the bound at the first rows of a shard's table that has no version."""
        return unknown_rows(shards, self.scanned, {(v.node, v.schema, v.name) for v in versions})

    def first_rows(self, floor: OrderKey) -> FirstRows:
        """Return what finds the first rows that a node has of a table, from `floor` on."""
        nodes = {node.source_id: node for node in self.scanned}

        def found(node: str, name: tuple[str, str], since: OrderKey) -> FoundRows | None:
            called = partial(self.topology.named, node)
            at = first_rows(nodes[node], {name}, max(since, floor), called) if node in nodes else None
            return None if at is None else FoundRows(at.key, frozenset(at.all))

        return found

    def counted(self, swap: Swap) -> tuple[int, int] | None:
        """Return how many rows a table and its copy have where the copy takes its place, None if that is unknown."""
        node, called = self._node(swap.shard)
        return copied_rows(node, swap.file, swap.position, (swap.shard.schema, swap.shard.table), swap.copy, called)

    def rows_at(self, shard: Shard, file: str, position: int) -> int | None:
        """Return how many rows a shard has before the statement at a position, None if that is unknown."""
        node, called = self._node(shard)
        return rows_at(node, file, position, (shard.schema, shard.table), called)

    def _node(self, shard: Shard) -> tuple[NodeInput, Called]:
        node = next(node for node in self.scanned if node.source_id == shard.node)
        return node.input, partial(self.topology.named, shard.node)

    def stray_markers(self, known: CoordinationInput, limit: OrderKey) -> Bound:
        """Return the bound at the first marker that was not written by a distributed transaction."""
        tables = known.config.markers.tables()
        routes = known.cluster.routes
        found = [Bound.of(local_markers(node, tables, routes, known.floor, limit)) for node in self.scanned]
        return min(found, default=NO_BOUND)

    def physical_tables(self, floor: OrderKey, added: Sequence[TableVersion]) -> set[tuple[str, tuple[str, str]]]:
        """Return the nodes' tables that exist, including those that this run adds."""
        return physical_tables(self.store.physical_tables(floor), added)


def coordinate(known: CoordinationInput, sources: CoordinationReader, limit: OrderKey) -> Coordination:
    """Build both histories and the logical DDL of the output from the nodes' DDL and markers below `limit`."""
    opaque = known.config.schemas.not_understood == "opaque"
    topology, floor = known.cluster.routes, known.floor
    found, unread = markers_below(known.markers, limit)
    messages = take_messages(known.cluster, found, known.ddls, known.config.ddl.private, known.server_version)
    part = sources.part(known, messages)
    steps = {
        node: node_history(part, node, ddls, messages.shapes, topology, opaque) for node, ddls in known.ddls.items()
    }
    done = {node: done_by(steps[node], ddls, known.done.get(node, ORIGIN)) for node, ddls in known.ddls.items()}
    ran = [(node, step) for node, taken in steps.items() for step in taken]
    shards = take_shards(
        known.shards, part.history, part.given_tables, known.nodes, known.joined, ran, sources.first_rows(floor)
    )
    added = Added(shards.tables, shards.schemas, bound=min(messages.bound, unread)).plus(step for _, step in ran)

    applied = [(node, ddl) for node, step in ran for ddl in step.applied] if known.announced.active else []
    seen = known.announced.seen or any(node.shows_any for node in known.markers)
    if not seen:
        added = _without_markers(known, sources, part, applied, added, limit)

    unknown = sources.unknown_rows(known.shards, (*part.history.versions, *part.given_tables, *added.tables))
    decisions = sources.decisions() if known.shards.active else ()
    together = coordinated_shards(
        known.shards,
        shards.log,
        decisions,
        min(shards.bound, unknown),
        min(limit, added.bound.key),
        sources.counted,
        sources.rows_at,
    )
    added = added.plus(ignored=shards.cut, notes=together.warnings, bound=together.bound)
    bound = min(limit, added.bound.key)
    added = added.plus(bound=sources.stray_markers(known, bound))

    ddls = [*messages.logical.ddl, *together.ddl]
    wanted, logical = logical_history(part, ddls, added, messages, known.server_version, opaque)
    added = added.plus(logical)
    history = added.history(part)
    pending: Sequence[Change] = ()
    if applied or known.announced.kept:
        end = min(limit, added.bound.key)
        warnings, pending = known.announced.unannounced(
            applied, history, end, lambda: sources.physical_tables(floor, added.tables)
        )
        added = added.plus(notes=warnings)
    added = added.plus(notes=same_but_for_case((*part.history.versions, *part.given_tables, *added.tables)))
    ignored = Listing()
    ignored.add(added.ignored)
    _add_passed(ignored, sources.scanned)
    return Coordination(
        history=history,
        topology=replace(messages.topology(), hidden=together.log.tools.hidden()),
        ddl=tuple(d.sent(known.server_version) for d in wanted if floor <= place_of(d.key).key < added.bound.key),
        ddl_done={**known.done, **done},
        swallowed=messages.logical.swallowed,
        ignored=ignored,
        bound=added.bound,
        new_tables=added.tables,
        new_schemas=added.schemas,
        notes=added.notes,
        places=messages.places,
        holds=together.holds(),
        modes=known.shards.modes,
        locks=together.locks(bound).locks,
        messages=messages,
        shards=together,
        seen=seen,
        pending=tuple(pending),
    )


def _add_passed(ignored: Listing, scanned: Iterable[ScannedNode]) -> None:
    """Add the statements in statement format that are left out."""
    for node in scanned:
        for piece in node.pieces:
            path = node.input.files[piece.file_index].path
            for passed in piece.passed:
                kind, why = passed.kind, passed.why
                ignored.add(NotCarried(node.source_id, path, at, sql, kind, why) for at, sql in passed.first)
                ignored.count_more(kind, why, passed.count - len(passed.first))


def _without_markers(
    known: CoordinationInput,
    sources: CoordinationReader,
    part: StoredSchemas,
    applied: Applications,
    added: Added,
    limit: OrderKey,
) -> Added:
    """Stop before the first change that affects rows, in a cluster that has never shown a marker."""
    if not known.announced.active or not (applied or known.announced.kept):
        return added
    found = known.announced.first_unannounced(
        applied,
        added.history(part),
        min(limit, added.bound.key),
        lambda: sources.physical_tables(known.floor, added.tables),
    )
    if found is None:
        return added
    first, held = found
    return added.plus(notes=[] if first.error is not None else [held], bound=first)


def _of_dropped(
    names: HistoryQueries, ddls: Mapping[str, Sequence[PhysicalDdl]], topology: Topology
) -> set[HistoryKey]:
    """Return the history keys of the logical tables in databases that nodes drop."""
    found: set[HistoryKey] = set()
    for node, statements in ddls.items():
        for ddl in statements:
            dropped = subject_of(ddl.parsed, ddl.schema).dropped
            with suppress(AmbiguousRoute):  # routing the tables raises it
                logical = None if dropped is None else topology.logical_schema(node, dropped)
                found.update(names.names_in(None, logical) if logical is not None and is_text(logical) else ())
    return found
