"""The order stage: bring one range of commit TSOs into the global order, from the index blocks of all nodes.

A range holds every row with `low <= commit_tso < high`; ranges need not be even. The result is one Arrow file of rows
in global order, a row per branch, so that the driver can cut output files exactly and gather needs no sorting.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.binlog.kernels.sort import sorted_places
from binlog_merge.merge.assemble import Patch, local_keys
from binlog_merge.polardbx.places import Places, Span
from binlog_merge.stages.block import Column, read_block, write_block
from binlog_merge.stages.holds import Holds
from snapshot_store.topology import Topology
from snapshot_store.tso import FIRST_MILLIS, LAST_MILLIS, LOGICAL_BITS, ORIGIN, OrderKey

# `first` is 1 where a transaction begins, `before` the input bytes of the range's rows before this one, `rank` the
# transactions begun before it; commit_us is the transaction's.
COLUMNS = (
    "tso", "transaction", "seq", "node_seq", "node", "file", "start", "end", "commit_us", "flags", "first", "before",
    "rank",
)  # fmt: skip

LEAST, GREATEST = -(1 << 63), (1 << 63) - 1

TableSet = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Block:
    """One scanned piece as the order stage sees it. `path` is the prefix of its files; `node` the node's number."""

    node: int
    source_id: str
    file_index: int
    path: str
    patch: Patch
    sets: tuple[TableSet, ...]


@dataclass(frozen=True, slots=True)
class EdgeRow:
    """A branch completed on the driver; `tables` decides whether it comes out."""

    node: int
    source_id: str
    file_index: int
    tso: int
    transaction: int
    start: int
    end: int
    commit_us: int
    tables: TableSet
    flags: int
    seq: int = 0  # > 0: a transaction without a TSO of its own

    @property
    def key(self) -> OrderKey:
        return OrderKey(self.tso, self.transaction, self.seq, self.node if self.seq else 0)


@dataclass(frozen=True, slots=True)
class OrderTask:
    """One range: rows with low <= tso < high and floor <= key < limit. `ddl` are the keys at which a logical DDL comes
    out that a marker gives. Where there are `places` they say which tables come out, else the topology. With `holds`,
    rows come out elsewhere than they stand: see `stages.held`.
    """

    number: int
    low: int
    high: int
    floor: OrderKey
    limit: OrderKey
    blocks: tuple[Block, ...]
    edges: tuple[EdgeRow, ...]
    topology: Topology
    ddl: frozenset[tuple[int, int]]
    seen: Mapping[int, tuple[int, int]]  # by node: (file, offset) up to which earlier runs had read
    path: str
    places: Places | None = None
    heartbeat: int = 0  # seconds of TSO time between heartbeats that come out; 0: none do
    holds: Holds | None = None
    sets: Mapping[tuple[str, TableSet], int] = field(default_factory=dict)  # with holds: numbers of nodes' table sets


@dataclass(frozen=True, slots=True)
class OrderResult:
    """What a range holds. `last` is its greatest key, None when it is empty; `empty` counts branches that touch no
    logical table.
    """

    number: int
    path: str
    rows: int
    transactions: int
    bytes: int
    last: OrderKey | None
    empty: int
    ddl: int
    held: int  # branches at or after the limit, and their bytes
    held_bytes: int
    late: tuple[OrderKey, int, int, int] | None  # a local below the floor that no run has seen: key, node, file, offset


def order(task: OrderTask) -> OrderResult:
    """Write the range's rows in global order."""
    rows, empty = collect(task)
    too_late = late(task, rows)
    held = at_least(rows, task.limit)
    held_bytes = int(np.sum((rows["end"] - rows["start"])[held]))
    rows = in_order(_within(rows, task.floor, task.limit))
    rows |= transactions(rows, KEY)
    write_block(task.path, {name: rows[name] for name in COLUMNS})
    found = summed(task.number, task.path, rows)
    return replace(found, empty=empty, held=int(np.count_nonzero(held)), held_bytes=held_bytes, late=too_late)


def collect(task: OrderTask) -> tuple[dict[str, Column], int]:
    """Return the range's rows that have a logical table, in no order, and how many have none.

    With holds, each row has the number of its table set too, and the nodes' DDL at which a logical DDL comes out are
    rows as well.
    """
    runs, empty = [], 0
    keeper = _Keeper(task)
    for block in task.blocks:
        for run in (_timed(task, block, keeper), _local(task, block, keeper)):
            kept = run.pop("keep").astype(bool)
            empty += int(np.count_nonzero(~kept))
            runs.append({name: values[kept] for name, values in run.items()})
    edges, dropped = _edges(task, keeper)
    runs.append(edges)
    return {name: np.concatenate([run[name] for run in runs]) for name in runs[0]}, empty + dropped


def summed(number: int, path: str, rows: Mapping[str, Column]) -> OrderResult:
    """Return what rows in global order come to."""
    count = len(rows["tso"])
    begins = rows["first"] == 1
    return OrderResult(
        number,
        path,
        count,
        int(np.count_nonzero(begins)),
        int(np.sum(rows["end"] - rows["start"])),
        OrderKey(*(int(rows[name][-1]) for name in KEY)) if count else None,
        0,
        int(np.count_nonzero(begins & ((rows["flags"] & (k.MARKER | k.HEARTBEAT)) == k.MARKER))),
        0,
        0,
        None,
    )


def late(task: OrderTask, rows: Mapping[str, Column]) -> tuple[OrderKey, int, int, int] | None:
    """Return a transaction without a TSO of its own that stands below the floor although no run has seen it yet."""
    below = np.flatnonzero(~at_least(rows, task.floor) & (rows["seq"] > 0))
    for i in below.tolist():
        node, file, start = (int(rows[name][i]) for name in ("node", "file", "start"))
        if node in task.seen and (file, start) >= task.seen[node]:
            return OrderKey(*(int(rows[name][i]) for name in KEY)), node, file, start
    return None


class _Keeper:
    """Decides which branches have a logical table: once per table set, where that is the same at all keys."""

    def __init__(self, task: OrderTask) -> None:
        self._topology = task.topology
        self._places = task.places
        self._ddl = np.array(sorted(task.ddl), np.int64).reshape(-1, 2)
        self._known: dict[tuple[str, str, str], bool] = {}
        self.shard_ddl = frozenset(() if task.holds is None else (place.key for place in task.holds.ddl))

    def tables(self, source_id: str, tables: TableSet, key: OrderKey) -> bool:
        """Tell whether one of the tables comes out for a transaction with this key."""
        if self._places is not None:
            return any(self._places.logical_name(source_id, *table, key) is not None for table in tables)
        return any(self._table(source_id, schema, table) for schema, table in tables)

    def _table(self, source_id: str, schema: str, table: str) -> bool:
        key = (source_id, schema, table)
        if key not in self._known:
            self._known[key] = self._topology.logical_name(source_id, schema, table) is not None
        return self._known[key]

    def rows(self, block: Block, sets: Column, keys: Sequence[Column]) -> Column:
        """Return 1 for each row, given by its set and its key's columns, that has a logical table, else 0."""
        if not len(sets):
            return np.empty(0, np.int64)
        places = self._places
        if places is None:
            always = np.array([self.tables(block.source_id, tables, ORIGIN) for tables in block.sets], np.int64)
            return always[sets]
        low, high = int(keys[0].min()), int(keys[0].max())
        always = np.zeros(len(block.sets), np.int64)
        changing: dict[int, list[Span]] = {}
        for number, tables in enumerate(block.sets):
            spans = [places.of(block.source_id, *table) for table in tables]
            always[number] = any(
                places.logical_name(block.source_id, *table, ORIGIN) is not None
                for table, known in zip(tables, spans, strict=True)
                if known is None
            ) or any(_covers(span, low, high) for known in spans for span in known or ())
            if not always[number]:
                changing[number] = [s for known in spans for s in known or () if _meets(s, low, high)]
        keep = always[sets]
        for number, found in changing.items():
            if found:
                at = np.flatnonzero(sets == number)
                part = {name: column[at] for name, column in zip(KEY, keys, strict=True)}
                for span in found:
                    inside = _above(part, span.after)
                    if span.until is not None:
                        inside &= ~_above(part, span.until)
                    keep[at[inside]] = 1
        return keep

    def markers(self, tso: Column, transaction: Column, flags: Column, keep: Column) -> Column:
        """A marker comes out where a logical DDL stands, and nowhere else; its own rows never do."""
        marked = np.flatnonzero(flags & k.MARKER)
        for i in marked.tolist():
            here = (self._ddl[:, 0] == tso[i]) & (self._ddl[:, 1] == transaction[i])
            keep[i] = int(here.any())
        return keep


def _covers(span: Span, low: int, high: int) -> bool:
    """Tell whether a span holds for every key with low <= tso <= high."""
    return span.after.commit_tso < low and (span.until is None or high < span.until.commit_tso)


def _meets(span: Span, low: int, high: int) -> bool:
    """Tell whether a span may hold for some key with low <= tso <= high."""
    return span.after.commit_tso <= high and (span.until is None or low <= span.until.commit_tso)


def _above(rows: Mapping[str, Column], key: OrderKey) -> npt.NDArray[np.bool_]:
    return at_least(rows, key._replace(node_seq=key.node_seq + 1))


def _timed(task: OrderTask, block: Block, keeper: _Keeper) -> dict[str, Column]:
    columns = read_block(f"{block.path}.timed.arrow")
    a, b = np.searchsorted(columns["tso"], [task.low, task.high])
    columns = {name: values[a:b] for name, values in columns.items()}
    own = (columns["flags"] & k.OWN_TSO) != 0
    seq, node_seq = np.zeros(b - a, np.int64), np.where(own, block.node, 0).astype(np.int64)
    keep = keeper.rows(block, columns["set"], (columns["tso"], columns["transaction"], seq, node_seq))
    flags, keep = columns["flags"], keeper.markers(columns["tso"], columns["transaction"], columns["flags"], keep)
    if task.heartbeat:
        beats = _beats(columns["tso"], flags, task.heartbeat)
        flags, keep = np.where(beats, flags | k.MARKER, flags), keep | beats
    return {
        "tso": columns["tso"],
        "transaction": columns["transaction"],
        "seq": seq,
        "node_seq": node_seq,
        "node": np.full(b - a, block.node, np.int64),
        "file": np.full(b - a, block.file_index, np.int64),
        "start": columns["start"],
        "end": columns["end"],
        "commit_us": columns["commit_us"],
        "flags": flags,
        "keep": keep,
    } | _numbered(task, block, columns["set"])  # fmt: skip


def _beats(tso: Column, flags: Column, interval: int) -> npt.NDArray[np.bool_]:
    """Tell which rows are heartbeats that come out: those in seconds that are multiples of the interval, as in
    PolarDB-X's global binlog (`LogFileGenerator`, binlog_write_heartbeat_interval). They come out without rows, as DDL
    do.
    """
    wanted = (tso >> LOGICAL_BITS) // 1000 % interval == 0
    return wanted & ((flags & (k.HEARTBEAT | k.MARKER)) == k.HEARTBEAT)


def _local(task: OrderTask, block: Block, keeper: _Keeper) -> dict[str, Column]:
    columns = read_block(f"{block.path}.local.arrow")
    keys = local_keys(columns["max_tso"], columns["max_transaction"], block.patch)
    a, b = np.searchsorted(keys.tso, [task.low, task.high])
    columns = {name: values[a:b] for name, values in columns.items()}
    numbers = _numbered(task, block, columns["set"])
    start, end, flags = columns["start"].copy(), columns["end"].copy(), columns["flags"].copy()
    file = np.full(b - a, block.file_index, np.int64)
    node_seq = np.full(b - a, block.node, np.int64)
    key = (keys.tso[a:b], keys.transaction[a:b], keys.seq[a:b], node_seq)
    keep = keeper.rows(block, columns["set"], key)
    for branch in block.patch.kept:
        at = branch.local - a
        if 0 <= at < b - a:
            start[at], end[at], file[at], flags[at] = branch.start, branch.end, branch.file_index, branch.flags
            here = OrderKey(*(int(column[at]) for column in key))
            keep[at] = keeper.tables(block.source_id, branch.tables, here)
            if task.holds is not None:
                numbers["set"][at] = task.sets[block.source_id, branch.tables]
    keep = keep * (keys.alive[a:b] & ((flags & (k.DDL | k.MARKER)) == 0))
    if keeper.shard_ddl:
        for at in np.flatnonzero(flags & k.DDL).tolist():
            keep[at] = OrderKey(*(int(column[at]) for column in key)) in keeper.shard_ddl
    return {
        "tso": keys.tso[a:b],
        "transaction": keys.transaction[a:b],
        "seq": keys.seq[a:b],
        "node_seq": node_seq,
        "node": np.full(b - a, block.node, np.int64),
        "file": file,
        "start": start,
        "end": end,
        "commit_us": columns["commit_us"],
        "flags": flags,
        "keep": keep,
    } | numbers  # fmt: skip


def _numbered(task: OrderTask, block: Block, sets: Column) -> dict[str, Column]:
    """Return each row's number of its table set, where somebody holds rows."""
    if task.holds is None:
        return {}
    return {"set": np.array([*(task.sets[block.source_id, tables] for tables in block.sets), -1], np.int64)[sets]}


def _beating(edge: EdgeRow, interval: int) -> EdgeRow:
    """Return a branch that is a heartbeat as one that comes out, if it does."""
    if not interval or not edge.flags & k.HEARTBEAT:
        return edge
    beats = _beats(np.array([edge.tso]), np.array([edge.flags]), interval)[0]
    return replace(edge, flags=edge.flags | k.MARKER) if beats else edge


def _edges(task: OrderTask, keeper: _Keeper) -> tuple[dict[str, Column], int]:
    inside = [_beating(e, task.heartbeat) for e in task.edges if task.low <= e.tso < task.high]
    kept = [
        e
        for e in inside
        if (
            (e.tso, e.transaction) in task.ddl or bool(e.flags & k.HEARTBEAT)
            if e.flags & k.MARKER
            else keeper.tables(e.source_id, e.tables, e.key)
        )
    ]
    column = lambda name: np.array([getattr(e, name) for e in kept], np.int64)  # noqa: E731
    rows = {
        "tso": column("tso"), "transaction": column("transaction"), "seq": column("seq"),
        "node_seq": np.array([e.key.node_seq for e in kept], np.int64),
        "node": column("node"), "file": column("file_index"), "start": column("start"), "end": column("end"),
        "commit_us": column("commit_us"), "flags": column("flags"),
    }  # fmt: skip
    if task.holds is not None:
        rows["set"] = np.array([task.sets[e.source_id, e.tables] for e in kept], np.int64)
    return rows, len(inside) - len(kept)


def _within(rows: Mapping[str, Column], floor: OrderKey, limit: OrderKey) -> dict[str, Column]:
    """Keep the rows with floor <= key < limit."""
    keep = at_least(rows, floor) & ~at_least(rows, limit)
    return dict(rows) if keep.all() else {name: values[keep] for name, values in rows.items()}


KEY = ("tso", "transaction", "seq", "node_seq")


def at_least(rows: Mapping[str, Column], key: OrderKey) -> npt.NDArray[np.bool_]:
    result = np.ones(len(rows["tso"]), np.bool_)
    for name, part in zip(reversed(KEY), reversed(key), strict=True):
        result = (rows[name] > part) | ((rows[name] == part) & result)
    return result


def in_order(rows: dict[str, Column]) -> dict[str, Column]:
    """Sort by key, then node, file and offset: the order in which the branches of one transaction come out."""
    place = sorted_places(np.stack([rows[name] for name in (*KEY, "node", "file", "start")]))
    return {name: values[place] for name, values in rows.items()}


def transactions(rows: Mapping[str, Column], key: Sequence[str]) -> dict[str, Column]:
    """Join neighbours with one key: mark where transactions begin, and give each its commit time and what stands before
    it.
    """
    n = len(rows["tso"])
    first = np.ones(n, np.int64)
    if n > 1:
        same = np.ones(n - 1, np.bool_)
        for name in key:
            same &= rows[name][1:] == rows[name][:-1]
        first[1:] = ~same
    size = rows["end"] - rows["start"]
    before = np.cumsum(size) - size
    rank = np.cumsum(first) - 1
    begins = np.flatnonzero(first)
    commit_us = np.maximum.reduceat(rows["commit_us"], begins)[rank] if n else rows["commit_us"]
    return {"first": first, "before": before, "rank": rank, "commit_us": _commit_times(rows["tso"], commit_us)}


def _commit_times(tso: Column, commit_us: Column) -> Column:
    """Take the commit TSO's own time where it carries one (`snapshot_store.tso.carries_time`), else the source's."""
    millis = tso >> LOGICAL_BITS
    return np.where((millis >= FIRST_MILLIS) & (millis < LAST_MILLIS), millis * 1000, commit_us)


def ranges(points: Sequence[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """Cut the TSOs into up to `count` ranges of about the same bytes, from the quantiles of all pieces."""
    if not points or count <= 1:
        return [(LEAST, GREATEST)]
    ordered = sorted(points)
    total = sum(weight for _, weight in ordered)
    cuts: list[int] = []
    reached = 0
    for tso, weight in ordered:
        reached += weight
        if len(cuts) < count - 1 and reached * count >= total * (len(cuts) + 1) and (not cuts or tso + 1 > cuts[-1]):
            cuts.append(tso + 1)
    bounds = [LEAST, *cuts, GREATEST]
    return list(pairwise(bounds))
