"""Commit TSO and order key: the text sorts as the key does, and each step down is the least one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshot_store.tso import FIRST_MILLIS, LAST_MILLIS, ORIGIN, OrderKey, carries_time, tso_millis

SMALL = st.builds(OrderKey, *[st.integers(0, 2)] * 4)
KEYS = st.builds(
    OrderKey,
    st.integers(0, (1 << 63) - 1),
    st.integers(0, (1 << 63) - 1),
    st.integers(0, 9_999_999_999),
    st.integers(0, 999_999),
)


def test_a_key_as_text() -> None:
    assert OrderKey(1, 2, 3, 4).text() == "000000000000000000100000000000000000020000000003000004"
    assert OrderKey.parse(OrderKey(1, 2, 3, 4).text()) == OrderKey(1, 2, 3, 4)


@given(KEYS)
def test_a_text_is_read_back(key: OrderKey) -> None:
    assert len(key.text()) == 54
    assert OrderKey.parse(key.text()) == key


@given(st.lists(KEYS | SMALL, max_size=8))
def test_texts_sort_as_keys_do(keys: list[OrderKey]) -> None:
    assert [key.text() for key in sorted(keys)] == sorted(key.text() for key in keys)


@pytest.mark.parametrize(
    "text", ["", "1" * 53, "1" * 55, "1" * 53 + "x", "+" + "1" * 53, "1" * 53 + "²", " " + "1" * 53]
)
def test_what_is_no_key(text: str) -> None:
    with pytest.raises(ValueError, match="54 digits"):
        OrderKey.parse(text)


@pytest.mark.parametrize(
    ("key", "previous"),
    [
        (OrderKey(5, 6, 7, 8), OrderKey(5, 6, 7, 7)),
        (OrderKey(5, 6, 7, 1), OrderKey(5, 6, 7, 0)),
        (OrderKey(5, 6, 7, 0), OrderKey(5, 6, 6, 999_999)),
        (OrderKey(5, 6, 1, 0), OrderKey(5, 6, 0, 999_999)),
        (OrderKey(5, 6, 0, 0), OrderKey(5, 5, 9_999_999_999, 999_999)),
        (OrderKey(5, 1, 0, 0), OrderKey(5, 0, 9_999_999_999, 999_999)),
        (OrderKey(5, 0, 0, 0), OrderKey(4, (1 << 63) - 1, 9_999_999_999, 999_999)),
        (OrderKey(1, 0, 0, 0), OrderKey(0, (1 << 63) - 1, 9_999_999_999, 999_999)),
        (ORIGIN, ORIGIN),
    ],
)
def test_the_key_before(key: OrderKey, previous: OrderKey) -> None:
    assert key.previous() == previous


@given(KEYS | SMALL)
def test_the_key_before_is_less_and_has_54_digits(key: OrderKey) -> None:
    assert key.previous() < key or key == ORIGIN
    assert len(key.previous().text()) == 54


def test_the_time_of_a_tso() -> None:
    assert tso_millis(7507804165234491392) == 1790000001248
    assert tso_millis((1790000001248 << 22) + (1 << 22) - 1) == 1790000001248
    assert ORIGIN == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("millis", "is_time"),
    [(0, False), (FIRST_MILLIS - 1, False), (FIRST_MILLIS, True), (LAST_MILLIS - 1, True), (LAST_MILLIS, False)],
)
def test_which_tsos_carry_a_time(millis: int, is_time: bool) -> None:
    assert carries_time(millis << 22) is is_time
    assert carries_time((millis << 22) + (1 << 22) - 1) is is_time


def test_times_are_those_of_binlogs() -> None:
    assert FIRST_MILLIS == 1_000_000_000_000
    assert LAST_MILLIS == (1 << 32) * 1000
