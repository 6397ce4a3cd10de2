"""What waits in optimistic coordination, and how it is let go.

A shard that waits has a queue: the DDL it waits with, and what it has run since. After every event the queues are
looked at until nothing changes: their first statements together, each by itself, a whole queue as one change, and all
of them to their ends.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from binlog_merge.shard.composed import Composed, compose
from binlog_merge.shard.doubts import doubts_of
from binlog_merge.shard.joined import Change, alike, join_all, one, order, settled
from binlog_merge.shard.ledger import Ledger
from binlog_merge.shard.lock import Lock, Stage
from binlog_merge.shard.owed import Owed
from binlog_merge.shard.rounds import Answer, Round
from binlog_merge.shard.values import (
    Effect,
    Event,
    Open,
    OpenStage,
    Outcome,
    Place,
    Shard,
    ShardDdl,
    Start,
    open_id,
)
from snapshot_store.ddl.session import DdlSession
from snapshot_store.model import Table


class Queues:
    """The lock, what waits for it, and what is written down."""

    def __init__(self, start: Start, session: DdlSession) -> None:
        members, logical = start.members, start.table
        self.round = Round(Lock({shard: one(table) for shard, table in members.items()}))
        table = logical if logical is not None else join_all(members.values())
        self.ledger = Ledger(table, start.session or session, start.inert)
        self.queues: dict[Shard, list[ShardDdl]] = {}
        self.left = start.left  # rows of shards that are gone may still be in the logical table
        self.uneven: list[ShardDdl] = []  # what has taken effect since all shards were alike
        self.owed = Owed()
        self.pretended: list[ShardDdl] = []  # what shards count as having run

    @property
    def lock(self) -> Lock:
        return self.round.lock

    @property
    def quiet(self) -> bool:
        return not (self.queues or self.uneven or self.lock.waiting or self.round.dropping.columns or self.owed)

    def start(self) -> Start:
        return self.ledger.start(self.lock.normal, self.left)

    # What waits.

    def _settle(self, event: Event) -> None:
        """Let go of whatever no longer needs to wait, until nothing changes."""
        while self.queues and (
            self._release_heads(event) or self._retry_heads(event) or self._release_one(event) or self._meet(event)
        ):
            pass

    def _release_heads(self, event: Event) -> bool:
        if not self.lock.settled:
            return False
        released = tuple(self.lock.waiting)
        self.round = replace(self.round, lock=self.lock.released())
        self._effect(event, [[self.queues[shard][0]] for shard in released])
        self._drop_heads(released)
        return True

    def _retry_heads(self, event: Event) -> bool:
        """Try the first of each queue that is not among those that wait, in the order they were run."""
        heads = [queue[0] for shard, queue in self.queues.items() if shard not in self.lock.waiting]
        for head in sorted(heads, key=lambda ddl: (ddl.key, ddl.shard)):
            if self._attempt(head, event):
                self._drop_heads([head.shard])
                return True
            if head.shard in self.lock.waiting:
                return True
        return False

    def _release_one(self, event: Event) -> bool:
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

    def _meet(self, event: Event) -> bool:
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

    def _attempt(self, ddl: ShardDdl, event: Event) -> bool:
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

    def _effect(self, event: Event, queues: Sequence[Sequence[ShardDdl]], answer: Answer | None = None) -> None:
        """Write what these statements, a run of them for each shard, come to together, and note that they took effect.

        Those of the last shard are the likeliest to say it.
        """
        ddls = [ddl for queue in queues for ddl in queue]
        changes = [compose(queue) for queue in queues]
        before, count, dropping = self.ledger.table, len(self.ledger.logical), self.round.dropping
        own: list[tuple[str, ...]] = [(ddl.sql,) for ddl in reversed(ddls)]
        if answer is not None:
            own.append(tuple(step.sql for step in answer.written))
        own += [tuple(step.sql for step in ddl.steps[i:]) for ddl in reversed(ddls) for i in range(1, len(ddl.steps))]
        renames = tuple(pair for change in changes for pair in change.renames)
        place = self._write(event, own, renames, ddls[-1].after)
        if before is not None:
            logical = self.ledger.since(count, before)
            for queue in queues:
                self.ledger.findings += doubts_of(queue, logical, dropping, queue is queues[-1])
        self._took_effect(ddls, place)
        self.uneven = [] if all(self.lock.ready().values()) else [*self.uneven, *ddls]

    def _write(
        self, event: Event, own: Sequence[tuple[str, ...]], renames: Sequence[tuple[str, str]], origin: Table
    ) -> Place:
        """Make the logical table the join; return the place behind which rows may rely on it."""
        joined = self.lock.joined
        if joined is None:
            return self.ledger.here(event)
        alone = len(self.lock.normal) == 1 and not self.left
        place, gone = self.ledger.become(event, joined, own, renames, origin, alone)
        self.round = replace(self.round, dropping=self.round.dropping.gone(gone))
        return place

    # What is left.

    def outcome(self) -> Outcome:
        waiting = [d for queue in self.queues.values() for d in queue if not self._is_pretended(d)]
        held = [Effect(d.shard, d.key, None, d.renames) for d in waiting]
        return Outcome(
            tuple(self.ledger.logical),
            (*self.ledger.effects, *self.owed.effects(), *sorted(held, key=lambda e: (e.key, e.shard))),
            tuple(self.ledger.findings),
            tuple(self._open()),
            tuple(self.ledger.swallowed),
            self.lock.final,
            self.ledger.table,
        )

    def _open(self) -> Iterator[Open]:
        """Yield what is under way, once for all shards that have made the same change."""
        ready = self.lock.ready()
        behind = tuple(sorted(shard for shard, is_ready in ready.items() if not is_ready and shard not in self.queues))
        stages = {id(d): self._stage(s, number) for s, queue in self.queues.items() for number, d in enumerate(queue)}
        for same in _by_change(ddl for _, queue in sorted(self.queues.items()) for ddl in queue):
            done = {ddl.shard for ddl in same}
            yield self._one_open(same, stages, tuple(sorted(set(self.lock.normal) - done)))
        for same in _by_change(self.uneven):
            yield self._one_open(same, {}, behind)

    def _one_open(self, same: Sequence[ShardDdl], stages: Mapping[int, OpenStage], awaited: tuple[Shard, ...]) -> Open:
        """Return what is under way by the first that does not queue up behind another."""
        real = sorted((d for d in same if not self._is_pretended(d)), key=lambda d: (d.key, d.shard))
        stage, first = min(
            ((stages.get(id(d), "spreading"), d) for d in real or same), key=lambda pair: _STAGES.index(pair[0])
        )
        return Open(open_id(first), first, stage, tuple(sorted({d.shard for d in same})), awaited, tuple(real))

    def _stage(self, shard: Shard, number: int) -> OpenStage:
        if number:
            return "queued"
        return "waiting" if shard in self.lock.waiting else "conflict"

    def _took_effect(self, ddls: Sequence[ShardDdl], place: Place) -> None:
        self.ledger.took_effect([ddl for ddl in ddls if not self._is_pretended(ddl)], place)
        for ddl in ddls:
            self.owed.settle(ddl, place, True)

    def _is_pretended(self, ddl: ShardDdl) -> bool:
        return any(ddl is pretended for pretended in self.pretended)


_STAGES: tuple[OpenStage, ...] = ("waiting", "conflict", "queued", "spreading")


def _waits(change: Composed) -> bool:
    """Tell whether a change makes a table neither larger nor smaller, or moves values from column to column."""
    return bool(change.renames) or order(change.before, change.after, True) is None


def _moves_values(change: Composed) -> bool:
    """Tell whether a change renames columns in such a way that the tables do not show it, as a swap of two."""
    return bool(change.renames) and order(change.before, change.after, True) is not None


def _by_change(ddls: Iterable[ShardDdl]) -> list[list[ShardDdl]]:
    """Return statements put together that make the same change."""
    found: list[list[ShardDdl]] = []
    for ddl in ddls:
        same = next((group for group in found if _same_change(group[0], ddl)), None)
        if same is None:
            found.append([ddl])
        else:
            same.append(ddl)
    return found


def _same_change(a: ShardDdl, b: ShardDdl) -> bool:
    return alike(a.before, b.before) and alike(a.after, b.after)
