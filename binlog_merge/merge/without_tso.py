"""XA transactions that committed without a commit TSO on more than one node: an error, or a warning."""

from collections.abc import Iterable, Mapping

from binlog_merge.errors import MissingCommitTso
from binlog_merge.merge.branches import Hash


def check_without_tso(by_node: Mapping[str, Iterable[tuple[Hash, int]]]) -> None:
    """Raise MissingCommitTso when a distributed transaction has no commit TSO: its branches could not be put
    together.
    """
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


def split_transactions(by_node: Mapping[str, Iterable[tuple[Hash, int]]]) -> list[str]:
    """Say how many distributed transactions without a commit TSO come out branch by branch, as PolarDB-X lets them."""
    nodes: dict[Hash, set[str]] = {}
    for node, commits in by_node.items():
        for gtrid, _ in commits:
            nodes.setdefault(gtrid, set()).add(node)
    split = [found for found in nodes.values() if len(found) > 1]
    if not split:
        return []
    return [
        f"{len(split)} XA transactions on nodes {', '.join(sorted(set().union(*split)))} have no commit TSO: "
        "their branches come out as transactions of their own"
    ]
