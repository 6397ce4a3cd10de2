"""Rows events that leave a row as they say, whatever the target has there: each key is removed, then written.

    UPDATE a -> b    DELETE a, INSERT b

With rbr_exec_mode=IDEMPOTENT a server passes over a DELETE of a row that is not there, and an INSERT replaces the row
that is. But it also passes over an UPDATE of a row that is not there, whose row would then be missing. Foreign keys are
not checked: meanwhile a child may be there without its parent.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from binlog_merge.binlog.constants import ROWS_V1_TYPES, UPDATE_TYPES, EventType, RowsFlag
from binlog_merge.binlog.rows import RowsEvent, iter_rows, join_rows, present_columns, row_padding
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.errors import ReplayStopped

WHOLE_ROWS: Final = "set binlog_row_image=FULL and binlog_row_value_options='' on the nodes, and begin again"


def overwriting(event: RowsEvent, table: TableMap) -> list[RowsEvent]:
    """Return events that bring the rows of `event` into force. Raises ReplayStopped for rows that are not whole."""
    check_whole(event, table)
    event = replace(event, flags=event.flags | RowsFlag.NO_FOREIGN_KEY_CHECKS_F)
    if event.type_code not in UPDATE_TYPES:
        return [event]
    v1, padding = event.type_code in ROWS_V1_TYPES, row_padding(event)
    delete, write = (
        (EventType.DELETE_ROWS_EVENT_V1, EventType.WRITE_ROWS_EVENT_V1)
        if v1
        else (EventType.DELETE_ROWS_EVENT, EventType.WRITE_ROWS_EVENT)
    )
    gone = replace(event, type_code=delete, present_after=None)
    there = replace(event, type_code=write, present_before=None)
    found: list[RowsEvent] = []
    for before, after in iter_rows(event, table):
        found.append(join_rows(gone, [(before, None)], table, padding))
        found.append(join_rows(there, [(None, after)], table, padding))
    return found


def check_whole(event: RowsEvent, table: TableMap) -> None:
    """Raise ReplayStopped if the event's row images lack columns, or have differences of JSON documents."""
    count = event.column_count
    bitmaps = [b for b in (event.present_before, event.present_after) if b is not None]
    if event.type_code == EventType.PARTIAL_UPDATE_ROWS_EVENT or any(
        len(present_columns(bitmap, count)) < count for bitmap in bitmaps
    ):
        raise not_whole(table)


def not_whole(table: TableMap) -> ReplayStopped:
    """Return the error for rows of which the log has only a part."""
    return ReplayStopped(
        f"rows of {table.schema}.{table.table} are not whole in the log, but were read while it went on",
        remedy=WHOLE_ROWS,
    )


_STATEMENT_BYTES: Final = 1 << 20


def inserts(head: str, rows: Iterable[str]) -> Iterator[bytes]:
    """Yield statements of `head` (INSERT INTO … VALUES) and rows in parentheses, about a mebibyte each."""
    joined: list[str] = []
    size = 0
    for row in rows:
        joined.append(row)
        size += len(row)
        if size > _STATEMENT_BYTES:
            yield (head + ", ".join(joined)).encode()
            joined, size = [], 0
    if joined:
        yield (head + ", ".join(joined)).encode()
