"""Transactions whose branches may exchange values of keys are told from the others as a plain twin tells them."""

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.kernels import exchanges
from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.rows import RowsEvent
from binlog_merge.binlog.table_map import TableMap, row_steps
from binlog_merge.pipeline.gather.plans import PlanTable
from binlog_merge.pipeline.gather.values import Schemas
from snapshot_store.history import SchemaHistory
from snapshot_store.topology import Topology

WRITE, UPDATE, DELETE = EventType.WRITE_ROWS_EVENT, EventType.UPDATE_ROWS_EVENT, EventType.DELETE_ROWS_EVENT
TABLE_MAP = TableMap(7, 1, "d", "t", bytes([T.LONG, T.VARCHAR, T.TINY]), (0, 20, 0), b"\7")
IMAGES = st.tuples(
    st.none() | st.sampled_from([bytes(4), b"\1\0\0\0"]),
    st.none() | st.sampled_from([b"\0", b"\1a", b"\1b", b"\2ab"]),
    st.none() | st.sampled_from([b"\0", b"\1"]),
)
UPDATES = st.lists(st.tuples(IMAGES, IMAGES), min_size=1, max_size=3)
Image = tuple[bytes | None, ...]


def event(kind: int, rows: list[tuple[Image, ...]], before: int = 7, after: int = 7) -> bytes:
    """Return the body of a rows event whose images have the columns of the bitmaps."""
    data = b""
    for row in rows:
        for image, held in zip(row, [before, after] if kind == UPDATE else [before], strict=True):
            cells = [cell for number, cell in enumerate(image) if held >> number & 1]
            nulls = sum(1 << number for number, cell in enumerate(cells) if cell is None)
            data += bytes([nulls]) + b"".join(cell for cell in cells if cell is not None)
    bitmaps = (None if kind == WRITE else bytes([before]), None if kind == DELETE else bytes([after]))
    return RowsEvent(kind, 7, 1, b"", 3, *bitmaps, data).pack()


@settings(deadline=None)  # the first call compiles
@given(UPDATES, st.sets(st.integers(0, 2)), st.sampled_from([7, 3, 5]), st.sampled_from([7, 6]))
def test_an_update_that_leaves_the_keys_alone(
    rows: list[tuple[Image, Image]], watched: set[int], before: int, after: int
) -> None:
    body, steps = event(UPDATE, [*rows], before, after), row_steps(TABLE_MAP)
    shapes = np.array([*steps, 1, len(watched), *sorted(watched)], np.int64)
    data = np.frombuffer(body, np.uint8).copy()
    whole = before == after == 7
    changed = any(row[0][column] != row[1][column] for row in rows for column in watched)
    found = exchanges.changes_keys(data, 0, len(body), UPDATE, shapes, 0, len(steps))
    assert found == (bool(watched) and (changed or not whole))


STILL = ((bytes(4), b"\1a", b"\0"), (bytes(4), b"\1b", b"\0"))
MOVED = ((bytes(4), b"\1a", b"\0"), (b"\1\0\0\0", b"\1a", b"\0"))
KINDS = {
    "insert": (WRITE, STILL[:1]),
    "delete": (DELETE, STILL[:1]),
    "still": (UPDATE, STILL),
    "moved": (UPDATE, MOVED),
}
EVENTS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(sorted(KINDS)), st.integers(0, 2)), max_size=6)


def exchange(one: tuple[int, str, int], other: tuple[int, str, int]) -> bool:
    """Return whether of two events of a transaction (branch, what it does, table) one may free what the other takes.

    Table 0 has a key, table 1 too, table 2 is known to have none.
    """
    does = one[1], other[1]
    return (
        one[0] != other[0]
        and one[2] == other[2]
        and one[2] != 2
        and "still" not in does
        and does not in (("insert", "insert"), ("delete", "delete"))
    )


@settings(deadline=None)
@given(st.lists(EVENTS, max_size=4), st.sampled_from([1 << 19, 10]))
def test_transactions_that_may_exchange_values(transactions: list[list[tuple[int, str, int]]], most: int) -> None:
    plans = PlanTable(Schemas(SchemaHistory(), Topology()), {})
    steps = plans._numbers(row_steps(TABLE_MAP))
    for table in range(3):
        plans._plans[table, k.KEYED], plans._plans[table, k.STEPS] = table + 1, steps
        plans._plans[table, k.WATCHED] = plans._numbers([exchanges.NO_KEYS, 0] if table == 2 else [1, 1, 0])
    plans.arrays = plans._arrays()
    data, rows, of, wanted = b"", list[tuple[int, ...]](), list[int](), list[int]()
    for number, events in enumerate(transactions):
        for branch, does, table in events:
            kind, row = KINDS[does]
            body = event(kind, [row])
            segment = 3 * number + branch
            rows.append((len(data), len(data), len(data) + len(body), kind, table, segment))
            data += body
        of += [number] * len(events)
        near = {pair[0][2] for pair in combinations(events, 2) if _near(*pair)}
        chosen = any(exchange(*pair) for pair in combinations(events, 2)) or (bool(near) and bool(most == 10))
        of_table = {True: exchanges.NEAR, False: exchanges.OF_SUSPECT}
        wanted += [of_table[table in near] if chosen else exchanges.PASSED for _, _, table in events]
    found = np.array(rows, np.int64).reshape(-1, k.F_COLUMNS)
    out = np.full(len(rows), 9, np.uint8)
    buffer = np.frombuffer(bytearray(data) or bytearray(1), np.uint8)
    table_of = np.arange(4, dtype=np.int64)
    tables = np.zeros((4, exchanges.E_FIELDS), np.int64)
    count = exchanges.may_exchange(buffer, plans.arrays, found, np.array(of, np.int64), table_of, most, tables, out)
    assert out.tolist() == wanted
    assert count == np.count_nonzero(wanted)
    assert not tables[:, [exchanges.FREES, exchanges.TAKES]].any()


def _near(one: tuple[int, str, int], other: tuple[int, str, int]) -> bool:
    """Return whether the kinds of two events alone say that one may free what the other takes."""
    alike = one[1] == other[1] and one[1] in ("insert", "delete")
    return one[0] != other[0] and one[2] == other[2] and not alike
