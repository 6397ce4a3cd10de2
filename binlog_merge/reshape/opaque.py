"""The shape of a table that only its table maps describe: what can be read from a table map alone, and what cannot.

With `binlog_row_metadata=FULL` a table map has the names and types of its columns. With MINIMAL it has types only.
Names are then taken from candidate tables that agree with it column by column, if those all have the same names.
"""

from collections.abc import Sequence

from binlog_merge.binlog.cells import type_name
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.reshape.witness import check_witness, describe_table_map
from binlog_merge.values.from_table_map import column_type, table_from_table_map
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import ColumnType
from snapshot_store.tso import OrderKey


def shape_from_table_map(table_map: TableMap, likely: Sequence[Table], names_matter_not: bool) -> Table | str:
    """Return the table that a table map describes, or the reason why its shape cannot be determined.

    `likely` are the candidate tables. `names_matter_not`: rows pass unchanged, so columns without a name are named @1,
    @2 ...
    """
    named = table_from_table_map(table_map)
    if named is not None:
        return named
    wanted = table_map.optional.column_names if table_map.optional is not None else None
    fitting = [table for table in likely if check_witness(table, table_map) is None]
    names = {tuple(column.name.lower() for column in table.columns) for table in fitting}
    if len(names) == 1:
        return fitting[0].renamed(table_map.schema, table_map.table)
    if names_matter_not:
        return _numbered(table_map, wanted)
    problem = f"table maps alone say what it is here, and this one has {describe_table_map(table_map)}"
    if not names:
        return f"{problem}: it carries no column names, and no known shape of the table agrees with it"
    return f"{problem}: it carries no column names, and shapes with different names agree with it"


def _numbered(table_map: TableMap, names: Sequence[str] | None) -> Table:
    columns = tuple(
        Column(
            names[i] if names else f"@{i + 1}",
            column_type(table_map, i) or ColumnType(type_name(code).lower()),
            nullable=table_map.nullable(i),
        )
        for i, code in enumerate(table_map.types)
    )
    return Table(table_map.schema, table_map.table, columns)


def remedy_of(key: OrderKey, node: str | None, table: tuple[str, str], believed: bool = False) -> str:
    """Return the remedy for rows that fit no known shape of their table.

    `believed`: the run already trusts table maps, so that setting is not suggested again.
    """
    options = f"--merged DIR{f' --node {node}' if node else ''} --at-tso {key.previous().text()}"
    base = f"`base.physical` of node {node}" if node else "`base.logical`"
    return (
        f"if it was so before the first file already, put it into {base} and merge into an empty directory; else say "
        f"what it is, `binlog-merge schema set {'.'.join(table)} --sql FILE {options}`, or take it from the server, "
        f"`binlog-merge schema import --server URL {options}`; "
        + ("" if believed else "or set `schemas.not-understood: opaque` to believe table maps; ")
        + "then merge again"
    )
