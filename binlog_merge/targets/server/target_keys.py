"""The keys of the target's tables, read from the target on demand, and dropped when a DDL changes them.

Every DDL before a row is executed at the target before the row's keys are needed. So the target's own definition is the
right one: no history is needed, and only one definition of each table in use is kept.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from binlog_merge.targets.server.keys import OPAQUE, Key, TableKeys, TableName, table_name
from binlog_merge.values.key_values import KeyPart

Ask = Callable[..., list[tuple[Any, ...]]]

MOST_TABLES: Final = 2000

_COLUMNS: Final = (
    "SELECT column_name, collation_name, is_nullable FROM information_schema.columns "
    "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"
)
_INDEXES: Final = (
    "SELECT index_name, column_name, sub_part FROM information_schema.statistics "
    "WHERE table_schema = %s AND table_name = %s AND non_unique = 0 ORDER BY index_name, seq_in_index"
)
_FOREIGN_KEYS: Final = (
    "SELECT k.constraint_schema, k.table_name, k.constraint_name, k.column_name, k.referenced_table_schema, "
    "k.referenced_table_name, k.referenced_column_name, r.update_rule, r.delete_rule "
    "FROM information_schema.key_column_usage k JOIN information_schema.referential_constraints r "
    "ON r.constraint_schema = k.constraint_schema AND r.constraint_name = k.constraint_name "
    "AND r.table_name = k.table_name WHERE k.referenced_table_name IS NOT NULL "
    "ORDER BY k.constraint_schema, k.table_name, k.constraint_name, k.ordinal_position"
)


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key from columns of `child` to columns of `parent`; `acts`: the server changes rows by it (CASCADE)."""

    child: TableName
    columns: tuple[str, ...]
    parent: TableName
    referenced: tuple[str, ...]
    acts: bool


class TargetKeys:
    """A cache of the keys of the target's tables. `ask` runs a query at the target; not thread-safe."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._tables: OrderedDict[tuple[str, str], TableKeys] = OrderedDict()
        self._foreign: tuple[ForeignKey, ...] | None = None
        self._families: dict[TableName, frozenset[TableName]] = {}

    def of(self, schema: str, table: str) -> TableKeys:
        """Return the keys of a table; OPAQUE if the table does not exist."""
        name = (schema, table)
        found = self._tables.get(name)
        if found is None:
            if len(self._tables) >= MOST_TABLES:
                self._tables.popitem(last=False)
            found = self._tables[name] = self._read(schema, table)
        return found

    def exists(self, schema: str, table: str) -> bool:
        """Return whether the target has a table."""
        return self.of(schema, table) is not OPAQUE

    def family(self, name: TableName) -> frozenset[TableName]:
        """Return a table and all tables connected to it by foreign keys, directly or indirectly."""
        self._load()
        return self._families.get(name, frozenset({name}))

    def forget(self, tables: Iterable[TableName], everything: bool) -> None:
        """Drop what a DDL may have changed: these tables, or `everything`."""
        if everything:
            self._tables.clear()
            self._foreign = None
            return
        changed = set(tables)
        for name in [name for name in self._tables if table_name(*name) in changed]:
            del self._tables[name]

    def _load(self) -> tuple[ForeignKey, ...]:
        if self._foreign is None:
            self._foreign = foreign_keys(self._ask(_FOREIGN_KEYS))
            self._families = families(self._foreign)
        return self._foreign

    def _read(self, schema: str, table: str) -> TableKeys:
        columns = self._ask(_COLUMNS, (schema, table))
        if not columns:
            return OPAQUE
        related = self._load()
        return keys_of(table_name(schema, table), columns, self._ask(_INDEXES, (schema, table)), related)


def foreign_keys(rows: Sequence[tuple[Any, ...]]) -> tuple[ForeignKey, ...]:
    """Return foreign keys from their columns in order, as information_schema lists them."""
    found: dict[tuple[str, str, str], ForeignKey] = {}
    for schema, table, name, column, parent_schema, parent, referenced, on_update, on_delete in rows:
        old = found.get((schema, table, name))
        found[schema, table, name] = ForeignKey(
            table_name(schema, table),
            (*(old.columns if old else ()), column.lower()),
            table_name(parent_schema, parent),
            (*(old.referenced if old else ()), referenced.lower()),
            not {on_update, on_delete} <= {"RESTRICT", "NO ACTION"},
        )
    return tuple(found.values())


def families(keys: Iterable[ForeignKey]) -> dict[TableName, frozenset[TableName]]:
    """Return, for each table, the tables connected to it by foreign keys, itself included."""
    found: dict[TableName, frozenset[TableName]] = {}
    for key in keys:
        joined = found.get(key.child, frozenset({key.child})) | found.get(key.parent, frozenset({key.parent}))
        found |= dict.fromkeys(joined, joined)
    return found


def keys_of(
    name: TableName,
    columns: Sequence[tuple[Any, ...]],
    indexes: Sequence[tuple[Any, ...]],
    related: Sequence[ForeignKey],
) -> TableKeys:
    """Return the keys by which a table's rows conflict, from its columns, unique indexes and foreign keys."""
    places = {str(column).lower(): i for i, (column, _, _) in enumerate(columns)}
    nullable = {str(column).lower() for column, _, null in columns if null == "YES"}

    def key(owner: TableName, owners: Sequence[str], own: Sequence[str], prefixes: Sequence[int | None]) -> Key:
        parts = zip(own, prefixes, strict=True)
        return Key(
            (*owner, tuple(owners)),
            tuple(KeyPart(places[column], columns[places[column]][1], prefix) for column, prefix in parts),
        )

    unique: dict[str, list[tuple[str | None, int | None]]] = {}
    for index, column, prefix in indexes:
        unique.setdefault(index, []).append((None if column is None else column.lower(), prefix))
    members = families(key for key in related if key.acts).get(name)
    family = None if members is None else ("", "\0".join(min(members)))
    shown = all(column is not None for parts in unique.values() for column, _ in parts)
    identified = any(not nullable.intersection(column for column, _ in parts) for parts in unique.values())
    opaque = not shown or not identified
    keys: dict[Key, None] = {}
    for parts in () if opaque else unique.values():
        own = [column for column, _ in parts if column is not None]
        keys[key(name, own, own, [prefix for _, prefix in parts])] = None
    for foreign in related:
        if foreign.parent == name:
            keys[key(name, foreign.referenced, foreign.referenced, [None] * len(foreign.referenced))] = None
        if foreign.child == name:
            keys[key(foreign.parent, foreign.referenced, foreign.columns, [None] * len(foreign.columns))] = None
    return TableKeys(len(columns), tuple(keys), family, opaque)
