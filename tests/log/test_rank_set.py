"""Sets of ranks are sets."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.log.rank_set import RankSet

ranks = st.frozensets(st.integers(1, 40))


@given(ranks, ranks)
def test_they_are_sets(a: frozenset[int], b: frozenset[int]) -> None:
    one, other = RankSet.of(a), RankSet.of(b)
    assert one | other == RankSet.of(a | b) and one - other == RankSet.of(a - b)
    assert len(one) == len(a) and {rank for rank in range(42) if rank in one} == a
    assert RankSet.parse(str(one)) == one
    assert one.low == next(rank for rank in range(42) if rank + 1 not in a)


def test_they_are_told_as_intervals() -> None:
    assert str(RankSet.upto(90) | RankSet.of(range(92, 141)) | RankSet.of([150])) == "1-90,92-140,150"
    assert str(RankSet.upto(0)) == "" and RankSet.parse("3-5,6,1") == RankSet.of([1, 3, 4, 5, 6])


class _Counted(tuple[tuple[int, int], ...]):
    """Intervals that count how many of them are taken."""

    taken = 0

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        _Counted.taken += len(found) if isinstance(at, slice) else 1
        return found


def test_what_a_difference_costs_grows_with_the_intervals() -> None:
    intervals = tuple((rank, rank) for rank in range(1, 2000, 2))
    _Counted.taken = 0
    assert RankSet(intervals) - RankSet(_Counted(intervals)) == RankSet()
    assert 0 < _Counted.taken < 20 * len(intervals)


@pytest.mark.parametrize("text", ["x", "5-3", "1-2-3"])
def test_what_is_no_set_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        RankSet.parse(text)
