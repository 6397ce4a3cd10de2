"""Schemas of a run: what earlier runs stored, what this run's DDL and markers add, and what of it becomes final."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from binlog_merge.config import MergeConfig
from binlog_merge.job.announced import Announced, physical_tables
from binlog_merge.job.bound import GREATEST_KEY, NO_BOUND, Bound
from binlog_merge.job.cluster import ClusterWork
from binlog_merge.job.cluster import Line as TouchedLine
from binlog_merge.job.coordination import Coordination, stop_at
from binlog_merge.job.groups import physical_ddl
from binlog_merge.job.inputs import NodeInput
from binlog_merge.job.nodes import ScannedNode
from binlog_merge.job.shards import ShardWork
from binlog_merge.job.sightings import NodeMarkers, local_markers, markers_below
from binlog_merge.job.stores import Made, SchemaStore
from binlog_merge.job.touched import Names, same_but_for_case, touched_lines
from binlog_merge.merge.coordinate.polardbx import Shapes
from binlog_merge.merge.histories import Extended, PhysicalDdl, extend_logical, extend_physical
from binlog_merge.merge.not_carried import Listing
from binlog_merge.merge.remedies import Line, Remedies
from binlog_merge.merge.render import LogicalDdl
from binlog_merge.merge.statements import subject_of
from binlog_merge.polardbx.names import is_internal
from binlog_merge.shard.place_keys import place_of
from binlog_merge.topologies import topology_of
from snapshot_store.errors import AmbiguousRoute
from snapshot_store.history import SchemaHistory, SchemaVersion, TableVersion
from snapshot_store.store_merge import Part
from snapshot_store.surrogates import is_text
from snapshot_store.topology import Topology
from snapshot_store.tso import ORIGIN, OrderKey


@dataclass
class _Coming:
    """What comes of a run's DDL, line by line, up to where the first of them stops."""

    tables: list[TableVersion] = field(default_factory=list)
    schemas: list[SchemaVersion] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    ignored: Listing = field(default_factory=Listing)
    bound: Bound = NO_BOUND

    def begin(self, tables: Sequence[TableVersion], schemas: Sequence[SchemaVersion]) -> None:
        self.tables += tables
        self.schemas += schemas

    def add(self, extended: Extended) -> None:
        self.tables += extended.versions
        self.schemas += extended.schemas
        self.notes += extended.notes
        self.ignored.add(extended.ignored)
        self.stop(Bound.at(extended.stopped, extended.error, extended.tables))

    def stop(self, bound: Bound) -> None:
        self.bound = min(self.bound, bound)

    def counts(self, key: OrderKey) -> bool:
        """Tell whether what stands at a key still counts."""
        return key < self.bound.key


def _run_of(steps: Sequence[LogicalDdl | Shapes], alone: Callable[[LogicalDdl], bool]) -> Sequence[LogicalDdl | Shapes]:
    """Return the first steps that can be taken together: a snapshot is one alone, and so are some DDLs."""
    for count, step in enumerate(steps):
        if isinstance(step, Shapes) or alone(step):
            return steps[: max(1, count)]
    return steps


@dataclass
class SchemaWork:
    """Coordinates one run and stores what it makes final."""

    config: MergeConfig
    store: SchemaStore
    scanned: Sequence[ScannedNode]
    inputs: Sequence[NodeInput]
    floor: OrderKey
    cluster: ClusterWork
    shards: ShardWork
    announced: Announced
    markers: Sequence[NodeMarkers]

    def coordinate(self, limit: OrderKey, server_version: int) -> Coordination:
        """Turn the nodes' DDL and markers into both histories; `limit` is where this run stops."""
        topology = topology_of(self.config)
        last = self.store.manifest.state.last
        done = {} if last is None else {n: OrderKey.parse(text) for n, text in last.state["ddl_done"].items()}
        ddls = {
            n.source_id: [
                ddl for ddl in physical_ddl(n, self.floor, done.get(n.source_id, ORIGIN)) if not is_internal(ddl.sql)
            ]
            for n in self.scanned
        }
        markers = self.config.markers.tables()
        found, unread = markers_below(self.markers, limit)
        logical = self.cluster.coordinate(found, server_version)
        shapes, failed = self.cluster.shapes(server_version)
        self.cluster.follow(ddls)
        places = self.cluster.places()
        part = self._known(ddls, logical.ddl, topology, self.cluster.lines(shapes, places))
        coming = _Coming()
        coming.stop(Bound.at(logical.stopped, logical.error))
        nodes = [n.source_id for n in self.inputs]
        self.shards.begin(part.history, part.given_tables, nodes, self._joined())
        coming.begin(*self.shards.first_tables())
        coming.stop(unread)
        coming.stop(failed)
        for node in self.scanned:
            done[node.source_id] = self._physical(node.source_id, part, ddls[node.source_id], topology, coming, shapes)
        self._unheard(part, limit, coming)
        versions = (*part.history.versions, *part.given_tables, *coming.tables)
        known = {(v.node, v.schema, v.name) for v in versions}
        self.shards.check_rows(self.scanned, known)
        coming.ignored.add(self.shards.cut)
        shard_ddl, stopped, warnings = self.shards.coordinate(min(limit, coming.bound.key))
        coming.notes += warnings
        coming.stop(stopped)
        bound = min(limit, coming.bound.key)
        for node in self.scanned:
            coming.stop(Bound.of(local_markers(node, markers, self.floor, bound)))
        wanted = self._logical(part, [*logical.ddl, *shard_ddl], coming, shapes, server_version)
        history = _history(part, coming)
        if self.announced.asks:
            end = min(limit, coming.bound.key)
            coming.notes += self.announced.warnings(history, end, lambda: self._shards_there(coming))
        coming.notes += same_but_for_case((*part.history.versions, *part.given_tables, *coming.tables))
        return Coordination(
            history,
            self.cluster.topology(),
            tuple(d for d in wanted if self.floor <= _place(d.key) and coming.counts(_place(d.key))),
            done,
            logical.swallowed,
            coming.ignored,
            coming.bound,
            tuple(coming.tables),
            tuple(coming.schemas),
            tuple(coming.notes),
            places,
            self.shards.holds(),
            self.shards.modes if self.shards.modes.extracts else None,
            self.shards.locks(bound).locks,
        )

    def _known(
        self,
        ddls: Mapping[str, Sequence[PhysicalDdl]],
        logical: Sequence[LogicalDdl],
        topology: Topology,
        placed: set[TouchedLine],
    ) -> Part:
        """Return what is known of the tables that this run touches."""
        return self.store.read(
            lambda names: (
                placed
                | touched_lines(names, self.scanned, ddls, logical, topology)
                | self.shards.lines(names, self._joined())
                | self.announced.lines()
                | self._of_dropped(names, ddls, topology)
            ),
            self.floor,
            self._joined(),
        )

    @staticmethod
    def _of_dropped(names: Names, ddls: Mapping[str, Sequence[PhysicalDdl]], topology: Topology) -> set[TouchedLine]:
        """Return the lines of the logical tables of databases that nodes drop."""
        found: set[TouchedLine] = set()
        for node, statements in ddls.items():
            for ddl in statements:
                dropped = subject_of(ddl.parsed, ddl.schema).dropped
                with suppress(AmbiguousRoute):  # whoever routes the tables says so
                    logical = None if dropped is None else topology.logical_schema(node, dropped)
                    found.update(names.names_in(None, logical) if logical is not None and is_text(logical) else ())
        return found

    def _unheard(self, part: Part, limit: OrderKey, coming: _Coming) -> None:
        """Stop before the first change of rows in a cluster that has never shown a marker."""
        if not self.announced.active:
            return
        self.announced.seen = self.announced.seen or any(n.shows_any for n in self.markers)
        if self.announced.seen or not self.announced.asks:
            return
        bound = min(limit, coming.bound.key)
        unheard = self.announced.unheard(_history(part, coming), bound, lambda: self._shards_there(coming))
        if unheard is not None:
            first, held = unheard
            coming.stop(first)
            coming.notes += [] if first.error is not None else [held]

    def _shards_there(self, coming: _Coming) -> set[tuple[str, tuple[str, str]]]:
        return physical_tables(self.store.physical_tables(self.floor), coming.tables)

    def _joined(self) -> list[str]:
        """Return the nodes that are new in this run of an output."""
        last = self.store.manifest.state.last
        return [n.source_id for n in self.inputs if last is not None and n.source_id not in last.nodes]

    def _line(self, part: Part, node: str | None) -> Line:
        catalog = part.history.catalog(GREATEST_KEY, node)
        opaque = [
            (schema, name)
            for schema, name in part.history.names(node)
            if (version := part.history.at(schema, name, GREATEST_KEY, node)) is not None and version.opaque
        ]
        policy = self.config.schemas.not_understood == "opaque"
        return Line(catalog, opaque, Remedies.of(node, part.given_tables, part.given_schemas, policy))

    def _physical(
        self,
        node: str,
        part: Part,
        ddls: Sequence[PhysicalDdl],
        topology: Topology,
        coming: _Coming,
        shapes: Sequence[Shapes],
    ) -> OrderKey:
        """Extend a node's line; returns up to where its DDL is in the history."""
        line, left = self._line(part, node), list(ddls)
        for shape in (*shapes, None):
            here = [ddl for ddl in left if shape is None or ddl.key < shape.key]
            left = left[len(here) :]
            extended = extend_physical(part.history, line, node, here, topology)
            self.shards.take(node, extended)
            self.announced.take(node, extended)
            coming.add(extended)
            if extended.stopped is not None:
                return extended.stopped.previous()
            for version in shape.physical_versions(node, line.catalog) if shape is not None else ():
                coming.tables.append(version)
                if version.table is not None:
                    line.catalog = line.catalog.with_table(version.table)
        last = self.store.manifest.state.last
        before = ORIGIN if last is None else OrderKey.parse(last.state["ddl_done"].get(node, ORIGIN.text()))
        return max([before, *(ddl.key for ddl in ddls[-1:])])

    def _logical(
        self,
        part: Part,
        ddls: Sequence[LogicalDdl],
        coming: _Coming,
        shapes: Sequence[Shapes],
        server_version: int,
    ) -> list[LogicalDdl]:
        """Extend the logical line; returns the DDL as it comes out."""
        line = self._line(part, None)
        for database in coming.schemas:
            if database.node is None and database.value is not None:
                line.catalog = line.catalog.with_schema(database.value)
        for version in coming.tables:
            if version.node is None and version.table is not None:
                line.catalog = line.catalog.with_table(version.table)
        steps: Sequence[LogicalDdl | Shapes] = [*ddls, *shapes]
        steps = sorted(steps, key=lambda step: step.key)
        done: list[LogicalDdl] = []
        while steps and coming.counts(steps[0].key):
            together = _run_of(steps, self.cluster.asks)
            steps = steps[len(together) :]
            if isinstance(together[0], Shapes):
                self._shape(line, together[0], coming)
                continue
            told = [ddl for ddl in together if isinstance(ddl, LogicalDdl) and coming.counts(ddl.key)]
            if self.cluster.asks(told[0]):
                told = self.cluster.answer(told[0], line.catalog)
            coming.add(extend_logical(line, [ddl for ddl in told if ddl.sql], server_version))
            done += told
        return done

    def _shape(self, line: Line, shape: Shapes, coming: _Coming) -> None:
        """Put what a snapshot alone knows into the logical line."""
        tables, schemas = shape.logical_versions(line.catalog)
        coming.tables += tables
        coming.schemas += schemas
        for schema in schemas:
            line.catalog = line.catalog if schema.value is None else line.catalog.with_schema(schema.value)
        for version in tables:
            line.catalog = line.catalog if version.table is None else line.catalog.with_table(version.table)

    def save(self, coordination: Coordination, bound: Bound, next_floor: OrderKey) -> int | None:
        """Store the versions that this run makes, all physical ones and the logical ones below the bound, and where it
        stopped.

        Returns how many logical versions there are below what the next run may change.
        """
        begins = min((n.begins for n in self.scanned if n.begins is not None), default=None)
        first = self.store.manifest.state.last is None and begins is not None
        made = Made(
            self.floor,
            [v for v in coordination.new_tables if v.node is not None or _place(v.key) < bound.key],
            [v for v in coordination.new_schemas if v.node is not None or _place(v.key) < bound.key],
            # For questions only; the merge itself takes both from its input.
            coordination.topology,
            stop_at(bound),
            OrderKey(begins[0], 0, 0, 0) if first and begins is not None else None,
        )
        return self.store.save(made, next_floor)


def _history(part: Part, coming: _Coming) -> SchemaHistory:
    """Return what the store holds, and what has come so far."""
    return part.history.continued(
        [*part.given_tables, *coming.tables], [*part.given_schemas, *coming.schemas], part.numbers
    )


def _place(key: OrderKey) -> OrderKey:
    """Return the key of the event that something follows, by its own key."""
    return place_of(key).key
