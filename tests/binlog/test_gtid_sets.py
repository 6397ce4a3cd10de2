"""GTID sets against plain sets of numbers."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid_set import MAX_GNO, GtidSet

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
    assert a.contains_set(b) == (other <= one)
    assert a.count == len(one)
    assert a.spans == sum(1 for source, gno in one if (source, gno - 1) not in one)
    holes = {
        (source, gno)
        for source in {s for s, _ in one}
        for gno in range(1, 31)
        if min(n for s, n in one if s == source) < gno < max(n for s, n in one if s == source)
    }
    assert a.holes() == made(holes - one)


@given(plain)
def test_a_set_as_text_and_as_bytes(numbers: set[tuple[tuple[bytes, str], int]]) -> None:
    whole = made(numbers)
    assert GtidSet.parse_text(str(whole)) == whole
    assert GtidSet.parse(whole.pack()) == whole
    assert bool(whole) == bool(numbers)
    for source in ((A, ""), (A, "tag"), (B, "")):
        assert [(*source, gno) in whole for gno in range(32)] == [(source, gno) in numbers for gno in range(32)]


class _Counted(int):
    """A number that counts how often any of its kind is compared."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        _Counted.compared += 1
        return int(self) < int(other)

    def __gt__(self, other: int) -> bool:
        _Counted.compared += 1
        return int(self) > int(other)

    def __le__(self, other: int) -> bool:
        return not self > other

    def __ge__(self, other: int) -> bool:
        return not self < other


@pytest.mark.parametrize("ask", [GtidSet.contains_set, GtidSet.minus, GtidSet.intersection, GtidSet.union])
def test_what_a_question_about_two_sets_costs_grows_with_their_intervals(ask: Callable[..., object]) -> None:
    def cost(count: int) -> int:
        spans = [(A, "", _Counted(n), _Counted(n + 1)) for n in range(1, 2 * count, 2)]
        one, other = GtidSet.of(spans), GtidSet.of(spans)
        _Counted.compared = 0
        ask(one, other)
        return _Counted.compared

    assert 0 < cost(2000) < 3 * cost(1000)


PLAIN = GtidSet.of([(A, "", 1, 6), (A, "", 8, 9)])
TAGGED = GtidSet.of([(A, "", 1, 2), (A, "tag", 3, 5), (B, "", 7, 8)])


def _numbers(*values: int) -> bytes:
    return b"".join(value.to_bytes(8, "little") for value in values)


def test_the_bytes_are_those_of_servers() -> None:
    assert PLAIN.pack() == _numbers(1) + A + _numbers(2, 1, 6, 8, 9)
    begin = b"\x01\x03\x00\x00\x00\x00\x00\x01"
    one, two = A + b"\x00" + _numbers(1, 1, 2), A + b"\x06tag" + _numbers(1, 3, 5)
    assert TAGGED.pack() == begin + one + two + B + b"\x00" + _numbers(1, 7, 8)
    assert GtidSet().pack() == _numbers(0)


def test_the_text_is_that_of_servers() -> None:
    a, b = "61616161-6161-6161-6161-616161616161", "62626262-6262-6262-6262-626262626262"
    assert str(PLAIN) == f"{a}:1-5:8"
    assert str(TAGGED) == f"{a}:1:tag:3-4,{b}:7"
    assert GtidSet.parse_text(f" {a} : 1-5 : 8 ") == PLAIN
    assert str(GtidSet()) == ""


def test_intervals_that_touch_are_one() -> None:
    assert GtidSet.of([(A, "", 1, 3), (A, "", 3, 5), (A, "", 4, 6)]) == GtidSet.of([(A, "", 1, 6)])
    assert GtidSet.of([(A, "", 1, 9), (A, "", 2, 3)]) == GtidSet.of([(A, "", 1, 9)])


@pytest.mark.parametrize(("start", "end"), [(0, 1), (-1, 1), (1, 1), (2, 1), (1, MAX_GNO + 1)])
def test_what_is_no_interval(start: int, end: int) -> None:
    with pytest.raises(BinlogFormatError):
        GtidSet.of([(A, "", start, end)])
    assert GtidSet.of([(A, "", 1, MAX_GNO)]).count == MAX_GNO - 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        _numbers(1),
        PLAIN.pack()[:-1],
        PLAIN.pack() + b"\0",
        _numbers(2) + PLAIN.pack()[8:],
        _numbers(1 << 40) + PLAIN.pack()[8:],
        _numbers(1) + A + _numbers(3, 1, 6, 8, 9),
        _numbers(1) + A + _numbers(1 << 60, 1, 6),
        b"\x01\x03\x00\x00\x00\x00\x00\x02" + TAGGED.pack()[8:],
        b"\x02\x03\x00\x00\x00\x00\x00\x01" + TAGGED.pack()[8:],
        TAGGED.pack().replace(b"tag", b"t-g"),
        TAGGED.pack().replace(b"tag", b"1ag"),
    ],
)
def test_bytes_that_are_no_set(data: bytes) -> None:
    with pytest.raises(BinlogFormatError):
        GtidSet.parse(data)


@pytest.mark.parametrize(
    "text",
    ["x", "61616161", "61616161-6161-6161-6161-616161616161:0", ":1", "61616161-6161-6161-6161-616161616161:5-4"],
)
def test_texts_that_are_no_set(text: str) -> None:
    with pytest.raises((BinlogFormatError, ValueError)):
        GtidSet.parse_text(text)
