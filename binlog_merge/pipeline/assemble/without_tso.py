"""Checks transactions without a commit TSO on several nodes, whose order is unknown: raises errors or warns."""

from collections.abc import Iterable, Mapping

from binlog_merge.errors import MissingCommitTso
from binlog_merge.pipeline.base.branches import Hash


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
