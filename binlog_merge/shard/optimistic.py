"""Optimistic coordination: the logical table is the join of the shards' tables.

    t1: ADD COLUMN c INT        the join grows: written at once
    t2: ADD COLUMN c INT        the join stays
    t1: DROP COLUMN c           the join stays: rows of t2 still have c
    t2: DROP COLUMN c           the join shrinks: written now
    t1: RENAME COLUMN a TO b    neither: t1 waits, its rows from here on with it; t2's go on
    t2: RENAME COLUMN a TO b    all shards have it: written, t1 and t2 go on

What a waiting shard runs meanwhile queues up behind. The queue is looked at statement by statement, and as one change
(`composed`): a rename that is taken back comes to nothing, and shards that reach one table by different ways meet.
Source: DM's proposal "Optimist Shard Mode Support Conflict DDL", and `dm/pkg/shardddl/optimism`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from binlog_merge.shard.composed import Composed, compose, inverse
from binlog_merge.shard.doubts import doubts_of
from binlog_merge.shard.joined import Change, alike, join_all, one, order, settled
from binlog_merge.shard.ledger import Ledger, Stopped
from binlog_merge.shard.lock import Lock, Stage
from binlog_merge.shard.rounds import Answer, Round
from binlog_merge.shard.values import (
    Effect,
    Empties,
    Fault,
    Joins,
    Leaves,
    Moves,
    Open,
    Outcome,
    Place,
    Shard,
    ShardDdl,
    ShardEvent,
)
from snapshot_store.ddl.session import DdlSession
from snapshot_store.model import Table


def coordinate(
    members: Mapping[Shard, Table], logical: Table | None, events: Iterable[ShardEvent], session: DdlSession
) -> Outcome:
    """Return what the events of one logical table's shards come to.

    `members` and `logical` are the tables before the first event, all under the logical name; without `logical` it is
    the members' join. Events come in the order of their keys. Stops at the first event that nothing can be made of.
    """
    run = _Run(members, logical, session)
    for event in events:
        try:
            run.take(event)
        except Stopped as stopped:
            return replace(run.outcome(), stop=stopped.stop)
    return run.outcome()


class _Run:
    """Takes events one by one and writes down what they come to."""

    def __init__(self, members: Mapping[Shard, Table], logical: Table | None, session: DdlSession) -> None:
        self.round = Round(Lock({shard: one(table) for shard, table in members.items()}))
        self.ledger = Ledger(logical if logical is not None else join_all(members.values()), session)
        self.queues: dict[Shard, list[ShardDdl]] = {}
        self.left = False  # rows of shards that are gone may still be in the logical table
        self.uneven: list[ShardDdl] = []  # what has taken effect since all shards were alike

    @property
    def lock(self) -> Lock:
        return self.round.lock

    def take(self, event: ShardEvent) -> None:
        self.ledger.begin()
        if not isinstance(event, Joins) and event.shard not in self.lock.normal:
            raise Stopped(Fault.UNKNOWN_SHARD, event, f"{event.shard} is no shard of this table here")
        if self.lock.normal and self.ledger.table is None:
            raise Stopped(
                Fault.STRANGE_TABLE, event, "the shards' tables cannot be joined, and no logical one is given"
            )
        match event:
            case ShardDdl():
                self._take_ddl(event)
            case Joins():
                self._take_joins(event)
            case Leaves():
                self._take_leaves(event)
            case Moves():
                self._take_moves(event)
            case Empties():
                self._take_empties(event)
        self._settle(event)

    def _take_ddl(self, ddl: ShardDdl) -> None:
        if ddl.shard in self.queues:
            self.queues[ddl.shard].append(ddl)
        elif not self._attempt(ddl, ddl):
            self.queues[ddl.shard] = [ddl]

    def _take_joins(self, event: Joins) -> None:
        if event.shard in self.lock.normal:
            self.ledger.swallowed.append(event)  # CREATE TABLE IF NOT EXISTS
            return
        lock = self.lock.with_table(event.shard, event.table)
        if lock.joined is None:
            raise Stopped(Fault.STRANGE_TABLE, event, f"{event.shard} cannot be joined with the other shards")
        self.round = replace(self.round, lock=lock)
        if self.ledger.table is None:
            self.ledger.append(event, (event.sql,) if event.sql else (), event.table)
        else:
            self._write(event, (), (), event.table)

    def _take_leaves(self, event: Leaves) -> None:
        queue = self.queues.pop(event.shard, [])
        self.round, _ = self.round.without(event.shard)
        self.left = bool(self.lock.normal)
        if self.left:
            place = self._write(event, (), (), next(iter(self.lock.normal.values())))
        else:
            place = self.ledger.append(event, (event.sql,) if event.sql else (), None)
        self.ledger.took_effect(queue, place)
        if queue:
            # What it was waiting for never happened: its rows go where the columns still have their old names.
            self.ledger.effects.append(Effect(event.shard, event.key, place, inverse(compose(queue).renames)))

    def _take_moves(self, event: Moves) -> None:
        if event.shard in self.queues:
            detail = f"{event.shard} is renamed to {event.to} while its DDL waits for other shards"
            raise Stopped(Fault.STRANGE_TABLE, event, detail)
        table = self.lock.normal[event.shard]
        round, _ = self.round.without(event.shard)
        self.round = replace(round, lock=round.lock.with_table(event.to, table))
        self.ledger.swallowed.append(event)

    def _take_empties(self, event: Empties) -> None:
        if len(self.lock.normal) == 1 and not self.left and event.sql:
            self.ledger.append(event, (event.sql,), self.ledger.table)
        else:
            self.ledger.swallowed.append(event)

    # What waits.

    def _settle(self, event: ShardEvent) -> None:
        """Let go of whatever no longer needs to wait, until nothing changes."""
        while self.queues and (
            self._release_heads(event) or self._retry_heads(event) or self._release_one(event) or self._meet(event)
        ):
            pass

    def _release_heads(self, event: ShardEvent) -> bool:
        if not self.lock.settled:
            return False
        released = tuple(self.lock.waiting)
        self.round = replace(self.round, lock=self.lock.released())
        self._effect(event, [[self.queues[shard][0]] for shard in released])
        self._drop_heads(released)
        return True

    def _retry_heads(self, event: ShardEvent) -> bool:
        """Try the first of each queue that is not among those that wait, in the order they were run."""
        heads = [queue[0] for shard, queue in self.queues.items() if shard not in self.lock.waiting]
        for head in sorted(heads, key=lambda ddl: (ddl.key, ddl.shard)):
            if self._attempt(head, event):
                self._drop_heads([head.shard])
                return True
            if head.shard in self.lock.waiting:
                return True
        return False

    def _release_one(self, event: ShardEvent) -> bool:
        """Let go of a shard whose whole queue comes to a change that need not wait."""
        for shard, queue in sorted(self.queues.items()):
            if len(queue) == 1:
                continue  # `_retry_heads` has seen to it
            change = compose(queue)
            lock = self.lock.with_table(shard, change.after)
            if not _waits(change) and lock.joined is not None:
                self.round = replace(self.round, lock=lock)
                del self.queues[shard]
                self._effect(event, [queue])
                return True
        return False

    def _meet(self, event: ShardEvent) -> bool:
        """Let go of all, where all queues to their ends come to one change of all shards."""
        if all(len(queue) == 1 and shard in self.lock.waiting for shard, queue in self.queues.items()):
            return False  # `_release_heads` has seen to them
        changes = {shard: compose(queue) for shard, queue in self.queues.items()}
        if not self._together(changes):
            return False
        queues = [self.queues[shard] for shard in sorted(self.queues)]
        final = {**self.lock.normal, **{shard: one(change.after) for shard, change in changes.items()}}
        self.round = replace(self.round, lock=replace(self.lock, normal=final, waiting={}))
        self.queues.clear()
        self._effect(event, queues)
        return True

    def _together(self, changes: Mapping[Shard, Composed]) -> bool:
        """Tell whether these changes, of all that wait, are one that all shards have made."""
        final = {**self.lock.normal, **{shard: one(change.after) for shard, change in changes.items()}}
        if any(_moves_values(change) for change in changes.values()):
            # What a swap of columns comes to does not show in the tables: all must have made the same.
            moved = {tuple(sorted(change.renames)) for change in changes.values()}
            return len(moved) == 1 and changes.keys() == final.keys() and join_all(final.values()) is not None
        waiting = [Change(c.before, c.after) for c in changes.values() if _waits(c)]
        return settled(waiting, final.values(), True) if waiting else join_all(final.values()) is not None

    def _drop_heads(self, shards: Iterable[Shard]) -> None:
        for shard in shards:
            self.queues[shard].pop(0)
            if not self.queues[shard]:
                del self.queues[shard]

    # What takes effect.

    def _attempt(self, ddl: ShardDdl, event: ShardEvent) -> bool:
        """Take a DDL clause by clause, or else whole; return whether it took effect."""
        if _moves_values(compose([ddl])):
            return False
        round, answer = self.round.try_sync(ddl.shard, ddl.before, ddl.steps)
        if answer.stage is not Stage.ACCEPTED:
            lock, verdict = self.lock.step(ddl.shard, ddl.before, ddl.after)
            round, answer = replace(self.round, lock=lock), Answer(verdict.stage, released=verdict.released)
        self.round = round
        if answer.stage is not Stage.ACCEPTED:
            return False
        released = [shard for shard in answer.released if shard in self.queues]
        self._effect(event, [*([self.queues[shard][0]] for shard in released), [ddl]], answer)
        self._drop_heads(released)
        return True

    def _effect(self, event: ShardEvent, queues: Sequence[Sequence[ShardDdl]], answer: Answer | None = None) -> None:
        """Write what these statements, a run of them for each shard, come to together, and note that they took effect.

        Those of the last shard are the likeliest to say it.
        """
        ddls = [ddl for queue in queues for ddl in queue]
        changes = [compose(queue) for queue in queues]
        if self.ledger.table is not None:
            for queue, change in zip(queues, changes, strict=True):
                # What a run of statements renames is said once.
                parts = [replace(change, renames=()) for _ in queue[1:]] + [change]
                for ddl, part in zip(queue, parts, strict=True):
                    self.ledger.findings += doubts_of(ddl, part, self.ledger.table, self.round.dropping)
        own: list[tuple[str, ...]] = [(ddl.sql,) for ddl in reversed(ddls)]
        if answer is not None:
            own.append(tuple(step.sql for step in answer.written))
        renames = tuple(pair for change in changes for pair in change.renames)
        place = self._write(event, own, renames, ddls[-1].after)
        self.ledger.took_effect(ddls, place)
        self.uneven = [] if all(self.lock.ready().values()) else [*self.uneven, *ddls]

    def _write(
        self, event: ShardEvent, own: Sequence[tuple[str, ...]], renames: Sequence[tuple[str, str]], origin: Table
    ) -> Place:
        """Make the logical table the join; return the place behind which rows may rely on it."""
        joined = self.lock.joined
        if joined is None:
            return self.ledger.here(event)
        place, gone = self.ledger.become(event, joined, own, renames, origin)
        self.round = replace(self.round, dropping=self.round.dropping.gone(gone))
        return place

    # What is left.

    def outcome(self) -> Outcome:
        held = [Effect(d.shard, d.key, None, d.renames) for queue in self.queues.values() for d in queue]
        return Outcome(
            tuple(self.ledger.logical),
            (*self.ledger.effects, *sorted(held, key=lambda e: (e.key, e.shard))),
            tuple(self.ledger.findings),
            tuple(self._open()),
            tuple(self.ledger.swallowed),
            self.lock.final,
            self.ledger.table,
        )

    def _open(self) -> Iterator[Open]:
        ready = self.lock.ready()
        behind = tuple(sorted(shard for shard, is_ready in ready.items() if not is_ready and shard not in self.queues))
        for shard, queue in sorted(self.queues.items()):
            for number, ddl in enumerate(queue):
                done = tuple(sorted(s for s, q in self.queues.items() if _same_change(q[0], ddl)))
                awaited = tuple(sorted(set(self.lock.normal) - set(done)))
                yield Open(_id(ddl), ddl, self._stage(shard, number), done, awaited)
        for ddl in self.uneven:
            done = tuple(sorted({d.shard for d in self.uneven if _same_change(d, ddl)}))
            yield Open(_id(ddl), ddl, "waiting", done, behind)

    def _stage(self, shard: Shard, number: int) -> Literal["waiting", "conflict", "queued"]:
        if number:
            return "queued"
        return "waiting" if shard in self.lock.waiting else "conflict"


def _waits(change: Composed) -> bool:
    """Tell whether a change makes a table neither larger nor smaller, or moves values from column to column."""
    return bool(change.renames) or order(change.before, change.after, True) is None


def _moves_values(change: Composed) -> bool:
    """Tell whether a change renames columns in such a way that the tables do not show it, as a swap of two."""
    return bool(change.renames) and order(change.before, change.after, True) is not None


def _same_change(a: ShardDdl, b: ShardDdl) -> bool:
    return alike(a.before, b.before) and alike(a.after, b.after)


def _id(ddl: ShardDdl) -> str:
    return f"{ddl.before.schema}.{ddl.before.name}@{ddl.key.text()}"
