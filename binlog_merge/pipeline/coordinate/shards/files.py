"""Cuts clauses about tablespaces and directories out of statements, since they differ between servers.

CREATE TABLE t (a INT) TABLESPACE ts1 COMMENT 'x'     CREATE TABLE t (a INT) COMMENT 'x'
ALTER TABLE t TABLESPACE ts1, ADD b INT               ALTER TABLE t ADD b INT
"""

from snapshot_store.ddl.parse.statement import file_options
from snapshot_store.mysql.sql.cursor import Cursor, depths_of
from snapshot_store.mysql.sql.lexer import Token
from snapshot_store.mysql.sql.session import DdlSession


def without_files(sql: str, session: DdlSession) -> tuple[str, tuple[str, ...]]:
    """Return a statement without such clauses, and the clauses. Raises DdlNotUnderstood."""
    if "TABLESPACE" not in sql.upper() and "DIRECTORY" not in sql.upper():
        return sql, ()
    spans = file_options(sql, session)
    cut = tuple(sql[start:end] for start, end in spans)
    for start, end in reversed(spans):
        begin, stop = _with_comma(sql, session, start, end)
        sql = f"{sql[:begin].rstrip()} {sql[stop:].lstrip()}".rstrip()
    return sql, cut


def _with_comma(sql: str, session: DdlSession, start: int, end: int) -> tuple[int, int]:
    """Return the range to cut for an option, so that no superfluous comma remains.

    In a list of options its comma is cut too, unless another option precedes it without a comma. Commas between
    partitions stay.
    """
    cursor = Cursor.of(sql, session)
    place, depth = next((i, depth) for i, token, depth in depths_of(cursor.tokens) if token.start >= start)
    if depth or not place:
        return start, end
    before = cursor.tokens[place - 1]
    cursor.place = place
    while cursor.peek().start < end and not cursor.done:
        cursor.next()
    listed = before.kind == "symbol" and before.text == ","
    if cursor.at_symbol(",") and (listed or _begins_list(sql, session, before)):
        return start, cursor.peek().end
    return (before.start, end) if listed else (start, end)


def _begins_list(sql: str, session: DdlSession, before: Token) -> bool:
    """Return whether table options begin after a token: after the columns, or after the table's name."""
    if before.kind == "symbol":
        return before.text == ")"
    cursor = Cursor.of(sql, session)
    cursor.next()
    while cursor.word() in ("IGNORE", "TABLE"):
        cursor.next()
    cursor.table_name()
    return cursor.peek(-1).start == before.start
