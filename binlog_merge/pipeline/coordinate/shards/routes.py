"""What a route writes into columns of the logical table: from which table, schema and node a row comes.

    extract-table:  {table-regexp: "t_(.*)", target-column: "c_table"}     a row of t_7 has c_table '7'

The groups that a regular expression captures are joined; without a match the column is empty. Source: pingcap/tidb
`pkg/util/table-router`, `FetchExtendColumn` and `extractVal`.
"""

from dataclasses import replace

from binlog_merge.config.extract import Extract
from snapshot_store.model import Column, Default, Table
from snapshot_store.mysql.column_type import ColumnType

LONGEST = 255
"""Characters of an extracted column, where the logical table is not there to say it."""


def with_columns(table: Table, extract: Extract, like: Table | None = None) -> Table:
    """Return a shard's table with the extracted columns, as it stands in the logical order of tables.

    They are what `like`, the logical table, has under these names, else VARCHAR; behind the shard's own columns, which
    keep one of the same name.
    """
    added = [_column(name, table, like) for name in extract.columns if table.index_of(name) is None]
    return replace(table, columns=(*table.columns, *added))


def filled(logical: Table, extract: Extract, node: str, schema: str, table: str) -> Table:
    """Return the logical table with what a shard's rows get in the extracted columns for their DEFAULT."""
    values = {name.lower(): value for name, value in extract.values(node, schema, table)}
    columns = tuple(
        replace(c, default=Default("literal", values[c.name.lower()])) if c.name.lower() in values else c
        for c in logical.columns
    )
    return replace(logical, columns=columns)


def _column(name: str, table: Table, like: Table | None) -> Column:
    place = None if like is None else like.index_of(name)
    if like is not None and place is not None:
        return like.columns[place]
    type = ColumnType("varchar", LONGEST, charset=table.charset, collation=table.collation)
    return Column(name, type, nullable=False, default=Default("literal", ""))
