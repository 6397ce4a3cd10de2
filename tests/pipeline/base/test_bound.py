"""Of several bounds the one with the least key holds."""

from binlog_merge.errors import ChecksumMismatch
from binlog_merge.pipeline.base.state import GREATEST_KEY, NO_BOUND, Bound
from snapshot_store.tso import OrderKey


def key(tso: int) -> OrderKey:
    return OrderKey(tso, 0, 0, 0)


def stop(tso: int, message: str = "") -> Bound:
    return Bound.of(ChecksumMismatch(message, order_key=key(tso)))


def test_the_least_key_holds_and_of_one_key_the_first() -> None:
    first, again = stop(5, "first"), stop(5, "again")
    assert min(NO_BOUND, stop(7), first, again) is first
    assert min(NO_BOUND, Bound(key(3)), first) == Bound(key(3))
    assert Bound.of(None) == NO_BOUND == Bound.at(None, None) and NO_BOUND.key == GREATEST_KEY
