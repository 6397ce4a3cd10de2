"""Walks a merged log once and counts: transactions by lane, rows by table, statements, and where order keys stand.

The kernel of `log.segments` checks every event and indexes the rows events; here arrays of thousands of transactions
are taken apart at once. No row image is decoded: rows are counted by the lengths of their cells.

The lane of a transaction is what its order key says. With seq above 0 it is a transaction that followed a commit TSO on
one node, whose number is in the key; with seq 0 the key is that of the TSO itself, and the log does not say which nodes
took part. Its time is that of its commit TSO where that carries one, so time ascends as the order does; a transaction
without a commit TSO stands at the one that it followed, those before the first one stand there. Else it is the commit
time in its GTID event.

The order keys of a segment's transactions, and their times by these: columns of many at once.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.columnar import rows_of_events
from binlog_merge.binlog.constants import DELETE_TYPES, EVENT_HEADER_LEN, UPDATE_TYPES, WRITE_TYPES
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.kernels import log_index as x
from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.errors import ChecksumMismatch, MergeError
from binlog_merge.log.log import Log
from binlog_merge.log.reader import DAMAGED
from binlog_merge.log.segments import WINDOW, Segment, StatementAt, segments
from binlog_merge.log.table_changes import transactions_of
from binlog_merge.moved_keys import NODES
from binlog_merge.observe.report.values import (
    FIRST_NODE,
    SHARED,
    STATEMENTS,
    UNKNOWN,
    Bins,
    LogFacts,
    Numbers,
    Placed,
    StatementFact,
    TableCounts,
    TransactionFact,
    size_for,
)
from snapshot_store.surrogates import shown
from snapshot_store.tso import FIRST_MILLIS, LAST_MILLIS, LOGICAL_BITS, OrderKey, carries_time, tso_millis


@dataclass(frozen=True, slots=True)
class Keys:
    """The order keys of transactions, a column for each part; those that the log does not hold are not `known`."""

    known: npt.NDArray[np.bool_]
    tso: Numbers
    transaction: Numbers
    seq: Numbers
    node: Numbers

    def at(self, number: int) -> OrderKey:
        """Return the key of a transaction."""
        return OrderKey(
            int(self.tso[number]), int(self.transaction[number]), int(self.seq[number]), int(self.node[number])
        )

    def text(self, number: int) -> str | None:
        """Return the 54 digits of a transaction's key, None if it is not known."""
        return self.at(number).text() if self.known[number] else None


def timed(keys: Keys) -> npt.NDArray[np.bool_]:
    """Return which keys are known and have a commit TSO that carries time."""
    millis = keys.tso >> LOGICAL_BITS
    return keys.known & (millis >= FIRST_MILLIS) & (millis < LAST_MILLIS)


def times_of(keys: Keys, committed: Numbers, begins_us: int | None) -> Numbers:
    """Return the transactions' times in µs: of their commit TSOs, in the log's order, as far as these carry time.

    `begins_us` is the time of the first TSO, at which those before it stand; None in a log whose TSOs carry none. A
    commit time in the same millisecond is as good, and more exact.
    """
    millis = keys.tso >> LOGICAL_BITS
    within = timed(keys)
    times = np.where(within & (committed // 1000 != millis), millis * 1000, committed)
    if begins_us is not None:
        times[keys.known & ~within] = begins_us
    return times


def keys_of(facts: Numbers) -> Keys:
    """Return the order keys of the transactions of which `log.table_changes.transactions_of` says these facts."""
    return Keys(facts[:, x.X_TSO] >= 0, *facts[:, [x.X_TSO, x.X_ID, x.X_SEQ, x.X_NODE]].T)


MOST_DETAIL: Final = 2_000
"""A log of so many transactions is shown transaction by transaction."""
MOST_STATEMENTS: Final = 500
LANE_BINS: Final = 2048
TABLE_BINS: Final = 256
_LONGEST_SQL: Final = 500
_LANES: Final = ("shared", "unknown", "statements")

Progress = Callable[[int, int], None]


def read_log(
    binlog: Log,
    keys: Sequence[OrderKey] = (),
    detail: int = MOST_DETAIL,
    progress: Progress | None = None,
    window: int = WINDOW,
) -> LogFacts:
    """Return what a log holds; `keys`, sorted, are those whose places are wanted.

    Damage ends the walk: what stands before it is in the facts, and the error is `stopped`. `progress` gets how many
    transactions of how many are read.
    """
    walk = _Walk.of(binlog, keys, detail)
    stopped: Mapping[str, Any] | None = None
    first = binlog.state.first_rank
    if binlog.state.files:
        first = min(first, binlog.state.files[0].first_rank)
    try:
        for piece in segments(binlog, first, window=window) if binlog.state.files else ():
            if isinstance(piece, StatementAt):
                walk.take_statement(piece)
            else:
                walk.take(piece)
            if progress is not None:
                progress(walk.transactions, binlog.last_rank - first + 1)
    except MergeError as error:
        stopped = error.to_dict()
    return walk.facts(stopped)


def first_time(binlog: Log) -> int | None:
    """Return the time of the first commit TSO, in µs, if the log's TSOs carry time and do not begin with its keys."""
    files = binlog.state.files
    if not files or not carries_time(OrderKey.parse(files[-1].last_key).commit_tso):
        return None
    if carries_time(first := OrderKey.parse(files[0].first_key).commit_tso):
        return tso_millis(first) * 1000
    try:
        for piece in segments(binlog, files[0].first_rank):
            if isinstance(piece, Segment):
                keys = keys_of(transactions_of(piece))
                if len(places := np.flatnonzero(timed(keys))):
                    return tso_millis(int(keys.tso[places[0]])) * 1000
    except MergeError:
        return None  # the walk itself meets it, and says so
    return None


@dataclass
class _Walk:
    """The counts so far."""

    nodes: dict[int, int]  # the lane of each node's number
    lanes: tuple[str, ...]
    held: bool  # node numbers in keys may be those of places (`places`)
    with_detail: bool
    wanted: deque[OrderKey]
    by_time: Bins
    by_rank: Bins
    bytes_by_time: Bins = field(default_factory=lambda: Bins(LANE_BINS, 1))
    bytes_by_rank: Bins = field(default_factory=lambda: Bins(LANE_BINS, 1))
    rows_by_time: Bins = field(default_factory=lambda: Bins(TABLE_BINS))
    rows_by_rank: Bins = field(default_factory=lambda: Bins(TABLE_BINS))
    tables: dict[tuple[str, str], int] = field(default_factory=dict)
    counts: list[TableCounts] = field(default_factory=list)
    statements: deque[StatementFact] = field(default_factory=lambda: deque(maxlen=MOST_STATEMENTS))
    statement_count: int = 0
    transactions: int = 0
    rows_bytes: int = 0
    last_rank: int = 0
    span: tuple[int, int] | None = None
    begins_us: int | None = None
    places: dict[OrderKey, Placed] = field(default_factory=dict)
    detail: dict[int, TransactionFact] = field(default_factory=dict)

    @classmethod
    def of(cls, binlog: Log, keys: Sequence[OrderKey], detail: int) -> "_Walk":
        header = binlog.state.header
        numbers = {} if header is None else dict(header.node_numbers)
        names = sorted(numbers, key=lambda name: numbers[name])
        size = size_for(FIRST_NODE + len(names), LANE_BINS)
        transactions = sum(file.transactions for file in binlog.state.files)
        return cls(
            {numbers[name]: FIRST_NODE + i for i, name in enumerate(names)},
            (*_LANES, *names),
            header is not None and "shard-mode" in header.settings,
            transactions <= detail,
            deque(keys),
            Bins(size, FIRST_NODE + len(names)),
            Bins(size, FIRST_NODE + len(names)),
            begins_us=first_time(binlog),
        )

    def facts(self, stopped: Mapping[str, Any] | None) -> LogFacts:
        last = self.span[1] if self.span else 0
        for key in self.wanted:
            self._place(key, self.last_rank + 1, last)
        return LogFacts(
            self.lanes, self.transactions, self.rows_bytes,
            None if self.span is None else self.span[0], None if self.span is None else self.span[1],
            self.by_time, self.by_rank, self.bytes_by_time, self.bytes_by_rank,
            tuple(self.counts), self.rows_by_time, self.rows_by_rank,
            tuple(self.statements), self.statement_count,
            tuple(self.detail[rank] for rank in sorted(self.detail)) if self.with_detail else None,
            self.places, stopped,
        )  # fmt: skip

    def take_statement(self, at: StatementAt) -> None:
        """Count a statement, and its transaction if nothing of it was counted before."""
        begin, statement = at.begin, at.statement
        us = self.begins_us if self.begins_us is not None and self.span is None else begin.commit_us
        name = begin.file.rpartition("/")[2]
        self.statement_count += 1
        sql = shown(statement.text)[:_LONGEST_SQL]
        self.statements.append(StatementFact(begin.rank, us, shown(statement.schema), sql, name, begin.position))
        if begin.rank > self.last_rank:
            self._count(np.array([STATEMENTS]), np.array([begin.rank]), np.array([us]))
            if self.with_detail:
                key = None if statement.key is None else statement.key.text()
                self.detail[begin.rank] = TransactionFact(
                    begin.rank, us, STATEMENTS, 0, 0, (), key, name, begin.position
                )

    def take(self, segment: Segment) -> None:
        """Count the transactions of a segment that are not counted yet, and all its rows."""
        ranks = segment.transactions[:, k.T_RANK]
        facts = transactions_of(segment)
        keys = keys_of(facts)
        times = times_of(keys, facts[:, x.X_COMMIT_US], self.begins_us)
        new = int(np.searchsorted(ranks, self.last_rank, side="right"))
        lanes = self._lanes_of(keys)
        self._find_places(keys, ranks, times)
        self._count(lanes[new:], ranks[new:], times[new:])
        if self.with_detail:
            for number in range(new, len(ranks)):
                begin = segment.begin(number)
                self.detail[begin.rank] = TransactionFact(
                    begin.rank, int(times[number]), int(lanes[number]), 0, 0, (), keys.text(number),
                    begin.file.rpartition("/")[2], begin.position,
                )  # fmt: skip
        self._count_bytes(segment, ranks, times)
        self._count_rows(segment, ranks, times)

    def _count(self, lanes: Numbers, ranks: Numbers, times: Numbers) -> None:
        if not len(ranks):
            return
        self.by_time.add(lanes, times)
        self.by_rank.add(lanes, ranks)
        low, high = int(times.min()), int(times.max())
        self.span = (low, high) if self.span is None else (min(low, self.span[0]), max(high, self.span[1]))
        self.transactions += len(ranks)
        self.last_rank = int(ranks[-1])

    def _lanes_of(self, keys: Keys) -> Numbers:
        lanes = np.full(len(keys.known), UNKNOWN, np.int64)
        lanes[keys.known & (keys.seq == 0)] = SHARED
        of_node = keys.known & (keys.seq > 0)
        number = keys.node % NODES if self.held else keys.node
        for found in np.unique(number[of_node]).tolist():
            lanes[of_node & (number == found)] = self.nodes.get(found, UNKNOWN)
        return lanes

    def _find_places(self, keys: Keys, ranks: Numbers, times: Numbers) -> None:
        """Place the wanted keys that are less than the segment's last one: keys ascend through the log."""
        numbers = np.flatnonzero(keys.known)
        while self.wanted and len(numbers) and self.wanted[0] < keys.at(int(numbers[-1])):
            key = self.wanted.popleft()
            number = int(numbers[bisect_right(numbers, key, key=lambda n: keys.at(int(n)))])
            self._place(key, int(ranks[number]), int(times[number]))

    def _place(self, key: OrderKey, rank: int, us: int) -> None:
        self.places[key] = Placed(rank, tso_millis(key.commit_tso) * 1000 if carries_time(key.commit_tso) else us)

    def _count_bytes(self, segment: Segment, ranks: Numbers, times: Numbers) -> None:
        """Count the bytes of the transactions' rows events."""
        events = segment.events
        if not len(events):
            return
        of, sizes = events[:, k.E_TRANSACTION], events[:, k.E_END] - events[:, k.E_BODY] + EVENT_HEADER_LEN
        zeros = np.zeros(len(of), np.int64)
        self.bytes_by_time.add(zeros, times[of], sizes)
        self.bytes_by_rank.add(zeros, ranks[of], sizes)
        self.rows_bytes += int(sizes.sum())

    def _count_rows(self, segment: Segment, ranks: Numbers, times: Numbers) -> None:
        """Count the rows of each table, for all events of one shape at a time."""
        shapes: dict[Any, int] = {}
        tables = [self._table(table.schema, table.table) for table in segment.tables]
        shape_of = np.array(
            [
                shapes.setdefault((number, table.types, table.metas), len(shapes))
                for number, table in zip(tables, segment.tables, strict=True)
            ],
            np.int64,
        )
        maps = segment.events[:, k.E_MAP]
        for shape in np.unique(shape_of[maps]).tolist() if len(maps) else ():
            events = segment.events[shape_of[maps] == shape]
            number, table = int(events[0, k.E_MAP]), segment.tables[int(events[0, k.E_MAP])]
            try:
                counts = rows_of_events(segment.buffer, events[:, [k.E_BODY, k.E_END, k.E_KIND]], table)
            except BinlogFormatError as error:
                position = segment.base + int(events[0, k.E_AT])
                raise ChecksumMismatch(error.reason, file=segment.file, position=position, remedy=DAMAGED) from None
            self._add_rows(tables[number], events, counts, ranks, times)

    def _table(self, schema: str, name: str) -> int:
        number = self.tables.setdefault((schema, name), len(self.counts))
        if number == len(self.counts):
            self.counts.append(TableCounts(schema, name))
        return number

    def _add_rows(self, number: int, events: Numbers, counts: Numbers, ranks: Numbers, times: Numbers) -> None:
        found, of, kinds = self.counts[number], events[:, k.E_TRANSACTION], events[:, k.E_KIND]
        found.inserted += int(counts[np.isin(kinds, _INSERTS)].sum())
        found.updated += int(counts[np.isin(kinds, _UPDATES)].sum())
        found.deleted += int(counts[np.isin(kinds, _DELETES)].sum())
        found.bytes += int((events[:, k.E_END] - events[:, k.E_BODY]).sum()) + EVENT_HEADER_LEN * len(events)
        low, high = int(times[of].min()), int(times[of].max())
        found.first_us, found.last_us = min(low, found.first_us or low), max(high, found.last_us)
        self.rows_by_time.add(np.full(len(of), number), times[of], counts)
        self.rows_by_rank.add(np.full(len(of), number), ranks[of], counts)
        if self.with_detail:
            self._add_detail(number, events, counts, ranks)

    def _add_detail(self, number: int, events: Numbers, counts: Numbers, ranks: Numbers) -> None:
        sizes = events[:, k.E_END] - events[:, k.E_BODY] + EVENT_HEADER_LEN
        columns = zip(ranks[events[:, k.E_TRANSACTION]].tolist(), counts.tolist(), sizes.tolist(), strict=True)
        for rank, rows, size in columns:
            at = self.detail[rank]
            tables = at.tables if number in at.tables else (*at.tables, number)
            self.detail[rank] = TransactionFact(
                at.rank, at.us, at.lane, at.bytes + size, at.rows + rows, tables, at.key, at.file, at.position
            )


_INSERTS: Final = [int(kind) for kind in WRITE_TYPES]
_UPDATES: Final = [int(kind) for kind in UPDATE_TYPES]
_DELETES: Final = [int(kind) for kind in DELETE_TYPES]
