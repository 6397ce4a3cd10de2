"""What DDL of shards hold back: their effects on each shard, and the places of logical DDL that no marker announces."""

from dataclasses import dataclass

from binlog_merge.pipeline.coordinate.shards.values import Effect
from binlog_merge.places import Place


@dataclass(frozen=True, slots=True)
class Holds:
    """The effects of all shards, also of earlier runs, and the places of the logical DDL that come out there.

    A place has at most one logical DDL, the one with the key `places.key_of(place)`. Effects and DDL at or above the
    run's limit are ignored.
    """

    effects: tuple[Effect, ...] = ()
    ddl: tuple[Place, ...] = ()
