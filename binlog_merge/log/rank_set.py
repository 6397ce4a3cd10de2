"""Sets of ranks as intervals: which transactions a target has.

    1 … 90, 92 … 140      everything up to 90, and 92 to 140 after a DDL that is still running

Ranks count transactions from 1. A set is immutable; its cost grows with the number of gaps, not of ranks.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self
from uuid import UUID

from binlog_merge.binlog.gtid_set import GtidSet


@dataclass(frozen=True, slots=True)
class RankSet:
    """A set of ranks: intervals in order, both ends included, with gaps between them."""

    intervals: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, ranks: Iterable[int]) -> Self:
        """Return the set of these ranks."""
        return cls(_joined((rank, rank) for rank in sorted(ranks)))

    @classmethod
    def upto(cls, rank: int) -> Self:
        """Return the ranks from 1 to `rank`."""
        return cls(((1, rank),)) if rank > 0 else cls()

    @classmethod
    def of_gtids(cls, gtids: GtidSet, uuid: str) -> Self:
        """Return the ranks of the transactions of a log, whose GTIDs have this UUID, that are in a set of GTIDs."""
        return cls(tuple((first, end - 1) for first, end in gtids.intervals.get((UUID(uuid).bytes, ""), ())))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text that `str` returns: "1-90,92-140". Raises ValueError."""
        pairs = (part.partition("-") for part in text.split(",") if part)
        intervals = [(int(first), int(last or first)) for first, _, last in pairs]
        if any(first > last for first, last in intervals):
            raise ValueError(f"{text[:100]!r} is no set of ranks")
        return cls(_joined(sorted(intervals)))

    def __str__(self) -> str:
        return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in self.intervals)

    def __contains__(self, rank: int) -> bool:
        at = bisect_right(self.intervals, (rank, rank)) - 1
        if at + 1 < len(self.intervals) and self.intervals[at + 1][0] == rank:
            return True
        return at >= 0 and self.intervals[at][0] <= rank <= self.intervals[at][1]

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.intervals)

    def __or__(self, other: "RankSet") -> "RankSet":
        return RankSet(_joined(sorted((*self.intervals, *other.intervals))))

    def __sub__(self, other: "RankSet") -> "RankSet":
        return RankSet(tuple(_without(self.intervals, other.intervals)))

    @property
    def low(self) -> int:
        """Return the largest n for which 1 to n are all in the set; 0 if 1 is not."""
        return self.intervals[0][1] if self.intervals and self.intervals[0][0] == 1 else 0


def _joined(intervals: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Merge intervals that overlap or are adjacent; the intervals given are sorted."""
    joined: list[tuple[int, int]] = []
    for first, last in intervals:
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return tuple(joined)


def _without(ours: Iterable[tuple[int, int]], theirs: tuple[tuple[int, int], ...]) -> Iterator[tuple[int, int]]:
    for first, last in ours:
        near = max(bisect_right(theirs, (first, first)) - 1, 0)
        for at in range(near, len(theirs)):
            begin, end = theirs[at]
            if begin > last:
                break
            if end < first:
                continue
            if begin > first:
                yield first, begin - 1
            first = end + 1
        if first <= last:
            yield first, last
