"""Shards whose DDL takes effect later: which transactions wait for it, and where they come out.

What the DDL of shards comes to is given; what it means for rows is worked out here, one transaction at a time.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.oracle.ddl import Name
from tests.oracle.order import Branch, Key

Place = tuple[Key, int]
LogicalPlace = tuple[int, int, int, int, int]
RANKS = 1000  # half of what a rank counts in the last part of a key


@dataclass(frozen=True)
class Effect:
    """A shard's DDL at `key` takes effect at `place`, None: never. `renames` are the columns it renames."""

    node: str
    table: Name
    key: Key
    place: Place | None
    renames: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class PlacedDdl:
    """A logical DDL that no marker gives, at a place of its own."""

    place: Place
    schema: str
    sql: str


@dataclass(frozen=True)
class Holding:
    """What the DDL of shards comes to."""

    effects: tuple[Effect, ...] = ()
    ddl: tuple[PlacedDdl, ...] = ()

    def below(self, limit: Key) -> "Holding":
        """Return what is known of it when only what stands below a key is known."""
        effects = (
            e if e.place is None or e.place[0] < limit else Effect(e.node, e.table, e.key, None, e.renames)
            for e in self.effects
            if e.key < limit
        )
        return Holding(tuple(effects), tuple(d for d in self.ddl if d.place[0] < limit))

    def renames(self, node: str, table: Name, key: Key, place: Place) -> list[tuple[str, str]]:
        """Return how columns were renamed behind a row at `key`, by what took effect up to `place`."""
        mine = sorted((e for e in self.effects if (e.node, e.table) == (node, table)), key=lambda e: e.key)
        return [pair for e in mine if e.key >= key and e.place is not None and e.place <= place for pair in e.renames]


def place_key(place: Place, moved: bool) -> Key:
    """Return the order key that is written for the DDL at a place, or for what was moved there."""
    (tso, transaction, seq, node), rank = place
    return tso, transaction, seq, node + RANKS * (2 * rank + moved)


def arrange(
    transactions: Iterable[tuple[Key, list[Branch]]], holding: Holding, comes_out: Callable[[Name], bool]
) -> list[tuple[Place | None, Key, list[Branch]]]:
    """Return transactions with the places they come out at, None where they stay; what is held for good is left out.

    `transactions` come in the order of their keys.
    """
    never: Place = ((1 << 63, 0, 0, 0), 0)
    behind: dict[tuple[str, Name], Place] = {}
    found: list[tuple[Place | None, Key, list[Branch]]] = []
    for key, branches in transactions:
        touched = {(b.node.source_id, n) for b in branches for n, _ in b.maps() if comes_out(n)}
        waits = [behind[one] for one in touched if one in behind]
        for effect in holding.effects:
            if (effect.node, effect.table) in touched and effect.key < key:
                waits.append(effect.place or never)
        place = max(waits, default=(key, 0))
        if place[0] < key:
            place = (key, 0)
        if place == (key, 0):
            found.append((None, key, branches))
            continue
        for one in touched:
            behind[one] = place
        if place != never:
            found.append((place, key, branches))
    return found
