"""JSON of many cells at once is what it is cell by cell: texts, and errors."""

import struct
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from binlog_merge.binlog.arrow import arrow_type
from binlog_merge.binlog.columnar import ColumnFacts, _cell_by_cell, decode_column
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from binlog_merge.binlog.json_binary import JsonOpaque, encode_json

TEXTS = st.text(st.sampled_from('ab"\\\n\t\x01\x1f\x7fé漢😀/\u2028'), max_size=12)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.sampled_from([0, -1, 32767, 32768, -32769, 2**31, 2**63 - 1, -(2**63), 2**64 - 1])
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
    | st.sampled_from(["x" * 127, "x" * 128, "é" * 20000])
    | st.decimals(-10000, 10000, places=3)
    | st.dates(date(1000, 1, 1))
    | st.datetimes(datetime(1000, 1, 1))
    | st.timedeltas(timedelta(days=-30), timedelta(days=30))
    | st.builds(JsonOpaque, st.just(T.BLOB), st.binary(max_size=9))
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5))
DOCUMENTS = VALUES.map(encode_json)
FACTS = ColumnFacts(
    "j", T.JSON, 4, T.JSON, False, "utf8mb4", None, False, arrow_type(T.JSON, 4, False, "utf8mb4", False, False)
)


def both_ways(cells: list[bytes | None]) -> tuple[Any, Any]:
    """Return what a column comes to at once, and cell by cell: its values, or an error."""
    held = [struct.pack("<I", len(cell or b"")) + (cell or b"") for cell in cells]
    starts = np.cumsum([0, *map(len, held)], dtype=np.int32)[:-1]
    sizes = np.array([-1 if cell is None else len(data) for cell, data in zip(cells, held, strict=True)], np.int32)
    buffer = np.frombuffer(b"".join(held), np.uint8)
    found = []
    for decode in (decode_column, _cell_by_cell):
        try:
            array = decode(FACTS, buffer, starts, sizes)
            array.validate(full=True)
            found.append(array.to_pylist())
        except (BinlogFormatError, CellValueError) as error:
            found.append((type(error), str(error)))
    return found[0], found[1]


@given(st.lists(st.none() | st.just(b"") | DOCUMENTS, min_size=1, max_size=6))
@example([encode_json({"a": 1.5, "b": [Decimal("0.10"), None, True]}), None, encode_json([[[]]] * 3)])
@example([encode_json({str(n): n for n in range(20000)})])
@example([encode_json({"n": [12.25] * 100})])
def test_what_servers_write(cells: list[bytes | None]) -> None:
    at_once, one_by_one = both_ways(cells)
    assert at_once == one_by_one
    assert isinstance(at_once, list)


@given(DOCUMENTS, DOCUMENTS, st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=4), st.integers(0, 9))
def test_any_bytes(whole: bytes, document: bytes, changes: list[tuple[int, int]], cut: int) -> None:
    damaged = bytearray(document)
    for at, byte in changes:
        damaged[at % len(damaged)] = byte
    at_once, one_by_one = both_ways([whole, bytes(damaged[: len(damaged) - cut]), whole])
    assert at_once == one_by_one


def nested(depth: int) -> bytes:
    """Return arrays within each other."""
    document = b"\x00\x00\x04\x00"
    for _ in range(depth - 1):
        document = b"\x01\x00" + (7 + len(document)).to_bytes(2, "little") + b"\x02\x07\x00" + document
    return b"\x02" + document


def test_what_no_server_writes() -> None:
    for cell, good in ((nested(100), True), (nested(101), False)):
        at_once, one_by_one = both_ways([cell])
        assert at_once == one_by_one
        assert isinstance(at_once, list) == good
    swapped, twice = bytearray(encode_json({"a": 1, "b": 2})), bytearray(encode_json({"a": 1, "b": 2}))
    swapped[swapped.index(b"ab") : swapped.index(b"ab") + 2] = b"ba"
    twice[twice.index(b"ab") + 1] = ord("a")
    at_once, one_by_one = both_ways([bytes(swapped), bytes(twice)])
    assert at_once == one_by_one == ['{"b": 1, "a": 2}', '{"a": 2}']
    two = b"\x02\x02\x00\x1a\x00" + b"\x0c\x0a\x00" * 2 + b"\x0fabcdefghijklmno"
    at_once, one_by_one = both_ways([two])
    assert at_once == one_by_one == (BinlogFormatError, "JSON: values overlap")
