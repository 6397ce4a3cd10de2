"""The order stage if rows come out later than their own key: four steps.

    stand    each range's rows by their own keys, also those that earlier runs published or held back
    split    each range's rows that an effect may hold, by the task of `hold` that judges them
    hold     one pass over the keys and table sets of some components: which rows move to which place
    settle   each range in output order: rows that stay, the DDL at its places, and after each DDL the rows moved there

The result is that of `order`: files of rows in global order, several per range, since any number of rows may be moved
into one. In them a moved row has the key of its place (`places`), with its own key in separate columns. `settle` is in
`order.held_rows`, what a component is in `order.waits`.

"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.moved_keys import DdlPlace, key_of, moved_key
from binlog_merge.pipeline.base.blocks import Read, read_block, write_block
from binlog_merge.pipeline.base.pieces import Column
from binlog_merge.pipeline.coordinate.shards.notes import HeldRows
from binlog_merge.pipeline.coordinate.shards.values import Effect, Shard
from binlog_merge.pipeline.order.hold_kernel import HELD, Holding, rows_at
from binlog_merge.pipeline.order.ordered import (
    COLUMNS,
    KEY,
    OWN,
    TOLD,
    OrderResult,
    OrderTask,
    at_least,
    in_order,
    summed,
    transactions,
)
from binlog_merge.pipeline.order.task import collect, late
from binlog_merge.pipeline.order.waits import waiting
from snapshot_store.tso import ORIGIN, OrderKey

STOOD = (*KEY, "node", "file", "start", "end", "commit_us", "flags", "set")

Range = tuple[int, str, int]
"""A range by own keys: its low TSO, its file, and the rows in it."""


@dataclass(frozen=True, slots=True)
class Stood:
    """The totals of a range by own keys. `rows` counts the rows of each table set, and `together` has the pairs of sets
    that stand side by side in a transaction; both leave out sets of which no table comes out.
    """

    result: OrderResult
    rows: tuple[tuple[int, int], ...]
    together: tuple[tuple[int, int], ...]


def stand(task: OrderTask) -> Stood:
    """Write the range's rows below the limit, by their own keys, from the first effect that holds rows."""
    assert task.holds is not None
    rows, empty, left_out = collect(task)
    too_late = late(task, rows)
    beyond = at_least(rows, task.limit)
    beyond_bytes = int(np.sum((rows["end"] - rows["start"])[beyond]))
    begin = min([task.floor, *(effect.key for effect in task.holds.effects)])
    wanted = at_least(rows, begin) & ~beyond
    rows = in_order({name: values[wanted] for name, values in rows.items()})
    write_block(task.path, {name: rows[name] for name in STOOD})
    found = summed(task.number, task.path, rows | {"first": np.zeros(len(rows["tso"]), np.int64)})
    held = int(np.count_nonzero(beyond))
    result = replace(found, empty=empty, left_out=left_out, held=held, held_bytes=beyond_bytes, late=too_late)
    judged = ~np.isin(rows["set"], list(task.apart))
    sets, keys = rows["set"][judged], np.stack([rows[name][judged] for name in KEY])
    numbers, counts = np.unique(sets, return_counts=True)
    beside = np.all(keys[:, 1:] == keys[:, :-1], axis=0) & (sets[1:] != sets[:-1])
    pairs = np.unique(np.stack([sets[:-1][beside], sets[1:][beside]]), axis=1)
    return Stood(
        result,
        tuple(zip(numbers.tolist(), counts.tolist(), strict=True)),
        tuple((a, b) for a, b in pairs.T.tolist()),
    )


@dataclass(frozen=True, slots=True)
class SplitTask:
    """A range of `stand`. `share_of` has, for each table set, the number of the task of `hold` that judges its rows, or
    -1 if no effect can hold them.
    """

    path: str
    share_of: tuple[int, ...]
    shares: int

    @property
    def reads(self) -> tuple[Read, ...]:
        """Return the range's rows."""
        return (Read(self.path),)


def split(task: SplitTask) -> None:
    """Write, for each share, its rows: their numbers in the range, their keys, and their table sets."""
    rows = read_block(task.path, (*KEY, "set"))
    shares = np.array(task.share_of, np.int64)[rows["set"]]
    keys = np.stack([rows[name] for name in KEY])
    if len(shares):  # a row of which nothing comes out goes with its transaction
        begins = np.flatnonzero(np.concatenate([[True], np.any(keys[:, 1:] != keys[:, :-1], axis=0)]))
        shares = np.repeat(np.maximum.reduceat(shares, begins), np.diff(begins, append=len(shares)))
    for share in range(task.shares):
        at = np.flatnonzero(shares == share)
        columns = {name: rows[name][at] for name in (*KEY, "set")}
        write_block(_share_of(task.path, share), columns | {"at": at})


@dataclass(frozen=True, slots=True)
class HoldTask:
    """A share of the rows of all ranges. `tables` are the tables of each numbered set that come out, `linked` those
    that foreign keys link to these.

    The answer is written to files next to each range's file.
    """

    share: int
    ranges: tuple[Range, ...]
    tables: tuple[frozenset[Shard], ...]
    effects: tuple[Effect, ...]
    linked: tuple[frozenset[Shard], ...] = ()

    @property
    def reads(self) -> tuple[Read, ...]:
        """Return the share's rows of all ranges."""
        return tuple(Read(_share_of(path, self.share)) for _, path, _ in self.ranges)


def hold(task: HoldTask) -> tuple[frozenset[int], ...]:
    """Write, for each range, the place of each row that does not stay, and which rows are moved into the range.

    Returns, for each range, the indexes of those from which rows are moved into it.
    """
    holding = Holding(task.tables, task.effects, task.linked)
    lows = [low for low, _, _ in task.ranges]
    target = np.searchsorted(lows, [place.key.commit_tso for place in holding.places], "right") - 1
    moved: list[list[tuple[Column, npt.NDArray[np.int32]]]] = [[] for _ in task.ranges]
    sources: list[set[int]] = [set() for _ in task.ranges]
    begin = 0
    for number, (_, path, count) in enumerate(task.ranges):
        rows = read_block(_share_of(path, task.share))
        places = holding.take(np.stack([rows[name] for name in KEY]), rows["set"])
        goes = np.flatnonzero(places != 0)
        write_block(places_of(path, task.share), {"at": rows["at"][goes], "place": places[goes]})
        goes = np.flatnonzero((places != 0) & (places != HELD))
        at, place = rows["at"][goes], places[goes].astype(np.int32)
        for into in np.unique(target[place - 1]).tolist():
            here = target[place - 1] == into
            moved[into].append((at[here] + begin, place[here]))
            sources[into].add(number)
        begin += count
    for (_, path, _), found in zip(task.ranges, moved, strict=True):
        row = np.concatenate([np.empty(0, np.int64), *(rows for rows, _ in found)])
        to = np.concatenate([np.empty(0, np.int32), *(places for _, places in found)])
        found.clear()
        write_block(moved_into(path, task.share), {"row": row, "place": to})
    return tuple(map(frozenset, sources))


def _share_of(path: str, share: int) -> str:
    return f"{path}.{share}.share.arrow"


def places_of(path: str, share: int) -> str:
    """Return the block with the places that a share's rows of a range move to."""
    return f"{path}.{share}.places.arrow"


def moved_into(path: str, share: int) -> str:
    """Return the block with the rows of a share that move into a range: their numbers among all ranges' rows."""
    return f"{path}.{share}.moved.arrow"


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
    ddl: tuple[DdlPlace, ...]
    places: tuple[tuple[int, DdlPlace], ...]
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

    def _ddl_row(self, place: DdlPlace, number: int) -> _Rows:
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
