"""What would put transactions in a wrong order, and stops a merge or is warned of:

- a node's clock that stepped back further than allowed, where clocks give the order;
- transactions whose branches carry different commit TSOs: they would be torn apart in the output;
- transactions without a commit TSO on several nodes, whose order is unknown.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.config.sections import CommitTso
from binlog_merge.errors import ClockStep, CommitTsoConflict, MissingCommitTso
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.base.branches import Hash
from binlog_merge.pipeline.base.clock import steps_back
from binlog_merge.pipeline.base.pieces import Column
from binlog_merge.pipeline.base.state import NO_BOUND, Bound
from snapshot_store.tso import OrderKey


def clock_steps(node: ScannedNode, most: int, floor: OrderKey) -> Iterator[tuple[int, ClockStep]]:
    """Yield each step back from `floor` on by more than `most` microseconds, in order: its size and the error.

    Until the clock has caught up again it counts as a single step.
    """
    stepped_back = False
    for piece, block, carry in zip(node.pieces, node.blocks, node.carries, strict=True):
        if piece.clock is None:
            continue
        if piece.clock.furthest(carry.max_tso) <= most:
            stepped_back = False
            continue
        columns, keys = block.local()
        steps = steps_back(columns["max_tso"], columns["commit_us"], carry.max_tso)
        far = steps > most
        begins = far & ~np.concatenate([[stepped_back], far[:-1]])
        stepped_back = bool(far[-1])
        for i in np.flatnonzero(begins).tolist():
            key = OrderKey(int(keys.tso[i]), int(keys.transaction[i]), int(keys.seq[i]), block.node)
            if key < floor:
                continue
            file = node.input.files[piece.file_index]
            yield (
                int(steps[i]),
                ClockStep(
                    f"the clock stepped back by {steps[i] / 1e6:g} s: what follows sorts behind what the node had "
                    "committed before, as in its log, but that much too late among other nodes' transactions",
                    node=node.source_id,
                    file=file.path,
                    position=int(columns["start"][i]),
                    order_key=key,
                ),
            )


def check_clocks(nodes: Sequence[ScannedNode], config: CommitTso, floor: OrderKey) -> tuple[Bound, list[str]]:
    """Return the bound at the first step back, if `on_step_back` is "error"; otherwise a warning per node."""
    first, warnings = NO_BOUND, list[str]()
    for node in nodes:
        if not node.by_time:
            continue
        found = clock_steps(node, config.max_step_back, floor)
        if config.on_step_back == "error":
            first = min(first, Bound.of(next((error for _, error in found), None)))
            continue
        steps = sorted(found, key=lambda pair: -pair[0])
        if steps:
            more = f" (and {len(steps) - 1} smaller steps)" if len(steps) > 1 else ""
            warnings.append(f"{node.source_id}: {steps[0][1].message}{more}: {steps[0][1].file}:{steps[0][1].position}")
    return first, warnings


Branch = tuple[int, int, str, str, int]  # transaction, TSO, node, file, offset


def tso_conflict(
    nodes: Sequence[ScannedNode], suspects: Column, unique: bool, floor: OrderKey
) -> CommitTsoConflict | None:
    """Return the conflict with the least order key from `floor` on, or None.

    `suspects` are the ids of transactions with several TSOs, in order.
    `unique`: transaction ids are never reused (PolarDB-X). Elsewhere a coordinator may reuse a gtrid; then two TSOs of
    a gtrid only conflict if no node has both.
    """
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


def _branches(nodes: Sequence[ScannedNode], wanted: Column) -> list[Branch]:
    known = set(wanted.tolist())
    branches = []
    for node in nodes:
        files = node.input.files
        for block in node.blocks:
            columns = block.timed()
            for i in np.flatnonzero(np.isin(columns["transaction"], wanted)).tolist():
                if not columns["flags"][i] & k.OWN_TSO:
                    transaction, tso, start = (int(columns[name][i]) for name in ("transaction", "tso", "start"))
                    branches.append((transaction, tso, node.source_id, files[block.file_index].path, start))
        for edge in node.edges:
            if edge.transaction in known and not edge.seq:
                file = files[edge.file_index].path if edge.file_index >= 0 else ""
                branches.append((edge.transaction, edge.tso, node.source_id, file, edge.start))
    return sorted(branches, key=lambda b: (b[1], b[2], b[3], b[4]))


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


def check_without_tso(by_node: Mapping[str, Iterable[tuple[Hash, int]]]) -> None:
    """Raise MissingCommitTso if a distributed transaction has no commit TSO: its branches cannot be joined."""
    seen: dict[Hash, tuple[str, int]] = {}
    for node, commits in by_node.items():
        for gtrid, position in commits:
            other = seen.setdefault(gtrid, (node, position))
            if other[0] != node:
                raise MissingCommitTso(
                    f"an XA transaction committed on nodes {other[0]} and {node} has no commit TSO",
                    node=node,
                    position=position,
                )


_NO_TSO = (
    "if the nodes write none, order them by their own clocks: `commit-tso: {carrier: gtid-time}`; if they do, "
    "`commit-tso.carrier` must say where: see `binlog-merge inspect`"
)


def check_ordered(greatest: Mapping[str, int], locals_before: Mapping[str, int]) -> None:
    """Raise MissingCommitTso if several nodes have committed and no node has ever shown a commit TSO.

    `greatest` are the nodes' greatest commit TSOs, 0 for none; `locals_before` counts their commits without one since.
    Only each node's own order is known; interleaving the nodes would invent an order.
    """
    unordered = sorted(node for node, count in locals_before.items() if count)
    if any(greatest.values()) or len(unordered) < 2:
        return
    raise MissingCommitTso(
        f"no transaction of nodes {', '.join(unordered)} has a commit TSO: nothing says in which order they committed",
        node=unordered[0],
        remedy=_NO_TSO,
    )


def still_without(greatest: Mapping[str, int], locals_before: Mapping[str, int]) -> list[str]:
    """Return the warning for nodes that have shown no commit TSO while more input may come: they hold all back."""
    nodes = sorted(node for node, tso in greatest.items() if not tso and locals_before[node])
    if not nodes:
        return []
    return [
        f"{', '.join(nodes)}: no transaction has a commit TSO yet, and nothing comes out before the first; {_NO_TSO}"
    ]


def split_transactions(by_node: Mapping[str, Iterable[tuple[Hash, int]]]) -> list[str]:
    """Return a warning with the number of distributed transactions without a commit TSO, which come out branch by
    branch.
    """
    nodes: dict[Hash, set[str]] = {}
    for node, commits in by_node.items():
        for gtrid, _ in commits:
            nodes.setdefault(gtrid, set()).add(node)
    split = [names for names in nodes.values() if len(names) > 1]
    if not split:
        return []
    return [
        f"{len(split)} XA transactions on nodes {', '.join(sorted(set().union(*split)))} have no commit TSO: "
        "their branches come out as transactions of their own"
    ]
