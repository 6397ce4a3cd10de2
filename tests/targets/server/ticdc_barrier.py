"""TiCDC's summaries of pending DDL, as its vectors have them, computed from what a DdlManager holds."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from binlog_merge.filters.ddl import DdlEvent
from binlog_merge.targets.server.barrier import DdlManager, PendingDdl, Position, TableId

MAX_TABLE_BARRIERS = 256

REDO_BARRIER_ACTIONS = frozenset(
    {
        "ActionCreateTable",
        "ActionTruncateTable",
        "ActionAddTablePartition",
        "ActionTruncateTablePartition",
        "ActionRecoverTable",
        "ActionReorganizePartition",
        "ActionAlterTablePartitioning",
        "ActionRemovePartitioning",
    }
)
"""DDL that makes new physical tables."""


class Barrier(NamedTuple):
    """The commit TSO up to which tables may be applied: `global_ts` all of them, `tables` some less far.

    `min_ts` is the least commit TSO of any DDL at the head of a queue, or that up to which DDL is known.
    """

    global_ts: int
    tables: Mapping[TableId, int]
    min_ts: int

    def of(self, table: TableId) -> int:
        return min(self.global_ts, self.tables.get(table, self.global_ts))


class TicdcManager(DdlManager):
    def __init__(self, start_ts: int = 0, max_executing: int = 1) -> None:
        super().__init__(max_executing)
        self.start_ts = start_ts
        self.resolved_ts = start_ts
        self._just_sent: list[PendingDdl] = []

    def advance(self, resolved_ts: int) -> None:
        """Record that all DDL up to this commit TSO has been pushed."""
        self.resolved_ts = max(self.resolved_ts, resolved_ts)

    def finish(self, ddl: PendingDdl) -> None:
        super().finish(ddl)
        self._just_sent.append(ddl)

    def tick(self) -> None:
        """Forget what was finished in the round before: until then it still counts as a barrier."""
        self._just_sent.clear()

    def next(self) -> PendingDdl | None:
        if len(self._executing) < self.max_executing:
            for ddl in self._pending:
                if ddl not in self._executing and self._may_start(ddl):
                    return ddl
        return self._executing[0] if self._executing else None

    def snapshot_ts(self, checkpoint_ts: int) -> int:
        return self.start_ts if self.resolved_ts == self.start_ts else checkpoint_ts

    def barrier(self) -> Barrier:
        queues = {ddl.tables[0]: ddl for ddl in reversed(self._pending)}
        heads = [*queues.values(), *self._just_sent]
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


def should_execute(
    ddl: PendingDdl, checkpoint_ts: int, redo_checkpoint_ts: int | None = None, redo_resolved_ts: int | None = None
) -> bool:
    """Return whether everything up to a DDL's commit TSO is applied, also in the redo log if there is one."""
    commit_ts = ddl.position.commit_ts
    if checkpoint_ts > commit_ts:
        raise ValueError(f"the checkpoint {checkpoint_ts} has passed the DDL at {commit_ts}")
    redo = redo_checkpoint_ts is None or redo_checkpoint_ts == commit_ts
    return checkpoint_ts == commit_ts and redo and (redo_resolved_ts is None or redo_resolved_ts >= commit_ts)


def pending_ddl(
    event: DdlEvent, position: Position, is_known: Callable[[TableId], bool], payload: Any = None
) -> PendingDdl:
    """Return the pending DDL of one part of a statement; of a table that is not known it is global."""
    tables = tuple(dict.fromkeys(event.tables))
    return PendingDdl(position, tables, event.is_global or not is_known(tables[0]), payload)
