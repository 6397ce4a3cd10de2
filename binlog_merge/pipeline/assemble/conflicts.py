"""Finds transactions whose branches carry different commit TSOs: they would be torn apart in the output."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.binlog.kernels.unlike import note_tsos
from binlog_merge.errors import CommitTsoConflict
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.base.blocks import read_blocks
from binlog_merge.pipeline.base.columns import Column
from snapshot_store.tso import OrderKey

PART = 1 << 20  # branches examined at once
MANY = (
    1 << 16
)  # with more transactions that have several TSOs, their ids are taken to be reused, and nothing is reported

Branch = tuple[int, int, str, str, int]  # transaction, TSO, node, file, offset


def tso_conflict(nodes: Sequence[ScannedNode], unique: bool, floor: OrderKey) -> CommitTsoConflict | None:
    """Return the conflict with the least order key from `floor` on, or None.

    `unique`: transaction ids are never reused (PolarDB-X). Elsewhere a coordinator may reuse a gtrid; then two TSOs of
    a gtrid only conflict if no node has both.
    """
    suspects = _suspects(nodes)
    by_transaction: dict[int, list[Branch]] = {}
    for branch in _branches(nodes, suspects) if len(suspects) else ():
        by_transaction.setdefault(branch[0], []).append(branch)
    first: tuple[OrderKey, Branch, Branch] | None = None
    for branches in by_transaction.values():
        torn = _torn(branches, unique)
        keys = [OrderKey(tso, branches[0][0], 0, 0) for tso in sorted({b[1] for pair in torn for b in pair})]
        key = next((key for key in keys if key >= floor), None)
        if key is not None and (first is None or key < first[0]):
            first = key, *torn[0]
    if first is None:
        return None
    key, (transaction, tso, node, file, position), (_, other_tso, other, other_file, other_position) = first
    return CommitTsoConflict(
        f"transaction {transaction} has commit TSO {tso} on node {node}, but {other_tso} on node {other} "
        f"({other_file}:{other_position})",
        node=node,
        file=file,
        position=position,
        order_key=key,
    )


def _suspects(nodes: Sequence[ScannedNode]) -> Column:
    """Return the ids of transactions with several TSOs; none if there are more than MANY."""
    paths = [b.scanned.timed_path for n in nodes for b in n.blocks if b.timed_span is not None]
    columns = [_of_distributed(found) for found in read_blocks(paths, ("transaction", "tso", "flags"))]
    edges = [e for n in nodes for e in n.edges if not e.seq]
    columns.append((np.array([e.transaction for e in edges], np.int64), np.array([e.tso for e in edges], np.int64)))
    total = sum(len(transaction) for transaction, _ in columns)
    parts = 1 << max(0, (total // PART).bit_length())
    table = np.empty((1 << max(4, (3 * total // parts).bit_length()), 2), np.int64)
    found, count = np.empty(MANY, np.int64), 0
    for part in range(parts if total else 0):
        table[:, 1] = -1
        for transaction, tso in columns:
            count = int(note_tsos(transaction, tso, table, part, parts, found, count))
            if count < 0:
                return found[:0]
    return np.unique(found[:count])


def _of_distributed(columns: dict[str, Column]) -> tuple[Column, Column]:
    own = (columns["flags"] & k.OWN_TSO) != 0
    transaction, tso = columns["transaction"], columns["tso"]
    return (transaction[~own], tso[~own]) if own.any() else (transaction, tso)


def _branches(nodes: Sequence[ScannedNode], wanted: Column) -> list[Branch]:
    known = set(wanted.tolist())
    found = []
    for node in nodes:
        files = node.input.files
        for block in node.blocks:
            columns = block.timed()
            for i in np.flatnonzero(np.isin(columns["transaction"], wanted)).tolist():
                if not columns["flags"][i] & k.OWN_TSO:
                    transaction, tso, start = (int(columns[name][i]) for name in ("transaction", "tso", "start"))
                    found.append((transaction, tso, node.source_id, files[block.file_index].path, start))
        for edge in node.edges:
            if edge.transaction in known and not edge.seq:
                file = files[edge.file_index].path if edge.file_index >= 0 else ""
                found.append((edge.transaction, edge.tso, node.source_id, file, edge.start))
    return sorted(found, key=lambda b: (b[1], b[2], b[3], b[4]))


def _torn(branches: Sequence[Branch], unique: bool) -> list[tuple[Branch, Branch]]:
    """Return pairs of branches that belong together but have different TSOs. `branches` are sorted by TSO."""
    groups: dict[int, list[Branch]] = {}
    for branch in branches:
        groups.setdefault(branch[1], []).append(branch)
    return [
        (group[0], other[0])
        for group, other in combinations(groups.values(), 2)
        if unique or {b[2] for b in group}.isdisjoint({b[2] for b in other})
    ]
