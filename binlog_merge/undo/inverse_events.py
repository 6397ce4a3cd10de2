"""Rows events that undo rows events: their rows in reverse order, images swapped, cells untouched.

    WRITE   becomes DELETE of the same images       UPDATE   its images swapped
    DELETE  becomes WRITE of the same images

Rows are cut at their ends, which the cut cells show, so that a row costs no more than a few slices. Where an image
lacks columns (binlog_row_image MINIMAL, NOBLOB), rows are taken apart and completed.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from binlog_merge.binlog.columnar import AFTER, BEFORE, CutRows
from binlog_merge.binlog.constants import UPDATE_TYPES, EventType, RowsFlag
from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.binlog.kernels.row_lengths import bitmaps_begin
from binlog_merge.binlog.rows import ABSENT as NOT_HELD
from binlog_merge.binlog.rows import Row, RowImage, RowsEvent, iter_rows, join_rows, present_columns, row_padding
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.undo.selection import Chosen
from binlog_merge.undo.statements import check_undoable

_INVERSE: Final[dict[int, int]] = {
    EventType.WRITE_ROWS_EVENT_V1: EventType.DELETE_ROWS_EVENT_V1,
    EventType.DELETE_ROWS_EVENT_V1: EventType.WRITE_ROWS_EVENT_V1,
    EventType.WRITE_ROWS_EVENT: EventType.DELETE_ROWS_EVENT,
    EventType.DELETE_ROWS_EVENT: EventType.WRITE_ROWS_EVENT,
}


class MappedRows(NamedTuple):
    """A rows event of `number` rows and its table map, as event bodies."""

    table: bytes
    kind: int
    rows: bytes
    number: int


Events = tuple[Any, Any, list[MappedRows]]
"""The numbers of events with chosen rows, of the last such row of each, and what comes of them."""


class _Head(NamedTuple):
    """What comes of the head of a rows event, and the bytes of the bitmaps of its row images.

    `lacking`: it is an update, and an image lacks columns.
    """

    kind: int
    body: bytes
    before: int
    after: int
    lacking: bool


def inverse_events(chosen: Chosen) -> Events:
    """Return the inverse of each event with chosen rows. Raises UndoRefused."""
    check_undoable(chosen)
    return _Making(chosen, True).events()


def forward_events(chosen: Chosen) -> Events:
    """Return each event with chosen rows, with these alone."""
    return _Making(chosen, False).events()


class _Making:
    """Makes events of chosen rows; the heads of events are few, and made once."""

    def __init__(self, chosen: Chosen, undo: bool) -> None:
        self.undo, self.chosen = undo, chosen
        self.table = chosen.changes.table
        self.data = memoryview(chosen.changes.segment.buffer.data)
        self.ends = tuple(_image_ends(chosen.cut, side) for side in (BEFORE, AFTER))
        self.heads: dict[tuple[int, bytes], _Head] = {}

    def events(self) -> Events:
        """Return what comes of the events."""
        chosen, changes = self.chosen, self.chosen.changes
        of_rows = chosen.order()
        begins = np.flatnonzero(np.diff(of_rows, prepend=-1))
        ends = np.append(begins[1:], len(of_rows))
        numbers = of_rows[begins]
        of_all = changes.events[chosen.cut.events]
        firsts, lasts = (np.searchsorted(of_all, numbers, side).tolist() for side in ("left", "right"))
        places = changes.segment.events[numbers][:, [k.E_BODY, k.E_END, k.E_KIND]].tolist()
        table = replace(self.table, flags=self.table.flags | 1).pack()
        rows = chosen.rows.tolist()
        made = []
        for place, first, last, begin, end in zip(places, firsts, lasts, begins.tolist(), ends.tolist(), strict=True):
            kind, body = self._event(place, first, last, rows[begin:end])
            made.append(MappedRows(table, kind, body, end - begin))
        return numbers, chosen.rows[ends - 1], made

    def _event(self, place: Sequence[int], first: int, last: int, rows: list[int]) -> tuple[int, bytes]:
        """Return what comes of `rows` of an event (begin, end, type) that has those from `first` to before `last`."""
        data, (body, end, kind) = self.data, place
        begin = self._rows_begin(body, end, kind)
        if (known := (kind, bytes(data[body:begin]))) not in self.heads:
            self.heads[known] = self._head(RowsEvent.parse(*known))
        head = self.heads[known]
        if self.undo and head.lacking:
            made = _completed(RowsEvent.parse(kind, data[body:end]), self.table, [row - first for row in rows])
            return int(made.type_code), made.pack()
        extents = self._extents(head, first, last, begin, end)
        pieces: list[Any] = [head.body]
        if self.undo:
            for row in reversed(rows):
                start, middle, stop = extents[row - first]
                pieces += data[middle:stop], data[start:middle]
        else:
            for row in rows:
                start, _, stop = extents[row - first]
                pieces.append(data[start:stop])
        return head.kind, b"".join(pieces)

    def _rows_begin(self, body: int, end: int, kind: int) -> int:
        """Return where an event's rows begin; that its head is whole has been seen when the rows were cut."""
        columns = len(self.table.types)
        bitmaps = int(bitmaps_begin(self.chosen.changes.segment.buffer, body, end, kind, columns))
        return bitmaps + (columns + 7) // 8 * (2 if kind in UPDATE_TYPES else 1)

    def _head(self, event: RowsEvent) -> _Head:
        made = _with(event, self.table, self.undo)
        before, after = (
            None if bitmap is None else len(present_columns(bitmap, event.column_count))
            for bitmap in (event.present_before, event.present_after)
        )
        lacking = before is not None and after is not None and min(before, after) < event.column_count
        return _Head(int(made.type_code), made.pack(), ((before or 0) + 7) // 8, ((after or 0) + 7) // 8, lacking)

    def _extents(self, head: _Head, first: int, last: int, begin: int, end: int) -> list[tuple[int, int, int]]:
        """Return (begin, end of the first image, end) of each row of an event.

        An image ends with its last cell that has bytes, and with its bitmap if none has.
        """
        befores, afters = self.ends
        found, at = [], begin
        for row in range(first, last):
            middle = max(at + head.before, befores[row])
            stop = max(middle + head.after, afters[row])
            found.append((at, middle, stop))
            at = stop
        assert at == end
        return found


def _image_ends(cut: CutRows, side: int) -> list[int]:
    """Return where the last cell of each row's image ends, 0 for an image without cells."""
    sizes = cut.sizes[side]
    ends: list[int] = np.where(sizes >= 0, cut.starts[side] + sizes, 0).max(axis=0, initial=0).tolist()
    return ends


def _with(event: RowsEvent, table: TableMap, undo: bool) -> RowsEvent:
    """Return an event that names its own table map, and ends its statement."""
    same = replace(event, table_id=table.table_id, flags=event.flags | RowsFlag.STMT_END_F)
    if not undo:
        return same
    return replace(
        same,
        type_code=_INVERSE.get(event.type_code, event.type_code),
        present_before=event.present_after,
        present_after=event.present_before,
    )


def _completed(event: RowsEvent, table: TableMap, wanted: Sequence[int]) -> RowsEvent:
    """Return the inverse of an update whose images lack columns: the row as it is found has all that either holds."""
    rows = list(iter_rows(event, table))
    swapped: list[Row] = []
    for number in reversed(wanted):
        before, after = rows[number]
        assert before is not None and after is not None
        found: RowImage = tuple(old if new is NOT_HELD else new for old, new in zip(before, after, strict=True))
        swapped.append((found, before))
    present = bytes(a | b for a, b in zip(event.present_before or b"", event.present_after or b"", strict=True))
    empty = replace(event, present_before=present, present_after=event.present_before)
    joined = join_rows(empty, swapped, table, row_padding(event))
    return replace(joined, table_id=table.table_id, flags=joined.flags | RowsFlag.STMT_END_F)
