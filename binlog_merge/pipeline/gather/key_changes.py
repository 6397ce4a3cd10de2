"""What rows events do to the unique keys of their tables: which values they free, and which they take.

    DELETE of 7            frees 7
    INSERT of 7            takes 7
    UPDATE of 7 to 9       frees 7, takes 9
    another UPDATE of 7    touches 7 (only where `touched` rows are asked for)

Values are hashes, of the key's number too. A change is not *clear* if the value is not known (the image does not hold
it, or an expression makes it) or if its bytes do not tell what a server takes for equal (`values.key_values`). NULL
excludes nothing. A value that is
not known is UNKNOWN. Rows that no known value tells apart are all one of the key UNKNOWN_ROW, whose values are the
tables.
"""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.columnar import AFTER, BEFORE, CutRows, cut_rows
from binlog_merge.binlog.constants import DELETE_TYPES, UPDATE_TYPES, WRITE_TYPES, EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels.key_hashes import ABSENT, NULL, VALUE, hash_keys
from binlog_merge.binlog.kernels.row_cells import ABSENT as NO_CELL
from binlog_merge.binlog.kernels.row_cells import NONE as NO_IMAGE
from binlog_merge.binlog.kernels.row_cells import NULL as NULL_CELL
from binlog_merge.binlog.kernels.row_cells import differing
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.errors import MergeError
from binlog_merge.pipeline.gather.keyed import KEYS_OF_A_TABLE, KeyedTable, UniqueKey
from binlog_merge.pipeline.gather.plans import PlanTable
from binlog_merge.pipeline.gather.rows_events import Bytes, LogicalBodies
from binlog_merge.pipeline.gather.whole_json import with_whole_json
from binlog_merge.values.convert.cells import ConversionError
from binlog_merge.values.key_values import Unclear, as_since_5_6, folded, is_before_5_6

Ints = npt.NDArray[np.int64]
FREES: Final = -1
TOUCHES: Final = 0
TAKES: Final = 1
UNKNOWN: Final = -1
UNKNOWN_ROW: Final = -1
_PARTIAL: Final = int(EventType.PARTIAL_UPDATE_ROWS_EVENT)
_MAY_FREE: Final = sorted(map(int, DELETE_TYPES | UPDATE_TYPES))
_MAY_TAKE: Final = sorted(map(int, WRITE_TYPES | UPDATE_TYPES))


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of keys in their order, as columns. `event` is the number of the rows event, `row` orders its rows."""

    event: Ints
    row: Ints
    key: Ints
    value: Ints
    sign: Ints
    clear: Ints

    def __len__(self) -> int:
        return len(self.event)

    def chosen(self, which: Any) -> "Changes":
        """Return some of the changes."""
        return Changes(*(getattr(self, field.name)[which] for field in fields(self)))

    def of_events(self, numbers: Ints) -> "Changes":
        """Return the changes with other numbers for their events."""
        return replace(self, event=numbers[self.event])


NO_CHANGES: Final = Changes(*(np.zeros(0, np.int64) for _ in fields(Changes)))


def together(parts: list[Changes]) -> Changes:
    """Return the changes of several parts, in the order of events and rows."""
    columns = [
        np.concatenate([getattr(part, field.name) for part in [NO_CHANGES, *parts]]) for field in fields(Changes)
    ]
    whole = Changes(*columns)
    return whole.chosen(np.lexsort((whole.sign, whole.row, whole.event)))


def key_changes(plans: PlanTable, buffer: Bytes, commit_us: Ints, found: Ints, touched: bool) -> Changes:
    """Return what the rows events `found` in a buffer do to keys; `commit_us` is that of each segment.

    With `touched`, rows whose keys do not change are told too, and rows that no key tells apart. An event that cannot
    be read does nothing: rendering it reports the error.
    """
    numbered = np.column_stack([found, np.arange(len(found))])
    keyed = plans.arrays.plans[found[:, k.F_PLAN], k.KEYED]
    bodies = LogicalBodies(plans, buffer, commit_us)
    parts: list[Changes] = []
    for number in np.unique(keyed).tolist():
        table = plans.keyed[number - 1]
        events = numbered[keyed == number]
        if table.keys:
            for batch, bodies_of in bodies.batches(events):
                for cut, of in cut_bodies(table, batch, bodies_of):
                    parts += _of_rows(table, cut, of, touched)
        elif not table.known:
            parts.append(_of_unknown(table, events))
        if touched and not table.keys:
            parts.append(_unknown_rows(table, events[:, k.F_COLUMNS], np.zeros(len(events), np.int64)))
    return together(parts)


def cut_bodies(table: KeyedTable, events: Ints, bodies_of: Any) -> Iterator[tuple[CutRows, Ints]]:
    """Yield the rows of events, with the number of each row's event; those that cannot be read are passed over."""
    try:
        bodies = bodies_of(events)
        source, places = bodies.source, bodies.places
        if (places[:, 2] == _PARTIAL).any():
            source, places = with_whole_json(table.table_map, source, places, frozenset())
        cut = cut_rows(source, places, table.table_map)
    except (MergeError, BinlogFormatError, ConversionError):
        half = len(events) // 2
        for part in (events[:half], events[half:]) if half else ():
            yield from cut_bodies(table, part, bodies_of)
        return
    yield cut, events[:, k.F_COLUMNS][cut.events]


def _of_rows(table: KeyedTable, cut: CutRows, of: Ints, touched: bool) -> Iterator[Changes]:
    deleted = cut.sizes[AFTER, 0] == NO_IMAGE
    inserted = cut.sizes[BEFORE, 0] == NO_IMAGE
    updated = ~(deleted | inserted)
    identified = np.zeros(len(cut), np.bool_)
    for index, key in enumerate(table.keys):
        number = table.number * KEYS_OF_A_TABLE + index
        changed = updated & key_changed(cut, key) if updated.any() else updated
        sides = [(BEFORE, FREES, deleted | changed), (AFTER, TAKES, inserted | changed)]
        if touched:
            sides.append((BEFORE, TOUCHES, updated & ~changed))
        for side, sign, mask in sides:
            rows = np.flatnonzero(mask)
            if not len(rows):
                continue
            values, states, clear = _values(table, key, number, cut, side, rows)
            identified[rows[states == VALUE]] = True
            told = (states == VALUE) if sign == TOUCHES else (states != NULL)
            rows, values, clear = rows[told], values[told], clear[told]
            yield Changes(of[rows], rows, _all(number, rows), values, _all(sign, rows), clear)
    if touched and not identified.all():
        rows = np.flatnonzero(~identified)
        yield _unknown_rows(table, of[rows], rows)


def key_changed(cut: CutRows, key: UniqueKey) -> npt.NDArray[np.bool_]:
    """Return which updates change a key."""
    changed = np.zeros(len(cut), np.bool_)
    out = np.empty(len(cut), np.uint8)
    for column in key.columns:
        differing(cut.buffer, cut.starts, cut.sizes, column, out)
        changed |= out.view(np.bool_)
    return changed


def moments_since_5_6(cut: CutRows, key: UniqueKey, table_map: TableMap) -> CutRows:
    """Return rows with a key's moments in the format since 5.6, which another shard may have; what is none stays."""
    columns = [part.column for part in key.parts or () if is_before_5_6(table_map, part.column)]
    if not columns:
        return cut
    starts, sizes, made = cut.starts.copy(), cut.sizes.copy(), bytearray()
    for side, n, row in np.argwhere(cut.sizes[:, columns] > 0).tolist():
        at = side, columns[n], row
        cell = cut.buffer[int(starts[at]) :][: int(sizes[at])].tobytes()
        with suppress(BinlogFormatError, ValueError):
            cell = as_since_5_6(table_map, columns[n], cell)
        starts[at], sizes[at] = len(cut.buffer) + len(made), len(cell)
        made += cell
    buffer = np.concatenate([cut.buffer, np.frombuffer(bytes(made), np.uint8)])
    return replace(cut, buffer=buffer, starts=starts, sizes=sizes)


def _values(
    table: KeyedTable, key: UniqueKey, number: int, cut: CutRows, side: int, rows: Ints
) -> tuple[Ints, Ints, Ints]:
    """Return the values of a key in some rows, their states (`kernels.key_hashes`), and which of them are clear."""
    values, states = np.full(len(rows), UNKNOWN, np.int64), np.full(len(rows), ABSENT, np.int64)
    if key.parts is None:
        return values, states, np.zeros(len(rows), np.int64)
    if key.by_bytes:
        cut = moments_since_5_6(cut, key, table.table_map)
        columns = np.array([part.column for part in key.parts], np.int64)
        hash_keys(cut.buffer, cut.starts, cut.sizes, columns, side, rows, number, values, states)
        values[states == ABSENT] = UNKNOWN
        return values, states, (states == VALUE).astype(np.int64)
    clear = np.zeros(len(rows), np.int64)
    for n, row in enumerate(rows.tolist()):
        sizes = [int(cut.sizes[side, part.column, row]) for part in key.parts]
        if NULL_CELL in sizes:
            states[n] = NULL
        elif NO_CELL not in sizes:
            starts = [int(cut.starts[side, part.column, row]) for part in key.parts]
            cells = [cut.buffer[at : at + size].tobytes() for at, size in zip(starts, sizes, strict=True)]
            values[n], clear[n] = _hashed(table, key, number, cells)
            states[n] = VALUE
    return values, states, clear


def _hashed(table: KeyedTable, key: UniqueKey, number: int, cells: list[bytes]) -> tuple[int, int]:
    """Return the hash of a key's cells, of their bytes if it is not clear what they equal."""
    clear = 1
    try:
        cells = [folded(table.table_map, part, cell) for part, cell in zip(key.parts or (), cells, strict=True)]
    except Unclear:
        clear = 0
    data = b"".join(len(cell).to_bytes(4, "little") + cell for cell in (number.to_bytes(8, "little"), *cells))
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little", signed=True), clear


def _of_unknown(table: KeyedTable, events: Ints) -> Changes:
    """Return the changes of a table whose definition is not known: an event may free or take any value."""
    number = np.full(len(events), table.number * KEYS_OF_A_TABLE, np.int64)
    kinds, nothing = events[:, k.F_KIND], np.zeros(len(events), np.int64)
    sign = may_take(kinds).astype(np.int64) - may_free(kinds)  # an UPDATE is believed to keep its keys
    return Changes(events[:, k.F_COLUMNS], nothing, number, _all(UNKNOWN, events), sign, nothing)


def may_free(kinds: Ints) -> npt.NDArray[np.bool_]:
    """Return which types of rows events may free values."""
    return np.isin(kinds, _MAY_FREE)


def may_take(kinds: Ints) -> npt.NDArray[np.bool_]:
    """Return which types of rows events may take values."""
    return np.isin(kinds, _MAY_TAKE)


def _unknown_rows(table: KeyedTable, of: Ints, rows: Ints) -> Changes:
    nothing = np.zeros(len(of), np.int64)
    return Changes(of, rows, _all(UNKNOWN_ROW, of), _all(table.number, of), _all(TOUCHES, of), nothing)


def _all(value: int, like: Ints) -> Ints:
    return np.full(len(like), value, np.int64)
