"""Applies JSON differences in rows of partial updates."""

from binlog_merge.binlog.json_diff import apply_to_cell
from binlog_merge.binlog.rows import Cell, PartialJson, Row
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.errors import ConversionFailed


def whole_row(row: Row, table: TableMap) -> Row:
    """Return a row with JSON differences applied to the documents of its before image."""
    before, after = row
    if before is None or after is None or not any(isinstance(cell, PartialJson) for cell in after):
        return row
    return before, tuple(_patched(table, i, before[i], cell) for i, cell in enumerate(after))


def _patched(table: TableMap, column: int, old: Cell, new: Cell) -> Cell:
    if not isinstance(new, PartialJson):
        return new
    if not isinstance(old, bytes | memoryview):
        raise no_document(table, column)
    return apply_to_cell(old, new.cell, table.metas[column])


class NoDocument(ConversionFailed):
    """A JSON difference to an unknown document; `name` is the table's."""

    name: tuple[str, str] = ("", "")


def no_document(table: TableMap, column: int) -> NoDocument:
    """Return the error for a JSON difference to an unknown document."""
    error = NoDocument(
        f"{table.schema}.{table.table}, column {column + 1}: JSON differences, and the value before is not there",
        remedy="the nodes must write binlog_row_image=FULL where they write partial JSON",
    )
    error.name = (table.schema, table.table)
    return error
