"""Checks for foreign keys, and for names that must be unique in a database.

Sources: `prepare_fk_parent_key`, `check_if_field_used_by_fk` and `fk_check_...` of mysql-server `sql/sql_table.cc` and
`sql/sql_parse.cc`; refman, "FOREIGN KEY Constraints". Each rule is compared with a real server by the statements of
fixtures/ddl.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from snapshot_store.ddl.resolve import Context
from snapshot_store.model import Catalog, Column, ForeignKey, Table
from snapshot_store.mysql.column_type import MEMBERS, Family

Name = tuple[str, str]


def check_references(context: Context, catalog: Catalog, name: Name, renamed: bool = False) -> None:
    """Raise DdlRejected if a created or changed table does not fit its foreign keys, or those that point at it.

    With `renamed` the table's own foreign keys are not checked: they may point at a missing table, as before.
    """
    table = catalog.tables[name]
    for key in () if renamed else table.foreign_keys:
        _check_key(context, catalog, table, key)
    for other, key in references_to(catalog, {name}):
        _check_key(context, catalog, other, key)
    _check_names(context, catalog, name[0])


def check_unreferenced(context: Context, catalog: Catalog, names: Iterable[Name], what: str) -> None:
    """Raise DdlRejected if foreign keys of other tables point at these."""
    gone = set(names)
    if not context.session.validate or not context.session.foreign_key_checks:
        return
    for other, key in references_to(catalog, gone):
        inside = (other.schema, other.name) in gone
        context.limit(inside, f"foreign key {key.name} of {other.schema}.{other.name} points at a table to {what}")


def references_to(catalog: Catalog, targets: set[Name]) -> Iterator[tuple[Table, ForeignKey]]:
    """Yield (table, foreign key) for each foreign key that points at one of the targets."""
    for table in catalog.tables.values():
        for key in table.foreign_keys:
            if key.target(table.schema) in targets:
                yield table, key


def _check_key(context: Context, catalog: Catalog, table: Table, key: ForeignKey) -> None:
    what = f"foreign key {key.name} of {table.schema}.{table.name}"
    columns = [_column(table, name) for name in key.columns]
    context.limit(None not in columns, f"{what}: a column of it is missing")
    context.limit(_has_index(table, key.columns), f"{what}: no index begins with its columns")
    if key.sets_null:
        context.limit(all(c is None or c.nullable for c in columns), f"{what}: SET NULL for a column that is NOT NULL")
    context.limit(not any(c and c.generated and not c.generated.stored for c in columns), f"{what}: a virtual column")
    context.limit(not table.partitioning, f"{what}: a partitioned table has no foreign keys")
    context.limit(len(key.columns) == len(key.referenced), f"{what}: not as many columns as it refers to")
    target = (key.table[0] or table.schema, key.table[1])
    parent = catalog.tables.get(target)
    if parent is None:
        context.limit(not context.session.foreign_key_checks, f"{what}: there is no table {target[0]}.{target[1]}")
        return
    context.limit(parent.engine == table.engine, f"{what}: {target[0]}.{target[1]} has engine {parent.engine}")
    context.limit(not parent.partitioning, f"{what}: {target[0]}.{target[1]} is partitioned")
    referred = [_column(parent, name) for name in key.referenced]
    context.limit(None not in referred, f"{what}: a column it refers to is missing")
    for mine, other in zip(columns, referred, strict=False):
        if mine is not None and other is not None:
            context.limit(_compatible(mine, other), f"{what}: {mine.name} and {other.name} are of different types")
    strict = context.session.server_version >= 80400
    if strict and target == (table.schema, table.name) and _lower(key.columns) == _lower(key.referenced):
        # A single key cannot serve both sides of a foreign key.
        found = sum(_has_unique(replace(parent, indexes=(i,)), key.referenced) for i in parent.indexes) > 1
    else:
        found = _has_unique(parent, key.referenced) if strict else _has_index(parent, key.referenced)
    context.limit(found, f"{what}: no {'unique ' if strict else ''}key of {parent.name} for what it refers to")


def _lower(names: Iterable[str]) -> list[str]:
    return [name.lower() for name in names]


def _column(table: Table, name: str) -> Column | None:
    place = table.index_of(name)
    return None if place is None else table.columns[place]


def _compatible(a: Column, b: Column) -> bool:
    first, second = a.type, b.type
    if first.is_sized and second.is_sized and first.family is second.family:
        return (first.charset, first.collation) == (second.charset, second.collation)
    if first.name == second.name and first.family is Family.INTEGER:
        return first.unsigned == second.unsigned
    if first.name == second.name and first.family in MEMBERS:
        return True
    return (first.name, first.length, first.decimals, first.fsp, first.unsigned) == (
        second.name,
        second.length,
        second.decimals,
        second.fsp,
        second.unsigned,
    )


def _has_index(table: Table, columns: tuple[str, ...]) -> bool:
    wanted = [(name.lower(), None) for name in columns]
    for index in table.indexes:
        parts = [((p.column or "").lower(), p.length) for p in index.parts[: len(wanted)]]
        if parts == wanted and index.kind in ("btree", "hash"):
            return True
    return False


def _has_unique(table: Table, columns: tuple[str, ...]) -> bool:
    wanted = [(name.lower(), None) for name in columns]
    for index in table.indexes:
        if index.unique and [((p.column or "").lower(), p.length) for p in index.parts] == wanted:
            return True
    return False


def _check_names(context: Context, catalog: Catalog, schema: str) -> None:
    """Refuse two checks, or two foreign keys, of the same name in a database."""
    checks: Counter[str] = Counter()
    keys: Counter[str] = Counter()
    for table in catalog.tables.values():
        if table.schema == schema:
            checks.update(name.lower() for name, _ in table.checks)
            keys.update(key.name.lower() for key in table.foreign_keys)
    for kind, names in (("check", checks), ("foreign key", keys)):
        for name, count in names.items():
            context.limit(count == 1, f"two {kind}s of database {schema} would be called {name}")
