"""The numbers that existing rows get when an AUTO_INCREMENT column is added.

A server counts partition by partition, and in each in the order of the clustered index: that of the primary key, else
of the first unique key without NULL (refman, "Clustered and Secondary Indexes"). For a table without either only the
server knows the order.
"""

from dataclasses import dataclass
from typing import Any, Final

from binlog_merge.errors import ReplayStopped
from binlog_merge.log.statement_session import StatementSession
from binlog_merge.tables.partitions import KeyPlaces, PartitionRows
from binlog_merge.tables.types import BY_HAND, quoted
from binlog_merge.values.duckdb.collations import UnknownCollation, sort_key
from snapshot_store.model import Column, Index, Table
from snapshot_store.mysql.column_type import DATES, NUMERIC, Family

_REMEDY: Final = (
    "give the DuckDB table the column by hand, with the numbers that the server has; then go on with --skip"
)
_IN_ORDER: Final = NUMERIC | DATES | {Family.BYTES, Family.BIT}


@dataclass(frozen=True)
class Numbering:
    """Numbers the rows of a table; `here` are the columns that the file has of it, in lower case."""

    connection: Any
    table: Table
    here: frozenset[str]
    session: StatementSession
    start: int
    temporal_text: bool

    def numbered(self, name: str) -> Any:
        """Return row ids and numbers, as Arrow columns `k` and `v`, for the rows of the file's table `name`.

        Raises ReplayStopped if the order of the rows is not known.
        """
        refuse_rowid(self.table)
        ((count,),) = self.connection.execute(f"SELECT count(*) FROM {name}").fetchall()
        compared = [("rowid", "")] if count <= 1 else [*self._partitions(name), *_order(self.table)]
        # A value that may stop the engine is no key of a window: it is computed before.
        values = ", ".join(f"{sql} AS o{i}" for i, (sql, _) in enumerate(compared))
        order = ", ".join(f"o{i}{direction}" for i, (_, direction) in enumerate(compared))
        first, step = _first(self.session, self.start), self.session.step
        number = f"{first} + {step} * (row_number() OVER (ORDER BY {order}) - 1)"
        rows = f"(SELECT rowid AS k, {values} FROM {name})"
        return self.connection.sql(f"SELECT k, {number} AS v FROM {rows}").to_arrow_table()

    def _partitions(self, name: str) -> list[tuple[str, str]]:
        """Return SQL of the places of a row's partition and subpartition, if the table has several."""
        if not self.table.partitioning:
            return []
        by_key = KeyPlaces(self.connection, name, self.table, self.here)
        try:
            places = PartitionRows(self.table, self.here, self.temporal_text).numbers(by_key)
            return [(sql, "") for sql in places]
        except ReplayStopped as error:
            raise ReplayStopped(
                f"in which order rows are numbered is not known: {error.message}", remedy=_REMEDY
            ) from None


def refuse_rowid(table: Table) -> None:
    """Raise ReplayStopped if a column called rowid hides DuckDB's row ids, which identify rows here."""
    if table.index_of("rowid") is not None:
        name = f"{table.schema}.{table.name}"
        raise ReplayStopped(f"rows of {name} cannot be told apart here: a column of it is called rowid", remedy=BY_HAND)


def _first(session: StatementSession, start: int) -> int:
    """Return the first number. Source: `innobase_next_autoinc`, as `ib_sequence_t` calls it with `start`."""
    if session.step == 1:
        return start
    offset = session.first if session.first <= session.step else 0
    return (abs(start - offset) // session.step + 1) * session.step + offset


def _order(table: Table) -> list[tuple[str, str]]:
    """Return SQL of the values in whose order a server counts, each with its direction."""
    index = _clustered(table)
    if index is None:
        raise ReplayStopped(
            f"{table.schema}.{table.name} has no key: in which order its rows are numbered only the server knows",
            remedy=_REMEDY,
        )
    found = []
    for part in index.parts:
        place = None if part.column is None else table.index_of(part.column)
        if place is None or part.length is not None:
            raise ReplayStopped(f"the order of key {index.name} is not known here", remedy=_REMEDY)
        found.append((_compared(table.columns[place]), " DESC" if part.descending else ""))
    return found


def _clustered(table: Table) -> Index | None:
    if table.engine != "InnoDB":
        return None
    # Of unique keys, InnoDB does not take one with a prefix of a column.
    whole = (key for key in table.row_keys if key.name == "PRIMARY" or all(part.length is None for part in key.parts))
    return next(whole, None)


def _compared(column: Column) -> str:
    """Return SQL of a value that sorts in the server's order of the column."""
    kind = column.type
    if kind.family is Family.TEXT:
        try:
            return sort_key(quoted(column.name), kind.collation or "", True)
        except UnknownCollation:
            pass
    elif kind.family in _IN_ORDER and not (kind.family is Family.DECIMAL and (kind.length or 10) > 38):
        return quoted(column.name)
    raise ReplayStopped(f"the order of column {column.name} ({kind.name}) is not known here", remedy=_REMEDY)
