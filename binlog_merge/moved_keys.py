"""Order keys of the output when shards are coordinated without markers.

A DDL or a moved transaction comes out at a `DdlPlace`: after a given event, at a given rank. Its order key, which is
written to the output and to the logical history, is the key of that event with the rank encoded in the digits that node
numbers do not use: twice the rank for a DDL, twice the rank plus one for rows that were moved there. So `place_of`
recovers the place from a key, rows see the DDL at their place by comparing keys, and the order of keys is the order of
the output, except among events whose keys differ only by node. All rows moved to one place share one key.
"""

from typing import NamedTuple

from snapshot_store.tso import OrderKey


class DdlPlace(NamedTuple):
    """A place in the merged order: the event at `key` (rank 0), or the `rank`-th of the DDL that follow from it.

    Rows released at a place come out after the DDL at that place and before the next rank.
    """

    key: OrderKey
    rank: int = 0


NODES = 1000
"""Node numbers are less than this in a cluster with holds."""


def key_of(place: DdlPlace) -> OrderKey:
    """Return the order key of the DDL at a place, and of the versions it makes."""
    return place.key._replace(node_seq=place.key.node_seq + 2 * NODES * place.rank)


def moved_key(place: DdlPlace) -> OrderKey:
    """Return the order key of the rows that were moved to a place."""
    return place.key._replace(node_seq=place.key.node_seq + NODES * (2 * place.rank + 1))


def place_of(key: OrderKey) -> DdlPlace:
    """Return the place of a key that `key_of` or `moved_key` made."""
    step, node = divmod(key.node_seq, NODES)
    return DdlPlace(key._replace(node_seq=node), step // 2)


def is_moved(key: OrderKey) -> bool:
    """Return whether `moved_key` made this key."""
    return key.node_seq // NODES % 2 == 1
