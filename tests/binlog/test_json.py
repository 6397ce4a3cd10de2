"""Binary JSON and JSON differences."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from binlog_merge.binlog.json_binary import JsonOpaque, decode_json, encode_json, json_text
from binlog_merge.binlog.json_diff import (
    JsonDiff,
    JsonOperation,
    apply_diffs,
    apply_to_cell,
    pack_diffs,
    parse_diffs,
    path_legs,
)
from tests.effort import effort

DOCUMENTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.decimals(-(10**20), 10**20, places=5)
    | st.dates()
    | st.datetimes()
    | st.timedeltas(timedelta(hours=-838), timedelta(hours=838))
    | st.binary(max_size=9).map(lambda data: JsonOpaque(252, data)),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=9), inner, max_size=5),
    max_leaves=20,
)


@given(DOCUMENTS)
@settings(max_examples=effort(75, 150))
def test_documents_go_there_and_back(document: Any) -> None:
    packed = encode_json(document)
    again = decode_json(packed)
    assert again == document
    assert type(again) is type(document)
    assert encode_json(again) == packed
    json_text(again)


# SQL: select hex(...) of what MySQL 9.7.4 wrote into the row image for these texts.
@pytest.mark.parametrize(
    ("document", "packed"),
    [
        (None, "0400"),
        (True, "0401"),
        (False, "0402"),
        (1, "050100"),
        (-1, "05ffff"),
        (70000, "0770110100"),
        (-70000, "0790eefeff"),
        (5000000000, "0a00f2052a01000000"),
        (-5000000000, "09000efad5feffffff"),
        ((1 << 64) - 1, "0affffffffffffffff"),
        (1.5, "0b000000000000f83f"),
        ("str", "0c03737472"),
        ([], "0200000400"),
        ({}, "0000000400"),
        ({"k": 1}, "0001000c000b0001000501006b"),
        ([None, -1], "0202000a00040000" + "05ffff"),
    ],
)
def test_vectors(document: Any, packed: str) -> None:
    assert encode_json(document).hex() == packed
    assert decode_json(bytes.fromhex(packed)) == document


def test_keys_are_sorted_by_length_then_bytes() -> None:
    assert list(decode_json(encode_json({"bb": 1, "a": 2, "ab": 3, "": 4}))) == ["", "a", "ab", "bb"]


def test_the_large_form() -> None:
    document = {"k": "x" * 70000, "i": 70000, "n": -70000, "arr": [1] * 30000, "small": {"a": [1, "b"]}}
    packed = encode_json(document)
    assert packed[0] == 1
    assert decode_json(packed) == document
    long = ["y" * 200] * 1000
    assert encode_json(long)[0] == 3
    assert decode_json(encode_json(long)) == long


def test_an_empty_document_is_null() -> None:
    assert decode_json(b"") is None


def test_depth_is_bounded_both_ways() -> None:
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    assert decode_json(encode_json(deep)) == deep
    with pytest.raises(CellValueError):
        encode_json([deep])
    # 150 arrays of one element, each holding the next.
    packed = b"\x02" + b"".join(
        (1).to_bytes(2, "little") + (7 * i).to_bytes(2, "little") + b"\x02\x07\0" for i in range(150, 0, -1)
    )
    with pytest.raises(BinlogFormatError, match="deeper"):
        decode_json(packed)


def test_overlapping_values_cannot_multiply() -> None:
    """A bomb: each of 12 arrays holds 100 entries that all point at the next one, 100^12 values in 4 KB."""
    levels, width = 12, 100
    size = 4 + 3 * width
    packed = b"\x02"
    for level in range(levels):
        left = (levels - level) * size
        packed += width.to_bytes(2, "little") + left.to_bytes(2, "little")
        packed += (b"\x02" + size.to_bytes(2, "little")) * width if level + 1 < levels else b"\x04\0\0" * width
    with pytest.raises(BinlogFormatError, match="overlap"):
        decode_json(packed)


@given(st.binary(max_size=60))
@settings(max_examples=effort(150, 300))
def test_any_bytes_are_a_document_or_an_error(data: bytes) -> None:
    try:
        json_text(decode_json(data))
    except BinlogFormatError as error:
        assert error.reason


def test_text_is_spaced_as_mysql_s() -> None:
    document = {"a": [1, "é", None, 1.5, Decimal("1.50")], "d": date(2024, 1, 2), "t": timedelta(hours=-1)}
    assert json_text(document) == '{"a": [1, "é", null, 1.5, 1.50], "d": "2024-01-02", "t": "-01:00:00.000000"}'
    assert json_text(datetime(2024, 1, 2, 3)) == '"2024-01-02 03:00:00.000000"'
    assert json_text(JsonOpaque(252, b"\1\2")) == '"base64:type252:AQI="'


# SQL, MySQL 9.7.4: select cast(json_array(1e14) as char), ...
@pytest.mark.parametrize(
    "text",
    [
        "100000000000000.0",
        "1e15",
        "1.234567890123456e15",
        "123456789012345.0",
        "1e100",
        "0.0001",
        "0.000015",
        "0.0000001",
        "-0.0000000001",
        "1.5e300",
        "1.0",
        "-0.0",
        "5e-324",
        "1.7976931348623157e308",
        "0.1",
        "100000.5",
    ],
)
def test_doubles_as_the_server_prints_them(text: str) -> None:
    assert json_text(float(text)) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_text_of_a_double_is_that_double(number: float) -> None:
    assert float(json_text(number)) == number


# --- differences


@pytest.mark.parametrize(
    ("path", "legs"),
    [
        ("$", []),
        ("$.a", ["a"]),
        ("$[3]", [3]),
        ('$.a."b c"[0].d', ["a", "b c", 0, "d"]),
        ('$."quo\\"te"', ['quo"te']),
        ("$.ключ", ["ключ"]),
    ],
)
def test_paths(path: str, legs: list[Any]) -> None:
    assert path_legs(path) == legs


@pytest.mark.parametrize(
    "path", ["", "a", "$.", "$[", "$[*]", "$**.a", "$.a[-1]", "$[last]", '$."a', "$" + "[0]" * 101]
)
def test_paths_that_no_difference_holds(path: str) -> None:
    with pytest.raises(BinlogFormatError):
        path_legs(path)


def diff(operation: JsonOperation, path: str, value: Any = None) -> JsonDiff:
    return JsonDiff(operation, path, b"" if operation == JsonOperation.REMOVE else encode_json(value))


REPLACE, INSERT, REMOVE = JsonOperation


@pytest.mark.parametrize(
    ("diffs", "expected"),
    [
        ([diff(REPLACE, "$.a", 2)], {"a": 2, "l": [1, 2, 3]}),
        ([diff(REPLACE, "$.l[1]", "x")], {"a": 1, "l": [1, "x", 3]}),
        ([diff(INSERT, "$.b", {"c": []})], {"a": 1, "l": [1, 2, 3], "b": {"c": []}}),
        ([diff(INSERT, "$.l[0]", 0)], {"a": 1, "l": [0, 1, 2, 3]}),
        ([diff(INSERT, "$.l[9]", 4)], {"a": 1, "l": [1, 2, 3, 4]}),
        ([diff(REMOVE, "$.l[0]"), diff(REMOVE, "$.a")], {"l": [2, 3]}),
        ([diff(REPLACE, "$", [7])], [7]),
        ([diff(REPLACE, "$[0].a", 5)], {"a": 5, "l": [1, 2, 3]}),
        ([], {"a": 1, "l": [1, 2, 3]}),
    ],
)
def test_applying_differences(diffs: list[JsonDiff], expected: Any) -> None:
    assert list(parse_diffs(pack_diffs(diffs))) == diffs
    assert apply_diffs({"a": 1, "l": [1, 2, 3]}, diffs) == expected


@pytest.mark.parametrize(
    "wrong",
    [
        diff(REPLACE, "$.zz", 1),
        diff(REPLACE, "$.l[3]", 1),
        diff(INSERT, "$.a", 1),
        diff(REMOVE, "$.zz"),
        diff(REMOVE, "$"),
        diff(INSERT, "$.a.b", 1),
        diff(REPLACE, "$.l.x", 1),
    ],
)
def test_differences_that_lead_nowhere(wrong: JsonDiff) -> None:
    with pytest.raises(BinlogFormatError):
        apply_diffs({"a": 1, "l": [1, 2, 3]}, [wrong])


def test_applying_to_cells() -> None:
    def cell(data: bytes) -> bytes:
        return len(data).to_bytes(4, "little") + data

    diffs = pack_diffs([diff(REPLACE, "$.a", 2)])
    assert apply_to_cell(cell(encode_json({"a": 1})), cell(diffs)) == cell(encode_json({"a": 2}))


@given(st.binary(max_size=30))
def test_any_bytes_are_differences_or_an_error(data: bytes) -> None:
    try:
        assert pack_diffs(parse_diffs(data)) == data
    except BinlogFormatError as error:
        assert error.reason
