"""The unique keys of the logical tables that come out: by them rows of several branches may exclude each other."""

from dataclasses import dataclass
from typing import Final

from binlog_merge.binlog.cell_length import real_type
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.values.key_values import KeyPart
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.model import Column, Index, Table
from snapshot_store.mysql.sql.cursor import names_in
from snapshot_store.mysql.sql.session import STORED

KEYS_OF_A_TABLE: Final = 65  # the primary key, and as many others as MySQL allows
_BY_VALUE: Final = frozenset(
    {
        T.VARCHAR, T.VAR_STRING, T.STRING, T.TINY_BLOB, T.BLOB, T.MEDIUM_BLOB, T.LONG_BLOB, T.FLOAT, T.DOUBLE,
        T.NEWDECIMAL, T.JSON, T.GEOMETRY, T.VECTOR,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """A primary or unique key. `parts` are None if an expression is among them: its values are not in the rows.

    An update that changes none of the `columns`, by index, does not change the key. `by_bytes`: values are equal
    exactly if their bytes are. `name` is the index's.
    """

    parts: tuple[KeyPart, ...] | None
    columns: tuple[int, ...]
    by_bytes: bool
    name: str


@dataclass(frozen=True)
class KeyedTable:
    """A logical table, its number, the table map that is written before its rows, and its keys.

    `known`: without keys it has none; otherwise its definition is not known. `refers`: it has foreign keys, and with
    `cascades` a change of another table may remove or change its rows. `columns` are the names of its columns.
    """

    name: tuple[str, str]
    number: int
    table_map: TableMap
    keys: tuple[UniqueKey, ...]
    known: bool
    refers: bool
    cascades: bool = False
    columns: tuple[str, ...] = ()


def keyed_table(number: int, table: Table, table_map: TableMap, known: bool) -> KeyedTable:
    """Return the keys of a logical table, the primary key first."""
    keys = tuple(_unique_key(table, index, table_map) for index in table.unique_keys[:KEYS_OF_A_TABLE])
    return KeyedTable(
        (table.schema, table.name),
        number,
        table_map,
        keys,
        known or bool(keys),
        refers=bool(table.foreign_keys),
        cascades=table.cascades,
        columns=tuple(column.name for column in table.columns),
    )


def _unique_key(table: Table, index: Index, table_map: TableMap) -> UniqueKey:
    parts = []
    for part in index.parts:
        at = None if part.column is None else table.index_of(part.column)
        if at is None:
            return UniqueKey(None, _behind(table, index), False, index.name)
        parts.append(KeyPart(at, _collation(table.columns[at]), part.length))
    plain = all(real_type(table_map.types[p.column], table_map.metas[p.column]) not in _BY_VALUE for p in parts)
    return UniqueKey(tuple(parts), tuple(part.column for part in parts), plain, index.name)


def _behind(table: Table, index: Index) -> tuple[int, ...]:
    """Return the columns that the parts of an index are made of; all of the table's if that is not certain."""
    sought = [part.expression or f"`{part.column}`" for part in index.parts]
    found: set[int] = set()
    while sought:
        expression = sought.pop()
        try:
            names = names_in(expression, STORED)
        except DdlNotUnderstood:
            names = set()
        columns = {at for name in names if (at := table.index_of(name)) is not None}
        if not columns or '"' in expression:  # with ANSI_QUOTES these would be names
            return tuple(range(len(table.columns)))
        made = (table.columns[at].generated for at in columns - found)
        sought += [generated.expression for generated in made if generated is not None]
        found |= columns
    return tuple(sorted(found))


def _collation(column: Column) -> str | None:
    if column.type.charset in (None, "binary"):
        return None
    return column.type.collation or "unknown"
