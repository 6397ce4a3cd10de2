"""The columns that a route fills in on the logical table: the table, schema and node that a row comes from.

    extract-table:  {table-regexp: "t_(.*)", target-column: "c_table"}     a row of t_7 has c_table '7'

The groups that a regular expression captures are concatenated; without a match the column is empty. Source:
pingcap/tidb `pkg/util/table-router`, `FetchExtendColumn` and `extractVal`.

With `key: true` the column is the last of the primary key and of every unique one (DM's users change their targets so
by hand), so that shards may give out equal keys. An AUTO_INCREMENT column stays the first of its key.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from binlog_merge.config.modes import Extract
from binlog_merge.errors import ConfigError
from snapshot_store.model import Column, Default, ForeignKey, Index, IndexPart, Table
from snapshot_store.mysql.column_type import ColumnType

LONGEST = 255
"""The length in characters of an extracted column, if no logical table defines it."""
LONGEST_IN_KEY = 64
"""The length of one that is part of keys: that of MySQL's names, as an index is not longer than 3,072 bytes."""


KeyColumns = Callable[[tuple[str, str]], tuple[str, ...]]
"""Returns the extracted columns that are part of the keys of a logical table."""


def with_columns(
    table: Table, extract: Extract, like: Table | None = None, key_columns: KeyColumns = lambda name: ()
) -> Table:
    """Return a shard's table with the extracted columns, as coordination compares it.

    They are defined as in `like`, the logical table, if it has them, otherwise as VARCHAR. They follow the shard's own
    columns; a shard's own column of the same name is kept. Those that are part of keys follow the columns of each, and
    those of a table that a foreign key refers to are part of it, too. Raises ConfigError if they cannot be.
    """
    lengths = {name: LONGEST_IN_KEY if name in extract.keys else LONGEST for name in extract.columns}
    added = [_column(name, n, table, like) for name, n in lengths.items() if table.index_of(name) is None]
    indexes = tuple(_with_parts(index, extract.keys) if index.unique else index for index in table.indexes)
    extended = replace(table, columns=(*table.columns, *added), indexes=indexes)
    for key in table.foreign_keys:
        extended = _with_parent_keys(extended, key, key_columns)
    return extended


def check_keys(shard: object, name: tuple[str, str], own: Sequence[str], key_columns: KeyColumns) -> None:
    """Raise ConfigError if a shard's route has not the columns that are part of the keys of its logical table."""
    wanted = key_columns(name)
    if set(own) != set(wanted):
        raise ConfigError(
            f"{shard} is a shard of {'.'.join(name)}, whose keys have {', '.join(wanted)} by another route, and "
            f"its own has {', '.join(own) or 'none'}",
            remedy="give all shards of the table a route with the same columns with `key: true`, and merge into an "
            "empty directory",
        )


def check_parents(table: Table, key_columns: KeyColumns) -> None:
    """Raise ConfigError if a table without extracted columns refers to one whose keys have some."""
    for key in table.foreign_keys:
        _with_parent_keys(table, key, key_columns)


def _with_parent_keys(table: Table, key: ForeignKey, key_columns: KeyColumns) -> Table:
    """Return a table with a foreign key, and the index that it needs, extended by the key columns of its parent."""
    parent = key.target(table.schema)
    added = tuple(name for name in key_columns(parent) if name.lower() not in {c.lower() for c in key.columns})
    if not added:
        return table
    child, names = f"{table.schema}.{table.name}", ", ".join(added)
    said = f"foreign key {key.name} of {child} refers to {'.'.join(parent)}, whose keys have {names}"
    if any(table.index_of(name) is None for name in added):
        raise ConfigError(
            f"{said}, which {child} lacks",
            remedy=f"give the route of {child} the same extracted columns (they need no key: true), and merge into an "
            "empty directory",
        )
    if key.sets_null:
        raise ConfigError(
            f"{said}, and SET NULL would empty them, which are not NULL",
            remedy="let its shards be tables of their own (`source-pattern`), or change the foreign key",
        )
    columns = (*key.columns, *added)
    longer = replace(key, columns=columns, referenced=(*key.referenced, *added))
    own = [name.lower() for name in key.columns]
    indexes = tuple(
        _with_parts(index, added) if [(part.column or "").lower() for part in index.parts] == own else index
        for index in table.indexes
    )
    if not any(_begins(index, columns) for index in indexes):
        taken = {index.name.lower() for index in indexes}
        name = key.name or columns[0]
        name = name if name.lower() not in taken else f"{name}_{len(indexes)}"
        indexes += (Index(name, tuple(map(IndexPart, columns)), implicit=True),)
    keys = tuple(longer if other == key else other for other in table.foreign_keys)
    return replace(table, indexes=indexes, foreign_keys=keys)


def _begins(index: Index, columns: Sequence[str]) -> bool:
    return [(p.column or "").lower() for p in index.parts[: len(columns)]] == [name.lower() for name in columns]


def _with_parts(index: Index, columns: Sequence[str]) -> Index:
    has = {part.column.lower() for part in index.parts if part.column is not None}
    parts = (IndexPart(name) for name in columns if name.lower() not in has)
    return replace(index, parts=(*index.parts, *parts))


def filled(logical: Table, extract: Extract, node: str, schema: str, table: str) -> Table:
    """Return the logical table with a shard's values as DEFAULT of the extracted columns."""
    values = {name.lower(): value for name, value in extract.values(node, schema, table)}
    columns = tuple(
        replace(c, default=Default("literal", values[c.name.lower()])) if c.name.lower() in values else c
        for c in logical.columns
    )
    return replace(logical, columns=columns)


def _column(name: str, length: int, table: Table, like: Table | None) -> Column:
    i = None if like is None else like.index_of(name)
    if like is not None and i is not None:
        return like.columns[i]
    type = ColumnType("varchar", length, charset=table.charset, collation=table.collation)
    return Column(name, type, nullable=False, default=Default("literal", ""))
