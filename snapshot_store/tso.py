"""Commit TSO and order key: the total order of all transactions and DDL of the cluster.

A commit TSO is 64 bits: physical milliseconds << 22 | logical counter (PolarDB-X `TimestampUtils`,
BITS_LOGICAL_TIME = 22). An order key adds what makes the order total. Its 54-digit text sorts as the key does, so
keys can be compared as text too, in file names and in SQL.
"""

from typing import NamedTuple, NewType

Tso = NewType("Tso", int)

LOGICAL_BITS = 22

# A TSO carries wall-clock time when its physical part lies between 2001 and 2106 (the range of a binlog timestamp);
# small test counters and clocks of other kinds do not.
FIRST_MILLIS = 10**12
LAST_MILLIS = 4_294_967_296_000


class OrderKey(NamedTuple):
    """The position of a transaction in the global order; compares as a tuple.

    A transaction without a commit TSO gets the greatest one that its node had committed before it, and `seq` 1, 2, 3…
    `node_seq` distinguishes such transactions of different nodes.
    """

    commit_tso: int
    transaction_id: int
    seq: int
    node_seq: int

    def text(self) -> str:
        """Return the 54 digits of the key, as PolarDB-X prints its virtual TSO."""
        return f"{self.commit_tso:019d}{self.transaction_id:019d}{self.seq:010d}{self.node_seq:06d}"

    def previous(self) -> "OrderKey":
        """Return the greatest key of 54 digits below this one; ORIGIN for ORIGIN."""
        tso, transaction, seq, node = self
        if node:
            return OrderKey(tso, transaction, seq, node - 1)
        if seq:
            return OrderKey(tso, transaction, seq - 1, 999_999)
        if transaction:
            return OrderKey(tso, transaction - 1, 9_999_999_999, 999_999)
        return OrderKey(tso - 1, (1 << 63) - 1, 9_999_999_999, 999_999) if tso else self

    @classmethod
    def parse(cls, text: str) -> "OrderKey":
        """Parse the 54-digit text form. Raises ValueError for anything else."""
        if len(text) != 54 or not (text.isascii() and text.isdigit()):
            raise ValueError(f"an order key has 54 digits, not {text!r}")
        return cls(int(text[:19]), int(text[19:38]), int(text[38:48]), int(text[48:]))


ORIGIN = OrderKey(0, 0, 0, 0)
"""The key of base snapshots: every transaction's key is greater."""


def tso_millis(tso: int) -> int:
    """Return the physical part of a TSO, in milliseconds since 1970."""
    return tso >> LOGICAL_BITS


def carries_time(tso: int) -> bool:
    """Return whether the physical part of `tso` is a plausible wall-clock time."""
    return FIRST_MILLIS <= tso_millis(tso) < LAST_MILLIS
