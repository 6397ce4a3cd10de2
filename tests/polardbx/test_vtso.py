"""The virtual TSO: its text, and the places it gives to transactions without one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshot_store.tso import OrderKey
from tests.polardbx.vtso import Committed, actual_tso, assign, is_tso_policy, virtual_tso


def test_as_the_global_binlog_prints_it() -> None:
    text = "707613860112944339216072038166785392650000000000000000"
    key = OrderKey.parse(text)
    assert key == OrderKey(7076138601129443392, 1607203816678539265, 0, 0)
    assert virtual_tso(*key) == text
    assert actual_tso(text) == text[:38]
    assert is_tso_policy(text) and not is_tso_policy(virtual_tso(*key[:2], 3, 1))


def test_physical_milliseconds_and_logical_part() -> None:
    tso = 7044841246845567040  # 2023-03-24 01:24:00.069 UTC, logical 64
    assert (tso >> 22, tso & (1 << 22) - 1) == (1679621040069, 64)


def test_transactions_without_a_tso_stand_behind_the_greatest_committed_before() -> None:
    log = [
        Committed(t, x) for t, x in ((None, 0), (100, 7), (None, 0), (90, 9), (None, 0), (100, 6), (100, 8), (None, 0))
    ]
    assert list(assign(log, 3)) == [
        (0, 0, 1, 3), (100, 7, 0, 0), (100, 7, 1, 3), (90, 9, 0, 0), (100, 7, 2, 3), (100, 6, 0, 0), (100, 8, 0, 0),
        (100, 8, 1, 3),
    ]  # fmt: skip


_keys = st.builds(OrderKey, *(st.integers(0, m) for m in (2**63 - 1, 2**63 - 1, 10**10 - 1, 10**6 - 1)))


@given(_keys, _keys)
def test_texts_sort_as_the_keys_do(a: OrderKey, b: OrderKey) -> None:
    assert (virtual_tso(*a) < virtual_tso(*b)) == (a < b)
    assert OrderKey.parse(virtual_tso(*a)) == a


@given(st.lists(st.builds(Committed, st.none() | st.integers(1, 9), st.integers(1, 3))), st.integers(1, 999999))
def test_no_two_transactions_of_a_node_share_a_key_but_branches(log: list[Committed], node: int) -> None:
    keys = list(assign(log, node))
    without = [key for key, commit in zip(keys, log, strict=True) if commit.tso is None]
    assert len(set(without)) == len(without) and without == sorted(without)
    assert all(key[2:] == (0, 0) for key, commit in zip(keys, log, strict=True) if commit.tso is not None)


@pytest.mark.parametrize("numbers", [(-1, 0, 0, 0), (10**19, 0, 0, 0), (0, 0, 10**10, 0), (0, 0, 0, 10**6)])
def test_numbers_that_do_not_fit(numbers: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        virtual_tso(*numbers)
