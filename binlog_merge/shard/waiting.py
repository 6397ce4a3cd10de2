"""What waits in optimistic coordination, and how it is let go.

A shard that waits has a line: the DDL it waits with, and what it has run since. After every event the lines are looked
at until nothing changes: their first statements together, each by itself, a whole line as one change, and all of them
to their ends. Shards that have run the same are looked at once.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from binlog_merge.shard.carrying import Run
from binlog_merge.shard.composed import Composed, compose
from binlog_merge.shard.doubts import doubts_of
from binlog_merge.shard.joined import Change, alike, join_all, order, settled
from binlog_merge.shard.ledger import Ledger
from binlog_merge.shard.lines import Lines
from binlog_merge.shard.lock import Lock, Stage
from binlog_merge.shard.owed import Owed
from binlog_merge.shard.rounds import Answer, Round
from binlog_merge.shard.shapes import distinct, one
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


class Queues(Run):
    """The lock, what waits for it, and what is written down."""

    def __init__(self, start: Start, session: DdlSession) -> None:
        members, logical = start.members, start.table
        self.round = Round(Lock({shard: one(table) for shard, table in members.items()}))
        table = logical if logical is not None else join_all(members.values())
        self.ledger = Ledger(table, start.session or session, start.inert)
        self.lines = Lines()
        self.left = start.left  # rows of shards that are gone may still be in the logical table
        self.uneven: list[ShardDdl] = []  # what has taken effect since all shards were alike
        self.owed = Owed()
        self.pretended: list[ShardDdl] = []  # what shards count as having run
        self.strangers: list[ShardDdl] = []  # how shards were made that cannot be joined with the others

    @property
    def lock(self) -> Lock:
        return self.round.lock

    @property
    def quiet(self) -> bool:
        return not (self.lines or self.uneven or self.lock.waiting or self.round.dropping.columns or self.owed)

    # What waits.

    def _settle(self, event: Event) -> None:
        """Let go of whatever no longer needs to wait, until nothing changes."""
        while self.lines and (
            self._release_heads(event) or self._retry_heads(event) or self._release_one(event) or self._meet(event)
        ):
            pass

    def _release_heads(self, event: Event) -> bool:
        if not self.lock.settled:
            return False
        released = tuple(self.lock.waiting)
        self.round = replace(self.round, lock=self.lock.released())
        self._effect(event, [[self.lines[shard][0]] for shard in released])
        self.lines.drop_heads(released, self.lock.waiting)
        return True

    def _retry_heads(self, event: Event) -> bool:
        """Try the first of each line that is in conflict."""
        for head in self.lines.conflicts():
            if self._attempt(head, event):
                self.lines.drop_heads([head.shard], self.lock.waiting)
                return True
            if head.shard in self.lock.waiting:
                self.lines.agree(head.shard)
                return True
        return False

    def _release_one(self, event: Event) -> bool:
        """Let go of a shard whose whole line comes to a change that need not wait."""
        if not self.lines.longer:
            return False  # `_retry_heads` has seen to it
        free = (shard for change, shards in self.lines.changes if not _waits(change) for shard in shards)
        for shard in sorted(self.lines.longer.intersection(free)):
            lock = self.lock.with_table(shard, self.lines.change(shard).after)
            if lock.joined is not None:
                self.round = replace(self.round, lock=lock)
                self._effect(event, [self.lines.pop(shard)])
                return True
        return False

    def _meet(self, event: Event) -> bool:
        """Let go of all, where all lines to their ends come to one change of all shards."""
        if not self.lines.longer and not self.lines.in_conflict:
            return False  # `_release_heads` has seen to them
        if not self._together():
            return False
        lines = [line for _, line in sorted(self.lines)]
        final = {**self.lock.normal, **{shard: one(self.lines.change(shard).after) for shard, _ in self.lines}}
        self.round = replace(self.round, lock=replace(self.lock, normal=final, waiting={}))
        self.lines.clear()
        self._effect(event, lines)
        return True

    def _together(self) -> bool:
        """Tell whether what the lines come to is one change that all shards have made."""
        changes = [change for change, _ in self.lines.changes]
        final = distinct([*self._free(), *(one(change.after) for change in changes)])
        if any(_moves_values(change) for change in changes):
            # What a swap of columns comes to does not show in the tables: all must have made the same.
            moved = {tuple(sorted(change.renames)) for change in changes}
            return len(moved) == 1 and len(self.lines) == len(self.lock.normal) and join_all(final) is not None
        waiting = [Change(change.before, change.after) for change in changes if _waits(change)]
        return settled(waiting, final, True) if waiting else join_all(final) is not None

    def _free(self) -> list[Table]:
        """Return the tables of the shards that do not wait."""
        conflicts = Counter(id(self.lock.normal[shard]) for shard in self.lines.in_conflict)
        return [
            standing.normal
            for standing, count in self.lock.census
            if standing.waiting is None and count > conflicts[id(standing.normal)]
        ]

    def rename_lines(self, shard: Shard, to: Shard) -> None:
        """Let a shard that has got another name wait under that."""
        line = next((line for one, line in self.lines if one == shard), [])
        mine = (ddl for ddl in (*line, *self.uneven, *self.pretended) if ddl.shard == shard)
        new = {id(ddl): replace(ddl, shard=to) for ddl in mine}
        if line:
            self.lines.rename(shard, to, [new.get(id(ddl), ddl) for ddl in line], self.lock.waiting)
        self.uneven = [new.get(id(ddl), ddl) for ddl in self.uneven]
        self.pretended = [new.get(id(ddl), ddl) for ddl in self.pretended]
        self.strangers = [new.get(id(ddl), ddl) for ddl in self.strangers]
        self.owed.exchange(new)

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
        released = [shard for shard in answer.released if shard in self.lines]
        self._effect(event, [*([self.lines[shard][0]] for shard in released), [ddl]], answer)
        self.lines.drop_heads(released, self.lock.waiting)
        return True

    def _effect(self, event: Event, lines: Sequence[Sequence[ShardDdl]], answer: Answer | None = None) -> None:
        """Write what these statements, a run of them for each shard, come to together, and note that they took effect.

        Those of the last shard are the likeliest to say it.
        """
        ddls = [ddl for line in lines for ddl in line]
        changes = [compose(line) for line in lines]
        before, count, dropping = self.ledger.table, len(self.ledger.logical), self.round.dropping
        own: list[tuple[str, ...]] = [(ddl.sql,) for ddl in reversed(ddls)]
        if answer is not None:
            own.append(tuple(step.sql for step in answer.written))
        own += [tuple(step.sql for step in ddl.steps[i:]) for ddl in reversed(ddls) for i in range(1, len(ddl.steps))]
        renames = tuple(pair for change in changes for pair in change.renames)
        place = self._write(event, own, renames, ddls[-1].after)
        if before is not None:
            logical = self.ledger.since(count, before)
            for line in lines:
                self.ledger.doubt(doubts_of(line, logical, dropping, line is lines[-1], self.alone))
        self._took_effect(ddls, place)
        if self.lock.all_ready:
            self.uneven.clear()
        else:
            self.uneven += ddls

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
        waiting = [d for _, line in self.lines for d in line if not self._is_pretended(d)]
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
        behind = tuple(sorted(shard for shard, is_ready in ready.items() if not is_ready and shard not in self.lines))
        stages = {id(d): self._stage(s, number) for s, line in self.lines for number, d in enumerate(line)}
        for same in _by_change(ddl for _, line in sorted(self.lines) for ddl in line):
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
