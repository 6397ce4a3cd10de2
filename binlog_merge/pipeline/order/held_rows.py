"""The order stage if rows come out later than their own key: four steps.

    stand    each range's rows by their own keys, also those that earlier runs published or held back
    split    each range's rows that an effect may hold, by the task of `hold` that judges them
    hold     one pass over the keys and table sets of some components: which rows move to which place
    settle   each range in output order: rows that stay, the DDL at its places, and after each DDL the rows moved there

The result is that of `order`: files of rows in global order, several per range, since any number of rows may be moved
into one. In them a moved row has the key of its place (`places`), with its own key in separate columns. `settle` is in
`order.settling`, what a component is in `order.components`.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from binlog_merge.pipeline.base.blocks import Read, read_block, write_block
from binlog_merge.pipeline.base.columns import Column
from binlog_merge.pipeline.coordinate.shards.values import Effect, Shard
from binlog_merge.pipeline.order.hold_kernel import HELD, Holding
from binlog_merge.pipeline.order.ordered import KEY, at_least, in_order, summed
from binlog_merge.pipeline.order.task import collect, late
from binlog_merge.pipeline.order.values import OrderResult, OrderTask

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
    rows, empty = collect(task)
    too_late = late(task, rows)
    beyond = at_least(rows, task.limit)
    beyond_bytes = int(np.sum((rows["end"] - rows["start"])[beyond]))
    begin = min([task.floor, *(effect.key for effect in task.holds.effects)])
    wanted = at_least(rows, begin) & ~beyond
    rows = in_order({name: values[wanted] for name, values in rows.items()})
    write_block(task.path, {name: rows[name] for name in STOOD})
    found = summed(task.number, task.path, rows | {"first": np.zeros(len(rows["tso"]), np.int64)})
    held = int(np.count_nonzero(beyond))
    result = replace(found, empty=empty, held=held, held_bytes=beyond_bytes, late=too_late)
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
