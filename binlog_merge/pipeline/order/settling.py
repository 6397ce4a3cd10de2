"""The last step of the order stage if rows are held: a range in output order (`order.held_rows`)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.pipeline.base.blocks import Read, read_block, write_block
from binlog_merge.pipeline.base.columns import Column
from binlog_merge.pipeline.coordinate.shards.notes import HeldRows
from binlog_merge.pipeline.coordinate.shards.values import Shard
from binlog_merge.pipeline.order.held_rows import STOOD, Range, moved_into, places_of
from binlog_merge.pipeline.order.hold_kernel import HELD, rows_at
from binlog_merge.pipeline.order.ordered import COLUMNS, KEY, OWN, TOLD, at_least, summed, transactions
from binlog_merge.pipeline.order.values import OrderResult
from binlog_merge.pipeline.order.waiting import waiting
from binlog_merge.places import Place, key_of, moved_key
from snapshot_store.tso import ORIGIN, OrderKey

SETTLED = (*COLUMNS, *OWN, "ddl")
CHUNK = 1 << 18  # rows of one order file


@dataclass(frozen=True, slots=True)
class SettleTask:
    """One range in output order. `number` is its index among `ranges`, which are those of the `HoldTask`s.

    `ddl` are the places in the range at which a logical DDL comes out, in order; `places` those that rows are moved to,
    with their numbers. `anywhere` is the (node, file) given to a DDL that is in no log. `sources` are the indexes of
    the ranges from which rows are moved into this one, `tables` as in `HoldTask`.
    """

    number: int
    ranges: tuple[Range, ...]
    shares: int
    tables: tuple[frozenset[Shard], ...]
    floor: OrderKey
    ddl: tuple[Place, ...]
    places: tuple[tuple[int, Place], ...]
    anywhere: tuple[int, int]
    sources: frozenset[int]

    @property
    def reads(self) -> tuple[Read, ...]:
        """Return the range's own rows, what `hold` found of them, and the ranges that rows are moved from."""
        own = self.ranges[self.number][1]
        paths = (self.ranges[index][1] for index in sorted(self.sources | {self.number}))
        judged = (found(own, share) for found in (places_of, moved_into) for share in range(self.shares))
        return tuple(Read(path) for path in (*paths, *judged))


@dataclass(frozen=True, slots=True)
class Settled:
    """A range in output order, part by part. `waiting` has its rows that are not moved yet, per shard; `files` maps a
    node's number to its first file with such rows, `branches` counts them.
    """

    parts: tuple[OrderResult, ...]
    waiting: tuple[HeldRows, ...]
    files: Mapping[int, int]
    branches: int


def settle(task: SettleTask) -> Settled:
    """Write the range's rows in output order."""
    work = _Settling(task)
    parts: list[OrderResult] = []
    pending: list[_Rows] = []
    count = 0
    for stretch in work.stretches():
        pending.append(stretch)
        count += len(stretch.row)
        if count <= CHUNK:
            continue
        rows = _Rows.joined(pending)
        columns = work.columns(rows)
        whole = _last_begin(columns["first"])
        if whole:
            parts.append(_write(task, len(parts), {name: values[:whole] for name, values in columns.items()}))
        pending, count = [rows.after(whole)], len(rows.row) - whole
    rows = _Rows.joined(pending)
    if len(rows.row) or not parts:
        parts.append(_write(task, len(parts), work.columns(rows)))
    return Settled(tuple(parts), *work.waiting())


def _last_begin(first: Column) -> int:
    """Return the index of the row that begins the last transaction."""
    return int(np.flatnonzero(first)[-1])


def _write(task: SettleTask, part: int, rows: dict[str, Column]) -> OrderResult:
    path = f"{task.ranges[task.number][1]}.{part:06d}.arrow"
    write_block(path, {name: rows[name] for name in SETTLED}, told=TOLD)
    return summed(task.number, path, rows)


def _all_moved(own: str, shares: int) -> dict[str, Column]:
    """Return the rows of all shares that move into a range, by their places, and by their keys at each place."""
    found = [read_block(moved_into(own, share)) for share in range(shares)]
    row = np.concatenate([np.empty(0, np.int64), *(one["row"] for one in found)])
    place = np.concatenate([np.empty(0, np.int32), *(one["place"] for one in found)])
    by_place = np.lexsort((row, place))
    return {"row": row[by_place], "place": place[by_place]}


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows in output order: the number of each among all ranges' rows, its place, and whether it is a DDL.

    `place` is 0 for rows that stay, otherwise 1 + the index among all places, those of DDL and of rows. `row` is -1 for
    a DDL that is in no log.
    """

    row: Column
    place: Column
    ddl: Column

    @classmethod
    def joined(cls, parts: Sequence["_Rows"]) -> "_Rows":
        nothing = np.empty(0, np.int64)
        return cls(
            np.concatenate([nothing, *(part.row for part in parts)]),
            np.concatenate([nothing, *(part.place for part in parts)]),
            np.concatenate([nothing, *(part.ddl for part in parts)]),
        )

    def after(self, start: int) -> "_Rows":
        return _Rows(self.row[start:], self.place[start:], self.ddl[start:])


class _Settling:
    """One range being settled: the rows that stay, its places, and the files with the rows' columns."""

    def __init__(self, task: SettleTask) -> None:
        self._task = task
        self._begins = np.cumsum([0, *(count for _, _, count in task.ranges)])
        own = task.ranges[task.number][1]
        rows = read_block(own)
        self._keys = np.stack([rows[name] for name in KEY])
        self._flags = rows["flags"]
        places = np.zeros(len(self._flags), np.int64)
        for share in range(task.shares):
            judged = read_block(places_of(own, share))
            places[judged["at"]] = judged["place"]
        self._waits = np.flatnonzero(places == HELD)
        stays = (places == 0) & ((self._flags & k.DDL) == 0)
        self._stays = np.flatnonzero(stays & at_least(rows, task.floor)) + self._begins[task.number]
        self._moved = _all_moved(own, task.shares)
        self._ddl = frozenset(task.ddl)
        self._places = sorted({*task.ddl, *(place for _, place in task.places)})

    def waiting(self) -> tuple[tuple[HeldRows, ...], dict[int, int], int]:
        """Return the range's rows that are not moved yet: per shard, the first file of each node, and how many."""
        own = self._task.ranges[self._task.number][1]
        rows = {name: values[self._waits] for name, values in read_block(own).items()}
        return waiting(rows, self._task.tables)

    def stretches(self) -> Iterator[_Rows]:
        """Yield the range's rows in output order, in stretches of at most CHUNK rows."""
        begin = int(self._begins[self._task.number])
        to = self._moved["place"]
        numbers = {place: number for number, place in self._task.places}
        done = 0
        for number, place in enumerate(self._places, 1):
            at = begin + rows_at(self._keys, place.key)[0]
            until = int(np.searchsorted(self._stays, at))
            yield from self._cut(self._stays[done:until], 0)
            done = until
            if place in self._ddl:
                yield self._ddl_row(place, number)
            if place in numbers:
                low, high = (int(np.searchsorted(to, numbers[place], side)) for side in ("left", "right"))
                yield from self._cut(self._moved["row"][low:high], number)
        yield from self._cut(self._stays[done:], 0)

    def _cut(self, rows: Column, place: int) -> Iterator[_Rows]:
        for start in range(0, len(rows), CHUNK):
            part = rows[start : start + CHUNK]
            yield _Rows(part, np.full(len(part), place), np.zeros(len(part), np.int64))

    def _ddl_row(self, place: Place, number: int) -> _Rows:
        """Return the row of the DDL at a place: the node's own row there, or -1 if it is in no log."""
        low, high = rows_at(self._keys, place.key)
        row = int(self._begins[self._task.number]) + low if high > low else -1
        return _Rows(np.array([row]), np.array([number]), np.ones(1, np.int64))

    def columns(self, rows: _Rows) -> dict[str, Column]:
        """Return the columns of rows in output order."""
        n = len(rows.row)
        found = {name: np.zeros(n, np.int64) for name in STOOD}
        source = np.searchsorted(self._begins, rows.row, "right") - 1
        for number in np.unique(source).tolist():
            if number < 0:
                continue
            at = np.flatnonzero(source == number)
            block = read_block(self._task.ranges[number][1])
            for name in STOOD:
                found[name][at] = block[name][rows.row[at] - self._begins[number]]
        ddl = rows.ddl > 0
        nowhere = rows.row < 0
        found["node"][nowhere], found["file"][nowhere] = self._task.anywhere
        of_ddl = np.array([ORIGIN, *(key_of(place) for place in self._places)], np.int64)
        of_moved = np.array([ORIGIN, *(moved_key(place) for place in self._places)], np.int64)
        leading = {place.key: place for place in reversed(self._task.ddl)}
        counted = np.array([False, *(leading.get(place.key) == place for place in self._places)])
        for column, (name, own) in enumerate(zip(KEY, OWN, strict=True)):
            place = np.where(ddl, of_ddl[rows.place, column], of_moved[rows.place, column])
            found[own] = np.where(ddl, place, found[name])
            found[name] = np.where(rows.place == 0, found[name], place)
        # If one DDL of a node yields several, the first is given its bytes.
        sized = ~ddl | (counted[rows.place] & (found["flags"] & k.DDL != 0))
        found["end"] = np.where(sized, found["end"], found["start"])
        found["flags"] = np.where(ddl, k.MARKER, found["flags"])
        found["place"], found["ddl"] = rows.place, rows.ddl
        return found | transactions(found, (*OWN, "place", "ddl"))
