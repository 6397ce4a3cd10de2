"""Finds the transactions whose branches carry different commit TSOs, by their ids.

    few branches     the driver reads the columns of all blocks
    many             deal      tasks read some blocks each, and write the branches of each share of the ids
                     compare   a task a share puts its branches of all blocks into a hash table

So what the driver holds does not grow with the number of transactions.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.binlog.kernels.index_rows import MIX, note_tsos
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.base.blocks import Read, read_block, read_blocks, write_block
from binlog_merge.pipeline.base.pieces import Column
from binlog_merge.pipeline.base.state import Job

IN_DRIVER: Final = 1 << 22
"""How many branches the driver compares by itself: 64 MiB of their columns."""
DEALT: Final = 1 << 20
"""Branches of the blocks that a task deals out."""
COMPARED: Final = 1 << 21
"""Branches that a task compares."""
AT_ONCE: Final = 1 << 20
"""Branches in a hash table."""
MANY: Final = 1 << 16
"""With more transactions that have several TSOs, their ids are taken to be reused, and nothing is reported."""

Branches = tuple[Column, Column]
"""Transactions, and the commit TSO of each."""
_COLUMNS: Final = ("transaction", "tso", "flags")
_SHARE_MIX: Final = np.uint64(0xC2B2AE3D27D4EB4F)


def with_several_tsos(job: Job, nodes: Sequence[ScannedNode]) -> Column:
    """Return the ids of transactions with several commit TSOs; none if there are more than MANY."""
    found = (pair for node in nodes for pair in zip(node.pieces, node.blocks, strict=True))
    blocks = [(block.scanned.timed_path, piece.timed) for piece, block in found if piece.timed]
    edges = [edge for node in nodes for edge in node.edges if not edge.seq]
    own = np.array([e.transaction for e in edges], np.int64), np.array([e.tso for e in edges], np.int64)
    branches = sum(count for _, count in blocks)
    if branches <= IN_DRIVER:
        read = read_blocks([path for path, _ in blocks], _COLUMNS)
        return different([own, *map(_of_distributed, read)])
    shares = 1 << (branches // COMPARED).bit_length()
    begin = job.scratch("deal")
    dealing = [DealTask(f"{begin}-{i:06d}", shares, paths) for i, paths in enumerate(_together(blocks))]
    job.engine.run("deal", deal, dealing)
    dealt = tuple(task.path for task in dealing)
    comparing = [CompareTask(i, dealt, edges) for i, edges in enumerate(_shares(own, shares))]
    several = np.concatenate(job.engine.run("compare", compare, comparing))
    return np.sort(several) if len(several) <= MANY else several[:0]


@dataclass(frozen=True, slots=True)
class DealTask:
    """Blocks whose branches are dealt out to so many shares, into blocks beside `path`."""

    path: str
    shares: int
    blocks: tuple[str, ...]

    @property
    def reads(self) -> tuple[Read, ...]:
        """Return the blocks."""
        return tuple(map(Read, self.blocks))


def deal(task: DealTask) -> None:
    """Write the branches of distributed transactions of each share."""
    read = [_of_distributed(columns) for columns in read_blocks(task.blocks, _COLUMNS)]
    together = tuple(np.concatenate(columns) for columns in zip(*read, strict=True))
    for share, (transaction, tso) in enumerate(_shares((together[0], together[1]), task.shares)):
        write_block(_share_of(task.path, share), {"transaction": transaction, "tso": tso})


@dataclass(frozen=True, slots=True)
class CompareTask:
    """A share of the branches that were dealt out, and those of it that the driver has."""

    share: int
    dealt: tuple[str, ...]
    edges: Branches

    @property
    def reads(self) -> tuple[Read, ...]:
        """Return the share's branches of all tasks that dealt."""
        return tuple(Read(_share_of(path, self.share)) for path in self.dealt)


def compare(task: CompareTask) -> Column:
    """Return the ids of the share that have several commit TSOs: MANY and one if there are more."""
    columns = [read_block(_share_of(path, task.share)) for path in task.dealt]
    return different([task.edges, *((each["transaction"], each["tso"]) for each in columns)], MANY + 1)


def different(branches: Sequence[Branches], most: int = 0) -> Column:
    """Return the ids of transactions that have several commit TSOs, in order.

    If there are more than MANY: none, or so many of them as `most` says.
    """
    total = sum(len(transaction) for transaction, _ in branches)
    parts = 1 << (total // AT_ONCE).bit_length()
    sizes = [np.bincount(_part(transaction, parts), minlength=parts) for transaction, _ in branches]
    largest = int(np.sum(sizes, axis=0).max())
    table = np.empty((1 << max(4, (2 * largest).bit_length()), 2), np.int64)
    found, count = np.empty(MANY, np.int64), 0
    for part in range(parts if total else 0):
        table[:, 1] = -1
        for transaction, tso in branches:
            count = int(note_tsos(transaction, tso, table, part, parts, found, count))
            if count < 0:
                return np.arange(most, dtype=np.int64)
    return np.unique(found[:count])


def _part(transaction: Column, parts: int) -> Column:
    """Return in which part of a hash table's transactions each is (`note_tsos`)."""
    return ((transaction.view(np.uint64) * MIX) >> np.uint64(48)).view(np.int64) & (parts - 1)


def _shares(branches: Branches, shares: int) -> list[Branches]:
    """Return the branches of each share; all of a transaction are in one."""
    transaction, tso = branches
    share = ((transaction.view(np.uint64) * _SHARE_MIX) >> np.uint64(40)).view(np.int64) & (shares - 1)
    order = np.argsort(share, kind="stable")
    ends = np.searchsorted(share[order], np.arange(1, shares))
    return list(zip(np.split(transaction[order], ends), np.split(tso[order], ends), strict=True))


def _share_of(path: str, share: int) -> str:
    return f"{path}.{share}.arrow"


def _of_distributed(columns: dict[str, Column]) -> Branches:
    own = (columns["flags"] & k.OWN_TSO) != 0
    transaction, tso = columns["transaction"], columns["tso"]
    return (transaction[~own], tso[~own]) if own.any() else (transaction, tso)


def _together(blocks: Iterable[tuple[str, int]]) -> Iterator[tuple[str, ...]]:
    """Yield the paths of blocks that a task deals out."""
    paths, branches = list[str](), 0
    for path, count in blocks:
        paths.append(path)
        branches += count
        if branches >= DEALT:
            yield tuple(paths)
            paths, branches = [], 0
    if paths:
        yield tuple(paths)
