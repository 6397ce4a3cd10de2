"""The logical DDL of shards, each with a place of its own in the merged order."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby

from binlog_merge.moved_keys import DdlPlace
from binlog_merge.pipeline.coordinate.shards.identity import BEGINS, RENAMED
from snapshot_store.tso import OrderKey


@dataclass(frozen=True, slots=True)
class Placed:
    """A logical DDL: a single statement at a place of its own. `table` is None for a statement on a database.

    `cause` is (node, key) of the statement that caused it, None for an operator's decision. `as_run`: it is the node's
    own statement, on the same rows.
    """

    place: DdlPlace
    schema: str
    table: str | None
    sql: str
    cause: tuple[str, OrderKey] | None
    as_run: bool = True


@dataclass(frozen=True, slots=True)
class Wanted:
    """Statements of one logical table, or a rename of several tables, before they get their final places.

    `place` has the table's own count as its rank; `owner` identifies that count.
    """

    place: DdlPlace
    name: tuple[str, str]
    owner: int
    statements: tuple[str, ...] = ()
    cause: tuple[str, OrderKey] | None = None
    as_run: bool = True


Ranks = dict[OrderKey, int]
Moved = dict[tuple[int, DdlPlace], DdlPlace]


def at_rank(ddl: Placed, ranks: Ranks) -> Placed:
    """Give a statement the next rank at its key."""
    rank = ranks.get(ddl.place.key, 0)
    ranks[ddl.place.key] = rank + 1
    return replace(ddl, place=DdlPlace(ddl.place.key, rank))


def ranked(wanted: Iterable[Wanted], ranks: Ranks) -> tuple[list[Placed], Moved]:
    """Give every statement a place of its own, after those already at its key (`ranks`).

    At one key the order is: tables by name, each with its statements in order; then tables that are renamed, together;
    then tables that take over names freed by these renames. Also returns the final place of each table's own place.
    """
    ddl: list[Placed] = []
    moved: Moved = {}
    for item in sorted(wanted, key=lambda w: (w.place.key, _phase(w.place), w.name, w.place.rank)):
        key, rank = item.place.key, ranks.get(item.place.key, 0)
        ddl += [
            Placed(DdlPlace(key, rank + i), *item.name, sql, item.cause, item.as_run)
            for i, sql in enumerate(item.statements)
        ]
        moved[item.owner, item.place] = DdlPlace(key, rank + max(len(item.statements) - 1, 0))
        ranks[key] = rank + max(len(item.statements), 1)
    return ddl, moved


def _phase(place: DdlPlace) -> int:
    return (place.rank >= RENAMED) + (place.rank >= BEGINS)


def in_order_of_keys(places: Iterable[DdlPlace], floor: OrderKey) -> dict[DdlPlace, DdlPlace]:
    """Return new places for those from `floor` on whose order keys would not sort like the places.

    Places of events whose keys differ only by node are put after those of the first of them, since in a key the rank
    counts more than the node (`places.key_of`).
    """
    found: dict[DdlPlace, DdlPlace] = {}
    ordered = sorted({place for place in places if place.key >= floor})
    for _, same in groupby(ordered, key=lambda place: place.key[:3]):
        first, *others = same
        rank = first.rank
        for place in others:
            rank = place.rank if place.key == first.key else rank + 1
            if place.key != first.key:
                found[place] = DdlPlace(first.key, rank)
    return found
