"""Rows in the global order, as columns: comparing with a key, sorting, grouping into transactions, totals."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.binlog.kernels.sort import sorted_places
from binlog_merge.pipeline.base.clock import time_tso
from binlog_merge.pipeline.base.columns import Column
from binlog_merge.pipeline.order.values import OrderResult
from snapshot_store.tso import FIRST_MILLIS, LAST_MILLIS, LOGICAL_BITS, OrderKey

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
