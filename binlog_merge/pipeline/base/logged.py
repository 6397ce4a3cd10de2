"""What a log's groups say of themselves by GTIDs and sequence numbers: which are there twice, which are missing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from binlog_merge.binlog.gtid_set import GtidSet, format_sid
from binlog_merge.errors import MergeError, TransactionMissing, TransactionTwice

Gtid = tuple[bytes, str, int]
"""Source, tag, number."""

MOST_SPANS = 1 << 16
"""A set with more intervals is given up: it costs what a list of all transactions would."""


@dataclass(frozen=True, slots=True)
class Logged:
    """One piece's groups. `first_number` is the sequence number of its first one, -1 where none has a GTID event;
    `next_number` what must follow its last.

    `carrying` are GTIDs that carry their transactions' commit TSOs: branches on several nodes may share one. `breaks`
    are (offset, number, what should stand there) where numbers do not follow each other and nothing stopped.
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
    """What runs have seen of one node. `base` was executed before its first file; `told` are the gaps already told of.

    `seen` is None where its GTIDs are too scattered to be kept.
    """

    base: GtidSet = field(default_factory=GtidSet)
    seen: GtidSet | None = field(default_factory=GtidSet)
    told: GtidSet = field(default_factory=GtidSet)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for the manifest."""
        seen = None if self.seen is None else str(self.seen)
        return {"base": str(self.base), "seen": seen, "told": str(self.told)}

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
    """Return the error for a group with another sequence number than should follow; `expected` is negative at the
    beginning of a file.
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
    """Tell whether GTIDs show no gap where sequence numbers do.

    PolarDB-X's replicas write one log, each with a count of its own: it jumps where another one leads from then on.
    """
    if last is None or first is None:
        return False
    return last[:2] != first[:2] or first[2] == last[2] + 1
