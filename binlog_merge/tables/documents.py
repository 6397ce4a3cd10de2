"""Reads JSON documents from a DuckDB file, for JSON differences whose documents the log does not have."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from binlog_merge.binlog.rows import Cell
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.log.whole_json import Key
from binlog_merge.reshape.witness import check_witness
from binlog_merge.tables.rows import keys_of
from binlog_merge.tables.target import DuckdbTarget
from binlog_merge.tables.types import duckdb_type, listed, place, quoted
from binlog_merge.tables.values import array_of, cells_of
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import Family


@dataclass(frozen=True)
class DuckdbDocuments:
    """The current documents in a target's tables."""

    target: DuckdbTarget

    def key_of(self, table: TableMap) -> Sequence[int] | None:
        """Return the indexes of the columns of a table's key; None if it has none, or the table is not known."""
        known = self._known(table)
        return None if known is None else next(keys_of(known), None)

    def keeps(self, table: TableMap, column: int) -> bool:
        """Return whether the file has a column."""
        known = self._known(table)
        return known is None or known.columns[column].name.lower() in self._here(known)

    def documents(self, table: TableMap, key: Sequence[int], wanted: Sequence[Key]) -> dict[Key, dict[int, Cell]]:
        """Return the documents of rows by their keys' cells; missing rows and columns are left out."""
        known = self._known(table)
        assert known is not None
        here = self._here(known)
        json = [i for i, c in enumerate(known.columns) if c.type.family is Family.JSON and c.name.lower() in here]
        if not wanted or not json or not all(known.columns[i].name.lower() in here for i in key):
            return {}
        columns, text = [known.columns[i] for i in key], self.target.temporal_text
        arrays: dict[str, Any] = {"replay n ": pa.array(range(len(wanted)))}
        for number, column in enumerate(columns):
            arrays[column.name] = array_of(column, [cells[number] for cells in wanted], text)
        connection = self.target.connection
        connection.register("replay_wanted", pa.table(arrays))
        match = " AND ".join(_same(column, text) for column in columns)
        found = connection.sql(
            f'SELECT k."replay n ", {listed([known.columns[i].name for i in json], "t.")} '
            f"FROM {place(known.schema, known.name)} t JOIN replay_wanted k ON {match}"
        ).to_arrow_table()
        cells = [cells_of(known.columns[i], found.column(1 + n)) for n, i in enumerate(json)]
        numbers = found.column("replay n ").to_pylist()
        return {wanted[n]: dict(zip(json, row, strict=True)) for n, *row in zip(numbers, *cells, strict=True)}

    def _known(self, table: TableMap) -> Table | None:
        known = self.target.catalog.get(table.schema, table.table)
        return known if known is not None and check_witness(known, table) is None else None

    def _here(self, table: Table) -> set[str]:
        return {name.lower() for name in self.target.columns_of(table.schema, table.name)}


def _same(column: Column, temporal_text: bool) -> str:
    name = quoted(column.name)
    return f"t.{name} = CAST(k.{name} AS {duckdb_type(column.type, temporal_text)})"
