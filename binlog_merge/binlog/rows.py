"""Row images as byte slices. A rows event is cut, never decoded: cells move between images unchanged.

    rows event   table_id 6 | flags 2 | V2: extra length 2, extra | column count packed | columns present | row*
                 (an UPDATE has two bitmaps of columns present: before, after)
    row image    null bitmap over the columns present | their cells in column order, NULL ones left out
    after image  of PARTIAL_UPDATE_ROWS: value options packed | if options & 1: a bit per JSON column of the table |
                 null bitmap | cells

WRITE has after images, DELETE before images, UPDATE both. Sources: mysql-server `rows_event.h`, `sql/rpl_record.cc`
(unpack_row).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Literal, Self

from binlog_merge.binlog.cell_length import cell_length
from binlog_merge.binlog.constants import (
    DELETE_TYPES,
    ROWS_TYPES,
    ROWS_V1_TYPES,
    WRITE_TYPES,
    ColumnType,
    EventType,
    RowsFlag,
)
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.table_map import MAX_COLUMNS, TableMap
from binlog_merge.binlog.wire import Buffer, Reader, pack_packed, pack_uint, read_packed

PARTIAL_JSON_UPDATES: Final = 1
"""The only bit of a partial image's value options."""


class Mark(Enum):
    """Marks a column that a row image does not hold."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return self.name


ABSENT: Final = Mark.ABSENT


@dataclass(frozen=True, slots=True)
class PartialJson:
    """A JSON cell of an after image with differences to the before image's value instead of a value.

    `cell` has the same length prefix as a full JSON cell; `json_diff.parse_diffs` parses the bytes after it.
    """

    cell: memoryview | bytes


Cell = memoryview | bytes | PartialJson | Literal[Mark.ABSENT] | None
RowImage = tuple[Cell, ...]
Row = tuple[RowImage | None, RowImage | None]
"""(before, after); None if the event type has no such image."""


@dataclass(frozen=True, slots=True)
class RowsEvent:
    """A rows event whose rows are not cut yet. `type_code` is insert, update or delete, in a version of the layout.

    `extra` are the bytes of the V2 header after its length (NDB and partition info), kept unchanged. WRITE has only
    `present_after`, DELETE only `present_before`. Bit i of a columns-present bitmap is bit i & 7 of byte i >> 3.
    """

    type_code: int
    table_id: int
    flags: int
    extra: bytes
    column_count: int
    present_before: bytes | None
    present_after: bytes | None
    rows: memoryview | bytes

    @classmethod
    def parse(cls, type_code: int, body: Buffer) -> Self:
        """Parse the body of a rows event; the rows are a view into it."""
        if type_code not in ROWS_TYPES:
            raise BinlogFormatError(f"event type {type_code} is no rows event")
        r = Reader(body, "rows event")
        table_id, flags = r.u48("table id"), r.u16("flags")
        extra = b""
        if type_code not in ROWS_V1_TYPES:
            size = r.u16("extra length")
            if size < 2:
                raise r.fail(f"extra length {size} does not count itself")
            extra = bytes(r.take(size - 2, "extra"))
        count = r.packed("column count")
        if not 0 < count <= MAX_COLUMNS:
            raise r.fail(f"{count} columns")
        bitmap = (count + 7) // 8
        before = None if type_code in WRITE_TYPES else bytes(r.take(bitmap, "columns present before"))
        after = None if type_code in DELETE_TYPES else bytes(r.take(bitmap, "columns present after"))
        return cls(type_code, table_id, flags, extra, count, before, after, r.take(r.left()))

    def pack(self) -> bytes:
        """Return the body."""
        return b"".join(
            (
                pack_uint(self.table_id, 6),
                pack_uint(self.flags, 2),
                b"" if self.type_code in ROWS_V1_TYPES else pack_uint(len(self.extra) + 2, 2) + self.extra,
                pack_packed(self.column_count),
                self.present_before or b"",
                self.present_after or b"",
                self.rows,
            )
        )

    @property
    def ends_statement(self) -> bool:
        """Return whether this is the last rows event of its statement (STMT_END_F)."""
        return bool(self.flags & RowsFlag.STMT_END_F)


def present_columns(bitmap: bytes, count: int) -> list[int]:
    """Return the indexes of the columns whose bit is set."""
    return [i for i in range(count) if bitmap[i >> 3] >> (i & 7) & 1]


def split_rows(event: RowsEvent, table_map: TableMap) -> list[Row]:
    """Cut the rows of an event into cells: (before, after) row images as tuples with an entry for each column.

    An entry is a view of the cell's bytes, None for NULL, ABSENT for a column not in the image, PartialJson
    for JSON differences.
    """
    return list(iter_rows(event, table_map))


def iter_rows(event: RowsEvent, table_map: TableMap) -> Iterator[Row]:
    """Yield the rows of `split_rows` one after the other."""
    cutter = _Cutter(event, table_map)
    pos, end = 0, len(event.rows)
    while pos < end:
        start = pos
        before: RowImage | None = None
        after: RowImage | None = None
        if event.present_before is not None:
            before, pos = cutter.image(event.present_before, pos)
        if event.present_after is not None:
            if event.type_code == EventType.PARTIAL_UPDATE_ROWS_EVENT:
                after, pos = cutter.partial_image(event.present_after, pos)
            else:
                after, pos = cutter.image(event.present_after, pos)
        if pos == start:
            raise BinlogFormatError("rows event: rows of no columns cannot be told apart")
        yield before, after


class _Cutter:
    """Cuts the row images of an event; holds what is the same for all its rows."""

    __slots__ = ("columns", "data", "json", "metas", "name", "types")

    def __init__(self, event: RowsEvent, table_map: TableMap) -> None:
        if event.column_count != len(table_map.types):
            raise BinlogFormatError(
                f"rows event of {table_map.schema}.{table_map.table}: "
                f"{event.column_count} columns, its table map has {len(table_map.types)}"
            )
        self.data = memoryview(event.rows)
        self.types = table_map.types
        self.metas = table_map.metas
        self.json = [i for i, kind in enumerate(table_map.types) if kind == ColumnType.JSON]
        self.name = f"{table_map.schema}.{table_map.table}"
        # per bitmap: the columns present
        self.columns: dict[bytes, list[int]] = {
            bitmap: present_columns(bitmap, event.column_count)
            for bitmap in (event.present_before, event.present_after)
            if bitmap is not None
        }

    def image(self, present: bytes, pos: int, partial: frozenset[int] = frozenset()) -> tuple[RowImage, int]:
        columns = self.columns[present]
        nulls_at, pos = pos, self._skip(pos, (len(columns) + 7) // 8, "null bitmap")
        data = self.data
        cells: list[Cell] = [ABSENT] * len(self.types)
        for i, column in enumerate(columns):
            if data[nulls_at + (i >> 3)] >> (i & 7) & 1:
                cells[column] = None
                continue
            try:
                end = pos + cell_length(self.types[column], self.metas[column], data, pos)
            except BinlogFormatError as error:
                raise BinlogFormatError(f"rows event of {self.name}, column {column + 1}: {error.reason}") from None
            cell = data[pos:end]
            cells[column] = PartialJson(cell) if column in partial else cell
            pos = end
        return tuple(cells), pos

    def partial_image(self, present: bytes, pos: int) -> tuple[RowImage, int]:
        options, pos = read_packed(self.data, pos, f"rows event of {self.name}: value options")
        if options == 0:
            return self.image(present, pos)
        if options != PARTIAL_JSON_UPDATES:
            raise BinlogFormatError(f"rows event of {self.name}: value options {options:#x} are not known")
        bits_at, pos = pos, self._skip(pos, (len(self.json) + 7) // 8, "partial bits")
        partial = frozenset(
            column for i, column in enumerate(self.json) if self.data[bits_at + (i >> 3)] >> (i & 7) & 1
        )
        return self.image(present, pos, partial)

    def _skip(self, pos: int, size: int, what: str) -> int:
        if pos + size > len(self.data):
            raise BinlogFormatError(f"rows event of {self.name}: the rows end in a {what} at byte {pos}")
        return pos + size


def join_rows(event: RowsEvent, rows: Iterable[Row], table_map: TableMap, padding: bool = False) -> RowsEvent:
    """Return the event with these rows instead of its own: the inverse of `split_rows`.

    `padding` is the value of unused bits in null bitmaps. Servers differ (5.7 sets them, 8.0 does not); `row_padding`
    returns that of an event, so that splitting and joining yields the same bytes.
    """
    parts: list[bytes | memoryview] = []
    partial = event.type_code == EventType.PARTIAL_UPDATE_ROWS_EVENT
    json = [i for i, kind in enumerate(table_map.types) if kind == ColumnType.JSON]
    for before, after in rows:
        if event.present_before is not None:
            _pack_image(parts, before, event.present_before, event.column_count, padding)
        if event.present_after is not None:
            if partial:
                _pack_options(parts, after, json)
            _pack_image(parts, after, event.present_after, event.column_count, padding)
    return replace(event, rows=b"".join(parts))


def _pack_options(parts: list[bytes | memoryview], image: RowImage | None, json: Sequence[int]) -> None:
    bits = bytearray((len(json) + 7) // 8)
    for i, column in enumerate(json):
        if image is not None and isinstance(image[column], PartialJson):
            bits[i >> 3] |= 1 << (i & 7)
    if any(bits):
        parts.extend((bytes([PARTIAL_JSON_UPDATES]), bytes(bits)))
    else:
        parts.append(b"\0")


def _pack_image(
    parts: list[bytes | memoryview], image: RowImage | None, present: bytes, count: int, padding: bool
) -> None:
    if image is None or len(image) != count:
        raise BinlogFormatError(f"row image: {'none' if image is None else len(image)} cells for {count} columns")
    columns = present_columns(present, count)
    nulls = bytearray(b"\xff" if padding else b"\0") * ((len(columns) + 7) // 8)
    at = len(parts)
    parts.append(b"")
    for i, column in enumerate(columns):
        cell = image[column]
        nulls[i >> 3] &= ~(1 << (i & 7)) & 0xFF
        if cell is None:
            nulls[i >> 3] |= 1 << (i & 7)
        elif cell is ABSENT:
            raise BinlogFormatError(f"row image: column {column + 1} is absent, the bitmap has it")
        else:
            parts.append(cell.cell if isinstance(cell, PartialJson) else cell)
    parts[at] = bytes(nulls)


def row_padding(event: RowsEvent) -> bool:
    """Return whether the unused bits of the event's null bitmaps are set, judged by its first row image."""
    present = event.present_before if event.present_before is not None else event.present_after
    used = len(present_columns(present or b"", event.column_count))
    at = (used + 7) // 8 - 1
    if used % 8 == 0 or at >= len(event.rows):
        return False
    if event.present_before is None and event.type_code == EventType.PARTIAL_UPDATE_ROWS_EVENT:
        return False
    return bool(event.rows[at] >> 7)
