"""Cuts the rows events of a segment table by table, and applies the filter.

The rows of a table stay in order; the tables are separated.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
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


OP_CODES: Final = np.zeros(256, np.int8)
"""The place in OPS of each type of rows events."""
for _kind, _op in _OPS.items():
    OP_CODES[_kind] = OPS.index(_op)


@dataclass(frozen=True)
class Changes:
    """Rows of a table with the same columns; `events` are their events' numbers in the segment."""

    segment: Segment
    table: TableMap
    events: Any

    @cached_property
    def cut(self) -> CutRows:
        """Return the rows, cut. Raises ChecksumMismatch if they do not fit the table map."""
        return _cut(self.segment, self.events, self.table)

    def with_cut(self, segment: Segment, cut: CutRows) -> "Changes":
        """Return the rows in another segment, cut already."""
        found = replace(self, segment=segment)
        found.__dict__["cut"] = cut  # where cached_property keeps it
        return found

    @property
    def row_events(self) -> Any:
        """Return the events, with the columns E_*."""
        every = self.segment.events
        return every if len(every) == len(self.events) else every[self.events]

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


def changes_of(segment: Segment, wanted: Callable[[int], bool] | None = None) -> Iterator[Changes]:
    """Yield the rows of a segment, table by table, of transactions whose rank is `wanted`; None: of all."""
    if not len(segment.events):
        return
    kept: Any = True if wanted is None else _of_ranks(segment, wanted)
    for table, run in runs_of(segment, kept):
        found = Changes(segment, table, run)
        found.cut  # noqa: B018 (what is wrong is told before a row is used)
        yield found


def without_ranks(segment: Segment, ranks: Collection[int]) -> Segment:
    """Return a segment without the rows events of some transactions."""
    if not ranks:
        return segment
    return replace(segment, events=segment.events[_of_ranks(segment, lambda rank: rank not in ranks)])


def _of_ranks(segment: Segment, wanted: Callable[[int], bool]) -> Any:
    """Return a mask of the events of transactions whose rank is wanted."""
    ranks = segment.transactions[segment.events[:, k.E_TRANSACTION], k.T_RANK]
    distinct = np.unique(ranks)
    left_out = [rank for rank in distinct.tolist() if not wanted(rank)]
    return ~np.isin(ranks, left_out) if left_out else np.ones(len(ranks), bool)


def runs_of(segment: Segment, kept: Any = True) -> Iterator[tuple[TableMap, Any]]:
    """Yield the rows events (their numbers) of a segment, table by table, that have the same columns, not cut."""
    numbers = segment.events[:, k.E_MAP]
    if kept is True and len(numbers) and (numbers == numbers[0]).all():
        yield segment.tables[int(numbers[0])], np.arange(len(numbers))
        return
    tables: dict[tuple[str, str], int] = {}
    names = [(table.schema, table.table) for table in segment.tables]
    groups = np.array([tables.setdefault(name, len(tables)) for name in names], np.int64)
    of_event = groups[numbers] if len(names) else np.zeros(0, np.int64)
    for number in range(len(tables)):
        events = np.flatnonzero((of_event == number) & kept)
        for run in _shapes(segment, events):
            yield segment.tables[int(segment.events[run[0], k.E_MAP])], run


def op_codes(kinds: Any) -> Any:
    """Return the place in OPS of rows events' types."""
    return OP_CODES[kinds]


def narrowed(segment: Segment, named: Callable[[str, str], bool], ops: Collection[Op] = OPS) -> Segment:
    """Return a segment with the rows events of some tables and operations only."""
    of_maps = np.array([named(table.schema, table.table) for table in segment.tables], bool)
    of_kinds = np.zeros(256, bool)
    of_kinds[[kind for kind, op in _OPS.items() if op in ops]] = True
    events = segment.events
    kept = of_maps[events[:, k.E_MAP]] & of_kinds[events[:, k.E_KIND]] if len(events) else np.zeros(0, bool)
    return segment if kept.all() else replace(segment, events=events[kept])


def parts_of(segment: Segment, most_bytes: int) -> Iterator[Segment]:
    """Yield a segment in parts whose rows events are of no more than so many bytes each, but for single events.

    What `with_whole_json` makes of one event stays together: rows are numbered by their event.
    """
    before = np.cumsum(segment.events[:, k.E_END] - segment.events[:, k.E_BODY])
    if len(before) and before[-1] <= most_bytes:
        yield segment
        return
    at = segment.events[:, k.E_AT]
    begin = 0
    while begin < len(before):
        limit = (before[begin - 1] if begin else 0) + most_bytes
        end = max(begin + 1, int(np.searchsorted(before, limit, "right")))
        while end < len(at) and at[end] == at[end - 1]:
            end += 1
        yield replace(segment, events=segment.events[begin:end])
        begin = end


def _shapes(segment: Segment, events: Any) -> Iterator[Any]:
    """Split a table's events where its columns change; without DDL between, that happens only in opaque tables."""
    if not len(events):
        return
    numbers = segment.events[events, k.E_MAP]
    shapes: dict[Any, int] = {}
    known = {}
    for number in np.flatnonzero(np.bincount(numbers)).tolist():
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
