"""Renaming a table or column: foreign keys that point at it, and names generated from the table's name."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from snapshot_store.ddl.indexes import renamed_generated
from snapshot_store.model import Catalog, ForeignKey, Table
from snapshot_store.mysql.sql.names import folded

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
