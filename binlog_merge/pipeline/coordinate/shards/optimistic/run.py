"""Optimistic coordination: the logical table is the join of the shards' tables.

    t1: ADD COLUMN c INT        the join grows: written at once
    t2: ADD COLUMN c INT        the join stays
    t1: DROP COLUMN c           the join stays: rows of t2 still have c
    t2: DROP COLUMN c           the join shrinks: written now
    t1: RENAME COLUMN a TO b    neither: t1 waits with its rows from here on; t2's rows do not wait
    t2: RENAME COLUMN a TO b    all shards have it: written, t1 and t2 continue

Statements that a waiting shard runs meanwhile are queued. A queue is examined statement by statement, and as one net
change (`net_change`): a rename that is taken back is no change, and shards that reach the same table in different ways
meet. Source: DM's proposal "Optimist Shard Mode Support Conflict DDL", and `dm/pkg/shardddl/optimism`.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from binlog_merge.pipeline.coordinate.shards.carrying import carry_out
from binlog_merge.pipeline.coordinate.shards.clauses import applied, steps_of
from binlog_merge.pipeline.coordinate.shards.ledger import Stopped
from binlog_merge.pipeline.coordinate.shards.net_change import inverse, net_change_of, same_ddl
from binlog_merge.pipeline.coordinate.shards.optimistic.keeper import LockKeeper
from binlog_merge.pipeline.coordinate.shards.optimistic.lock import Info
from binlog_merge.pipeline.coordinate.shards.optimistic.shapes import Shape
from binlog_merge.pipeline.coordinate.shards.removals import Left
from binlog_merge.pipeline.coordinate.shards.row_findings import MOVING, moves_rows, rows_stay
from binlog_merge.pipeline.coordinate.shards.values import (
    LAST,
    Decided,
    Effect,
    Event,
    Fault,
    Joins,
    Leaves,
    Moves,
    Shard,
    ShardDdl,
    ShardEvent,
    Step,
    open_id,
)
from snapshot_store.ddl.effects import Verb
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.model import Table


class OptimisticRun(LockKeeper):
    """Coordinates one logical table, event by event."""

    def take(self, event: Event) -> None:
        super().take(event)
        self._settle(event)

    def _check(self, event: ShardEvent) -> None:
        super()._check(event)
        if self.lock.normal and self.ledger.table is None:
            raise Stopped(
                Fault.STRANGE_TABLE, event, "the shards' tables cannot be joined, and no logical one is given"
            )

    def _take_ddl(self, ddl: ShardDdl) -> None:
        if moves_rows(ddl, *MOVING):
            paid = self._pays_partitions(ddl)
            if not self.alone and self._only_empties(ddl):
                self.lock = self.lock.with_table(ddl.shard, self.shapes.of(ddl.after))
                if not paid:
                    self._take_emptying(ddl)
                return
            if not self.alone and not paid:
                self.ledger.findings.append(rows_stay(ddl, self._name()))
        debt = self.debts.paid(ddl)
        if debt is not None:
            if debt.place is None:
                self.queues.exchange(debt.ddl, Info.of(ddl, self.shapes), self.lock.waiting)
            self.ledger.effects += debt.effects(ddl)
            return
        if self.debts.reached(ddl.shard):
            ddl = self._as_if_paid(ddl)
        self._attempt_or_queue(ddl, ddl)

    def _only_empties(self, ddl: ShardDdl) -> bool:
        """Return whether a DDL does nothing but remove rows; columns and keys stay, and its shard waits for nothing."""
        alike = self.shapes.alike(self.shapes.of(ddl.before), self.shapes.of(ddl.after))
        return alike and ddl.shard not in self.queues and not moves_rows(ddl, Verb.EXCHANGE, Verb.FILE)

    def _attempt_or_queue(self, ddl: ShardDdl, event: Event) -> None:
        info = Info.of(ddl, self.shapes)
        if ddl.shard in self.queues or not self._attempt(info, event):
            self.queues.add(info, self.lock.waiting)

    def _last_of(self, shard: Shard) -> Table:
        """Return a shard's table after everything it has run."""
        return self.shapes[self.queues[shard][-1].after if shard in self.queues else self.lock.normal[shard]]

    def _as_if_paid(self, ddl: ShardDdl) -> ShardDdl:
        """Return a DDL as if its shard had really run what it counts as having run; unchanged if that is impossible."""
        before = self._last_of(ddl.shard)
        try:
            steps = steps_of(ddl.sql, before, self.ledger.session_of(ddl))
        except SnapshotStoreError:
            return ddl
        return replace(ddl, before=before, steps=steps)

    def _decide(self, event: Decided) -> None:
        """Apply a decision about the head of a queue; for any other DDL it is too late or too early."""
        head = next((queue[0].ddl for _, queue in self.queues if open_id(queue[0].ddl) == event.id), None)
        if head is None:
            self.ledger.swallowed.append(event)
        elif event.action == "as-if-done":
            self._pretend(event, head)
        else:
            self._let_through(event, head)

    def _pretend(self, event: Decided, head: ShardDdl) -> None:
        """Treat a DDL as if another shard had run it too."""
        shard = event.shard
        if shard is None or shard not in self.lock.normal or shard == head.shard:
            raise Stopped(Fault.DECISION, event, f"{shard} is not awaited for {head.sql!r}")
        before = self._last_of(shard)
        try:
            steps = steps_of(head.sql, before, self.ledger.session_of(head))
        except SnapshotStoreError as error:
            raise Stopped(Fault.DECISION, event, f"{shard} could not have run {head.sql!r}: {error}") from None
        pretended = ShardDdl(event.key, shard, head.sql, before, steps, head.session, text_of=head.ran)
        self.pretended.append(pretended)
        self.debts.owe(shard, pretended)
        self._attempt_or_queue(pretended, event)

    def _let_through(self, event: Decided, head: ShardDdl) -> None:
        """Let a DDL take effect, with other statements instead or none, for all shards that wait with it.

        The other shards count as having run it.
        """
        assert self.ledger.table is not None
        place, skips = self.ledger.here(event), event.action == "skip"
        if not skips:
            try:
                table = applied(self.ledger.table, event.sql, event.session)
            except SnapshotStoreError as error:
                raise Stopped(Fault.DECISION, event, str(error)) from None
            place = self.ledger.append(event, (event.sql,), table)
        infos = [queue[0] for _, queue in sorted(self.queues) if same_ddl(queue[0].ddl, head)]
        heads = [info.ddl for info in infos]
        others = sorted(self.lock.normal.keys() - {ddl.shard for ddl in heads})
        tables = {info.shard: info.before if skips else info.after for info in infos}
        if not skips and head in self.strangers:
            # No other shard could have run its DDL: from here on all have the decided table.
            free = (shard for shard in others if shard not in self.queues)
            assert self.ledger.shape is not None
            tables = dict.fromkeys([*tables, *free], self.ledger.shape)
        elif not skips:
            tables |= {shard: self._as_if(head, shard) for shard in others if shard not in self.queues}
        self._take_tables(tables, {info.shard: info.before for info in infos})
        for ddl in heads:
            self.queues.drop_heads([ddl.shard], self.lock.waiting)
            if ddl.shard in self.queues and not (skips and ddl.renames):
                # Its next queued DDL starts from the shard's table, but skipped names do not exist anywhere.
                self.lock = self.lock.with_table(ddl.shard, self.queues[ddl.shard][0].before)
            if skips and ddl.renames:
                # The logical table keeps the old names.
                self.ledger.effects.append(Effect(ddl.shard, LAST, place, inverse(ddl.renames)))
        for shard in others:
            self.debts.owe(shard, head)
        self.debts.settle(head, place, not skips)
        self._took_effect(heads, place)

    def _as_if(self, ddl: ShardDdl, shard: Shard) -> Shape:
        """Return a shard's table as if it had run another shard's DDL; unchanged if it could not."""
        try:
            table = self.shapes[self.lock.normal[shard]]
            return self.shapes.of(steps_of(ddl.sql, table, self.ledger.session_of(ddl))[-1].after)
        except SnapshotStoreError:
            return self.lock.normal[shard]

    def _take_tables(self, tables: Mapping[Shard, Shape], before: Mapping[Shard, Shape]) -> None:
        """Give shards these tables if all can be joined then, otherwise as many of them as possible."""
        together = self.lock
        for shard, table in tables.items():
            together = together.with_table(shard, table)
        if together.joined is None:
            together = self.lock
            for shard, table in tables.items():
                lock = together.with_table(shard, table)
                otherwise = before.get(shard, together.normal[shard])
                together = lock if lock.joined is not None else together.with_table(shard, otherwise)
        self.lock = together

    def _take_joins(self, event: Joins) -> None:
        lock = self.lock.with_table(event.shard, self.shapes.of(event.table))
        if lock.joined is None:
            self._take_stranger(event)
            return
        self.lock = lock
        if self.ledger.table is None:
            self._begin_table(event)
        else:
            self._write(event, (), (), event.table)

    def _take_stranger(self, event: Joins) -> None:
        """Let a shard wait that cannot be joined with the others, as if it had been created like them and altered
        since.

        It continues when it is altered to fit, or all others are.
        """
        like = self.lock.joined
        if like is None:
            raise Stopped(Fault.STRANGE_TABLE, event, f"{event.shard} cannot be joined with the other shards")
        self.lock = self.lock.with_table(event.shard, like)
        step = Step(event.sql, event.table)
        made = ShardDdl(event.key, event.shard, event.sql, self.shapes[like], (step,), event.session)
        self.strangers.append(made)
        self._attempt_or_queue(made, event)

    def _take_leaves(self, event: Leaves) -> Left:
        queue = tuple(info.ddl for info in self.queues.pop(event.shard))
        self.debts.forget(event.shard)
        self.lock, _ = self.lock.without(event.shard)
        unseen = bool(queue) and queue[0] in self.strangers and not event.reported
        self.rows_left = self.rows_left if unseen else not self.over
        if self.shards:
            place = self._write(event, (), (), self.shapes[next(iter(self.lock.normal.values()))])
        else:
            place = self.ledger.here(event)
        self._took_effect(queue, place)
        if unseen:
            self.ledger.effects.append(Effect(event.shard, event.key, place, gone=True))
        elif queue:
            # The DDL it waited for never takes effect: its rows go where the columns still have their old names.
            self.ledger.effects.append(Effect(event.shard, event.key, place, inverse(net_change_of(queue).renames)))
        return Left(event, queue, unseen=unseen)

    def _take_moves(self, event: Moves) -> None:
        self.debts.move(event.shard, event.to)
        self.ledger.move(event.shard, event.to)
        self.lock = self.lock.moved(event.shard, event.to)
        self.rename_queue(event.shard, event.to)
        self.ledger.swallowed.append(event)


coordinate = partial(carry_out, OptimisticRun)
