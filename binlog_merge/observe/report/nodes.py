"""Reads from the nodes' files which nodes took part in each transaction: what a merged log does not record.

The stages of a merge up to the order run over the files, in this process, and what they find is listed instead of
written. Only event headers are walked. What is not in the merged log (held, or removed from it) is not counted.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.files.manifest import ManifestState
from binlog_merge.observe.report.log import LANE_BINS, MOST_DETAIL, Keys, times_of
from binlog_merge.observe.report.values import Bins, NodeLanes, Numbers, size_for
from binlog_merge.pipeline.base.runner import Files, InDriver, Progress
from binlog_merge.pipeline.gather.listing import ROWS, listed
from binlog_merge.pipeline.transactions import Transactions, found_transactions


def node_lanes(
    config: MergeConfig, state: ManifestState, begins_us: int | None, progress: Progress | None = None
) -> NodeLanes:
    """Return the lanes of a published log's nodes. Raises MergeError for files that a merge could not read either.

    `begins_us` is `log.first_time` of the log.
    """
    published = sum(file.transactions for file in state.files)
    names = tuple(node.source_id for node in config.nodes)
    size = size_for(len(names), LANE_BINS)
    counts = _Counts(names, state, begins_us, published <= MOST_DETAIL, Bins(size, len(names)), Bins(size, len(names)))
    if state.last is None or not state.files:
        return counts.lanes(published)
    with found_transactions(
        InDriver(Files()),
        config,
        start_tso=state.last.state.get("start_tso"),
        end_of_input=state.last.end_of_input,
        counts=False,
        progress=progress,
    ) as found:
        counts.take(found)
    return counts.lanes(published)


@dataclass
class _Counts:
    """The counts so far; a transaction's rank is that of the log if the files have all that the log has."""

    names: tuple[str, ...]
    state: ManifestState
    begins_us: int | None
    with_detail: bool
    by_time: Bins
    by_rank: Bins
    found: int = 0
    same_numbers: bool = True
    nodes_of: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def take(self, found: Transactions) -> None:
        """Count what is found."""
        lane = {name: number for number, name in enumerate(self.names)}
        numbers = {} if self.state.header is None else dict(self.state.header.node_numbers)
        for task in found.tasks:
            self.same_numbers &= all(numbers.get(name) == number for number, name in task.nodes.items())
            for batch in listed(task):
                self._count(batch, lane)

    def _count(self, batch: Any, lane: dict[str, int]) -> None:
        keys = np.array(batch.column("order_key").to_pylist(), "U54")
        files = self.state.files
        inside = (keys >= files[0].first_key) & (keys <= files[-1].last_key)
        if not inside.any():
            return
        ddl = np.array([kind != ROWS for kind in batch.column("kind").to_pylist()])
        times, branches = self._times(batch, ddl), batch.column("branches")
        offsets = np.array(branches.offsets)
        of = np.repeat(np.arange(len(keys)), np.diff(offsets))
        node = branches.values.field("node").dictionary_encode()
        names = np.array([lane[name] for name in node.dictionary.to_pylist()] or [0], np.int64)
        nodes = names[np.array(node.indices)] if len(node) else np.zeros(0, np.int64)
        nodes = nodes[offsets[0] : offsets[-1]] if len(nodes) > len(of) else nodes
        ranks = files[0].first_rank + self.found + np.cumsum(inside) - 1
        kept = (inside & ~ddl)[of]
        of, nodes = _once(of[kept], nodes[kept])
        self.by_time.add(nodes, times[of])
        self.by_rank.add(nodes, ranks[of])
        if self.with_detail:
            for rank, number in zip(ranks[of].tolist(), nodes.tolist(), strict=True):
                self.nodes_of[rank] = (*self.nodes_of.get(rank, ()), number)
        self.found += int(inside.sum())

    def _times(self, batch: Any, ddl: Any) -> Numbers:
        """Return the times of a batch's transactions, as in the log (`log.read_log`)."""
        tso = np.array(batch.column("commit_tso"))
        zeros = np.zeros(len(tso), np.int64)
        committed = batch.column("committed").cast("int64").to_numpy()
        times = times_of(Keys(np.ones(len(tso), bool), tso, zeros, zeros, zeros), committed, self.begins_us)
        return np.where(ddl & (committed // 1000 == times // 1000), committed, times)

    def lanes(self, published: int) -> NodeLanes:
        matches = self.found == published and self.same_numbers
        return NodeLanes(
            self.names,
            self.by_time,
            self.by_rank,
            tuple(int(self.by_time.series(number).sum()) for number in range(len(self.names))),
            self.found,
            published,
            matches,
            {rank: tuple(sorted(nodes)) for rank, nodes in self.nodes_of.items()} if matches else {},
        )


def _once(of: Numbers, nodes: Numbers) -> tuple[Numbers, Numbers]:
    """Return each pair of transaction and node once: a node may have several branches of a transaction."""
    pairs = np.unique(np.stack([of, nodes], axis=1), axis=0) if len(of) else np.zeros((0, 2), np.int64)
    return pairs[:, 0], pairs[:, 1]
