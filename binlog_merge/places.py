"""Order keys of what comes out at a place of the coordination of shards.

What comes out at a place (`Place`) has an order key that is written in the output and in the logical
history: that of the event the place follows, and in the digits that node numbers leave free twice its rank, or one more
for the rows that were moved there. So `place_of` finds the place again, rows see the DDL at their place by their keys,
and the keys' order is that of the output, but among events that differ in nothing but their nodes. All rows that were
moved to one place have one key.
"""

from typing import NamedTuple

from snapshot_store.tso import OrderKey


class Place(NamedTuple):
    """A place in the merged order: that of the event at `key`, or the `rank`-th of those that follow from it.

    What is released at a place comes after the DDL there and before the next rank.
    """

    key: OrderKey
    rank: int = 0


NODES = 1000
"""Node numbers are less than this in a cluster with holds."""


def key_of(place: Place) -> OrderKey:
    """Return the order key of the DDL at a place, and of the versions it makes."""
    return place.key._replace(node_seq=place.key.node_seq + 2 * NODES * place.rank)


def moved_key(place: Place) -> OrderKey:
    """Return the order key of the rows that were moved to a place."""
    return place.key._replace(node_seq=place.key.node_seq + NODES * (2 * place.rank + 1))


def place_of(key: OrderKey) -> Place:
    """Return the place of a key that `key_of` or `moved_key` made."""
    step, node = divmod(key.node_seq, NODES)
    return Place(key._replace(node_seq=node), step // 2)


def is_moved(key: OrderKey) -> bool:
    """Tell whether a key is one that `moved_key` made."""
    return key.node_seq // NODES % 2 == 1
