"""A SELECT from a table as SQL of DuckDB, exact or refused, and the description of its result."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from binlog_merge.binlog_server.refused import Refused, unknown_table
from binlog_merge.binlog_server.tables.fields import (
    Form,
    Reading,
    Results,
    compared,
    count_of,
    extreme_of,
    field_of,
    number_of,
    printed,
    sorted_by,
    truth_of,
)
from binlog_merge.binlog_server.tables.query import Item, Query, Source
from binlog_merge.binlog_server.tables.values import Output
from binlog_merge.protocol.packets import ErrorCode
from binlog_merge.values.duckdb.collations import UnknownCollation
from binlog_merge.values.duckdb.compile import UnknownColumn, compile_value
from binlog_merge.values.duckdb.piece import ExpressionError, condition
from snapshot_store.model import Catalog, Column, Table
from snapshot_store.mysql.column_type import MEMBERS, Family

_NO_EXTREME = MEMBERS | {Family.JSON, Family.VECTOR, Family.BIT, Family.GEOMETRY}
_BOUND = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Compiled:
    """The SQL, and the columns of its result."""

    sql: str
    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """What is known of a file: the log's tables, the columns that stand in it, and where a table is."""

    catalog: Catalog
    columns: Callable[[str, str], tuple[str, ...]]
    place: Callable[[str, str], str]
    reading: Reading


def compile_query(query: Query, shape: Shape, results: Results) -> Compiled:
    """Compile a SELECT. Raises Refused for tables and columns that do not exist, and what cannot be exact."""
    table, alias = _table(query, shape)
    columns = {column.name.lower(): column for column in table.columns}
    if query.padded and (char := next((c.name for c in table.columns if c.type.name == "char"), None)) is not None:
        raise Refused(
            ErrorCode.ER_NOT_SUPPORTED_YET,
            f"binlog-merge serve pads no CHAR columns, such as {char}: SET sql_mode without PAD_CHAR_TO_FULL_LENGTH",
        )
    outputs: list[Output] = []
    texts: list[str] = []
    for item in _items(query, table):
        text, output = _output(item, columns, shape.reading, results, table, alias)
        texts.append(f'{text} AS "value {len(texts)}"')
        outputs.append(output)
    return Compiled(f"SELECT {', '.join(texts)} {_from(query, shape, columns)}", tuple(outputs))


def _table(query: Query, shape: Shape) -> tuple[Table, str]:
    """Return the table that a query is of, with those columns that its source has."""
    if isinstance(query.source, Query):
        table, alias = _table(query.source, shape)
        wanted = {item.name.lower() for item in _items(query.source, table)}
        return Table(table.schema, table.name, tuple(c for c in table.columns if c.name.lower() in wanted)), alias
    source = query.source
    table = _known(source, shape.catalog)
    here = {name.lower() for name in shape.columns(source.schema, source.name)}
    missing = [column.name for column in table.columns if column.name.lower() not in here]
    if missing:
        raise Refused(
            ErrorCode.ER_NOT_SUPPORTED_YET,
            f"the file of --tables has no {source.schema}.{source.name} with {', '.join(missing)[:200]}",
        )
    return table, source.alias


def _known(source: Source, catalog: Catalog) -> Table:
    table = catalog.tables.get((source.schema, source.name))
    if table is None:
        raise unknown_table(source.schema, source.name)
    return table


def _items(query: Query, table: Table) -> list[Item]:
    """Return the items with * as the visible columns."""
    items: list[Item] = []
    for item in query.items:
        if item.name or item.aggregate or item.number:
            items.append(item)
        else:
            items += [Item(column.name, column.name) for column in table.columns if not column.invisible]
    return items


def _output(
    item: Item, columns: Mapping[str, Column], reading: Reading, results: Results, table: Table, alias: str
) -> tuple[str, Output]:
    if item.number:
        return f"'{item.number}'", Output(number_of(item.label, item.number), Form.ASCII)
    if item.aggregate == "exists":
        return "CAST(CAST(count(*) > 0 AS INTEGER) AS VARCHAR)", Output(truth_of(item.label), Form.ASCII)
    if item.aggregate == "count":
        of = "*" if not item.name else _in_file(_column(columns, item.name))
        return f"CAST(count({of}) AS VARCHAR)", Output(count_of(item.label), Form.ASCII)
    column = _column(columns, item.name)
    name = _in_file(column)
    if not item.aggregate:
        text, form = printed(column, name, reading)
        return text, Output(field_of(table, column, item.label, alias, results), form, column)
    if column.type.family in _NO_EXTREME or column.type.is_lob:
        raise Refused(
            ErrorCode.ER_NOT_SUPPORTED_YET,
            f"binlog-merge serve has no {item.aggregate.upper()} of {column.name}, a {column.type.name.upper()}",
        )
    bare = replace(column, type=replace(column.type, zerofill=False))  # the zeros belong to the column alone
    extreme = f"arg_{item.aggregate}({name}, {sorted_by(column, name, reading)})"
    if column.type.family is Family.YEAR:
        text, form = f"CAST({extreme} AS VARCHAR)", Form.ASCII
    else:
        text, form = printed(bare, extreme, reading)
    return text, Output(extreme_of(column, item.label, results), form, bare)


def _from(query: Query, shape: Shape, columns: Mapping[str, Column]) -> str:
    if isinstance(query.source, Query):
        inner_table, _ = _table(query.source, shape)
        inner = {column.name.lower(): column for column in inner_table.columns}
        taken = [item for item in _items(query.source, inner_table) if item.name]
        names = dict.fromkeys(_in_file(_column(inner, item.name)) for item in taken)
        text = f"FROM (SELECT {', '.join(names) or '1'} {_from(query.source, shape, inner)}) t"
    else:
        text = f"FROM {shape.place(query.source.schema, query.source.name)} t"
    if query.where is not None:
        text += f" WHERE {_condition(query, shape.reading, columns)}"
    keys = [
        sorted_by(column, _in_file(column), shape.reading) + (" DESC NULLS LAST" if descending else " ASC NULLS FIRST")
        for column, descending in ((_column(columns, name), descending) for name, descending in query.order)
    ]
    if keys:
        text += f" ORDER BY {', '.join(keys)}"
    if query.limit is not None:
        text += f" LIMIT {min(query.limit, _BOUND)} OFFSET {min(query.offset, _BOUND)}"
    return text


def _condition(query: Query, reading: Reading, columns: Mapping[str, Column]) -> str:
    assert query.where is not None
    pieces = {name: compared(column, _in_file(column), reading) for name, column in columns.items()}
    try:
        return condition(compile_value(query.where, pieces, query.connection, reading.client))
    except UnknownColumn as error:
        raise Refused(ErrorCode.ER_BAD_FIELD_ERROR, f"Unknown column '{error.column[:64]}' in 'where clause'") from None
    except RecursionError:
        raise Refused(ErrorCode.ER_NOT_SUPPORTED_YET, "an expression nested too deep") from None
    except (ExpressionError, UnknownCollation) as error:
        raise Refused(ErrorCode.ER_NOT_SUPPORTED_YET, f"binlog-merge serve does not compare so: {error}") from None


def _column(columns: Mapping[str, Column], name: str) -> Column:
    column = columns.get(name.lower())
    if column is None:
        raise Refused(ErrorCode.ER_BAD_FIELD_ERROR, f"Unknown column '{name[:64]}' in 'field list'")
    return column


def _in_file(column: Column) -> str:
    return 't."' + column.name.replace('"', '""') + '"'
