"""The logical DDL of shards, each with a place of its own in the merged order; and logical tables whose rows on the
target differ from the nodes', followed through it.

A warning names such a table. If the table is renamed later, or exchanges a partition with another table, the warning
applies to the other name too, and another warning is given.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from binlog_merge.moved_keys import DdlPlace, key_of
from binlog_merge.pipeline.coordinate.shards.identity import BEGINS, RENAMED
from binlog_merge.pipeline.coordinate.shards.values import Name
from snapshot_store.ddl.effects import Effects, Verb, effects_of
from snapshot_store.ddl.parse.statement import parse_statement
from snapshot_store.ddl.statements import TruncateTable
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.mysql.sql.session import DdlSession
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


Doubted = Mapping[Name, str]
"""The tables that were warned about, each with node, file and position of the statement."""


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning about a statement at `key`: the tables concerned, by their names after it, and its node, file and
    position.
    """

    key: OrderKey
    tables: tuple[Name, ...]
    where: str


@dataclass(frozen=True, slots=True)
class PassedWarning:
    """A warning about the table `old`, given at `where`, that also applies to `new` after a statement."""

    ddl: Placed
    old: Name
    new: Name
    where: str


def passed_on(
    doubted: Doubted,
    warned: Iterable[Warned],
    ddl: Iterable[Placed],
    limit: OrderKey,
    session_of: Callable[[Placed], DdlSession],
) -> tuple[Doubted, tuple[PassedWarning, ...]]:
    """Return the tables in doubt after everything below `limit`, and the warnings passed on to other tables until then.

    `doubted` are the tables in doubt before; `session_of` is the session that a statement is parsed in.
    """
    # A warning has the tables' names after its statement and all that follows from it.
    items: list[tuple[tuple[OrderKey, bool, int], OrderKey, Warned | Placed]] = [
        ((placed.place.key, False, placed.place.rank), key_of(placed.place), placed) for placed in ddl
    ]
    items += [((warning.key, True, number), warning.key, warning) for number, warning in enumerate(warned)]
    found: list[PassedWarning] = []
    for _, key, item in sorted(items, key=lambda entry: entry[0]):
        if key >= limit:
            continue
        if isinstance(item, Warned):
            doubted = {**dict.fromkeys(item.tables, item.where), **doubted}
        elif doubted:
            doubted, passed = _after(doubted, item, session_of(item))
            found += passed
    return doubted, tuple(found)


def _after(doubted: Doubted, ddl: Placed, session: DdlSession) -> tuple[Doubted, list[PassedWarning]]:
    """Return the tables in doubt after one statement, and the warnings it passes on."""
    try:
        statement = parse_statement(ddl.sql, session)
    except SnapshotStoreError:
        return doubted, []
    effects = effects_of(statement, ddl.schema)
    gone = {*effects.having(Verb.DROP), *(effects.tables if isinstance(statement, TruncateTable) else ())}
    remaining = {name: where for name, where in doubted.items() if not gone & {name, (name[0], "")}}
    moved = effects.origins
    stay = {name: where for name, where in remaining.items() if name not in moved.values()}
    ways = [*((old, new) for new, old in moved.items()), *_exchanged(effects)]
    passed = [PassedWarning(ddl, old, new, remaining[old]) for old, new in ways if old in remaining and new not in stay]
    return {**stay, **{warning.new: warning.where for warning in passed}}, passed


def _exchanged(effects: Effects) -> Iterator[tuple[Name, Name]]:
    """Yield (from, to) of the tables between which rows of a partition move."""
    for effect in effects.all:
        if effect.verb is Verb.EXCHANGE and effect.other is not None:
            yield from ((effect.table, effect.other), (effect.other, effect.table))
