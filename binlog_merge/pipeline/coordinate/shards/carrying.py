"""Applies the events of a logical table one by one: the part that pessimistic and optimistic coordination share."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from binlog_merge.pipeline.coordinate.shards.ledger import Stopped
from binlog_merge.pipeline.coordinate.shards.removals import short_lived
from binlog_merge.pipeline.coordinate.shards.removing import RemovingRun
from binlog_merge.pipeline.coordinate.shards.values import (
    Decided,
    Empties,
    Event,
    Fault,
    Joins,
    Leaves,
    Moves,
    Outcome,
    Shard,
    ShardDdl,
    ShardEvent,
    Start,
)
from snapshot_store.model import Table
from snapshot_store.mysql.sql.session import DdlSession
from snapshot_store.tso import OrderKey


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
