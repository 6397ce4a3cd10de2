"""One logical table's answer, told with the names that it has, and its shards, where things stand."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from binlog_merge.config.modes import ShardMode
from binlog_merge.pipeline.coordinate.shards.identity import BEGINS, LogicalTable
from binlog_merge.pipeline.coordinate.shards.log import Settled
from binlog_merge.pipeline.coordinate.shards.under import logical_under, open_under, start_under
from binlog_merge.pipeline.coordinate.shards.values import (
    Effect,
    Empties,
    Finding,
    Leaves,
    Logical,
    Name,
    Open,
    Outcome,
    ShardDdl,
    Start,
    Step,
)
from binlog_merge.places import Place
from snapshot_store.model import Table
from snapshot_store.mysql.sql.names import quote_name


@dataclass(frozen=True, slots=True)
class Coordinated:
    """A logical table and what its events come to: DDL with the name that the table has there, and effects."""

    number: int
    table: LogicalTable
    mode: ShardMode
    outcome: Outcome
    logical: tuple[tuple[Name, Logical], ...]
    effects: tuple[Effect, ...]


def outcome_of(number: int, table: LogicalTable, mode: ShardMode, outcome: Outcome) -> Coordinated:
    """Return what a table's events come to, told by the names that it and its shards have."""
    later = _Later(table, outcome)
    logical = []
    for one in outcome.logical:
        place = later.at(one.place)
        if place is not None:
            name = table.at(place)
            logical.append((name, replace(logical_under(one, table.first, name), place=place)))
    effects = [
        replace(moved, place=None if moved.place is None else later.at(moved.place))
        for effect in outcome.effects
        for moved in table.followed(effect)
    ]
    effects += _gone(table, outcome, later)
    told = replace(
        outcome,
        open=tuple(open_under(one, table.called) for one in outcome.open),
        findings=tuple(_finding_under(one, table) for one in outcome.findings),
    )
    return Coordinated(number, table, mode, told, tuple(logical), (*effects, *table.hop_effects()))


def _gone(table: LogicalTable, outcome: Outcome, later: "_Later") -> Iterator[Effect]:
    """Yield where rows vanish that wait and whose table is dropped or emptied meanwhile."""
    for one in outcome.logical:
        place = later.at(one.place)
        if isinstance(one.cause, Empties):
            yield Effect(one.cause.shard, one.cause.key, place, gone=True)
        elif one.table is None:
            left = (e for e in table.events if isinstance(e, Leaves) and e.key <= one.place.key)
            yield from (Effect(event.shard, event.key, place, gone=True) for event in left)


def _finding_under(finding: Finding, table: LogicalTable) -> Finding:
    """Return what is to be said with the name that the table has there."""
    behind = table.at(Place(finding.found, sys.maxsize))
    first, name = ".".join(table.first), ".".join(table.at(Place(finding.found)))
    detail, remedy = (text.replace(first, name) for text in (finding.detail, finding.remedy))
    return replace(finding, detail=detail, remedy=remedy, tables=(behind,))


class _Later:
    """Where what a table comes to stands, if it has its place on the target only later than its shards begin."""

    def __init__(self, table: LogicalTable, outcome: Outcome) -> None:
        self._table = table
        self._at: dict[Place, Place | None] = {}
        begins = table.begins
        if table.name is not None and begins is None:
            return
        places = {one.place for one in outcome.logical} | {e.place for e in outcome.effects if e.place is not None}
        early = sorted(place for place in places if begins is None or place.key <= begins.key)
        for number, place in enumerate(early):
            self._at[place] = None if begins is None else Place(begins.key, BEGINS + number)

    def at(self, place: Place) -> Place | None:
        """Return where it stands, None if that is not known yet."""
        return self._at.get(place, place)


def open_rename(table: LogicalTable) -> Open | None:
    """Return the rename that shards are awaited for."""
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


def components(tables: Sequence[Coordinated], effects: Sequence[Sequence[Effect]]) -> Iterator[Settled]:
    """Yield what can go on from where nothing was under way: tables that share names all together, others alone."""
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
            for one in found:
                if one.outcome.members or one.table.called not in _held(found):
                    starts[one.table.called] = _start(one)
        taken = frozenset(source for t in found for source in t.table.taken)
        yield Settled(key, starts, taken, tuple(e for i in numbers for e in effects[i]))


def _held(found: Iterable[Coordinated]) -> set[Name]:
    """Return the names of tables that there are."""
    return {t.table.called for t in found if t.outcome.members}


def _start(one: Coordinated) -> Start:
    quiet = one.outcome.quiet
    return start_under(one.table.start if quiet is None else quiet[1], one.table.called)


def _is_quiet(one: Coordinated) -> bool:
    """Tell whether nothing of a table is under way behind all its events."""
    table, quiet = one.table, one.outcome.quiet
    if table.decided or (table.members and not table.settled) or table.name is None:
        return False
    return not table.events or (quiet is not None and quiet[0] == table.events[-1].key)


def _sharing(names: Sequence[set[Name]]) -> list[list[int]]:
    """Return the numbers of sets that share a name with each other, directly or by others."""
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
