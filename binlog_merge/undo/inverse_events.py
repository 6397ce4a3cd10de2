"""Rows events that undo rows events: their rows in reverse order, images swapped, cells untouched.

    WRITE   becomes DELETE of the same images       UPDATE   its images swapped
    DELETE  becomes WRITE of the same images

Rows are cut at their ends, which the cut cells show, so that a row costs no more than a few slices. Where an image
lacks columns (binlog_row_image MINIMAL, NOBLOB), rows are taken apart and completed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from binlog_merge.binlog.columnar import AFTER, BEFORE
from binlog_merge.binlog.constants import EventType, RowsFlag
from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.binlog.kernels.row_cells import ABSENT
from binlog_merge.binlog.rows import ABSENT as NOT_HELD
from binlog_merge.binlog.rows import Row, RowImage, RowsEvent, iter_rows, join_rows, row_padding
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.undo.selection import Chosen
from binlog_merge.undo.statements import check_undoable

_INVERSE: Final[dict[int, int]] = {
    EventType.WRITE_ROWS_EVENT_V1: EventType.DELETE_ROWS_EVENT_V1,
    EventType.DELETE_ROWS_EVENT_V1: EventType.WRITE_ROWS_EVENT_V1,
    EventType.WRITE_ROWS_EVENT: EventType.DELETE_ROWS_EVENT,
    EventType.DELETE_ROWS_EVENT: EventType.WRITE_ROWS_EVENT,
}


@dataclass(frozen=True, slots=True)
class MappedRows:
    """A rows event of `count` rows and its table map, as event bodies."""

    table: bytes
    kind: int
    rows: bytes
    count: int


def inverse_events(chosen: Chosen) -> Iterator[tuple[int, int, MappedRows]]:
    """Yield (event, its last row, inverse) for each event with chosen rows. Raises UndoRefused."""
    check_undoable(chosen)
    return _events(chosen, True)


def forward_events(chosen: Chosen) -> Iterator[tuple[int, int, MappedRows]]:
    """Yield (event, its last row, the event with the chosen rows alone)."""
    return _events(chosen, False)


def _events(chosen: Chosen, undo: bool) -> Iterator[tuple[int, int, MappedRows]]:
    numbers = chosen.order()
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    all_events = chosen.changes.events[chosen.cut.events]
    for begin, end in zip(starts.tolist(), [*starts[1:].tolist(), len(numbers)], strict=True):
        event, rows = int(numbers[begin]), chosen.rows[begin:end]
        first, last = (int(np.searchsorted(all_events, event, side)) for side in ("left", "right"))
        made = _event(chosen, event, range(first, last), rows, undo)
        table = replace(chosen.changes.table, flags=chosen.changes.table.flags | 1)
        yield event, int(rows[-1]), MappedRows(table.pack(), made.type_code, made.pack(), end - begin)


def _event(chosen: Chosen, event: int, every: range, rows: Any, undo: bool) -> RowsEvent:
    """Return the inverse of an event's chosen rows, or the event with those rows alone; `every` are all its rows."""
    segment, table = chosen.changes.segment, chosen.changes.table
    body, end, kind = (int(segment.events[event, column]) for column in (k.E_BODY, k.E_END, k.E_KIND))
    parsed = RowsEvent.parse(kind, memoryview(segment.buffer.data)[body:end])
    wanted = (rows - every.start).tolist()
    is_update = parsed.present_before is not None and parsed.present_after is not None
    if undo and is_update and (chosen.cut.sizes[:, :, every.start : every.stop] == ABSENT).any():
        return _completed(parsed, table, wanted)
    extents = _extents(chosen, every, len(parsed.rows), end - len(parsed.rows))
    data = memoryview(segment.buffer.data)
    pieces = []
    for number in reversed(wanted) if undo else wanted:
        first, middle, stop = extents[number]
        pieces += [data[middle:stop], data[first:middle]] if undo else [data[first:stop]]
    return _with(parsed, b"".join(pieces), undo)


def _with(event: RowsEvent, rows: bytes, undo: bool) -> RowsEvent:
    flags = event.flags | RowsFlag.STMT_END_F
    if not undo:
        return replace(event, rows=rows, flags=flags)
    return replace(
        event,
        type_code=_INVERSE.get(event.type_code, event.type_code),
        present_before=event.present_after,
        present_after=event.present_before,
        rows=rows,
        flags=flags,
    )


def _extents(chosen: Chosen, every: range, size: int, begin: int) -> list[tuple[int, int, int]]:
    """Return (begin, end of the first image, end) of each row of an event, in the segment's buffer."""
    cut = chosen.cut
    ends = []
    for side in (BEFORE, AFTER):
        sizes = cut.sizes[side, :, every.start : every.stop].astype(np.int64)
        stops = cut.starts[side, :, every.start : every.stop].astype(np.int64) + sizes
        there = (sizes != -3).any(axis=0)
        held = (sizes >= 0) | (sizes == -1)
        bitmap = np.where(there, (held.sum(axis=0) + 7) // 8, 0)
        ends.append((bitmap.tolist(), np.where(sizes >= 0, stops, 0).max(axis=0).tolist()))
    found, at = [], begin
    for before_bits, before_end, after_bits, after_end in zip(*ends[0], *ends[1], strict=True):
        middle = max(at + before_bits, before_end)
        stop = max(middle + after_bits, after_end)
        found.append((at, middle, stop))
        at = stop
    assert at == begin + size
    return found


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
    return replace(joined, flags=joined.flags | RowsFlag.STMT_END_F)
