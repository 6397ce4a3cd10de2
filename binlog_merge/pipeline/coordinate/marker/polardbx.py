"""Converts PolarDB-X's DDL markers to MySQL's DDL, and its snapshots to schema versions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from binlog_merge.binlog.query_session import SessionVariables, ddl_session
from binlog_merge.errors import DdlNotUnderstoodError
from binlog_merge.pipeline.base.render_values import LogicalDdl
from binlog_merge.pipeline.coordinate.marker.cluster import Cluster, MessageOutcome, charset_of_database, collation_of
from binlog_merge.pipeline.coordinate.marker.markers import PROTECTED, MarkerCopy, SyncPoint
from binlog_merge.pipeline.coordinate.marker.sightings import Convert, plain
from binlog_merge.pipeline.coordinate.statements import is_schema_ddl
from binlog_merge.polardbx.ddl.convert import has_private_syntax
from binlog_merge.polardbx.ddl.markers import DdlMarker, PrivateForm, convert_create, convert_ddl
from binlog_merge.polardbx.meta import DatabaseMeta, Extension, TableMeta, TableType
from binlog_merge.polardbx.names import IMPLICIT_KEY
from snapshot_store.ddl import DdlSession, apply_ddl
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.history import SchemaVersion, TableVersion
from snapshot_store.model import Catalog, Schema, Table
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.mysql.sql.session import SQL_MODES
from snapshot_store.tso import OrderKey

_KEPT = "_drds_implicit_id_kept_"  # a name that the conversion to MySQL does not remove


def sql_mode_number(text: str | None) -> int | None:
    """Return sql_mode from EXT, which has it as a number or as names; names that MySQL 8 dropped are ignored."""
    if text is None:
        return None
    if text.strip().isdigit():
        return int(text)
    return sum(SQL_MODES.get(name, 0) for name in {part.strip().upper() for part in text.split(",")})


class PolarDbXConvert(Protocol):
    """A `place.Convert` that also takes index names: see `converter`."""

    def __call__(
        self, key: OrderKey, outcome: MessageOutcome, copy: MarkerCopy, indexes: frozenset[str] | None = None
    ) -> LogicalDdl | None: ...


def converter(cluster: Cluster, private: PrivateForm, server_version: int) -> PolarDbXConvert:
    """Return the function that converts a marker to the DDL that comes out, in both its forms.

    The function also takes the names of the table's indexes before the statement, if they are known.
    """

    def convert(
        key: OrderKey, outcome: MessageOutcome, copy: MarkerCopy, indexes: frozenset[str] | None = None
    ) -> LogicalDdl | None:
        marker = _marker(key, outcome, cluster)
        if marker is None:
            return None
        given = sql_mode_number(marker.ext.sql_mode)
        mode = copy.session.sql_mode if given is None else given
        flags = copy.session.flags2 if marker.ext.flags2 is None else marker.ext.flags2
        variables = replace(copy.session, sql_mode=mode, flags2=flags)
        session = ddl_session(variables, server_version)
        event = convert_ddl(marker, private, session=session, indexes=indexes)
        if event.text is None:
            return None
        return LogicalDdl(
            key,
            marker.schema.lower(),
            event.mysql_sql or "",
            variables,
            event.mysql is not None and is_schema_ddl(event.mysql),
            text=event.text,
            server_id=marker.ext.server_id,
            rows_query=event.rows_query,
            parsed=event.mysql,
        )

    return convert


def strange(private: PrivateForm, server_version: int) -> Convert:
    """Return the function that converts a marker to the DDL that comes out, for nodes that are not PolarDB-X's.

    A statement comes out as it is, unless it has syntax that only PolarDB-X knows.
    """

    def convert(key: OrderKey, outcome: MessageOutcome, copy: MarkerCopy) -> LogicalDdl | None:
        ddl = plain(key, outcome, copy, server_version)
        if ddl is None or outcome.marker is None:
            return None
        session = ddl_session(ddl.session, server_version)
        if not has_private_syntax(ddl.sql, session):
            return ddl
        marker = outcome.marker
        written = DdlMarker(marker.kind, marker.schema, marker.table, marker.sql, marker.visibility, Extension(), key)
        event = convert_ddl(written, private, session=session, lower_names=False)
        if event.text is None:
            return None
        about_schema = event.mysql is not None and is_schema_ddl(event.mysql)
        return replace(
            ddl, sql=event.mysql_sql or "", text=event.text, rows_query=event.rows_query, suppress_use=about_schema,
            parsed=event.mysql,
        )  # fmt: skip

    return convert


def _marker(key: OrderKey, outcome: MessageOutcome, cluster: Cluster) -> DdlMarker | None:
    if outcome.sync_point:
        # PolarDB-X's replicas recognize it by its schema and its text.
        return DdlMarker("SYNC_POINT", "polardbx", None, SyncPoint("").sql, PROTECTED, Extension(), key)
    if outcome.marker is None:
        return None
    marker = outcome.marker
    databases = {} if cluster.places is None else cluster.places.state.databases
    return DdlMarker(
        marker.kind,
        marker.schema,
        marker.table,
        marker.sql,
        marker.visibility,
        outcome.ext,
        key,
        collation_of(outcome.meta),
        charset_of_database(outcome.meta, databases, marker.schema),
    )


@dataclass(frozen=True, slots=True)
class Shapes:
    """The shapes in a snapshot: of databases, of logical tables, and of physical tables as (node, table)."""

    key: OrderKey
    schemas: tuple[Schema, ...]
    logical: tuple[Table, ...]
    physical: tuple[tuple[str, Table], ...]

    def logical_versions(self, known: Catalog) -> tuple[list[TableVersion], list[SchemaVersion]]:
        """Return versions of the logical tables and databases that are not in `known` yet."""
        tables = [t for t in self.logical if known.get(t.schema, t.name) is None]
        schemas = [s for s in self.schemas if s.name not in known.schemas]
        return (
            [TableVersion(self.key, 0, t.schema, t.name, t, origin="marker") for t in tables],
            [SchemaVersion(self.key, s.name, s, origin="marker") for s in schemas],
        )

    def physical_versions(self, node: str, known: Catalog) -> list[TableVersion]:
        """Return versions of a node's tables that are not in `known` yet."""
        tables = [t for n, t in self.physical if n == node and known.get(t.schema, t.name) is None]
        return [TableVersion(self.key, 0, t.schema, t.name, t, node=node, origin="marker") for t in tables]


def shapes_of(
    key: OrderKey, databases: Sequence[DatabaseMeta], nodes: Mapping[str, str], server_version: int
) -> Shapes:
    """Return the shapes in a snapshot; `nodes` maps storage instances to nodes.

    Raises DdlNotUnderstoodError for a table's SQL that cannot be parsed.
    """
    session = ddl_session(SessionVariables(), server_version)
    schemas, logical, physical = list[Schema](), list[Table](), list[tuple[str, Table]]()
    for database in databases:
        schema = _schema(database, session)
        schemas.append(schema)
        for meta in database.tables:
            if meta.create_sql is None or meta.type is TableType.GSI:
                continue
            try:
                table = _table(schema, meta, convert_create(meta.create_sql, meta.collation, session=session), session)
                stored = _stored(schema, meta, table, session)
            except SnapshotStoreError as error:
                raise DdlNotUnderstoodError(
                    f"the snapshot's table {database.name}.{meta.name}, {meta.create_sql[:300]!r}: {error}",
                    order_key=key,
                ) from None
            logical.append(table)
            physical += _copies(meta, stored, nodes)
    return Shapes(key, tuple(schemas), tuple(logical), tuple(physical))


def _schema(database: DatabaseMeta, session: DdlSession) -> Schema:
    if database.charset is None:
        return Schema(database.name, session.charset_server, session.collation_server)
    try:
        sql = f"CREATE DATABASE {quote_name(database.name)} CHARACTER SET {database.charset}"
        return apply_ddl(Catalog(), sql, None, session).catalog.schemas[database.name]
    except SnapshotStoreError:
        return Schema(database.name, session.charset_server, session.collation_server)


def _table(schema: Schema, meta: TableMeta, sql: str, session: DdlSession) -> Table:
    effect = apply_ddl(Catalog({schema.name: schema}), sql, schema.name, session)
    return next(iter(effect.catalog.tables.values())).renamed(schema.name, meta.name)


def _stored(schema: Schema, meta: TableMeta, logical: Table, session: DdlSession) -> Table:
    """Return the shape of the physical tables.

    They keep the key that the cluster adds to tables without one, and sometimes have their columns in another order.
    """
    sql = meta.create_sql_for_physical or meta.create_sql or ""
    if meta.create_sql_for_physical is None and IMPLICIT_KEY not in sql.lower():
        return logical
    kept = _replaced(sql, IMPLICIT_KEY, _KEPT)
    table = _table(schema, meta, convert_create(kept, meta.collation, session=session), session)
    columns = tuple(replace(c, name=IMPLICIT_KEY) if c.name.lower() == _KEPT else c for c in table.columns)
    indexes = tuple(
        replace(i, parts=tuple(replace(p, column=IMPLICIT_KEY) if p.column == _KEPT else p for p in i.parts))
        for i in table.indexes
    )
    return replace(table, columns=columns, indexes=indexes)


def _replaced(sql: str, word: str, by: str) -> str:
    at = sql.lower().find(word)
    while at >= 0:
        sql = sql[:at] + by + sql[at + len(word) :]
        at = sql.lower().find(word, at + len(by))
    return sql


def _copies(meta: TableMeta, stored: Table, nodes: Mapping[str, str]) -> Iterator[tuple[str, Table]]:
    for placement in meta.placements:
        node = nodes.get(placement.storage)
        for name in placement.tables if node is not None else ():
            yield node or "", stored.renamed(placement.schema, name)
