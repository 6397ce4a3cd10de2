"""What determines the values of a table's columns in bulk decoding, from the table's definition."""

from binlog_merge.binlog.arrow import DATES, arrow_type
from binlog_merge.binlog.cell_length import real_type
from binlog_merge.binlog.columnar import ColumnFacts
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.binlog.temporal import STOP, ZeroDates
from binlog_merge.values.types import binlog_column
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import MEMBERS, NUMERIC, Family


def facts_of(
    table: Table, temporal_text: bool = False, witness: TableMap | None = None, zero_dates: ZeroDates = STOP
) -> tuple[ColumnFacts, ...]:
    """Return the facts that determine the values of a table's columns, from the schema.

    `zero_dates` are the rules for dates that no calendar has, which have no typed value. With `witness` the
    binlog types are those of the table map, which may have older ones for the same column.
    """
    if witness is None:
        return tuple(column_facts_of(column, temporal_text, None, zero_dates) for column in table.columns)
    stored = zip(table.columns, witness.types, witness.metas, strict=True)
    return tuple(column_facts_of(column, temporal_text, (code, meta), zero_dates) for column, code, meta in stored)


def column_facts_of(
    column: Column,
    temporal_text: bool = False,
    stored: tuple[int, int] | None = None,
    zero_dates: ZeroDates = STOP,
) -> ColumnFacts:
    """Return the facts that determine the values of a column; `stored` is its type and metadata in a table map."""
    code, meta = binlog_column(column) if stored is None else stored
    kind, type_ = real_type(code, meta), column.type
    rule = zero_dates.of(column.name) if kind in DATES else "stop"
    as_text = temporal_text or rule == "text"
    unsigned = type_.unsigned and type_.family in NUMERIC
    members = type_.members if type_.family in MEMBERS else None
    # MariaDB's JSON is a LONGTEXT.
    charset = type_.charset or ("utf8mb4" if type_.family is Family.JSON else "binary")
    arrow = arrow_type(kind, meta, unsigned, charset, members is not None, as_text)
    return ColumnFacts(column.name, code, meta, kind, unsigned, charset, members, as_text, arrow, rule == "null")
