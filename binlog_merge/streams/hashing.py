"""Cuts a log into N streams by a hash of the table, or of the row's primary key.

    key 7 ─▶ stream 2      all changes of a row with one key are in one stream, in their order
    7 ▶ 9 ─▶ streams 2, 3  an update that changes the key: the row is deleted in one, and inserted in the other

Equal keys have one hash, also those of a column that became wider, and texts that differ in case, accents or trailing
blanks only. What else a collation takes for equal (æ and ae, digits of other scripts) may be in two streams. A table
without a primary key is in one stream as a whole.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final, Literal

from binlog_merge.binlog.constants import UPDATE_TYPES, EventType
from binlog_merge.binlog.json_diff import whole_row
from binlog_merge.binlog.rows import ABSENT, Row, RowImage, RowsEvent, iter_rows, join_rows, row_padding
from binlog_merge.binlog.table_map import TableMap, column_charsets
from binlog_merge.errors import ConversionFailed
from binlog_merge.log.rows import TableShapes
from binlog_merge.values.key_values import as_hashed
from snapshot_store.tso import OrderKey

Kind = Literal["as it is", "delete", "insert"]
Routed = tuple[Row, int, int]
"""A row, and the numbers, from 0, of the streams that have it before and after."""
_TYPES: Final = {"delete": int(EventType.DELETE_ROWS_EVENT), "insert": int(EventType.WRITE_ROWS_EVENT)}


class Hashing:
    """One of the streams of a hash: `part` of `parts`, from 1."""

    def __init__(self, by: Literal["table", "key"], part: int, parts: int, shapes: TableShapes | None) -> None:
        self.by_key = by == "key"
        self._part = part
        self._parts = parts
        self._shapes = shapes

    def has_table(self, schema: str, table: str) -> bool:
        """Return whether a table that is in one stream as a whole is in this one."""
        return self._number(_name_of(schema, table)) == self._part - 1

    def has_statement(self, names: Sequence[tuple[str, str]], once: bool) -> bool:
        """Return whether a statement about these tables ("": the database) is in this stream.

        Where tables are hashed, it is in the streams of its tables, or with `once` in that of the first one. Any other
        is in all, or in the first.
        """
        if self.by_key or not names or not all(table for _, table in names):
            return self._part == 1 if once else True
        return any(self.has_table(*name) for name in names[: 1 if once else None])

    def routed(self, event: RowsEvent, table: TableMap, key: OrderKey | None) -> list[Routed]:
        """Return the rows of an event, each with the numbers of the streams of the row before and after."""
        name = _name_of(table.schema, table.table)
        columns = self._columns(table, key) if self.by_key else None
        if columns is None:
            part = self._number(name)
            return [(row, part, part) for row in iter_rows(event, table)]
        charsets, unsigned = column_charsets(table), table.unsigned()

        def number(image: RowImage) -> int:
            values = (_value(table, i, image[i], unsigned[i], charsets[i]) for i in columns)
            return self._number(name + b"".join(values))

        found = []
        for row in iter_rows(event, table):
            before, after = row
            if before is None or after is None:
                part = number((after if before is None else before) or ())
                found.append((row, part, part))
            else:
                found.append((row, number(before), number(_now(before, after))))
        return found

    def chosen(self, event: RowsEvent, table: TableMap, routed: Sequence[Routed]) -> Iterator[RowsEvent]:
        """Yield the events with the rows of this stream: the event itself if all are."""
        own = self._part - 1
        parts = [(_kind(was == own, is_now == own), row) for row, was, is_now in routed if own in (was, is_now)]
        if len(parts) == len(routed) and all(kind == "as it is" for kind, _ in parts):
            yield event
            return
        padding = row_padding(event)
        for kind, found in groupby(parts, key=lambda part: part[0]):
            yield _event(event, kind, [row for _, row in found], table, padding)

    def _columns(self, table: TableMap, key: OrderKey | None) -> tuple[int, ...] | None:
        if table.optional is not None and table.optional.primary_key() is not None:
            return table.optional.primary_key()
        return key_columns(table, self._shapes, key)

    def _number(self, data: bytes) -> int:
        return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big") % self._parts


def _name_of(schema: str, table: str) -> bytes:
    # Servers differ in whether names are case-sensitive: a hash must not.
    return f"{schema}\0{table}\0".lower().encode("utf-8", "surrogateescape")


def _value(table: TableMap, column: int, cell: Any, unsigned: bool, charset: str) -> bytes:
    """Return bytes that all equal values of a key's column have in common."""
    if cell is ABSENT:
        raise ConversionFailed(
            f"{table.schema}.{table.table}: a row image without its key, by which the stream is chosen",
            remedy="hash by table, or let the nodes write binlog_row_image=FULL",
        )
    return as_hashed(table, column, cell, unsigned, charset)


def _kind(was: bool, is_now: bool) -> Kind:
    """Return what a row is in a stream that has it before, after, or both."""
    return "as it is" if was and is_now else "delete" if was else "insert"


def _event(event: RowsEvent, kind: str, rows: Sequence[Row], table: TableMap, padding: bool) -> RowsEvent:
    if kind == "as it is":
        return join_rows(event, rows, table, padding)
    assert event.type_code in UPDATE_TYPES
    changed = replace(event, type_code=_TYPES[kind])
    if kind == "delete":
        return join_rows(replace(changed, present_after=None), [(b, None) for b, _ in rows], table, padding)
    present = bytes(a | b for a, b in zip(event.present_before or b"", event.present_after or b"", strict=True))
    inserted = [(None, _now(*whole_row(row, table))) for row in rows]
    return join_rows(replace(changed, present_before=None, present_after=present), inserted, table, padding)


def _now(before: RowImage | None, after: RowImage | None) -> RowImage:
    return tuple(old if new is ABSENT else new for old, new in zip(before or (), after or (), strict=True))


def key_columns(table: TableMap, shapes: TableShapes | None, key: OrderKey | None) -> tuple[int, ...] | None:
    """Return the indexes of a table's primary key columns; None if it has none, or it is not known."""
    if table.optional is not None and (key_of_map := table.optional.primary_key()) is not None:
        return key_of_map
    if shapes is None or key is None:
        return None
    version = shapes.at(table.schema, table.table, key)
    if version is None or version.table is None or len(version.table.columns) != len(table.types):
        return None
    primary = version.table.primary_key
    return None if primary is None else version.table.places(primary)
