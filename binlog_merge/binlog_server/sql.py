"""Parses the statements that replicas, connectors and people send to a binlog server: text in, values out.

    SELECT   variables, literals, a few functions         SHOW   variables, binlogs, definitions (`show_sql`)
    SET      user and session variables                   KILL, USE, transactions, locks

A SELECT … FROM is a Question, which is parsed later. Everything else is Unsupported.
"""

import re
from typing import Final

from binlog_merge.binlog_server.show_sql import (
    QUOTED,
    column_name,
    cursor_of,
    describe,
    name,
    rest,
    show_definitions,
    transaction,
)
from binlog_merge.binlog_server.statements import (
    Call,
    Constants,
    Default,
    Empty,
    Expression,
    Kill,
    Literal,
    Names,
    Question,
    Select,
    SetIsolation,
    SetNames,
    SetVariables,
    Show,
    ShowEvents,
    Statement,
    SystemVariable,
    Unsupported,
    Use,
    UserVariable,
    exactly,
)
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.functions import CANONICAL, FUNCTIONS
from snapshot_store.mysql.sql.lexer import expand
from snapshot_store.mysql.sql.session import DdlSession
from snapshot_store.mysql.values.literals import literal_bytes

_ANSWERED: Final = frozenset(
    {
        *("version", "unix_timestamp", "now", "current_timestamp", "sysdate", "connection_id", "uuid"),
        *("user", "current_user", "session_user", "system_user", "database", "schema", "gtid_subset", "gtid_subtract"),
    }
)
"""The functions that have a value as a `Call`; others of MySQL's are computed, in `Constants`."""
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
_MOST_PARTS: Final = 2000
SCOPES: Final = {"GLOBAL": "global", "SESSION": "session", "LOCAL": "session"}


def parse_statement(sql: str) -> Statement:
    """Parse a statement. Never raises: a text that is not understood is Unsupported."""
    try:
        cursor = cursor_of(sql, DdlSession(), _MOST_PARTS)
        if cursor.done:
            return Empty()
        statement = _statement(cursor)
        cursor.finish()
    except DdlNotUnderstood:
        return _select_of(sql)
    return statement


def _select_of(sql: str) -> Statement:
    """Return a statement that is not understood here as the SELECT that it is, by its words outside comments."""
    try:
        text, _ = expand(sql, DdlSession())
    except DdlNotUnderstood:
        text = sql
    if not _SELECT.match(text):
        return Unsupported()
    return Question(sql) if any(found[1] for found in _FROM.finditer(text)) else Constants(sql)


_SELECT: Final = re.compile(r"[\s(]*select\b", re.IGNORECASE)
_FROM: Final = re.compile(rf"{QUOTED}|(\bfrom\b(?!\s++dual\b))", re.DOTALL | re.IGNORECASE)


def _statement(cursor: Cursor) -> Statement:
    if cursor.accept("SELECT"):
        return _select(cursor)
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
    found = transaction(cursor)
    if found is None:
        raise cursor.error("not understood")
    return found


def _select(cursor: Cursor) -> Select:
    items = [_item(cursor)]
    while cursor.accept_symbol(","):
        items.append(_item(cursor))
    if cursor.accept("FROM") and not cursor.accept("DUAL"):
        raise cursor.error("not understood")
    if all(isinstance(found, Call) and found.name in _TIMES for _, found in items):
        raise cursor.error("moments, which are no texts")
    if any(isinstance(found, Call) and _computed(found.name) for _, found in items):
        raise cursor.error("functions, which are computed")
    _limit(cursor)
    return Select(tuple(items))


def _computed(name: str) -> bool:
    return name not in _ANSWERED and CANONICAL.get(name, name) in FUNCTIONS


def _item(cursor: Cursor) -> tuple[str, Expression]:
    start = cursor.peek().start
    if cursor.peek().kind == "bits":
        raise cursor.error("bytes, which are no text")
    expression = _expression(cursor)
    label = cursor.text[start : cursor.peek(-1).end]
    if cursor.peek(-1).kind == "string" and cursor.peek(-1).start == start:
        label = cursor.peek(-1).text
        if cursor.peek().kind == "string":
            raise cursor.error("strings that are one together")
    label = column_name(label)
    named = cursor.accept("AS")
    token = cursor.peek()
    if named or token.kind in ("name", "string") or (token.kind == "word" and token.text.lower() not in _CLAUSES):
        label = name(cursor)
    return label, expression


_TIMES: Final = ("now", "current_timestamp", "sysdate")
_CLAUSES: Final = ("from", "limit", "where", "into", "union", "order")


def _expression(cursor: Cursor) -> Expression:
    token = cursor.peek()
    if token.kind == "string":
        return Literal(cursor.next().text)
    if token.kind == "bits":
        return Literal(literal_bytes(cursor.next().text).decode("utf-8", "surrogateescape"))
    if token.kind == "number" or (cursor.at_symbol("-") and cursor.peek(1).kind == "number"):
        sign = "-" if cursor.accept_symbol("-") else ""
        text = sign + cursor.next().text
        return Literal(int(text)) if len(text) < 20 and text.lstrip("-").isdecimal() else Literal(text)
    if token.kind == "symbol" and token.text == "@":
        return _variable(cursor)
    word = cursor.word().lower()
    if not word:
        raise cursor.error("not understood")
    cursor.next()
    if word == "_binary" and cursor.peek().kind == "string":
        return Literal(cursor.next().text)
    if cursor.accept_symbol("("):
        return Call(word, _arguments(cursor))
    if word in ("null", "true", "false"):
        return Literal({"null": None, "true": 1, "false": 0}[word])
    if word in ("current_user", "current_timestamp"):
        return Call(word)
    raise cursor.error("not understood")


def _variable(cursor: Cursor) -> SystemVariable | UserVariable:
    """Parse @name, or @@name with or without a scope."""
    cursor.expect_symbol("@")
    system = cursor.accept_symbol("@")
    parts = [name(cursor)]
    while cursor.accept_symbol("."):
        parts.append(name(cursor))
    if not system:
        return UserVariable(".".join(parts).lower())
    scope = SCOPES.get(parts[0].upper(), "") if len(parts) > 1 else ""
    return SystemVariable(".".join(parts[bool(scope) :]).lower(), scope)


def _arguments(cursor: Cursor) -> tuple[Expression, ...]:
    if cursor.accept_symbol(")"):
        return ()
    arguments = [_argument(cursor)]
    while cursor.accept_symbol(","):
        arguments.append(_argument(cursor))
    if not cursor.accept_symbol(")"):
        raise cursor.error("not understood")
    return tuple(arguments)


def _argument(cursor: Cursor) -> Expression:
    """Parse an argument, which must not be a function call: no text may decide how deep we recurse."""
    if cursor.word() not in ("", "NULL"):
        raise cursor.error("not understood")
    return _expression(cursor)


def _set(cursor: Cursor) -> Statement:
    if cursor.accept("CHARACTER", "SET") or cursor.accept("CHARSET"):
        return SetNames(_charset(cursor), literals=False)
    if cursor.accept("NAMES"):
        charset = _charset(cursor)
        return SetNames(charset, _charset(cursor) if cursor.accept("COLLATE") else "")
    if cursor.accept("TRANSACTION") or cursor.accept("SESSION", "TRANSACTION") or cursor.accept("LOCAL", "TRANSACTION"):
        found = re.search(r"isolation\s+level\s+(\w+(?:\s+(?!only)\w+)?)", rest(cursor).lower())
        return SetIsolation("" if found is None else "-".join(found[1].split()))
    items = [_assignment(cursor)]
    while cursor.accept_symbol(","):
        items.append(_assignment(cursor))
    return SetVariables(tuple(items))


def _charset(cursor: Cursor) -> str:
    found = name(cursor)
    return "" if found.lower() == "default" else found


def _assignment(cursor: Cursor) -> tuple[str, Expression]:
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
    if not cursor.at_symbol("@"):
        return name(cursor).lower()
    if cursor.at_symbol("@", 1) and cursor.word(2) in ("GLOBAL", "PERSIST", "PERSIST_ONLY"):
        raise cursor.error("not understood")
    found = _variable(cursor)
    return found.name if isinstance(found, SystemVariable) else f"@{found.name}"


def _value(cursor: Cursor) -> Expression:
    """Parse the right side of an assignment, where a bare word is a string."""
    place = cursor.place
    try:
        return _expression(cursor)
    except DdlNotUnderstood:
        cursor.place = place
        if cursor.peek().kind not in ("word", "name"):
            raise
        word = name(cursor)
        return Default() if word.upper() == "DEFAULT" else Literal(word)


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
        _limit(cursor)
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
    found = [exactly(cursor.literal_string())]
    while cursor.accept_symbol(","):
        found.append(exactly(cursor.literal_string()))
    if not cursor.accept_symbol(")"):
        raise cursor.error("not understood")
    return found


def _show_events(cursor: Cursor) -> ShowEvents:
    file = cursor.literal_string() if cursor.accept("IN") else ""
    position = cursor.integer() if cursor.accept("FROM") else 4
    skip, limit = _limit(cursor)
    return ShowEvents(file, position, skip, limit)


def _limit(cursor: Cursor) -> tuple[int, int | None]:
    if not cursor.accept("LIMIT"):
        return 0, None
    first = cursor.integer()
    if cursor.accept_symbol(","):
        return first, cursor.integer()
    return (cursor.integer(), first) if cursor.accept("OFFSET") else (0, first)


def _kill(cursor: Cursor) -> Kill:
    if not cursor.accept("CONNECTION"):
        cursor.accept("QUERY")
    return Kill(cursor.integer())
