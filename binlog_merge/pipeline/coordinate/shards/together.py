"""Coordination without markers: from the log of shards (`shards.log`) to logical DDL, each at its place, and effects.

First events are assigned to logical tables (`shards.following`). Then each table is coordinated by itself
(`shards.pessimistic`, `optimistic.run`), and here the outcomes are combined. If several statements follow from one
event each gets a rank of its own (`shards.ddl`).
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from binlog_merge.config.modes import Modes, ShardMode
from binlog_merge.moved_keys import DdlPlace
from binlog_merge.pipeline.coordinate.shards import pessimistic
from binlog_merge.pipeline.coordinate.shards.databases import First, databases_of, implied
from binlog_merge.pipeline.coordinate.shards.ddl import Placed, Wanted, at_rank, in_order_of_keys, ranked
from binlog_merge.pipeline.coordinate.shards.following import Following, rename_sql
from binlog_merge.pipeline.coordinate.shards.identity import (
    BEGINS,
    RENAMED,
    LogicalTable,
    logical_under,
    open_under,
    start_under,
)
from binlog_merge.pipeline.coordinate.shards.log import Settled, ShardLog
from binlog_merge.pipeline.coordinate.shards.optimistic import run as optimistic
from binlog_merge.pipeline.coordinate.shards.removals import short_lived
from binlog_merge.pipeline.coordinate.shards.values import (
    WRITTEN,
    Decided,
    Effect,
    Event,
    Finding,
    Leaves,
    Logical,
    Name,
    Open,
    Outcome,
    Shard,
    ShardDdl,
    Start,
    Step,
    Stop,
)
from snapshot_store.model import Table
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.topology import Topology
from snapshot_store.tso import ORIGIN, OrderKey


@dataclass(frozen=True, slots=True)
class CoordinatedTable:
    """A logical table and the outcome of its events: logical DDL with the table's name at each place, and effects."""

    number: int
    table: LogicalTable
    mode: ShardMode
    outcome: Outcome
    logical: tuple[tuple[Name, Logical], ...]
    effects: tuple[Effect, ...]


def outcome_of(number: int, table: LogicalTable, mode: ShardMode, outcome: Outcome) -> CoordinatedTable:
    """Return a table's outcome, under the names that it and its shards have."""
    later = _Later(table, outcome)
    logical = []
    for ddl in outcome.logical:
        place = later.at(ddl.place)
        if place is not None:
            name = table.at(place)
            logical.append((name, replace(logical_under(ddl, table.first, name), place=place)))
    effects = [
        replace(moved, place=None if moved.place is None else later.at(moved.place))
        for effect in outcome.effects
        for moved in table.followed(effect)
    ]
    effects += _gone(table, outcome, later)
    renamed = replace(
        outcome,
        open=tuple(open_under(waiting, table.called) for waiting in outcome.open),
        findings=tuple(_finding_under(finding, table) for finding in outcome.findings),
    )
    return CoordinatedTable(number, table, mode, renamed, tuple(logical), (*effects, *table.hop_effects()))


def _gone(table: LogicalTable, outcome: Outcome, later: "_Later") -> Iterator[Effect]:
    """Yield the effects that remove waiting rows whose table is dropped meanwhile."""
    for ddl in outcome.logical:
        place = later.at(ddl.place)
        if ddl.table is None:
            leaving = (e for e in table.events if isinstance(e, Leaves) and e.key <= ddl.place.key)
            yield from (Effect(event.shard, event.key, place, gone=True) for event in leaving)


def _finding_under(finding: Finding, table: LogicalTable) -> Finding:
    """Return a finding with the table's name at its key."""
    name_after = table.at(DdlPlace(finding.found, sys.maxsize))
    first, name = ".".join(table.first), ".".join(table.at(DdlPlace(finding.found)))
    detail, remedy = (text.replace(first, name) for text in (finding.detail, finding.remedy))
    return replace(finding, detail=detail, remedy=remedy, tables=(name_after,))


class _Later:
    """The places of a table's DDL and effects, if the table is created on the target only after its shards' events."""

    def __init__(self, table: LogicalTable, outcome: Outcome) -> None:
        self._table = table
        self._at: dict[DdlPlace, DdlPlace | None] = {}
        begins = table.begins
        if table.name is not None and begins is None:
            return
        places = {ddl.place for ddl in outcome.logical} | {e.place for e in outcome.effects if e.place is not None}
        early = sorted(place for place in places if begins is None or place.key <= begins.key)
        for number, place in enumerate(early):
            self._at[place] = None if begins is None else DdlPlace(begins.key, BEGINS + number)

    def at(self, place: DdlPlace) -> DdlPlace | None:
        """Return the final place, None if it is not known yet."""
        return self._at.get(place, place)


def open_rename(table: LogicalTable) -> Open | None:
    """Return the rename for which shards are awaited, None if there is none."""
    key = table.begun
    if key is None or table.name is None:
        return None
    hops = [hop for hop in table.hops if hop.place is None and hop.to is not None]
    name = table.members[table.ahead[0]].name
    sql = f"RENAME TABLE {_quoted(table.name)} TO {_quoted(name)}"
    step = Step(sql, Table(*name, ()))
    ran = tuple(ShardDdl(hop.key, hop.shard, sql, Table(*table.name, ()), (step,)) for hop in hops)
    awaited = tuple(sorted(shard for shard in table.members if shard not in table.ahead))
    return Open(f"{'.'.join(table.name)}@{key.text()}", ran[0], "waiting", tuple(table.ahead), awaited, ran)


def _quoted(name: Name) -> str:
    return ".".join(map(quote_name, name))


def components(tables: Sequence[CoordinatedTable], effects: Sequence[Sequence[Effect]]) -> Iterator[Settled]:
    """Yield the states from which tables can continue since nothing is pending: tables that share names together."""
    for numbers in _sharing([{t.table.first, *(n for _, n in t.table.names), *t.table.others} for t in tables]):
        found = [tables[i] for i in numbers]
        if len(found) == 1 and not found[0].table.hops:
            key_and_start = found[0].outcome.quiet
            if key_and_start is None:
                continue
            key, start = key_and_start
            starts = {found[0].table.called: start}
        else:
            if not all(_is_quiet(t) for t in found):
                continue
            key = max(t.table.events[-1].key for t in found if t.table.events)
            starts = {name: Start() for t in found for name in (t.table.first, *(n for _, n in t.table.names))}
            for table in found:
                if table.outcome.members or table.table.called not in _held(found):
                    starts[table.table.called] = _start(table)
        taken = frozenset(source for t in found for source in t.table.taken)
        yield Settled(key, starts, taken, tuple(e for i in numbers for e in effects[i]))


def _held(found: Iterable[CoordinatedTable]) -> set[Name]:
    """Return the names of the tables that exist."""
    return {t.table.called for t in found if t.outcome.members}


def _start(coordinated: CoordinatedTable) -> Start:
    quiet = coordinated.outcome.quiet
    return start_under(coordinated.table.start if quiet is None else quiet[1], coordinated.table.called)


def _is_quiet(coordinated: CoordinatedTable) -> bool:
    """Return whether nothing of a table is pending after all its events."""
    table, quiet = coordinated.table, coordinated.outcome.quiet
    if table.decided or (table.members and not table.settled) or table.name is None:
        return False
    return not table.events or (quiet is not None and quiet[0] == table.events[-1].key)


def _sharing(names: Sequence[set[Name]]) -> list[list[int]]:
    """Return the numbers of sets that share a name with each other, directly or through other sets."""
    group: dict[Name, int] = {}
    members: dict[int, list[int]] = {}
    for number, found in enumerate(names):
        near = {group[name] for name in found if name in group}
        into = min(near, default=number)
        joined = [n for g in sorted(near | {into}) for n in members.pop(g, [])] + [number]
        members[into] = joined
        for n in joined:
            group.update(dict.fromkeys(names[n], into))
    return [sorted(members[g]) for g in sorted(members)]


_WAYS: Mapping[ShardMode, Callable[..., Outcome]] = {
    "pessimistic": pessimistic.coordinate,
    "optimistic": optimistic.coordinate,
}
_TOGETHER = -1
"""The owner of the places of renames: the renames at one key are a single statement."""


@dataclass(frozen=True, slots=True)
class Together:
    """The outcome of all coordinated tables: logical DDL in order of their places, effects, findings, and what waits.

    `settled` are the states from which tables can continue.
    """

    ddl: tuple[Placed, ...] = ()
    effects: tuple[Effect, ...] = ()
    findings: tuple[Finding, ...] = ()
    open: tuple[tuple[ShardMode, Open], ...] = ()
    stop: tuple[Name, Stop] | None = None
    settled: tuple[Settled, ...] = ()


def coordinate_shards(
    log: ShardLog, modes: Modes, decisions: Sequence[Decided], limit: OrderKey, floor: OrderKey = ORIGIN
) -> Together:
    """Coordinate the events below `limit`; a table that stops makes all tables stop there.

    Output below `floor` is published already and keeps its places.
    """
    following, tables = _coordinated(log, modes, decisions, limit)
    stops = [(t.outcome.stop.key, t.table.called, t.outcome.stop) for t in tables if t.outcome.stop is not None]
    stop = None
    if stops:
        limit, name, first = min(stops, key=lambda entry: entry[:2])
        stop = (name, first)
        following, tables = _coordinated(log, modes, decisions, limit)
    databases = list(databases_of(log, modes.topology, limit))
    databases = [*implied(log, _firsts(following, tables), databases), *databases]
    dropped = {(d.place.key, d.schema) for d in databases if d.sql.startswith("DROP ")}
    ranks: dict[OrderKey, int] = {}
    ddl = [at_rank(d, ranks) for d in databases if (d.place.key, d.schema) not in dropped]
    made, moved = ranked(_wanted(log, following, tables, dropped), ranks)
    ddl += made
    effects = [[_moved(e, t.number, moved) for e in t.effects] for t in tables]
    ddl += [at_rank(d, ranks) for d in databases if (d.place.key, d.schema) in dropped]
    placed = in_order_of_keys(
        [*(d.place for d in ddl), *(e.place for found in effects for e in found if e.place is not None)], floor
    )
    ddl = [replace(d, place=placed.get(d.place, d.place)) for d in ddl]
    effects = [
        [e if e.place is None else replace(e, place=placed.get(e.place, e.place)) for e in found] for found in effects
    ]
    findings = [*following.findings, *(f for t in tables for f in t.outcome.findings)]
    renames = ((t.mode, rename) for t in tables if (rename := open_rename(t.table)) is not None)
    return Together(
        tuple(sorted(ddl, key=lambda d: d.place)),
        tuple(sorted((*log.effects, *(e for found in effects for e in found)), key=lambda e: (e.key, e.shard))),
        tuple(sorted(findings, key=lambda f: (f.key, f.shard))),
        (*renames, *((t.mode, waiting) for t in tables for waiting in t.outcome.open)),
        stop,
        tuple(components(tables, effects)),
    )


def _coordinated(
    log: ShardLog, modes: Modes, decisions: Sequence[Decided], limit: OrderKey
) -> tuple[Following, list[CoordinatedTable]]:
    """Coordinate each logical table with its events below `limit`; returns tables by name."""
    following = Following(partial(_may_follow, modes.topology))
    for name in sorted({*log.members, *log.starts}):
        following.begin(name, *log.start(name))
    events: list[tuple[Name, Event]] = [(("", ""), d) for d in decisions if d.key < limit]
    events += [(name, event) for name, event in log.events if event.key < limit]
    # A decision at a key precedes the shards' events there.
    events.sort(key=lambda pair: (pair[1].key, not isinstance(pair[1], Decided)))
    for key, found in groupby(events, key=lambda pair: pair[1].key):
        following.take(key, list(found))
    # Also of what comes later: a table that will be dropped need not fit.
    brief = short_lived(event for _, event in sorted(log.events, key=lambda pair: pair[1].key))
    tables = []
    for number, table in enumerate(sorted(following.tables, key=lambda table: table.called)):
        start = table.start
        shards = [*start.members, *(e.shard for e in table.events if not isinstance(e, Decided))]
        if shards:
            mode = modes.of(*shards[0])
            outcome = _WAYS[mode](start.members, start.table, table.events, WRITTEN, start, brief)
            tables.append(outcome_of(number, table, mode, outcome))
    return following, tables


def _may_follow(topology: Topology, shard: Shard, old: Shard, new: Shard, name: Name) -> bool:
    """Return whether a shard may be renamed like another one, and then belong to the logical table `name` too.

    Shards with different names are not expected to get the same name, unless a route maps many names to one.
    """
    if shard.table != old.table and name[1] == new.table:
        return False
    if shard.schema == old.schema:
        schema = new.schema
    elif old.schema == new.schema:
        schema = shard.schema
    else:
        return False
    if (shard.node, schema) == (new.node, new.schema) and name[1] == new.table:
        return False  # that name is taken
    return topology.logical_name(shard.node, schema, new.table) == name


def _wanted(
    log: ShardLog, following: Following, tables: Sequence[CoordinatedTable], dropped: set[tuple[OrderKey, str]]
) -> Iterator[Wanted]:
    """Yield every statement, and every place that rows wait for, with ranks counted per table."""
    for table in tables:
        logical = {ddl.place: (name, ddl) for name, ddl in table.logical}
        waited = {e.place for e in table.effects if e.place is not None and e.place.rank != RENAMED}
        for place in {*logical, *waited}:
            if place not in logical:
                yield Wanted(place, table.table.at(place), table.number)
                continue
            name, ddl = logical[place]
            # A table that is dropped with its database needs no DROP TABLE.
            gone = ddl.table is None and (place.key, name[0]) in dropped
            statements = () if gone else ddl.statements
            yield Wanted(place, name, table.number, statements, ddl.ran, ddl.own and ddl.alone)
    renamings = {renaming.key: renaming for renaming in following.renamings}
    keys = {e.place.key for t in tables for e in t.effects if e.place is not None and e.place.rank == RENAMED}
    for key in keys | renamings.keys():
        if key not in renamings:
            yield Wanted(DdlPlace(key, RENAMED), ("", ""), _TOGETHER)  # a shard was renamed back
            continue
        renaming = renamings[key]
        sql = rename_sql(renaming, log.session(renaming.cause))
        yield Wanted(DdlPlace(key, RENAMED), renaming.pairs[0][0], _TOGETHER, (sql,), renaming.cause)


def _moved(effect: Effect, number: int, moved: Mapping[tuple[int, DdlPlace], DdlPlace]) -> Effect:
    if effect.place is None:
        return effect
    owner = _TOGETHER if effect.place.rank == RENAMED else number
    return replace(effect, place=moved[owner, effect.place])


def _firsts(following: Following, tables: Sequence[CoordinatedTable]) -> dict[str, First]:
    """Return the place at which each logical database gets its first table from shards."""
    firsts: dict[str, First] = {}
    for table in tables:
        found = [
            (name[0], First(ddl.place, *ddl.cause.shard[:2], ddl.cause.key))
            for name, ddl in table.logical
            if not isinstance(ddl.cause, Decided)
        ]
        found += [
            (name[0], First(place, hop.to.node, hop.to.schema, hop.key))
            for place, name in table.table.names
            for hop in table.table.hops
            if hop.to is not None and hop.key == place.key
        ]
        for database, first in found:
            if database not in firsts or first.place < firsts[database].place:
                firsts[database] = first
    return firsts
