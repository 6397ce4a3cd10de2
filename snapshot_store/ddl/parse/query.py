"""CREATE TABLE … SELECT: the query is parsed if it only names columns of tables.

A statement-based binlog holds this query. A row-based one holds CREATE TABLE with the columns and START TRANSACTION.
The type of a column that an expression computes is the optimizer's knowledge: such a query is not understood.
"""

from collections.abc import Sequence
from dataclasses import replace

from snapshot_store.ddl.specs import Query, QuerySource, SelectItem
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
    """Return whether the query of a CREATE TABLE … SELECT begins here, or a word that may precede it."""
    word = cursor.word()
    if word in ("IGNORE", "REPLACE", "AS"):
        return True
    if cursor.at_symbol("("):
        return cursor.word(1) in ("SELECT", "TABLE", "WITH", "VALUES") or cursor.at_symbol("(", 1)
    return word in ("SELECT", "TABLE", "WITH", "VALUES")


def parse_query(cursor: Cursor) -> Query:
    """Parse [IGNORE | REPLACE] [AS] and the query, to its end."""
    cursor.accept_one("IGNORE", "REPLACE")
    cursor.accept("AS")
    return _query(cursor)


def _query(cursor: Cursor) -> Query:
    if cursor.accept_symbol("("):
        query = _query(cursor)
        cursor.expect_symbol(")")
        return query
    if cursor.accept("TABLE"):
        query = Query((SelectItem(None, None),), (QuerySource(cursor.table_name()),))
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


def _sources(cursor: Cursor) -> tuple[list[QuerySource], bool]:
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


def _source(cursor: Cursor) -> QuerySource:
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
    return QuerySource(table, alias)


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
