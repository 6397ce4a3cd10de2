"""What a report knows, as frozen values: facts read from the log, its schema store, its notes and the nodes' files.

Times are written as RFC 3339, in UTC, with milliseconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from binlog_merge.json_values import utc_text
from snapshot_store.tso import OrderKey, carries_time, tso_millis

Numbers = npt.NDArray[np.int64]

MOST_CELLS: Final = 60_000
"""Series times bins: what bounds a page's size."""


def size_for(series: int, most: int) -> int:
    """Return how many bins each of so many series may have: a power of two from 64 to `most`."""
    size = most
    while size > 64 and size * max(series, 1) > MOST_CELLS:
        size >>= 1
    return size


class Bins:
    """Counts of several series over one axis of integers (µs since 1970, or ranks), in at most `size` bins."""

    def __init__(self, size: int, series: int = 0) -> None:
        self.size = size
        self.shift = 0
        self.first = 0
        self._end = 0
        self.counts: Numbers = np.zeros((series, size), np.int64)

    def add(self, series: Numbers, values: Numbers, amounts: Numbers | int = 1) -> None:
        """Add `amounts` to each series' bin of each value; the values are not negative."""
        if not len(values):
            return
        self._widen(int(values.min()), int(values.max()))
        self._grow(int(series.max()) + 1)
        np.add.at(self.counts, (series, (values >> self.shift) - self.first), amounts)

    def _grow(self, series: int) -> None:
        if series > len(self.counts):
            grown = np.zeros((max(series, 2 * len(self.counts)), self.size), np.int64)
            grown[: len(self.counts)] = self.counts
            self.counts = grown

    def _widen(self, least: int, most: int) -> None:
        low, high = least >> self.shift, most >> self.shift
        if self._end > self.first:
            low, high = min(low, self.first), max(high, self._end - 1)
        joined = 0
        while (high >> joined) - (low >> joined) >= self.size:
            joined += 1
        first = low >> joined
        if self._end > self.first and (joined or first != self.first):
            used = self._end - self.first
            places = ((self.first + np.arange(used)) >> joined) - first
            moved = np.zeros_like(self.counts.T)
            np.add.at(moved, places, self.counts.T[:used])
            self.counts = np.ascontiguousarray(moved.T)
        self.shift += joined
        self.first, self._end = first, (high >> joined) + 1

    def series(self, number: int) -> Numbers:
        """Return a series' bins, up to the last one in use."""
        used = self._end - self.first
        return self.counts[number, :used] if number < len(self.counts) else np.zeros(used, np.int64)

    def axis(self) -> dict[str, int]:
        """Return where the bins are: `start` and `width` in the axis' unit, and how many there are."""
        return {
            "start": self.first << self.shift,
            "width": 1 << self.shift,
            "bins": self._end - self.first,
        }


def sparse(counts: Numbers) -> list[int]:
    """Return the bins that are not empty as a flat list: number, count, number, count…"""
    places = np.flatnonzero(counts)
    pairs: list[Any] = np.stack([places, counts[places]], axis=1).reshape(-1).tolist()
    return pairs


SHARED: Final = 0
"""The lane of transactions with a commit TSO of their own, of which the log does not say on which nodes they ran."""
UNKNOWN: Final = 1
"""The lane of transactions whose order key the log does not hold."""
STATEMENTS: Final = 2
"""The lane of DDL and other statements."""
FIRST_NODE: Final = 3


@dataclass(frozen=True, slots=True)
class StatementFact:
    """A DDL (or another statement) of the log; `us` is its commit time in µs since 1970."""

    rank: int
    us: int
    schema: str
    sql: str
    file: str
    position: int


@dataclass(frozen=True, slots=True)
class TransactionFact:
    """A transaction of a log so small that each is shown; `lane` is that of `LogFacts.lanes`."""

    rank: int
    us: int
    lane: int
    bytes: int
    rows: int
    tables: tuple[int, ...]
    key: str | None
    file: str
    position: int


@dataclass(slots=True)
class TableCounts:
    """The rows of a table in the log."""

    schema: str
    name: str
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    bytes: int = 0
    first_us: int = 0
    last_us: int = 0

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return self.inserted + self.updated + self.deleted


@dataclass(frozen=True, slots=True)
class Placed:
    """Where an order key stands in the log: `rank` of the first transaction behind it, and a time for it."""

    rank: int
    us: int


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What a walk over the published files found.

    `lanes` are names of lanes, of which the first three are SHARED, UNKNOWN and STATEMENTS. Histograms have a series
    for each lane (`by_time`, `by_rank`) or table (`rows_by_time`, `rows_by_rank`). `statements` are the last ones of
    `statement_count`, `detail` all transactions of a small log. `stopped` is the error that ended the walk early.
    """

    lanes: tuple[str, ...]
    transactions: int
    rows_bytes: int
    first_us: int | None
    last_us: int | None
    by_time: Bins
    by_rank: Bins
    bytes_by_time: Bins
    bytes_by_rank: Bins
    tables: tuple[TableCounts, ...]
    rows_by_time: Bins
    rows_by_rank: Bins
    statements: tuple[StatementFact, ...]
    statement_count: int
    detail: tuple[TransactionFact, ...] | None
    places: Mapping[OrderKey, Placed] = field(default_factory=dict)
    stopped: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class NodeLanes:
    """What the nodes' files say: for each node, when it ran its part of the log's transactions.

    `matches`: the files have exactly the log's transactions, so that `by_rank` and `nodes_of` (by rank, of a small
    log) hold. `found` and `published` are how many there are on both sides.
    """

    nodes: tuple[str, ...]
    by_time: Bins
    by_rank: Bins
    branches: tuple[int, ...]
    found: int
    published: int
    matches: bool
    nodes_of: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeDdl:
    """A physical DDL: a node ran `sql` on its table at a key; it stands in the node's file."""

    key: OrderKey
    node: str
    table: str
    sql: str
    file: str
    position: int


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a logical table, and what changed in it, a line a change."""

    key: OrderKey
    number: int
    origin: str
    kind: str
    sql: str
    changes: tuple[str, ...]
    place: str


@dataclass(frozen=True, slots=True)
class SkewSpan:
    """A stretch in which physical tables on a node had another shape than their logical table."""

    kind: str
    problem: bool
    table: str
    node: str | None
    physical: tuple[str, ...]
    begins: OrderKey
    ends: OrderKey | None
    how: str


@dataclass(frozen=True, slots=True)
class SchemaFacts:
    """What the schema store says; `left_out` counts by kind what is not listed for want of room."""

    versions: Mapping[str, tuple[Version, ...]]
    node_ddl: tuple[NodeDdl, ...]
    skews: tuple[SkewSpan, ...]
    compared: Mapping[str, int]
    locks: Mapping[str, Any] | None
    left_out: Mapping[str, int] = field(default_factory=dict)

    def keys(self) -> list[OrderKey]:
        """Return all order keys of which the page shows the place, sorted."""
        keys = {v.key for versions in self.versions.values() for v in versions}
        keys |= {ddl.key for ddl in self.node_ddl} | {skew.begins for skew in self.skews}
        keys |= {skew.ends for skew in self.skews if skew.ends is not None}
        return sorted(keys)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def time_text(us: int | None) -> str | None:
    """Return a time in µs since 1970, None where it is none or out of the calendar."""
    try:
        return None if us is None else utc_text(_EPOCH + timedelta(microseconds=us), "milliseconds")
    except OverflowError:
        return None


def key_time(key: str | None) -> str | None:
    """Return the time of an order key's TSO, None if there is no key, or it carries no time."""
    tso = 0 if key is None else OrderKey.parse(key).commit_tso
    return time_text(tso_millis(tso) * 1000) if carries_time(tso) else None
