"""Cuts the rows events of a segment table by table, and applies the filter.

The rows of a table stay in order; the tables are separated.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from binlog_merge.binlog.columnar import AFTER, BEFORE, ColumnFacts, CutRows, cut_rows, decode_held
from binlog_merge.binlog.constants import DELETE_TYPES, UPDATE_TYPES, WRITE_TYPES
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.errors import ChecksumMismatch, ReplayStopped
from binlog_merge.filters.expressions import Op
from binlog_merge.filters.filter import Filter
from binlog_merge.log.reader import DAMAGED
from binlog_merge.log.segments import Segment
from snapshot_store.model import Table

OPS: Final[tuple[Op, ...]] = ("insert", "update", "delete")
_OPS: Final[dict[int, Op]] = {
    **dict.fromkeys(map(int, WRITE_TYPES), "insert"),
    **dict.fromkeys(map(int, UPDATE_TYPES), "update"),
    **dict.fromkeys(map(int, DELETE_TYPES), "delete"),
}


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows of a table with the same columns. `events` are their events' numbers in the segment; `kinds` the types."""

    segment: Segment
    table: TableMap
    cut: CutRows
    events: Any

    def event_of(self, row: int) -> int:
        """Return the number in the segment of a row's event."""
        return int(self.events[self.cut.events[row]])

    def transaction_of(self, row: int) -> int:
        """Return the number in the segment of a row's transaction."""
        return int(self.segment.events[self.event_of(row), k.E_TRANSACTION])

    def op_of(self, row: int) -> Op:
        """Return the operation of a row."""
        return _OPS[int(self.segment.events[self.event_of(row), k.E_KIND])]

    def rows_of(self, op: Op) -> Any:
        """Return a mask of the rows with an operation."""
        kinds = [kind for kind, name in _OPS.items() if name == op]
        of_events = np.isin(self.segment.events[self.events, k.E_KIND], kinds)
        return of_events[self.cut.events]


def changes_of(segment: Segment, wanted: Callable[[int], bool] = lambda rank: True) -> Iterator[Changes]:
    """Yield the rows of a segment, table by table, of transactions whose rank is `wanted`."""
    if not len(segment.events):
        return
    ranks = segment.transactions[segment.events[:, k.E_TRANSACTION], k.T_RANK]
    distinct = np.unique(ranks)
    left_out = [rank for rank in distinct.tolist() if not wanted(rank)]
    kept = ~np.isin(ranks, left_out) if left_out else np.ones(len(ranks), bool)
    tables: dict[tuple[str, str], int] = {}
    names = [(table.schema, table.table) for table in segment.tables]
    groups = np.array([tables.setdefault(name, len(tables)) for name in names], np.int64)
    of_event = groups[segment.events[:, k.E_MAP]]
    for number in range(len(tables)):
        events = np.flatnonzero((of_event == number) & kept)
        for run in _shapes(segment, events):
            table = segment.tables[int(segment.events[run[0], k.E_MAP])]
            yield Changes(segment, table, _cut(segment, run, table), run)


def _shapes(segment: Segment, events: Any) -> Iterator[Any]:
    """Split a table's events where its columns change; without DDL between, that happens only in opaque tables."""
    if not len(events):
        return
    numbers = segment.events[events, k.E_MAP]
    shapes: dict[Any, int] = {}
    known = {}
    for number in np.unique(numbers).tolist():
        table = segment.tables[number]
        known[number] = shapes.setdefault((table.types, table.metas, table.optional_raw), len(shapes))
    if len(shapes) == 1:
        yield events
        return
    of_event = np.array([known[number] for number in numbers.tolist()])
    yield from np.split(events, np.flatnonzero(np.diff(of_event)) + 1)


def _cut(segment: Segment, events: Any, table: TableMap) -> CutRows:
    places = segment.events[events][:, [k.E_BODY, k.E_END, k.E_KIND]]
    try:
        return cut_rows(segment.buffer, places, table)
    except BinlogFormatError as error:
        position = segment.position(int(events[0]))
        raise ChecksumMismatch(error.reason, file=segment.file, position=position, remedy=DAMAGED) from None


def rows_that_pass(changes: Changes, chosen: Filter | None, table: Table, facts: Sequence[ColumnFacts]) -> Any:
    """Return a mask of the rows that pass a filter; `facts` show dates as text.

    Raises ReplayStopped for rows that the filter declares an error.
    """
    passing = np.ones(len(changes.cut), bool)
    if chosen is None:
        return passing
    if chosen.settings.ignore_commit_tso:
        passing &= ~_ignored_transactions(changes, chosen)
    for op in OPS:
        rows = changes.rows_of(op)
        if not (rows & passing).any():
            continue
        decision = chosen.rows(changes.table.schema, changes.table.table, op)
        if decision.action == "Error":
            name = f"{changes.table.schema}.{changes.table.table}"
            raise ReplayStopped(f"{op} of {name} is an error by {decision.rule}")
        if decision.ignored:
            passing &= ~rows
        elif chosen.expressions.concerns(changes.table.schema, changes.table.table):
            numbers = np.flatnonzero(rows & passing)
            needed = chosen.expressions.columns(table, op, [column.name for column in facts])
            sides = [
                None if absent == op else decode_held(changes.cut, side, facts, needed[side], numbers)
                for side, absent in ((BEFORE, "insert"), (AFTER, "delete"))
            ]
            passing[numbers] &= ~np.array(chosen.ignored_rows(table, op, *sides).to_pylist(), bool)
    return passing


def _ignored_transactions(changes: Changes, chosen: Filter) -> Any:
    """Return a mask of the rows of transactions that the filter ignores by commit TSO."""
    segment = changes.segment
    of_row = segment.events[changes.events, k.E_TRANSACTION][changes.cut.events]
    ignored = []
    for number in np.unique(of_row).tolist():
        key = segment.key(number)
        if key is not None and chosen.transaction(commit_tso=key.commit_tso).ignored:
            ignored.append(number)
    return np.isin(of_row, ignored)
