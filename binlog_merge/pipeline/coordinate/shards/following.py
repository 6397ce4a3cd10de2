"""Assigns events of shards to logical tables across renames, and decides when the target renames its table and by which
text: the user's own if it renames exactly these, otherwise a generated one.

A logical table is renamed when the last of its shards has the new name, if no other table has it by then. So tables
with a single shard are renamed at once, also in chains and rings. For rows that enter or leave a table of several
shards there is no RENAME TABLE on the target: a `Finding` reports it, and the shard is treated as dropped in one table
and created in the other.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from binlog_merge.moved_keys import DdlPlace
from binlog_merge.pipeline.coordinate.shards.identity import BEGINS, RENAMED, LogicalTable, Member
from binlog_merge.pipeline.coordinate.shards.notes import table_of
from binlog_merge.pipeline.coordinate.shards.row_findings import renamed_away, renamed_into
from binlog_merge.pipeline.coordinate.shards.values import (
    WRITTEN,
    Decided,
    Event,
    Finding,
    Joins,
    Leaves,
    Moves,
    Name,
    Renamed,
    Shard,
    Start,
)
from snapshot_store.ddl.effects import effects_of
from snapshot_store.ddl.parse.statement import parse_statement
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.mysql.sql.session import DdlSession
from snapshot_store.render_sql import create_sql, in_session
from snapshot_store.tso import ORIGIN, OrderKey

Follows = Callable[[Shard, Shard, Shard, Name], bool]
"""Whether a shard may still be renamed like another one (from, to), and belong to the logical table of that
name then.
"""


@dataclass(frozen=True, slots=True)
class Renaming:
    """Logical tables that are renamed at once. `sql` is the statement of the node that came last, if it can be used.

    `cause` is that node and the key of its statement, None for a decision. `taken` are all names that tables have
    before it.
    """

    key: OrderKey
    pairs: tuple[tuple[Name, Name], ...]
    sql: str
    cause: tuple[str, OrderKey] | None
    taken: frozenset[Name]


@dataclass(eq=False)
class Following:
    """The logical tables while events are applied. `ahead` are those that wait for shards to follow, or for a name."""

    follows: Follows
    tables: list[LogicalTable] = field(default_factory=list)
    renamings: list[Renaming] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    by_name: dict[Name, LogicalTable] = field(default_factory=dict)
    by_shard: dict[Shard, LogicalTable] = field(default_factory=dict)
    ahead: dict[LogicalTable, None] = field(default_factory=dict)

    def begin(self, name: Name, since: OrderKey, start: Start) -> None:
        """Add a table that exists at the beginning."""
        table = self._new(name, name, since)
        table.start = start
        for shard in start.members:
            table.members[shard] = Member(name)
            self.by_shard[shard] = table

    def _new(self, first: Name, name: Name | None, since: OrderKey = ORIGIN) -> LogicalTable:
        table = LogicalTable(first, name, since)
        self.tables.append(table)
        if name is not None:
            self.by_name[name] = table
        return table

    def take(self, key: OrderKey, events: Sequence[tuple[Name, Event]]) -> None:
        """Apply the events at a key, decisions first."""
        renames = [event for _, event in events if isinstance(event, Renamed | Moves)]
        for name, event in events:
            match event:
                case Renamed() | Moves():
                    pass
                case Decided():
                    self._decide(event)
                case Joins():
                    self._join(name, event, event)
                case Leaves():
                    self._leave(name, event, event)
                case _:
                    self._of(name, event.shard).take(event, name, event)
        if renames:
            self._rename(renames)
        if self.ahead:
            sources = [event.shard.node for _, event in events if not isinstance(event, Decided)]
            text = next((event.sql for event in renames if isinstance(event, Renamed)), "")
            self._carry_out(key, (sources[0], key) if sources else None, text)

    def _of(self, name: Name, shard: Shard) -> LogicalTable:
        """Return the table that a shard belongs to, or else the one with that name."""
        return self.by_shard.get(shard) or self._called(name)

    def _called(self, name: Name) -> LogicalTable:
        return self.by_name.get(name) or self._new(name, name)

    # Shards that join and leave.

    def _join(self, name: Name, event: Joins, source: Event) -> None:
        table = self.by_shard.get(event.shard)
        if table is None:
            table = self._joined(name, event.shard)
            table.admit(event.shard, name, event.key)
            self.by_shard[event.shard] = table
            self._note(table)
        table.take(event, name, source)

    def _joined(self, name: Name, shard: Shard) -> LogicalTable:
        """Return the table that a new shard belongs to.

        If the shard that had its name is ahead of the others, the new one belongs to a table that is still to be
        created.
        """
        current = self.by_name.get(name)
        if current is not None and any(hop.shard == shard and hop.place is None for hop in current.hops):
            coming = next((table for table in self.ahead if table.name is None and table.first == name), None)
            return coming or self._new(name, None)
        if current is None or not current.members:
            likely = [t for t in self.ahead if any(member.name == name for member in t.members.values())]
            if len(likely) == 1 and all(other.node != shard.node for other in likely[0].members):
                return likely[0]
        return self._called(name)

    def _leave(self, name: Name, event: Leaves, source: Event) -> None:
        table = self._of(name, event.shard)
        table.take(event, name, source)
        if event.shard in table.members:
            table.leave(event.shard, event.key)
            del self.by_shard[event.shard]
            self._note(table)

    def _note(self, table: LogicalTable) -> None:
        if table.name is None or (table.members and not table.settled):
            self.ahead[table] = None
        else:
            self.ahead.pop(table, None)

    # Renames.

    def _rename(self, renames: Sequence[Renamed | Moves]) -> None:
        """Apply the renames of one statement."""
        for event in renames:
            if isinstance(event, Renamed):
                for table in filter(None, (self.by_shard.get(event.shard), self.by_shard.get(event.to))):
                    table.others |= {name for name in (event.old, event.new) if name is not None}
        carried = self._carried(renames)
        moving = [(event, self.by_shard.pop(event.shard)) for event in carried]
        members = [table.members.pop(event.shard) for event, table in moving]
        others = [event for event in renames if isinstance(event, Renamed) and event not in carried]
        self._otherwise(others)
        for (event, table), member in zip(moving, members, strict=True):
            table.move(member, event)
            self.by_shard[event.to] = table
            self._note(table)
        for event in others:
            if event.table is not None and event.new is not None and event.to not in self.by_shard:
                session = event.session or WRITTEN
                sql = in_session(create_sql(event.table, qualified=True), session)
                self._join(event.new, Joins(event.key, event.to, event.table, sql, session), event)

    def _carried(self, renames: Sequence[Renamed | Moves]) -> list[Renamed | Moves]:
        """Return the renames by which a logical table gets another name, now or when its other shards follow."""
        by_tool = {event.to for event in renames if isinstance(event, Renamed) and event.tool}
        carried: list[Renamed | Moves] = [
            event
            for event in renames
            if event.shard in self.by_shard
            and (isinstance(event, Moves) or (event.old and event.new and event.plain and event.shard not in by_tool))
        ]
        while True:
            kept = [event for event in carried if isinstance(event, Moves) or self._may_be(event, carried)]
            if len(kept) == len(carried):
                return carried
            carried = kept

    def _may_be(self, event: Renamed, carried: Sequence[Renamed | Moves]) -> bool:
        """Return whether the shard's table may get the new name, given the other renames of the same statement."""
        table = self.by_shard[event.shard]
        assert event.new is not None
        name = table.alias.get(event.new, event.new)
        if name == table.name:
            return True
        holder = self.by_name.get(name)
        if holder is not None and holder is not table and holder.members and not _goes(holder, carried):
            return False
        now = {e.shard for e in carried}
        rest = (s for s, member in table.members.items() if member.name == table.name and s not in now)
        mine = table.members[event.shard].hops
        was = mine[0].shard if mine else event.shard  # when its name was like the others'
        return all(self.follows(shard, was, event.to, event.new) for shard in rest)

    def _otherwise(self, others: Sequence[Renamed]) -> None:
        """Apply renames that rename no logical table: they change a shard, or a shard leaves."""
        by_target = {event.to: event for event in others}
        refilled = set()
        for event in others:
            if event.old is None:
                continue
            table = self._of(event.old, event.shard)
            instead = by_target.get(event.shard)
            if instead is not None and (instead.new != event.old or instead.table is None):
                instead = None
            alone = len(table.members) <= 1
            finding = renamed_away(event, instead, alone)
            self.findings += [finding] if finding is not None else []
            if instead is not None and (instead.tool or not alone):
                refilled.add(instead)
                table.taken |= {(event.key, event.shard), (instead.key, instead.shard)}
                for ddl in instead.instead:
                    table.take(ddl, event.old, event)
            else:
                sql = f"DROP TABLE {'.'.join(map(quote_name, event.old))}"
                self._leave(event.old, Leaves(event.key, event.shard, sql, True, event.session), event)
        for event in others:
            if event.old is None and event.new is not None and event not in refilled:
                self.findings.append(renamed_into(event))

    def _carry_out(self, key: OrderKey, cause: tuple[str, OrderKey] | None, sql: str) -> None:
        """Rename the logical tables whose shards all have one new name, as far as these names are free or
        become free.
        """
        wanted = {table: name for table in self.ahead if (name := table.wanted) is not None}
        while True:
            free: dict[Name, LogicalTable] = {}
            for table, name in wanted.items():
                holder = self.by_name.get(name)
                if holder is None or not holder.members or holder in wanted:
                    free.setdefault(name, table)
            if len(free) == len(wanted):
                break
            wanted = {table: name for name, table in free.items()}
        pairs = sorted((table.name, name) for table, name in wanted.items() if table.name is not None)
        if pairs:
            self.renamings.append(
                Renaming(key, tuple(pairs), sql, cause, frozenset(n for n, t in self.by_name.items() if t.members))
            )
        for table in wanted:
            if table.name is not None and self.by_name.get(table.name) is table:
                del self.by_name[table.name]
        for table, name in wanted.items():
            table.become(name, DdlPlace(key, RENAMED if table.name is not None else BEGINS))
            self.by_name[name] = table
            del self.ahead[table]

    # Decisions of operators.

    def _decide(self, event: Decided) -> None:
        name = next((name for name in self.by_name if ".".join(name) == table_of(event.id)), None)
        if name is None or event.key <= self.by_name[name].since:
            return
        table = self.by_name[name]
        if table.begun is None or not event.id.endswith(f"@{table.begun.text()}"):
            table.take(event, name, event)
        elif event.action == "skip":
            table.skip(event.key)
        elif event.action == "as-if-done" and event.shard in table.members and event.shard not in table.ahead:
            table.count_as(event.shard, table.members[table.ahead[0]].name)
        self._note(table)


def _goes(holder: LogicalTable, carried: Sequence[Renamed | Moves]) -> bool:
    """Return whether a table's shards have begun to give up its name."""
    return bool(holder.ahead) or any(isinstance(e, Renamed) and e.shard in holder.members for e in carried)


_LONGEST_NAME = 64

Pairs = Sequence[tuple[Name, Name]]


def rename_sql(renaming: Renaming, session: DdlSession) -> str:
    """Return the statement; `session` is that of the user's own statement."""
    if renaming.sql and _does(renaming, session):
        return renaming.sql
    steps = ", ".join(f"{_quoted(old)} TO {_quoted(new)}" for old, new in _in_turn(renaming))
    return f"RENAME TABLE {steps}"


def _does(renaming: Renaming, session: DdlSession) -> bool:
    """Return whether the user's statement renames exactly these tables, each to a free name, within their databases."""
    effects = effects_of(parse_statement(renaming.sql, session))
    if {(old, new) for new, old in effects.origins.items()} != set(renaming.pairs):
        return False
    taken, databases = set(renaming.taken), {name[0] for pair in renaming.pairs for name in pair}
    for old, new in effects.moves:
        if old not in taken or new in taken or new[0] not in databases:
            return False
        taken = (taken - {old}) | {new}
    return True


def _in_turn(renaming: Renaming) -> Iterator[tuple[Name, Name]]:
    """Yield the renames in an order in which every new name is free; a ring goes by way of an unused name."""
    remaining = dict(renaming.pairs)
    while remaining:
        old = next((old for old, new in sorted(remaining.items()) if new not in remaining), None)
        if old is None:
            old = min(remaining)
            aside = _free(old, renaming.taken | set(remaining))
            yield old, aside
            remaining[aside] = remaining.pop(old)
        else:
            yield old, remaining.pop(old)


def _free(name: Name, taken: set[Name] | frozenset[Name]) -> Name:
    """Return an unused name for a table that is temporarily renamed."""
    number = 0
    while True:
        suffix = f"_aside{number or ''}"
        found = (name[0], f"_{name[1]}"[: _LONGEST_NAME - len(suffix)] + suffix)
        if found not in taken:
            return found
        number += 1


def _quoted(name: Name) -> str:
    return ".".join(map(quote_name, name))
