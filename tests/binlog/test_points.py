"""The points that cut rows into parts of about the same number of bytes, against numpy's own search."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_merge.binlog.kernels.index_rows import points

ROWS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3) | st.integers(0, 10_000)), max_size=30)


@settings(deadline=None)  # the first call compiles
@given(ROWS, st.integers(1, 20))
def test_points_are_evenly_spaced_by_bytes(rows: list[tuple[int, int]], count: int) -> None:
    tso, weight = np.array(sorted(at for at, _ in rows), np.int64), np.array([size for _, size in rows], np.int64)
    begin = np.arange(len(rows), dtype=np.int64) * 7
    found = np.zeros((count, 2), np.int64)
    columns = np.stack([begin + weight, tso, begin], axis=1) if rows else np.zeros((0, 3), np.int64)
    number = int(points(columns, 1, 2, 0, count, found))
    if not rows:
        assert number == 0
        return
    total = np.cumsum(weight)
    wanted = np.arange(1, count + 1) * int(total[-1]) // count
    at = np.unique(np.minimum(np.searchsorted(total, wanted), len(rows) - 1))
    assert found[:number].tolist() == [list(p) for p in zip(tso[at], np.diff(total[at], prepend=0), strict=True)]
    assert found[:number, 1].sum() == total[-1]
