"""Schemas of a run: what earlier runs stored, what this run's DDL and markers add, and what of it becomes final."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from binlog_merge.config import MergeConfig
from binlog_merge.errors import ConfigError, MergeError
from binlog_merge.files.manifest import Manifest
from binlog_merge.files.source import open_source
from binlog_merge.job.inputs import NodeInput
from binlog_merge.job.nodes import ScannedNode, local_markers, physical_ddl, sightings
from binlog_merge.merge.coordinate.marker import coordinate
from binlog_merge.merge.histories import base_versions, earlier, extend_logical, extend_physical
from binlog_merge.merge.render import LogicalDdl
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.history import SchemaHistory, SchemaVersion, TableVersion
from snapshot_store.model import Catalog
from snapshot_store.topology import SYSTEM_SCHEMAS, Route, Topology
from snapshot_store.tso import ORIGIN, OrderKey

STORE_NAME = "schema.duckdb"


@dataclass(frozen=True)
class Coordination:
    """The schemas that gather works with, the DDL that comes out, and where coordination stopped, if it did."""

    history: SchemaHistory
    topology: Topology
    ddl: tuple[LogicalDdl, ...]
    ddl_done: dict[str, OrderKey]
    swallowed: int
    ignored: int
    stopped: OrderKey | None = None
    error: MergeError | None = None
    new_tables: tuple[TableVersion, ...] = ()
    new_schemas: tuple[SchemaVersion, ...] = ()


def topology_of(config: MergeConfig) -> Topology:
    """Return the routes of a configuration, and the schemas that never come out."""
    routes = tuple(
        Route(r.schema_pattern, r.table_pattern or "", r.target_schema, r.target_table or "") for r in config.routes
    )
    commit_schema = config.commit_tso.commit_table.partition(".")[0]
    ignored = {*SYSTEM_SCHEMAS, config.markers.schema_name, commit_schema, *config.ignore_schemas}
    return Topology(routes, frozenset(ignored))


@dataclass
class SchemaWork:
    """Coordinates one run and stores what it makes final."""

    config: MergeConfig
    directory: Path
    manifest: Manifest
    scanned: Sequence[ScannedNode]
    inputs: Sequence[NodeInput]
    base_tables: list[TableVersion] = field(default_factory=list)
    base_schemas: list[SchemaVersion] = field(default_factory=list)

    def coordinate(self, floor: OrderKey, limit: OrderKey, server_version: int) -> Coordination:
        """Turn the nodes' DDL and markers into both histories; `floor` is where earlier runs stopped, `limit` where
        this one does.
        """
        topology = topology_of(self.config)
        history, done = self._known(floor)
        tables, schemas = list[TableVersion](), list[SchemaVersion]()
        stopped, error, ignored = None, None, 0
        for node in self.scanned:
            ddls = list(physical_ddl(node, done.get(node.source_id, ORIGIN)))
            catalog = history.catalog(_LAST, node.source_id)
            extended = extend_physical(history, catalog, node.source_id, ddls, topology)
            tables += extended.versions
            schemas += extended.schemas
            ignored += len(extended.ignored)
            if ddls:
                done[node.source_id] = ddls[-1].key
            if extended.stopped is not None and (stopped is None or extended.stopped < stopped):
                stopped, error = extended.stopped, extended.error
                done[node.source_id] = max((v.key for v in extended.versions), default=done.get(node.source_id, ORIGIN))
        limit = min(limit, stopped) if stopped is not None else limit
        markers = self.config.markers
        found = [s for n in self.scanned for s in sightings(n, markers.schema_name, markers.ddl_record, floor, limit)]
        strays = [local_markers(n, markers.schema_name, markers.ddl_record, floor, limit) for n in self.scanned]
        logical = coordinate(found, [(n.number, n.source_id) for n in self.inputs])
        for stray in strays:
            if stray is not None and stray.order_key is not None:
                key = OrderKey.parse(stray.order_key)
                if stopped is None or key < stopped:
                    stopped, error = key, stray
        if logical.stopped is not None and (stopped is None or logical.stopped < stopped):
            stopped, error = logical.stopped, logical.error
        wanted = [d for d in logical.ddl if stopped is None or d.key < stopped]
        applied = extend_logical(history, history.catalog(max(floor, _AFTER_BASE)), wanted, server_version)
        if applied.stopped is not None:
            stopped, error = applied.stopped, applied.error
            wanted = [d for d in wanted if d.key < applied.stopped]
        tables += applied.versions
        schemas += applied.schemas
        return Coordination(
            history.with_versions(tables, schemas),
            topology,
            tuple(wanted),
            done,
            logical.swallowed,
            ignored,
            stopped,
            error,
            tuple(tables),
            tuple(schemas),
        )

    def _known(self, floor: OrderKey) -> tuple[SchemaHistory, dict[str, OrderKey]]:
        """Return what earlier runs made final, or, before the first, the base schemas."""
        last = self.manifest.state.last
        if last is None:
            self._import_bases()
            return SchemaHistory().with_versions(self.base_tables, self.base_schemas), {}
        from snapshot_store.store import Store

        done = {node: OrderKey.parse(text) for node, text in last.state["ddl_done"].items()}
        with Store.open(self.directory / STORE_NAME) as store:
            history = store.load_history()
        joined = [n.source_id for n in self.inputs if n.source_id not in last.nodes]
        self._import_dumps((node, self.config.base.physical.get(node)) for node in joined)
        history = earlier(history, floor, done).with_versions(self.base_tables, self.base_schemas)
        return history, done

    def _import_bases(self) -> None:
        base = self.config.base
        if base.store is not None:
            from snapshot_store.store import Store

            with Store.open(Path(base.store)) as store:
                history = store.load_history()
            self.base_tables += [v for v in history.versions if v.key == ORIGIN]
            self.base_schemas += [v for v in history.schema_versions if v.key == ORIGIN]
        self._import_dumps([(None, base.logical), *sorted(base.physical.items())])

    def _import_dumps(self, sources: Iterable[tuple[str | None, str | None]]) -> None:
        for node, path in sources:
            if path is not None:
                tables, schemas = base_versions(_read_dump(path), node, path)
                self.base_tables += tables
                self.base_schemas += schemas

    def store(self, coordination: Coordination, limit: OrderKey) -> None:
        """Store the versions that this run makes final: all physical ones, logical ones below `limit`."""
        from snapshot_store.store import Store

        tables = [v for v in coordination.new_tables if v.node is not None or v.key < limit]
        schemas = [v for v in coordination.new_schemas if v.node is not None or v.key < limit]
        begins = min((n.least_new for n in self.scanned if n.least_new is not None), default=None)
        with Store.open(self.directory / STORE_NAME) as store:
            store.append_versions([*self.base_tables, *tables], [*self.base_schemas, *schemas])
            # For questions only; the merge itself takes both from its input.
            store.set_topology(coordination.topology)
            if self.manifest.state.last is None and begins is not None:
                store.set_beginning(OrderKey(begins[0], 0, 0, 0))


_AFTER_BASE = OrderKey(0, 0, 1, 0)
_LAST = OrderKey((1 << 63) - 1, (1 << 63) - 1, 1 << 62, 1 << 30)


def _read_dump(path: str) -> Catalog:
    from snapshot_store.ddl import parse_dump

    with open_source(path) as source:
        data = bytearray(source.size)
        source.read_into(memoryview(data), 0)
    try:
        return parse_dump(data.decode("utf-8"))
    except (SnapshotStoreError, UnicodeDecodeError) as error:
        raise ConfigError(f"the base schema cannot be read: {error}", file=path) from None
