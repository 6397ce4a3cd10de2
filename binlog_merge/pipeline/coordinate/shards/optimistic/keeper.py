"""Keeps the lock of a logical table and the queues of waiting shards, and releases them.

After every event the queues are examined until nothing changes: all heads together, each head by itself, a whole queue
as its net change, and all queues to their ends. Shards that have run the same are examined once.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from binlog_merge.moved_keys import DdlPlace
from binlog_merge.pipeline.coordinate.shards.carrying import Run
from binlog_merge.pipeline.coordinate.shards.ledger import Ledger
from binlog_merge.pipeline.coordinate.shards.optimistic.doubts import doubts_of
from binlog_merge.pipeline.coordinate.shards.optimistic.lock import Info, Lock, Operation, Stage
from binlog_merge.pipeline.coordinate.shards.optimistic.queues import Debts, Queues, change_of
from binlog_merge.pipeline.coordinate.shards.optimistic.shapes import Change, Shape, Shapes, settled
from binlog_merge.pipeline.coordinate.shards.removals import Removals
from binlog_merge.pipeline.coordinate.shards.values import (
    Effect,
    Event,
    Open,
    OpenStage,
    Outcome,
    Shard,
    ShardDdl,
    Start,
    open_id,
)
from binlog_merge.pipeline.coordinate.shards.writing import Candidate
from snapshot_store.model import Table
from snapshot_store.mysql.sql.session import DdlSession


class LockKeeper(Run):
    """The lock, the queues of waiting shards, and the ledger."""

    def __init__(self, start: Start, session: DdlSession) -> None:
        self.shapes = Shapes()
        self.lock = Lock.of(self.shapes, start.members)
        joined = self.lock.joined
        table = start.table if start.table is not None or joined is None else self.shapes[joined]
        self.ledger = Ledger(self.shapes, table, start.session or session, start.inert)
        self.queues = Queues()
        self.rows_left = start.rows_left  # rows of shards that left may still be in the logical table
        self.uneven: list[Info] = []  # DDL that took effect since all shards were alike
        self.debts = Debts()
        self.removals = Removals()
        self.pretended: list[ShardDdl] = []  # DDL that shards count as having run
        self.strangers: list[ShardDdl] = []  # the creation of shards that cannot be joined with the others

    @property
    def shards(self) -> Collection[Shard]:
        return self.lock.normal

    def tables(self) -> dict[Shard, Table]:
        return self._tables(self.lock.normal)

    @property
    def quiet(self) -> bool:
        waiting = self.queues or self.uneven or self.lock.waiting or self.lock.dropping.columns
        return not (waiting or self.debts or self.removals)

    # Waiting DDL.

    def _settle(self, event: Event) -> None:
        """Release shards that no longer need to wait, until nothing changes."""
        while self.queues and (
            self._release_heads(event) or self._retry_heads(event) or self._release_queue(event) or self._meet(event)
        ):
            pass

    def _release_heads(self, event: Event) -> bool:
        if not self.lock.settled:
            return False
        released = tuple(self.lock.waiting)
        self.lock = self.lock.released()
        self._effect(event, [[self.queues[shard][0]] for shard in released])
        self.queues.drop_heads(released, self.lock.waiting)
        return True

    def _retry_heads(self, event: Event) -> bool:
        """Try each head that is in conflict."""
        for head in self.queues.conflicts():
            if self._attempt(head, event):
                self.queues.drop_heads([head.shard], self.lock.waiting)
                return True
            if head.shard in self.lock.waiting:
                self.queues.agree(head.shard)
                return True
        return False

    def _release_queue(self, event: Event) -> bool:
        """Release a shard whose net change need not wait."""
        if not self.queues.longer:
            return False  # `_retry_heads` has tried it
        free = (shard for change, shards in self.queues.changes if not self._waits(change) for shard in shards)
        for shard in sorted(self.queues.longer.intersection(free)):
            lock = self.lock.with_table(shard, self.queues.change(shard).after)
            if lock.joined is not None:
                self.lock = lock
                self._effect(event, [self.queues.pop(shard)])
                return True
        return False

    def _meet(self, event: Event) -> bool:
        """Release all shards if the net changes of all queues are one change that all shards have made."""
        if not self.queues.longer and not self.queues.in_conflict:
            return False  # `_release_heads` has tried them
        if not self._together():
            return False
        queues = [self.queues[shard] for shard in sorted(shard for shard, _ in self.queues)]
        self.lock = self.lock.at({**self.lock.normal, **{shard: queue[-1].after for shard, queue in self.queues}})
        self.queues.clear()
        self._effect(event, queues)
        return True

    def _together(self) -> bool:
        """Return whether the net changes of the queues are one change that all shards have made."""
        changes = [change for change, _ in self.queues.changes]
        final = self._free() | {change.after for change in changes}
        if any(self._moves_values(change) for change in changes):
            # A swap of columns does not show in the tables: all shards must have made the same one.
            moved = {tuple(sorted(change.renames)) for change in changes}
            all_wait = len(self.queues) == len(self.lock.normal)
            return len(moved) == 1 and all_wait and self.shapes.join(final) is not None
        waiting = [change for change in changes if self._waits(change)]
        return settled(self.shapes, waiting, final, True) if waiting else self.shapes.join(final) is not None

    def _waits(self, change: Change) -> bool:
        """Return whether a change makes a table neither larger nor smaller, or moves values from column to column."""
        return bool(change.renames) or self.shapes.order(change.before, change.after, True) is None

    def _moves_values(self, change: Change) -> bool:
        """Return whether a change renames columns in a way that the tables do not show, such as a swap of two."""
        return bool(change.renames) and self.shapes.order(change.before, change.after, True) is not None

    def _free(self) -> set[Shape]:
        """Return the tables of the shards that do not wait."""
        conflicts = Counter(self.lock.normal[shard] for shard in self.queues.in_conflict)
        return {
            standing.normal
            for standing, count in self.lock.counts.items()
            if standing.waiting is None and count > conflicts[standing.normal]
        }

    def rename_queue(self, shard: Shard, to: Shard) -> None:
        """Move everything recorded about a shard to its new name."""
        self.queues.rename(shard, to, self.lock.waiting)
        self.uneven = [info.moved(to) if info.shard == shard else info for info in self.uneven]
        self.pretended = [replace(ddl, shard=to) if ddl.shard == shard else ddl for ddl in self.pretended]
        self.strangers = [replace(ddl, shard=to) if ddl.shard == shard else ddl for ddl in self.strangers]
        self.debts.rename(shard, to)

    # DDL that takes effect.

    def _attempt(self, info: Info, event: Event) -> bool:
        """Try a DDL clause by clause, or else whole. Returns whether it took effect."""
        if self._moves_values(change_of([info])):
            return False
        self.lock, operation = self.lock.try_sync(info)
        if operation.stage is not Stage.ACCEPTED:
            self.lock, verdict = self.lock.step(info.shard, info.before, info.after)
            operation = Operation(verdict.stage, released=verdict.released)
        if operation.stage is not Stage.ACCEPTED:
            return False
        released = [shard for shard in operation.released if shard in self.queues]
        self._effect(event, [*([self.queues[shard][0]] for shard in released), [info]], operation)
        self.queues.drop_heads(released, self.lock.waiting)
        return True

    def _effect(self, event: Event, queues: Sequence[Sequence[Info]], operation: Operation | None = None) -> None:
        """Write the DDL of the logical table for these statements, one queue per shard, which take effect.

        The statement of the last shard is tried first.
        """
        infos = [info for queue in queues for info in queue]
        ddls = [info.ddl for info in infos]
        before, count, dropping = self.ledger.table, len(self.ledger.logical), self.lock.dropping
        own: list[Candidate] = [(ddl, (ddl.sql,)) for ddl in reversed(ddls)]
        if operation is not None:
            own.append((ddls[-1], [step.sql for step in operation.written]))
        own += [(ddl, [s.sql for s in ddl.steps[i:]]) for ddl in reversed(ddls) for i in range(1, len(ddl.steps))]
        own.append((ddls[-1], [step.sql for step in ddls[-1].steps if not step.drops and not step.renames]))
        renames = tuple(pair for queue in queues for pair in change_of(queue).renames)
        place = self._write(event, own, renames, ddls[-1].after)
        if before is not None:
            logical = self.ledger.since(count, before)
            for queue in queues:
                mine = [info.ddl for info in queue]
                self.ledger.doubt(doubts_of(mine, logical, dropping, queue is queues[-1], self.alone))
        self._took_effect(ddls, max(place, self._unseen(event, infos)))
        if self.lock.all_ready:
            self.uneven.clear()
        else:
            self.uneven += infos

    def _unseen(self, event: Event, infos: Sequence[Info]) -> DdlPlace:
        """Write what the order of tables does not see of statements; return the place after it."""
        joined, written = self.lock.joined, len(self.ledger.logical)
        ddls = [info.ddl for info in infos]
        if joined is not None:
            self.ledger.loosen(event, joined, ddls)
        if self.lock.all_ready:
            tables = [self.shapes[shape] for shape in set(self.lock.final.values())]
            self.ledger.level(event, [*(info.ddl for info in self.uneven), *ddls], tables)
        return max((one.place for one in self.ledger.logical[written:]), default=self.ledger.here(event))

    def _write(
        self, event: Event, own: Sequence[Candidate], renames: Sequence[tuple[str, str]], origin: Table
    ) -> DdlPlace:
        """Write DDL that makes the logical table the join; return the place after which rows may rely on it."""
        joined = self.lock.joined
        if joined is None:
            return self.ledger.here(event)
        alone = len(self.lock.normal) == 1 and not self.rows_left
        place, gone = self.ledger.become(event, joined, own, renames, origin, alone)
        self.lock = replace(self.lock, dropping=self.lock.dropping.gone(gone))
        return place

    # The result.

    def outcome(self) -> Outcome:
        waiting = [info.ddl for _, queue in self.queues for info in queue if info.ddl not in self.pretended]
        held = [*self.removals.held(), *(Effect(d.shard, d.key, None, d.renames) for d in waiting)]
        return Outcome(
            tuple(self.ledger.logical),
            (*self.ledger.effects, *self.debts.effects(), *sorted(held, key=lambda e: (e.key, e.shard))),
            tuple(self.ledger.findings),
            (*self._open(), *self.removals.open(self.shards, self.ledger.table)),
            tuple(self.ledger.swallowed),
            self._tables(self.lock.final),
            self.ledger.table,
        )

    def _tables(self, shapes: Mapping[Shard, Shape]) -> dict[Shard, Table]:
        return {shard: self.shapes[shape] for shard, shape in shapes.items()}

    def _open(self) -> Iterator[Open]:
        """Yield open coordinations, one for all shards that have made the same change."""
        ready = self.lock.ready()
        unlike = tuple(sorted(shard for shard, is_ready in ready.items() if not is_ready and shard not in self.queues))
        queued = [(self._stage(s, n), info) for s, queue in sorted(self.queues) for n, info in enumerate(queue)]
        for group in self._by_change(queued):
            done = {info.shard for _, info in group}
            yield self._described(group, tuple(sorted(set(self.lock.normal) - done)))
        for group in self._by_change([("spreading", info) for info in self.uneven]):
            yield self._described(group, unlike)

    def _by_change(self, found: Iterable["_Staged"]) -> list[list["_Staged"]]:
        """Return the DDL grouped by the change they make."""
        groups: list[list[_Staged]] = []
        for stage, info in found:
            group = next((group for group in groups if self._same_change(group[0][1], info)), None)
            if group is None:
                groups.append([(stage, info)])
            else:
                group.append((stage, info))
        return groups

    def _same_change(self, a: Info, b: Info) -> bool:
        return self.shapes.alike(a.before, b.before) and self.shapes.alike(a.after, b.after)

    def _described(self, group: Sequence["_Staged"], awaited: tuple[Shard, ...]) -> Open:
        """Describe a group of pending DDL by the first that is not queued after another."""
        done = tuple(sorted({info.shard for _, info in group}))
        real = sorted(
            ((stage, info.ddl) for stage, info in group if info.ddl not in self.pretended),
            key=lambda pair: (pair[1].key, pair[1].shard),
        )
        found = real or [(stage, info.ddl) for stage, info in group]
        stage, first = min(found, key=lambda pair: _STAGES.index(pair[0]))
        return Open(open_id(first), first, stage, done, awaited, tuple(ddl for _, ddl in real))

    def _stage(self, shard: Shard, number: int) -> OpenStage:
        if number:
            return "queued"
        return "waiting" if shard in self.lock.waiting else "conflict"

    def _took_effect(self, ddls: Sequence[ShardDdl], place: DdlPlace) -> None:
        self.ledger.took_effect([ddl for ddl in ddls if ddl not in self.pretended], place)
        for ddl in ddls:
            self.debts.settle(ddl, place, True)


_Staged = tuple[OpenStage, Info]
_STAGES: tuple[OpenStage, ...] = ("waiting", "conflict", "queued", "spreading")
