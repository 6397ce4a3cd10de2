"""TRUNCATE and DROP TABLE of shards: each removes a shard's rows without row events, and waits for the other shards.

    t1:  a  TRUNCATE  b                    the merged order:
    t2:        c         TRUNCATE  d       a  c  TRUNCATE  b  d

    t1:  a  DROP  CREATE  b
    t2:        c             DROP  CREATE  d         a  c  DROP  CREATE  b  d

The target has one table for all shards, so the statement is written when the last shard runs it, and removes the rows
of all. Until then the rows that a shard writes after it wait; so do all statements on a table that is created again.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from binlog_merge.moved_keys import DdlPlace
from binlog_merge.pipeline.coordinate.shards.net_change import plain
from binlog_merge.pipeline.coordinate.shards.values import (
    Decided,
    Effect,
    Empties,
    Joins,
    Leaves,
    Moves,
    Open,
    OpenStage,
    Renamed,
    Shard,
    ShardDdl,
    ShardEvent,
    Step,
    open_id,
)
from snapshot_store.model import Table
from snapshot_store.tso import OrderKey

Emptying = Empties | ShardDdl
"""A statement that removes rows of a shard that stays: TRUNCATE TABLE, or ALTER TABLE that drops or empties
partitions.
"""


@dataclass(frozen=True, slots=True)
class Left:
    """A shard that is dropped while others are not; `ran` is the DDL that it has run and others have not.

    `emptied` are those that no other has run and that emptied partitions: rows after them wait for the drop, too.
    `unseen`: none of its rows has come out, so it waits for none.
    """

    event: Leaves
    ran: tuple[ShardDdl, ...] = ()
    emptied: tuple[ShardDdl, ...] = ()
    unseen: bool = False

    def effects(self, place: DdlPlace | None, gone: bool = False) -> Iterator[Effect]:
        """Yield the effects of its drop."""
        yield from (Effect(ddl.shard, ddl.key, place) for ddl in self.emptied)
        yield Effect(self.event.shard, self.event.key, place, gone=gone)


@dataclass(frozen=True, slots=True)
class Owed:
    """A statement that a shard counts as having run, by a decision; `event` is another shard's."""

    decided: Decided
    event: Emptying | Leaves

    def effects(self, shard: Shard, place: DdlPlace | None, gone: bool = False) -> Iterator[Effect]:
        """Yield the effect on rows since the decision: until the shard runs the statement, too, they wait, and then go.

        If it empties some partitions, those of the others must come out: no row waits.
        """
        if not isinstance(self.event, ShardDdl):
            yield Effect(shard, self.decided.key, place, gone=gone)


@dataclass
class Removals:
    """The statements that wait.

    `passing` are tables that will be dropped and never fit, by key. `left` are shards that are dropped, `again`
    the events since of those that are created again. `expected` are shards that are not there, but have yet to create a
    table and change it as others have. `emptied` has the emptying statements that each shard has run, or counts as
    having run, before others, in order. `owed` are those that shards count as having run and have yet to run.
    """

    passing: dict[Shard, OrderKey] = field(default_factory=dict)
    left: dict[Shard, Left] = field(default_factory=dict)
    again: dict[Shard, list[ShardEvent]] = field(default_factory=dict)
    expected: set[Shard] = field(default_factory=set)
    emptied: dict[Shard, list[Emptying | Owed]] = field(default_factory=dict)
    owed: dict[Shard, list[Owed]] = field(default_factory=dict)
    absent: set[Shard] = field(default_factory=set)
    """Those of `owed` that count as dropped."""

    def __bool__(self) -> bool:
        waiting = self.passing or self.left or self.expected
        return bool(waiting or any(self.owed.values()) or any(self.emptied.values()))

    def postpones(self, event: ShardEvent) -> bool:
        """Return whether an event is one of a table that is created again before the others are dropped; it is kept."""
        if event.shard not in self.left:
            return False
        self.again.setdefault(event.shard, []).append(event)
        if isinstance(event, Moves):
            self.again[event.to] = self.again.pop(event.shard)
            self.left[event.to] = self.left.pop(event.shard)
        return True

    def heads(self, shards: Collection[Shard]) -> dict[Shard, Emptying | Owed] | None:
        """Return the emptying statement that all shards have run now, None if one has not, or another one."""
        heads = {shard: ran[0] for shard in shards if (ran := self.emptied.get(shard))}
        return heads if heads and len(heads) == len(shards) and len(set(map(_text, heads.values()))) == 1 else None

    def head(self, ddl: ShardDdl) -> Emptying:
        """Return the emptying statement that `open` describes by a DDL."""
        heads = (ran[0] for ran in self.emptied.values() if ran)
        return next(e for e in heads if not isinstance(e, Owed) and (e.key, e.shard) == (ddl.key, ddl.shard))

    def owe(self, shard: Shard, owed: Owed) -> None:
        """Record that a shard counts as having run a statement."""
        self.owed.setdefault(shard, []).append(owed)
        if not isinstance(owed.event, Leaves):
            self.emptied.setdefault(shard, []).append(owed)

    def paid(self, event: Emptying) -> Owed | None:
        """Return what an emptying statement of a shard pays, None if nothing.

        It stands in its place from here on if others have yet to run it.
        """
        owed = self.owed.get(event.shard, [])
        found = next((one for one in owed if _text(one) == _text(event)), None)
        if found is not None:
            owed.remove(found)
            ran = self.emptied.get(event.shard, [])
            ran[:] = [event if one is found else one for one in ran]
        return found

    def move(self, shard: Shard, to: Shard) -> None:
        """Record that a shard has another name."""
        if shard in self.emptied:
            self.emptied[to] = self.emptied.pop(shard)
        if shard in self.owed:
            self.owed[to] = self.owed.pop(shard)
        if shard in self.absent:
            self.absent = self.absent - {shard} | {to}

    def held(self) -> Iterator[Effect]:
        """Yield the effects of what waits: the shards' later rows wait with it."""
        yield from (Effect(shard, key, None) for shard, key in self.passing.items())
        for shard, left in self.left.items():
            yield from left.effects(None)
            yield from (Effect(event.shard, event.key, None) for event in self.again.get(shard, ()))
        for ran in self.emptied.values():
            yield from (Effect(e.shard, e.key, None) for e in ran if not isinstance(e, Owed))
        for shard, owed in self.owed.items():
            for one in owed:
                yield from one.effects(shard, None)

    def open(self, shards: Collection[Shard], table: Table | None) -> Iterator[Open]:
        """Yield what waits: the DROP TABLE, then emptying statements, in the order in which shards have run them."""
        if table is None:
            return
        if self.left:
            ran = [_as_ddl(left.event, table) for left in self.left.values()]
            yield _open(ran, self.left, {*shards, *self.expected} - self.left.keys(), "waiting")
        for number in range(max(map(len, self.emptied.values()), default=0)):
            here = {shard: events[number] for shard, events in self.emptied.items() if len(events) > number}
            groups: dict[str, dict[Shard, Emptying | Owed]] = {}
            for shard, event in here.items():
                groups.setdefault(_text(event), {})[shard] = event
            for group in groups.values():
                ran = [_as_ddl(event, table) for event in group.values() if not isinstance(event, Owed)]
                if ran:
                    awaited = {*shards, *self.expected} - group.keys()
                    yield _open(ran, group, awaited, "queued" if number else "waiting")


def short_lived(events: Iterable[ShardEvent]) -> frozenset[tuple[Shard, OrderKey]]:
    """Return the shards that are dropped under the name with which they were made, with the keys of their creation."""
    found, made = set[tuple[Shard, OrderKey]](), dict[Shard, OrderKey]()
    for event in events:
        if isinstance(event, Joins):
            made.setdefault(event.shard, event.key)
        elif isinstance(event, Leaves | Moves | Renamed):
            key = made.pop(event.shard, None)
            if key is not None and isinstance(event, Leaves) and not event.reported:
                found.add((event.shard, key))
    return frozenset(found)


def _open(ran: Iterable[ShardDdl], done: Collection[Shard], awaited: Collection[Shard], stage: OpenStage) -> Open:
    found = sorted(ran, key=lambda ddl: (ddl.key, ddl.shard))
    return Open(open_id(found[0]), found[0], stage, tuple(sorted(done)), tuple(sorted(awaited)), tuple(found))


def taken_effects(event: Emptying | Owed, shard: Shard, place: DdlPlace, gone: bool = True) -> Iterator[Effect]:
    """Yield the effect of an emptying statement that is written at a place; `gone` is False if it is not written."""
    if isinstance(event, Owed):
        yield from event.effects(shard, place, gone)
    else:
        yield Effect(event.shard, event.key, place, gone=gone and isinstance(event, Empties))


def _text(event: Emptying | Owed | Leaves) -> str:
    """Return what two statements have in common that empty the same: the text, of TRUNCATE TABLE nothing."""
    if isinstance(event, Owed):
        return _text(event.event)
    return plain(event.sql) if isinstance(event, ShardDdl) else ""


def _as_ddl(event: Emptying | Leaves, table: Table) -> ShardDdl:
    """Return a statement as one that leaves the table's definition as it is."""
    if isinstance(event, ShardDdl):
        return event
    return ShardDdl(event.key, event.shard, event.sql, table, (Step(event.sql, table),))
