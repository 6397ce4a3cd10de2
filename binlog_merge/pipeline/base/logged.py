"""GTIDs and sequence numbers of a log's transactions, which show what is missing from a log or in it twice."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from binlog_merge.binlog.gtid_set import GtidSet, format_sid
from binlog_merge.errors import MergeError, TransactionMissing, TransactionTwice

Gtid = tuple[bytes, str, int]
"""Source, tag, number."""

MOST_SPANS = 1 << 16
"""A GTID set with more intervals is dropped: it would take as much room as a list of all transactions."""


@dataclass(frozen=True, slots=True)
class Logged:
    """GTIDs and sequence numbers of one piece.

    `first_number` is the sequence number of the first group, -1 if no group has a GTID event; `next_number` is the one
    that must follow the last. `carrying` are GTIDs whose number carries the commit TSO: branches on several nodes may
    share one. `breaks` are (offset, number, expected number) where sequence numbers do not follow each other and the
    scan went on.
    """

    first_number: int = -1
    next_number: int = -1
    first: Gtid | None = None
    last: Gtid | None = None
    gtids: GtidSet = field(default_factory=GtidSet)
    carrying: GtidSet = field(default_factory=GtidSet)
    without: int = 0  # groups that have no GTID
    twice: bool = False  # a GTID is there twice
    scattered: bool = False  # there are too many intervals: `gtids` and `carrying` are empty
    breaks: tuple[tuple[int, int, int], ...] = ()

    @property
    def all(self) -> GtidSet:
        """Return the GTIDs of all groups."""
        return self.gtids.union(self.carrying) if self.carrying else self.gtids


@dataclass(frozen=True, slots=True)
class NodeGtids:
    """The GTIDs of one node over all runs.

    `base` was executed before its first file. `seen` is None if its GTIDs are too scattered to keep. `warned` are the
    gaps for which a warning was given.
    """

    base: GtidSet = field(default_factory=GtidSet)
    seen: GtidSet | None = field(default_factory=GtidSet)
    warned: GtidSet = field(default_factory=GtidSet)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for the manifest."""
        seen = None if self.seen is None else str(self.seen)
        return {"base": str(self.base), "seen": seen, "told": str(self.warned)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "NodeGtids":
        """Read what `to_dict` wrote."""
        seen = values["seen"]
        return cls(
            GtidSet.parse_text(values["base"]),
            None if seen is None else GtidSet.parse_text(seen),
            GtidSet.parse_text(values["told"]),
        )


def text_of(gtid: Gtid) -> str:
    """Return `uuid:number` or `uuid:tag:number`."""
    sid, tag, gno = gtid
    return f"{format_sid(sid)}:{tag}:{gno}" if tag else f"{format_sid(sid)}:{gno}"


def out_of_sequence(number: int, expected: int) -> MergeError:
    """Return the error for a group whose sequence number is not the expected one.

    `expected` is negative at the beginning of a file, where 1 is expected.
    """
    expected = 1 if expected < 0 else expected
    if number == 0 or expected == 0:
        return TransactionMissing(
            f"sequence number {number} stands where {expected} should: the transaction is not of this file"
        )
    if number > expected:
        count = number - expected
        what = "a transaction is" if count == 1 else f"{count} transactions are"
        return TransactionMissing(
            f"sequence number {number} stands where {expected} should: {what} missing here, or stands elsewhere"
        )
    return TransactionTwice(
        f"sequence number {number} stands where {expected} should: a transaction is there twice, or stands too late"
    )


def changes_source(last: Gtid | None, first: Gtid | None) -> bool:
    """Return whether the GTIDs follow each other although the sequence numbers do not.

    Replicas of a PolarDB-X node write one log, each with its own sequence: numbers jump where another replica becomes
    leader.
    """
    if last is None or first is None:
        return False
    return last[:2] != first[:2] or first[2] == last[2] + 1
