"""Row images as Arrow batches."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from binlog_merge.binlog.arrow import rows_to_batch
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.encode import encode_cell
from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from binlog_merge.binlog.events import RowsEvent, TableMap
from binlog_merge.binlog.rows import ABSENT, split_rows
from binlog_merge.binlog.table_map import member_text
from tests.binlog.real_files import parsed
from tests.binlog.record import ALL_TYPES
from tests.binlog.test_table_map import table_map


def first_image(table: str) -> tuple[TableMap, Any]:
    """Return the first inserted row of a recorded table."""
    current: TableMap | None = None
    for _, value in parsed((ALL_TYPES / "binlog.000001").read_bytes()):
        if isinstance(value, TableMap):
            current = value
        if isinstance(value, RowsEvent) and current is not None and current.table == table:
            return current, split_rows(value, current)[0][1]
    raise AssertionError(table)


def test_numbers() -> None:
    current, image = first_image("numbers")
    (row,) = rows_to_batch([image], current).to_pylist()
    assert row == {
        "id": 1,
        "ti": -128,
        "tu": 255,
        "si": -32768,
        "su": 65535,
        "mi": -8388608,
        "mu": 16777215,
        "i": -2147483648,
        "iu": 4294967295,
        "b": -9223372036854775808,
        "bu": 18446744073709551615,
        "f": 1.5,
        "db": -2.25e100,
        "de": Decimal("-12345678.91"),
        "de2": Decimal("12345678901234567890123456789012345.123456789012345678901234567891"),
        "de3": Decimal("-0.12345"),
        "de4": Decimal("999999999999999999"),
        "de5": Decimal("-123456789012345678901234567890"),
        "bt": 1,
        "bt5": 0b10101,
        "bt8": 255,
        "bt64": 0x8000000000000001,
    }


def test_times() -> None:
    current, image = first_image("times")
    (row,) = rows_to_batch([image], current).to_pylist()
    assert row == {
        "id": 1,
        "y": 2155,
        "d": date(9999, 12, 31),
        "t0": timedelta(hours=-838, minutes=-59, seconds=-59),
        "t1": timedelta(milliseconds=-500),
        "t3": timedelta(hours=12, minutes=34, seconds=56, milliseconds=789),
        "t6": timedelta(hours=-1, minutes=-2, seconds=-3, microseconds=-1),
        "dt": datetime(9999, 12, 31, 23, 59, 59),
        "dt2": datetime(2024, 2, 29, 1, 2, 3, 450000),
        "dt6": datetime(2024, 2, 29, 1, 2, 3, 456789),
        "ts": datetime(2038, 1, 19, 3, 14, 7, tzinfo=UTC),
        "ts3": datetime(2024, 2, 29, 1, 2, 3, 456000, tzinfo=UTC),
        "ts6": datetime(2024, 2, 29, 1, 2, 3, 1, tzinfo=UTC),
    }
    (texts,) = rows_to_batch([image], current, temporal_text=True).to_pylist()
    assert texts["t1"] == "-00:00:00.5"
    assert texts["ts3"] == "2024-02-29 01:02:03.456"


def test_texts_and_others() -> None:
    current, image = first_image("texts")
    (row,) = rows_to_batch([image], current).to_pylist()
    assert row["c"] == "ab"
    assert row["c255"] == "ü" * 200
    assert row["cu"] == "é"
    assert row["bi"] == b"\1\2\0\0\0"
    assert row["vb"] == b"\0\xff\0"
    assert row["gb"] == "中文"
    assert row["l1"] == "€é"
    assert row["u2"] == "ab"
    assert row["sj"] == "カナ"
    current, image = first_image("others")
    (row,) = rows_to_batch([image], current).to_pylist()
    assert (row["e"], row["s"], row["s33"], row["el"]) == ("x,y", "p,r", "s0,s32", "l")
    assert row["j"].startswith('{"": [], "a": 1, "b": [true, null, -1, 70000, -70000, 5000000000,')
    assert row["ve"] == [1.0, 2.5, -3.0]
    assert row["g"][:4] == (4326).to_bytes(4, "little")


def test_null_and_absent_are_null() -> None:
    table = table_map((T.LONG, 0), (T.VARCHAR, 20))
    batch = rows_to_batch([(None, ABSENT), (b"\1\0\0\0", b"\1x")], table)
    assert batch.to_pylist() == [{"@1": None, "@2": None}, {"@1": 1, "@2": "x"}]
    assert rows_to_batch([], table, names=("a", "b")).schema.names == ["a", "b"]


def test_a_date_that_arrow_has_not() -> None:
    table = table_map((T.DATE, 0))
    with pytest.raises(CellValueError, match="is a date that no calendar has"):
        rows_to_batch([(b"\0\0\0",)], table)
    assert rows_to_batch([(b"\0\0\0",)], table, temporal_text=True).to_pylist() == [{"@1": "0000-00-00"}]


def test_text_that_is_not_valid_is_shown_as_hex() -> None:
    table = table_map((T.VARCHAR, 20))
    assert rows_to_batch([(b"\2\xff\xfe",)], table).to_pylist() == [{"@1": "0xfffe"}]
    assert rows_to_batch([(b"\2\xff\xfe",)], table, charsets=("binary",)).to_pylist() == [{"@1": b"\xff\xfe"}]


def test_members() -> None:
    assert member_text(T.ENUM, 0, ("a",)) == ""
    assert member_text(T.SET, 0, ("a",)) == ""
    assert member_text(T.SET, 3, ("a", "b")) == "a,b"
    for kind, value in ((T.ENUM, 2), (T.SET, 2)):
        with pytest.raises(BinlogFormatError):
            member_text(kind, value, ("a",))
    table = table_map((T.STRING, T.ENUM | 1 << 8), (T.STRING, T.SET | 1 << 8))
    assert rows_to_batch([(b"\2", b"\3")], table).to_pylist() == [{"@1": 2, "@2": 3}]


def test_json_differences_have_no_value() -> None:
    from binlog_merge.binlog.rows import PartialJson

    with pytest.raises(CellValueError, match="apply"):
        rows_to_batch([(PartialJson(b"\0\0\0\0"),)], table_map((T.JSON, 4)))


def test_json_is_text() -> None:
    cell = encode_cell(T.JSON, 4, {"a": [1, "é"]})
    assert rows_to_batch([(cell,)], table_map((T.JSON, 4))).to_pylist() == [{"@1": '{"a": [1, "é"]}'}]
