"""Queries in statements: that of CREATE TABLE … SELECT is parsed if it only names columns of tables; of any other, the
tables that it names are found by its tokens.

A statement-based binlog holds this query. A row-based one holds CREATE TABLE with the columns and START TRANSACTION.
The type of a column that an expression computes is the optimizer's knowledge: such a query is not understood.

    WITH c AS (SELECT * FROM a) SELECT … FROM c JOIN d.b x, (SELECT 1 FROM e) …        a, d.b, e

A table's name follows FROM, JOIN, TABLE, or a comma in such a list. A FROM in the parentheses of a function is not one
(`TRIM(x FROM y)`), and a name that WITH defines is not a table unless a database precedes it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from snapshot_store.ddl.specs import Query, QuerySource, SelectItem
from snapshot_store.mysql.sql.cursor import Cursor, TableName
from snapshot_store.mysql.sql.functions import function

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


_JOIN_WORDS = frozenset({"JOIN", "STRAIGHT_JOIN"})
_LIST_ENDS = frozenset(
    {"WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "WINDOW", "FOR", "UNION", "EXCEPT", "INTERSECT", "INTO", "SELECT"}
)
_NO_TABLES = _LIST_ENDS | {"DUAL", "JSON_TABLE", "LATERAL", "TABLE", "VALUES", "WITH"}


@dataclass
class _Level:
    """The state within one pair of parentheses.

    `of_function`: FROM belongs to a function. `listing`: a list of tables is open. `awaits`: a table's name is next.
    """

    of_function: bool = False
    listing: bool = False
    awaits: bool = False

    def take(self, word: str) -> None:
        """Update the state after a word."""
        if (word == "FROM" and not self.of_function) or word == "TABLE":
            self.listing = self.awaits = True
        elif word in _JOIN_WORDS and self.listing:  # after SELECT, STRAIGHT_JOIN is a modifier
            self.awaits = True
        elif word in _NO_TABLES:
            self.awaits = False
            self.listing = self.listing and word not in _LIST_ENDS


def tables_of_query(cursor: Cursor) -> tuple[TableName, ...]:
    """Read to the end of the statement; return the tables that its query names, each once, in order."""
    tables: dict[TableName, None] = {}
    given: set[str] = set()
    levels, before, with_names = [_Level()], "", False
    while not cursor.done:
        here, word = levels[-1], cursor.word()
        if with_names and _at_given_name(cursor):
            given.add(cursor.peek().text.lower())
        if cursor.accept_symbol("("):
            # A table or join in parentheses continues the list; a query in parentheses begins another.
            levels.append(_Level(function(before.lower()).has_from, here.awaits, here.awaits))
        elif cursor.accept_symbol(")"):
            levels = levels[:-1] or [_Level()]
            levels[-1].awaits = False
        elif cursor.accept_symbol(","):
            here.awaits = here.listing
        elif here.awaits and cursor.at_name() and word not in _NO_TABLES:
            tables[cursor.table_name()] = None
            here.awaits = False
        else:
            cursor.next()
            here.take(word)
            with_names = with_names or word == "WITH"
        before = word
    return tuple(name for name in tables if name[0] is not None or name[1].lower() not in given)


def _at_given_name(cursor: Cursor) -> bool:
    """Return whether `name AS (` or `name (columns) AS (` comes next, with which WITH defines a name."""
    if not cursor.at_name():
        return False
    start = cursor.place
    try:
        cursor.next()
        if cursor.at_symbol("("):
            cursor.parenthesized()
        return cursor.word() == "AS" and cursor.at_symbol("(", 1)
    finally:
        cursor.place = start
