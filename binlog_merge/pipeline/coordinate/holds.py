"""What holding means to the stages: where shards' DDL take effect, and where logical DDL stand that no marker gives."""

from dataclasses import dataclass

from binlog_merge.pipeline.coordinate.shards.values import Effect
from binlog_merge.places import Place


@dataclass(frozen=True, slots=True)
class Holds:
    """All shards' effects, those of earlier runs too, and the places of the logical DDL that come out there.

    A place has one logical DDL, the one with the key `place_keys.key_of(place)`, or none. Effects at or above the run's
    limit count for nothing, as do DDL there.
    """

    effects: tuple[Effect, ...] = ()
    ddl: tuple[Place, ...] = ()
