"""The hidden column that a PolarDB-X data node adds to a table without a primary key (implicit_primary_key=ON).

It is the last column in table maps and row images, and in no table definition: readers of the table do not see it.
"""

from dataclasses import replace

from binlog_merge.binlog.constants import ColumnType as BinlogType
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.polardbx.names import ROW_ID
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import ColumnType


def with_row_id(table: Table, table_map: TableMap) -> Table:
    """Return the table as its table map describes it: with the hidden column if the extra column can only be that."""
    if table.primary_key is not None or len(table_map.types) != len(table.columns) + 1:
        return table
    names = table_map.optional.column_names if table_map.optional else None
    if table_map.types[-1] != BinlogType.LONGLONG or (names is not None and names[-1].lower() != ROW_ID):
        return table
    kind = ColumnType("bigint", unsigned=table_map.unsigned()[-1])
    return replace(table, columns=(*table.columns, Column(ROW_ID, kind, nullable=False)))
