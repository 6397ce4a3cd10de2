"""What holding means to the stages: where shards' DDL take effect, and where logical DDL stand that no marker gives.

What comes out at a place (`shard.values.Place`) has one order key, written in the output and in the logical history:
that of the event the place follows, and, for those behind the first, the rank in the digits that node numbers leave
free. So `place_of` finds the place again, and the keys' order is that of the places but among events that differ in
nothing but their nodes.
"""

from dataclasses import dataclass

from binlog_merge.shard.values import Effect, Place
from snapshot_store.tso import OrderKey

NODES = 1000
"""Node numbers are less than this in a cluster with holds."""


@dataclass(frozen=True, slots=True)
class Holds:
    """All shards' effects, those of earlier runs too, and the places of the logical DDL that come out there.

    A place has one logical DDL, the one with the key `key_of(place)`, or none. Effects at or above the run's limit
    count for nothing, as do DDL there.
    """

    effects: tuple[Effect, ...] = ()
    ddl: tuple[Place, ...] = ()


def key_of(place: Place) -> OrderKey:
    """Return the order key of what comes out at a place: of its DDL, its versions, and what was moved there."""
    return place.key._replace(node_seq=place.key.node_seq + NODES * place.rank)


def place_of(key: OrderKey) -> Place:
    """Return the place of a key that `key_of` made."""
    rank, node = divmod(key.node_seq, NODES)
    return Place(key._replace(node_seq=node), rank)
