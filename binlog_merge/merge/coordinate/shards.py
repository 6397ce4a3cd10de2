"""Coordination without markers: from what shards ran (`shard_log`) to the logical DDL, each at its place, and effects.

Every logical table is coordinated by itself (`shard.pessimistic`, `shard.optimistic`); here their answers are put
together. Where several statements follow from one event, those of a table one after the other, tables by name, each
gets a rank of its own. A database is made with its first shard and dropped with its last.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from binlog_merge.merge.coordinate.shard_log import Name, ShardLog
from binlog_merge.shard import optimistic, pessimistic
from binlog_merge.shard.modes import Modes, ShardMode
from binlog_merge.shard.notes import decisions_about
from binlog_merge.shard.values import (
    Decided,
    Effect,
    Event,
    Finding,
    Logical,
    Open,
    Outcome,
    Place,
    Start,
    Stop,
)
from snapshot_store.ddl.session import DEFAULT_SQL_MODE, DdlSession
from snapshot_store.render_sql import quote_name
from snapshot_store.topology import Topology
from snapshot_store.tso import ORIGIN, OrderKey

_WAYS: Mapping[ShardMode, Callable[..., Outcome]] = {
    "pessimistic": pessimistic.coordinate,
    "optimistic": optimistic.coordinate,
}
SESSION = DdlSession(sql_mode=DEFAULT_SQL_MODE)
"""Of statements whose own session is not known: those that operators write."""


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
class Together:
    """What all coordinated tables come to: DDL in order of their places, effects, what is to be told, what waits.

    `quiet` is where tables can go on from, `by_table` are the effects of each since it began.
    """

    ddl: tuple[Placed, ...] = ()
    effects: tuple[Effect, ...] = ()
    findings: tuple[Finding, ...] = ()
    open: tuple[tuple[ShardMode, Open], ...] = ()
    stop: tuple[Name, Stop] | None = None
    quiet: Mapping[Name, tuple[OrderKey, Start]] = field(default_factory=dict)
    by_table: Mapping[Name, Sequence[Effect]] = field(default_factory=dict)


def coordinate_shards(
    log: ShardLog, modes: Modes, decisions: Sequence[Decided], limit: OrderKey, floor: OrderKey = ORIGIN
) -> Together:
    """Return what the events below `limit` come to; what stops one table stops all there. What comes out below `floor`
    has done so.
    """
    outcomes = _outcomes(log, modes, decisions, limit)
    stops = [(outcome.stop.key, name) for name, (_, outcome) in outcomes.items() if outcome.stop is not None]
    stop = None
    if stops:
        key, name = min(stops)
        found = outcomes[name][1].stop
        assert found is not None
        stop, limit = (name, found), key
        outcomes = _outcomes(log, modes, decisions, key)
    databases = list(_databases(log, modes.topology, limit))
    databases = [*_implied(log, outcomes, databases), *databases]
    dropped = {(d.place.key, d.schema) for d in databases if d.sql.startswith("DROP ")}
    ranks: dict[OrderKey, int] = {}
    ddl = [_at_rank(d, ranks) for d in databases if (d.place.key, d.schema) not in dropped]
    effects: dict[Name, list[Effect]] = {}
    for name, (_, outcome) in outcomes.items():
        placed, moved = _ranked(name, _without_drops(name, outcome, dropped), ranks)
        ddl += placed
        effects[name] = moved
    ddl += [_at_rank(d, ranks) for d in databases if (d.place.key, d.schema) in dropped]
    stands = in_order_of_keys(
        [*(d.place for d in ddl), *(e.place for found in effects.values() for e in found if e.place is not None)], floor
    )
    ddl = [replace(d, place=stands.get(d.place, d.place)) for d in ddl]
    effects = {
        name: [e if e.place is None else replace(e, place=stands.get(e.place, e.place)) for e in found]
        for name, found in effects.items()
    }
    return Together(
        tuple(sorted(ddl, key=lambda d: d.place)),
        tuple(
            sorted((*log.effects, *(e for found in effects.values() for e in found)), key=lambda e: (e.key, e.shard))
        ),
        tuple(sorted((f for _, o in outcomes.values() for f in o.findings), key=lambda f: (f.key, f.shard))),
        tuple((mode, one) for mode, outcome in outcomes.values() for one in outcome.open),
        stop,
        {name: outcome.quiet for name, (_, outcome) in outcomes.items() if outcome.quiet is not None},
        effects,
    )


def in_order_of_keys(places: Iterable[Place], floor: OrderKey) -> dict[Place, Place]:
    """Return the places from `floor` on that are to be others, so that order keys are in the order of places.

    Places of events whose keys differ in nothing but the node are put behind those of the first of them: a rank counts
    more in a key than a node does (`stages.holds.key_of`).
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


def _outcomes(
    log: ShardLog, modes: Modes, decisions: Sequence[Decided], limit: OrderKey
) -> dict[Name, tuple[ShardMode, Outcome]]:
    """Coordinate each logical table with its events below `limit`; tables by name."""
    events: dict[Name, list[Event]] = {name: [] for name in sorted(log.names())}
    for name, event in log.events:
        if event.key < limit:
            events[name].append(event)
    outcomes = {}
    for name, found in events.items():
        since, start = log.start(name)
        decided: list[Event] = [d for d in decisions_about(name, decisions) if since < d.key < limit]
        # What is decided at a key is decided before what shards do there.
        ordered = sorted([*decided, *found], key=lambda e: (e.key, not isinstance(e, Decided)))
        shards = [*start.members, *(e.shard for e in found if not isinstance(e, Decided))]
        if shards:
            mode = modes.of(*shards[0])
            outcomes[name] = (mode, _WAYS[mode](start.members, start.table, ordered, SESSION, start))
    return outcomes


def _without_drops(name: Name, outcome: Outcome, dropped: set[tuple[OrderKey, str]]) -> Outcome:
    """Leave out the DROP TABLE of a table that goes with its database."""
    kept = (
        replace(one, statements=()) if one.table is None and (one.place.key, name[0]) in dropped else one
        for one in outcome.logical
    )
    return replace(outcome, logical=tuple(kept))


def _ranked(name: Name, outcome: Outcome, ranks: dict[OrderKey, int]) -> tuple[list[Placed], list[Effect]]:
    """Give every statement a place of its own, behind those at its key so far (`ranks`), and effects theirs."""
    logical = {one.place: one for one in outcome.logical}
    last: dict[OrderKey, int] = {}
    for place in (*logical, *(e.place for e in outcome.effects if e.place is not None)):
        last[place.key] = max(last.get(place.key, 0), place.rank)
    ddl: list[Placed] = []
    moved: dict[Place, Place] = {}
    for key, ranked in last.items():
        for rank in range(ranked + 1):
            one, here = logical.get(Place(key, rank)), ranks.get(key, 0)
            statements = () if one is None else one.statements
            if one is not None:
                cause = None if isinstance(one.cause, Decided) else (one.cause.shard.node, one.cause.key)
                as_run = one.own and one.alone
                ddl += [Placed(Place(key, here + i), *name, sql, cause, as_run) for i, sql in enumerate(statements)]
            moved[Place(key, rank)] = Place(key, here + max(len(statements) - 1, 0))
            ranks[key] = here + max(len(statements), 1)
    return ddl, [e if e.place is None else replace(e, place=moved[e.place]) for e in outcome.effects]


def _implied(
    log: ShardLog, outcomes: Mapping[Name, tuple[ShardMode, Outcome]], databases: Sequence[Placed]
) -> Iterator[Placed]:
    """Yield the making of logical databases that come with their first table: no database of a node goes there, as for
    tables that keep their names beside others that are routed elsewhere.
    """
    first: dict[str, Logical] = {}
    for name, (_, outcome) in outcomes.items():
        for one in outcome.logical:
            if name[0] not in first or one.place < first[name[0]].place:
                first[name[0]] = one
    made = {d.schema: d.place for d in reversed(databases) if d.sql.startswith("CREATE ")}
    for database, one in sorted(first.items()):
        there = database in log.schemas or bool(log.databases.get(database))
        there = there or any(schema == database for schema, _ in log.starts)
        there = there or (database in made and made[database] <= one.place)
        if there or isinstance(one.cause, Decided):
            continue
        node, schema = one.cause.shard[:2]
        events = [e for e in log.database_events if (e.node, e.name) == (node, schema) and e.key <= one.place.key]
        value = events[-1].value if events else None
        sql = f"CREATE DATABASE {quote_name(database)}"
        if value is not None:
            sql += f" CHARACTER SET {value.charset} COLLATE {value.collation}"
        yield Placed(Place(one.place.key), database, None, sql, (node, one.cause.key))


def _at_rank(ddl: Placed, ranks: dict[OrderKey, int]) -> Placed:
    rank = ranks.get(ddl.place.key, 0)
    ranks[ddl.place.key] = rank + 1
    return replace(ddl, place=Place(ddl.place.key, rank))


def _databases(log: ShardLog, topology: Topology, limit: OrderKey) -> Iterator[Placed]:
    """Yield the DDL of logical databases: made with the first of the nodes', dropped with the last, altered whenever
    one gets what the logical one has not.
    """
    live = {name: set(found) for name, found in log.databases.items()}
    defaults: dict[str, tuple[str, str]] = {}
    for event in sorted((e for e in log.database_events if e.key < limit), key=lambda e: e.key):
        name = topology.logical_schema(event.node, event.name)
        if name is None:
            continue
        here, one = live.setdefault(name, set()), (event.node, event.name)
        sql = None
        if event.value is None:
            here.discard(one)
            sql = None if here else f"DROP DATABASE {quote_name(name)}"
        else:
            value = (event.value.charset, event.value.collation)
            if not here or (one in here and defaults.get(name) != value):
                verb = "ALTER" if here else "CREATE"
                sql = f"{verb} DATABASE {quote_name(name)} CHARACTER SET {value[0]} COLLATE {value[1]}"
                defaults[name] = value
            here.add(one)
        if sql is not None:
            yield Placed(Place(event.key), name, None, sql, (event.node, event.key))
