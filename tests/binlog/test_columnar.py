"""Bulk decoding gives what decoding row by row gives: for real rows of every type, and for rows of random cells."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_merge.binlog.arrow import rows_to_batch
from binlog_merge.binlog.cell_length import cell_length
from binlog_merge.binlog.columnar import AFTER, BEFORE, column_facts, cut_rows, decode_column, decode_rows
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from binlog_merge.binlog.events import RowsEvent, TableMap
from binlog_merge.binlog.images import ImageDecoder
from binlog_merge.binlog.kernels.row_cells import NONE
from binlog_merge.binlog.rows import ABSENT, split_rows
from tests.binlog.real_files import parsed
from tests.binlog.test_table_map import table_map
from tests.effort import effort

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
FILES = sorted(path for name in ("all-types", "row-image-minimal", "row-image-noblob", "metadata-minimal",
               "three-nodes-online-ddl") for path in (FIXTURES / name / "nodes").rglob("*0*1"))  # fmt: skip


def answer(make: Callable[[], Any]) -> Any:
    """Return what a decoding gives, or that it refuses."""
    try:
        batch = make()
    except (CellValueError, BinlogFormatError):
        return "refused"
    if batch is not None:
        batch.validate(full=True)
    return batch


def both(event: RowsEvent, table: TableMap, text: bool) -> list[tuple[Any, Any]]:
    """Return both sides of an event's rows, each decoded in bulk and row by row."""
    body = np.frombuffer(b"before" + event.pack() + b"behind", np.uint8).copy()
    events = np.array([[6, len(body) - 6, event.type_code]])
    rows = split_rows(event, table)
    cut = cut_rows(body, events, table)
    assert len(cut) == len(rows) and not cut.events.any()
    lacking = any(cell is ABSENT for row in rows for image in row for cell in image or ())
    in_one_pass(body, events, table, cut, text, lacking)
    found = []
    for side in (BEFORE, AFTER):
        if rows[0][side] is None:
            assert (cut.sizes[side] == NONE).all()
            continue
        images = [_filled(row) if side == AFTER else row[BEFORE] for row in rows]
        facts = column_facts(table, temporal_text=text)
        found.append(
            (
                answer(lambda side=side, facts=facts: decode_rows(cut, side, facts)),
                answer(lambda images=images: rows_to_batch(images, table, temporal_text=text)),
            )
        )
    return found


def in_one_pass(body: Any, events: Any, table: TableMap, cut: Any, text: bool, lacking: bool) -> None:
    """Compare what is decoded in one pass with what is decoded column by column."""
    facts = column_facts(table, temporal_text=text)
    every = range(len(facts))
    for columns, sides in ((every, (BEFORE, AFTER)), (every[1::2], (AFTER,)), ((), (BEFORE,))):
        images = ImageDecoder(facts, columns, sides).decode(body, events)
        assert (images is None) == lacking
        if images is None:
            continue
        assert images.counts.tolist() == np.bincount(cut.events, minlength=len(events)).tolist()
        for side in sides:
            missing = cut.sizes[side, 0] == NONE
            assert images.missing[side] == missing.sum()
            for column in columns:
                slow = answer(lambda s=side, c=column: decode_column(facts[c], body, cut.starts[s, c], cut.sizes[s, c]))
                fast = answer(lambda i=images, s=side, c=column: i.array(s, c))
                if fast is None:  # a date that Arrow has not, or bytes that are no text
                    assert isinstance(slow, str) or facts[column].type.equals(pa.string())
                else:
                    assert same_values(fast, slow)


def same_values(one: Any, two: Any) -> bool:
    if isinstance(one, str) or isinstance(two, str):
        return isinstance(one, str) and one == two
    return one.type == two.type and str(one.to_pylist()) == str(two.to_pylist()) and one.null_count == two.null_count


def _filled(row: Any) -> Any:
    """Return an after image with what only the before image holds."""
    before, after = row
    if before is None:
        return after
    return tuple(
        b if not isinstance(a, memoryview) and a is not None else a for a, b in zip(after, before, strict=True)
    )


def same(one: Any, two: Any) -> bool:
    if isinstance(one, str) or isinstance(two, str):
        return isinstance(one, str) and one == two
    # NaN cannot be in MySQL, but equality of floats by bits is what is meant.
    return one.schema == two.schema and str(one.to_pylist()) == str(two.to_pylist())


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=() if i % 5 == 0 else pytest.mark.extended) for i, path in enumerate(FILES)],
    ids=lambda path: "-".join(path.parts[-4:]),
)
def test_rows_of_real_servers(path: Path) -> None:
    tables: dict[int, TableMap] = {}
    seen = 0
    for _, value in parsed(path.read_bytes()):
        if isinstance(value, TableMap):
            tables[value.table_id] = value
        elif isinstance(value, RowsEvent) and value.type_code != EventType.PARTIAL_UPDATE_ROWS_EVENT:
            for text in (False, True):
                for bulk, plain in both(value, tables[value.table_id], text):
                    assert same(bulk, plain)
                    seen += 1
    assert seen


COLUMNS = [
    *((kind, 0) for kind in (T.TINY, T.SHORT, T.INT24, T.LONG, T.LONGLONG, T.YEAR, T.DATE, T.TIME, T.DATETIME)),
    (T.TIMESTAMP, 0),
    *((kind, fsp) for kind in (T.DATETIME2, T.TIMESTAMP2, T.TIME2) for fsp in range(7)),
    *((T.NEWDECIMAL, p | s << 8) for p, s in ((1, 0), (1, 1), (9, 9), (18, 4), (19, 10), (38, 30))),
    (T.NEWDECIMAL, 65 | 30 << 8),
    *((T.BIT, meta) for meta in (1, 7, 1 << 8, 3 | 7 << 8, 8 << 8)),
    (T.FLOAT, 4),
    (T.DOUBLE, 8),
]  # fmt: skip


@settings(max_examples=effort(200, 400), deadline=None)
@given(st.sampled_from(COLUMNS), st.lists(st.none() | st.binary(min_size=30, max_size=30), min_size=1, max_size=8))
def test_any_bytes_of_a_fixed_width(column: tuple[int, int], cells: list[bytes | None]) -> None:
    """Any bytes: a value, the same refusal, or a date that Arrow has not."""
    kind, meta = column
    table = table_map((kind, meta))
    rows = [None if cell is None else cell[: cell_length(kind, meta, cell, 0)] for cell in cells]
    data = b"".join(b"\xff" if cell is None else b"\xfe" + cell for cell in rows)
    event = RowsEvent(int(EventType.WRITE_ROWS_EVENT), 1, 1, b"", 1, None, b"\xff", data)
    for text in (False, True):
        ((bulk, plain),) = both(event, table, text)
        assert same(bulk, plain)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(["utf8mb4", "latin1", "ascii", "gbk", "sjis", "ucs2", "swe7", "binary", "nobody's"]),
    st.lists(st.none() | st.binary(max_size=12) | st.text("aé中 \\~", max_size=6).map(str.encode), max_size=8),
)
def test_any_bytes_of_a_text(charset: str, cells: list[bytes | None]) -> None:
    for kind, meta in ((T.VARCHAR, 40), (T.VARCHAR, 400), (T.STRING, T.STRING | 30 << 8), (T.BLOB, 2)):
        width = 2 if meta in (400, 2) else 1
        buffer = b"".join(len(cell).to_bytes(width, "little") + cell for cell in cells if cell is not None)
        sizes = np.array([-1 if cell is None else len(cell) + width for cell in cells], np.int32)
        starts = np.concatenate(([0], np.cumsum(np.maximum(sizes, 0))))[: len(cells)].astype(np.int32)
        (facts,) = column_facts(table_map((kind, meta)), charsets=(charset,))
        found = decode_column(facts, np.frombuffer(buffer + b"\0", np.uint8).copy(), starts, sizes)
        images = [(None if c is None else len(c).to_bytes(width, "little") + c,) for c in cells]
        plain = rows_to_batch(images, table_map((kind, meta)), charsets=(charset,)).column(0)
        found.validate(full=True)
        assert found.type == plain.type and found.to_pylist() == plain.to_pylist()


def test_rows_that_cannot_be_cut_are_told_as_the_reader_tells_them() -> None:
    table = table_map((T.VARCHAR, 20))
    body = RowsEvent(int(EventType.WRITE_ROWS_EVENT), 1, 1, b"", 1, None, b"\xff", b"\xfe\5ab").pack()
    with pytest.raises(BinlogFormatError, match="column 1: VARCHAR cell at byte 1 needs 6 bytes"):
        cut_rows(np.frombuffer(body, np.uint8).copy(), np.array([[0, len(body), 30]]), table)
