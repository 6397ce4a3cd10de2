"""Clients' statements as words and signs: those of `snapshot_store.mysql.sql`, within bounds."""

import re
from itertools import islice
from typing import Final

from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.session import DdlSession

_BEYOND: Final = re.compile("[\U00010000-\U0010ffff]")
QUOTED: Final = r"""'(?:[^'\\]|\\.|'')*+(?:'|\\?$)|"(?:[^"\\]|\\.|"")*+(?:"|\\?$)|`[^`]*+(?:`|$)"""
"""A pattern of what is quoted. One that is never closed goes to the end, lest it be looked for from each quote on."""
_PART: Final = re.compile(rf"{QUOTED}|\w+|[^\w\s]", re.DOTALL)


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
