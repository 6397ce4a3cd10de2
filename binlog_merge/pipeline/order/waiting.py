"""Rows that are not moved yet: counts per shard, and the first file of each node that has some."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from binlog_merge.pipeline.base.columns import Column
from binlog_merge.pipeline.coordinate.shards.notes import HeldRows
from binlog_merge.pipeline.coordinate.shards.values import Shard
from binlog_merge.pipeline.order.ordered import KEY
from snapshot_store.tso import OrderKey


def waiting(
    rows: Mapping[str, Column], tables: Sequence[frozenset[Shard]]
) -> tuple[tuple[HeldRows, ...], dict[int, int], int]:
    """Return the counts of rows, which are in order: per shard, the first file of each node, and how many they are.

    `tables` are the tables of each numbered set that come out.
    """
    count = len(rows["tso"])
    if not count:
        return (), {}, 0
    node, file = rows["node"], rows["file"]
    files = {number: int(file[node == number].min()) for number in np.unique(node).tolist()}
    key = np.stack([rows[name] for name in KEY])
    transaction = np.cumsum(np.concatenate([[0], np.any(key[:, 1:] != key[:, :-1], axis=0)]))
    sets, size = rows["set"], rows["end"] - rows["start"]
    touched: dict[Shard, list[int]] = {}
    for number in np.unique(sets).tolist():
        for shard in tables[number]:
            touched.setdefault(shard, []).append(number)
    held = []
    for shard, numbers in touched.items():
        mine = np.flatnonzero(np.isin(sets, numbers))
        since = OrderKey(*(int(part[mine[0]]) for part in key))
        held.append(HeldRows(shard, len(np.unique(transaction[mine])), int(size[mine].sum()), since))
    return tuple(held), files, count


def all_held(parts: Iterable[HeldRows]) -> tuple[HeldRows, ...]:
    """Return the sums of counts for each shard, in the order of shards. No transaction is in two parts."""
    found: dict[Shard, HeldRows] = {}
    for part in parts:
        before = found.get(part.shard, HeldRows(part.shard, 0, 0, part.since))
        found[part.shard] = HeldRows(
            part.shard,
            before.transactions + part.transactions,
            before.bytes + part.bytes,
            min(before.since, part.since),
        )
    return tuple(found[shard] for shard in sorted(found))


def first_files(parts: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Return each node's first file of all parts."""
    found: dict[int, int] = {}
    for part in parts:
        for node, file in part.items():
            found[node] = min(file, found.get(node, file))
    return found
