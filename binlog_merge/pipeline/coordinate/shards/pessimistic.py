"""Pessimistic coordination: all shards run the same DDL in the same order; each is written when the last shard runs it.

    t1:  a  DDL  b  c                     the merged order, if events are numbered as they come:
    t2:        d      e  DDL  f           a  d  e  DDL  b  c  f

Rows of a shard that has run the DDL wait for the other shards. Two statements are the same DDL if they change the
schema in the same way or have the same text. Source: pingcap/tiflow `dm/pkg/shardddl/pessimism`,
`dm/syncer/sharding_group.go`.

    order    DDL1   DDL2   DDL3
    t1        x      x
    t2        x
    t3        x      x      x          active: DDL2, for which t2 is awaited

Source: pingcap/tiflow `dm/syncer/sharding-meta`, `dm/syncer/sharding_group.go`.
"""

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, Literal, TypeVar

from binlog_merge.moved_keys import DdlPlace
from binlog_merge.pipeline.coordinate.shards.behind import KEPT, Included, Latecomers, included
from binlog_merge.pipeline.coordinate.shards.carrying import Run, carry_out
from binlog_merge.pipeline.coordinate.shards.clauses import applied
from binlog_merge.pipeline.coordinate.shards.ledger import Ledger, Stopped
from binlog_merge.pipeline.coordinate.shards.net_change import inverse, net_change_of, plain, same_ddl
from binlog_merge.pipeline.coordinate.shards.optimistic.doubts import Dropping, doubts_of
from binlog_merge.pipeline.coordinate.shards.optimistic.queues import Debts
from binlog_merge.pipeline.coordinate.shards.optimistic.shapes import Shapes, alike, join_all, order
from binlog_merge.pipeline.coordinate.shards.removals import Left, Removals
from binlog_merge.pipeline.coordinate.shards.row_findings import moves_rows, rows_since, rows_stay
from binlog_merge.pipeline.coordinate.shards.values import (
    LAST,
    Decided,
    Effect,
    Event,
    Fault,
    Joins,
    Leaves,
    Moves,
    Open,
    Outcome,
    Shard,
    ShardDdl,
    Start,
    open_id,
)
from snapshot_store.ddl.effects import Verb
from snapshot_store.diff import equivalent
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.model import Table
from snapshot_store.mysql.sql.session import DdlSession
from snapshot_store.tso import OrderKey

Ddl = TypeVar("Ddl")
Key = TypeVar("Key")


class OutOfSequence(Exception):  # noqa: N818 (the name says what happened)
    """A shard runs another DDL than the others at the same position in the sequence; `expected` is theirs."""

    def __init__(self, expected: object) -> None:
        super().__init__("detect inconsistent DDL sequence")
        self.expected = expected


@dataclass(frozen=True, slots=True)
class Item(Generic[Key, Ddl]):
    """A DDL that a shard ran at `key`.

    `key` is None if the shard only counts as having run it. For a shard that was created with its effect it is the key
    at which the shard was created.
    """

    shard: Shard
    key: Key | None
    ddl: Ddl


@dataclass(frozen=True, slots=True)
class Sequence(Generic[Key, Ddl]):
    """The DDL that the shards have run.

    `order` has for each position the first that ran it; `active` is the first position at which some shard is awaited.
    """

    shards: Mapping[Shard, tuple[Item[Key, Ddl], ...]] = field(default_factory=dict)
    order: tuple[Item[Key, Ddl], ...] = ()
    active: int = 0

    @property
    def under_way(self) -> bool:
        """Return whether some shards have run DDL that others have not."""
        return self.active < len(self.order)

    @property
    def done(self) -> frozenset[Shard]:
        """Return the shards that have run the active DDL."""
        return frozenset(shard for shard, items in self.shards.items() if len(items) > self.active)

    @property
    def awaited(self) -> frozenset[Shard]:
        """Return the shards that have yet to run the active DDL."""
        return frozenset(self.shards) - self.done

    @property
    def complete(self) -> bool:
        """Return whether all shards have run the active DDL."""
        return self.under_way and not self.awaited

    def add(self, item: Item[Key, Ddl], same: Callable[[Ddl, Ddl], bool] = operator.eq) -> "Sequence[Key, Ddl]":
        """Return the sequence after a shard has run one more DDL. Raises OutOfSequence.

        A DDL that the shard has run already, at the same key, changes nothing.
        """
        items = self.shards.get(item.shard, ())
        if any(i.key == item.key for i in items):
            return self
        if len(items) < len(self.order):
            expected = self.order[len(items)]
            if not same(expected.ddl, item.ddl):
                raise OutOfSequence(expected.ddl)
            return self._with(item.shard, (*items, item))
        return replace(self._with(item.shard, (*items, item)), order=(*self.order, item))

    def run_after_all(self, item: Item[Key, Ddl]) -> "Sequence[Key, Ddl]":
        """Return the sequence after a shard has really run a DDL that it counted as having run."""
        items = self.shards[item.shard]
        i = next(i for i, known in enumerate(items) if known.key is None)
        return self._with(item.shard, (*items[:i], item, *items[i + 1 :]))

    def resolve(self) -> "Sequence[Key, Ddl]":
        """Return the sequence after the active DDL is resolved; an empty one once all are."""
        if self.active + 1 < len(self.order):
            return replace(self, active=self.active + 1)
        return Sequence(dict.fromkeys(self.shards, ()))

    def joined(self, shard: Shard, count: int, key: Key | None = None) -> "Sequence[Key, Ddl]":
        """Return the sequence with a new shard that counts as having run the first `count` DDL."""
        return self._with(shard, tuple(Item(shard, key, i.ddl) for i in self.order[:count]))

    def as_if_done(self, shards: Iterable[Shard]) -> "Sequence[Key, Ddl]":
        """Return the sequence in which these shards count as having run the active DDL."""
        found = self
        for shard in sorted(set(shards) & self.awaited):
            found = found._with(shard, (*self.shards[shard], Item(shard, None, self.order[self.active].ddl)))
        return found

    def without(self, shard: Shard) -> "Sequence[Key, Ddl]":
        """Return the sequence without a shard; DDL that only this shard has run is no longer expected of the others."""
        shards = {s: items for s, items in self.shards.items() if s != shard}
        longest = max([self.active, *(len(items) for items in shards.values())])
        remaining = replace(self, shards=shards, order=self.order[:longest])
        return remaining if remaining.under_way else Sequence(dict.fromkeys(shards, ()))

    def _with(self, shard: Shard, items: tuple[Item[Key, Ddl], ...]) -> "Sequence[Key, Ddl]":
        return replace(self, shards={**self.shards, shard: items})


RanItem = Item[OrderKey, ShardDdl]


class PessimisticRun(Run):
    """Coordinates one logical table, event by event."""

    def __init__(self, start: Start, session: DdlSession) -> None:
        members, logical = start.members, start.table
        self._members = dict(members)
        self.sequence: Sequence[OrderKey, ShardDdl] = Sequence(dict.fromkeys(members, ()))
        together = join_all(members.values()) or next((members[shard] for shard in sorted(members)), None)
        table = logical if logical is not None else together
        self.ledger = Ledger(Shapes(), table, start.session or session, start.inert)
        self.gone: list[RanItem] = []  # DDL of shards that left, which others have yet to run
        self.rows_left = start.rows_left
        self.debts = Debts()
        self.removals = Removals()
        self.created, self.written = start.created, start.written
        self.behind = Latecomers(start)
        self.decision: Decided | None = None

    @property
    def shards(self) -> Collection[Shard]:
        return self._members

    def tables(self) -> dict[Shard, Table]:
        return dict(self._members)

    @property
    def quiet(self) -> bool:
        waiting = self.sequence.under_way or self.gone or self.debts or self.decision or self.removals
        return not (waiting or self.behind.wait)

    def start(self) -> Start:
        owing = self.behind.start()
        return replace(super().start(), created=self.created, written=self.written, behind=owing)

    def _take_ddl(self, ddl: ShardDdl) -> None:
        self._doubt_drops(ddl)
        # Partitions that all shards empty are emptied at once, as later rows wait; rows of other tables do not wait.
        if not self.alone and moves_rows(ddl, Verb.EXCHANGE, Verb.FILE):
            self.ledger.findings.append(rows_stay(ddl, self._name()))
        self._members[ddl.shard] = ddl.after
        empties, debt = moves_rows(ddl, Verb.EMPTY), self.debts.paid(ddl)
        if debt is not None and not (empties and self.alone):  # of a shard alone, all rows are its own
            if debt.place is None:
                self.sequence = self.sequence.run_after_all(Item(ddl.shard, ddl.key, ddl))
            elif debt.written and empties:
                self.ledger.findings.append(rows_since(ddl, self._name()))
            self.ledger.effects += debt.effects(ddl)
            return
        if self._is_owed(ddl):
            return
        try:
            self.sequence = self.sequence.add(Item(ddl.shard, ddl.key, ddl), same_ddl)
        except OutOfSequence as error:
            expected = error.expected
            assert isinstance(expected, ShardDdl)
            detail = f"{ddl.shard} runs {ddl.sql!r} where {expected.shard} has run {expected.sql!r}"
            raise Stopped(Fault.DIFFERENT_DDL, ddl, detail) from None
        self._owed_by_none(ddl)
        self._resolve(ddl)

    def _is_owed(self, ddl: ShardDdl) -> bool:
        """Take a statement that the logical table has gone through before its shard was made; False for any other."""
        logical = self.ledger.table
        after = None if logical is None else self.behind.pay(ddl, logical)
        if after is None or logical is None:
            return False
        found = doubts_of(after.ran, after.change(logical), Dropping(), False)
        self.ledger.doubt(finding for finding in found if finding.key == ddl.key)
        if moves_rows(ddl, Verb.EMPTY):
            self.ledger.findings.append(rows_stay(ddl, self._name()))
        if after.fits(logical):
            self.ledger.effects += after.released(self.ledger.here(ddl))
        return True

    def _owed_by_none(self, ddl: ShardDdl) -> None:
        """Take what a shard has run, as if it owed it, for a DDL that all run, now that another has run it, too."""
        place = len(self.sequence.order) - 1
        ready = {shard for shard, items in self.sequence.shards.items() if len(items) == place}
        shard, ran = self.behind.anew(ddl, ready) or (ddl.shard, ())
        for own in ran:
            self.sequence = self.sequence.add(Item(shard, own.key, own), same_ddl)

    def _decide(self, event: Decided) -> None:
        """Apply a decision about the DDL for which shards are awaited; for any other DDL it is too late or too
        early.
        """
        owing = self.behind.decided(event.id)
        if owing:
            self._count_as_done_behind(event, owing)
            return
        under_way = self.sequence.order[self.sequence.active :]
        if not under_way or open_id(under_way[0].ddl) != event.id:
            self.ledger.swallowed.append(event)
            return
        if event.shard is not None and event.shard in self.removals.expected:
            self._came(event, event.shard)
            return
        awaited = self.sequence.awaited
        if event.action == "as-if-done":
            awaited &= {shard for shard in (event.shard,) if shard is not None}
        else:
            self.decision = event
            self.removals.expected.clear()
        for shard in awaited:
            self.debts.owe(shard, under_way[0].ddl)
        self.sequence = self.sequence.as_if_done(awaited)
        self._resolve(event)

    def _count_as_done_behind(self, event: Decided, owing: Collection[Shard]) -> None:
        """Let a shard count as having run DDL that is written already, so that its rows need not wait for it."""
        assert self.ledger.table is not None
        shard = event.shard
        if event.action != "as-if-done" or shard is None:
            raise Stopped(Fault.DECISION, event, "it is written already; a shard can only count as having run it")
        if shard not in owing:
            raise Stopped(Fault.DECISION, event, f"{shard} is not awaited for it")
        ddl, after = self.behind.count_as_done(shard, self.ledger.table)
        place = self.ledger.here(event)
        self.debts.owe(shard, ddl)
        self.debts.settle(ddl, place, True)
        if after.fits(self.ledger.table):
            self.ledger.effects += after.released(place)

    def _take_joins(self, event: Joins) -> None:
        if self.ledger.table is None:
            self._begin_table(event)
            self.sequence = Sequence({event.shard: ()})
            self.created, self.written = event.sql, ()
        else:
            found = self._included(event, self.ledger.table)
            if found is None:
                self._take_stranger(event)
                return
            self.sequence = self.sequence.joined(event.shard, found.count, event.key)
            self.behind.admit(event, found, self.ledger.table)
            self.ledger.swallowed.append(event)
        self._members[event.shard] = event.table

    def _take_stranger(self, event: Joins) -> None:
        """Pass over a table that does not fit if it will be dropped, as by a shard that goes through all late."""
        if (event.shard, event.key) not in self.brief:
            detail = f"{event.shard} is made with a schema that the logical table neither has nor is about to have"
            raise Stopped(Fault.STRANGE_TABLE, event, detail)
        self.removals.passing[event.shard] = event.key
        self.ledger.swallowed.append(event)

    def _included(self, event: Joins, logical: Table) -> Included | None:
        """Return how much of the DDL a new shard's table already includes, None if it is none that others have or had.

        One that is expected to do what others have done has done nothing of it yet, if that fits.
        """
        active = self.sequence.active
        if event.shard in self.removals.expected and equivalent(event.table, logical):
            return Included(active)
        waiting = self.sequence.order[active:]
        pending = [(active, logical), *((active + n, item.ddl.after) for n, item in enumerate(waiting, 1))]
        replays = bool(event.sql) and plain(event.sql) == plain(self.created)
        return included(event.table, logical, self.written, pending, replays)

    def _take_leaves(self, event: Leaves) -> Left:
        mine = self.sequence.shards[event.shard][self.sequence.active :]
        del self._members[event.shard]
        self.debts.forget(event.shard)
        self.ledger.effects += self.behind.leave(event.shard, event.key, self.ledger.here(event))
        self.sequence = self.sequence.without(event.shard)
        self.rows_left = not self.over
        shared = len(self.sequence.order) - self.sequence.active if self.shards else 0
        self.gone += mine[:shared]
        alone = [item.ddl for item in mine[shared:] if _ran(item)]
        if self.shards:
            self._resolve(event)
        else:
            self._release(self.gone, self.ledger.here(event))
            self.gone = []
        if alone:
            # Statements that only it has run never take effect: its rows go where columns still have their old names.
            place = self.ledger.here(event)
            self.ledger.took_effect(alone, place)
            self.ledger.effects.append(Effect(event.shard, event.key, place, inverse(net_change_of(alone).renames)))
        emptied = tuple(ddl for ddl in alone if moves_rows(ddl, Verb.EMPTY))
        return Left(event, tuple(item.ddl for item in mine), emptied)

    def _take_moves(self, event: Moves) -> None:
        self.debts.move(event.shard, event.to)
        self.behind.move(event.shard, event.to)
        self.ledger.move(event.shard, event.to)
        shards = {event.to if s == event.shard else s: items for s, items in self.sequence.shards.items()}
        self.sequence = replace(self.sequence, shards=shards)
        self._members[event.to] = self._members.pop(event.shard)
        self.ledger.swallowed.append(event)

    def _resolve(self, event: Event) -> None:
        """Write every DDL that all shards have run by now."""
        while self.sequence.complete and not self.removals.expected:
            active = self.sequence.active
            ran = [items[active] for items in self.sequence.shards.values()]
            ran += [item for item in self.gone if same_ddl(item.ddl, self.sequence.order[active].ddl)]
            self.gone = [item for item in self.gone if item not in ran]
            self._write(event, ran)
            self.sequence = self.sequence.resolve()

    def _write(self, event: Event, ran: list[RanItem]) -> None:
        real = sorted((item.ddl for item in ran if _ran(item)), key=lambda ddl: (ddl.key, ddl.shard))
        if not real or self.ledger.table is None:
            return
        last = real[-1]
        before, count = self.ledger.table, len(self.ledger.logical)
        decision, self.decision = self.decision, None
        first = self.sequence.order[self.sequence.active].ddl
        place = self._carry_out(event, last, last if decision is None else decision)
        logical = self.ledger.since(count, before)
        for ddl in real:
            self.ledger.doubt(doubts_of([ddl], logical, Dropping(), ddl is last, self.alone))
        self._release(ran, place)
        skipped = decision is not None and decision.action == "skip"
        if skipped:
            # The logical table keeps the old names.
            self.ledger.effects += [Effect(ddl.shard, LAST, place, inverse(ddl.renames)) for ddl in real if ddl.renames]
        self.debts.settle(first, place, not skipped)
        if not skipped:
            self.written = (*self.written, last)[-KEPT:]

    def _carry_out(self, event: Event, ddl: ShardDdl, author: ShardDdl | Decided) -> DdlPlace:
        """Write the text of `author` for a DDL that all shards have run."""
        assert self.ledger.table is not None
        sql = author.sql
        if not sql or (sql == ddl.sql and not self.alone and moves_rows(ddl, Verb.EXCHANGE, Verb.FILE)):
            return self.ledger.here(event)
        try:
            table = applied(self.ledger.table, sql, self.ledger.session_of(author))
            if sql == ddl.sql and alike(self.ledger.table, ddl.before) and not alike(table, ddl.after):
                detail = f"{sql!r} does something else to the logical table than to {ddl.shard}"
                raise Stopped(Fault.NOT_WRITABLE, event, detail)
            return self.ledger.append(event, (sql,), table, author=author)
        except SnapshotStoreError as error:
            if isinstance(event, Decided):
                raise Stopped(Fault.DECISION, event, str(error)) from None
            if order(ddl.before, ddl.after) != 0:
                raise Stopped(Fault.NOT_WRITABLE, event, str(error)) from None
            self.ledger.swallowed.append(ddl)
            return self.ledger.here(event)

    def _release(self, ran: Iterable[RanItem], place: DdlPlace) -> None:
        self.ledger.effects += [effect for item in ran for effect in _effects(item, place)]

    def outcome(self) -> Outcome:
        pending = [item for items in self.sequence.shards.values() for item in items[self.sequence.active :]]
        held = [effect for item in (*pending, *self.gone) for effect in _effects(item, None)]
        held += [*self.removals.held(), *self.behind.held()]
        return Outcome(
            tuple(self.ledger.logical),
            (*self.ledger.effects, *self.debts.effects(), *sorted(held, key=lambda e: (e.key, e.shard))),
            tuple(self.ledger.findings),
            (*self._open(), *self.removals.open(self.shards, self.ledger.table), *self.behind.open(self.shards)),
            tuple(self.ledger.swallowed),
            self.tables(),
            self.ledger.table,
        )

    def _open(self) -> Iterator[Open]:
        for i in range(self.sequence.active, len(self.sequence.order)):
            ddl = self.sequence.order[i].ddl
            items = {shard: found[i] for shard, found in self.sequence.shards.items() if len(found) > i}
            awaited = tuple(sorted({*self.sequence.shards, *self.removals.expected} - set(items)))
            ran = sorted((item.ddl for item in items.values() if _ran(item)), key=lambda d: (d.key, d.shard))
            stage: Literal["waiting", "queued"] = "waiting" if i == self.sequence.active else "queued"
            yield Open(open_id(ddl), ddl, stage, tuple(sorted(items)), awaited, tuple(ran))


def _ran(item: RanItem) -> bool:
    """Return whether the shard has run the DDL itself, rather than been created with its effect."""
    return item.ddl.shard == item.shard


def _effects(item: RanItem, place: DdlPlace | None) -> Iterator[Effect]:
    if item.key is not None:
        yield Effect(item.shard, item.key, place, item.ddl.renames if _ran(item) else ())


coordinate = partial(carry_out, PessimisticRun)
