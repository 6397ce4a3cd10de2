"""Applies the JSON differences (partial updates) of a segment, so that rows are complete before they are cut in bulk.

A difference is applied to the document before it: that of the row's before image or, if the image does not hold it
(binlog_row_image MINIMAL, NOBLOB), that which the segment's earlier rows or the target have under the row's key. A
target that keeps documents as text keeps enough: names, order and digits. Whether a text was a date, or a number a
DECIMAL, does not change the text of the result.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Final, Protocol

import numpy as np

from binlog_merge.binlog.constants import ROWS_TYPES, WRITE_TYPES, ColumnType, EventType
from binlog_merge.binlog.json_diff import apply_to_cell, no_document, whole_row
from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.binlog.rows import ABSENT, Cell, PartialJson, Row, RowImage, RowsEvent, iter_rows, join_rows
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.errors import ConversionFailed
from binlog_merge.log.segments import Segment

Key = tuple[bytes, ...]
Documents = Mapping[int, Cell]
"""The JSON cells of a row by column index."""
_NO_DOCUMENT: Final = bytes(4)
"""A placeholder for a document that is not needed."""


class DocumentSource(Protocol):
    """Reads the rows of a target."""

    def key_of(self, table: TableMap) -> Sequence[int] | None:
        """Return the indexes of the columns of a table's key; None if it has none, or the table is not known."""

    def documents(self, table: TableMap, key: Sequence[int], wanted: Sequence[Key]) -> dict[Key, dict[int, Cell]]:
        """Return the documents of rows by their keys' cells; missing rows and columns are left out."""

    def keeps(self, table: TableMap, column: int) -> bool:
        """Return whether the target has a column."""


def with_whole_json(segment: Segment, source: DocumentSource | None = None, lenient: bool = False) -> Segment:
    """Return a segment with all JSON differences applied. Raises ConversionFailed if the document before is unknown.

    If `lenient` the document after such a difference is absent from the row's image instead.
    """
    partial = np.flatnonzero(segment.events[:, k.E_KIND] == EventType.PARTIAL_UPDATE_ROWS_EVENT)
    if not len(partial):
        return segment
    poor = {_name(segment, number) for number in partial.tolist() if _lacks_before(segment, number)}
    tracked: dict[tuple[str, str], _Tracked] = {}
    if source is not None:
        for number, event in enumerate(segment.events):
            name = _name(segment, number)
            if name in poor and int(event[k.E_KIND]) in ROWS_TYPES:
                tracked.setdefault(name, _Tracked(source)).add(number)
    rows: dict[int, list[Row]] = {}
    for table in tracked.values():
        rows |= table.whole(segment)
    plain = _leniently if lenient else _plainly
    return _with_rows(segment, {n: rows.get(n) or plain(segment, n) for n in partial.tolist()})


@dataclass
class _Tracked:
    """The documents of a table's rows after each event of a segment."""

    source: DocumentSource
    events: list[int] = field(default_factory=list)
    known: dict[Key, dict[int, Cell]] = field(default_factory=dict)

    def add(self, number: int) -> None:
        """Add an event of the table."""
        self.events.append(number)

    def whole(self, segment: Segment) -> dict[int, list[Row]]:
        """Return the rows of each event with differences, with these applied."""
        table = _table(segment, self.events[0])
        key = self.source.key_of(table)
        if key is None:
            return {}
        of_updates = [number for number in self.events if int(segment.events[number, k.E_KIND]) not in WRITE_TYPES]
        wanted = {_key(before, key) for n in of_updates for before, _ in _rows(segment, n) if before is not None}
        self.known = self.source.documents(table, key, sorted(wanted))
        found = {}
        for number in self.events:
            table, kind = _table(segment, number), int(segment.events[number, k.E_KIND])
            rows = [self._after(table, key, row) for row in _rows(segment, number)]
            if kind == EventType.PARTIAL_UPDATE_ROWS_EVENT:
                found[number] = rows
        return found

    def _after(self, table: TableMap, key: Sequence[int], row: Row) -> Row:
        """Take a row in order, and return it with its JSON differences applied."""
        before, after = row
        documents: dict[int, Cell] = {} if before is None else self.known.pop(_key(before, key), {})
        if after is None:
            return row
        if before is not None:
            documents |= {i: before[i] for i in _json_columns(table) if before[i] is not ABSENT}
            after = tuple(self._patched(table, i, cell, documents) for i, cell in enumerate(after))
        documents |= {i: after[i] for i in _json_columns(table) if after[i] is not ABSENT}
        self.known[_key(after, key, before)] = documents
        return before, after

    def _patched(self, table: TableMap, column: int, cell: Cell, documents: Documents) -> Cell:
        if not isinstance(cell, PartialJson):
            return cell
        old = documents.get(column)
        if isinstance(old, bytes | memoryview):
            return apply_to_cell(old, cell.cell, table.metas[column])
        if not self.source.keeps(table, column):
            return _NO_DOCUMENT
        raise no_document(table, column)


def _key(image: RowImage, key: Sequence[int], before: RowImage | None = None) -> Key:
    """Return the cells of a row's key; cells absent from an after image are taken from the image `before`."""
    cells = [before[i] if image[i] is ABSENT and before is not None else image[i] for i in key]
    if not all(isinstance(cell, bytes | memoryview) for cell in cells):
        raise ConversionFailed("JSON differences of a row whose image does not hold its key")
    return tuple(bytes(cell) for cell in cells if isinstance(cell, bytes | memoryview))


def _json_columns(table: TableMap) -> list[int]:
    return [i for i, kind in enumerate(table.types) if kind == ColumnType.JSON]


def _name(segment: Segment, number: int) -> tuple[str, str]:
    table = _table(segment, number)
    return table.schema, table.table


def _table(segment: Segment, number: int) -> TableMap:
    return segment.tables[int(segment.events[number, k.E_MAP])]


def _event(segment: Segment, number: int) -> RowsEvent:
    body, end, kind = (int(segment.events[number, c]) for c in (k.E_BODY, k.E_END, k.E_KIND))
    return RowsEvent.parse(kind, segment.buffer[body:end].tobytes())


def _rows(segment: Segment, number: int) -> Iterator[Row]:
    return iter_rows(_event(segment, number), _table(segment, number))


def _lacks_before(segment: Segment, number: int) -> bool:
    """Return whether an event has JSON differences whose documents its before images do not hold."""
    return any(
        isinstance(cell, PartialJson) and not isinstance(old, bytes | memoryview)
        for before, after in _rows(segment, number)
        for old, cell in zip(before or (), after or (), strict=True)
    )


def _plainly(segment: Segment, number: int) -> list[Row]:
    return [whole_row(row, _table(segment, number)) for row in _rows(segment, number)]


def _leniently(segment: Segment, number: int) -> list[Row]:
    return [_known_of(row, _table(segment, number)) for row in _rows(segment, number)]


def _known_of(row: Row, table: TableMap) -> Row:
    """Return a row with JSON differences applied, or the columns left out whose documents are not known."""
    before, after = row
    if before is None or after is None:
        return row
    kept = [
        ABSENT if isinstance(new, PartialJson) and old is ABSENT else new
        for old, new in zip(before, after, strict=True)
    ]
    return whole_row((before, tuple(kept)), table)


def _with_rows(segment: Segment, found: Mapping[int, list[Row]]) -> Segment:
    """Return the segment with the events of these numbers replaced by plain updates of these rows.

    An event whose rows hold different columns becomes several, at the same place.
    """
    pieces, end = [segment.buffer], len(segment.buffer)
    events = []
    for number, old in enumerate(segment.events):
        if number not in found:
            events.append(old)
            continue
        event = replace(_event(segment, number), type_code=int(EventType.UPDATE_ROWS_EVENT))
        for held, rows in groupby(found[number], _held):
            data = join_rows(replace(event, present_after=held), list(rows), _table(segment, number)).pack()
            pieces.append(np.frombuffer(data, np.uint8))
            new = old.copy()
            new[[k.E_BODY, k.E_END, k.E_KIND]] = end, end + len(data), int(EventType.UPDATE_ROWS_EVENT)
            events.append(new)
            end += len(data)
    whole: Any = np.concatenate(pieces)
    return replace(segment, buffer=whole, events=np.array(events, np.int64))


def _held(row: Row) -> bytes:
    """Return the columns-present bitmap of a row after an update."""
    after = row[1] or ()
    bits = sum(1 << i for i, cell in enumerate(after) if cell is not ABSENT)
    return bits.to_bytes((len(after) + 7) // 8, "little")
