"""A table as it was, made: where it is, and what it is made of."""

from dataclasses import dataclass

from binlog_merge.errors import UnknownTable
from binlog_merge.tables.target import DuckdbTarget
from binlog_merge.tables.types import place
from binlog_merge.time_travel.bases import Found, Name
from snapshot_store.model import Catalog, Table


@dataclass(frozen=True, slots=True)
class Made:
    """A table as it was behind transaction `rank`, in an open file, whose catalog are the log's tables then.

    `doubts` are what the log and the base leave open, `notes` how it was made.
    """

    target: DuckdbTarget
    table: Table
    base: Found
    rank: int
    doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        name = place(self.table.schema, self.table.name)
        return int(self.target.connection.execute(f"SELECT count(*) FROM {name}").fetchall()[0][0])


def not_there(name: Name, catalog: Catalog) -> UnknownTable:
    """Return the error for a table that was not there."""
    known = ", ".join(sorted(".".join(each) for each in catalog.tables)[:5])
    return UnknownTable(f"there was no table {'.'.join(name)} then; there were {known or 'none'}")
