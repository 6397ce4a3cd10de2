"""CREATE TABLE: a table from its definition, or from another table."""

from dataclasses import replace

from snapshot_store.ddl.indexes import (
    add_checks,
    add_foreign_keys,
    build_indexes,
    with_primary_key,
)
from snapshot_store.ddl.resolve import Context, resolve_column, resolve_options
from snapshot_store.ddl.statements import CheckSpec, ColumnSpec, Constraint, CreateTable, ForeignKeySpec, KeySpec
from snapshot_store.errors import AlreadyExists
from snapshot_store.model import Column, Default, Schema, Table

_ENGINES = {
    "innodb": "InnoDB",
    "memory": "MEMORY",
    "heap": "MEMORY",
    "myisam": "MyISAM",
    "csv": "CSV",
    "archive": "ARCHIVE",
    "blackhole": "BLACKHOLE",
    "federated": "FEDERATED",
    "merge": "MRG_MYISAM",
    "mrg_myisam": "MRG_MYISAM",
    "ndb": "ndbcluster",
    "ndbcluster": "ndbcluster",
}


def canonical_engine(name: str) -> str:
    """Return an engine's name as the server shows it; one we do not know stays as written."""
    return _ENGINES.get(name.lower(), name)


def build_table(context: Context, statement: CreateTable, schema: Schema) -> Table:
    """Return the table that a CREATE TABLE makes in a schema."""
    name, options = statement.table[1], statement.options
    inherited = (schema.charset, schema.collation)
    charset = resolve_options(context, options, inherited)
    specs = [item for item in statement.items if isinstance(item, ColumnSpec)]
    columns = tuple(resolve_column(context, spec, charset) for spec in specs)
    if not columns:
        raise context.error("a table without columns")
    check_names(columns, name)
    if not context.session.explicit_defaults_for_timestamp:
        columns = with_implicit_timestamps(columns)
    table = Table(
        schema.name,
        name,
        columns,
        charset=charset[0],
        collation=charset[1],
        engine=canonical_engine(options.engine or context.session.default_storage_engine),
        comment=options.comment or "",
    )
    return with_constraints(table, constraints_of(statement.items))


def check_names(columns: tuple[Column, ...], table: str) -> None:
    """Raise AlreadyExists if two columns have one name."""
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise AlreadyExists(f"table {table} has a column {column.name} already")
        seen.add(column.name.lower())


def constraints_of(items: tuple[ColumnSpec | Constraint, ...]) -> list[Constraint]:
    """Return all constraints in the order written, those inside columns included."""
    found: list[Constraint] = []
    for item in items:
        found += item.constraints if isinstance(item, ColumnSpec) else [item]
    return found


def with_constraints(table: Table, constraints: list[Constraint]) -> Table:
    """Return the table with keys, checks and foreign keys added, and what they entail."""
    keys = [c for c in constraints if isinstance(c, KeySpec | ForeignKeySpec)]
    indexes = build_indexes(table.indexes, keys, table.columns, table.name, table.engine)
    checks = add_checks(table.checks, (c for c in constraints if isinstance(c, CheckSpec)), table.name)
    foreign = [c for c in constraints if isinstance(c, ForeignKeySpec)]
    return replace(
        table,
        columns=with_primary_key(table.columns, indexes),
        indexes=indexes,
        checks=checks,
        foreign_keys=add_foreign_keys(table.foreign_keys, foreign, table.name),
    )


def with_implicit_timestamps(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Apply explicit_defaults_for_timestamp=OFF: the first TIMESTAMP follows the clock, the others default to zero."""
    result, first = [], True
    for column in columns:
        if column.type.name == "timestamp" and not column.nullable and column.generated is None:
            if column.default is None and not column.on_update_now:
                default = Default("now") if first else Default("literal", "0000-00-00 00:00:00")
                column = replace(column, default=default, on_update_now=first)
            first = False
        result.append(column)
    return tuple(result)


def copy_table(source: Table, schema: str, name: str) -> Table:
    """Return what CREATE TABLE … LIKE makes: everything but foreign keys, with checks named anew."""
    expressions = [CheckSpec(None, expression) for _, expression in sorted(source.checks)]
    indexes = tuple(replace(i, implicit=False) for i in source.indexes)
    return replace(
        source,
        schema=schema,
        name=name,
        indexes=indexes,
        checks=add_checks((), expressions, name),
        foreign_keys=(),
    )
