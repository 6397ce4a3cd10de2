"""Rows in the global order, as columns: comparing with a key, sorting, grouping into transactions, totals.

`OrderTask` and its kin, the input and result of an order task, are shared by the driver and the executors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.binlog.kernels.index_rows import sorted_places
from binlog_merge.pipeline.assemble.values import Block, EdgeRow, TableSet
from binlog_merge.pipeline.base.blocks import Read
from binlog_merge.pipeline.base.clock import time_tso
from binlog_merge.pipeline.base.pieces import Between, Column
from binlog_merge.pipeline.coordinate.shards.values import Holds
from binlog_merge.polardbx.table_mapping import Places
from snapshot_store.topology import Topology
from snapshot_store.tso import FIRST_MILLIS, LAST_MILLIS, LOGICAL_BITS, OrderKey


@dataclass(frozen=True, slots=True)
class OrderTask:
    """One range: rows with low <= tso < high and floor <= key < limit.

    `ddl` are (TSO, transaction) of markers at which a logical DDL comes out. `places` decide which tables come out;
    without them the topology does. With `holds`, rows may come out later than their own key: see
    `pipeline.order.held_rows`.
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
    heartbeat: int = 0  # seconds of TSO time between heartbeats that come out; 0: none
    holds: Holds | None = None
    sets: Mapping[tuple[str, TableSet], int] = field(default_factory=dict)  # with holds: numbers of nodes' table sets
    apart: frozenset[int] = frozenset()  # with holds: the sets of which no table comes out

    @property
    def reads(self) -> tuple[Read, ...]:
        """Return what the range has of each block."""
        timed = (b.scanned.timed_path for b in self.blocks if b.has_timed(self.low, self.high))
        local = (b.local_between(self.low, self.high) for b in self.blocks if b.has_local(self.low, self.high))
        return (*(Read(path, Between(self.low, self.high)) for path in timed), *local)


@dataclass(frozen=True, slots=True)
class OrderResult:
    """The totals of a range. `last` is its greatest key, None if it is empty; `empty` counts branches without a logical
    table.
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
    late: tuple[OrderKey, int, int, int] | None  # a new local below the floor: key, node, file, offset
    left_out: int = 0  # transactions that the configuration leaves out


KEY = ("tso", "transaction", "seq", "node_seq")
OWN = ("own_tso", "own_transaction", "own_seq", "own_node_seq")
"""The columns with a row's own key, if rows are held. A DDL has the key of its place here, and 1 in the column `ddl`.
"""

# `first` is 1 where a transaction begins, `before` the input bytes of the range's rows before this one; commit_us is
# that of the transaction.
COLUMNS = (
    "tso", "transaction", "seq", "node_seq", "node", "file", "start", "end", "commit_us", "flags", "first", "before",
)  # fmt: skip
TOLD = ("before", "first")
"""The columns by which files are cut."""


def at_least(rows: Mapping[str, Column], key: OrderKey) -> npt.NDArray[np.bool_]:
    result = np.ones(len(rows["tso"]), np.bool_)
    for name, part in zip(reversed(KEY), reversed(key), strict=True):
        result = (rows[name] > part) | ((rows[name] == part) & result)
    return result


def in_order(rows: dict[str, Column]) -> dict[str, Column]:
    """Sort by key, then node, file and offset: the order of the branches within one transaction."""
    place = sorted_places(np.stack([rows[name] for name in (*KEY, "node", "file", "start")]))
    return {name: values[place] for name, values in rows.items()}


def transactions(rows: Mapping[str, Column], key: Sequence[str]) -> dict[str, Column]:
    """Group adjacent rows with equal keys: mark where transactions begin, and compute their commit time and the bytes
    before each row.
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
    begins = np.flatnonzero(first)
    commit_us = rows["commit_us"]
    if n:
        commit_us = np.repeat(np.maximum.reduceat(commit_us, begins), np.diff(begins, append=n))
    return {"first": first, "before": before, "commit_us": _commit_times(rows["tso"], commit_us)}


def _commit_times(tso: Column, commit_us: Column) -> Column:
    """Return the time in the commit TSO if it carries one (`snapshot_store.tso.carries_time`), else the source's time.

    A TSO that was made from the source's time keeps that time's microseconds.
    """
    millis = tso >> LOGICAL_BITS
    carried = (millis >= FIRST_MILLIS) & (millis < LAST_MILLIS) & (tso != time_tso(commit_us))
    return np.where(carried, millis * 1000, commit_us)


def summed(number: int, path: str, rows: Mapping[str, Column]) -> OrderResult:
    """Return the totals of rows in global order."""
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
