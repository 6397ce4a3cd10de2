"""Apply a statement to a catalog: returns the catalog afterwards, and which tables changed. Where a table or column is
renamed, foreign keys that point at it follow, and names generated from the table's name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from snapshot_store.ddl.actions import ChangeColumn, Convert, RenameColumn, RenameTo
from snapshot_store.ddl.apply.alter import alter_table
from snapshot_store.ddl.apply.create import build_table, copy_table, query_columns
from snapshot_store.ddl.effects import NONE, Effects, effects_of
from snapshot_store.ddl.indexes import renamed_generated
from snapshot_store.ddl.parse.statement import ParsedDdl
from snapshot_store.ddl.resolve import Context, resolve_options, server_charset
from snapshot_store.ddl.statements import (
    AlterSchema,
    AlterTable,
    CreateSchema,
    CreateTable,
    CreateTableLike,
    CreateView,
    DropSchema,
    DropTables,
    DropViews,
    Ignored,
    RenameTables,
    Statement,
    TruncateTable,
)
from snapshot_store.ddl.validate.keys import check_references, check_unreferenced
from snapshot_store.errors import AlreadyExists, UnknownSchema, UnknownTable
from snapshot_store.model import Catalog, Column, ForeignKey, Schema, Table
from snapshot_store.mysql.sql.cursor import TableName
from snapshot_store.mysql.sql.names import folded
from snapshot_store.mysql.sql.session import DdlSession

Name = tuple[str, str]


def rename_table(catalog: Catalog, old: Name, new: Name) -> Catalog:
    """Return the catalog with a table renamed; the table must exist and the new name must be free."""
    table = _with_new_names(catalog.tables[old], new[1])
    keys = []
    for key in table.foreign_keys:
        target = key.target(old[0])
        keys.append(_aimed(key, new if target == old else target, new[0]))
    moved = replace(table, schema=new[0], name=new[1], foreign_keys=tuple(keys))
    catalog = catalog.without_table(*old).with_table(moved)
    for other in list(catalog.tables.values()):
        changed = _retargeted(other, old, new) if other is not moved else other
        if changed != other:
            catalog = catalog.with_table(changed)
    return catalog


def under_name(table: Table, name: Name, aim: Callable[[Name], Name]) -> Table:
    """Return a single table under another name, with the names generated from it.

    `aim` maps the tables that its foreign keys point at to those they are to point at.
    """
    renamed = _with_new_names(table, name[1])
    aimed = tuple(_aimed(key, aim(key.target(table.schema)), name[0]) for key in renamed.foreign_keys)
    return replace(renamed, schema=name[0], name=name[1], foreign_keys=aimed)


def with_folded_names(catalog: Catalog) -> Catalog:
    """Return a catalog as a server with lower_case_table_names=1 has it: its databases and tables in lower case.

    Of two names that differ in case only, the last one stays.
    """

    def fold(name: Name) -> Name:
        return folded(name[0]), folded(name[1])

    tables = (under_name(table, fold(name), fold) for name, table in catalog.tables.items())
    schemas = (replace(schema, name=folded(schema.name)) for schema in catalog.schemas.values())
    return Catalog(
        {schema.name: schema for schema in schemas},
        {(table.schema, table.name): table for table in tables},
        frozenset(map(fold, catalog.views)),
    )


def rename_columns(catalog: Catalog, name: Name, new_names: Mapping[str, str]) -> Catalog:
    """Return the catalog with columns (lower-case old name to new) renamed in all foreign keys that name them."""
    if all(old == new.lower() for old, new in new_names.items()):
        return catalog
    for table in list(catalog.tables.values()):
        keys = tuple(_renamed(table, key, name, new_names) for key in table.foreign_keys)
        if keys != table.foreign_keys:
            catalog = catalog.with_table(replace(table, foreign_keys=keys))
    return catalog


def _renamed(table: Table, key: ForeignKey, name: Name, new_names: Mapping[str, str]) -> ForeignKey:
    if (table.schema, table.name) == name:
        key = replace(key, columns=tuple(new_names.get(c.lower(), c) for c in key.columns))
    if key.target(table.schema) == name:
        key = replace(key, referenced=tuple(new_names.get(c.lower(), c) for c in key.referenced))
    return key


def _with_new_names(table: Table, name: str) -> Table:
    checks = tuple((renamed_generated(n, table.name, name, "chk"), expression) for n, expression in table.checks)
    unenforced = tuple(renamed_generated(n, table.name, name, "chk") for n in table.unenforced)
    keys = tuple(replace(key, name=renamed_generated(key.name, table.name, name, "ibfk")) for key in table.foreign_keys)
    return replace(table, checks=checks, unenforced=unenforced, foreign_keys=keys)


def _retargeted(table: Table, old: Name, new: Name) -> Table:
    keys = tuple(
        _aimed(key, new, table.schema) if key.target(table.schema) == old else key for key in table.foreign_keys
    )
    return replace(table, foreign_keys=keys) if keys != table.foreign_keys else table


def _aimed(key: ForeignKey, target: Name, own_schema: str) -> ForeignKey:
    schema = None if target[0] == own_schema else target[0]
    return replace(key, table=(schema, target[1]))


@dataclass(frozen=True)
class DdlEffect:
    """The result of a statement.

    `changed` are the tables whose definition changed, including created and dropped ones, sorted. `tables` are those
    the statement names, in its order (TRUNCATE names a table and changes none). `effects` is what it does to them and
    to others. `kind` is "CREATE TABLE", "ALTER TABLE", "DROP TABLE", "RENAME TABLE", "TRUNCATE TABLE", "CREATE INDEX",
    "DROP INDEX", "CREATE DATABASE", "ALTER DATABASE", "DROP DATABASE", or "IGNORED" for statements that change no
    table's definition.
    """

    catalog: Catalog
    changed: tuple[Name, ...]
    kind: str
    tables: tuple[Name, ...] = ()
    changed_schemas: tuple[str, ...] = ()
    effects: Effects = NONE


def apply_ddl(catalog: Catalog, sql: str, default_schema: str | None, session: DdlSession | None = None) -> DdlEffect:
    """Apply one statement to a catalog.

    Raises DdlNotUnderstood for text whose effect is not known for certain, and UnknownSchema, UnknownTable,
    UnknownColumn, UnknownIndex or AlreadyExists where the catalog contradicts it, and with `session.validate`
    DdlRejected where a server would refuse it for another reason; no other error. Statements about views, routines,
    users and the like are "IGNORED"; the catalog keeps the names of views.
    """
    return apply_parsed(catalog, ParsedDdl.of(sql, session or DdlSession()), default_schema)


def apply_parsed(catalog: Catalog, ddl: ParsedDdl, default_schema: str | None) -> DdlEffect:
    """Apply one parsed statement to a catalog. Raises what `apply_ddl` raises."""
    statement = ddl.statement
    context = Context(ddl.sql, ddl.session, default_schema)
    try:
        after = _APPLY[type(statement)](context, catalog, statement)
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        # A value beyond what any server accepts, such as a default of five thousand digits.
        raise context.error(f"a value in it cannot be read ({type(error).__name__})") from error
    return DdlEffect(
        after,
        _differences(catalog.tables, after.tables),
        _KINDS.get(type(statement)) or (statement.kind if isinstance(statement, AlterTable) else "IGNORED"),
        tuple(_named(context, name) for name in tables_of(statement)),
        _differences(catalog.schemas, after.schemas),
        effects_of(statement, default_schema or ""),
    )


def _differences(before: Any, after: Any) -> tuple[Any, ...]:
    keys = before.keys() | after.keys() if before is not after else ()
    return tuple(sorted(k for k in keys if _differ(before.get(k), after.get(k))))


def _differ(before: Table | Schema | None, after: Table | Schema | None) -> bool:
    """Return whether two definitions differ in anything, also in what == on tables ignores."""
    if before is after:
        return False
    if isinstance(before, Table) and isinstance(after, Table):
        return before.whole != after.whole
    return before != after


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
            f"table {name[0]}.{name[1]} is not known at this point; import a snapshot of it, or its CREATE TABLE", name
        )
    return table


def _create_table(context: Context, catalog: Catalog, statement: CreateTable | CreateTableLike) -> Catalog:
    name = _named(context, statement.table)
    schema = _schema(context, catalog, name[0])
    like = isinstance(statement, CreateTableLike) and _named(context, statement.like)
    if like and (context.session.validate or not _taken(catalog, name)):
        _base_table(catalog, like)
    if _taken(catalog, name):
        if statement.if_not_exists:
            return catalog
        raise AlreadyExists(f"{_kind(catalog, name)} {name[0]}.{name[1]} exists already")
    if isinstance(statement, CreateTableLike):
        made = copy_table(_base_table(catalog, _named(context, statement.like)), *name)
    else:
        made = build_table(context, statement, schema, _selected(context, catalog, statement))
    return _checked(context, catalog.with_table(made), name)


def _selected(context: Context, catalog: Catalog, statement: CreateTable) -> tuple[Column, ...]:
    query = statement.query
    if query is None:
        return ()
    names = [_named(context, source.table) for source in query.sources]
    for name in names:
        if name in catalog.views:
            raise context.error(f"the query reads the view {name[0]}.{name[1]}, whose columns are not known")
    return query_columns(context, query, [_table(catalog, name) for name in names])


def _checked(context: Context, catalog: Catalog, name: Name, renamed: bool = False) -> Catalog:
    if context.session.validate:
        check_references(context, catalog, name, renamed)
    return catalog


def _taken(catalog: Catalog, name: Name) -> bool:
    return name in catalog.tables or name in catalog.views


def _kind(catalog: Catalog, name: Name) -> str:
    return "view" if name in catalog.views else "table"


def _drop_tables(context: Context, catalog: Catalog, statement: DropTables) -> Catalog:
    names = [_named(context, table) for table in statement.tables]
    context.limit(len(set(names)) == len(names), "a table is named twice")
    check_unreferenced(context, catalog, names, "drop")
    for name in names:
        if not statement.if_exists:
            _table(catalog, name)
        catalog = catalog.without_table(*name)
    return catalog


def _create_view(context: Context, catalog: Catalog, statement: CreateView) -> Catalog:
    name = _named(context, statement.view)
    if context.session.validate:
        _schema(context, catalog, name[0])
    if name in catalog.tables:
        if statement.if_not_exists:
            return catalog
        raise AlreadyExists(f"{name[0]}.{name[1]} is a table, not a view")
    if name in catalog.views:
        context.limit(statement.replaces or statement.if_not_exists, f"view {name[0]}.{name[1]} exists already")
        return catalog
    context.limit(not statement.must_exist, f"there is no view {name[0]}.{name[1]}")
    return catalog.with_view(*name)


def _drop_views(context: Context, catalog: Catalog, statement: DropViews) -> Catalog:
    names = [_named(context, view) for view in statement.views]
    for name in names:
        context.limit(name not in catalog.tables or statement.if_exists, f"{name[0]}.{name[1]} is no view")
        context.limit(name in catalog.views or statement.if_exists, f"there is no view {name[0]}.{name[1]}")
        catalog = catalog.without_view(*name)
    return catalog


def _rename_tables(context: Context, catalog: Catalog, statement: RenameTables) -> Catalog:
    for old, new in statement.pairs:
        if statement.if_exists and not _taken(catalog, _named(context, old)):
            continue
        context.limit(_named(context, old) != _named(context, new), "a table is renamed to its own name")
        catalog = _rename(context, catalog, _named(context, old), _named(context, new))
    return catalog


def _rename(context: Context, catalog: Catalog, old: Name, new: Name) -> Catalog:
    if old not in catalog.views:
        _table(catalog, old)
    _schema(context, catalog, new[0])
    if old == new:
        return catalog
    if _taken(catalog, new):
        raise AlreadyExists(f"{_kind(catalog, new)} {new[0]}.{new[1]} exists already")
    if old in catalog.views:
        context.limit(old[0] == new[0], f"view {old[0]}.{old[1]} cannot move to another database")
        return catalog.without_view(*old).with_view(*new)
    return _checked(context, rename_table(catalog, old, new), new, renamed=True)


def _alter_table(context: Context, catalog: Catalog, statement: AlterTable) -> Catalog:
    name = _named(context, statement.table)
    if statement.if_exists and name not in catalog.tables:
        return catalog
    table = _base_table(catalog, name)
    session_schema = catalog.schemas.get(context.default_schema or "")
    defaults = any(isinstance(action, Convert) and not action.charset for action in statement.actions)
    if defaults and context.default_schema and session_schema is None and not context.session.collation_database:
        raise context.error(
            f"the character set of database {context.default_schema}, which DEFAULT means, is not known"
        )
    after = alter_table(context, table, statement.actions, _schema(context, catalog, name[0]), session_schema)
    if after is not table:
        catalog = catalog.with_table(after)
    renames = {a.old.lower(): a.new for a in statement.actions if isinstance(a, RenameColumn)}
    changes = {a.old.lower(): a.column.name for a in statement.actions if isinstance(a, ChangeColumn)}
    catalog = _checked(context, rename_columns(catalog, name, {**renames, **changes}), name)
    moves = [action for action in statement.actions if isinstance(action, RenameTo)]
    # The last one counts.
    return _rename(context, catalog, name, _named(context, moves[-1].table)) if moves else catalog


def _base_table(catalog: Catalog, name: Name) -> Table:
    if name in catalog.views:
        raise UnknownTable(f"{name[0]}.{name[1]} is a view, not a table")
    return _table(catalog, name)


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
    check_unreferenced(context, catalog, (name for name in catalog.tables if name[0] == statement.name), "drop")
    return catalog.without_schema(statement.name)


def _truncate_table(context: Context, catalog: Catalog, statement: TruncateTable) -> Catalog:
    name = _named(context, statement.table)
    _base_table(catalog, name)
    check_unreferenced(context, catalog, [name], "truncate")
    return catalog


def _nothing(context: Context, catalog: Catalog, statement: Ignored) -> Catalog:
    if statement.schema is not None and context.session.validate:
        _schema(context, catalog, statement.schema)
    return catalog


_APPLY: dict[type[Any], Callable[[Context, Catalog, Any], Catalog]] = {
    CreateTable: _create_table,
    CreateTableLike: _create_table,
    DropTables: _drop_tables,
    RenameTables: _rename_tables,
    AlterTable: _alter_table,
    TruncateTable: _truncate_table,
    CreateView: _create_view,
    DropViews: _drop_views,
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
