"""The kernel that walks row images by their lengths, against the plain reader."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_merge.binlog.cell_length import CELL_LENGTH, METADATA_LEN
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.kernels.row_lengths import rows_begin, rows_end, rows_fit
from binlog_merge.binlog.rows import RowsEvent, iter_rows
from binlog_merge.binlog.table_map import TableMap, cell_size, row_steps
from tests.effort import effort

# Columns of every way to be long: fixed, and with a length of 1 to 4 bytes.
COLUMNS = [
    (T.LONGLONG, 0), (T.TINY, 0), (T.VARCHAR, 20), (T.VARCHAR, 300), (T.STRING, 0xFE | 30 << 8), (T.NEWDECIMAL, 10),
    (T.BLOB, 1), (T.BLOB, 2), (T.BLOB, 3), (T.BLOB, 4), (T.JSON, 4), (T.DATETIME2, 3), (T.BIT, 3 | 1 << 8),
    (T.STRING, T.ENUM | 1 << 8), (T.STRING, T.SET | 3 << 8), (T.TIME2, 0), (T.STRING, 0xCE | 44 << 8),
]  # fmt: skip
KINDS = (23, 24, 25, 30, 31, 32, 39)


def some_table(rng: random.Random) -> TableMap:
    columns = rng.choices(COLUMNS, k=rng.choice([1, 2, 7, 8, 9, 17]))
    nullable = bytes(rng.choice([0xFF, 0xFF, rng.randrange(256)]) for _ in range((len(columns) + 7) // 8))
    return TableMap(1, 0, "a", "b", bytes(c for c, _ in columns), tuple(m for _, m in columns), nullable)


def _image(table: TableMap, present: bytes, rng: random.Random, padding: bool) -> bytes:
    held = [i for i in range(len(table.types)) if present[i >> 3] >> (i & 7) & 1]
    nulls = bytearray(b"\xff" if padding else b"\0") * ((len(held) + 7) // 8)
    cells, dense = b"", rng.random() < 0.5
    for n, i in enumerate(held):
        nulls[n >> 3] &= ~(1 << (n & 7)) & 0xFF
        if not dense and table.nullable(i) and rng.random() < 0.3:
            nulls[n >> 3] |= 1 << (n & 7)
            continue
        size = cell_size(table.types[i], table.metas[i])
        length = rng.randrange(min(size.most, 300) + 1) if size.prefix else 0
        cells += length.to_bytes(size.prefix, "little") + rng.randbytes(length or (0 if size.prefix else size.width))
    return bytes(nulls) + cells


def rows_body(table: TableMap, kind: int, rng: random.Random) -> bytes:
    """Return a rows event behind its extra data."""
    width = (len(table.types) + 7) // 8
    full = rng.random() < 0.7
    bitmaps = [b"\xff" * width if full else rng.randbytes(width) for _ in range(2 if kind in (24, 31, 39) else 1)]
    body = bytes([len(table.types)]) + b"".join(bitmaps)
    json, padding = table.types.count(T.JSON), rng.random() < 0.5
    for _ in range(rng.choice([0, 1, 1, 2, 5])):
        for number, bitmap in enumerate(bitmaps):
            if kind == 39 and number == 1:
                partial = bool(json) and rng.random() < 0.5
                body += b"\1" + rng.randbytes((json + 7) // 8) if partial else b"\0"
            body += _image(table, bitmap, rng, padding)
    return body


def _fits(table: TableMap, kind: int, body: bytes) -> bool:
    """Say the same with the plain reader, which knows nothing of NOT NULL."""
    head = bytes(8) if kind < 30 else bytes(8) + b"\2\0"
    try:
        rows = list(iter_rows(RowsEvent.parse(kind, head + body), table))
    except BinlogFormatError:
        return False
    return not any(
        cell is None and not table.nullable(i) for row in rows for image in row if image for i, cell in enumerate(image)
    )


@given(st.integers(0, 1 << 32))
@settings(max_examples=effort(750, 1500), deadline=None)
def test_it_says_what_the_plain_reader_says(seed: int) -> None:
    rng = random.Random(seed)
    table, kind = some_table(rng), rng.choice(KINDS)
    body = rows_body(table, kind, rng)
    if rng.random() < 0.6:
        damaged = bytearray(body)
        for _ in range(rng.choice([1, 2])):
            damaged[rng.randrange(len(damaged))] = rng.choice([0, 1, 0xFF, rng.randrange(256)])
        cut = rng.randrange(len(damaged) + 1)
        body = bytes(rng.choice([damaged, damaged[:cut], damaged + rng.randbytes(3)]))
    steps = np.array([7, 7, *row_steps(table)], np.int64)
    buffer = np.frombuffer(body + b"\xff" * 9, np.uint8).copy()  # what lies behind is not the event's
    assert bool(rows_fit(buffer, 0, len(body), kind, steps, 2)) == _fits(table, kind, body)


@given(st.integers(0, 1 << 32))
@settings(max_examples=effort(150, 300), deadline=None)
def test_a_piece_ends_with_a_whole_row(seed: int) -> None:
    rng = random.Random(seed)
    table, kind = some_table(rng), rng.choice(KINDS)
    body = rows_body(table, kind, rng)
    steps = np.array(row_steps(table), np.int64)
    buffer = np.frombuffer(body, np.uint8).copy()
    bitmaps = int(rows_begin(buffer, 0, len(body), kind, len(table.types)))
    at = bitmaps + (len(table.types) + 7) // 8 * (2 if kind in (24, 31, 39) else 1)
    if not _fits(table, kind, body) or bitmaps < 0:
        return
    cut = rng.randrange(at, len(body) + 1)
    reached = int(rows_end(buffer, bitmaps, at, cut, kind, steps, 0))
    assert at <= reached <= cut
    assert _fits(table, kind, body[:reached])
    assert rows_end(buffer, bitmaps, reached, len(body), kind, steps, 0) == len(body)


@pytest.mark.parametrize(
    ("kind", "meta"),
    [
        (T.FLOAT, 5), (T.DOUBLE, 4), (T.NEWDECIMAL, 70), (T.NEWDECIMAL, 5 | 9 << 8), (T.BLOB, 0), (T.BLOB, 5),
        (T.JSON, 9), (T.TIME2, 7), (T.DATETIME2, 250), (T.BIT, 0), (T.BIT, 9),
        (T.STRING, T.ENUM), (T.STRING, T.SET | 9 << 8),
    ],
)  # fmt: skip
def test_metadata_that_cannot_be(kind: int, meta: int) -> None:
    with pytest.raises(BinlogFormatError):
        cell_size(kind, meta)


def test_every_type_that_can_be_read_has_a_size() -> None:
    metas = {T.FLOAT: 4, T.DOUBLE: 8, T.NEWDECIMAL: 10, T.BIT: 1, T.ENUM: 1 << 8, T.SET: 1 << 8}
    for kind in CELL_LENGTH:
        assert cell_size(kind, metas.get(T(kind), 1 if METADATA_LEN[kind] else 0)) is not None
