"""Counts of what a log holds: rows, bytes and transactions by table and time, and its biggest transactions.

The bytes of a table are those of its rows events; a transaction's are those of all its events. How long a transaction
took is not in a merged log, which has the time of the commit alone.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.kernels import log_index as x
from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.binlog.kernels.row_cells import count_rows
from binlog_merge.errors import ChecksumMismatch
from binlog_merge.log.changes import OPS, op_codes, runs_of
from binlog_merge.log.index import transactions_of as indexed
from binlog_merge.log.log import Log
from binlog_merge.log.reader import DAMAGED
from binlog_merge.log.segments import Segment, segments
from binlog_merge.log.table_changes import transactions_of
from binlog_merge.log.whole_json import with_whole_json

Name = tuple[str, str]
_NOTHING: Final = np.zeros((2, 0, 0), np.int32)


@dataclass
class Count:
    """What was counted: rows by operation (insert, update, delete), bytes of their events, transactions."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    bytes: int = 0
    transactions: int = 0

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return self.inserts + self.updates + self.deletes

    def add(self, ops: Any, size: int, transactions: int) -> None:
        """Add rows by operation, bytes and transactions."""
        self.inserts += int(ops[0])
        self.updates += int(ops[1])
        self.deletes += int(ops[2])
        self.bytes += size
        self.transactions += transactions


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction: its rows and bytes, when it committed (µs since 1970), and its rank and place."""

    bytes: int
    rows: int
    rank: int
    commit_us: int
    file: str
    position: int


@dataclass
class Stats:
    """The counts of a range. `cells` is by time (its beginning, µs since 1970) and table."""

    every_us: int
    transactions: int = 0
    statements: int = 0
    bytes: int = 0
    first_us: int | None = None
    last_us: int | None = None
    cells: dict[tuple[int, Name], Count] = field(default_factory=dict)
    biggest: list[Transaction] = field(default_factory=list)
    most_rows: list[Transaction] = field(default_factory=list)

    def tables(self) -> dict[Name, Count]:
        """Return the counts of each table, the one with most bytes first. A transaction counts once for each time."""
        tables: dict[Name, Count] = {}
        for (_, name), count in self.cells.items():
            ops = count.inserts, count.updates, count.deletes
            tables.setdefault(name, Count()).add(ops, count.bytes, count.transactions)
        return dict(sorted(tables.items(), key=lambda item: (-item[1].bytes, item[0])))


def count(
    binlog: Log,
    first: int,
    last: int,
    *,
    every_us: int,
    top: int = 10,
    named: Callable[[str, str], bool] = lambda schema, table: True,
) -> Stats:
    """Count transactions `first` to `last`, in steps of `every_us`. Raises what reading the log does."""
    stats = Stats(every_us)
    largest = _totals(stats, binlog, first, last, top)
    of_largest = dict.fromkeys(largest, 0)
    most: list[tuple[int, int]] = []
    rows_of: dict[int, int] = {}
    open_: set[Name] = set()
    for piece in segments(binlog, first, last) if first <= last else ():
        if not isinstance(piece, Segment):
            stats.statements += 1
            continue
        open_ = _segment(stats, piece, named, rows_of, open_ if piece.carried is not None else set())
        ended = [rank for rank in rows_of if rank < piece.last_rank or piece.ended]
        for rank in ended:
            _rank(most, of_largest, rank, rows_of.pop(rank), top)
    for rank, rows in rows_of.items():
        _rank(most, of_largest, rank, rows, top)
    by_rows = [rank for _, rank in sorted(most, key=lambda item: (-item[0], item[1]))]
    places = _places(binlog, {*largest, *by_rows})
    counted = of_largest | {rank: rows for rows, rank in most}
    stats.biggest = [replace(places[rank], rows=counted[rank]) for rank in largest]
    stats.most_rows = [replace(places[rank], rows=counted[rank]) for rank in by_rows]
    return stats


def _rank(most: list[tuple[int, int]], of_largest: dict[int, int], rank: int, rows: int, top: int) -> None:
    if rank in of_largest:
        of_largest[rank] = rows
    _ranked(most, (rows, rank), top)


def _ranked(heap: list[Any], item: Any, top: int) -> None:
    if len(heap) < top:
        heapq.heappush(heap, item)
    elif top:
        heapq.heappushpop(heap, item)


def _segment(
    stats: Stats, segment: Segment, named: Callable[[str, str], bool], rows_of: dict[int, int], open_: set[Name]
) -> set[Name]:
    """Count a segment; `open_` are the tables that its first transaction was counted for. Return the last one's."""
    whole = with_whole_json(segment, lenient=True)
    facts = transactions_of(segment)
    times = facts[:, x.X_COMMIT_US] // stats.every_us * stats.every_us
    last, of_last = len(segment.transactions) - 1, set[Name]()
    for table, events in runs_of(whole):
        name = (table.schema, table.table)
        if not named(*name):
            continue
        chosen = whole.events[events]
        rows = _rows(whole, events, table)
        numbers = chosen[:, k.E_TRANSACTION]
        for number, count_ in zip(*_sums(numbers, rows), strict=True):
            rank = int(segment.transactions[number, k.T_RANK])
            rows_of[rank] = rows_of.get(rank, 0) + int(count_)
        codes, sizes = op_codes(chosen[:, k.E_KIND]), _sizes(segment, chosen[:, k.E_AT])
        for time in np.unique(times[numbers]).tolist():
            here = times[numbers] == time
            ops = [int(rows[here & (codes == code)].sum()) for code in range(len(OPS))]
            of_time = np.unique(numbers[here])
            known = int(0 in of_time and name in open_)
            cell = stats.cells.setdefault((time, name), Count())
            cell.add(ops, int(sizes[here].sum()), len(of_time) - known)
        if (numbers == last).any():
            of_last.add(name)
    if segment.ended:
        return set()
    return of_last | (open_ if last == 0 else set())


def _sizes(segment: Segment, at: Any) -> Any:
    """Return the bytes of the rows events at these places, in the log; of several from one event the first has all."""
    events = segment.events[np.searchsorted(segment.events[:, k.E_AT], at)]
    sizes = events[:, k.E_END] - events[:, k.E_BODY]
    sizes[1:][at[1:] == at[:-1]] = 0
    return sizes


def _sums(numbers: Any, rows: Any) -> tuple[list[int], list[int]]:
    distinct, places = np.unique(numbers, return_inverse=True)
    return distinct.tolist(), np.bincount(places, rows).astype(np.int64).tolist()


def _rows(segment: Segment, events: Any, table: Any) -> Any:
    places = np.ascontiguousarray(segment.events[events][:, [k.E_BODY, k.E_END, k.E_KIND]])
    types, metas = np.frombuffer(table.types, np.uint8).astype(np.int64), np.array(table.metas, np.int64)
    counts = np.zeros(len(events), np.int64)
    wrong = count_rows(segment.buffer, places, types, metas, _NOTHING, counts)
    if wrong >= 0:
        position = segment.position(int(events[wrong]))
        error = BinlogFormatError(f"rows event of {table.schema}.{table.table} cannot be cut")
        raise ChecksumMismatch(error.reason, file=segment.file, position=position, remedy=DAMAGED)
    return counts


def _totals(stats: Stats, binlog: Log, first: int, last: int, top: int) -> list[int]:
    """Count all transactions; return the ranks of those with most bytes, the largest first."""
    heap: list[tuple[int, int]] = []
    for _, rows in _indexed(binlog, first, last):
        stats.transactions += len(rows)
        stats.bytes += int(rows[:, x.X_LENGTH].sum())
        low, high = int(rows[:, x.X_COMMIT_US].min()), int(rows[:, x.X_COMMIT_US].max())
        stats.first_us = low if stats.first_us is None else min(low, stats.first_us)
        stats.last_us = high if stats.last_us is None else max(high, stats.last_us)
        for row in rows[np.argsort(-rows[:, x.X_LENGTH], kind="stable")[:top]]:
            _ranked(heap, (int(row[x.X_LENGTH]), -int(row[x.X_RANK])), top)
    return [-rank for _, rank in sorted(heap, reverse=True)]


def _indexed(binlog: Log, first: int, last: int) -> Iterator[tuple[str, Any]]:
    for file in binlog.state.files:
        if file.last_rank >= first and file.first_rank <= last:
            for rows in indexed(binlog.folder, file):
                kept = rows[(rows[:, x.X_RANK] >= first) & (rows[:, x.X_RANK] <= last)]
                if len(kept):
                    yield file.name, kept


def _places(binlog: Log, ranks: set[int]) -> dict[int, Transaction]:
    """Return where some transactions are."""
    places = {}
    for name, rows in _indexed(binlog, min(ranks), max(ranks)) if ranks else ():
        for row in rows[np.isin(rows[:, x.X_RANK], list(ranks))]:
            size, time, at = int(row[x.X_LENGTH]), int(row[x.X_COMMIT_US]), int(row[x.X_AT])
            places[int(row[x.X_RANK])] = Transaction(size, 0, int(row[x.X_RANK]), time, name, at)
    return places
