"""The sort kernel against Python's own."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from binlog_merge.binlog.kernels.index_rows import sorted_places

ROWS = st.lists(st.tuples(st.integers(-2, 2), st.sampled_from([-(1 << 63), 0, (1 << 63) - 1]), st.integers(0, 3)))
RUNS = st.lists(ROWS.map(sorted), max_size=9).map(lambda runs: [row for run in runs for row in run])


@settings(deadline=None)  # the first call compiles
@given(st.one_of(ROWS, RUNS))
@example([])
@example([(1, 0, 0)])
@example([(2, 0, 0), (1, 0, 0), (0, 0, 0)])
def test_rows_are_sorted_and_equal_ones_keep_their_order(rows: list[tuple[int, int, int]]) -> None:
    keys = np.array(rows, np.int64).reshape(-1, 3).T.copy()
    assert sorted_places(keys).tolist() == sorted(range(len(rows)), key=lambda i: rows[i])
