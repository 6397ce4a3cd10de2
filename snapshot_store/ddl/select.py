"""CREATE TABLE … SELECT: the columns that a query gives, for queries that only name columns of tables.

A row-based binlog holds the columns instead, with START TRANSACTION behind them; a statement-based one holds the query.
What a column's type would be that an expression computes is the optimizer's knowledge: such a query is not understood.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from snapshot_store.ddl.resolve import Context
from snapshot_store.ddl.specs import Query, SelectItem, Source
from snapshot_store.errors import UnknownColumn
from snapshot_store.model import Column, Default, Table
from snapshot_store.mysql.sql.cursor import Cursor, TableName

_END = frozenset({"WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "WINDOW", "FOR", "PROCEDURE"})
_SETS = frozenset({"UNION", "EXCEPT", "INTERSECT", "INTO"})
_JOINS = frozenset({"JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "NATURAL", "STRAIGHT_JOIN"})
_MODIFIERS = (
    "ALL",
    "DISTINCT",
    "DISTINCTROW",
    "HIGH_PRIORITY",
    "STRAIGHT_JOIN",
    "SQL_SMALL_RESULT",
    "SQL_BIG_RESULT",
    "SQL_BUFFER_RESULT",
    "SQL_NO_CACHE",
    "SQL_CALC_FOUND_ROWS",
)


def at_query(cursor: Cursor) -> bool:
    """Tell whether the query of a CREATE TABLE … SELECT begins here, with the words that may stand before it."""
    word = cursor.word()
    if word in ("IGNORE", "REPLACE", "AS"):
        return True
    if cursor.at_symbol("("):
        return cursor.word(1) in ("SELECT", "TABLE", "WITH", "VALUES") or cursor.at_symbol("(", 1)
    return word in ("SELECT", "TABLE", "WITH", "VALUES")


def parse_query(cursor: Cursor) -> Query:
    """Read [IGNORE | REPLACE] [AS] and the query, to its end."""
    cursor.accept_one("IGNORE", "REPLACE")
    cursor.accept("AS")
    return _query(cursor)


def _query(cursor: Cursor) -> Query:
    if cursor.accept_symbol("("):
        query = _query(cursor)
        cursor.expect_symbol(")")
        return query
    if cursor.accept("TABLE"):
        query = Query((SelectItem(None, None),), (Source(cursor.table_name()),))
        _skip_clauses(cursor)
        return query
    if not cursor.accept("SELECT"):
        raise cursor.error("a query whose columns are not known")
    while cursor.accept_one(*_MODIFIERS):
        pass
    items = [_item(cursor)]
    while cursor.accept_symbol(","):
        items.append(_item(cursor))
    if not cursor.accept("FROM"):
        raise cursor.error("a query of something else than columns")
    sources, merged = _sources(cursor)
    _skip_clauses(cursor)
    return Query(tuple(items), tuple(sources), merged)


def _item(cursor: Cursor) -> SelectItem:
    if cursor.accept_symbol("*"):
        return SelectItem(None, None)
    names = [cursor.name()]
    while cursor.accept_symbol("."):
        if cursor.accept_symbol("*"):
            return SelectItem(_qualifier(names), None)
        names.append(cursor.after_dot())
    alias = None
    if cursor.accept("AS") or (cursor.at_name() and cursor.word() != "FROM"):
        alias = cursor.name()
    if not (cursor.at_symbol(",") or cursor.at("FROM")):
        raise cursor.error("a query of something else than columns")
    return SelectItem(_qualifier(names[:-1]), names[-1], alias)


def _qualifier(names: Sequence[str]) -> TableName | None:
    if not names:
        return None
    return (names[-2] if len(names) > 1 else None, names[-1])


def _sources(cursor: Cursor) -> tuple[list[Source], bool]:
    sources, merged = [_source(cursor)], False
    while True:
        if cursor.accept_symbol(","):
            sources.append(_source(cursor))
            continue
        if cursor.word() not in _JOINS:
            return sources, merged
        natural = cursor.accept("NATURAL")
        side = cursor.accept_one("INNER", "CROSS", "LEFT", "RIGHT", "STRAIGHT_JOIN")
        cursor.accept("OUTER")
        if side != "STRAIGHT_JOIN":
            cursor.expect("JOIN")
        source = _source(cursor)
        if side == "RIGHT":
            sources = [replace(s, outer=True) for s in sources]
        sources.append(replace(source, outer=side == "LEFT"))
        merged = merged or natural
        if cursor.accept("USING"):
            cursor.names()
            merged = True
        elif cursor.accept("ON"):
            _skip_condition(cursor)


def _source(cursor: Cursor) -> Source:
    if cursor.at_symbol("(") or cursor.word() in ("LATERAL", "JSON_TABLE"):
        raise cursor.error("a query of something else than tables")
    table = cursor.table_name()
    if cursor.accept("PARTITION"):
        cursor.parenthesized()
    plain = cursor.at_name() and cursor.word() not in _END | _SETS | _JOINS | {"ON", "USING", "USE", "IGNORE", "FORCE"}
    alias = cursor.name() if cursor.accept("AS") or plain else None
    while cursor.accept_one("USE", "IGNORE", "FORCE"):
        cursor.accept_one("INDEX", "KEY")
        cursor.parenthesized()
    return Source(table, alias)


def _skip_condition(cursor: Cursor) -> None:
    while not cursor.done and not cursor.at_symbol(",") and not cursor.at_symbol(")"):
        word = cursor.word()
        if word in _END | _SETS or (word in _JOINS and not cursor.at_symbol("(", 1)):
            return
        _skip_token(cursor)


def _skip_clauses(cursor: Cursor) -> None:
    if cursor.word() not in _END and not (cursor.done or cursor.at_symbol(")")):
        raise cursor.error("a query that is not understood")
    while not cursor.done and not cursor.at_symbol(")"):
        if cursor.word() in _SETS:
            raise cursor.error("a query of several")
        _skip_token(cursor)


def _skip_token(cursor: Cursor) -> None:
    if cursor.at_symbol("("):
        cursor.parenthesized()
    else:
        cursor.next()


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
    hits = [(t, t.columns[place], s.outer) for s, t in pairs if (place := t.index_of(item.column)) is not None]
    if not hits:
        raise UnknownColumn(f"the query names a column {item.column} that none of its tables has")
    if len(hits) > 1:
        context.limit(query.merged, f"column {item.column} is in two tables of the query")
        raise context.error(f"column {item.column} is in two tables of the query")
    yield hits[0]


def _is_called(source: Source, table: Table, name: TableName) -> bool:
    if source.alias is not None:
        return name == (None, source.alias)
    return table.name == name[1] and name[0] in (None, table.schema)


def _as_result(column: Column, outer: bool, name: str, table: Table) -> Column:
    """Return what a new table gets for a column that a query reads."""
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
