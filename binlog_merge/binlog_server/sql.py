"""Parses the statements that replicas, connectors and people send to a binlog server: text in, values out.

    SELECT   as whose rows it asks for; who has them reads it     SHOW   variables, binlogs, definitions (`show_sql`)
    SET      user and session variables                           KILL, USE, transactions, locks

Everything else is Unsupported.
"""

import re
from collections.abc import Sequence
from typing import Final

from binlog_merge.binlog_server.show_sql import (
    cursor_of,
    describe,
    limit,
    name,
    rest,
    show_definitions,
    transaction,
)
from binlog_merge.binlog_server.statements import (
    Empty,
    Kill,
    Names,
    Select,
    SetIsolation,
    SetNames,
    SetVariables,
    Show,
    ShowEvents,
    Statement,
    Unsupported,
    Use,
    exactly,
)
from snapshot_store.errors import DdlNotUnderstood, DdlRejected
from snapshot_store.mysql.expr.nodes import Node
from snapshot_store.mysql.expr.reader import ExpressionReader
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.functions import WITHOUT_PARENTHESES
from snapshot_store.mysql.sql.lexer import Token
from snapshot_store.mysql.sql.session import DdlSession

_SHOWS: Final = {
    "master status": "binary log status",
    "binary log status": "binary log status",
    "binlog status": "binary log status",
    "master logs": "binary logs",
    "binary logs": "binary logs",
    "variables": "variables",
    "status": "status",
    "warnings": "warnings",
    "errors": "warnings",
    "count warnings": "warnings count",
    "count errors": "errors count",
    "replicas": "replicas",
    "slave hosts": "replicas",
    "full replicas": "full replicas",
    "replica status": "replica status",
    "grants": "grants",
    "processlist": "processlist",
    "full processlist": "processlist",
}
_MOST_PARTS: Final = 20_000
SCOPES: Final = {"GLOBAL": "global", "SESSION": "session", "LOCAL": "session"}


def parse_statement(sql: str, session: DdlSession, schema: str | None = None) -> Statement:
    """Parse a statement; `schema` is the session's default. Never raises: what is not understood is Unsupported."""
    try:
        cursor = cursor_of(sql, session, _MOST_PARTS)
        if cursor.done:
            return Empty()
        if _is_select(cursor):
            return Select(_first_table(cursor, schema), cursor)
        statement = _statement(cursor)
        cursor.finish()
    except DdlNotUnderstood as error:
        return Unsupported(error.reason)
    except (DdlRejected, RecursionError) as error:
        return Unsupported(str(error))
    return statement


def _is_select(cursor: Cursor) -> bool:
    ahead = 0
    while cursor.at_symbol("(", ahead):
        ahead += 1
    return cursor.word(ahead) == "SELECT"


def _first_table(cursor: Cursor, schema: str | None) -> tuple[str, str] | None:
    """Return the first table that a SELECT, or one within it, is from; None if there is none. The cursor stays.

    FROM is a SELECT's where SELECT stands in the same parentheses: that of EXTRACT(YEAR FROM d) is none.
    """
    selects, tokens = [False], cursor.tokens
    for i, token in enumerate(tokens):
        symbol = token.text if token.kind == "symbol" else ""
        word = token.text.upper() if token.kind == "word" and not (i and tokens[i - 1].text == ".") else ""
        if symbol == "(":
            selects.append(False)
        elif symbol == ")" and len(selects) > 1:
            selects.pop()
        elif word == "SELECT":
            selects[-1] = True
        elif word == "FROM" and selects[-1]:
            table = _table_at(tokens, i + 1, schema)
            if table is not None:
                return table
    return None


def _table_at(tokens: Sequence[Token], place: int, schema: str | None) -> tuple[str, str] | None:
    """Return the table that is named at a place, or behind parentheses there; None for DUAL and for a SELECT."""
    while place < len(tokens) and (tokens[place].kind, tokens[place].text) == ("symbol", "("):
        place += 1
    first, dot, second = (*tokens[place : place + 3], *[None] * 3)[:3]
    if first is None or first.kind not in ("word", "name"):
        return None
    if first.kind == "word" and first.text.upper() in _NO_TABLES:
        return None
    if dot is not None and second is not None and (dot.kind, dot.text) == ("symbol", "."):
        return first.text, second.text
    return schema or "", first.text


_NO_TABLES: Final = ("DUAL", "SELECT", "WITH", "VALUES", "TABLE")


def _statement(cursor: Cursor) -> Statement:
    if cursor.accept("SET"):
        return _set(cursor)
    if cursor.accept("SHOW"):
        return _show(cursor)
    if cursor.accept("USE"):
        return Use(name(cursor))
    if cursor.accept("KILL"):
        return _kill(cursor)
    if cursor.accept_one("DESCRIBE", "DESC", "EXPLAIN"):
        return describe(cursor)
    statement = transaction(cursor)
    if statement is None:
        raise cursor.error("not understood")
    return statement


def _set(cursor: Cursor) -> Statement:
    if cursor.accept("CHARACTER", "SET") or cursor.accept("CHARSET"):
        return SetNames(_charset(cursor), literals=False)
    if cursor.accept("NAMES"):
        charset = _charset(cursor)
        return SetNames(charset, _charset(cursor) if cursor.accept("COLLATE") else "")
    if cursor.accept("TRANSACTION") or cursor.accept("SESSION", "TRANSACTION") or cursor.accept("LOCAL", "TRANSACTION"):
        match = re.search(r"isolation\s+level\s+(\w+(?:\s+(?!only)\w+)?)", rest(cursor).lower())
        return SetIsolation("" if match is None else "-".join(match[1].split()))
    items = [_assignment(cursor)]
    while cursor.accept_symbol(","):
        items.append(_assignment(cursor))
    return SetVariables(tuple(items))


def _charset(cursor: Cursor) -> str:
    charset = name(cursor)
    return "" if charset.lower() == "default" else charset


def _assignment(cursor: Cursor) -> tuple[str, Node | None]:
    if cursor.accept("GLOBAL") or cursor.accept("PERSIST"):
        raise cursor.error("not understood")
    if not cursor.accept("SESSION"):
        cursor.accept("LOCAL")
    target = _target(cursor)
    cursor.accept_symbol(":")
    cursor.expect_symbol("=")
    return target, _value(cursor)


def _target(cursor: Cursor) -> str:
    """Parse what is assigned to: a user variable as `@name`, a session variable by its name."""
    user = cursor.accept_symbol("@") and not cursor.accept_symbol("@")
    parts = [name(cursor)]
    while cursor.accept_symbol("."):
        parts.append(name(cursor))
    scope = "" if user or len(parts) == 1 else parts[0].upper()
    if scope in ("GLOBAL", "PERSIST", "PERSIST_ONLY"):
        raise cursor.error("not understood")
    return ("@" * user + ".".join(parts[scope in SCOPES :])).lower()


def _value(cursor: Cursor) -> Node | None:
    """Parse the right side of an assignment, where a bare word is a string, but for DEFAULT, which is None."""
    token, after = cursor.peek(), cursor.peek(1)
    bare = token.kind == "name" or (token.kind == "word" and token.text.lower() not in _VALUES)
    if bare and (after.kind == "end" or (after.kind == "symbol" and after.text in ",;")):
        cursor.next()
        return None if token.kind == "word" and token.text.upper() == "DEFAULT" else Node("string", token.text)
    return ExpressionReader(cursor).expression()


_VALUES: Final = frozenset({"null", "true", "false", *WITHOUT_PARENTHESES})
"""Words that are values, and no strings."""


def _show(cursor: Cursor) -> Statement:
    if cursor.accept("BINLOG", "EVENTS"):
        return _show_events(cursor)
    definitions = show_definitions(cursor)
    if definitions is not None:
        return definitions
    everywhere = (cursor.accept_one(*SCOPES) or "").upper() == "GLOBAL"
    words: list[str] = []
    while cursor.word() and len(words) < 3:
        words.append(cursor.next().text.lower())
        if words == ["count"] and cursor.accept_symbol("("):
            cursor.expect_symbol("*")
            cursor.expect_symbol(")")
        what = _SHOWS.get(" ".join(words))
        if what is None:
            continue
        if what == "grants":
            _for_user(cursor)
        names, where = _names(cursor)
        limit(cursor)
        return Show(what, names, where, everywhere)
    raise cursor.error("not understood")


def _for_user(cursor: Cursor) -> None:
    if cursor.accept("FOR"):
        if not cursor.accept("CURRENT_USER"):
            raise cursor.error("not understood")
        if cursor.accept_symbol("(") and not cursor.accept_symbol(")"):
            raise cursor.error("not understood")


def _names(cursor: Cursor) -> tuple[Names | None, str]:
    """Parse LIKE, or a WHERE that says names alone; any other is returned as text."""
    if cursor.accept("LIKE"):
        return Names((cursor.literal_string(),)), ""
    if not cursor.accept("WHERE"):
        return None, ""
    place = cursor.place
    try:
        patterns = _condition(cursor)
        while cursor.accept("OR"):
            patterns += _condition(cursor)
        if cursor.done or cursor.word() == "LIMIT":
            return Names(tuple(patterns)), ""
    except DdlNotUnderstood:
        pass
    cursor.place = place
    return None, rest(cursor)


def _condition(cursor: Cursor) -> list[str]:
    """Parse a condition on the variable name: `=`, LIKE or IN. Returns patterns of LIKE."""
    if name(cursor).lower() != "variable_name":
        raise cursor.error("not understood")
    if cursor.accept("LIKE"):
        return [cursor.literal_string()]
    if cursor.accept_symbol("="):
        return [exactly(cursor.literal_string())]
    if not (cursor.accept("IN") and cursor.accept_symbol("(")):
        raise cursor.error("not understood")
    patterns = [exactly(cursor.literal_string())]
    while cursor.accept_symbol(","):
        patterns.append(exactly(cursor.literal_string()))
    if not cursor.accept_symbol(")"):
        raise cursor.error("not understood")
    return patterns


def _show_events(cursor: Cursor) -> ShowEvents:
    file = cursor.literal_string() if cursor.accept("IN") else ""
    position = cursor.integer() if cursor.accept("FROM") else 4
    most, skip = limit(cursor)
    return ShowEvents(file, position, skip, most)


def _kill(cursor: Cursor) -> Kill:
    if not cursor.accept("CONNECTION"):
        cursor.accept("QUERY")
    return Kill(cursor.integer())
