"""Parses what asks for definitions, and the statements of transactions and locks around it."""

from typing import Final

from binlog_merge.serve.statements import (
    EndTransaction,
    Lock,
    Nothing,
    ShowDefinitions,
    StartTransaction,
    Statement,
    Unlock,
)
from binlog_merge.serve.tokens import NotUnderstood, Tokens, name_of

_OF_TABLE: Final = {"columns": "columns", "fields": "columns", "index": "index", "indexes": "index", "keys": "index"}

_OF_SCHEMA: Final = ("tables", "table status", "triggers", "events")
_LISTED: Final = ("databases", "schemas", *_OF_SCHEMA, "procedure status", "function status")


def show_definitions(tokens: Tokens) -> ShowDefinitions | None:
    """Parse what follows SHOW, if it asks for definitions; None, with nothing taken, if it does not."""
    start = tokens.place
    tokens.word("extended")
    full = tokens.word("full")
    for word, what in _OF_TABLE.items():
        if tokens.word(word):
            return _of_table(tokens, what, full)
    if tokens.word("create"):
        return _create(tokens)
    for what in _LISTED:
        if tokens.word(*what.split()):
            schema = None
            if what in _OF_SCHEMA and (tokens.word("from") or tokens.word("in")):
                schema = name_of(tokens.next())
            like, where = _choice(tokens)
            return ShowDefinitions("databases" if what == "schemas" else what, schema, "", full, like, where)
    tokens.place = start
    return None


def describe(tokens: Tokens) -> ShowDefinitions:
    """Parse what follows DESCRIBE: a table, and perhaps a column or a pattern of columns."""
    schema, table = _table(tokens)
    like = None
    token = tokens.peek()
    if token is not None and token.kind in ("word", "string"):
        like = name_of(tokens.next())
    return ShowDefinitions("columns", schema, table, like=like)


def transaction(tokens: Tokens) -> Statement | None:
    """Parse a statement of transactions, savepoints or locks; None if it is none."""
    if tokens.word("start", "transaction"):
        snapshot = False
        while tokens.peek() is not None and not tokens.at_end():
            if tokens.word("with", "consistent", "snapshot"):
                snapshot = True
            elif not (tokens.word("read", "only") or tokens.word("read", "write") or tokens.mark(",")):
                raise NotUnderstood
        return StartTransaction(snapshot)
    if tokens.word("begin"):
        tokens.word("work")
        return StartTransaction()
    if tokens.word("savepoint") or tokens.word("release", "savepoint"):
        name_of(tokens.next())
        return Nothing()
    if tokens.word("commit") or tokens.word("rollback"):
        return _end(tokens)
    if tokens.word("unlock", "tables") or tokens.word("unlock", "table"):
        return Unlock()
    if tokens.word("unlock", "instance") or tokens.word("lock", "instance", "for", "backup"):
        return Nothing()
    if tokens.word("lock", "tables") or tokens.word("lock", "table"):
        tokens.rest()
        return Lock()
    if tokens.word("flush"):
        if not tokens.word("local"):
            tokens.word("no_write_to_binlog")
        if not (tokens.word("tables") or tokens.word("table")):
            raise NotUnderstood
        locks = " ".join(tokens.rest().lower().split()).endswith(("with read lock", "for export"))
        return Lock() if locks else EndTransaction()
    return None


def _end(tokens: Tokens) -> Statement:
    tokens.word("work")
    if tokens.word("to"):
        tokens.word("savepoint")
        name_of(tokens.next())
        return Nothing()
    if tokens.word("and") and not (tokens.word("chain") or tokens.word("no", "chain")):
        raise NotUnderstood
    if not tokens.word("release"):
        tokens.word("no", "release")
    return EndTransaction()


def _of_table(tokens: Tokens, what: str, full: bool) -> ShowDefinitions:
    if not (tokens.word("from") or tokens.word("in")):
        raise NotUnderstood
    schema, table = _table(tokens)
    if tokens.word("from") or tokens.word("in"):
        schema = name_of(tokens.next())
    like, where = _choice(tokens)
    return ShowDefinitions(what, schema, table, full, like, where)


def _create(tokens: Tokens) -> ShowDefinitions:
    if tokens.word("table"):
        return ShowDefinitions("create table", *_table(tokens))
    if tokens.word("database") or tokens.word("schema"):
        optional = tokens.word("if", "not", "exists")
        return ShowDefinitions("create database", name_of(tokens.next()), optional=optional)
    raise NotUnderstood


def _table(tokens: Tokens) -> tuple[str | None, str]:
    first = name_of(tokens.next())
    return (first, name_of(tokens.next())) if tokens.mark(".") else (None, first)


def _choice(tokens: Tokens) -> tuple[str | None, str]:
    """Parse LIKE or WHERE; the condition is returned as text, without the statement's end."""
    if tokens.word("like"):
        return tokens.string(), ""
    if tokens.word("where"):
        return None, tokens.rest()
    return None, ""
