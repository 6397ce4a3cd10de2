"""Logical tables that the target holds otherwise than the nodes do, followed through the DDL that comes out.

A warning says so of a table under the name that it has there. When such a table is renamed later, or exchanges a
partition with another, what was said of it is true of the other name too, and that is a warning of its own.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from binlog_merge.pipeline.coordinate.shards.ddl import Placed
from binlog_merge.pipeline.coordinate.shards.values import Name
from binlog_merge.places import key_of
from snapshot_store.ddl.effects import Effects, Verb, effects_of
from snapshot_store.ddl.parse.statement import parse_statement
from snapshot_store.ddl.statements import TruncateTable
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.mysql.sql.session import DdlSession
from snapshot_store.tso import OrderKey

Doubted = Mapping[Name, str]
"""Where a warning was given of a table: node, file and position of the statement."""


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning of a statement that runs at `key`: the tables concerned, as they are called behind it, and where."""

    key: OrderKey
    tables: tuple[Name, ...]
    where: str


@dataclass(frozen=True, slots=True)
class Passed:
    """What was said of the table `old`, at `where`, is true of `new` from a statement on."""

    ddl: Placed
    old: Name
    new: Name
    where: str


def passed_on(
    doubted: Doubted, warned: Iterable[Warned], ddl: Iterable[Placed], limit: OrderKey
) -> tuple[Doubted, tuple[Passed, ...]]:
    """Return the tables in doubt behind all that happens below `limit`, and what was passed on until then.

    `doubted` are those in doubt before.
    """
    # A warning names tables as they are called behind its statement, and behind all that follows from it.
    items: list[tuple[tuple[OrderKey, bool, int], OrderKey, Warned | Placed]] = [
        ((one.place.key, False, one.place.rank), key_of(one.place), one) for one in ddl
    ]
    items += [((one.key, True, number), one.key, one) for number, one in enumerate(warned)]
    found: list[Passed] = []
    for _, key, item in sorted(items, key=lambda one: one[0]):
        if key >= limit:
            continue
        if isinstance(item, Warned):
            doubted = {**dict.fromkeys(item.tables, item.where), **doubted}
        elif doubted:
            doubted, passed = _behind(doubted, item)
            found += passed
    return doubted, tuple(found)


def _behind(doubted: Doubted, ddl: Placed) -> tuple[Doubted, list[Passed]]:
    """Return the tables in doubt behind one statement, and what it passes on."""
    try:
        statement = parse_statement(ddl.sql, DdlSession())
    except SnapshotStoreError:
        return doubted, []
    effects = effects_of(statement, ddl.schema)
    gone = {*effects.having(Verb.DROP), *(effects.tables if isinstance(statement, TruncateTable) else ())}
    left = {name: where for name, where in doubted.items() if not gone & {name, (name[0], "")}}
    moved = effects.origins
    stay = {name: where for name, where in left.items() if name not in moved.values()}
    ways = [*((old, new) for new, old in moved.items()), *_exchanged(effects)]
    passed = [Passed(ddl, old, new, left[old]) for old, new in ways if old in left and new not in stay]
    return {**stay, **{one.new: one.where for one in passed}}, passed


def _exchanged(effects: Effects) -> Iterator[tuple[Name, Name]]:
    """Yield (from, to) of tables between which rows of a partition go."""
    for effect in effects.all:
        if effect.verb is Verb.EXCHANGE and effect.other is not None:
            yield from ((effect.table, effect.other), (effect.other, effect.table))
