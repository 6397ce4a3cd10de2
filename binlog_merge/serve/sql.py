"""Parses the statements that replicas, connectors and people send to a binlog server: text in, values out.

    SELECT   variables, literals, a few functions         SHOW   variables, binlogs, definitions (`show_sql`)
    SET      user and session variables                   KILL, USE, transactions, locks

A SELECT … FROM is a Question, which is parsed later. Everything else is Unsupported.
"""

import re
from typing import Final

from binlog_merge.serve.show_sql import describe, show_definitions, transaction
from binlog_merge.serve.statements import (
    Call,
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
from binlog_merge.serve.tokens import NotUnderstood, Tokens, name_of, unquoted

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
    "replicas": "replicas",
    "slave hosts": "replicas",
    "grants": "grants",
}
_SCOPES: Final = ("global", "session", "local")


def parse_statement(sql: str) -> Statement:
    """Parse a statement. Never raises: a text that is not understood is Unsupported."""
    try:
        tokens = Tokens(sql)
        if tokens.peek() is None or tokens.mark(";"):
            return Empty()
        statement = _statement(tokens)
        tokens.end()
    except NotUnderstood:
        return Question(sql) if _QUESTION.match(sql) else Unsupported()
    return statement


_QUESTION: Final = re.compile(r"(?:\s+|/\*.*?\*/)*\(*\s*select\b.*?\bfrom\b", re.DOTALL | re.IGNORECASE)


def _statement(tokens: Tokens) -> Statement:
    if tokens.word("select"):
        return _select(tokens)
    if tokens.word("set"):
        return _set(tokens)
    if tokens.word("show"):
        return _show(tokens)
    if tokens.word("use"):
        return Use(name_of(tokens.next()))
    if tokens.word("kill"):
        return _kill(tokens)
    if any(tokens.word(word) for word in ("describe", "desc", "explain")):
        return describe(tokens)
    found = transaction(tokens)
    if found is None:
        raise NotUnderstood
    return found


def _select(tokens: Tokens) -> Select:
    items = [_item(tokens)]
    while tokens.mark(","):
        items.append(_item(tokens))
    if tokens.word("from") and not tokens.word("dual"):
        raise NotUnderstood
    _limit(tokens)
    return Select(tuple(items))


def _item(tokens: Tokens) -> tuple[str, Expression]:
    first = tokens.peek()
    expression = _expression(tokens)
    name = tokens.sql[0 if first is None else first.start : tokens.taken_to]
    named = tokens.word("as")
    alias = tokens.peek()
    if alias is not None and (named or (alias.kind in ("word", "string") and alias.text.lower() not in _CLAUSES)):
        name = name_of(tokens.next())
    return name, expression


_CLAUSES: Final = ("from", "limit", "where", "into", "union", "order")


def _expression(tokens: Tokens) -> Expression:
    token = tokens.next()
    if token.kind == "string":
        return Literal(unquoted(token.text))
    if token.kind == "number":
        return Literal(int(token.text)) if len(token.text) < 20 and "." not in token.text else Literal(token.text)
    if token.kind == "system":
        return SystemVariable(token.text.rpartition("@")[2].rpartition(".")[2].strip("`").lower())
    if token.kind == "user":
        return UserVariable(token.text[1:].strip("`'").lower())
    if token.kind != "word":
        raise NotUnderstood
    name = token.text.lower()
    if tokens.mark("("):
        return Call(name, _arguments(tokens))
    if name in ("null", "true", "false"):
        return Literal({"null": None, "true": 1, "false": 0}[name])
    if name in ("current_user", "current_timestamp"):
        return Call(name)
    raise NotUnderstood


def _arguments(tokens: Tokens) -> tuple[Expression, ...]:
    if tokens.mark(")"):
        return ()
    arguments = [_argument(tokens)]
    while tokens.mark(","):
        arguments.append(_argument(tokens))
    if not tokens.mark(")"):
        raise NotUnderstood
    return tuple(arguments)


def _argument(tokens: Tokens) -> Expression:
    """Parse an argument, which must not be a function call: no text may decide how deep we recurse."""
    token = tokens.peek()
    if token is None or (token.kind == "word" and token.text.lower() != "null"):
        raise NotUnderstood
    return _expression(tokens)


def _set(tokens: Tokens) -> Statement:
    if tokens.word("names") or tokens.word("character", "set") or tokens.word("charset"):
        charset = _charset(tokens)
        return SetNames(charset, _charset(tokens) if tokens.word("collate") else "")
    if tokens.word("transaction") or tokens.word("session", "transaction") or tokens.word("local", "transaction"):
        found = re.search(r"isolation\s+level\s+(\w+(?:\s+(?!only)\w+)?)", tokens.rest().lower())
        return SetIsolation("" if found is None else "-".join(found[1].split()))
    items = [_assignment(tokens)]
    while tokens.mark(","):
        items.append(_assignment(tokens))
    return SetVariables(tuple(items))


def _charset(tokens: Tokens) -> str:
    name = name_of(tokens.next())
    return "" if name.lower() == "default" else name


def _assignment(tokens: Tokens) -> tuple[str, Expression]:
    if tokens.word("global") or tokens.word("persist"):
        raise NotUnderstood
    if not tokens.word("session"):
        tokens.word("local")
    token = tokens.next()
    if token.kind == "system" and token.text.lower().startswith(("@@global.", "@@persist")):
        raise NotUnderstood
    if token.kind == "user":
        name = "@" + token.text[1:].strip("`'").lower()
    elif token.kind in ("system", "word"):
        name = token.text.rpartition("@")[2].rpartition(".")[2].strip("`").lower()
    else:
        raise NotUnderstood
    if not tokens.mark("=", ":="):
        raise NotUnderstood
    return name, _value(tokens)


def _value(tokens: Tokens) -> Expression:
    """Parse the right side of an assignment, where a bare word is a string."""
    token = tokens.peek()
    if token is None:
        raise NotUnderstood
    try:
        return _expression(tokens)
    except NotUnderstood:
        if token.kind != "word":
            raise
        return Literal(name_of(token))


def _show(tokens: Tokens) -> Statement:
    if tokens.word("binlog", "events"):
        return _show_events(tokens)
    definitions = show_definitions(tokens)
    if definitions is not None:
        return definitions
    any(tokens.word(scope) for scope in _SCOPES)
    words: list[str] = []
    while (token := tokens.peek()) is not None and token.kind == "word" and len(words) < 3:
        words.append(tokens.next().text.lower())
        what = _SHOWS.get(" ".join(words))
        if what is None:
            continue
        if what == "grants":
            _for_user(tokens)
        names = _names(tokens)
        _limit(tokens)
        return Show(what, names)
    raise NotUnderstood


def _for_user(tokens: Tokens) -> None:
    if tokens.word("for"):
        if not tokens.word("current_user"):
            raise NotUnderstood
        if tokens.mark("(") and not tokens.mark(")"):
            raise NotUnderstood


def _names(tokens: Tokens) -> Names | None:
    if tokens.word("like"):
        return Names((tokens.string(),))
    if not tokens.word("where"):
        return None
    patterns: list[str] = []
    while True:
        patterns += _condition(tokens)
        if not tokens.word("or"):
            return Names(tuple(patterns))


def _condition(tokens: Tokens) -> list[str]:
    """Parse a condition on the variable name: `=`, LIKE or IN. Returns patterns of LIKE."""
    if name_of(tokens.next()).lower() != "variable_name":
        raise NotUnderstood
    if tokens.word("like"):
        return [tokens.string()]
    if tokens.mark("="):
        return [exactly(tokens.string())]
    if not (tokens.word("in") and tokens.mark("(")):
        raise NotUnderstood
    found = [exactly(tokens.string())]
    while tokens.mark(","):
        found.append(exactly(tokens.string()))
    if not tokens.mark(")"):
        raise NotUnderstood
    return found


def _show_events(tokens: Tokens) -> ShowEvents:
    file = tokens.string() if tokens.word("in") else ""
    position = tokens.number() if tokens.word("from") else 4
    skip, limit = _limit(tokens)
    return ShowEvents(file, position, skip, limit)


def _limit(tokens: Tokens) -> tuple[int, int | None]:
    if not tokens.word("limit"):
        return 0, None
    first = tokens.number()
    if tokens.mark(","):
        return first, tokens.number()
    return (tokens.number(), first) if tokens.word("offset") else (0, first)


def _kill(tokens: Tokens) -> Kill:
    if not tokens.word("connection"):
        tokens.word("query")
    return Kill(tokens.number())
