"""The nodes that belong to the cluster at each key: scale-out and scale-in according to the cluster's instructions.

A StorageInstChange lists all nodes from its key on. Nodes in the cluster must show every marker. Nodes that have not
joined yet, or have left, cannot hold anything back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from snapshot_store.tso import ORIGIN, OrderKey


@dataclass(frozen=True, slots=True)
class Members:
    """The nodes at the beginning, and every change: (key, all nodes from then on). Nodes are named by source-id.

    `undecided` are nodes that a change names but whose own logs show nothing yet: they may join there, or may have been
    in the cluster from the beginning and be late. `shown` is the key of the first marker that any node shows.
    """

    first: frozenset[str]
    changes: tuple[tuple[OrderKey, frozenset[str]], ...] = ()
    undecided: frozenset[str] = frozenset()
    shown: OrderKey | None = None

    def at(self, key: OrderKey) -> frozenset[str]:
        """Return the nodes that must show a marker at `key`. At a change's own key these are the nodes that stay."""
        here = self.first
        for when, nodes in self.changes:
            if when > key:
                break
            here = here & nodes if when == key else nodes
        return here

    def before(self, key: OrderKey) -> frozenset[str]:
        """Return the nodes in the cluster after everything below `key`."""
        return next((nodes for when, nodes in reversed(self.changes) if when < key), self.first)

    def joined(self, node: str) -> OrderKey | None:
        """Return the key from which a node is in the cluster: ORIGIN if from the beginning, None if it never is."""
        if node in self.first:
            return ORIGIN
        return next((when for when, nodes in self.changes if node in nodes), None)

    def left(self, node: str) -> OrderKey | None:
        """Return the key after which a node is no longer in the cluster, None if it stays or never joined."""
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
    """Return which nodes were in the cluster at which key.

    `known` are the nodes at the beginning, if recorded. Otherwise a node was in the cluster if it shows a marker
    (`shown`: its first one) before the first change, or if no change names it.
    """
    nodes, changes = tuple(nodes), tuple(sorted(changes))
    least = min(shown.values(), default=None)
    if known is not None or not changes:
        return Members(frozenset(nodes) if known is None else known, changes, shown=least)
    when, named = changes[0]
    first = {n for n in nodes if (n in shown and shown[n] < when) or not any(n in s for _, s in changes)}
    undecided = frozenset(n for n in nodes if n not in shown and n not in first)
    return Members(frozenset(first or named), changes, undecided, least)


def bounds(members: Members, node: str, watermark: OrderKey | None) -> OrderKey | None:
    """Return the key below which nothing more comes from a node; None if it holds nothing back.

    `watermark` is the least key that its log may still bring, None before its first commit TSO.
    """
    if watermark is None and node in members.undecided:
        return ORIGIN
    joined = members.joined(node)
    if joined is None:
        return None
    left = members.left(node)
    least = max(joined, watermark or ORIGIN)
    return None if left is not None and least > left else least
