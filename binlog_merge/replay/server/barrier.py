"""Barriers: how far each table may go while DDL is pending.

    rows of t1   ──a──b──▌ALTER t1▐──c──       c waits for the ALTER
    rows of t2   ──d──e────────f────────       f does not
    all tables   ──…──▌CREATE TABLE t3▐──…     everything behind it waits

Pending DDL stands in a queue for each table. The head of a queue is its table's barrier; the first *global* DDL is the
barrier of all: DDL over several tables, or of a table that is not there yet, since nothing of it could be held up. At
most 256 table barriers are told; from there on everything waits. DDL is carried out in the order of (commit TSO, seq),
each when all that stands before it on its tables is applied.

Source: the proposal "Make DDL only block related table" of pingcap/tiflow, and its ddl_manager. There one DDL runs at a
time (`max_executing` 1, the default); here DDL of different tables may run beside each other.
"""

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from binlog_merge.filters.ddl import DdlEvent

MAX_TABLE_BARRIERS = 256

TableId = Hashable
"""What tells tables apart: (schema, name), or a number."""


class Position(NamedTuple):
    """A place in the order of everything: the commit TSO, and what orders its equals."""

    commit_ts: int
    seq: int = 0


@dataclass(frozen=True)
class PendingDdl:
    """A DDL that waits. `tables` are the tables it holds up (a partitioned table may have several ids); the first names
    its queue. `payload` is whatever carrying it out needs."""

    position: Position
    tables: tuple[TableId, ...]
    is_global: bool = False
    payload: Any = field(default=None, compare=False)

    @property
    def table(self) -> TableId:
        """Return the table in whose queue it stands."""
        return self.tables[0]


class Barrier(NamedTuple):
    """How far tables may go, themselves included: `global_ts` all of them, `tables` some less far.

    `min_ts` is the least commit TSO of any DDL that is next in its queue, or how far DDL is known.
    """

    global_ts: int
    tables: Mapping[TableId, int]
    min_ts: int

    def of(self, table: TableId) -> int:
        """Return how far one table may go."""
        return min(self.global_ts, self.tables.get(table, self.global_ts))


def pending_ddl(
    event: DdlEvent, position: Position, is_known: Callable[[TableId], bool], payload: Any = None
) -> PendingDdl:
    """Return the pending DDL of one part of a statement.

    It is global if its kind is, if it names several tables, or if its table is not known yet.
    """
    tables = tuple(dict.fromkeys(event.tables))
    return PendingDdl(position, tables, event.is_global or not is_known(tables[0]), payload)


class DdlManager:
    """Pending DDL of all tables: what may run next, and what must wait for it.

    Push DDL in the order of its positions, then `start` and `finish` what `next` returns. Not thread-safe. Raises
    ValueError where it is used in another order: that would lose a barrier.
    """

    def __init__(self, start_ts: int = 0, max_executing: int = 1) -> None:
        self.start_ts = start_ts
        self.resolved_ts = start_ts
        self.max_executing = max_executing
        self._pending: dict[PendingDdl, None] = {}  # in the order of positions, as they were pushed
        self._queues: dict[TableId, list[PendingDdl]] = {}
        self._of_table: dict[TableId, list[PendingDdl]] = {}
        self._global: list[PendingDdl] = []
        self._executing: list[PendingDdl] = []
        self._just_sent: list[PendingDdl] = []
        self._last = Position(-1)

    def __len__(self) -> int:
        """Return how many DDL wait or run."""
        return len(self._pending)

    @property
    def executing(self) -> tuple[PendingDdl, ...]:
        """Return what runs now."""
        return tuple(self._executing)

    def push(self, ddl: PendingDdl) -> None:
        """Put a DDL behind all that is known."""
        if ddl.position < self._last:
            raise ValueError(f"DDL at {tuple(ddl.position)} is pushed behind one at {tuple(self._last)}")
        if not ddl.tables:
            raise ValueError(f"DDL at {tuple(ddl.position)} is of no table")
        if ddl in self._pending:
            raise ValueError(f"DDL at {tuple(ddl.position)} is pushed twice")
        self._last = ddl.position
        self._pending[ddl] = None
        self._queues.setdefault(ddl.table, []).append(ddl)
        for queue in self._held_up(ddl):
            queue.append(ddl)

    def advance(self, resolved_ts: int) -> None:
        """Say that all DDL up to this commit TSO has been pushed; it never goes back."""
        self.resolved_ts = max(self.resolved_ts, resolved_ts)

    def tick(self) -> None:
        """Forget what was finished in the round before: until then it still counts as a barrier."""
        self._just_sent.clear()

    def snapshot_ts(self, checkpoint_ts: int) -> int:
        """Return the commit TSO at which the list of tables is to be taken: the start until anything is known."""
        return self.start_ts if self.resolved_ts == self.start_ts else checkpoint_ts

    def next(self) -> PendingDdl | None:
        """Return what is to be carried out next: what runs, while no more may; else the first that may start."""
        if len(self._executing) >= self.max_executing:
            return self._executing[0]
        for ddl in self._pending:
            if ddl.is_global and ddl not in self._executing and self._executing:
                break  # what stands behind it waits too
            if ddl not in self._executing and self._may_start(ddl):
                return ddl
        return self._executing[0] if self._executing else None

    def startable(self) -> tuple[PendingDdl, ...]:
        """Return all that may start now, in order; `next` is the first of them."""
        if len(self._executing) >= self.max_executing:
            return ()
        return tuple(ddl for ddl in self._pending if ddl not in self._executing and self._may_start(ddl))

    def start(self, ddl: PendingDdl) -> None:
        """Say that a DDL is being carried out."""
        if ddl in self._executing:
            return
        if len(self._executing) >= self.max_executing or not self._may_start(ddl):
            raise ValueError(f"DDL at {tuple(ddl.position)} must wait for another")
        self._executing.append(ddl)

    def finish(self, ddl: PendingDdl) -> None:
        """Say that a DDL has been carried out, or skipped: it holds up nothing any more."""
        if ddl not in self._executing:
            raise ValueError(f"DDL at {tuple(ddl.position)} was not started")
        self._executing.remove(ddl)
        del self._pending[ddl]
        for queue in (*self._held_up(ddl), self._queues[ddl.table]):
            queue.remove(ddl)
        for queues, tables in ((self._queues, (ddl.table,)), (self._of_table, ddl.tables)):
            for table in tables:
                if not queues.get(table, True):
                    del queues[table]
        self._just_sent.append(ddl)

    def _held_up(self, ddl: PendingDdl) -> list[list[PendingDdl]]:
        """Return the lists in which a DDL stands for those who must wait for it."""
        if ddl.is_global:
            return [self._global]
        return [self._of_table.setdefault(table, []) for table in ddl.tables]

    def should_execute(
        self,
        ddl: PendingDdl,
        checkpoint_ts: int,
        redo_checkpoint_ts: int | None = None,
        redo_resolved_ts: int | None = None,
    ) -> bool:
        """Return whether everything up to a DDL's commit TSO is applied, and no more: where its barrier stands.

        With a redo log, that log must have come as far too.
        """
        commit_ts = ddl.position.commit_ts
        if checkpoint_ts > commit_ts:
            raise ValueError(f"the checkpoint {checkpoint_ts} has passed the DDL at {commit_ts}")
        redo = redo_checkpoint_ts is None or redo_checkpoint_ts == commit_ts
        return checkpoint_ts == commit_ts and redo and (redo_resolved_ts is None or redo_resolved_ts >= commit_ts)

    def barrier(self) -> Barrier:
        """Return how far tables may go."""
        heads = [*(queue[0] for queue in self._queues.values()), *self._just_sent]
        min_ts = min([self.resolved_ts, *(ddl.position.commit_ts for ddl in heads)])
        global_ts = min([self.resolved_ts, *(ddl.position.commit_ts for ddl in heads if ddl.is_global)])
        tables: dict[TableId, int] = {}
        for ddl in heads:
            if not ddl.is_global and ddl.position.commit_ts <= global_ts:
                for table in ddl.tables:
                    tables[table] = min(tables.get(table, global_ts), ddl.position.commit_ts)
        ordered = sorted(tables.items(), key=lambda item: item[1])
        if len(ordered) > MAX_TABLE_BARRIERS:
            global_ts = min(global_ts, ordered[MAX_TABLE_BARRIERS][1])
        return Barrier(global_ts, dict(ordered[:MAX_TABLE_BARRIERS]), min_ts)

    def admits(self, tables: Collection[TableId], position: Position) -> bool:
        """Return whether rows of these tables at this position may be applied now: no DDL of theirs stands before them.

        Exact, where `barrier` is a summary: it knows positions, not only commit TSOs, and any number of tables.
        """
        firsts = [self._of_table[table][0] for table in tables if table in self._of_table] + self._global[:1]
        return not any(ddl.position < position for ddl in firsts)

    def holds_all(self, position: Position) -> bool:
        """Return whether a global DDL stands before a position: nothing behind it moves until that is done."""
        return bool(self._global) and self._global[0].position < position

    def holding(self, tables: Collection[TableId], position: Position) -> tuple[PendingDdl, ...]:
        """Return the DDL that such rows must wait for, in order."""
        return tuple(
            ddl
            for ddl in self._pending
            if ddl.position < position and (ddl.is_global or any(table in tables for table in ddl.tables))
        )

    def _may_start(self, ddl: PendingDdl) -> bool:
        """Return whether nothing pending that concerns the same tables stands before a DDL."""
        if ddl.is_global:
            return next(iter(self._pending)) == ddl
        firsts = [self._of_table[table][0] for table in ddl.tables] + self._global[:1]
        return all(first == ddl or ddl.position < first.position for first in firsts)
