"""What a report knows, as frozen values: facts read from the log, its schema store, its notes and the nodes' files.

Times are written as RFC 3339, in UTC, with milliseconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from binlog_merge.json_values import utc_text
from binlog_merge.observe.report.bins import Bins
from snapshot_store.tso import OrderKey, carries_time, tso_millis

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
        found = {v.key for versions in self.versions.values() for v in versions}
        found |= {ddl.key for ddl in self.node_ddl} | {skew.begins for skew in self.skews}
        found |= {skew.ends for skew in self.skews if skew.ends is not None}
        return sorted(found)


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
