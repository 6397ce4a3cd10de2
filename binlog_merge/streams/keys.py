"""The columns of tables' primary keys, as streams know them: from the table map, else from the schema store."""

from binlog_merge.binlog.table_map import TableMap
from binlog_merge.log.rows import TableShapes
from snapshot_store.tso import OrderKey


def key_columns(table: TableMap, shapes: TableShapes | None, key: OrderKey | None) -> tuple[int, ...] | None:
    """Return the indexes of a table's primary key columns; None if it has none, or it is not known."""
    if table.optional is not None and (found := table.optional.primary_key()) is not None:
        return found
    if shapes is None or key is None:
        return None
    version = shapes.at(table.schema, table.table, key)
    if version is None or version.table is None or len(version.table.columns) != len(table.types):
        return None
    names = [column.name.lower() for column in version.table.columns]
    primary = next((index for index in version.table.indexes if index.name == "PRIMARY"), None)
    if primary is None or any(part.column is None for part in primary.parts):
        return None
    return tuple(names.index((part.column or "").lower()) for part in primary.parts)
