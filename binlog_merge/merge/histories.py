"""Both schema histories of a run: what base schemas, the nodes' DDL and the logical DDL make of each table, version by
version.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from binlog_merge.errors import DdlNotUnderstoodError, MergeError
from binlog_merge.merge.charsets import charset_of, collation_name
from binlog_merge.merge.markers import SessionVariables
from binlog_merge.merge.render import LogicalDdl
from snapshot_store.ddl import DdlEffect, DdlSession, apply_ddl
from snapshot_store.ddl.apply import tables_of
from snapshot_store.ddl.parse import parse_statement
from snapshot_store.ddl.statements import CreateTable
from snapshot_store.errors import SnapshotStoreError, UnknownSchema, UnknownTable
from snapshot_store.history import SchemaHistory, SchemaVersion, TableVersion
from snapshot_store.model import Catalog, Schema
from snapshot_store.topology import Topology
from snapshot_store.tso import ORIGIN, OrderKey

_AFTER_BASE = OrderKey(0, 0, 1, 0)


@dataclass(frozen=True, slots=True)
class PhysicalDdl:
    """A DDL as a node ran it: where it stands, its default schema, its session, and the server's version."""

    key: OrderKey
    file: str
    position: int
    schema: str | None
    sql: str
    session: SessionVariables
    server_version: int


@dataclass(frozen=True, slots=True)
class Extended:
    """New versions, what was passed over, and, where it stopped, the key before which all is well and why."""

    versions: tuple[TableVersion, ...]
    schemas: tuple[SchemaVersion, ...]
    ignored: tuple[str, ...] = ()
    stopped: OrderKey | None = None
    error: MergeError | None = None


def base_versions(catalog: Catalog, node: str | None, file: str) -> tuple[list[TableVersion], list[SchemaVersion]]:
    """Return the versions that a base schema gives, at the origin."""
    tables = [
        TableVersion(ORIGIN, 0, t.schema, t.name, t, node=node, file=file, origin="base")
        for t in catalog.tables.values()
    ]
    schemas = [SchemaVersion(ORIGIN, s.name, s, node=node, file=file, origin="base") for s in catalog.schemas.values()]
    return tables, schemas


def ddl_session(session: SessionVariables, server_version: int = 90700) -> DdlSession:
    """Return what a QUERY event's variables mean to a DDL; what it leaves unsaid is its server version's default."""
    modern = server_version >= 80000
    utf8mb4 = collation_name(session.utf8mb4_collation) if session.utf8mb4_collation is not None else None
    return DdlSession(
        sql_mode=session.sql_mode,
        charset_server=charset_of(session.server_collation) or "utf8mb4",
        collation_server=collation_name(session.server_collation) or "utf8mb4_0900_ai_ci",
        default_collation_for_utf8mb4=utf8mb4 or ("utf8mb4_0900_ai_ci" if modern else "utf8mb4_general_ci"),
        explicit_defaults_for_timestamp=modern,
        server_version=server_version,
    )


def extend_logical(
    history: SchemaHistory, catalog: Catalog, ddls: Iterable[LogicalDdl], server_version: int
) -> Extended:
    """Apply logical DDL in order to the logical catalog; stops at the first that is not understood."""
    versions: list[TableVersion] = []
    schemas: list[SchemaVersion] = []
    for ddl in ddls:
        session = ddl_session(
            SessionVariables(ddl.flags2, ddl.sql_mode, ddl.server_collation, ddl.utf8mb4_collation), server_version
        )
        if ddl.schema and ddl.schema not in catalog.schemas and not ddl.suppress_use:
            catalog = catalog.with_schema(Schema(ddl.schema, session.charset_server, session.collation_server))
        try:
            effect = apply_ddl(catalog, ddl.sql, ddl.schema or None, session)
        except SnapshotStoreError as error:
            return Extended(
                tuple(versions),
                tuple(schemas),
                stopped=ddl.key,
                error=DdlNotUnderstoodError(f"logical DDL {ddl.sql[:300]!r}: {error}", order_key=ddl.key),
            )
        catalog = effect.catalog
        new_tables, new_schemas = _versions(effect, ddl.key, ddl.sql, None, "", 0, "marker", _touched(effect))
        versions += new_tables
        schemas += new_schemas
    return Extended(tuple(versions), tuple(schemas))


def extend_physical(
    history: SchemaHistory, catalog: Catalog, node: str, ddls: Iterable[PhysicalDdl], topology: Topology
) -> Extended:
    """Apply a node's DDL in order to its catalog; stops at the first on a table of ours that is not understood.

    A table that no base has takes the logical base's shape through the routes. DDL on a table of which nothing is known
    is passed over and listed: its table maps must then speak for themselves.
    """
    versions: list[TableVersion] = []
    schemas: list[SchemaVersion] = []
    ignored: list[str] = []
    for ddl in ddls:
        session = ddl_session(ddl.session, ddl.server_version)
        try:
            if not _concerns_us(ddl, session, topology):
                ignored.append(ddl.sql)
                continue
            catalog = _known_tables(history, catalog, node, ddl, session, topology)
            effect = apply_ddl(catalog, ddl.sql, ddl.schema, session)
        except (UnknownTable, UnknownSchema) as error:
            ignored.append(f"{ddl.sql} ({error})")
            continue
        except SnapshotStoreError as error:
            return Extended(
                tuple(versions),
                tuple(schemas),
                tuple(ignored),
                ddl.key,
                DdlNotUnderstoodError(
                    f"DDL {ddl.sql[:300]!r}: {error}",
                    node=node,
                    file=ddl.file,
                    position=ddl.position,
                    order_key=ddl.key,
                ),
            )
        if not effect.changed and not effect.changed_schemas:
            ignored.append(ddl.sql)
        new_tables, new_schemas = _versions(effect, ddl.key, ddl.sql, node, ddl.file, ddl.position, "ddl")
        versions += new_tables
        schemas += new_schemas
        catalog = effect.catalog
    return Extended(tuple(versions), tuple(schemas), tuple(ignored))


def _known_tables(
    history: SchemaHistory, catalog: Catalog, node: str, ddl: PhysicalDdl, session: DdlSession, topology: Topology
) -> Catalog:
    """Return the catalog with the schemas and tables that a statement names, as far as the logical base knows them."""
    statement = parse_statement(ddl.sql, session)
    for written, name in tables_of(statement):
        schema = written or ddl.schema
        if schema is None:
            continue
        if schema not in catalog.schemas:
            catalog = catalog.with_schema(Schema(schema, session.charset_server, session.collation_server))
        if isinstance(statement, CreateTable) or catalog.get(schema, name) is not None:
            continue
        logical = topology.logical_name(node, schema, name)
        base = history.at(*logical, _AFTER_BASE) if logical else None
        if base is not None and base.table is not None and base.key == ORIGIN:
            catalog = catalog.with_table(base.table.renamed(schema, name))
    return catalog


def _concerns_us(ddl: PhysicalDdl, session: DdlSession, topology: Topology) -> bool:
    """Tell whether a statement may change a table that comes out: not if all it names are in ignored schemas."""
    names = tables_of(parse_statement(ddl.sql, session))
    return not names or any(not topology.is_ignored(schema or ddl.schema or "") for schema, _ in names)


def _touched(effect: DdlEffect) -> tuple[tuple[str, str], ...]:
    """Return the table that gets a new table id although its shape may be what it was, as on a MySQL server."""
    if effect.kind in ("ALTER TABLE", "TRUNCATE TABLE", "CREATE INDEX", "DROP INDEX") and effect.tables:
        return tuple(t for t in effect.tables[:1] if effect.catalog.get(*t) is not None)
    return ()


def _versions(
    effect: DdlEffect,
    key: OrderKey,
    sql: str,
    node: str | None,
    file: str,
    position: int,
    origin: str,
    touched: tuple[tuple[str, str], ...] = (),
) -> tuple[list[TableVersion], list[SchemaVersion]]:
    tables = [
        TableVersion(key, 0, schema, name, effect.catalog.get(schema, name), sql, node, file, position, origin)
        for schema, name in sorted({*effect.changed, *touched})
    ]
    schemas = [
        SchemaVersion(key, name, effect.catalog.schemas.get(name), sql, node, file, position, origin)
        for name in effect.changed_schemas
    ]
    return tables, schemas


def earlier(history: SchemaHistory, floor: OrderKey, done: Mapping[str, OrderKey]) -> SchemaHistory:
    """Return what of a stored history earlier runs have made final: logical below `floor`, each node's up to `done`."""

    def final(version: TableVersion | SchemaVersion) -> bool:
        if version.key == ORIGIN:
            return True
        return version.key < floor if version.node is None else version.key <= done.get(version.node, ORIGIN)

    return SchemaHistory().with_versions(
        (v for v in history.versions if final(v)), (v for v in history.schema_versions if final(v))
    )
