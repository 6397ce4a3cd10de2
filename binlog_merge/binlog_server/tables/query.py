"""Reads a SELECT from one table, as CDC and dump tools send them: text in, values out.

    SELECT * | columns | COUNT(*), COUNT(c), MIN(c), MAX(c)
    FROM table [WHERE condition] [ORDER BY columns] [LIMIT n]      or FROM (such a SELECT) AS name

Conditions are read by MySQL's grammar. All else is refused, so that nothing is answered that is not understood.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from binlog_merge.binlog_server.refused import Refused
from binlog_merge.binlog_server.show_sql import limit, skip_modifiers
from binlog_merge.protocol.packets import ErrorCode
from binlog_merge.values.duckdb.piece import CONNECTION
from snapshot_store.errors import DdlNotUnderstood, DdlRejected
from snapshot_store.mysql.expr.nodes import Node
from snapshot_store.mysql.expr.reader import ExpressionReader
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.session import (
    ALLOW_INVALID_DATES,
    NO_UNSIGNED_SUBTRACTION,
    NO_ZERO_DATE,
    NO_ZERO_IN_DATE,
    PAD_CHAR_TO_FULL_LENGTH,
    TIME_TRUNCATE_FRACTIONAL,
)

_AGGREGATES: Final = ("COUNT", "MIN", "MAX")
_AFTER: Final = ("FROM", "WHERE", "ORDER", "LIMIT", "FOR", "LOCK", "GROUP", "HAVING", "UNION", "INTO")
_MOST_NODES: Final = 3000
_MOST_ITEMS: Final = 4096
_MOST_KEYS: Final = 64


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a SELECT: all columns (`name` is ""), a column, or an aggregate of a column ("" of all rows).

    `number` is a whole number that stands for itself; "exists" is an aggregate of a derived table.
    """

    label: str
    name: str = ""
    aggregate: str = ""
    number: str = ""
    table: tuple[str, ...] = ()
    """What stands before the column's name: its table, or that and the schema before it."""


@dataclass(frozen=True, slots=True)
class Source:
    """The table that rows are taken from, under the name that the statement gives it."""

    schema: str
    name: str
    alias: str


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT. `order` are columns, each with whether it is descending; `alias` is the name of a derived table."""

    items: tuple[Item, ...]
    source: "Source | Query"
    where: Node | None = None
    order: tuple[tuple[str, bool], ...] = ()
    limit: int | None = None
    offset: int = 0
    padded: bool = False
    """CHAR values would be padded to their full length (sql_mode)."""
    connection: str = CONNECTION
    """The collation of the session's literals."""
    alias: str = ""

    @property
    def aggregated(self) -> bool:
        return any(item.aggregate for item in self.items)


def read_query(cursor: Cursor, schema: str | None, connection: str = CONNECTION) -> Query:
    """Read a SELECT from a user's table; `schema` is the session's default, `connection` the collation of its literals.

    Raises Refused for what is not understood.
    """
    try:
        query = _connected(_query(cursor, schema), connection)
        _check_mode(query, cursor.session.sql_mode)
        _locking(cursor)
        cursor.finish()
        if not _small(query):
            raise cursor.error(f"more than {_MOST_NODES} comparisons and values")
    except DdlNotUnderstood as error:
        raise _refused(error.reason) from None
    except DdlRejected as error:
        raise _refused(str(error)) from None
    except RecursionError:
        raise _refused("an expression nested too deep") from None
    return query


def _connected(query: Query, connection: str) -> Query:
    source = query.source
    inner = _connected(source, connection) if isinstance(source, Query) else source
    return replace(query, source=inner, connection=connection)


_OTHERWISE: Final = {
    NO_UNSIGNED_SUBTRACTION: "NO_UNSIGNED_SUBTRACTION",
    ALLOW_INVALID_DATES: "ALLOW_INVALID_DATES",
    TIME_TRUNCATE_FRACTIONAL: "TIME_TRUNCATE_FRACTIONAL",
}
_ZERO_DATE: Final = re.compile(r"\s*(?:0+\D|\d+\D+0+\D|\d+\D+\d+\D+0+(?:\D|$)|0+$|\d{4}00\d\d|\d{6}00)")
_MAKES_DATES: Final = ("date", "datetime", "timestamp")


def _check_mode(query: Query, sql_mode: int) -> None:
    """Raise Refused for a condition that sql_mode gives a meaning that is not followed here."""
    if isinstance(query.source, Query):
        _check_mode(query.source, sql_mode)
    if query.where is None:
        return
    for bit, name in _OTHERWISE.items():
        if sql_mode & bit:
            raise _refused(f"a WHERE under sql_mode {name}; SET sql_mode without it")
    if sql_mode & (NO_ZERO_DATE | NO_ZERO_IN_DATE):
        for node in _nodes(query.where):
            if _made_zero(node):
                raise _refused("dates that may be zero, under sql_mode NO_ZERO_DATE; SET sql_mode without it")


def _made_zero(node: Node) -> bool:
    """Return whether a part of a condition is a zero date, or makes dates: zero ones are NULL, or an error."""
    if node.kind in ("string", "literal"):
        return len(node.text) > 1 and _ZERO_DATE.match(node.text) is not None
    return node.kind == "interval" or (node.kind == "cast" and node.text.startswith(_MAKES_DATES))


def _nodes(node: Node) -> Iterator[Node]:
    left = [node]
    while left:
        node_here = left.pop()
        yield node_here
        left += node_here.args


def _small(query: Query) -> bool:
    """Return whether a statement takes no long time; deep ones are refused before."""
    left, rest = _MOST_NODES, [] if query.where is None else [query.where]
    while rest and left:
        left -= 1
        rest += rest.pop().args
    inner = _small(query.source) if isinstance(query.source, Query) else True
    return not rest and len(query.items) <= _MOST_ITEMS and len(query.order) <= _MOST_KEYS and inner


def _refused(reason: str) -> Refused:
    return Refused(
        ErrorCode.ER_NOT_SUPPORTED_YET,
        "binlog-merge serve answers SELECT columns, COUNT, MIN or MAX FROM one table, with WHERE, ORDER BY columns and "
        f"LIMIT: {reason[:200]}",
    )


def _query(cursor: Cursor, schema: str | None) -> Query:
    cursor.expect("SELECT")
    skip_modifiers(cursor)
    if cursor.at("EXISTS") and cursor.at_symbol("(", 1):
        return _existence(cursor, schema)
    items = [_item(cursor)]
    while cursor.accept_symbol(","):
        if cursor.at_symbol("*"):
            raise cursor.error("* stands before other columns")
        items.append(_item(cursor))
    if len({bool(item.aggregate) for item in items}) > 1:
        raise cursor.error("aggregates beside columns")
    cursor.expect("FROM")
    source = _source(cursor, schema)
    reader = ExpressionReader(cursor)
    where = reader.expression() if cursor.accept("WHERE") else None
    order: list[_Key] = _order(cursor) if cursor.accept("ORDER", "BY") else []
    if order and items[0].aggregate:
        raise cursor.error("ORDER BY of aggregates")
    most, offset = limit(cursor)
    padded = bool(cursor.session.sql_mode & PAD_CHAR_TO_FULL_LENGTH)
    _check_tables(source, {*reader.tables, *(item.table for item in items), *(table for *_, table in order)})
    _check_names(cursor, items, order, source)
    query = Query(tuple(items), source, where, tuple((name, desc) for name, desc, _ in order), most, offset, padded)
    return _flat(cursor, query) if isinstance(source, Query) and not query.aggregated else query


def _flat(cursor: Cursor, query: Query) -> Query:
    """Return SELECT * from a derived table as a SELECT from the table itself: what readers in parts wrap theirs in."""
    inner = query.source
    if not isinstance(inner, Query) or isinstance(inner.source, Query):
        return query
    if query.items != (Item(""),) or inner.limit is not None or inner.order or any(item.number for item in inner.items):
        raise cursor.error("columns of a derived table: * alone is taken of one, or COUNT, MIN and MAX")
    known = {item.name.lower() for item in inner.items}
    used = {*_columns(query.where), *(name.lower() for name, _ in query.order)}
    if "" not in known and (wrong := sorted(used - known)):
        raise Refused(ErrorCode.ER_BAD_FIELD_ERROR, f"Unknown column '{wrong[0][:64]}' in 'where clause'")
    both = [node for node in (inner.where, query.where) if node is not None]
    where = Node("and", "", tuple(both)) if len(both) > 1 else next(iter(both), None)
    return replace(query, items=inner.items, source=replace(inner.source, alias=inner.alias), where=where)


def _columns(node: Node | None) -> Iterator[str]:
    """Yield the columns of an expression, in lower case."""
    if node is not None:
        if node.kind == "column":
            yield node.text.lower()
        for part in node.args:
            yield from _columns(part)


def _existence(cursor: Cursor, schema: str | None) -> Query:
    """Parse EXISTS of a SELECT, the only item of one without FROM."""
    start = cursor.next().start
    cursor.expect_symbol("(")
    inner = _query(cursor, schema)
    if inner.aggregated or isinstance(inner.source, Query):
        raise cursor.error("EXISTS of aggregates, or of a derived table")
    label = cursor.text[start : cursor.peek().end]
    cursor.expect_symbol(")")
    item = _named(cursor, Item(label, aggregate="exists"))
    most, offset = limit(cursor)
    return Query((item,), inner, limit=most, offset=offset)


def _check_tables(source: "Source | Query", tables: set[tuple[str, ...]]) -> None:
    """Raise Refused if another table than that which is asked stands before a column's name."""
    for table in filter(None, tables):
        schemas = ((),) if isinstance(source, Query) else ((), (source.schema,))
        if table[-1] != source.alias or table[:-1] not in schemas:
            raise Refused(ErrorCode.ER_BAD_FIELD_ERROR, f"Unknown table '{'.'.join(table)[:64]}' before a column")


def _check_names(cursor: Cursor, items: Sequence[Item], order: Sequence["_Key"], source: "Source | Query") -> None:
    """Raise DdlNotUnderstood where an alias is meant: by ORDER BY, or by what is taken of a derived table."""
    aliases = {item.label.lower(): item.name.lower() for item in items if item.name and not item.aggregate}
    for name, _, table in order:
        if not table and aliases.get(name.lower(), name.lower()) != name.lower():
            raise cursor.error(f"ORDER BY {name}, an alias of another column")
    if isinstance(source, Query):
        inner = [item for item in source.items if item.name]
        names = {item.name.lower() for item in inner}
        if len(names) < len(inner) or any(item.label.lower() != item.name.lower() for item in inner):
            raise cursor.error("a derived table with aliases, or a column twice")


def _item(cursor: Cursor) -> Item:
    if cursor.accept_symbol("*"):
        return Item("")
    start = cursor.peek().start
    if cursor.word() in _AGGREGATES and cursor.at_symbol("(", 1):
        item = _aggregate(cursor, start)
    elif cursor.peek().kind == "number":
        number = str(cursor.integer())
        item = Item(cursor.text[start : cursor.peek(-1).end], number=number)
    else:
        *table, name = _qualified(cursor)
        if name == "*":
            return Item("", table=tuple(table))
        item = Item(name, name, table=tuple(table))
    return _named(cursor, item)


def _named(cursor: Cursor, found: Item) -> Item:
    """Parse the alias of an item, if there is one."""
    named = cursor.accept("AS")
    token = cursor.peek()
    if named or token.kind in ("name", "string") or (token.kind == "word" and cursor.word() not in _AFTER):
        label = cursor.string() if token.kind == "string" else cursor.name()
        return replace(found, label=label)
    return found


def _qualified(cursor: Cursor) -> list[str]:
    """Parse a column's name, with its table before it, or schema and table; after a table it may be *."""
    names = [cursor.name()]
    while cursor.accept_symbol("."):
        names.append("*" if cursor.accept_symbol("*") else cursor.after_dot())
    return names


def _aggregate(cursor: Cursor, start: int) -> Item:
    kind = cursor.next().text.lower()
    cursor.expect_symbol("(")
    table: list[str] = []
    name = ""
    if kind == "count" and cursor.accept_symbol("*"):
        pass
    elif kind == "count" and cursor.peek().kind == "number":
        cursor.integer()
    else:
        *table, name = _qualified(cursor)
    end = cursor.peek().end
    cursor.expect_symbol(")")
    return Item(cursor.sql[start:end], name, kind, table=tuple(table))


def _source(cursor: Cursor, schema: str | None) -> "Source | Query":
    if cursor.accept_symbol("("):
        inner = _query(cursor, schema)
        if inner.aggregated or isinstance(inner.source, Query):
            raise cursor.error("a derived table within, or of aggregates")
        cursor.expect_symbol(")")
        cursor.accept("AS")
        return replace(inner, alias=cursor.word_or_name())
    own, name = cursor.table_name()
    if cursor.word() in ("PARTITION", "USE", "FORCE", "IGNORE"):
        raise cursor.error("not understood")
    alias = name
    if cursor.accept("AS") or cursor.peek().kind == "name" or (cursor.word() and cursor.word() not in _AFTER):
        alias = cursor.word_or_name()
    if own is None and schema is None:
        raise Refused(ErrorCode.ER_NO_DB_ERROR, "No database selected")
    return Source(own or schema or "", name, alias)


_Key = tuple[str, bool, tuple[str, ...]]


def _order(cursor: Cursor) -> list[_Key]:
    """Parse columns of ORDER BY: a name, whether it is descending, and what stands before the name."""
    keys = []
    while True:
        *table, name = _qualified(cursor)
        keys.append((name, cursor.accept_one("ASC", "DESC") == "DESC", tuple(table)))
        if not cursor.accept_symbol(","):
            return keys


def _locking(cursor: Cursor) -> None:
    """Skip the clause of a locking read: nothing is ever written here by others."""
    if cursor.accept("LOCK", "IN", "SHARE", "MODE") or cursor.accept("FOR", "SHARE"):
        return
    if cursor.at("FOR", "UPDATE"):
        raise cursor.error("this server is read-only")
