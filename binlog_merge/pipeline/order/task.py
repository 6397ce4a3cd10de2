"""The order stage: sort one range of commit TSOs into the global order, from the index blocks of all nodes.

A range holds every row with `low <= commit_tso < high`; ranges may differ in size. The result is one Arrow file of rows
in global order, a row per branch, so that the driver can cut output files exactly and gather needs no sorting.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.pipeline.assemble.values import Block, EdgeRow, TableSet
from binlog_merge.pipeline.base.blocks import write_block
from binlog_merge.pipeline.base.pieces import Column
from binlog_merge.pipeline.order.ordered import (
    COLUMNS,
    KEY,
    TOLD,
    OrderResult,
    OrderTask,
    at_least,
    in_order,
    summed,
    transactions,
)
from binlog_merge.polardbx.table_mapping import Span
from snapshot_store.topology import Hidden
from snapshot_store.tso import LOGICAL_BITS, ORIGIN, OrderKey

LEAST, GREATEST = -(1 << 63), (1 << 63) - 1
_LEFT_OUT = 2
"""In place of 1, the rows come out: those of transactions that the configuration leaves out."""


class _Keeper:
    """Decides which branches have a logical table: once per table set, if the answer is the same at all keys."""

    def __init__(self, task: OrderTask) -> None:
        self._topology = task.topology
        self._places = task.places
        self._ddl = np.array(sorted(task.ddl), np.int64).reshape(-1, 2)
        self._known: dict[tuple[str, str, str], bool] = {}
        self.shard_ddl = frozenset(() if task.holds is None else (place.key for place in task.holds.ddl))

    def tables(self, source_id: str, tables: TableSet, key: OrderKey) -> bool:
        """Return whether one of the tables comes out for a transaction with this key."""
        if self._topology.ignores_transaction(tables):
            return False
        if self._places is not None:
            return any(self._places.logical_name(source_id, *table, key) is not None for table in tables)
        return any(
            self._table(source_id, schema, table)
            and not any(hidden.holds(key) for hidden in self._topology.hidden_times(source_id, schema, table))
            for schema, table in tables
        )

    def _table(self, source_id: str, schema: str, table: str) -> bool:
        key = (source_id, schema, table)
        if key not in self._known:
            self._known[key] = self._topology.logical_name(source_id, schema, table) is not None
        return self._known[key]

    def left_out(self, source_id: str, tables: TableSet, key: OrderKey) -> bool:
        """Return whether one of the tables would come out if the configuration did not leave out the transaction."""
        if not self._topology.ignores_transaction(tables):
            return False
        if self._places is not None:
            return any(self._places.logical_name(source_id, *table, key) is not None for table in tables)
        return any(self._table(source_id, *table) for table in tables)

    def ignored(self, block: Block, sets: Column) -> npt.NDArray[np.bool_]:
        """Return which rows change a table for which the configuration leaves out a transaction."""
        found = [number for number, tables in enumerate(block.sets) if self._topology.ignores_transaction(tables)]
        return np.isin(sets, found)

    def is_ignored(self, tables: TableSet) -> bool:
        """Return whether the configuration leaves out a transaction that changes these tables."""
        return self._topology.ignores_transaction(tables)

    def rows(self, block: Block, sets: Column, keys: Sequence[Column]) -> Column:
        """Return 1 for each row that has a logical table, 2 if its transaction is left out nevertheless, else 0. Rows
        are given by their table set and the columns of their key.
        """
        keep = self._coming_out(block, sets, keys)
        return np.where(self.ignored(block, sets), keep * _LEFT_OUT, keep)

    def _coming_out(self, block: Block, sets: Column, keys: Sequence[Column]) -> Column:
        if not len(sets):
            return np.empty(0, np.int64)
        places = self._places
        if places is None:
            return self._routed(block, sets, keys)
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

    def _routed(self, block: Block, sets: Column, keys: Sequence[Column]) -> Column:
        """Return the same where routes alone, and tools' tables that are hidden for a time, decide."""
        keep = np.zeros(len(block.sets), np.int64)
        hidden: dict[int, list[tuple[Hidden, ...]]] = {}
        for number, tables in enumerate(block.sets):
            routed = [name for name in tables if self._table(block.source_id, *name)]
            times = [self._topology.hidden_times(block.source_id, *name) for name in routed]
            keep[number] = any(not found for found in times)
            if times and all(times):
                hidden[number] = times
        keep = keep[sets]
        for number, of_tables in hidden.items():
            at = np.flatnonzero(sets == number)
            part = {name: column[at] for name, column in zip(KEY, keys, strict=True)}
            for found in of_tables:
                keep[at[~_hidden(part, found)]] = 1
        return keep

    def markers(self, tso: Column, transaction: Column, flags: Column, keep: Column) -> Column:
        """Return `keep` with 1 for markers at whose key a logical DDL comes out, and 0 for others. Changes `keep`."""
        marked = np.flatnonzero(flags & k.MARKER)
        for i in marked.tolist():
            here = (self._ddl[:, 0] == tso[i]) & (self._ddl[:, 1] == transaction[i])
            keep[i] = int(here.any())
        return keep


def _covers(span: Span, low: int, high: int) -> bool:
    """Return whether a span holds for every key with low <= tso <= high."""
    return span.after.commit_tso < low and (span.until is None or high < span.until.commit_tso)


def _meets(span: Span, low: int, high: int) -> bool:
    """Return whether a span may hold for some key with low <= tso <= high."""
    return span.after.commit_tso <= high and (span.until is None or low <= span.until.commit_tso)


def _hidden(rows: Mapping[str, Column], times: Sequence[Hidden]) -> npt.NDArray[np.bool_]:
    """Return which rows have a key in one of the times."""
    found = np.zeros(len(rows[KEY[0]]), bool)
    for one in times:
        found |= at_least(rows, one.since) & (True if one.until is None else ~at_least(rows, one.until))
    return found


def _above(rows: Mapping[str, Column], key: OrderKey) -> npt.NDArray[np.bool_]:
    return at_least(rows, key._replace(node_seq=key.node_seq + 1))


def order(task: OrderTask) -> OrderResult:
    """Write the range's rows in global order."""
    rows, empty, left_out = collect(task)
    too_late = late(task, rows)
    held = at_least(rows, task.limit)
    held_bytes = int(np.sum((rows["end"] - rows["start"])[held]))
    rows = in_order(_within(rows, task.floor, task.limit))
    rows |= transactions(rows, KEY)
    write_block(task.path, {name: rows[name] for name in COLUMNS}, told=TOLD)
    found = summed(task.number, task.path, rows)
    return replace(
        found, empty=empty, left_out=left_out, held=int(np.count_nonzero(held)), held_bytes=held_bytes, late=too_late
    )


class Collected(NamedTuple):
    """The rows of a range that come out, unsorted; how many have no logical table, and how many are of transactions
    that the configuration leaves out.
    """

    rows: dict[str, Column]
    empty: int
    left_out: int


def collect(task: OrderTask) -> Collected:
    """Return the range's rows that have a logical table, and the numbers of the others.

    With holds, each row also has the number of its table set, and the nodes' DDL at which a logical DDL comes out are
    rows as well.
    """
    runs, empty, left_out = [], 0, set[OrderKey]()
    keeper = _Keeper(task)
    gone = {edge.key for edge in task.edges if keeper.is_ignored(edge.tables)}
    for block in task.blocks:
        for run in _runs(task, block, keeper):
            keep, ignored = run.pop("keep"), run.pop("ignored")
            gone |= set(_keys(run, np.flatnonzero(ignored)))
            kept, out = keep == 1, keep == _LEFT_OUT
            left_out |= set(_keys(run, np.flatnonzero(out)))
            empty += int(np.count_nonzero(keep == 0))
            runs.append({name: values[kept] for name, values in run.items()})
    edges, dropped, edges_out = _edges(task, keeper)
    runs.append(edges)
    rows = {name: np.concatenate([run[name] for run in runs]) for name in runs[0]}
    others = _of(rows, gone)
    left_out |= edges_out | set(_keys(rows, np.flatnonzero(others)))
    rows = {name: values[~others] for name, values in rows.items()}
    return Collected(rows, empty + dropped, sum(task.floor <= key < task.limit for key in left_out))


def _keys(rows: Mapping[str, Column], numbers: Column) -> Iterator[OrderKey]:
    """Yield the keys of some rows."""
    return map(OrderKey, *(rows[name][numbers].tolist() for name in KEY))


def _of(rows: Mapping[str, Column], keys: set[OrderKey]) -> npt.NDArray[np.bool_]:
    """Return which rows are branches of transactions with these keys: other nodes have changed none of the tables."""
    found = np.isin(rows["tso"], [key.commit_tso for key in keys])
    near = np.flatnonzero(found)
    found[near] = [key in keys for key in _keys(rows, near)]
    return found


def _runs(task: OrderTask, block: Block, keeper: _Keeper) -> Iterator[dict[str, Column]]:
    """Yield what the range has of a block."""
    if block.has_timed(task.low, task.high):
        yield _timed(task, block, keeper)
    if block.has_local(task.low, task.high):
        yield _local(task, block, keeper)


def late(task: OrderTask, rows: Mapping[str, Column]) -> tuple[OrderKey, int, int, int] | None:
    """Return a transaction without a TSO of its own that lies below the floor and is new in this run, None if there is
    none.
    """
    below = np.flatnonzero(~at_least(rows, task.floor) & (rows["seq"] > 0))
    for i in below.tolist():
        node, file, start = (int(rows[name][i]) for name in ("node", "file", "start"))
        if node in task.seen and (file, start) >= task.seen[node]:
            return OrderKey(*(int(rows[name][i]) for name in KEY)), node, file, start
    return None


def _timed(task: OrderTask, block: Block, keeper: _Keeper) -> dict[str, Column]:
    columns = block.timed()
    a, b = np.searchsorted(columns["tso"], [task.low, task.high])
    columns = {name: values[a:b] for name, values in columns.items()}
    own = (columns["flags"] & k.OWN_TSO) != 0
    seq, node_seq = np.zeros(b - a, np.int64), np.where(own, block.node, 0).astype(np.int64)
    keep = keeper.rows(block, columns["set"], (columns["tso"], columns["transaction"], seq, node_seq))
    flags, keep = columns["flags"], keeper.markers(columns["tso"], columns["transaction"], columns["flags"], keep)
    if task.heartbeat:
        # One that also changes rows which come out keeps them.
        beats = _beats(columns["tso"], flags, task.heartbeat) & ~keep.astype(bool)
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
        "ignored": keeper.ignored(block, columns["set"]),
    } | _numbered(task, block, columns["set"])  # fmt: skip


def _beats(tso: Column, flags: Column, interval: int) -> npt.NDArray[np.bool_]:
    """Return which rows are heartbeats that come out: those in seconds that are multiples of the interval.

    PolarDB-X's global binlog does the same (`LogFileGenerator`, binlog_write_heartbeat_interval). Heartbeats come out
    without rows, like DDL.
    """
    wanted = (tso >> LOGICAL_BITS) // 1000 % interval == 0
    return wanted & ((flags & (k.HEARTBEAT | k.MARKER)) == k.HEARTBEAT)


def _local(task: OrderTask, block: Block, keeper: _Keeper) -> dict[str, Column]:
    first, columns, keys = block.local_part()
    a, b = np.searchsorted(keys.tso, [task.low, task.high])
    columns = {name: values[a:b] for name, values in columns.items()}
    numbers = _numbered(task, block, columns["set"])
    start, end, flags = columns["start"].copy(), columns["end"].copy(), columns["flags"].copy()
    file = np.full(b - a, block.file_index, np.int64)
    node_seq = np.full(b - a, block.node, np.int64)
    key = (keys.tso[a:b], keys.transaction[a:b], keys.seq[a:b], node_seq)
    keep, ignored = keeper.rows(block, columns["set"], key), keeper.ignored(block, columns["set"])
    for branch in block.patch.kept:
        at = branch.local - first - a
        if 0 <= at < b - a:
            start[at], end[at], file[at], flags[at] = branch.start, branch.end, branch.file_index, branch.flags
            here = OrderKey(*(int(column[at]) for column in key))
            keep[at] = keeper.tables(block.source_id, branch.tables, here)
            ignored[at] = keeper.is_ignored(branch.tables)
            if keeper.left_out(block.source_id, branch.tables, here):
                keep[at] = _LEFT_OUT
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
        "ignored": ignored & (keys.alive[a:b] != 0),
    } | numbers  # fmt: skip


def _numbered(task: OrderTask, block: Block, sets: Column) -> dict[str, Column]:
    """Return the column with each row's table set number, if rows are held."""
    if task.holds is None:
        return {}
    return {"set": np.array([*(task.sets[block.source_id, tables] for tables in block.sets), -1], np.int64)[sets]}


def _kept_edge(task: OrderTask, keeper: _Keeper, edge: EdgeRow) -> EdgeRow | None:
    """Return an edge branch as it comes out, None if it does not: its rows, a logical DDL, or a heartbeat."""
    if edge.flags & k.MARKER:
        return edge if (edge.tso, edge.transaction) in task.ddl else None
    if keeper.tables(edge.source_id, edge.tables, edge.key):
        return edge
    beats = task.heartbeat and _beats(np.array([edge.tso]), np.array([edge.flags]), task.heartbeat)[0]
    return replace(edge, flags=edge.flags | k.MARKER) if beats else None


def _edges(task: OrderTask, keeper: _Keeper) -> tuple[dict[str, Column], int, set[OrderKey]]:
    inside = [e for e in task.edges if task.low <= e.tso < task.high]
    kept = [beating for e in inside if (beating := _kept_edge(task, keeper, e)) is not None]
    column = lambda name: np.array([getattr(e, name) for e in kept], np.int64)  # noqa: E731
    rows = {
        "tso": column("tso"), "transaction": column("transaction"), "seq": column("seq"),
        "node_seq": np.array([e.key.node_seq for e in kept], np.int64),
        "node": column("node"), "file": column("file_index"), "start": column("start"), "end": column("end"),
        "commit_us": column("commit_us"), "flags": column("flags"),
    }  # fmt: skip
    if task.holds is not None:
        rows["set"] = np.array([task.sets[e.source_id, e.tables] for e in kept], np.int64)
    out = [e.key for e in inside if keeper.left_out(e.source_id, e.tables, e.key)]
    return rows, len(inside) - len(kept) - len(out), set(out)


def _within(rows: Mapping[str, Column], floor: OrderKey, limit: OrderKey) -> dict[str, Column]:
    """Keep the rows with floor <= key < limit."""
    keep = at_least(rows, floor) & ~at_least(rows, limit)
    return dict(rows) if keep.all() else {name: values[keep] for name, values in rows.items()}


def ranges(points: Sequence[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """Split the TSOs into up to `count` ranges of about the same number of bytes, from the quantiles of all pieces."""
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
