"""Rows events that undo rows events: their rows in reverse order, images swapped, cells untouched.

    WRITE   becomes DELETE of the same images       UPDATE   its images swapped
    DELETE  becomes WRITE of the same images

Rows are cut at their ends, which the cut cells show, and copied by a kernel. Where an image lacks columns
(binlog_row_image MINIMAL, NOBLOB), rows are taken apart and completed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np

from binlog_merge.binlog.constants import EventType, RowsFlag
from binlog_merge.binlog.kernels import events_of_rows as k
from binlog_merge.binlog.kernels import log_walk as w
from binlog_merge.binlog.rows import ABSENT as NOT_HELD
from binlog_merge.binlog.rows import Row, RowImage, RowsEvent, iter_rows, join_rows, present_columns, row_padding
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.log.table_changes import TableChanges
from binlog_merge.time_travel.statements import check_undoable

_INVERSE: Final[dict[int, int]] = {
    EventType.WRITE_ROWS_EVENT_V1: EventType.DELETE_ROWS_EVENT_V1,
    EventType.DELETE_ROWS_EVENT_V1: EventType.WRITE_ROWS_EVENT_V1,
    EventType.WRITE_ROWS_EVENT: EventType.DELETE_ROWS_EVENT,
    EventType.DELETE_ROWS_EVENT: EventType.WRITE_ROWS_EVENT,
}
_OLD: Final = [k.R_BODY, k.R_END, k.R_KIND, k.R_FIRST, k.R_FROM, k.R_TO]


@dataclass(frozen=True, slots=True)
class Events:
    """The events that come of `rows` rows of a table: `numbers` and `lasts` are the old events, and their last rows.

    `bodies` are those of a table map and a rows event for each of them: begin and end in `data`, and type.
    """

    numbers: Any
    lasts: Any
    data: Any
    bodies: Any
    rows: int


class _Head(NamedTuple):
    """What comes of the head of a rows event, and the bytes of the bitmaps of its row images.

    `lacking`: it is an update, and an image lacks columns.
    """

    kind: int
    body: bytes
    before: int
    after: int
    lacking: bool


def inverse_events(chosen: TableChanges) -> Events:
    """Return the inverse of each event with chosen rows. Raises UndoRefused."""
    check_undoable(chosen)
    return _Making(chosen, True).events()


def forward_events(chosen: TableChanges) -> Events:
    """Return each event with chosen rows, with these alone."""
    return _Making(chosen, False).events()


class _Making:
    """Makes events of chosen rows; the heads of events are few, and made once."""

    def __init__(self, chosen: TableChanges, undo: bool) -> None:
        self.undo, self.chosen = undo, chosen
        self.table, self.buffer = chosen.changes.table, chosen.changes.segment.buffer

    def events(self) -> Events:
        """Return what comes of the events."""
        numbers, events = self._old_events()
        heads, layout, texts = self._heads(events)
        rows, cut = self.chosen.rows, self.chosen.cut
        extents, lengths = np.empty((len(rows), 3), np.int64), np.empty(len(events), np.int64)
        wrong = k.find_extents(cut.starts, cut.sizes, events, layout, rows, extents, lengths)
        assert wrong < 0
        others = np.flatnonzero(layout[events[:, k.R_HEAD], k.H_LENGTH] == k.NOT_HERE).tolist()
        completed = {i: self._completed(events[i]) for i in others}
        lengths[list(completed)] = [len(body) for body in completed.values()]
        table = replace(self.table, flags=self.table.flags | 1).pack()
        ends = len(table) + np.cumsum(lengths)
        begins = ends - lengths
        out = np.empty(len(table) + int(lengths.sum()), np.uint8)
        out[: len(table)] = np.frombuffer(table, np.uint8)
        k.write_events(self.buffer, events, layout, texts, extents, self.undo, begins, out)
        for i, body in completed.items():
            out[begins[i] : ends[i]] = np.frombuffer(body, np.uint8)
        bodies = np.empty((len(events), 2, 3), np.int64)
        bodies[:, 0] = 0, len(table), EventType.TABLE_MAP_EVENT
        bodies[:, 1, 0], bodies[:, 1, 1] = begins, ends
        bodies[:, 1, 2] = np.array([head.kind for head in heads], np.int64)[events[:, k.R_HEAD]]
        return Events(numbers, rows[events[:, k.R_TO] - 1], out, bodies, len(rows))

    def _old_events(self) -> tuple[Any, Any]:
        """Return the numbers of the events with chosen rows, and these with the columns R_*."""
        changes, of_rows = self.chosen.changes, self.chosen.events
        begins = np.flatnonzero(np.diff(of_rows, prepend=-1))
        numbers = of_rows[begins]
        of_all = changes.events[self.chosen.cut.events]
        events = np.zeros((len(numbers), k.R_COLUMNS), np.int64)
        places = changes.segment.events[numbers]
        events[:, [k.R_BODY, k.R_END, k.R_KIND]] = places[:, [w.E_BODY, w.E_END, w.E_KIND]]
        events[:, k.R_FIRST], events[:, k.R_LAST] = (np.searchsorted(of_all, numbers, s) for s in ("left", "right"))
        events[:, k.R_FROM], events[:, k.R_TO] = begins, np.append(begins[1:], len(of_rows))
        return numbers, events

    def _heads(self, events: Any) -> tuple[list[_Head], Any, Any]:
        """Return the heads of new events, the same with the columns H_*, and their bytes."""
        found = np.empty(len(events), np.int64)
        count = k.find_heads(self.buffer, events, len(self.table.types), found)
        heads = []
        for event in events[found[:count]]:
            body, rows, kind = event[[k.R_BODY, k.R_ROWS, k.R_KIND]].tolist()
            heads.append(self._head(RowsEvent.parse(kind, self.buffer[body:rows].tobytes())))
        layout = np.empty((count, k.H_COLUMNS), np.int64)
        layout[:, k.H_LENGTH] = [len(head.body) for head in heads]
        layout[:, k.H_BEGIN] = np.cumsum(layout[:, k.H_LENGTH]) - layout[:, k.H_LENGTH]
        layout[:, k.H_BEFORE], layout[:, k.H_AFTER] = [h.before for h in heads], [h.after for h in heads]
        if self.undo:
            layout[[head.lacking for head in heads], k.H_LENGTH] = k.NOT_HERE
        return heads, layout, np.frombuffer(bytearray(b"".join(head.body for head in heads)), np.uint8)

    def _head(self, event: RowsEvent) -> _Head:
        made = _with(event, self.table, self.undo)
        before, after = (
            None if bitmap is None else len(present_columns(bitmap, event.column_count))
            for bitmap in (event.present_before, event.present_after)
        )
        lacking = before is not None and after is not None and min(before, after) < event.column_count
        return _Head(int(made.type_code), made.pack(), ((before or 0) + 7) // 8, ((after or 0) + 7) // 8, lacking)

    def _completed(self, event: Any) -> bytes:
        """Return the body of the inverse of an update whose images lack columns."""
        body, end, kind, first, begin, stop = event[_OLD].tolist()
        rows = (self.chosen.rows[begin:stop] - first).tolist()
        return _completed(RowsEvent.parse(kind, self.buffer[body:end].tobytes()), self.table, rows).pack()


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
