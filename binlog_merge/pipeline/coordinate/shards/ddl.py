"""Logical DDL of shards, each with a place of its own in the order."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby

from binlog_merge.pipeline.coordinate.shards.identity import BEGINS, RENAMED
from binlog_merge.places import Place
from snapshot_store.tso import OrderKey


@dataclass(frozen=True, slots=True)
class Placed:
    """A logical DDL: one statement at a place of its own. `table` is None where it is about a database.

    `cause` is (node, key) of the statement it is due to, None for a decision. `as_run`: the very statement, on the very
    rows.
    """

    place: Place
    schema: str
    table: str | None
    sql: str
    cause: tuple[str, OrderKey] | None
    as_run: bool = True


@dataclass(frozen=True, slots=True)
class Wanted:
    """Statements of one logical table, or a rename of several, with a place among those that follow from one event.

    `place` is the table's own count of what follows there; `owner` tells the counts apart.
    """

    place: Place
    name: tuple[str, str]
    owner: int
    statements: tuple[str, ...] = ()
    cause: tuple[str, OrderKey] | None = None
    as_run: bool = True


Ranks = dict[OrderKey, int]
Moved = dict[tuple[int, Place], Place]


def at_rank(ddl: Placed, ranks: Ranks) -> Placed:
    """Give a statement the next place at its key."""
    rank = ranks.get(ddl.place.key, 0)
    ranks[ddl.place.key] = rank + 1
    return replace(ddl, place=Place(ddl.place.key, rank))


def ranked(wanted: Iterable[Wanted], ranks: Ranks) -> tuple[list[Placed], Moved]:
    """Give every statement a place of its own, behind those at its key so far (`ranks`).

    At one key: tables by name, what follows for each in order; then tables that are renamed, together; then those that
    come into being on names which that has made free. Also returns what has become of the tables' own places.
    """
    ddl: list[Placed] = []
    moved: Moved = {}
    for one in sorted(wanted, key=lambda w: (w.place.key, _phase(w.place), w.name, w.place.rank)):
        key, here = one.place.key, ranks.get(one.place.key, 0)
        ddl += [
            Placed(Place(key, here + i), *one.name, sql, one.cause, one.as_run) for i, sql in enumerate(one.statements)
        ]
        moved[one.owner, one.place] = Place(key, here + max(len(one.statements) - 1, 0))
        ranks[key] = here + max(len(one.statements), 1)
    return ddl, moved


def _phase(place: Place) -> int:
    return (place.rank >= RENAMED) + (place.rank >= BEGINS)


def in_order_of_keys(places: Iterable[Place], floor: OrderKey) -> dict[Place, Place]:
    """Return the places from `floor` on that are to be others, so that order keys are in the order of places.

    Places of events whose keys differ in nothing but the node are put behind those of the first of them: a rank counts
    more in a key than a node does (`places.key_of`).
    """
    found: dict[Place, Place] = {}
    ordered = sorted({place for place in places if place.key >= floor})
    for _, same in groupby(ordered, key=lambda place: place.key[:3]):
        first, *others = same
        rank = first.rank
        for place in others:
            rank = place.rank if place.key == first.key else rank + 1
            if place.key != first.key:
                found[place] = Place(first.key, rank)
    return found
