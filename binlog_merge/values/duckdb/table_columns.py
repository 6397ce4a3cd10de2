"""The columns of a table for an expression, made as they are asked for."""

from collections.abc import Collection
from typing import Any

from binlog_merge.values.duckdb.columns import column_sql
from binlog_merge.values.duckdb.compile import generated_column
from binlog_merge.values.duckdb.piece import NULL, Sql
from snapshot_store.model import Column, Table


class TableColumns(dict[str, Sql]):
    """The columns of a table as SQL, produced on demand; `used` are those that rows must hold, by their place.

    `present` are the virtual columns whose values rows hold; others are computed. `elsewhere` are the lower-case names
    of columns that the table has at other times: here they are NULL.
    """

    def __init__(self, table: Table, present: Collection[str], elsewhere: Collection[str] = ()) -> None:
        super().__init__()
        self.table = table
        self.used: dict[str, Column] = {}
        self._known = set(present)
        self._elsewhere = elsewhere

    def get(self, name: str, default: Any = None) -> Any:
        """Return a column as SQL, or the default."""
        if name not in self:
            place = self.table.index_of(name)
            if place is None:
                return NULL if name.lower() in self._elsewhere else default
            self[name] = self._make(self.table.columns[place], f"c{place}")
        return self[name]

    def _make(self, column: Column, place: str) -> Sql:
        if column.generated is None or column.generated.stored or column.name in self._known:
            self.used[place] = column
            return column_sql(column, place)
        self._known.add(column.name)
        return generated_column(column, self)
