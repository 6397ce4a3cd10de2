"""Parses what asks for definitions, and the statements of transactions and locks around it.

A byte that is no text in the client's character set is, decoded, a lone surrogate (`surrogateescape`). A server takes
it in a string, a quoted name or a comment, and nowhere else. The engine behind information_schema takes it nowhere:
there a character stands for it that no name of a server can have, as that would be beyond U+FFFF.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import Final

from binlog_merge.binlog_server.definitions import Row
from binlog_merge.binlog_server.refused import Refused
from binlog_merge.binlog_server.statements import (
    EndTransaction,
    Lock,
    Nothing,
    ShowDefinitions,
    StartTransaction,
    Statement,
    Unlock,
)
from binlog_merge.protocol.packets import Column, ErrorCode, Value
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.session import DdlSession
from snapshot_store.surrogates import is_text, shown

PLAIN: Final = DdlSession()
"""A session that has set nothing."""
_OF_TABLE: Final = {"columns": "columns", "fields": "columns", "index": "index", "indexes": "index", "keys": "index"}

_OF_SCHEMA: Final = ("tables", "table status", "triggers", "events", "open tables")
CONSTANT: Final = (
    *("collation", "character set", "engines", "plugins", "privileges", "profiles", "library status"),
    *("procedure status", "function status"),
)
"""What each server tells alike, or of which there is nothing here."""
_LISTED: Final = ("databases", *_OF_SCHEMA, *CONSTANT)
_OTHERWISE: Final = {"schemas": "databases", "charset": "character set", "storage engines": "engines"}


def show_definitions(cursor: Cursor) -> ShowDefinitions | None:
    """Parse what follows SHOW, if it asks for definitions; None, with nothing taken, if it does not."""
    start = cursor.place
    cursor.accept("EXTENDED")
    full = cursor.accept("FULL")
    for word, what in _OF_TABLE.items():
        if cursor.accept(word.upper()):
            return _of_table(cursor, what, full)
    if cursor.accept("CREATE"):
        return _create(cursor)
    for what in (*_LISTED, *_OTHERWISE):
        if cursor.accept(*what.upper().split()):
            schema = None
            if what in _OF_SCHEMA and (cursor.accept("FROM") or cursor.accept("IN")):
                schema = name(cursor)
            like, where = _choice(cursor)
            return ShowDefinitions(_OTHERWISE.get(what, what), schema, "", full, like, where)
    cursor.place = start
    return None


def describe(cursor: Cursor) -> ShowDefinitions:
    """Parse what follows DESCRIBE: a table, and perhaps a column or a pattern of columns."""
    schema, table = _table(cursor)
    like = None
    if cursor.peek().kind in ("word", "name", "string"):
        like = name(cursor)
    return ShowDefinitions("columns", schema, table, like=like)


def transaction(cursor: Cursor) -> Statement | None:
    """Parse a statement of transactions, savepoints or locks; None if it is none."""
    if cursor.accept("START", "TRANSACTION"):
        snapshot = False
        while not cursor.done:
            if cursor.accept("WITH", "CONSISTENT", "SNAPSHOT"):
                snapshot = True
            elif not (cursor.accept("READ", "ONLY") or cursor.accept("READ", "WRITE") or cursor.accept_symbol(",")):
                raise cursor.error("not understood")
        return StartTransaction(snapshot)
    if cursor.accept("BEGIN"):
        cursor.accept("WORK")
        return StartTransaction()
    if cursor.accept("SAVEPOINT") or cursor.accept("RELEASE", "SAVEPOINT"):
        name(cursor)
        return Nothing()
    if cursor.accept("COMMIT") or cursor.accept("ROLLBACK"):
        return _end(cursor)
    if cursor.accept("UNLOCK", "TABLES") or cursor.accept("UNLOCK", "TABLE"):
        return Unlock()
    if cursor.accept("UNLOCK", "INSTANCE") or cursor.accept("LOCK", "INSTANCE", "FOR", "BACKUP"):
        return Nothing()
    if cursor.accept("LOCK", "TABLES") or cursor.accept("LOCK", "TABLE"):
        rest(cursor)
        return Lock()
    if cursor.accept("FLUSH"):
        if not cursor.accept("LOCAL"):
            cursor.accept("NO_WRITE_TO_BINLOG")
        if not (cursor.accept("TABLES") or cursor.accept("TABLE")):
            raise cursor.error("not understood")
        locks = " ".join(rest(cursor).lower().split()).endswith(("with read lock", "for export"))
        return Lock() if locks else EndTransaction()
    return None


def _end(cursor: Cursor) -> Statement:
    cursor.accept("WORK")
    if cursor.accept("TO"):
        cursor.accept("SAVEPOINT")
        name(cursor)
        return Nothing()
    if cursor.accept("AND") and not (cursor.accept("CHAIN") or cursor.accept("NO", "CHAIN")):
        raise cursor.error("not understood")
    if not cursor.accept("RELEASE"):
        cursor.accept("NO", "RELEASE")
    return EndTransaction()


def _of_table(cursor: Cursor, what: str, full: bool) -> ShowDefinitions:
    if not (cursor.accept("FROM") or cursor.accept("IN")):
        raise cursor.error("not understood")
    schema, table = _table(cursor)
    if cursor.accept("FROM") or cursor.accept("IN"):
        schema = name(cursor)
    like, where = _choice(cursor)
    return ShowDefinitions(what, schema, table, full, like, where)


def _create(cursor: Cursor) -> ShowDefinitions:
    if cursor.accept("TABLE"):
        return ShowDefinitions("create table", *_table(cursor))
    if cursor.accept("DATABASE") or cursor.accept("SCHEMA"):
        optional = cursor.accept("IF", "NOT", "EXISTS")
        return ShowDefinitions("create database", name(cursor), optional=optional)
    for word in ("VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "EVENT"):
        if cursor.accept(word):
            return ShowDefinitions(f"create {word.lower()}", *_table(cursor))
    raise cursor.error("not understood")


def _table(cursor: Cursor) -> tuple[str | None, str]:
    first = name(cursor)
    return (first, name(cursor)) if cursor.accept_symbol(".") else (None, first)


def _choice(cursor: Cursor) -> tuple[str | None, str]:
    """Parse LIKE or WHERE; the condition is returned as text, without the statement's end."""
    if cursor.accept("LIKE"):
        return cursor.literal_string(), ""
    if cursor.accept("WHERE"):
        return None, rest(cursor)
    return None, ""


def limit(cursor: Cursor) -> tuple[int | None, int]:
    """Parse LIMIT, if it comes next: how many rows, None for all, and how many are skipped."""
    if not cursor.accept("LIMIT"):
        return None, 0
    first = cursor.integer()
    if cursor.accept_symbol(","):
        return cursor.integer(), first
    return first, cursor.integer() if cursor.accept("OFFSET") else 0


def skip_modifiers(cursor: Cursor) -> None:
    """Skip the words behind SELECT that say how rows are to be found or sent."""
    while cursor.accept_one(*_MODIFIERS):
        pass


_MODIFIERS: Final = ("SQL_NO_CACHE", "ALL", "SQL_BIG_RESULT", "SQL_BUFFER_RESULT", "HIGH_PRIORITY", "STRAIGHT_JOIN")


_BEYOND: Final = re.compile("[\U00010000-\U0010ffff]")
_QUOTED: Final = r"""'(?:[^'\\]|\\.|'')*+(?:'|\\?$)|"(?:[^"\\]|\\.|"")*+(?:"|\\?$)|`[^`]*+(?:`|$)"""
"""A pattern of what is quoted. One that is never closed goes to the end, lest it be looked for from each quote on."""
_PART: Final = re.compile(rf"{_QUOTED}|\w+|[^\w\s]", re.DOTALL)


def cursor_of(sql: str, session: DdlSession, most: int) -> Cursor:
    """Return a cursor over a statement of at most so many words and signs; more take long. Raises DdlNotUnderstood."""
    if sum(1 for _ in islice(_PART.finditer(sql), most + 1)) > most:
        raise DdlNotUnderstood(sql, f"more than {most} words and signs")
    return Cursor.of(sql, session)


def name(cursor: Cursor) -> str:
    """Parse a name: a word, a quoted name, or a string."""
    if cursor.peek().kind not in ("word", "name", "string"):
        raise cursor.error("expected a name")
    return cursor.next().text


def column_name(text: str) -> str:
    """Return the name that a server gives a column after its text: in utf8mb3, which has no more than U+FFFF."""
    return _BEYOND.sub("?", text)


def rest(cursor: Cursor) -> str:
    """Return the text up to the end of the statement, without comments."""
    start = end = cursor.peek().start
    while not cursor.done:
        end = cursor.next().end
    return cursor.text[start:end]


_STANDS_FOR: Final = {0xDC00 + byte: 0x10FF00 + byte for byte in range(0x80, 0x100)}
_STOOD_FOR: Final = {char: byte for byte, char in _STANDS_FOR.items()}


def check_stray_bytes(sql: str) -> None:
    """Raise Refused for a stray byte in a word that is not quoted."""
    if is_text(sql):
        return
    try:
        cursor = Cursor.of(sql, PLAIN)
    except DdlNotUnderstood:
        return
    while (token := cursor.next()).kind != "end":
        if token.kind == "word" and not is_text(token.text):
            raise Refused(
                ErrorCode.ER_PARSE_ERROR,
                f"You have an error in your SQL syntax: '{shown(token.text)[:80]}' is no text in the session's "
                "character set",
            )


def hidden(sql: str) -> str:
    """Return a statement in which characters stand for stray bytes."""
    return sql if is_text(sql) else sql.translate(_STANDS_FOR)


def restored(sql: str, columns: Iterable[Column], rows: list[Row]) -> tuple[list[Column], list[Row]]:
    """Return the result of a statement that was asked `hidden`."""
    if is_text(sql):
        return list(columns), rows
    names = [replace(column, name=column.name.translate(_STOOD_FOR)) for column in columns]
    return names, [tuple(map(_restored, row)) for row in rows]


def _restored(value: Value) -> Value:
    return value.translate(_STOOD_FOR) if isinstance(value, str) else value
