"""The outcome of one logical table under the names that it and its shards have, and the states it can continue from."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from binlog_merge.config.modes import ShardMode
from binlog_merge.moved_keys import DdlPlace
from binlog_merge.pipeline.coordinate.shards.identity import BEGINS, LogicalTable
from binlog_merge.pipeline.coordinate.shards.log import Settled
from binlog_merge.pipeline.coordinate.shards.under import logical_under, open_under, start_under
from binlog_merge.pipeline.coordinate.shards.values import (
    Effect,
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
from snapshot_store.model import Table
from snapshot_store.mysql.sql.names import quote_name


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
