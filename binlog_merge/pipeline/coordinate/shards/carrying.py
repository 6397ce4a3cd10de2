"""Applies the events of a logical table one by one, TRUNCATE and DROP TABLE among them (`removals`): the part that
pessimistic and optimistic coordination share.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from binlog_merge.pipeline.coordinate.shards.clauses import applied
from binlog_merge.pipeline.coordinate.shards.ledger import Ledger, Stopped
from binlog_merge.pipeline.coordinate.shards.net_change import same_ddl
from binlog_merge.pipeline.coordinate.shards.removals import Emptying, Left, Owed, Removals, short_lived, taken_effects
from binlog_merge.pipeline.coordinate.shards.row_findings import rows_since, rows_stay
from binlog_merge.pipeline.coordinate.shards.values import (
    Decided,
    Effect,
    Empties,
    Event,
    Fault,
    Joins,
    Leaves,
    Moves,
    Open,
    Outcome,
    Shard,
    ShardDdl,
    ShardEvent,
    Start,
)
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.model import Table
from snapshot_store.mysql.sql.session import DdlSession
from snapshot_store.tso import OrderKey


class RemovingRun(ABC):
    """The part of a run that removes rows without row events.

    `rows_left`: rows of shards that no longer exist may still be in the logical table. `brief` are the shards that are
    known to be dropped later, with the keys at which they are made (`short_lived`).
    """

    ledger: Ledger
    removals: Removals
    rows_left: bool
    brief: frozenset[tuple[Shard, OrderKey]] = frozenset()

    @property
    @abstractmethod
    def shards(self) -> Collection[Shard]:
        """Return the shards."""

    @property
    def alone(self) -> bool:
        """Return whether all rows of the logical table belong to a single shard."""
        return len(self.shards) <= 1 and not self.rows_left and not self.removals.expected

    @property
    def over(self) -> bool:
        """Return whether no shard is there, and none is expected."""
        return not self.shards and not self.removals.expected

    @abstractmethod
    def _name(self) -> str: ...

    @abstractmethod
    def _take(self, event: Event) -> None: ...

    def _resolve(self, event: Event) -> None:  # noqa: B027 (most have nothing that waits for shards to come)
        """Write what all shards have run by now."""

    @abstractmethod
    def _take_leaves(self, event: Leaves) -> Left:
        """Remove a shard; return it with the DDL that it has run and others have not."""

    # DROP TABLE.

    def _left(self, left: Left) -> None:
        """Continue after a shard has left: the logical table is dropped with the last one."""
        event = left.event
        if self.over:
            self._drop(event, event.sql, {event.shard: event.key})
            return
        if left.unseen:
            place = self.ledger.here(event)
            for ran in self.removals.emptied.pop(event.shard, []):
                self.ledger.effects += taken_effects(ran, event.shard, place)
        elif not event.reported:
            self.removals.left[event.shard] = left
        self._empty_together(event)

    def _passes(self, event: ShardEvent) -> bool:
        """Take what is done with a table that will be dropped and never fits; its rows wait for that, and then go.

        Returns False for all others.
        """
        since = self.removals.passing.get(event.shard)
        if since is not None and isinstance(event, Leaves):
            del self.removals.passing[event.shard]
            place = self.ledger.here(event)
            self.ledger.effects.append(Effect(event.shard, since, place))
            self.ledger.effects.append(Effect(event.shard, event.key, place, gone=True))
        return since is not None

    def _drop(self, now: Event, sql: str, last: dict[Shard, OrderKey]) -> None:
        """Drop the logical table; `last` are the shards that leave it now, with their keys."""
        place = self.ledger.append(now, (sql,) if sql else (), None)
        keys = {shard: left.event.key for shard, left in self.removals.left.items()} | last
        self.ledger.effects += [Effect(shard, key, place, gone=True) for shard, key in last.items()]
        for left in self.removals.left.values():
            self.ledger.effects += left.effects(place, gone=True)
        for shard, ran in self.removals.emptied.items():
            self.ledger.effects += [effect for event in ran for effect in taken_effects(event, shard, place)]
        self.removals.emptied.clear()
        self.removals.left.clear()
        self.rows_left = False
        self._begin_again(now, keys)

    def _begin_again(self, now: Event, dropped: dict[Shard, OrderKey] | None = None) -> None:
        """Apply the events of tables that were created again, now that the logical table is free for their rows.

        `dropped` are the shards of the table before with the keys at which they left it. One that left it only after
        another had created the next table and changed that, too, is behind: it has yet to do all this.
        """
        again = sorted((e for events in self.removals.again.values() for e in events), key=lambda e: e.key)
        self.removals.again.clear()
        for event in again:
            self.ledger.resume(event)
            if not isinstance(event, Joins | Moves):
                behind = {shard for shard, key in (dropped or {}).items() if key > event.key}
                self.removals.expected |= behind - set(self.shards)
            try:
                self._take(event)
            except Stopped as stopped:
                raise Stopped(stopped.stop.fault, now, stopped.stop.detail) from None
            if isinstance(event, Joins) and event.shard in self.shards:
                self.ledger.effects.append(Effect(event.shard, event.key, self.ledger.here(now)))

    def _give_up_drops(self, now: Event) -> None:
        """Go on as if the shards that are dropped had left with their rows staying in the logical table."""
        place = self.ledger.here(now)
        for shard, one in self.removals.left.items():
            ran = [event for event in self.removals.emptied.pop(shard, []) if not isinstance(event, Owed)]
            self.ledger.effects += [*(Effect(e.shard, e.key, place) for e in ran), *one.effects(place)]
        self.removals.left.clear()
        self.removals.expected.clear()
        self.rows_left = True
        self._begin_again(now)

    def _doubt_drops(self, ddl: ShardDdl) -> None:
        """Record that shards are dropped whose drop the others do not repeat, as they run something else instead."""
        left = self.removals.left.values()
        if not left or any(same_ddl(ddl, ran) for one in left for ran in one.ran):
            return
        instead = f"{ddl.shard} runs {ddl.sql!r} instead"
        self.ledger.doubt(rows_stay(one.event, self._name(), instead) for one in left)
        self._give_up_drops(ddl)

    def _came(self, now: Event, shard: Shard, sql: str = "") -> None:
        """Continue after a shard that was expected is there, or counts as if it had done what is expected of it."""
        self.removals.expected.discard(shard)
        if self.over and self.ledger.table is not None:
            self._drop(now, sql, {})
        elif not self.removals.expected:
            self._resolve(now)
            self._empty_together(now)

    # TRUNCATE TABLE, and partitions that are dropped or emptied.

    def _take_emptying(self, event: Emptying) -> None:
        self.removals.emptied.setdefault(event.shard, []).append(event)
        self._empty_together(event)

    def _pays_partitions(self, ddl: ShardDdl) -> bool:
        """Take a statement on partitions that its shard counts as having run; return False for all others."""
        paid = self.removals.paid(ddl)
        if paid is not None and not self.alone and ddl not in self.removals.emptied.get(ddl.shard, []):
            self.ledger.findings.append(rows_since(ddl, self._name()))
        return paid is not None

    def _empty_together(self, now: Event) -> None:
        """Write each emptying statement that all shards have run by now."""
        while not self.removals.expected and (heads := self.removals.heads(self._emptying)) is not None:
            for shard, ran in self.removals.emptied.items():
                self.removals.emptied[shard] = ran[1:] if shard in heads else ran
            real = [event for event in heads.values() if not isinstance(event, Owed)]
            last = max(real, key=lambda event: (event.key, event.shard))
            self._write_emptying(now, last)
            place = self.ledger.logical[-1].place
            for shard, event in heads.items():
                self.ledger.effects += taken_effects(event, shard, place)
            if not isinstance(last, ShardDdl) and not heads.keys() & self.removals.left.keys():
                self._emptied(now)

    @property
    def _emptying(self) -> set[Shard]:
        """Return the shards that empty their tables together, with those that have done so before they were dropped."""
        return {*self.shards, *(shard for shard in self.removals.left if self.removals.emptied.get(shard))}

    def _write_emptying(self, now: Event, last: Emptying) -> None:
        table = self.ledger.table
        if isinstance(last, ShardDdl) and table is not None:
            try:
                table = applied(table, last.sql, self.ledger.session_of(last))
            except SnapshotStoreError as error:
                raise Stopped(Fault.NOT_WRITABLE, now, str(error)) from None
        self.ledger.append(last, (last.sql,) if last.sql else (), table)

    def _emptied(self, now: Event) -> None:
        """Continue after all rows have been removed, also those of shards that are dropped."""
        place = self.ledger.logical[-1].place
        for left in self.removals.left.values():
            self.ledger.effects += left.effects(place, gone=True)
        self.removals.left.clear()
        self.removals.expected.clear()
        self.rows_left = False
        self._begin_again(now)

    # Decisions.

    def _decide_removal(self, event: Decided) -> bool:
        """Apply a decision about a statement that waits here; return False if it is about another."""
        open_ = self.removals.open(self.shards, self.ledger.table)
        waiting = next((one for one in open_ if one.id == event.id and one.stage == "waiting"), None)
        if waiting is None:
            return False
        drops = any(shard in self.removals.left for shard in waiting.done)
        if event.action == "as-if-done":
            self._count_as_done(event, waiting, drops)
        elif event.action == "emit":
            raise Stopped(Fault.DECISION, event, f"no other statement stands for {waiting.ddl.sql!r}")
        elif drops:
            self._give_up_drops(event)
        else:
            self._give_up_emptying(event, waiting)
        return True

    def _give_up_emptying(self, event: Decided, waiting: Open) -> None:
        """Go on as if shards had not run an emptying statement: their rows stay in the logical table."""
        place = self.ledger.here(event)
        for shard in waiting.done:
            head, *self.removals.emptied[shard] = self.removals.emptied[shard]
            self.removals.owed[shard] = [owed for owed in self.removals.owed.get(shard, ()) if owed is not head]
            self.ledger.effects += taken_effects(head, shard, place, gone=False)
        self._empty_together(event)

    def _count_as_done(self, event: Decided, waiting: Open, drops: bool) -> None:
        """Let a shard count as having run a statement; what it writes until it really does waits, and goes with it."""
        shard, sql = event.shard, waiting.ddl.sql
        if shard is None or shard not in waiting.awaited:
            raise Stopped(Fault.DECISION, event, f"{shard} is not awaited for {sql!r}")
        if shard in self.removals.expected:
            self._came(event, shard, sql)
        elif drops:
            leaves = Leaves(event.key, shard, sql)
            self.removals.owe(shard, Owed(event, leaves))
            self.removals.absent |= {shard}
            self._left(self._take_leaves(leaves))
        else:
            self.removals.owe(shard, Owed(event, self.removals.head(waiting.ddl)))
            self._empty_together(event)

    def _pays(self, event: ShardEvent) -> bool:
        """Take the TRUNCATE or DROP that a shard counts as having run, or anything that it does with a table that
        counts as dropped; return False for all others.
        """
        absent = event.shard in self.removals.absent
        paid: list[Owed] = []
        if isinstance(event, Leaves):
            paid = self.removals.owed.pop(event.shard, [])
            self.removals.absent -= {event.shard}
        elif isinstance(event, Moves) and absent:
            self.removals.move(event.shard, event.to)
        elif isinstance(event, Empties) and not absent:
            found = self.removals.paid(event)
            paid = [] if found is None else [found]
        place = self.ledger.here(event)
        waited = [effect for owed in paid for effect in owed.effects(event.shard, place)]
        if waited:
            self.ledger.effects += [*waited, Effect(event.shard, event.key, place, gone=True)]
        return absent or bool(paid and isinstance(event, Empties))


class Run(RemovingRun):
    """A running coordination of one logical table, with a method for each kind of event."""

    @abstractmethod
    def tables(self) -> dict[Shard, Table]:
        """Return the shards' tables, as far as they are coordinated."""

    @property
    @abstractmethod
    def quiet(self) -> bool:
        """Return whether no DDL is waiting and nothing else is pending."""

    @abstractmethod
    def outcome(self) -> Outcome:
        """Return the result of the events so far."""

    def start(self) -> Start:
        """Return the state from which coordination can continue later, if it is quiet now."""
        return self.ledger.start(self.tables(), self.rows_left)

    def take(self, event: Event) -> None:
        """Apply an event. Raises Stopped."""
        self.ledger.begin(event)
        self._take(event)

    def _take(self, event: Event) -> None:
        if isinstance(event, Decided):
            if not self._decide_removal(event):
                self._decide(event)
            return
        if self.removals.postpones(event) or self._pays(event) or self._passes(event):
            return
        self._check(event)
        match event:
            case ShardDdl():
                self._take_ddl(event)
            case Joins() if event.shard in self.shards:
                self.ledger.swallowed.append(event)  # CREATE TABLE IF NOT EXISTS
            case Joins():
                self._take_joins(event)
                if event.shard in self.removals.expected and event.shard in self.shards:
                    self._came(event, event.shard)
            case Leaves():
                self._left(self._take_leaves(event))
            case Moves():
                self._take_moves(event)
                self.removals.move(event.shard, event.to)
            case Empties():
                self._take_emptying(event)

    def _check(self, event: ShardEvent) -> None:
        """Raise Stopped for an event that cannot be applied, whatever its kind."""
        if not isinstance(event, Joins) and event.shard not in self.shards:
            raise Stopped(Fault.UNKNOWN_SHARD, event, f"{event.shard} is no shard of this table here")

    @abstractmethod
    def _decide(self, event: Decided) -> None: ...

    @abstractmethod
    def _take_ddl(self, ddl: ShardDdl) -> None: ...

    @abstractmethod
    def _take_joins(self, event: Joins) -> None: ...

    @abstractmethod
    def _take_moves(self, event: Moves) -> None: ...

    def _name(self) -> str:
        """Return the logical table's name."""
        table = self.ledger.table or next(iter(self.tables().values()), None)
        return "the logical table" if table is None else f"{table.schema}.{table.name}"

    def _begin_table(self, event: Joins) -> None:
        """Write the CREATE TABLE of the first shard."""
        self.ledger.append(event, event.statements, event.table)


def carry_out(
    way: Callable[[Start, DdlSession], Run],
    members: Mapping[Shard, Table],
    logical: Table | None,
    events: Iterable[Event],
    session: DdlSession,
    start: Start | None = None,
    brief: frozenset[tuple[Shard, OrderKey]] | None = None,
) -> Outcome:
    """Coordinate the events of one logical table's shards, up to the first at which coordination stops.

    `way` makes the run. `members` and `logical` are the tables before the first event, all under the logical name;
    without `logical` it is the members' join. If `start` is given it replaces both. Events come in the order of their
    keys. `brief` are the tables that are known to be dropped again, by the events if None.
    """
    events, run = list(events), way(start or Start(members, logical), session)
    run.brief = short_lived(e for e in events if not isinstance(e, Decided)) if brief is None else brief
    quiet: tuple[OrderKey, Start] | None = None
    last: OrderKey | None = None
    for event in events:
        if last is not None and event.key != last and run.quiet:
            quiet = (last, run.start())
        last = event.key
        written, alone = len(run.ledger.logical), run.alone
        try:
            run.take(event)
        except Stopped as stopped:
            return replace(run.outcome(), stop=stopped.stop, quiet=quiet)
        if alone and run.alone:
            run.ledger.logical[written:] = [replace(ddl, alone=True) for ddl in run.ledger.logical[written:]]
    if last is not None and run.quiet:
        quiet = (last, run.start())
    return replace(run.outcome(), quiet=quiet)
