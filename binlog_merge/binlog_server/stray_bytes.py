"""Bytes of a statement that are no text in the client's character set: where they may stand, how they are asked for.

Decoded, such a byte is a lone surrogate (`surrogateescape`). A server takes it in a string, a quoted name or a comment,
and nowhere else. The engine behind information_schema takes it nowhere: there a character stands for it that no name
of a server can have, as that would be beyond U+FFFF.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from binlog_merge.binlog_server.definitions import Row
from binlog_merge.binlog_server.refused import Refused
from binlog_merge.protocol.packets import Column, ErrorCode, Value
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.session import DdlSession
from snapshot_store.surrogates import is_text, shown

_STANDS_FOR: Final = {0xDC00 + byte: 0x10FF00 + byte for byte in range(0x80, 0x100)}
_STOOD_FOR: Final = {char: byte for byte, char in _STANDS_FOR.items()}


def check_stray_bytes(sql: str) -> None:
    """Raise Refused for a stray byte in a word that is not quoted."""
    if is_text(sql):
        return
    try:
        cursor = Cursor.of(sql, DdlSession())
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
