"""Selects the rows of an event that are applied: a filter's rules on tables, kinds, values and transactions."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from binlog_merge.binlog.arrow import rows_to_batch
from binlog_merge.binlog.constants import DELETE_TYPES, WRITE_TYPES
from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from binlog_merge.binlog.json_diff import whole_row
from binlog_merge.binlog.rows import (
    ABSENT,
    PartialJson,
    Row,
    RowImage,
    RowsEvent,
    iter_rows,
    join_rows,
    row_padding,
)
from binlog_merge.binlog.table_map import TableMap, column_names
from binlog_merge.errors import ConfigError, ReplayStopped, UnknownTableSchema
from binlog_merge.filters.expressions import Op
from binlog_merge.filters.filter import Filter
from binlog_merge.log.reader import Rows
from snapshot_store.history import TableVersion
from snapshot_store.model import Catalog, Table
from snapshot_store.tso import OrderKey


def op_of(type_code: int) -> Op:
    """Return the operation (insert, update or delete) of a rows event's type."""
    return "insert" if type_code in WRITE_TYPES else "delete" if type_code in DELETE_TYPES else "update"


class TableShapes(Protocol):
    """Answers which columns a table has at an order key: a SchemaHistory, or `shapes.Shapes`, which holds less."""

    def at(self, schema: str, name: str, key: OrderKey) -> TableVersion | None:
        """Return the latest version with a key less than `key`, None if the table has never been known."""

    def catalog(self, key: OrderKey) -> Catalog:
        """Return all tables that a transaction with this key sees."""


_LONGEST_TEXT = 60


def row_text(rows: Rows, row: Row) -> str:
    """Return a row as text for a message: the operation, the table, and the values before and after."""
    table, names = rows.table, column_names(rows.table)
    images = [image for image in row if image is not None]
    values = " -> ".join(_image_text(rows, names, image) for image in images)
    return f"{op_of(rows.event.type_code)} {table.schema}.{table.table} {values}"


def _image_text(rows: Rows, names: Sequence[str], image: RowImage) -> str:
    shown = [i for i, cell in enumerate(image) if cell is not ABSENT and not isinstance(cell, PartialJson)]
    try:
        kept = tuple(cell if i in shown else None for i, cell in enumerate(image))
        values = rows_to_batch([kept], rows.table, list(names), temporal_text=True).to_pylist()[0]
    except (CellValueError, BinlogFormatError):
        values = {names[i]: bytes(cell) if isinstance(cell := image[i], memoryview) else cell for i in shown}
    return f"({', '.join(f'{names[i]}={_short(values[names[i]])}' for i in shown)})"


def _short(value: Any) -> str:
    text = repr(value) if isinstance(value, str | bytes) else "NULL" if value is None else str(value)
    return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "…"


def _completed(row: Row, table: TableMap, wanted: Collection[int]) -> Row:
    """Return an UPDATE's row with cells absent from the after image taken from the before image.

    JSON differences of the `wanted` columns are applied; those of other columns become NULL.
    """
    before, after = row
    if before is None or after is None:
        return row
    cells = (old if new is ABSENT else new for old, new in zip(before, after, strict=True))
    kept = (None if isinstance(cell, PartialJson) and i not in wanted else cell for i, cell in enumerate(cells))
    return whole_row((before, tuple(kept)), table)


def _held(images: Sequence[RowImage | None], table: TableMap, names: Sequence[str], wanted: Collection[str]) -> Any:
    """Return the wanted columns of one side of an event's rows, without columns that the images do not hold.

    None if the rows have no such side.
    """
    if images[0] is None:
        return None
    held = [i for i, cell in enumerate(images[0]) if cell is not ABSENT and names[i] in wanted]
    kept = [tuple(cell if i in held else None for i, cell in enumerate(image or ())) for image in images]
    return rows_to_batch(kept, table, names, temporal_text=True).select([names[i] for i in held])


@dataclass
class RowSelector:
    """Applies a filter to rows events and counts rows: `applied` and `filtered` by (schema, table, operation).

    Expressions need the tables' columns: `history` is the merged binlog's schema history, None if it has none.
    """

    filter: Filter | None
    history: TableShapes | None = None
    applied: Counter[tuple[str, str, Op]] = field(default_factory=Counter)
    filtered: Counter[tuple[str, str, Op]] = field(default_factory=Counter)

    def select(self, rows: Rows, key: OrderKey | None) -> RowsEvent | None:
        """Return the event with the rows that pass the filter: itself if all do, None if none does."""
        schema, table, op = rows.table.schema, rows.table.table, op_of(rows.event.type_code)
        cut = list(iter_rows(rows.event, rows.table))
        name = (schema, table, op)
        if self.filter is None:
            self.applied[name] += len(cut)
            return rows.event
        decision = self.filter.rows(schema, table, op)
        if decision.action == "Error":
            raise ReplayStopped(f"{op} of {schema}.{table} is an error by {decision.rule}")
        if decision.ignored or (key is not None and self.filter.transaction(commit_tso=key.commit_tso).ignored):
            self.filtered[name] += len(cut)
            return None
        if not self.filter.expressions.concerns(schema, table):
            self.applied[name] += len(cut)
            return rows.event
        mask = self._mask(rows, cut, op, self._shape(schema, table, key))
        kept = [row for row, ignored in zip(cut, mask, strict=True) if not ignored]
        self.applied[name] += len(kept)
        self.filtered[name] += len(cut) - len(kept)
        if len(kept) == len(cut):
            return rows.event
        return join_rows(rows.event, kept, rows.table, row_padding(rows.event)) if kept else None

    def _mask(self, rows: Rows, cut: list[Any], op: Op, table: Table) -> list[bool]:
        own = column_names(rows.table)
        names = [c.name for c in table.columns] if own[:1] == ("@1",) else own
        if len(names) != len(rows.table.types):
            raise ReplayStopped(
                f"rows of {table.schema}.{table.name} have {len(rows.table.types)} columns, its history {len(names)}"
            )
        assert self.filter is not None
        needed = self.filter.expressions.columns(table, op, names)
        partial = [i for i, name in enumerate(names) if name in needed[1]]
        completed = [_completed(row, rows.table, partial) for row in cut]
        batches = [_held([row[side] for row in completed], rows.table, names, needed[side]) for side in (0, 1)]
        return list(self.filter.ignored_rows(table, op, *batches).to_pylist())

    def _shape(self, schema: str, table: str, key: OrderKey | None) -> Table:
        if self.history is None or key is None:
            what = "its schema.duckdb" if self.history is None else "the order keys behind BEGIN (output.cts)"
            raise ConfigError(
                f"expressions on rows of {schema}.{table} need {what}, which the merged binlog does not have",
                remedy="merge again, or leave the expressions out of the filter",
            )
        version = self.history.at(schema, table, key)
        if version is None or version.table is None:
            raise UnknownTableSchema(f"the shape of {schema}.{table} is not in the history", order_key=key)
        return version.table
