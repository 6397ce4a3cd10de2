"""Barriers: up to which position each table may be applied while DDL is pending.

    rows of t1   ──a──b──▌ALTER t1▐──c──       c waits for the ALTER
    rows of t2   ──d──e────────f────────       f does not
    all tables   ──…──▌CREATE TABLE t3▐──…     everything after it waits

Each table has a queue of pending DDL. The head of the queue is the table's barrier. The first *global* DDL is a barrier
for all tables: a DDL of several tables, or of a table that does not exist yet, since its rows could not be held back.
DDL is executed in the order of positions, each when everything before it on its tables is applied.

Source: the proposal "Make DDL only block related table" of pingcap/tiflow, and its ddl_manager. There one DDL runs at a
time (`max_executing` 1, the default); here DDL of different tables may run in parallel.
"""

from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

TableId = Hashable
"""The identity of a table: (schema, name), or a number."""


class Position(NamedTuple):
    """The position of a DDL or of rows: a commit TSO (or rank), and a number that orders equal ones."""

    commit_ts: int
    seq: int = 0


@dataclass(frozen=True)
class PendingDdl:
    """A DDL that is not finished. `tables` are those it blocks (a partitioned table may have several ids).

    `payload` is whatever its execution needs.
    """

    position: Position
    tables: tuple[TableId, ...]
    is_global: bool = False
    payload: Any = field(default=None, compare=False)


class DdlManager:
    """The pending DDL of all tables: which may run next, and which rows must wait for it.

    Push DDL in the order of its positions, then `start` and `finish` what `startable` returns. Not thread-safe. Raises
    ValueError if it is used in another order: that would lose a barrier.
    """

    def __init__(self, max_executing: int = 1) -> None:
        self.max_executing = max_executing
        self._pending: dict[PendingDdl, None] = {}  # in the order of positions, as they were pushed
        self._of_table: dict[TableId, list[PendingDdl]] = {}
        self._global: list[PendingDdl] = []
        self._executing: list[PendingDdl] = []
        self._last = Position(-1)

    def __len__(self) -> int:
        """Return the number of DDL that wait or run."""
        return len(self._pending)

    @property
    def executing(self) -> tuple[PendingDdl, ...]:
        """Return the DDL that run now."""
        return tuple(self._executing)

    def push(self, ddl: PendingDdl) -> None:
        """Add a DDL after all that were pushed before."""
        if ddl.position < self._last:
            raise ValueError(f"DDL at {tuple(ddl.position)} is pushed after one at {tuple(self._last)}")
        if not ddl.tables:
            raise ValueError(f"DDL at {tuple(ddl.position)} is of no table")
        if ddl in self._pending:
            raise ValueError(f"DDL at {tuple(ddl.position)} is pushed twice")
        self._last = ddl.position
        self._pending[ddl] = None
        for queue in self._blocking_lists(ddl):
            queue.append(ddl)

    def startable(self) -> tuple[PendingDdl, ...]:
        """Return all DDL that may start now, in order."""
        if len(self._executing) >= self.max_executing:
            return ()
        return tuple(ddl for ddl in self._pending if ddl not in self._executing and self._may_start(ddl))

    def start(self, ddl: PendingDdl) -> None:
        """Record that a DDL is running."""
        if ddl in self._executing:
            return
        if len(self._executing) >= self.max_executing or not self._may_start(ddl):
            raise ValueError(f"DDL at {tuple(ddl.position)} must wait for another")
        self._executing.append(ddl)

    def finish(self, ddl: PendingDdl) -> None:
        """Record that a DDL was executed or skipped, and blocks nothing any more."""
        if ddl not in self._executing:
            raise ValueError(f"DDL at {tuple(ddl.position)} was not started")
        self._executing.remove(ddl)
        del self._pending[ddl]
        for queue in self._blocking_lists(ddl):
            queue.remove(ddl)
        for table in ddl.tables:
            if not self._of_table.get(table, True):
                del self._of_table[table]

    def _blocking_lists(self, ddl: PendingDdl) -> list[list[PendingDdl]]:
        """Return the lists of blocking DDL that contain a DDL: that of global DDL, or those of its tables."""
        if ddl.is_global:
            return [self._global]
        return [self._of_table.setdefault(table, []) for table in ddl.tables]

    def admits(self, tables: Collection[TableId], position: Position) -> bool:
        """Return whether rows of these tables at this position may be applied now: no pending DDL before them."""
        firsts = [self._of_table[table][0] for table in tables if table in self._of_table] + self._global[:1]
        return not any(ddl.position < position for ddl in firsts)

    def holds_all(self, position: Position) -> bool:
        """Return whether a global DDL is pending before a position, so that everything at that position waits."""
        return bool(self._global) and self._global[0].position < position

    def _may_start(self, ddl: PendingDdl) -> bool:
        """Return whether no other pending DDL of the same tables is before a DDL."""
        if ddl.is_global:
            return next(iter(self._pending)) == ddl
        firsts = [self._of_table[table][0] for table in ddl.tables] + self._global[:1]
        return all(first == ddl or ddl.position < first.position for first in firsts)
