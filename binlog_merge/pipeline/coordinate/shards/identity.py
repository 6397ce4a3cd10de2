"""A logical table across renames: its shards with their current names, and the name on the target at each place. It is
coordinated under the name it had first.

n1  RENAME TABLE a TO b     the shard is ahead: its rows wait, as on the target the table is still called a
n2  ADD COLUMN x            does not depend on the table's name
n2  RENAME TABLE a TO b     now all shards are called b, so the table is renamed

Its shards' statements are rewritten to that name (`event_under`), and the results to the name that the table has at
their place. Another table may have the first name by then (two tables that have swapped names). If a statement or a
foreign key names that other table, its name is marked so that it is not confused with this one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from binlog_merge.moved_keys import DdlPlace
from binlog_merge.pipeline.coordinate.shards.clauses import Naming, routed
from binlog_merge.pipeline.coordinate.shards.values import (
    LAST,
    WRITTEN,
    Decided,
    Effect,
    Empties,
    Event,
    Joins,
    Leaves,
    Logical,
    Moves,
    Name,
    Open,
    Renamed,
    Shard,
    ShardDdl,
    Start,
    open_id,
)
from snapshot_store.ddl.apply.statement import under_name
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.model import Table
from snapshot_store.mysql.sql.session import DdlSession
from snapshot_store.tso import OrderKey

_OTHER = "\ue000"
"""Marks the name of another table that has the name under which this one is coordinated."""


def name_of(table: Table) -> Name:
    """Return a table's database and name."""
    return (table.schema, table.name)


def _names(old: Name, name: Name) -> Callable[[Name], Name]:
    """Return a function that maps the names of referenced tables when the table `old` is called `name`."""

    def called(target: Name) -> Name:
        if target == old:
            return name
        if target[1].startswith(_OTHER):
            return (target[0], target[1].removeprefix(_OTHER))
        return (name[0], _OTHER + name[1]) if target == name else target

    return called


def table_under(table: Table, name: Name) -> Table:
    """Return a table under another name, with all derived names; foreign keys on the table itself follow."""
    old = name_of(table)
    return table if old == name else under_name(table, name, _names(old, name))


def sql_under(sql: str, old: Name, name: Name, session: DdlSession | None) -> str:
    """Return a statement on one table as a statement on a table of another name; `session` is the statement's own."""
    if old == name or not sql:
        return sql
    try:
        return routed(sql, *name, session or WRITTEN, Naming(*old, _names(old, name)))
    except SnapshotStoreError:
        return sql  # it names no table


def ddl_under(ddl: ShardDdl, name: Name) -> ShardDdl:
    """Return a shard's statement for a logical table of another name."""
    old = name_of(ddl.before)
    if old == name:
        return ddl
    steps = tuple(
        replace(step, sql=sql_under(step.sql, old, name, ddl.session), after=table_under(step.after, name))
        for step in ddl.steps
    )
    sql = sql_under(ddl.sql, old, name, ddl.session)
    return replace(ddl, sql=sql, before=table_under(ddl.before, name), steps=steps)


def event_under(event: Event, old: Name, name: Name) -> Event:
    """Return an event of the logical table `old` as an event of a table called `name`."""
    if old == name:
        return event
    match event:
        case ShardDdl():
            return ddl_under(event, name)
        case Joins():
            return replace(event, table=table_under(event.table, name), sql=_sql(event, old, name))
        case Leaves() | Empties():
            return replace(event, sql=_sql(event, old, name))
        case Decided():
            return replace(event, id=id_under(event.id, name), sql=_sql(event, old, name))
        case _:
            return event


def _sql(event: Joins | Leaves | Empties | Decided, old: Name, name: Name) -> str:
    return sql_under(event.sql, old, name, event.session)


def id_under(id: str, name: Name) -> str:
    """Return the id of a coordination if its table has another name."""
    return f"{'.'.join(name)}@{id.rpartition('@')[2]}"


def open_under(waiting: Open, name: Name) -> Open:
    """Return an open coordination under the table's current name."""
    if name_of(waiting.ddl.before) == name:
        return waiting
    ddl = ddl_under(waiting.ddl, name)
    return replace(waiting, id=open_id(ddl), ddl=ddl)


def logical_under(ddl: Logical, old: Name, name: Name) -> Logical:
    """Return a logical DDL of the table `old` as one of a table called `name`."""
    if old == name:
        return ddl
    statements = tuple(sql_under(sql, old, name, ddl.session) for sql in ddl.statements)
    return replace(ddl, statements=statements, table=None if ddl.table is None else table_under(ddl.table, name))


def start_under(start: Start, name: Name) -> Start:
    """Return the state from which coordination continues, under the table's current name."""
    if start.table is not None and name_of(start.table) == name:
        return start
    return replace(
        start,
        members={shard: table_under(table, name) for shard, table in start.members.items()},
        table=None if start.table is None else table_under(start.table, name),
        created="",  # shards that are made later are not made under that name
        written=tuple(ddl_under(ddl, name) for ddl in start.written),
        behind={
            s: owing._replace(owed=tuple(ddl_under(ddl, name) for ddl in owing.owed))
            for s, owing in start.behind.items()
        },
    )


RENAMED = 1 << 40
"""The rank of rows released by the RENAME TABLE at a key: after everything else there except `BEGINS`."""

BEGINS = 1 << 41
"""The least rank of tables that can only be created once others have given up their names."""


@dataclass(eq=False, slots=True)
class Hop:
    """A shard gets another name (`to`), or a shard whose table is not on the target yet.

    From `place` on, once it is known, its rows belong to the table `name`.
    """

    key: OrderKey
    shard: Shard
    to: Shard | None
    place: DdlPlace | None = None
    name: Name | None = None


@dataclass(eq=False, slots=True)
class Member:
    """A shard: the logical table that its name belongs to, and the renames by which it is ahead of the others."""

    name: Name
    hops: list[Hop] = field(default_factory=list)


@dataclass(eq=False)
class LogicalTable:
    """A logical table. `name` is its name on the target, None if it is not there yet and waits for its name.

    `events` are those of its shards, under the name it had at `since` (`first`); `taken` are the (key, shard) of the
    nodes' events they were made from. `others` are names that it shares, or nearly shared, with other tables.
    """

    first: Name
    name: Name | None
    since: OrderKey
    start: Start = field(default_factory=Start)
    members: dict[Shard, Member] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    taken: set[tuple[OrderKey, Shard]] = field(default_factory=set)
    names: list[tuple[DdlPlace, Name]] = field(default_factory=list)
    hops: list[Hop] = field(default_factory=list)
    begins: DdlPlace | None = None
    alias: dict[Name, Name] = field(default_factory=dict)
    others: set[Name] = field(default_factory=set)

    @property
    def called(self) -> Name:
        """Return the name that the table has or waits for."""
        return self.first if self.name is None else self.name

    @property
    def ahead(self) -> list[Shard]:
        """Return the shards whose names belong to another logical table than the target's."""
        return sorted(shard for shard, member in self.members.items() if member.name != self.name)

    @property
    def wanted(self) -> Name | None:
        """Return the name that all shards have, None if it is the target's name or they differ."""
        if not self.members:
            return self.first if self.name is None else None  # dropped before it was created
        names = {member.name for member in self.members.values()}
        return names.pop() if len(names) == 1 and self.name not in names else None

    @property
    def settled(self) -> bool:
        """Return whether the target has the table, under the name that all shards have."""
        return self.name is not None and not self.ahead

    def at(self, place: DdlPlace) -> Name:
        """Return the name of the table after a place."""
        found = self.first
        for since, name in self.names:
            if since <= place:
                found = name
        return found

    def take(self, event: Event, known_as: Name, source: Event) -> None:
        """Add an event that refers to the table as `known_as`, and record the event `source` that it was made from."""
        self.events.append(event_under(event, known_as, self.first))
        if not isinstance(source, Decided):
            self.taken.add((source.key, source.shard))

    def admit(self, shard: Shard, name: Name, key: OrderKey) -> None:
        """Add a new shard, which refers to the table as `name`."""
        member = self.members[shard] = Member(name)
        if name != self.name:
            self._ahead(member, Hop(key, shard, None))

    def leave(self, shard: Shard, key: OrderKey) -> None:
        """Remove a shard. If it is ahead, its rows go to the table's name on the target."""
        member = self.members.pop(shard)
        self._end_of_decision(shard, key)
        if member.hops and self.name is not None:
            self._ahead(member, Hop(key, shard, None))
            self.arrive(member, DdlPlace(key))

    def move(self, member: Member, event: Moves | Renamed) -> None:
        """Add a shard, which was removed for this, under its new name."""
        self.members[event.to] = member
        self._end_of_decision(event.shard, event.key)
        self._ahead(member, Hop(event.key, event.shard, event.to))
        skipped = isinstance(event, Renamed) and event.new in self.alias
        if isinstance(event, Renamed) and event.new is not None:
            self.others |= {event.new}
            member.name = self.alias.get(event.new, event.new)
        if skipped:
            self._ahead(member, Hop(LAST, event.to, None))
        if member.name == self.name:
            self.arrive(member, DdlPlace(event.key, RENAMED))
        self.take(Moves(event.key, event.shard, event.to), self.first, event)

    def _ahead(self, member: Member, hop: Hop) -> None:
        self.hops.append(hop)
        member.hops.append(hop)

    def _end_of_decision(self, shard: Shard, key: OrderKey) -> None:
        """End, at a key, the name that a shard only counts as having, because it is renamed there."""
        for hop in self.hops:
            if hop.shard == shard and hop.key == LAST:
                hop.key = key

    def count_as(self, shard: Shard, name: Name) -> None:
        """Count a shard as having a name."""
        member = self.members[shard]
        member.name = name
        self._ahead(member, Hop(LAST, shard, None))

    def skip(self, key: OrderKey) -> None:
        """Keep the table's name: names that shards have got instead are aliases of it."""
        assert self.name is not None
        for shard in self.ahead:
            member = self.members[shard]
            self.alias[member.name] = self.name
            member.name = self.name
            self._ahead(member, Hop(LAST, shard, None))
            self.arrive(member, DdlPlace(key))

    @property
    def begun(self) -> OrderKey | None:
        """Return the key of the first rename for which shards are awaited, None if there is none."""
        found = (hop.key for member in self.members.values() for hop in member.hops if hop.to is not None)
        return min(found, default=None)

    @property
    def decided(self) -> bool:
        """Return whether shards count as having a name that they do not have."""
        return any(hop.key == LAST for hop in self.hops)

    def arrive(self, member: Member, place: DdlPlace) -> None:
        """Record that a shard's name and the target's are the same from a place on."""
        for hop in member.hops:
            hop.place, hop.name = place, self.name
        member.hops = []

    def become(self, name: Name, place: DdlPlace) -> None:
        """Give the table the name that all its shards have."""
        if self.name is None:
            self.begins = place
        else:
            self.names.append((place, name))
        self.name = name
        for member in self.members.values():
            self.arrive(member, place)

    # The effects of renames on rows.

    def hop_effects(self) -> Iterator[Effect]:
        """Yield the effects of renames: the name of each shard's rows, and that rows of shards that are ahead wait."""
        for hop in self.hops:
            yield Effect(hop.shard, hop.key, hop.place, (), hop.to, hop.name)
            if hop.to is not None:
                yield Effect(hop.to, hop.key, hop.place)

    def followed(self, effect: Effect) -> Iterator[Effect]:
        """Yield an effect for each of the names that its shard has until it takes effect."""
        if effect.key == LAST or not self.hops:
            yield effect
            return
        shard = effect.shard
        for hop in reversed(self.hops):
            if hop.to == shard and hop.key > effect.key and not self._is_own(shard, effect.key):
                shard = hop.shard
        yield replace(effect, shard=shard)
        for hop in self.hops:
            if hop.shard == shard and hop.to is not None and hop.key >= effect.key:
                if effect.place is not None and effect.place.key <= hop.key:
                    return
                yield Effect(hop.to, hop.key, effect.place)
                shard = hop.to

    def _is_own(self, shard: Shard, key: OrderKey) -> bool:
        return any(event.key == key and getattr(event, "shard", None) == shard for event in self.events)
