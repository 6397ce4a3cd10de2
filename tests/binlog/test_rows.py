"""Rows events: cutting rows into cells and joining them again, for all layouts and all row images."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_merge.binlog.constants import ROWS_TYPES, ROWS_V1_TYPES, EventType
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.encode import encode_cell
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.rows import (
    ABSENT,
    PartialJson,
    Row,
    RowsEvent,
    join_rows,
    present_columns,
    row_padding,
    split_rows,
)
from tests.binlog.real_files import parsed
from tests.binlog.record import ALL_TYPES
from tests.binlog.test_table_map import table_map
from tests.effort import effort

TABLE = table_map((T.LONG, 0), (T.VARCHAR, 20), (T.JSON, 4), (T.BLOB, 2), (T.NEWDECIMAL, 10 | 2 << 8), (T.JSON, 4))
VALUES = (
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.text(max_size=5),
    st.lists(st.integers(0, 9), max_size=3),
    st.text(max_size=9),
    st.decimals(-999, 999, places=2),
    st.booleans(),
)


def bitmap(columns: Any, count: int = 6) -> bytes:
    """Return a columns-present bitmap."""
    return sum(1 << i for i in columns).to_bytes((count + 7) // 8, "little")


def event(kind: int, before: Any = range(6), after: Any = range(6), extra: bytes = b"") -> RowsEvent:
    """Return a rows event without rows that holds these columns."""
    write = kind in (EventType.WRITE_ROWS_EVENT_V1, EventType.WRITE_ROWS_EVENT)
    delete = kind in (EventType.DELETE_ROWS_EVENT_V1, EventType.DELETE_ROWS_EVENT)
    return RowsEvent(kind, 7, 1, extra, 6, None if write else bitmap(before), None if delete else bitmap(after), b"")


def draw_image(data: st.DataObject, present: bytes | None, partial: bool = False) -> Any:
    if present is None:
        return None
    image: list[Any] = [ABSENT] * 6
    for i in present_columns(present, 6):
        if data.draw(st.booleans()):
            image[i] = None
            continue
        image[i] = encode_cell(TABLE.types[i], TABLE.metas[i], data.draw(VALUES[i]))
        if partial and TABLE.types[i] == T.JSON and data.draw(st.booleans()):
            image[i] = PartialJson(b"\3\0\0\0\2\1$")
    return tuple(image)


def plain(rows: list[Row]) -> list[Any]:
    """Return rows with cells as bytes, to compare."""
    return [tuple(None if image is None else tuple(map(_plain_cell, image)) for image in row) for row in rows]


def _plain_cell(cell: Any) -> Any:
    if isinstance(cell, PartialJson):
        return PartialJson(bytes(cell.cell))
    return bytes(cell) if isinstance(cell, memoryview) else cell


@given(st.sampled_from(sorted(ROWS_TYPES)), st.data())
@settings(max_examples=effort(75, 150))
def test_joining_and_splitting(kind: int, data: st.DataObject) -> None:
    columns = st.sets(st.integers(0, 5), min_size=1)
    extra = b"" if kind in ROWS_V1_TYPES else data.draw(st.binary(max_size=4))
    empty = event(kind, data.draw(columns), data.draw(columns), extra)
    partial = kind == EventType.PARTIAL_UPDATE_ROWS_EVENT
    rows = [
        (draw_image(data, empty.present_before), draw_image(data, empty.present_after, partial))
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    padding = data.draw(st.booleans())
    whole = join_rows(empty, rows, TABLE, padding)
    assert plain(split_rows(whole, TABLE)) == rows
    again = RowsEvent.parse(kind, whole.pack())
    assert again == whole
    assert again.pack() == whole.pack()
    assert join_rows(again, split_rows(again, TABLE), TABLE, row_padding(again)) == again or padding


def test_an_insert_of_5_7() -> None:
    """MySQL 5.7 sets the unused bits of null bitmaps: insert into t (int, varchar(20), enum) values (1, null, 2)."""
    table = table_map((T.LONG, 0), (T.VARCHAR, 80), (T.STRING, 0x01F7))
    body = bytes.fromhex("6c0000000000 0100 0200 03 ff fa 01000000 02".replace(" ", ""))
    rows_event = RowsEvent.parse(EventType.WRITE_ROWS_EVENT, body)
    assert rows_event.ends_statement
    assert split_rows(rows_event, table) == [(None, (b"\1\0\0\0", None, b"\2"))]
    assert row_padding(rows_event)
    assert join_rows(rows_event, split_rows(rows_event, table), table, True).pack() == body


def test_minimal_images_leave_columns_absent() -> None:
    empty = event(EventType.UPDATE_ROWS_EVENT, before=[0], after=[3])
    rows: list[Row] = [((b"\1\0\0\0", *[ABSENT] * 5), (ABSENT, ABSENT, ABSENT, b"\1\0x", ABSENT, ABSENT))]
    assert plain(split_rows(join_rows(empty, rows, TABLE), TABLE)) == rows
    with pytest.raises(BinlogFormatError, match="absent"):
        join_rows(event(EventType.UPDATE_ROWS_EVENT, before=[0, 1], after=[3]), rows, TABLE)


def test_partial_bits_are_one_per_json_column_of_the_table() -> None:
    """Also for JSON columns that the after image does not hold."""
    empty = event(EventType.PARTIAL_UPDATE_ROWS_EVENT, before=[0], after=[5])
    packed = bytes.fromhex("00 01000000" + "01 02 00 03000000 020124".replace(" ", ""))
    rows_event = RowsEvent(empty.type_code, 7, 1, b"", 6, empty.present_before, empty.present_after, packed)
    ((_, after),) = split_rows(rows_event, TABLE)
    assert after is not None
    assert isinstance(after[5], PartialJson)
    assert after[2] is ABSENT


def test_partial_updates_of_a_real_server() -> None:
    tables: dict[int, Any] = {}
    partial = whole = 0
    for _, value in parsed((ALL_TYPES / "binlog.000001").read_bytes()):
        if not isinstance(value, RowsEvent):
            tables[getattr(value, "table_id", -1)] = value
        elif value.type_code == EventType.PARTIAL_UPDATE_ROWS_EVENT:
            for _, after in split_rows(value, tables[value.table_id]):
                partial += sum(isinstance(cell, PartialJson) for cell in after or ())
                whole += sum(isinstance(cell, memoryview) for cell in after or ())
    assert partial > 5
    assert whole > 5


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("07000000000001000200", "column count"),
        ("0700000000000100000006ff", "does not count itself"),
        ("0700000000000100020000", "0 columns"),
        ("07000000000001000200fcffff", "65535 columns"),
        ("0700000000000100020006", "columns present"),
        ("070000000000010005000606", "extra"),
    ],
)
def test_headers_that_cannot_be(body: str, reason: str) -> None:
    with pytest.raises(BinlogFormatError, match=reason):
        RowsEvent.parse(EventType.WRITE_ROWS_EVENT, bytes.fromhex(body))


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ("00", "LONG cell"),
        ("00010000000561", "VARCHAR cell"),
        ("3f3f3f00", "column 1"),
    ],
)
def test_rows_that_end_early(rows: str, reason: str) -> None:
    wounded = RowsEvent(30, 7, 1, b"", 6, None, bitmap(range(6)), bytes.fromhex(rows))
    with pytest.raises(BinlogFormatError, match=reason):
        split_rows(wounded, TABLE)


def test_rows_of_no_columns_do_not_hang() -> None:
    with pytest.raises(BinlogFormatError, match="no columns"):
        split_rows(RowsEvent(30, 7, 1, b"", 6, None, b"\0", b"xyz"), TABLE)
    assert split_rows(RowsEvent(30, 0xFFFFFF, 1, b"", 6, None, b"\0", b""), TABLE) == []


def test_unknown_value_options() -> None:
    rows_event = RowsEvent(39, 7, 1, b"", 6, bitmap([0]), bitmap([0]), bytes.fromhex("0001000000" + "02"))
    with pytest.raises(BinlogFormatError, match="value options 0x2"):
        split_rows(rows_event, TABLE)


def test_a_table_map_of_another_table() -> None:
    with pytest.raises(BinlogFormatError, match="6 columns, its table map has 1"):
        split_rows(RowsEvent(30, 7, 1, b"", 6, None, b"\x3f", b"x"), table_map((T.LONG, 0)))


@given(st.sampled_from(sorted(ROWS_TYPES)), st.binary(max_size=60))
@settings(max_examples=effort(100, 200))
def test_any_bytes_are_rows_or_an_error(kind: int, data: bytes) -> None:
    head = event(kind).pack()
    try:
        rows_event = RowsEvent.parse(kind, head + data)
        assert rows_event.pack() == head + data
        rows = split_rows(rows_event, TABLE)
        assert len(rows) <= len(data)
    except BinlogFormatError as error:
        assert error.reason
