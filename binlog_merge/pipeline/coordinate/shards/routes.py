"""The columns that a route fills in on the logical table: the table, schema and node that a row comes from.

    extract-table:  {table-regexp: "t_(.*)", target-column: "c_table"}     a row of t_7 has c_table '7'

The groups that a regular expression captures are concatenated; without a match the column is empty. Source:
pingcap/tidb `pkg/util/table-router`, `FetchExtendColumn` and `extractVal`.
"""

from dataclasses import replace

from binlog_merge.config.extract import Extract
from snapshot_store.model import Column, Default, Table
from snapshot_store.mysql.column_type import ColumnType

LONGEST = 255
"""The length in characters of an extracted column, if no logical table defines it."""


def with_columns(table: Table, extract: Extract, like: Table | None = None) -> Table:
    """Return a shard's table with the extracted columns, as coordination compares it.

    They are defined as in `like`, the logical table, if it has them, otherwise as VARCHAR. They follow the shard's own
    columns; a shard's own column of the same name is kept.
    """
    added = [_column(name, table, like) for name in extract.columns if table.index_of(name) is None]
    return replace(table, columns=(*table.columns, *added))


def filled(logical: Table, extract: Extract, node: str, schema: str, table: str) -> Table:
    """Return the logical table with a shard's values as DEFAULT of the extracted columns."""
    values = {name.lower(): value for name, value in extract.values(node, schema, table)}
    columns = tuple(
        replace(c, default=Default("literal", values[c.name.lower()])) if c.name.lower() in values else c
        for c in logical.columns
    )
    return replace(logical, columns=columns)


def _column(name: str, table: Table, like: Table | None) -> Column:
    i = None if like is None else like.index_of(name)
    if like is not None and i is not None:
        return like.columns[i]
    type = ColumnType("varchar", LONGEST, charset=table.charset, collation=table.collation)
    return Column(name, type, nullable=False, default=Default("literal", ""))
