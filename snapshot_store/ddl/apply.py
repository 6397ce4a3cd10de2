"""Apply a statement to a catalog: what all tables look like afterwards, and which ones changed."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from snapshot_store.ddl.alter import alter_table
from snapshot_store.ddl.create import build_table, copy_table
from snapshot_store.ddl.cursor import TableName
from snapshot_store.ddl.parse import parse_statement
from snapshot_store.ddl.references import rename_columns, rename_table
from snapshot_store.ddl.resolve import Context, resolve_options, server_charset
from snapshot_store.ddl.session import DdlSession
from snapshot_store.ddl.statements import (
    AlterSchema,
    AlterTable,
    ChangeColumn,
    CreateSchema,
    CreateTable,
    CreateTableLike,
    DropSchema,
    DropTables,
    Ignored,
    RenameColumn,
    RenameTables,
    RenameTo,
    Statement,
    TruncateTable,
)
from snapshot_store.errors import AlreadyExists, UnknownSchema, UnknownTable
from snapshot_store.model import Catalog, Schema, Table

Name = tuple[str, str]


@dataclass(frozen=True)
class DdlEffect:
    """What a statement did.

    `changed` are the tables whose definition is another now, made and dropped ones included, sorted; `tables` are
    those the statement names, in its order (TRUNCATE names a table and changes none). `kind` is "CREATE TABLE",
    "ALTER TABLE", "DROP TABLE", "RENAME TABLE", "TRUNCATE TABLE", "CREATE INDEX", "DROP INDEX", "CREATE DATABASE",
    "ALTER DATABASE", "DROP DATABASE", or "IGNORED" for statements that change no table's shape.
    """

    catalog: Catalog
    changed: tuple[Name, ...]
    kind: str
    tables: tuple[Name, ...] = ()
    changed_schemas: tuple[str, ...] = ()


def apply_ddl(catalog: Catalog, sql: str, default_schema: str | None, session: DdlSession | None = None) -> DdlEffect:
    """Return what one statement makes of a catalog.

    Raises DdlNotUnderstood for text whose effect is not known for certain, and UnknownSchema, UnknownTable,
    UnknownColumn, UnknownIndex or AlreadyExists where the catalog contradicts it; no other error. CREATE, DROP and
    RENAME of a view, routine, user and the like are "IGNORED".
    """
    session = session or DdlSession()
    statement = parse_statement(sql, session)
    context = Context(sql, session, default_schema)
    try:
        after = _APPLY[type(statement)](context, catalog, statement)
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        # A value beyond what any server takes, such as a default of five thousand digits.
        raise context.error(f"a value in it cannot be read ({type(error).__name__})") from error
    return DdlEffect(
        after,
        _differences(catalog.tables, after.tables),
        _KINDS.get(type(statement)) or (statement.kind if isinstance(statement, AlterTable) else "IGNORED"),
        tuple(_named(context, name) for name in tables_of(statement)),
        _differences(catalog.schemas, after.schemas),
    )


def _differences(before: Any, after: Any) -> tuple[Any, ...]:
    keys = before.keys() | after.keys() if before is not after else ()
    return tuple(sorted(k for k in keys if before.get(k) is not after.get(k) and before.get(k) != after.get(k)))


def tables_of(statement: Statement) -> tuple[TableName, ...]:
    """Return the tables a statement names, as written."""
    if isinstance(statement, RenameTables):
        return tuple(name for pair in statement.pairs for name in pair)
    if isinstance(statement, DropTables):
        return statement.tables
    if isinstance(statement, CreateTableLike):
        return (statement.table, statement.like)
    if isinstance(statement, AlterTable):
        return (statement.table, *(a.table for a in statement.actions if isinstance(a, RenameTo)))
    return (statement.table,) if isinstance(statement, CreateTable | TruncateTable) else ()


def _named(context: Context, name: TableName) -> Name:
    schema = name[0] or context.default_schema
    if schema is None:
        raise context.error(f"no default database, and {name[1]} is named without one")
    return (schema, name[1])


def _schema(context: Context, catalog: Catalog, name: str) -> Schema:
    schema = catalog.schemas.get(name)
    if schema is None:
        raise UnknownSchema(
            f"schema {name} is not known at this point; import a snapshot of it, or its CREATE DATABASE"
        )
    return schema


def _table(catalog: Catalog, name: Name) -> Table:
    table = catalog.tables.get(name)
    if table is None:
        raise UnknownTable(
            f"table {name[0]}.{name[1]} is not known at this point; import a snapshot of it, or its CREATE TABLE"
        )
    return table


def _create_table(context: Context, catalog: Catalog, statement: CreateTable | CreateTableLike) -> Catalog:
    schema_name, name = _named(context, statement.table)
    schema = _schema(context, catalog, schema_name)
    if catalog.get(schema_name, name) is not None:
        if statement.if_not_exists:
            return catalog
        raise AlreadyExists(f"table {schema_name}.{name} exists already")
    if isinstance(statement, CreateTableLike):
        source = _table(catalog, _named(context, statement.like))
        return catalog.with_table(copy_table(source, schema_name, name))
    return catalog.with_table(build_table(context, statement, schema))


def _drop_tables(context: Context, catalog: Catalog, statement: DropTables) -> Catalog:
    names = [_named(context, table) for table in statement.tables]
    for name in names:
        if not statement.if_exists:
            _table(catalog, name)
        catalog = catalog.without_table(*name)
    return catalog


def _rename_tables(context: Context, catalog: Catalog, statement: RenameTables) -> Catalog:
    for old, new in statement.pairs:
        catalog = _rename(context, catalog, _named(context, old), _named(context, new))
    return catalog


def _rename(context: Context, catalog: Catalog, old: Name, new: Name) -> Catalog:
    _table(catalog, old)
    _schema(context, catalog, new[0])
    if old == new:
        return catalog
    if new in catalog.tables:
        raise AlreadyExists(f"table {new[0]}.{new[1]} exists already")
    return rename_table(catalog, old, new)


def _alter_table(context: Context, catalog: Catalog, statement: AlterTable) -> Catalog:
    name = _named(context, statement.table)
    table = _table(catalog, name)
    after = alter_table(context, table, statement.actions, _schema(context, catalog, name[0]))
    if after != table:
        catalog = catalog.with_table(after)
    renames = {a.old.lower(): a.new for a in statement.actions if isinstance(a, RenameColumn)}
    changes = {a.old.lower(): a.column.name for a in statement.actions if isinstance(a, ChangeColumn)}
    catalog = rename_columns(catalog, name, {**renames, **changes})
    for action in statement.actions:
        if isinstance(action, RenameTo):
            catalog = _rename(context, catalog, name, _named(context, action.table))
    return catalog


def _create_schema(context: Context, catalog: Catalog, statement: CreateSchema) -> Catalog:
    if statement.name in catalog.schemas:
        if statement.if_not_exists:
            return catalog
        raise AlreadyExists(f"schema {statement.name} exists already")
    server = server_charset(context)
    return catalog.with_schema(Schema(statement.name, *resolve_options(context, statement.options, server)))


def _alter_schema(context: Context, catalog: Catalog, statement: AlterSchema) -> Catalog:
    name = statement.name or context.default_schema
    if name is None:
        raise context.error("no default database, and none is named")
    schema = _schema(context, catalog, name)
    charset = resolve_options(context, statement.options, (schema.charset, schema.collation))
    return catalog.with_schema(replace(schema, charset=charset[0], collation=charset[1]))


def _drop_schema(context: Context, catalog: Catalog, statement: DropSchema) -> Catalog:
    if not statement.if_exists:
        _schema(context, catalog, statement.name)
    return catalog.without_schema(statement.name)


def _truncate_table(context: Context, catalog: Catalog, statement: TruncateTable) -> Catalog:
    _table(catalog, _named(context, statement.table))
    return catalog


def _nothing(context: Context, catalog: Catalog, statement: Ignored) -> Catalog:
    return catalog


_APPLY: dict[type[Any], Callable[[Context, Catalog, Any], Catalog]] = {
    CreateTable: _create_table,
    CreateTableLike: _create_table,
    DropTables: _drop_tables,
    RenameTables: _rename_tables,
    AlterTable: _alter_table,
    TruncateTable: _truncate_table,
    CreateSchema: _create_schema,
    AlterSchema: _alter_schema,
    DropSchema: _drop_schema,
    Ignored: _nothing,
}
_KINDS: dict[type[Any], str] = {
    CreateTable: "CREATE TABLE",
    CreateTableLike: "CREATE TABLE",
    DropTables: "DROP TABLE",
    RenameTables: "RENAME TABLE",
    TruncateTable: "TRUNCATE TABLE",
    CreateSchema: "CREATE DATABASE",
    AlterSchema: "ALTER DATABASE",
    DropSchema: "DROP DATABASE",
}
