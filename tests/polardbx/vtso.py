"""The virtual TSO: 54 digits by which PolarDB-X sorts everything in its global binlog.

    %019d commit TSO   %019d transaction id   %010d seq   %06d storage

The branches of one distributed transaction share one (seq 0, storage 0). A transaction without a TSO inherits the
greatest (commit TSO, transaction id) that its node had committed, counts on behind it, and is told from those of other
nodes by its node's number. It is this project's order key as text (`snapshot_store.tso.OrderKey`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from snapshot_store.tso import OrderKey

ACTUAL_DIGITS = 38
_NO_SEQ = "0" * 10


def virtual_tso(tso: int, transaction_id: int, seq: int = 0, storage: int = 0) -> str:
    """Return the 54 digits; raises ValueError for a number that does not fit its place."""
    for value, digits in ((tso, 19), (transaction_id, 19), (seq, 10), (storage, 6)):
        if not 0 <= value < 10**digits:
            raise ValueError(f"{value} does not fit {digits} digits of a virtual TSO")
    return OrderKey(tso, transaction_id, seq, storage).text()


def actual_tso(text: str) -> str:
    """Return the first 38 digits: what identifies a distributed transaction."""
    return OrderKey.parse(text).text()[:ACTUAL_DIGITS]


def is_tso_policy(text: str) -> bool:
    """Tell whether a virtual TSO belongs to a transaction that has a commit TSO of its own."""
    return OrderKey.parse(text).text()[ACTUAL_DIGITS:48] == _NO_SEQ


@dataclass(frozen=True, slots=True)
class Committed:
    """One commit in a node's log: with a TSO of its own, or without (None)."""

    tso: int | None
    transaction_id: int


def assign(commits: Iterable[Committed], storage: int) -> Iterator[OrderKey]:
    """Yield the key of every commit of one node's log, in its order: the rule in its plainest form."""
    greatest, seq = (0, 0), 0
    for commit in commits:
        if commit.tso is None:
            seq += 1
            yield OrderKey(*greatest, seq, storage)
            continue
        yield OrderKey(commit.tso, commit.transaction_id, 0, 0)
        if (commit.tso, commit.transaction_id) > greatest:
            greatest, seq = (commit.tso, commit.transaction_id), 0
