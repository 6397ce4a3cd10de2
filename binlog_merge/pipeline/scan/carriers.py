"""Carriers: where a node's binlog holds the commit TSO of a distributed transaction.

A commit TSO is fetched after all branches are prepared, so only events that a node writes later can hold it: a
transaction of its own between PREPARE and XA COMMIT, or the group of the XA COMMIT itself. The scan kernel reads all of
these (`kernels.scan_groups.own_tso`).

Servers without a global clock have no commit TSO. For them `gtid-time` orders by the nodes' own clocks: every
transaction, XA or not, and every DDL takes its time from its GTID event (`kernels.scan_groups.tick`). What a node
commits within one microsecond, or after its clock stepped back, follows in the order of its log. So each node's own
order always holds; the order between nodes is as good as their clocks, and branches of one transaction come out as
separate transactions.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.gtid import Gtid, GtidTagged
from binlog_merge.binlog.header import RawEvent
from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.binlog.query import Query
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.polardbx.names import TRANSACTION_LOG, is_named


@dataclass(frozen=True, slots=True)
class Carrier:
    """One way to carry a commit TSO. `own`: a transaction on one node can carry a TSO of its own in this way."""

    name: str
    code: int
    own: bool
    meaning: str


CARRIERS = {
    c.name: c
    for c in (
        Carrier("commit-table", k.BY_COMMIT_TABLE, False, "a row (gtrid, tso) in the commit table"),
        Carrier(
            "original-commit-timestamp", k.BY_ORIGINAL_TIMESTAMP, True,
            "original_commit_timestamp = TSO >> 9, in the GTID event of XA COMMIT",
        ),
        Carrier(
            "original-commit-timestamp-us", k.BY_ORIGINAL_MICROSECONDS, True,
            "original_commit_timestamp in microseconds, in the GTID event of XA COMMIT",
        ),
        Carrier("gtid", k.BY_GTID, True, "the number of the XA COMMIT's own GTID (SET gtid_next = 'uuid:TSO')"),
        Carrier(
            "polardbx", k.BY_SEQUENCE, True,
            "as PolarDB-X's data nodes write it: events 105 and 80, status variable 200, the transaction log of old",
        ),
        Carrier("gtid-time", k.BY_TIME, False, "none: the nodes' own clocks, by the commit time in every GTID event"),
    )
}  # fmt: skip

DEFAULT = "commit-table"
POLARDBX = "polardbx"
BY_TIME = "gtid-time"


@dataclass
class Detection:
    """The carrier that the head of a node's log shows; `carrier` is None until an XA COMMIT has been seen.

    A PolarDB-X data node is recognized by earlier events.
    """

    commit_table: tuple[str, str]
    carrier: str | None = None
    _has_row: bool = False
    _likely: bool = False
    _original: bool = False
    _original_large: bool = False

    def feed(self, events: Iterable[RawEvent]) -> str | None:
        """Read events up to the first XA COMMIT. Returns the carrier of its TSO, or None if there was no XA COMMIT or
        no carrier.
        """
        for event in events:
            self._take(event)
            if self.carrier is not None:
                break
        return self.carrier

    @property
    def likely(self) -> str | None:
        """Return the carrier, or the one that the log's tables suggest if no event carried a TSO."""
        return POLARDBX if self.carrier is None and self._likely else self.carrier

    def _take(self, event: RawEvent) -> None:
        kind = event.header.type_code
        if kind in (EventType.GTID_LOG_EVENT, EventType.ANONYMOUS_GTID_LOG_EVENT, EventType.GTID_TAGGED_LOG_EVENT):
            gtid = (GtidTagged if kind == EventType.GTID_TAGGED_LOG_EVENT else Gtid).parse(event.body)
            original = gtid.original_commit_timestamp
            self._original = original is not None and original != gtid.immediate_commit_timestamp
            # Microseconds since 1970 stay below 2**52 until 2112; a TSO of our time >> 9 is above 2**53.
            self._original_large = original is not None and original >= 1 << 52
        elif kind == EventType.TABLE_MAP_EVENT:
            table_map = TableMap.parse(event.body)
            self._has_row |= (table_map.schema, table_map.table) == self.commit_table
            self._likely |= is_named(table_map.table, TRANSACTION_LOG)
        elif kind in (EventType.SEQUENCE_EVENT, EventType.GCN_EVENT):
            self.carrier = POLARDBX
        elif kind == EventType.QUERY_EVENT:
            self._query(Query.parse(event.body))

    def _query(self, query: Query) -> None:
        if not query.text.startswith("XA "):
            return
        if any(int(code) in _LIZARD_VARIABLES for code in query.status_vars):
            self.carrier = POLARDBX
        elif query.text.startswith("XA COMMIT "):
            self.carrier = self._choose()

    def _choose(self) -> str | None:
        if self._has_row:
            return "commit-table"
        if self._original:
            return "original-commit-timestamp" if self._original_large else "original-commit-timestamp-us"
        return None


_LIZARD_VARIABLES = (200, 201)  # Q_LIZARD_COMMIT_GCN, Q_LIZARD_PREPARE_GCN
