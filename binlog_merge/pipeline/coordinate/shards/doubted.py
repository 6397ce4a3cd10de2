"""Follows logical tables whose rows on the target differ from the nodes' through the logical DDL.

A warning names such a table. If the table is renamed later, or exchanges a partition with another table, the warning
applies to the other name too, and another warning is given.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from binlog_merge.moved_keys import key_of
from binlog_merge.pipeline.coordinate.shards.ddl import Placed
from binlog_merge.pipeline.coordinate.shards.values import Name
from snapshot_store.ddl.effects import Effects, Verb, effects_of
from snapshot_store.ddl.parse.statement import parse_statement
from snapshot_store.ddl.statements import TruncateTable
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.mysql.sql.session import DdlSession
from snapshot_store.tso import OrderKey

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
