"""Dispatches transactions, in groups and as DDL, to the sessions that apply them. A single thread decides everything.

transactions ──┬── a DDL: waits until everything before it on its tables is applied; then runs in its own session
               ├── rows after a pending DDL of their tables, or after such rows: held until the DDL is done
               └── others: into a group, after what they conflict with ── sealed ── applied ── committed
"""

import queue
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from binlog_merge.binlog.rows import iter_rows
from binlog_merge.errors import MergeError
from binlog_merge.log.checkpoint import Checkpoint
from binlog_merge.log.rank_set import RankSet
from binlog_merge.log.reader import Rows
from binlog_merge.log.replay_options import ReplayOptions
from binlog_merge.targets.server.barrier import DdlManager, PendingDdl, Position
from binlog_merge.targets.server.groups import Group, Stopped
from binlog_merge.targets.server.keys import OPAQUE, Claims, ClaimTable, TableName, table_name
from binlog_merge.targets.server.ledger import BegunDdl, Found, Ledger
from binlog_merge.targets.server.target_keys import TargetKeys
from binlog_merge.targets.server.transactions import Failed, Transaction
from binlog_merge.targets.server.workers import DDL_SESSIONS, Outcome, Workers

GROUP_BYTES: Final = 4 << 20
HELD_BYTES: Final = 256 << 20
"""The most bytes of rows that may wait for DDL in memory; beyond that, reading waits, too."""
MOST_PENDING: Final = 256
"""The most DDL that may be pending; beyond that, reading waits, too."""


class Flow:
    """Applies transactions on open sessions until all are applied or something fails.

    `applied` is called with transactions just committed. Raises Failed, and what the ledger's session raises.
    """

    def __init__(
        self,
        ledger: Ledger,
        workers: Workers,
        found: Found,
        places: Mapping[int, Checkpoint],
        options: ReplayOptions,
        applied: Callable[[Sequence[Transaction]], None],
    ) -> None:
        self._workers = workers
        self._begun = found.begun
        self._options = options
        self._tell = applied
        self._keys = TargetKeys(ledger.ask)
        self._manager = DdlManager(max_executing=DDL_SESSIONS)
        self._claims: ClaimTable[Group] = ClaimTable()
        self._open: list[Group] = []
        self._in_flight: set[Group] = set()
        self._sealed = 0
        self._busy: Counter[TableName] = Counter()
        self._held: list[Transaction] = []
        self._held_claims: ClaimTable[Transaction] = ClaimTable()
        self._held_bytes = 0
        self._failure: Failed | None = None
        self._unsure: list[Transaction] = []
        self._books = Books(ledger, found.applied, places, workers.forget)

    def run(self, source: Iterator[Transaction], due: Callable[[Transaction], float]) -> None:
        """Apply all transactions; `due` returns the time (monotonic clock) at which a transaction may begin."""
        try:
            for transaction in source:
                self._pause(due(transaction))
                self._take(transaction)
        except MergeError:
            self._finish()
            raise
        self._finish()

    def _pause(self, until: float) -> None:
        while (remaining := until - time.monotonic()) > 0:
            self._wait(remaining)

    def _take(self, transaction: Transaction) -> None:
        self._poll()
        while self._full():
            self._wait()
        if transaction.rest is not None:
            self._finish()
            self._join(transaction)
            self._finish()
        elif transaction.plans:
            self._push(transaction)
        else:
            self._place(transaction)

    def _full(self) -> bool:
        groups = len(self._in_flight) > 2 * self._options.workers
        return groups or self._held_bytes > HELD_BYTES or len(self._manager) >= MOST_PENDING

    def _finish(self) -> None:
        """Wait until all transactions taken are applied."""
        while self._open or self._in_flight or self._held or len(self._manager):
            self._seal(self._open)
            self._wait()
        self._books.publish()

    @property
    def unsure(self) -> list[Transaction]:
        """Return transactions that may be applied although this failed: the answer to a COMMIT can get lost."""
        under_way: list[Group | PendingDdl] = [*self._in_flight, *self._manager.executing]
        return self._unsure + [transaction for work in under_way for transaction in transactions_of(work)]

    # Rows

    def _place(self, transaction: Transaction) -> None:
        """Put a transaction of rows into a group, or among those held for a DDL."""
        if self._must_wait(transaction):
            self._held.append(transaction)
            self._held_bytes += transaction.size
            # After a global DDL everything waits, and the tables' keys after it are not known: no claims yet.
            if not self._manager.holds_all(Position(transaction.rank)):
                self._held_claims.take(transaction, self._claims_of(transaction))
        else:
            self._join(transaction)

    def _must_wait(self, transaction: Transaction) -> bool:
        if not self._manager.admits(transaction.tables, Position(transaction.rank)):
            return True
        return bool(self._held) and bool(self._held_claims.owners(self._claims_of(transaction)))

    def _claims_of(self, transaction: Transaction) -> Claims:
        """Return what a transaction touches. A table with a pending DDL is claimed whole: its keys may change."""
        if transaction.claims is None:
            claims, position = Claims(), Position(transaction.rank)
            for item, event in transaction.parts:
                if isinstance(item, Rows):
                    table = item.table
                    waits = not self._manager.admits((table_name(table.schema, table.table),), position)
                    keys = OPAQUE if waits else self._keys.of(table.schema, table.table)
                    claims.take(table, keys, iter_rows(event, table))  # type: ignore[arg-type]
            transaction.claims = claims
        return transaction.claims

    def _join(self, transaction: Transaction) -> None:
        """Put a transaction into an open group, to be applied after all groups that it may conflict with."""
        others: set[Group] = set()
        if self._options.workers > 1 and transaction.rest is None:
            others = self._claims.owners(self._claims_of(transaction))
        group = self._group_for(others)
        others.discard(group)
        if self._options.workers > 1 and transaction.claims is not None:
            self._claims.take(group, transaction.claims)
        group.transactions.append((transaction, frozenset(others)))
        group.size += transaction.size
        group.tables |= transaction.tables
        self._busy.update(transaction.tables)
        if len(group.transactions) >= self._options.batch or group.size >= GROUP_BYTES:
            self._seal([group])

    def _group_for(self, others: set[Group]) -> Group:
        """Return an open group for a transaction; the other groups that it must wait for are sealed."""
        colliding = [group for group in self._open if group in others]
        if colliding:
            best = max(colliding, key=lambda group: len(group.transactions))
            self._seal([group for group in colliding if group is not best])
            return best
        most = 1 if self._options.keep_order else self._options.workers
        if len(self._open) < most:
            self._open.append(Group())
            return self._open[-1]
        return min(self._open, key=lambda group: len(group.transactions))

    def _seal(self, groups: Iterable[Group]) -> None:
        for group in list(groups):
            self._open.remove(group)
            self._sealed += 1
            self._in_flight.add(group)
            group.number = self._sealed
            self._workers.submit(group)

    # DDL

    def _push(self, transaction: Transaction) -> None:
        """Queue a DDL, to run after everything before it on its tables."""
        plans = [plan for _, plan in transaction.plans]
        named = transaction.statement_tables
        tables = {table_name(*table): None for table in named}
        is_global = self._options.global_barrier or len(plans) != 1 or plans[0].is_global
        is_global = is_global or bool(transaction.tables) or not self._keys.exists(*named[0])
        if not is_global:
            for name in tuple(tables):
                tables |= dict.fromkeys(self._keys.family(name))
        self._manager.push(PendingDdl(Position(transaction.rank), tuple(tables), is_global, transaction))
        self._start()

    def _start(self) -> None:
        """Start every DDL that waits for nothing any more."""
        startable = self._manager.startable()
        first_held: dict[TableName, int] = {}
        for transaction in self._held if startable else ():
            for table in transaction.tables:
                first_held.setdefault(table, transaction.rank)
        for ddl in startable:
            if len(self._manager.executing) >= DDL_SESSIONS:
                return
            if self._is_clear(ddl, first_held):
                self._manager.start(ddl)
                self._workers.carry_out(ddl, self._begun.pop(ddl.position.commit_ts, BegunDdl()))

    def _is_clear(self, ddl: PendingDdl, first_held: Mapping[TableName, int]) -> bool:
        """Return whether no transaction in flight, or held before a DDL, must be applied before it."""
        rank = ddl.position.commit_ts
        if ddl.is_global:
            self._seal(self._open)
            return not self._in_flight and not (self._held and self._held[0].rank < rank)
        self._seal([group for group in self._open if not group.tables.isdisjoint(ddl.tables)])
        tables: Iterable[Any] = ddl.tables
        return not any(self._busy[table] or first_held.get(table, rank) < rank for table in tables)

    def _release(self, ddl: PendingDdl) -> None:
        """Place the transactions that were held for a DDL."""
        if not ddl.is_global and not any(self._held_claims.touched(table) for table in ddl.tables):  # type: ignore[arg-type]
            return
        held, self._held, self._held_claims, self._held_bytes = self._held, [], ClaimTable(), 0
        for transaction in held:
            if ddl.is_global or not transaction.tables.isdisjoint(ddl.tables):
                transaction.claims = None
            self._place(transaction)

    # Outcomes

    def _poll(self) -> None:
        while not self._workers.outcomes.empty():
            self._handle(self._workers.outcomes.get())
        self._books.publish_if_due()

    def _wait(self, seconds: float = 3600.0) -> None:
        """Wait for an outcome; before that, seal open groups if a session is idle."""
        if len(self._in_flight) < self._options.workers:
            self._seal(self._open)
        timeout = min(seconds, PUBLISH_SECONDS) if self._books.unpublished else seconds
        try:
            outcome = self._workers.outcomes.get(timeout=timeout)
        except queue.Empty:
            self._books.publish_if_due()
            return
        self._handle(outcome)
        self._poll()

    def _handle(self, outcome: Outcome) -> None:
        work = outcome.work
        if outcome.error is not None:
            self._unsure += transactions_of(work)
        if isinstance(work, Group):
            self._in_flight.discard(work)
            done = transactions_of(work)
            self._claims.release(work)
            for transaction in done:
                self._busy.subtract(transaction.tables)
            self._busy += Counter()
        else:
            done = transactions_of(work)
            self._manager.finish(work)
        if outcome.error is not None:
            self._fail(outcome)
            return
        self._books.note(done)
        self._tell(done)
        if self._failure is None:
            if isinstance(work, PendingDdl):
                everything = work.is_global or any(plan.ties for _, plan in work.payload.plans)
                self._keys.forget(work.tables, everything)  # type: ignore[arg-type]
                self._release(work)
            self._start()

    def _fail(self, outcome: Outcome) -> None:
        """Record a failure, wait for what runs in parallel to end, then raise the first failure."""
        assert outcome.error is not None
        failure = Failed(outcome.error, outcome.transaction, outcome.row)
        if self._failure is not None:
            # Groups that gave up because of it may be reported before the group that failed.
            first = not isinstance(outcome.error, Stopped) and _rank(failure) < _rank(self._failure)
            if first or isinstance(self._failure.error, Stopped):
                self._failure = failure
            return
        self._failure = failure
        while self._in_flight or self._manager.executing:
            self._handle(self._workers.outcomes.get())
        self._books.publish()
        raise self._failure


def transactions_of(work: Group | PendingDdl) -> list[Transaction]:
    """Return the transactions of a group or of a DDL."""
    return [transaction for transaction, _ in work.transactions] if isinstance(work, Group) else [work.payload]


def _rank(failure: Failed) -> int:
    return 0 if failure.transaction is None else failure.transaction.rank


PUBLISH_SECONDS: Final = 1.0


class Books:
    """Collects committed ranks and writes them to the ledger from time to time.

    `published` is called with all ranks that the ledger has, which sessions need not record any more. `places` are
    those at the ends of the intervals of `applied`: one of them may become the position.
    """

    def __init__(
        self, ledger: Ledger, applied: RankSet, places: Mapping[int, Checkpoint], published: Callable[[RankSet], None]
    ) -> None:
        self._ledger = ledger
        self._applied = applied
        self._places = dict(places)
        self._published = published
        self._fresh: list[int] = []
        self._last = time.monotonic()

    @property
    def unpublished(self) -> bool:
        """Return whether ranks have been committed that the ledger does not have."""
        return bool(self._fresh)

    def note(self, done: Sequence[Transaction]) -> None:
        """Add committed transactions."""
        for transaction in done:
            key = None if transaction.key is None else transaction.key.text()
            self._fresh.append(transaction.rank)
            self._places[transaction.rank] = Checkpoint(transaction.rank, transaction.gtid, key)

    def publish_if_due(self) -> None:
        """Write to the ledger, if the last time is long enough ago."""
        if self._fresh and time.monotonic() - self._last > PUBLISH_SECONDS:
            self.publish()

    def publish(self) -> None:
        """Write all committed ranks to the ledger."""
        if not self._fresh:
            return
        self._applied |= RankSet.of(self._fresh)
        self._fresh.clear()
        self._ledger.publish(self._applied, self._places[self._applied.low])
        self._published(self._applied)
        # Only the last rank before a gap can become the position.
        ends = {last for _, last in self._applied.intervals}
        self._places = {rank: place for rank, place in self._places.items() if rank in ends or rank == 0}
        self._last = time.monotonic()
