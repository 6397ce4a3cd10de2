"""Histograms that widen as they go, against numpy's over all values at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.observe.report.values import Bins, size_for, sparse

CHUNKS = st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 10**16)), max_size=20), max_size=8)


@given(CHUNKS, st.sampled_from([1, 2, 64]))
def test_bins_hold_what_was_added_where_it_belongs(chunks: list[list[tuple[int, int]]], size: int) -> None:
    bins = Bins(size)
    for chunk in chunks:
        bins.add(np.array([s for s, _ in chunk], np.int64), np.array([v for _, v in chunk], np.int64))
    axis = bins.axis()
    assert axis["bins"] <= size
    everything = [pair for chunk in chunks for pair in chunk]
    for series in range(4):
        places = [(v - axis["start"]) // axis["width"] for s, v in everything if s == series]
        expected = np.bincount(places, minlength=axis["bins"]) if places else np.zeros(axis["bins"], int)
        assert bins.series(series).tolist() == expected.tolist()
    if len(values := {v for _, v in everything}) > 1:  # no wider than it must be
        narrower = axis["width"] // 2
        assert not narrower or (max(values) // narrower) - (min(values) // narrower) >= size


def test_amounts_and_the_flat_list() -> None:
    bins = Bins(8, 1)
    bins.add(np.array([0, 0, 0]), np.array([100, 103, 103]), np.array([5, 6, 7]))
    assert (bins.axis(), sparse(bins.series(0))) == ({"start": 100, "width": 1, "bins": 4}, [0, 5, 3, 13])


@pytest.mark.parametrize("series", [0, 1, 50, 10_000])
def test_many_series_have_fewer_bins_each(series: int) -> None:
    assert 64 <= size_for(series, 2048) <= 2048
    assert size_for(series, 2048) * series <= 60_000 or size_for(series, 2048) == 64
