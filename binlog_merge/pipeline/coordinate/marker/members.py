"""Which nodes are in the cluster, moment by moment: scale-out and scale-in as the cluster's instructions tell them.

A StorageInstChange names all nodes from its key on. Whoever is in the cluster must show every marker; whoever is not
yet, or not any more, cannot hold anything back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from snapshot_store.tso import ORIGIN, OrderKey


@dataclass(frozen=True, slots=True)
class Members:
    """The nodes at the beginning, and every change: (key, all nodes from there on). Nodes are named by source-id.

    `undecided` are nodes that a change names and whose own logs show nothing yet: they may join there, or may have been
    in the cluster from the beginning and be late.
    """

    first: frozenset[str]
    changes: tuple[tuple[OrderKey, frozenset[str]], ...] = ()
    undecided: frozenset[str] = frozenset()

    def at(self, key: OrderKey) -> frozenset[str]:
        """Return the nodes that must show a marker at `key`: at a change's own key those that stay."""
        here = self.first
        for when, nodes in self.changes:
            if when > key:
                break
            here = here & nodes if when == key else nodes
        return here

    def before(self, key: OrderKey) -> frozenset[str]:
        """Return the nodes in the cluster when everything below `key` has happened."""
        return next((nodes for when, nodes in reversed(self.changes) if when < key), self.first)

    def joined(self, node: str) -> OrderKey | None:
        """Return from which key on a node is in the cluster: the origin if from the beginning, None if never."""
        if node in self.first:
            return ORIGIN
        return next((when for when, nodes in self.changes if node in nodes), None)

    def left(self, node: str) -> OrderKey | None:
        """Return the key behind which a node is in the cluster no more, None if it is to the end."""
        if not self.changes or node in self.changes[-1][1] or self.joined(node) is None:
            return None
        out = [when for when, nodes in self.changes if node not in nodes and when > (self.joined(node) or ORIGIN)]
        return next((when for when in out if all(node not in n for w, n in self.changes if w >= when)), None)


def members_of(
    nodes: Iterable[str],
    changes: Sequence[tuple[OrderKey, frozenset[str]]],
    known: frozenset[str] | None,
    shown: Mapping[str, OrderKey],
) -> Members:
    """Return who was in the cluster when. `known` are the nodes at the beginning where that is told; else a node was in
    it that shows a marker (`shown`: its first) before the first change, or that no change brings in.
    """
    nodes, changes = tuple(nodes), tuple(sorted(changes))
    if known is not None or not changes:
        return Members(frozenset(nodes) if known is None else known, changes)
    when, named = changes[0]
    first = {n for n in nodes if (n in shown and shown[n] < when) or not any(n in s for _, s in changes)}
    return Members(frozenset(first or named), changes, frozenset(n for n in nodes if n not in shown and n not in first))


def bounds(members: Members, node: str, watermark: OrderKey | None) -> OrderKey | None:
    """Return the key below which nothing more comes from a node; None where it holds back nothing at all.

    `watermark` is the least key its log may still bring, None before its first commit TSO.
    """
    if watermark is None and node in members.undecided:
        return ORIGIN
    joined = members.joined(node)
    if joined is None:
        return None
    left = members.left(node)
    least = max(joined, watermark or ORIGIN)
    return None if left is not None and least > left else least
