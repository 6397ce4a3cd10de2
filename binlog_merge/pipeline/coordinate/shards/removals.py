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

from binlog_merge.pipeline.coordinate.shards.net_change import plain
from binlog_merge.pipeline.coordinate.shards.values import (
    Decided,
    Effect,
    Empties,
    Leaves,
    Moves,
    Open,
    OpenStage,
    Shard,
    ShardDdl,
    ShardEvent,
    Step,
    open_id,
)
from binlog_merge.places import Place
from snapshot_store.model import Table

Emptying = Empties | ShardDdl
"""A statement that removes rows of a shard that stays: TRUNCATE TABLE, or ALTER TABLE that drops or empties
partitions.
"""


@dataclass(frozen=True, slots=True)
class Left:
    """A shard that is dropped while others are not; `ran` is the DDL that it has run and others have not.

    `emptied` are those that no other has run and that emptied partitions: rows after them wait for the drop, too.
    """

    event: Leaves
    ran: tuple[ShardDdl, ...] = ()
    emptied: tuple[ShardDdl, ...] = ()

    def effects(self, place: Place | None, gone: bool = False) -> Iterator[Effect]:
        """Yield the effects of its drop."""
        yield from (Effect(ddl.shard, ddl.key, place) for ddl in self.emptied)
        yield Effect(self.event.shard, self.event.key, place, gone=gone)


@dataclass
class Removals:
    """The statements that wait.

    `left` are shards that are dropped, `again` the events since of those that are created again. `expected` are shards
    that are not there, but have yet to create a table and change it as others have. `emptied` has the emptying
    statements that each shard has run before others, in order; a decision among them counts as one. `owed` has the
    decisions by which shards count as having run what they have yet to run.
    """

    left: dict[Shard, Left] = field(default_factory=dict)
    again: dict[Shard, list[ShardEvent]] = field(default_factory=dict)
    expected: set[Shard] = field(default_factory=set)
    emptied: dict[Shard, list[Emptying | Decided]] = field(default_factory=dict)
    owed: dict[Shard, Decided] = field(default_factory=dict)
    absent: set[Shard] = field(default_factory=set)
    """Those of `owed` that count as dropped."""

    def __bool__(self) -> bool:
        return bool(self.left or self.expected or self.owed or any(self.emptied.values()))

    def postpones(self, event: ShardEvent) -> bool:
        """Return whether an event is one of a table that is created again before the others are dropped; it is kept."""
        if event.shard not in self.left:
            return False
        self.again.setdefault(event.shard, []).append(event)
        if isinstance(event, Moves):
            self.again[event.to] = self.again.pop(event.shard)
            self.left[event.to] = self.left.pop(event.shard)
        return True

    def heads(self, shards: Collection[Shard]) -> dict[Shard, Emptying | Decided] | None:
        """Return the emptying statement that all shards have run now, None if one has not, or another one."""
        found = {shard: ran[0] for shard in shards if (ran := self.emptied.get(shard))}
        texts = {_text(event) for event in found.values() if not isinstance(event, Decided)}
        return found if found and len(found) == len(shards) and len(texts) == 1 else None

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
        for shard, left in self.left.items():
            yield from left.effects(None)
            yield from (Effect(event.shard, event.key, None) for event in self.again.get(shard, ()))
        for ran in self.emptied.values():
            yield from (Effect(e.shard, e.key, None) for e in ran if not isinstance(e, Decided))
        for shard, decided in self.owed.items():
            yield Effect(shard, decided.key, None)

    def open(self, shards: Collection[Shard], table: Table | None) -> Iterator[Open]:
        """Yield what waits: the DROP TABLE, then emptying statements, in the order in which shards have run them."""
        if table is None:
            return
        if self.left:
            ran = [_as_ddl(left.event, table) for left in self.left.values()]
            yield _open(ran, self.left, {*shards, *self.expected} - self.left.keys(), "waiting")
        for number in range(max(map(len, self.emptied.values()), default=0)):
            here = {shard: events[number] for shard, events in self.emptied.items() if len(events) > number}
            decided = {shard for shard, event in here.items() if isinstance(event, Decided)}
            groups: dict[str, dict[Shard, ShardDdl]] = {}
            for shard, event in here.items():
                if not isinstance(event, Decided):
                    groups.setdefault(_text(event), {})[shard] = _as_ddl(event, table)
            for group in groups.values():
                done = {*group, *decided}
                yield _open(group.values(), done, {*shards, *self.expected} - done, "queued" if number else "waiting")


def _open(ran: Iterable[ShardDdl], done: Collection[Shard], awaited: Collection[Shard], stage: OpenStage) -> Open:
    found = sorted(ran, key=lambda ddl: (ddl.key, ddl.shard))
    return Open(open_id(found[0]), found[0], stage, tuple(sorted(done)), tuple(sorted(awaited)), tuple(found))


def taken_effect(event: Emptying | Decided, shard: Shard, place: Place) -> Effect:
    """Return the effect of an emptying statement that is written at a place."""
    if isinstance(event, ShardDdl):
        return Effect(event.shard, event.key, place, event.renames)
    return Effect(shard if isinstance(event, Decided) else event.shard, event.key, place, gone=True)


def _text(event: Emptying | Decided) -> str:
    return plain(event.sql) if isinstance(event, ShardDdl) else ""


def _as_ddl(event: Emptying | Leaves, table: Table) -> ShardDdl:
    """Return a statement as one that leaves the table's definition as it is."""
    if isinstance(event, ShardDdl):
        return event
    return ShardDdl(event.key, event.shard, event.sql, table, (Step(event.sql, table),))
