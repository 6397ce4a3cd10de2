"""Checks for a table's keys, foreign keys and CHECK constraints, and for names that must be unique in a database: what
a server refuses.

Sources: `prepare_key`, `prepare_key_column` and `prepare_check_constraints_for_create` of mysql-server
`sql/sql_table.cc`; refman, "CREATE INDEX Statement". Each rule is compared with a real server by the statements of
fixtures/ddl.

Sources: `prepare_fk_parent_key`, `check_if_field_used_by_fk` and `fk_check_...` of mysql-server `sql/sql_table.cc` and
`sql/sql_parse.cc`; refman, "FOREIGN KEY Constraints". Each rule is compared with a real server by the statements of
fixtures/ddl.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from snapshot_store.ddl.resolve import Context
from snapshot_store.ddl.specs import CheckSpec, KeySpec
from snapshot_store.ddl.validate.columns import (
    bytes_of,
    check_functions,
    check_geometries,
    check_json_values,
    column_bytes,
    expression_of,
)
from snapshot_store.model import Catalog, Column, ForeignKey, Index, IndexPart, Table
from snapshot_store.mysql.column_type import MEMBERS, Family
from snapshot_store.mysql.expr.nodes import Node
from snapshot_store.mysql.sql.functions import function
from snapshot_store.mysql.text.charsets import max_bytes

_MOST_PARTS, _MOST_INDEXES = 16, 64
LONGEST_KEY = {"InnoDB": 3072, "MyISAM": 1000, "MEMORY": 3072}
_STRINGS = frozenset({Family.TEXT, Family.BYTES})


def check_key_spec(context: Context, spec: KeySpec, columns: dict[str, Column]) -> None:
    """Raise DdlRejected for a key that a server refuses as written."""
    name = (spec.name or "").upper()
    context.limit(spec.kind == "primary" or name != "PRIMARY", "only the primary key is called PRIMARY")
    context.limit(spec.kind != "primary" or spec.visible, "a primary key cannot be invisible")
    context.limit(len(spec.parts) <= _MOST_PARTS, f"a key of more than {_MOST_PARTS} parts")
    names = [part.column.lower() for part in spec.parts if part.column is not None]
    context.limit(len(set(names)) == len(names), "a key names a column twice")
    for part in spec.parts:
        if part.column is None:
            _check_functional(context, spec, part, columns)
        elif (column := columns.get(part.column.lower())) is not None:
            _check_part(context, spec, part, column)
    arrays = sum(part.expression is not None and expression_of(context, part.expression).array for part in spec.parts)
    context.limit(arrays <= 1, "a key has more than one multi-valued part")
    if spec.kind == "spatial":
        context.limit(len(spec.parts) == 1, "a spatial key has one part")


def _check_part(context: Context, spec: KeySpec, part: IndexPart, column: Column) -> None:
    type = column.type
    if spec.kind == "fulltext":
        context.limit(type.family is Family.TEXT, f"column {column.name} cannot be in a fulltext key")
        return
    if spec.kind == "spatial":
        context.limit(
            type.family is Family.GEOMETRY and not column.nullable, f"{column.name} cannot be in a spatial key"
        )
        context.limit(part.length is None, "a spatial key has no prefix")
        return
    if type.family is Family.GEOMETRY:
        alone = spec.kind == "index" and not column.nullable and len(spec.parts) == 1 and part.length is None
        context.limit(alone, f"{column.name} can be in a spatial key only")
        return
    context.limit(
        type.family not in (Family.JSON, Family.VECTOR), f"column {column.name} of type {type.name} cannot be a key"
    )
    context.limit(not type.is_sized or bool(type.length), f"column {column.name} is empty: it cannot be a key")
    if part.length is None:
        context.limit(not type.is_lob, f"column {column.name} needs a key length")
        virtual = column.generated is not None and not column.generated.stored
        context.limit(not (virtual and spec.kind == "primary"), f"{column.name} is virtual: no primary key")
        return
    context.limit(part.length > 0, f"the key part {column.name} cannot have length 0")
    whole = None if type.is_lob else type.length
    if type.family not in _STRINGS:
        # A length equal to the whole column is not a prefix.
        same = type.family not in MEMBERS and part.length == column_bytes(type)
        context.limit(same, f"column {column.name} can be a key only as a whole")
        return
    context.limit(whole is None or part.length <= whole, f"column {column.name} is shorter than its key")


def _check_functional(context: Context, spec: KeySpec, part: IndexPart, columns: dict[str, Column]) -> None:
    context.limit(spec.kind != "primary", "a primary key has no functional part")
    context.limit(spec.kind in ("index", "unique"), f"a {spec.kind} key has no functional part")
    found = expression_of(context, part.expression or "")
    what = f"the functional key part {found.text}"
    context.limit(found.node.kind != "column", f"{what} is only a column")
    context.limit(bool(found.columns), f"{what} refers to no column")
    check_functions(context, found, what, key=True)
    check_json_values(context, found.node, columns, what)
    check_geometries(context, found.node, columns, what)
    for name in found.columns:
        known = columns.get(name)
        context.limit(known is not None, f"{what} refers to {name}, which is no column")
        context.limit(known is None or not known.auto_increment, f"{what} refers to an AUTO_INCREMENT column")
    context.limit(not _is_lob(found.node, columns), f"{what} gives a JSON, BLOB or TEXT value; use CAST")


def _is_lob(node: Node, columns: dict[str, Column]) -> bool:
    """Return whether a node's value certainly has a type that cannot be in a key."""
    if node.kind == "column":
        column = columns.get(node.text.lower())
        return column is not None and (column.type.is_lob or column.type.family is Family.JSON)
    if node.kind == "cast":
        return node.text == "json"
    return node.kind == "call" and function(node.text).lob


def check_indexes(context: Context, table: Table) -> None:
    """Raise DdlRejected for too many keys, or a key that is too long or not possible for its columns or engine."""
    context.limit(len(table.indexes) <= _MOST_INDEXES, f"more than {_MOST_INDEXES} keys")
    context.limit(table.engine != "CSV" or not table.indexes, "engine CSV has no keys")
    columns = {column.name.lower(): column for column in table.columns}
    for index in table.indexes:
        _check_kept(context, index, columns)
        if table.engine != "InnoDB":
            _check_engine(context, table, index, columns)
        longest = LONGEST_KEY.get(table.engine, 3072)
        size = sum(part_bytes(part, columns) for part in index.parts) if index.kind in ("btree", "hash") else 0
        context.limit(size <= longest, f"key {index.name} is longer than {longest} bytes")
        serves = index is row_key(table)
        context.limit(index.visible or not serves, f"key {index.name} serves as primary key: it cannot be invisible")


def _check_kept(context: Context, index: Index, columns: dict[str, Column]) -> None:
    """Check a key against its columns as they are now, since they may have changed after it was created."""
    kind = "primary" if index.name == "PRIMARY" else "unique" if index.unique else "index"
    spec = KeySpec(index.kind if index.kind in ("fulltext", "spatial") else kind, index.name, index.parts)
    for part in index.parts:
        if part.expression is not None:
            for name in expression_of(context, part.expression).columns:
                referred = columns.get(name)
                counts = referred is not None and referred.auto_increment
                context.limit(not counts, f"the functional key {index.name} refers to an AUTO_INCREMENT column")
    kept = [column for part in index.parts if (column := columns.get((part.column or "").lower())) is not None]
    if len(kept) == len(index.parts):
        for part, column in zip(index.parts, kept, strict=True):
            _check_part(context, spec, part, column)
    if index.kind == "fulltext":
        collations = {column.type.collation for column in kept}
        context.limit(len(collations) <= 1, f"the columns of fulltext key {index.name} have several collations")


def _check_engine(context: Context, table: Table, index: Index, columns: dict[str, Column]) -> None:
    engine = table.engine
    context.limit(not any(part.descending for part in index.parts), f"engine {engine} has no descending keys")
    context.limit(index.kind != "fulltext" or engine == "MyISAM", f"engine {engine} has no fulltext keys")
    context.limit(index.kind != "spatial" or engine == "MyISAM", f"engine {engine} has no spatial keys")
    for part in index.parts:
        column = columns.get((part.column or "").lower())
        virtual = column is None or (column.generated is not None and not column.generated.stored)
        context.limit(not virtual, f"engine {engine} has no key on what is not stored")
        nullable = column is not None and column.nullable
        context.limit(engine != "ARCHIVE" or not nullable, "engine ARCHIVE has no key of a nullable column")


def row_key(table: Table) -> Index | None:
    """Return the primary key, or the first unique key on whole NOT NULL columns, which serves as one."""
    columns = {column.name.lower(): column for column in table.columns}
    for index in table.indexes:
        parts = [columns.get((part.column or "").lower()) for part in index.parts]
        whole = all(part.length is None for part in index.parts)
        if index.unique and whole and all(c is not None and not c.nullable for c in parts):
            return index
    return None


def part_bytes(part: IndexPart, columns: dict[str, Column]) -> int:
    """Return the maximum size of a key part in bytes; 0 if its type does not limit it."""
    column = columns.get((part.column or "").lower())
    if column is None or column.type.family not in _STRINGS:
        return 0
    if part.length is None:
        return bytes_of(column.type)
    width = bytes_of(column.type) // (column.type.length or 1) if column.type.length else None
    return part.length * (width or max_bytes(column.type.charset))


def check_checks(context: Context, table: Table, added: list[CheckSpec]) -> None:
    """Raise DdlRejected for CHECK constraints that a server refuses."""
    columns = {column.name.lower(): column for column in table.columns}
    for check in added:
        found = expression_of(context, check.expression)
        what = f"the check {found.text}"
        context.limit(found.boolean, f"{what} is no condition")
        check_functions(context, found, what)
        check_geometries(context, found.node, columns, what)
        for name in found.columns:
            column = columns.get(name)
            context.limit(column is not None, f"{what} refers to {name}, which is no column")
            context.limit(column is None or not column.auto_increment, f"{what} refers to an AUTO_INCREMENT column")
            own = check.own_column is None or check.own_column.lower() == name
            context.limit(own, f"{what} stands in another column than {name}")


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
