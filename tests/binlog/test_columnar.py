"""Bulk decoding gives what decoding row by row gives: for real rows of every type, and for rows of random cells."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from binlog_merge.binlog.columnar import AFTER, BEFORE, column_facts, cut_rows, decode_rows
from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from binlog_merge.binlog.events import RowsEvent, TableMap
from binlog_merge.binlog.kernels.row_cells import NONE
from binlog_merge.binlog.rows import split_rows
from binlog_merge.binlog.values import rows_to_batch
from tests.binlog.real_files import parsed

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
FILES = sorted(path for name in ("all-types", "row-image-minimal", "row-image-noblob", "metadata-minimal",
               "three-nodes-online-ddl") for path in (FIXTURES / name / "nodes").rglob("*0*1"))  # fmt: skip


def answer(make: Callable[[], Any]) -> Any:
    """Return what a decoding gives, or that it refuses."""
    try:
        batch = make()
    except (CellValueError, BinlogFormatError):
        return "refused"
    batch.validate(full=True)
    return batch


def both(event: RowsEvent, table: TableMap, text: bool) -> list[tuple[Any, Any]]:
    """Return both sides of an event's rows, each decoded in bulk and row by row."""
    body = np.frombuffer(b"before" + event.pack() + b"behind", np.uint8).copy()
    events = np.array([[6, len(body) - 6, event.type_code]])
    rows = split_rows(event, table)
    cut = cut_rows(body, events, table)
    assert len(cut) == len(rows) and not cut.events.any()
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


@pytest.mark.parametrize("path", FILES, ids=lambda path: "-".join(path.parts[-4:]))
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
