"""A logical table through all the names it has: its shards under the names they have, and where each was carried out.

n1  RENAME TABLE a TO b     the shard is ahead: its rows wait, as on the target the table is still called a
n2  ADD COLUMN x            does not care what the table is called
n2  RENAME TABLE a TO b     now all shards are at b, and so the table is
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from binlog_merge.pipeline.coordinate.shards.under import event_under
from binlog_merge.pipeline.coordinate.shards.values import (
    LAST,
    Decided,
    Effect,
    Event,
    Moves,
    Name,
    Renamed,
    Shard,
    Start,
)
from binlog_merge.places import Place
from snapshot_store.tso import OrderKey

RENAMED = 1 << 40
"""The rank of rows released by the RENAME TABLE at a key: after all else there but `BEGINS`."""

BEGINS = 1 << 41
"""The least rank of what can only come when others have given up their names."""


@dataclass(eq=False, slots=True)
class Hop:
    """A shard gets another name (`to`), or a table that only then has its place on the target.

    From `place` on, once it is known, its rows are of the table `name`.
    """

    key: OrderKey
    shard: Shard
    to: Shard | None
    place: Place | None = None
    name: Name | None = None


@dataclass(eq=False, slots=True)
class Member:
    """A shard: the logical table that its name belongs to, and the renames by which it is ahead of the others."""

    name: Name
    hops: list[Hop] = field(default_factory=list)


@dataclass(eq=False)
class LogicalTable:
    """A logical table. `name` is what the target calls it, None where it is not there yet and waits for its name.

    `events` are those of its shards, under the name it had at `since` (`first`); `taken` are key and shard of nodes'
    events that they were made of. `others` are names that it shares with other tables, or nearly did.
    """

    first: Name
    name: Name | None
    since: OrderKey
    start: Start = field(default_factory=Start)
    members: dict[Shard, Member] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    taken: set[tuple[OrderKey, Shard]] = field(default_factory=set)
    names: list[tuple[Place, Name]] = field(default_factory=list)
    hops: list[Hop] = field(default_factory=list)
    begins: Place | None = None
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
        """Return the name that all shards have, if the target has another."""
        if not self.members:
            return self.first if self.name is None else None  # gone before it was ever there
        names = {member.name for member in self.members.values()}
        return names.pop() if len(names) == 1 and self.name not in names else None

    @property
    def settled(self) -> bool:
        """Tell whether the target has the table, under the name that all shards have."""
        return self.name is not None and not self.ahead

    def at(self, place: Place) -> Name:
        """Return the name of the table after a place."""
        found = self.first
        for since, name in self.names:
            if since <= place:
                found = name
        return found

    def take(self, event: Event, known_as: Name, source: Event) -> None:
        """Note an event of a shard, or about the table, which calls it `known_as`; it is made of `source`."""
        self.events.append(event_under(event, known_as, self.first))
        if not isinstance(source, Decided):
            self.taken.add((source.key, source.shard))

    def admit(self, shard: Shard, name: Name, key: OrderKey) -> None:
        """Take in a new shard, which calls the table `name`."""
        member = self.members[shard] = Member(name)
        if name != self.name:
            self._ahead(member, Hop(key, shard, None))

    def leave(self, shard: Shard, key: OrderKey) -> None:
        """Let a shard go; rows of one that is ahead find the table under the name that it has."""
        member = self.members.pop(shard)
        self._end_of_decision(shard, key)
        if member.hops and self.name is not None:
            self._ahead(member, Hop(key, shard, None))
            self.arrive(member, Place(key))

    def move(self, member: Member, event: Moves | Renamed) -> None:
        """Take a shard, which is no member at the moment, in again under its new name."""
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
            self.arrive(member, Place(event.key, RENAMED))
        self.take(Moves(event.key, event.shard, event.to), self.first, event)

    def _ahead(self, member: Member, hop: Hop) -> None:
        self.hops.append(hop)
        member.hops.append(hop)

    def _end_of_decision(self, shard: Shard, key: OrderKey) -> None:
        """What a shard only counted as has an end where it gets another name."""
        for hop in self.hops:
            if hop.shard == shard and hop.key == LAST:
                hop.key = key

    def count_as(self, shard: Shard, name: Name) -> None:
        """Let a shard count as having a name."""
        member = self.members[shard]
        member.name = name
        self._ahead(member, Hop(LAST, shard, None))

    def skip(self, key: OrderKey) -> None:
        """Leave the table its name: those that shards have given it mean this one."""
        assert self.name is not None
        for shard in self.ahead:
            member = self.members[shard]
            self.alias[member.name] = self.name
            member.name = self.name
            self._ahead(member, Hop(LAST, shard, None))
            self.arrive(member, Place(key))

    @property
    def begun(self) -> OrderKey | None:
        """Return the key of the first rename that shards are awaited for."""
        found = (hop.key for member in self.members.values() for hop in member.hops if hop.to is not None)
        return min(found, default=None)

    @property
    def decided(self) -> bool:
        """Tell whether shards count as having a name that they do not have."""
        return any(hop.key == LAST for hop in self.hops)

    def arrive(self, member: Member, place: Place) -> None:
        """Note that a shard's name and the target's are the same from a place on."""
        for hop in member.hops:
            hop.place, hop.name = place, self.name
        member.hops = []

    def become(self, name: Name, place: Place) -> None:
        """Give the table the name that all its shards have."""
        if self.name is None:
            self.begins = place
        else:
            self.names.append((place, name))
        self.name = name
        for member in self.members.values():
            self.arrive(member, place)

    # What the renames mean to rows.

    def hop_effects(self) -> Iterator[Effect]:
        """Yield under which names rows are found, and that those of shards that are ahead wait."""
        for hop in self.hops:
            yield Effect(hop.shard, hop.key, hop.place, (), hop.to, hop.name)
            if hop.to is not None:
                yield Effect(hop.to, hop.key, hop.place)

    def followed(self, effect: Effect) -> Iterator[Effect]:
        """Yield an effect for each of the names that its shard has had until it takes effect."""
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
