"""Hashes of keys are equal exactly where plain Python takes the keys for equal, whatever lies in their cells."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.binlog.columnar import cut_rows
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.encode import encode_cell
from binlog_merge.binlog.kernels import key_hashes
from binlog_merge.binlog.kernels.row_cells import ABSENT, NONE, NULL
from binlog_merge.binlog.rows import RowsEvent
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.config.modes import Modes
from binlog_merge.pipeline.gather.collisions import KeysOfTask
from binlog_merge.pipeline.gather.key_changes import _of_rows
from binlog_merge.pipeline.gather.keyed import keyed_table
from snapshot_store.model import Column, Index, IndexPart, Table
from snapshot_store.mysql.column_type import ColumnType

CELLS = st.none() | st.just("absent") | st.binary(min_size=4, max_size=4) | st.sampled_from([bytes(4), b"\1\0\0\0"])
Cell = bytes | str | None


def plain(key: list[Cell]) -> tuple[int, object]:
    """Return the state of a key and what equals what."""
    if None in key:
        return key_hashes.NULL, None
    return (key_hashes.ABSENT, None) if "absent" in key else (key_hashes.VALUE, tuple(key))


@given(st.integers(1, 3).flatmap(lambda n: st.lists(st.lists(CELLS, min_size=n, max_size=n), min_size=1, max_size=8)))
def test_hashes_are_equal_where_keys_are(keys: list[list[Cell]]) -> None:
    cells = [cell if isinstance(cell, bytes) else b"" for key in keys for cell in key]
    ends = np.cumsum([len(cell) for cell in cells])
    shape = (len(keys), len(keys[0]))
    starts, sizes = np.zeros((2, shape[1], shape[0]), np.int32), np.full((2, shape[1], shape[0]), NONE, np.int32)
    starts[1] = (ends - [len(cell) for cell in cells]).reshape(shape).T
    told = [len(c) if isinstance(c, bytes) else NULL if c is None else ABSENT for key in keys for c in key]
    sizes[1] = np.array(told).reshape(shape).T
    found = []
    for seed in (65, 66):
        values, states = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
        buffer, columns, rows = np.frombuffer(b"".join(cells), np.uint8), np.arange(shape[1]), np.arange(len(keys))
        key_hashes.hash_keys(buffer, starts, sizes, columns, 1, rows, seed, values, states)
        assert states.tolist() == [plain(key)[0] for key in keys]
        found += [(seed, key, value) for key, value in zip(keys, values.tolist(), strict=True)]
    whole = [(seed, plain(key)[1], value) for seed, key, value in found if plain(key)[0] == key_hashes.VALUE]
    for seed, key, value in whole:
        assert all((value == hashed) == ((seed, key) == (of, other)) for of, other, hashed in whole)


OLD = {T.TIMESTAMP2: T.TIMESTAMP, T.DATETIME2: T.DATETIME, T.TIME2: T.TIME}
AT = datetime(2026, 11, 30, 20, 39, 10)
MOMENTS = {
    "timestamp": (T.TIMESTAMP2, AT.replace(tzinfo=UTC)),
    "datetime": (T.DATETIME2, AT),
    "time": (T.TIME2, -timedelta(hours=5, seconds=1)),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_a_key_that_is_a_moment_is_the_same_in_the_format_of_before_5_6(name: str) -> None:
    """Two shards, of which one was upgraded in place: the second one's row takes the first one's key."""
    new, moment = MOMENTS[name]
    columns = (Column("at", ColumnType(name), nullable=False), Column("v", ColumnType("int"), nullable=False))
    table = Table("d", "t", columns, (Index("PRIMARY", (IndexPart("at"),), unique=True),))
    looked = KeysOfTask(cast(Any, None), Modes(default="pessimistic"), 2)
    found = []
    for kind in (new, OLD[new]):
        table_map = TableMap(7, 1, "d", "t", bytes([kind, T.LONG]), (0, 0), b"\0")
        keyed = keyed_table(1, table, table_map, True)
        cells = encode_cell(kind, 0, moment) + b"\1\0\0\0"
        event = RowsEvent(EventType.WRITE_ROWS_EVENT, 7, 1, b"", 2, None, b"\3", b"\0" + cells)
        body = np.frombuffer(event.pack(), np.uint8).copy()
        cut = cut_rows(body, np.array([[0, len(body), event.type_code]]), table_map)
        (taken,) = _of_rows(keyed, cut, np.zeros(1, np.int64), False)
        (change,) = looked._changes(keyed, keyed.keys[0], cut, np.zeros(1, np.int64))
        assert taken.clear.tolist() == [1]
        found.append((taken.key.tolist(), taken.value.tolist(), change.hashed, change.cells))
    assert found[0] == found[1]
