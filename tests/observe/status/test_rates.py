"""Rates from samples, and how far behind a position is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.files.manifest import ManifestState, OutputFile
from binlog_merge.observe.status.notes import Growth, Sample, rates_of
from binlog_merge.observe.status.values import FilePosition


@given(
    rate=st.integers(0, 10**6),
    every=st.integers(1, 20),
    count=st.integers(1, 30),
    seconds=st.sampled_from([10.0, 60.0]),
)
def test_steady_growth_has_its_own_rate(rate: int, every: int, count: int, seconds: float) -> None:
    samples = [Sample(1000.0 + every * i, rate * every * i, 7 * rate * every * i) for i in range(count + 1)]
    found = rates_of(samples[:-1], samples[-1], seconds)
    assert found is not None
    # A sample from before the window stands for its beginning: growth before it is counted into it, at most one step.
    assert rate <= found.transactions * (1 + 1e-9) and found.transactions <= rate * (1 + every / seconds) * (1 + 1e-9)
    assert found.bytes == pytest.approx(7 * found.transactions)


def test_an_output_that_stands_still_has_the_rate_zero() -> None:
    found = rates_of([Sample(0.0, 500, 900)], Sample(1000.0, 500, 900))
    assert found is not None and (found.transactions, found.bytes, found.seconds) == (0, 0, 60)


def test_samples_of_another_output_or_of_this_moment_do_not_count() -> None:
    assert rates_of([Sample(0.0, 501, 900), Sample(9.9, 400, 900)], Sample(10.0, 500, 900)) is None


def _state(*sizes: int) -> ManifestState:
    files = [
        OutputFile(f"binlog.{i:06d}", size, i < len(sizes), "0" * 54, "0" * 54, 1, 1, 1, 1, 1)
        for i, size in enumerate(sizes, 1)
    ]
    return ManifestState(files=tuple(files))


def test_a_reader_is_behind_since_what_it_lacks_was_published() -> None:
    growth = Growth()
    growth.see(_state(100), 10.0)
    growth.see(_state(150, 40), 20.0)
    growth.see(_state(150, 40), 25.0)
    growth.see(_state(150, 60), 30.0)
    at = lambda file, position: growth.behind(FilePosition(file, position), 32.0)  # noqa: E731
    assert at("binlog.000002", 60) == (0, 0.0)
    assert at("binlog.000003", 4) == (0, 0.0)
    assert at("binlog.000002", 40) == (20, 2.0)
    assert at("binlog.000001", 100) == (110, 12.0)
    assert at("binlog.000001", 4) == (206, 22.0)
    assert at("", 4) == (210, 22.0)
    assert at("binlog.000000", 4) == (210, 22.0)
    assert Growth().behind(FilePosition("binlog.000001", 4), 1.0) == (0, 0.0)
