"""Cells of every column type: lengths, vectors from the field, there and back, and values that do not fit."""

import math
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_merge.binlog.cell_length import (
    CELL_LENGTH,
    METADATA_LEN,
    cell_length,
    decimal_length,
    real_type,
    string_max_length,
)
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.decode import decode_cell
from binlog_merge.binlog.encode import encode_cell
from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from tests.effort import effort


def string_meta(length: int, kind: int = T.STRING) -> int:
    """Return the metadata of a STRING column of so many bytes, as Field_string writes it."""
    return (kind ^ (length & 0x300) >> 4) | (length & 0xFF) << 8


def test_every_type_with_metadata_has_a_length() -> None:
    assert set(METADATA_LEN) - set(CELL_LENGTH) == {T.DECIMAL}
    assert set(CELL_LENGTH) <= set(METADATA_LEN)


def test_types_behind_string() -> None:
    assert real_type(T.STRING, 0x01F7) == T.ENUM
    assert real_type(T.STRING, 0x08F8) == T.SET
    assert real_type(T.VARCHAR, 0x01F7) == T.VARCHAR
    for length in (0, 1, 255, 256, 511, 765, 1020, 1023):
        meta = string_meta(length)
        assert real_type(T.STRING, meta) == T.STRING
        assert string_max_length(meta) == length


# SQL: create table t (...) in MySQL; the bytes are those of its row images.
VECTORS: list[tuple[int, int, Any, str]] = [
    (T.DATETIME2, 0, datetime(2023, 8, 24, 7, 54, 55), "99b0f07db7"),
    (T.DATETIME2, 3, datetime(2023, 8, 24, 7, 54, 55, 456000), "99b0f07db711d0"),
    (T.DATETIME2, 3, "0000-00-00 00:00:00.000", "80000000000000"),
    (T.DATETIME2, 0, "2024-00-15 00:00:00", "99b21e0000"),
    (T.DATE, 0, date(2023, 8, 24), "18cf0f"),
    (T.DATE, 0, date(9999, 12, 31), "9f1f4e"),
    (T.DATE, 0, "0000-00-00", "000000"),
    (T.DATE, 0, "2024-02-30", "5ed00f"),
    (T.TIME2, 0, timedelta(hours=-838, minutes=-59, seconds=-59), "4b9105"),
    (T.TIME2, 1, timedelta(milliseconds=-500), "7fffffce"),
    (T.TIME2, 3, timedelta(hours=12, minutes=34, seconds=56, milliseconds=789), "80c8b81ed2"),
    (T.TIME2, 6, timedelta(hours=-1, minutes=-2, seconds=-3, microseconds=-1), "7fef7cffffff"),
    (T.TIME2, 0, timedelta(0), "800000"),
    (T.TIMESTAMP2, 0, datetime(2038, 1, 19, 3, 14, 7, tzinfo=UTC), "7fffffff"),
    (T.TIMESTAMP2, 2, "0000-00-00 00:00:00.00", "0000000000"),
    (T.TIMESTAMP, 0, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "01000000"),
    (T.DATETIME, 0, datetime(2024, 1, 2, 3, 4, 5), "457c178468120000"),
    (T.TIME, 0, timedelta(hours=-1, minutes=-2, seconds=-3), "25d8ff"),
    (T.YEAR, 0, 2155, "ff"),
    (T.YEAR, 0, 0, "00"),
    (T.NEWDECIMAL, 10, Decimal(11), "800000000b"),
    (T.NEWDECIMAL, 2 | 1 << 8, Decimal("9.9"), "8909"),
    (T.NEWDECIMAL, 2 | 2 << 8, Decimal("0.99"), "e3"),
    (T.NEWDECIMAL, 14 | 4 << 8, Decimal("1234567890.1234"), "810dfb38d204d2"),
    (T.NEWDECIMAL, 14 | 4 << 8, Decimal("-1234567890.1234"), "7ef204c72dfb2d"),
    (T.NEWDECIMAL, 5 | 5 << 8, Decimal("-0.12345"), "7fcfc6"),
    (T.ENUM, T.ENUM | 1 << 8, 3, "03"),
    (T.STRING, T.ENUM | 2 << 8, 300, "2c01"),
    (T.STRING, T.SET | 8 << 8, 1 << 32 | 1, "0100000001000000"),
    (T.BIT, 5, 0b10101, "15"),
    (T.BIT, 8 << 8, 1 << 63 | 1, "8000000000000001"),
    (T.BIT, 1 | 1 << 8, 0x1FF, "01ff"),
    (T.VARCHAR, 80, "vvv ", "0476767620"),
    (T.VARCHAR, 1200, "é", "0200c3a9"),
    (T.STRING, string_meta(40), "ab", "026162"),
    (T.STRING, string_meta(1020), "ab", "02006162"),
    (T.BLOB, 2, "text", "040074657874"),
    (T.LONG_BLOB, 4, "", "00000000"),
    (T.JSON, 4, {"k": 1}, "0d00000000" + "01000c000b000100" + "050100" + "6b"),
    (T.VECTOR, 4, (1.0, 2.5, -3.0), "0c0000000000803f00002040000040c0"),
    (T.FLOAT, 4, 1.5, "0000c03f"),
    (T.DOUBLE, 8, -2.25, "00000000000002c0"),
    (T.TINY, 0, -128, "80"),
    (T.SHORT, 0, -2, "feff"),
    (T.INT24, 0, -8388608, "000080"),
    (T.LONG, 0, 1, "01000000"),
    (T.LONGLONG, 0, -1, "ff" * 8),
]


@pytest.mark.parametrize(("kind", "meta", "value", "cell"), VECTORS)
def test_vectors(kind: int, meta: int, value: Any, cell: str) -> None:
    raw = bytes.fromhex(cell)
    assert encode_cell(kind, meta, value).hex() == cell
    assert decode_cell(kind, meta, raw) == value
    assert cell_length(kind, meta, raw + b"more", 0) == len(raw)
    assert cell_length(kind, meta, b"xy" + raw, 2) == len(raw)
    for short in range(len(raw)):
        with pytest.raises(BinlogFormatError):
            cell_length(kind, meta, raw[:short], 0)
    with pytest.raises(BinlogFormatError):
        decode_cell(kind, meta, raw + b"x")


# DEFAULT clauses are texts.
@pytest.mark.parametrize(
    ("kind", "meta", "text", "value"),
    [
        (T.LONG, 0, "123", 123),
        (T.LONG, 0, "1.5", 2),
        (T.LONG, 0, "-1.5", -2),
        (T.LONG, 0, "1e3", 1000),
        (T.NEWDECIMAL, 5 | 2 << 8, "1.005", Decimal("1.01")),
        (T.NEWDECIMAL, 5 | 2 << 8, "-0.001", Decimal("0.00")),
        (T.DOUBLE, 8, "1e10", 1e10),
        (T.BIT, 5, "b'101'", 5),
        (T.BIT, 1 << 8, "0x41", 0x41),
        (T.YEAR, 0, "1999", 1999),
        (T.DATE, 0, "2024-1-2", date(2024, 1, 2)),
        (T.DATETIME2, 0, "2024-01-02", datetime(2024, 1, 2)),
        (T.DATETIME2, 2, "2024-01-02T03:04:05.678", datetime(2024, 1, 2, 3, 4, 5, 670000)),
        (T.TIME2, 0, "-10:11", timedelta(hours=-10, minutes=-11)),
        (T.TIMESTAMP2, 0, "2024-01-02 03:04:05", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (T.TIMESTAMP2, 0, 5, datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)),
    ],
)
def test_texts(kind: int, meta: int, text: Any, value: Any) -> None:
    assert decode_cell(kind, meta, encode_cell(kind, meta, text)) == value


def test_members_by_text() -> None:
    assert encode_cell(T.STRING, T.ENUM | 1 << 8, "b", members=("a", "b")) == b"\2"
    assert encode_cell(T.STRING, T.ENUM | 1 << 8, "", members=("a", "b")) == b"\0"
    assert encode_cell(T.STRING, T.SET | 1 << 8, "a,c", members=("a", "b", "c")) == b"\5"
    assert encode_cell(T.STRING, T.SET | 1 << 8, "", members=("a", "b", "c")) == b"\0"
    for kind in (T.ENUM, T.SET):
        with pytest.raises(CellValueError):
            encode_cell(T.STRING, kind | 1 << 8, "z", members=("a",))


def test_padding_is_left_out_as_the_server_does() -> None:
    assert encode_cell(T.STRING, string_meta(10), "ab  ") == b"\2ab"
    assert encode_cell(T.STRING, string_meta(5), b"\1\2\0\0\0", charset="binary") == b"\2\1\2"
    assert encode_cell(T.STRING, string_meta(5), b" \0 ", charset="binary") == b"\3 \0 "


def test_character_sets() -> None:
    for charset, text, raw in [
        ("gbk", "中", "d6d0"),
        ("latin1", "€\x81é", "8081e9"),
        ("ucs2", "ab", "00610062"),
        ("utf16le", "a", "6100"),
        ("sjis", "カ", "834a"),
        ("utf8mb3", "é", "c3a9"),
    ]:
        cell = encode_cell(T.VARCHAR, 20, text, charset=charset)
        assert cell[1:].hex() == raw
        assert decode_cell(T.VARCHAR, 20, cell, charset=charset) == text
    assert decode_cell(T.VARCHAR, 20, b"\1\xff") == b"\xff"
    assert decode_cell(T.VARCHAR, 20, b"\1a", charset="binary") == b"a"
    assert decode_cell(T.VARCHAR, 20, b"\1\xd7", charset="dec8") == "Œ"
    assert decode_cell(T.VARCHAR, 20, b"\1a", charset="nobody's") == b"a"


@pytest.mark.parametrize(
    ("kind", "meta", "value"),
    [
        (T.TINY, 0, 128),
        (T.TINY, 0, "abc"),
        (T.TINY, 0, 1e300),
        (T.TINY, 0, math.nan),
        (T.LONGLONG, 0, 1 << 63),
        (T.LONG, 0, b"1"),
        (T.LONG, 0, None),
        (T.YEAR, 0, 1900),
        (T.YEAR, 0, 2156),
        (T.FLOAT, 4, 1e300),
        (T.FLOAT, 8, 1.0),
        (T.NEWDECIMAL, 5 | 2 << 8, Decimal("1000")),
        (T.NEWDECIMAL, 5 | 2 << 8, "nan"),
        (T.NEWDECIMAL, 5 | 2 << 8, "x"),
        (T.NEWDECIMAL, 70, 1),
        (T.VARCHAR, 3, "abcd"),
        (T.VARCHAR, 3, 5),
        (T.STRING, string_meta(1), "ab"),
        (T.TINY_BLOB, 1, "x" * 256),
        (T.BLOB, 5, "x"),
        (T.BIT, 5, 32),
        (T.BIT, 0, 0),
        (T.STRING, T.ENUM | 1 << 8, 256),
        (T.DATE, 0, "2024-13-01"),
        (T.DATE, 0, "nonsense"),
        (T.DATE, 0, 5.5),
        (T.DATETIME2, 7, datetime(2024, 1, 1)),
        (T.DATETIME2, 0, "2024-01-01 25:00:00"),
        (T.TIME2, 0, timedelta(hours=839)),
        (T.TIME2, 0, "12:60:00"),
        (T.TIMESTAMP2, 0, datetime(2107, 1, 1, tzinfo=UTC)),
        (T.TIMESTAMP2, 0, "1969-12-31 23:59:59"),
        (T.TIMESTAMP2, 0, "2024-02-30 00:00:00"),
        (T.JSON, 4, object()),
        (T.JSON, 1, "x" * 300),
        (T.VECTOR, 4, ("a",)),
        (T.TYPED_ARRAY, 0, 1),
    ],
)
def test_values_that_do_not_fit(kind: int, meta: int, value: Any) -> None:
    with pytest.raises(CellValueError):
        encode_cell(kind, meta, value)


def test_signs() -> None:
    assert encode_cell(T.TINY, 0, 255, unsigned=True) == b"\xff"
    assert decode_cell(T.TINY, 0, b"\xff", unsigned=True) == 255
    assert decode_cell(T.TINY, 0, b"\xff") == -1
    with pytest.raises(CellValueError):
        encode_cell(T.TINY, 0, -1, unsigned=True)


@pytest.mark.parametrize("kind", [T.DECIMAL, T.TYPED_ARRAY, T.INVALID, T.BOOL, 139, 142, 21])
def test_types_that_no_row_holds(kind: int) -> None:
    with pytest.raises(BinlogFormatError, match="cannot be read"):
        cell_length(kind, 0, bytes(99), 0)


# --- there and back


@given(st.integers(1, 65), st.data())
def test_decimals(precision: int, data: st.DataObject) -> None:
    scale = data.draw(st.integers(0, min(30, precision)))
    digits = data.draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    number = Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -scale))
    meta = precision | scale << 8
    cell = encode_cell(T.NEWDECIMAL, meta, number)
    assert len(cell) == decimal_length(precision, scale)
    assert decode_cell(T.NEWDECIMAL, meta, cell) == number
    assert encode_cell(T.NEWDECIMAL, meta, format(number, "f")) == cell


@given(st.integers(1, 18), st.integers(-(10**18), 10**18), st.integers(-(10**18), 10**18))
def test_decimal_bytes_order_as_numbers_do(scale: int, a: int, b: int) -> None:
    cells = [encode_cell(T.NEWDECIMAL, 40 | scale << 8, Decimal(n).scaleb(-scale)) for n in (a, b)]
    assert (cells[0] < cells[1]) == (a < b)


def _cut(micro: int, fsp: int) -> int:
    return micro // 10 ** (6 - fsp) * 10 ** (6 - fsp)


@given(st.datetimes(), st.integers(0, 6))
def test_datetimes(moment: datetime, fsp: int) -> None:
    moment = moment.replace(microsecond=_cut(moment.microsecond, fsp))
    for kind in (T.DATETIME2, T.DATETIME):
        expected = moment if kind == T.DATETIME2 else moment.replace(microsecond=0)
        assert decode_cell(kind, fsp, encode_cell(kind, fsp, moment)) == expected
    assert decode_cell(T.DATE, 0, encode_cell(T.DATE, 0, moment)) == moment.date()


@given(st.integers(-(838 * 3600 + 3599) * 10**6, (838 * 3600 + 3599) * 10**6), st.integers(0, 6))
def test_times(micro: int, fsp: int) -> None:
    span = (-1 if micro < 0 else 1) * timedelta(microseconds=_cut(abs(micro), fsp))
    assert decode_cell(T.TIME2, fsp, encode_cell(T.TIME2, fsp, span)) == span


@given(st.integers(1, (1 << 32) - 1), st.integers(0, 999_999), st.integers(0, 6))
def test_timestamps(seconds: int, micro: int, fsp: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds, microseconds=_cut(micro, fsp))
    assert decode_cell(T.TIMESTAMP2, fsp, encode_cell(T.TIMESTAMP2, fsp, moment)) == moment


@given(st.integers(0, 9999), st.integers(0, 12), st.integers(0, 31))
def test_dates_that_may_not_exist(year: int, month: int, day: int) -> None:
    text = f"{year:04d}-{month:02d}-{day:02d}"
    value = decode_cell(T.DATE, 0, encode_cell(T.DATE, 0, text))
    assert text in (value, str(value))


@given(st.floats(width=32, allow_nan=False), st.floats(allow_nan=False))
def test_floats(single: float, double: float) -> None:
    assert decode_cell(T.FLOAT, 4, encode_cell(T.FLOAT, 4, single)) == single
    assert decode_cell(T.DOUBLE, 8, encode_cell(T.DOUBLE, 8, double)) == double


@given(st.text(max_size=100), st.sampled_from(["utf8mb4", "utf16", "utf32", "gb18030"]))
def test_texts_go_there_and_back(text: str, charset: str) -> None:
    for kind, meta in ((T.VARCHAR, 500), (T.BLOB, 2), (T.VARCHAR, 200)):
        try:
            cell = encode_cell(kind, meta, text, charset=charset)
        except CellValueError:
            assert meta == 200
            assert len(text.encode("utf-32")) > 200
        else:
            assert decode_cell(kind, meta, cell, charset=charset) == text


@given(st.sampled_from(sorted(METADATA_LEN)), st.integers(0, 0xFFFF), st.binary(max_size=40), st.booleans())
@settings(max_examples=effort(150, 300))
def test_any_bytes_are_a_cell_or_an_error(kind: int, meta: int, data: bytes, unsigned: bool) -> None:
    meta &= (1 << 8 * METADATA_LEN[kind]) - 1
    try:
        size = cell_length(kind, meta, data, 0)
        assert 0 <= size <= len(data)
        decode_cell(kind, meta, data[:size], unsigned)
    except BinlogFormatError:
        pass


def test_nan_stays() -> None:
    assert math.isnan(decode_cell(T.DOUBLE, 8, struct.pack("<d", math.nan)))
