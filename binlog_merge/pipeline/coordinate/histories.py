"""Both schema histories of a run: the versions of each table that base schemas, the nodes' DDL and the logical DDL
make.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from binlog_merge.binlog.query_session import SessionVariables
from binlog_merge.errors import DdlNotUnderstoodError, MergeError, UnsupportedInput
from binlog_merge.pipeline.base.render_values import LogicalDdl
from binlog_merge.pipeline.coordinate.remedies import HistoryCursor, opaque_versions
from binlog_merge.pipeline.coordinate.shards.optimistic.doubts import depends_on_moment
from binlog_merge.pipeline.coordinate.statements import (
    LEFT_OUT_DATABASES,
    NO_EFFECT,
    NO_TABLE,
    PARTLY_LEFT_OUT,
    UNKNOWN_TABLE,
    VIEW,
    NotCarried,
    Subject,
    kind_of,
    subject_of,
    without_left_out,
)
from snapshot_store.ddl import DdlEffect, DdlSession, ParsedDdl, apply_parsed
from snapshot_store.ddl.conditions import settled
from snapshot_store.ddl.effects import Effects, Name, Verb, effects_of
from snapshot_store.errors import (
    AmbiguousRoute,
    BeforeBase,
    DdlNotUnderstood,
    SnapshotStoreError,
    UnknownSchema,
    UnknownTable,
)
from snapshot_store.history import OPAQUE, SchemaHistory, SchemaVersion, TableVersion
from snapshot_store.model import Catalog, Schema, Table
from snapshot_store.render_sql import in_session
from snapshot_store.topology import Topology
from snapshot_store.tso import ORIGIN, OrderKey

_AFTER_BASE = OrderKey(0, 0, 1, 0)


@dataclass(frozen=True, slots=True)
class PhysicalDdl:
    """A DDL that a node ran: its key and position, default schema, parsed statement, and session variables."""

    key: OrderKey
    file: str
    position: int
    schema: str | None
    parsed: ParsedDdl
    variables: SessionVariables = field(default_factory=SessionVariables)

    @property
    def sql(self) -> str:
        """Return the statement's text."""
        return self.parsed.sql

    @property
    def session(self) -> DdlSession:
        """Return the session in which the statement is parsed."""
        return self.parsed.session

    def effects(self) -> Effects:
        """Return the statement's effects on tables. Raises DdlNotUnderstood."""
        return effects_of(self.parsed.statement, self.schema or "")


@dataclass(frozen=True, slots=True)
class Applied:
    """A DDL that was applied: the node's catalog before it, as far as the statement needs it, and its effect."""

    ddl: PhysicalDdl
    before: Catalog
    effect: DdlEffect


@dataclass(frozen=True, slots=True)
class Extended:
    """New versions, statements that were skipped, and, if a statement stopped it, the key below which all is
    understood.

    `notes` are warnings about statements handled without being understood. `tables` are those named by the statement
    that stopped it. Of a node's DDL: `applied`, `passed` are skipped as tables are unknown, each with the first of
    these, and `opaque` are those after which only table maps describe the tables.
    """

    versions: tuple[TableVersion, ...]
    schemas: tuple[SchemaVersion, ...]
    ignored: tuple[NotCarried, ...] = ()
    stopped: OrderKey | None = None
    error: MergeError | None = None
    notes: tuple[str, ...] = ()
    tables: tuple[tuple[str, str], ...] = ()
    applied: tuple[Applied, ...] = ()
    passed: tuple[tuple[PhysicalDdl, Name | None], ...] = ()
    opaque: tuple[PhysicalDdl, ...] = ()


def base_versions(catalog: Catalog, node: str | None, file: str) -> tuple[list[TableVersion], list[SchemaVersion]]:
    """Return the versions of a base schema, at the origin."""
    tables = [
        TableVersion(ORIGIN, 0, t.schema, t.name, t, node=node, file=file, origin="base")
        for t in catalog.tables.values()
    ]
    schemas = [SchemaVersion(ORIGIN, s.name, s, node=node, file=file, origin="base") for s in catalog.schemas.values()]
    return tables, schemas


def extend_logical(cursor: HistoryCursor, ddls: Iterable[LogicalDdl], server_version: int) -> Extended:
    """Apply logical DDL in order to the logical history; stops at the first that is not understood and has no
    remedy.
    """
    versions: list[TableVersion] = []
    schemas: list[SchemaVersion] = []
    notes: list[str] = []
    for ddl in ddls:
        cursor.reach(ddl.key)
        parsed = ddl.read(server_version)
        session = parsed.session
        made = TableVersion(ddl.key, 0, "", "", None, ddl.sql, origin=ddl.origin)
        if (problem := _with_a_file(ddl, parsed)) is not None:
            return Extended(tuple(versions), tuple(schemas), (), ddl.key, problem, tuple(notes))
        if ddl.schema and ddl.schema not in cursor.catalog.schemas and not ddl.suppress_use:
            cursor.catalog = cursor.catalog.with_schema(
                Schema(ddl.schema, session.charset_server, session.collation_server)
            )
        try:
            effect = apply_parsed(cursor.catalog, parsed, ddl.schema or None)
        except SnapshotStoreError as error:
            subject = subject_of(parsed, ddl.schema or None)
            if not _remedied(cursor, made, subject, versions, notes):
                unknown = DdlNotUnderstoodError(
                    f"logical DDL {ddl.sql[:300]!r}: {error}",
                    order_key=ddl.key,
                    remedy=remedy_of(ddl.key, None, subject),
                )
                return Extended(tuple(versions), tuple(schemas), (), ddl.key, unknown, tuple(notes), subject.tables)
            continue
        if ddl.session.timestamp is None:
            notes += _of_their_own_moment(ddl, cursor.catalog, effect)
        new_tables, new_schemas = _versions(effect, cursor, made, _touched(effect))
        versions += new_tables
        schemas += new_schemas
    return Extended(tuple(versions), tuple(schemas), notes=tuple(notes))


def _of_their_own_moment(ddl: LogicalDdl, before: Catalog, effect: DdlEffect) -> Iterator[str]:
    """Yield warnings for new columns whose values in existing rows depend on the time at which the statement runs.

    Markers do not record that time.
    """
    for name in sorted(effect.changed):
        was, now = before.get(*name), effect.catalog.get(*name)
        if was is None or now is None:
            continue
        for column in now.columns:
            if was.index_of(column.name) is None and column.generated is None and depends_on_moment(column):
                yield (
                    f"{'.'.join(name)}: rows that are there get a value in {column.name} by {ddl.sql[:200]!r} that "
                    f"depends on when and where it runs; on the nodes they have others (order key {ddl.key.text()})"
                )


def _with_a_file(ddl: LogicalDdl, parsed: ParsedDdl) -> MergeError | None:
    """Return the error for a statement that removes or adds rows with a tablespace file, which is in no binlog."""
    if "TABLESPACE" not in ddl.sql.upper():
        return None
    try:
        found = effects_of(parsed.statement, ddl.schema or "").having(Verb.FILE)
    except SnapshotStoreError:
        return None  # applying the statement reports it
    if not found:
        return None
    return UnsupportedInput(
        f"logical DDL {ddl.sql[:300]!r}: rows of {'.'.join(found[0])} go or come with a file, and the binlog has none",
        order_key=ddl.key,
        remedy="merge up to it (--stop-tso), bring the target's rows to what the nodes have, and begin anew after it",
    )


def extend_physical(
    history: SchemaHistory, cursor: HistoryCursor, node: str, ddls: Iterable[PhysicalDdl], topology: Topology
) -> Extended:
    """Apply a node's DDL in order to its history; stops at the first on one of our tables that has no remedy.

    A table that no base schema has takes the shape of the logical base through the routes. DDL on a table that is
    unknown there too is skipped and listed: such a table is described by its table maps only. Of a statement that also
    names tables of databases that are left out, the rest is applied.
    """
    versions: list[TableVersion] = []
    schemas: list[SchemaVersion] = []
    ignored: list[NotCarried] = []
    notes: list[str] = []
    applied: list[Applied] = []
    passed: list[tuple[PhysicalDdl, Name | None]] = []
    opaque: list[PhysicalDdl] = []
    for ddl in ddls:
        cursor.reach(ddl.key)
        made = TableVersion(ddl.key, 0, "", "", None, ddl.sql, node, ddl.file, ddl.position, "ddl")
        try:
            left_out = _left_out(ddl, topology)
            if not _concerns_us(ddl, cursor.catalog, topology):
                ignored.append(_not_carried(node, ddl, LEFT_OUT_DATABASES))
                continue
            unknown = _unknown_database(history, cursor.catalog, node, ddl, topology)
            if unknown is not None:
                left_out = f"{UNKNOWN_TABLE}: those of {unknown.name}"
                cursor.catalog = cursor.catalog.with_schema(unknown)
            cursor.catalog = _known_tables(history, cursor.catalog, node, ddl, topology)
            bare = settled(ddl.parsed, cursor.catalog, ddl.schema)
            if bare is None:
                ignored.append(_not_carried(node, ddl, NO_EFFECT))
                continue
            ddl, made = replace(ddl, parsed=bare), replace(made, ddl=bare.sql)
            effect = _of_strangers(ddl, cursor.catalog, topology) or apply_parsed(
                cursor.catalog, _ours(ddl, cursor.catalog, topology), ddl.schema
            )
        except (UnknownTable, UnknownSchema) as error:
            ignored.append(_not_carried(node, ddl, f"{UNKNOWN_TABLE}: {error}"))
            passed.append((ddl, error.name if isinstance(error, UnknownTable) else None))
            continue
        except SnapshotStoreError as error:
            subject = subject_of(ddl.parsed, ddl.schema)
            if subject.tables and all(topology.is_ignored(schema) for schema, _ in subject.tables):
                ignored.append(_not_carried(node, ddl, LEFT_OUT_DATABASES))
            elif _remedied(cursor, made, subject, versions, notes):
                given = cursor.applied(ddl.key, subject)
                applied += [Applied(_given(ddl, sql), before, effect) for sql, before, effect in given]
                opaque += [] if given else [ddl]
            else:
                problem = DdlNotUnderstoodError(
                    f"DDL {ddl.sql[:300]!r}: {_reason(error)}",
                    node=node,
                    file=ddl.file,
                    position=ddl.position,
                    order_key=ddl.key,
                    remedy=remedy_of(ddl.key, node, subject),
                )
                return Extended(
                    tuple(versions), tuple(schemas), tuple(ignored), ddl.key, problem, tuple(notes), subject.tables,
                    tuple(applied), tuple(passed), tuple(opaque),
                )  # fmt: skip
            continue
        why = _why_not_carried(effect, cursor.catalog) or left_out
        ignored += [] if why is None else [_not_carried(node, ddl, why)]
        applied.append(Applied(ddl, cursor.catalog, effect))
        new_tables, new_schemas = _versions(effect, cursor, made)
        versions += new_tables
        schemas += new_schemas
    return Extended(
        tuple(versions), tuple(schemas), tuple(ignored), notes=tuple(notes), applied=tuple(applied),
        passed=tuple(passed), opaque=tuple(opaque),
    )  # fmt: skip


def _not_carried(node: str, ddl: PhysicalDdl, why: str) -> NotCarried:
    return NotCarried(node, ddl.file, ddl.position, ddl.sql, kind_of(ddl.parsed), why)


def _why_not_carried(effect: DdlEffect, before: Catalog) -> str | None:
    """Return why an applied statement is never part of the output, in any mode of coordination; None if it may be."""
    if any(name in before.views or name in effect.catalog.views for name in effect.effects.changed):
        return VIEW
    if effect.kind != "IGNORED":
        return None
    return VIEW if effect.effects.all else NO_TABLE


def _remedied(
    cursor: HistoryCursor, made: TableVersion, subject: Subject, versions: list[TableVersion], notes: list[str]
) -> bool:
    """Apply the operator's remedy for a statement that is not understood. Returns False if there is none."""
    names = cursor.without_understanding(made.key, subject)
    if names is None:
        return False
    new = opaque_versions(names, cursor.catalog, made)
    versions += new
    if new:
        where = f"{made.file}:{made.position}" if made.file else f"order key {made.key.text()}"
        tables = ", ".join(f"{v.schema}.{v.name}" for v in new)
        notes.append(f"a DDL is not understood ({where}): from there on table maps say what {tables} is")
    return True


def remedy_of(key: OrderKey, node: str | None, subject: Subject) -> str:
    """Return the remedy text for a statement that is not understood."""
    names = [".".join(name) for name in subject.tables] or ["TABLE"]
    where = f" --node {node}" if node else ""
    options = f"--merged DIR{where} --at-tso {key.text()}"
    policy = "; or set `schemas.not-understood: opaque`, then table maps say the shape" if subject.tables else ""
    return (
        f"say what it does, `binlog-merge schema set {names[0]} --sql FILE {options}` (FILE: the table's CREATE TABLE "
        f"from then on); or take it from the server, `binlog-merge schema import --server URL {options}`{policy}; "
        "then merge again"
    )


def _reason(error: SnapshotStoreError) -> str:
    return f"not understood: {error.reason}" if isinstance(error, DdlNotUnderstood) else str(error)


def logical_base(history: SchemaHistory, name: tuple[str, str]) -> Table | None:
    """Return a logical table as it was at the beginning of the binlogs, None if that is unknown or no longer stored."""
    try:
        base = history.at(*name, _AFTER_BASE)
    except BeforeBase:
        return None
    return base.table if base is not None and base.key == ORIGIN else None


def _known_tables(history: SchemaHistory, catalog: Catalog, node: str, ddl: PhysicalDdl, topology: Topology) -> Catalog:
    """Return the catalog with the schemas and tables that a statement names, taken from the logical base if it has
    them.
    """
    effects = ddl.effects()
    copied = effects.others(Verb.COPY_SHAPE, Verb.COPY_ROWS)
    made = effects.having(Verb.MAKE)
    for schema, name in effects.tables:
        if not schema or not name:
            continue
        if schema not in catalog.schemas:
            catalog = catalog.with_schema(Schema(schema, ddl.session.charset_server, ddl.session.collation_server))
        # Tables that are only referenced by a foreign key or a view are not needed.
        asked = (schema, name) in copied or ((schema, name) in effects.changed and (schema, name) not in made)
        if not asked or catalog.get(schema, name) is not None:
            continue
        logical = topology.logical_name(node, schema, name)
        base = logical_base(history, logical) if logical else None
        if base is not None:
            catalog = catalog.with_table(base.renamed(schema, name))
    return catalog


def _unknown_database(
    history: SchemaHistory, catalog: Catalog, node: str, ddl: PhysicalDdl, topology: Topology
) -> Schema | None:
    """Return a database that a statement drops and the node's history lacks, if logical tables may have rows in it.

    It was there before the binlogs begin, so that the statement is not one on somebody else's.
    """
    for schema, name in ddl.effects().having(Verb.DROP):
        if name or schema in catalog.schemas:
            continue
        with suppress(AmbiguousRoute):  # routing the rows raises it
            for logical in history.names():
                version = history.at(*logical, ddl.key)
                there = version is not None and (version.table is not None or version.opaque)
                if there and topology.may_hold(node, schema, logical) is not None:
                    return Schema(schema, ddl.session.charset_server, ddl.session.collation_server)
    return None


def _given(ddl: PhysicalDdl, sql: str) -> PhysicalDdl:
    """Return a statement with the text of a given definition, which is rendered, in its place."""
    return replace(ddl, parsed=ParsedDdl.of(in_session(sql, ddl.session), ddl.session))


def _left_out(ddl: PhysicalDdl, topology: Topology) -> str | None:
    """Return why a statement on tables in ignored schemas is not part of the output, or only in part."""
    names = [name for name in ddl.effects().changed if name[1]]
    ignored = [name for name in names if topology.is_ignored(name[0])]
    if not ignored:
        return None
    return LEFT_OUT_DATABASES if len(ignored) == len(names) else PARTLY_LEFT_OUT


def _concerns_us(ddl: PhysicalDdl, catalog: Catalog, topology: Topology) -> bool:
    """Return whether a statement may change a table that is known: False if all its tables are unknown and in ignored
    schemas.
    """
    names = [name for name in ddl.effects().tables if name[1]]
    return not names or not all(_is_stranger(name, catalog, topology) for name in names)


def _is_stranger(name: Name, catalog: Catalog, topology: Topology) -> bool:
    """Return whether a table is in an ignored schema and has never been one of ours."""
    return topology.is_ignored(name[0]) and name not in catalog.tables and name not in catalog.views


def _ours(ddl: PhysicalDdl, catalog: Catalog, topology: Topology) -> ParsedDdl:
    """Return a statement without the unknown tables in ignored schemas that it drops or renames."""
    statement = ddl.parsed.statement
    ours = without_left_out(statement, ddl.effects(), partial(_is_stranger, catalog=catalog, topology=topology))
    return ddl.parsed if ours == statement else replace(ddl.parsed, result=ours)


def _of_strangers(ddl: PhysicalDdl, catalog: Catalog, topology: Topology) -> DdlEffect | None:
    """Return the effect, which changes no shape, of an EXCHANGE PARTITION on an ignored and hence unknown table."""
    effects = ddl.effects()
    parted = effects.having(Verb.EXCHANGE)
    if not parted or not all(topology.is_ignored(schema) for schema, _ in parted):
        return None
    return DdlEffect(catalog, (), "ALTER TABLE", effects.own, (), effects)


def _touched(effect: DdlEffect) -> tuple[tuple[str, str], ...]:
    """Return the table that gets a new table id, as on a MySQL server, even if its shape does not change."""
    if effect.kind in ("ALTER TABLE", "TRUNCATE TABLE", "CREATE INDEX", "DROP INDEX") and effect.tables:
        return tuple(t for t in effect.tables[:1] if effect.catalog.get(*t) is not None)
    return ()


def _versions(
    effect: DdlEffect, cursor: HistoryCursor, made: TableVersion, touched: tuple[tuple[str, str], ...] = ()
) -> tuple[list[TableVersion], list[SchemaVersion]]:
    """Return the versions that a statement makes, and move the cursor past it; `made` has its key, text and
    position.
    """
    given = cursor.given_at(made.key)
    opaque = cursor.take(effect)
    tables = [
        replace(
            made,
            schema=schema,
            name=name,
            table=effect.catalog.get(schema, name),
            origin=OPAQUE if (schema, name) in opaque else made.origin,
        )
        for schema, name in sorted({*effect.changed, *touched} - given)
    ]
    schemas = [
        SchemaVersion(
            made.key, name, effect.catalog.schemas.get(name), made.ddl, made.node, made.file, made.position, made.origin
        )
        for name in effect.changed_schemas
    ]
    return tables, schemas
