"""GTID sets against plain sets of numbers."""

from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.binlog.gtid_set import GtidSet

A, B = b"a" * 16, b"b" * 16
sources = st.sampled_from([(A, ""), (A, "tag"), (B, "")])
plain = st.sets(st.tuples(sources, st.integers(1, 30)), max_size=40)


def made(numbers: set[tuple[tuple[bytes, str], int]]) -> GtidSet:
    return GtidSet.of((sid, tag, gno, gno + 1) for (sid, tag), gno in numbers)


@given(plain, plain)
def test_sets_are_sets(one: set[tuple[tuple[bytes, str], int]], other: set[tuple[tuple[bytes, str], int]]) -> None:
    a, b = made(one), made(other)
    assert a.intersection(b) == made(one & other)
    assert a.minus(b) == made(one - other)
    assert a.union(b) == made(one | other)
    assert a.count == len(one)
    assert a.spans == sum(1 for source, gno in one if (source, gno - 1) not in one)
    holes = {
        (source, gno)
        for source in {s for s, _ in one}
        for gno in range(1, 31)
        if min(n for s, n in one if s == source) < gno < max(n for s, n in one if s == source)
    }
    assert a.holes() == made(holes - one)
