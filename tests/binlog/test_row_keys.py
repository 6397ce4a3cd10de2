"""What many changes of a key come to: the kernel, and a dictionary that is told the same story."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_merge.binlog.kernels import row_keys as rk
from binlog_merge.binlog.kernels.row_cells import ABSENT, NONE
from tests.effort import effort

Change = tuple[int | None, int | None, bool]
"""The key before and after, and whether the after image has the other column."""
changes = st.lists(
    st.tuples(st.integers(0, 4) | st.none(), st.integers(0, 4) | st.none(), st.booleans()).filter(
        lambda change: change[:2] != (None, None)
    ),
    min_size=1,
    max_size=30,
)


def cut(rows: list[Change]) -> tuple[Any, Any, Any]:
    """Return rows of two columns, the key and another, as the kernels have them: a key is a byte."""
    data = bytearray()
    starts, sizes = np.zeros((2, 2, len(rows)), np.int32), np.full((2, 2, len(rows)), NONE, np.int32)
    for row, (before, after, whole) in enumerate(rows):
        for side, key in ((0, before), (1, after)):
            if key is not None:
                starts[side, 0, row], sizes[side, :, row] = len(data), 1
                data.append(key)
        if after is not None and before is not None and not whole:
            sizes[:, 1, row] = ABSENT
    return np.frombuffer(bytes(data) + bytes(8), np.uint8).copy(), starts, sizes


@settings(max_examples=effort(150, 300), deadline=None)
@given(changes, st.data())
def test_the_last_write_wins(rows: list[Change], drawn: st.DataObject) -> None:
    kept = np.array(drawn.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), np.uint8)
    buffer, starts, sizes = cut(rows)
    table = np.full(1 << (4 * len(rows)).bit_length(), -1, np.int32)
    keys, prev = np.empty((2 * len(rows), 4), np.int64), np.full(len(rows), rk.NOTHING, np.int64)
    found = rk.collapse(
        buffer, starts, sizes, np.array([0], np.int64), kept, table, keys, prev, np.zeros(1, np.int64)
    )  # fmt: skip
    first: dict[int, bool] = {}  # whether the key was there before all
    now: dict[int, int | None] = {}  # the row that has it, None where it is gone
    sources: dict[int, int] = {}
    for row, (before, after, whole) in enumerate(rows):
        if not kept[row]:
            continue
        origin = rk.NOTHING
        if before is not None:
            if now.get(before, -1) is None:
                assert found == -1 - row
                return
            if before in now:
                origin = int(now[before] or 0)
            else:
                first[before], origin = True, -1 - len(first)
            now[before] = None
        if after is not None:
            if now.get(after) is not None:
                assert found == -1 - row
                return
            first.setdefault(after, False)
            now[after] = row
            sources[row] = row if whole or before is None else origin if origin < 0 else sources[origin]
    assert found == len(first)
    told = {int(buffer[starts[side, 0, row]]): (bool(there), int(last)) for side, row, there, last in keys[:found]}
    assert told == {key: (there, -1 if now[key] is None else now[key]) for key, there in first.items()}
    last = np.array([row for row in now.values() if row is not None], np.int64)
    where = np.empty(len(last), np.int64)
    rk.trace(sizes, prev, last, 1, where)
    assert where.tolist() == [sources[int(row)] for row in last]
