"""CREATE TABLE … SELECT: the columns of the new table, from the query and the tables it reads."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from snapshot_store.ddl.resolve import Context
from snapshot_store.ddl.specs import Query, QuerySource, SelectItem
from snapshot_store.errors import UnknownColumn
from snapshot_store.model import Column, Default, Table
from snapshot_store.mysql.sql.cursor import TableName


def query_columns(context: Context, query: Query, tables: Sequence[Table]) -> tuple[Column, ...]:
    """Return the columns of a query's result, given the tables of its sources in order."""
    found = []
    for item in query.items:
        for table, column, outer in _meant(context, query, tables, item):
            found.append(_as_result(column, outer, item.alias or column.name, table))
    return tuple(found)


def _meant(
    context: Context, query: Query, tables: Sequence[Table], item: SelectItem
) -> Iterator[tuple[Table, Column, bool]]:
    pairs = list(zip(query.sources, tables, strict=True))
    if item.table is not None:
        pairs = [(s, t) for s, t in pairs if _is_called(s, t, item.table)]
    if item.column is None:
        if query.merged and item.table is None:
            raise context.error("* of a join that makes one column of two")
        for source, table in pairs:
            for column in table.columns:
                if not column.invisible:
                    yield table, column, source.outer
        return
    hits = [(t, t.columns[index], s.outer) for s, t in pairs if (index := t.index_of(item.column)) is not None]
    if not hits:
        raise UnknownColumn(f"the query names a column {item.column} that none of its tables has")
    if len(hits) > 1:
        context.limit(query.merged, f"column {item.column} is in two tables of the query")
        raise context.error(f"column {item.column} is in two tables of the query")
    yield hits[0]


def _is_called(source: QuerySource, table: Table, name: TableName) -> bool:
    if source.alias is not None:
        return name == (None, source.alias)
    return table.name == name[1] and name[0] in (None, table.schema)


def _as_result(column: Column, outer: bool, name: str, table: Table) -> Column:
    """Return the column of the new table for a column that the query selects."""
    default = column.default
    nullable = column.nullable or outer
    if column.auto_increment:
        default = Default("literal", "0")
    if column.generated is not None or (outer and not column.nullable):
        default = None
    if default is None and nullable:
        default = Default("null")
    return replace(
        column,
        name=name,
        nullable=nullable,
        default=default,
        auto_increment=False,
        generated=None,
        invisible=False,
        on_update_now=column.on_update_now,
    )
