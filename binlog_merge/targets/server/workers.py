"""The threads that apply groups and execute DDL, each in a session, and report the outcomes.

Groups are taken from a queue in the order of their numbers. So the first group that is not committed is always being
applied, and what it waits for is committed. If it waits for a lock all the same (an undetected conflict, or a gap
lock), the groups after it give way. Each DDL has a thread and a session of its own.
"""

import logging
import queue
import threading
import time
from dataclasses import dataclass
from typing import Any, Final

from binlog_merge.log.rank_set import RankSet
from binlog_merge.log.reader import Rows
from binlog_merge.log.statement import Statement
from binlog_merge.targets.server.barrier import PendingDdl
from binlog_merge.targets.server.groups import Group, Turns, Yielded
from binlog_merge.targets.server.ledger import BegunDdl
from binlog_merge.targets.server.mysql import RETRY, RowSession
from binlog_merge.targets.server.statements import Plan, carry_out, forget
from binlog_merge.targets.server.transactions import Transaction
from snapshot_store.server import message_of

_LOG = logging.getLogger(__name__)

DDL_SESSIONS: Final = 4
"""The most DDL that may run in parallel."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a group or a DDL: applied if there is no `error`; given up if that is Stopped.

    `transaction` is the one that failed, `row` the row as text, if known.
    """

    work: Group | PendingDdl
    error: Exception | None = None
    transaction: Transaction | None = None
    row: str = ""


class Workers:
    """Threads, each with its session. `submit` and `carry_out` give them work; `outcomes` is the queue of results.

    `sessions` are open, except the last DDL_SESSIONS: those are for DDL, and opened on demand.
    """

    def __init__(self, sessions: list[RowSession], keep_order: bool, retry_seconds: float) -> None:
        self.outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self.turns = Turns(keep_order)
        self._known = RankSet()
        self._retry_seconds = retry_seconds
        self._sessions = sessions
        self._groups: queue.SimpleQueue[Group | None] = queue.SimpleQueue()
        self._idle: queue.SimpleQueue[RowSession] = queue.SimpleQueue()
        for session in sessions[-DDL_SESSIONS:]:
            self._idle.put(session)
        own = sessions[:-DDL_SESSIONS]
        self._threads = [threading.Thread(target=self._work, args=(session,), daemon=True) for session in own]
        for thread in self._threads:
            thread.start()

    def submit(self, group: Group) -> None:
        """Queue a group to be applied."""
        self._groups.put(group)

    def carry_out(self, ddl: PendingDdl, found: BegunDdl) -> None:
        """Start a DDL in a thread, from where an earlier run left it; at most DDL_SESSIONS at a time."""
        session = self._idle.get_nowait()
        thread = threading.Thread(target=self._ddl, args=(session, ddl, found), daemon=True)
        self._threads = [*(t for t in self._threads if t.is_alive()), thread]
        thread.start()

    def forget(self, known: RankSet) -> None:
        """Allow sessions to drop from their records the ranks that the ledger has."""
        self._known = known

    def stop(self, at_once: bool) -> None:
        """End all threads and sessions; `at_once`: in the middle of work, which is rolled back."""
        for _ in self._sessions:
            self._groups.put(None)
        if at_once:
            self.turns.stop()
            for session in self._sessions:
                session.break_off()
        for thread in self._threads:
            thread.join()
        for session in self._sessions:
            session.close()

    def _work(self, session: RowSession) -> None:
        while (group := self._groups.get()) is not None:
            at: list[Transaction] = []
            try:
                self._apply(session, group, at)
            except Exception as error:
                self.turns.fail(group.number)
                row = session.row()
                _undo(session)
                self.outcomes.put(Outcome(group, error, at[-1] if at else None, row))
            else:
                self.outcomes.put(Outcome(group))

    def _apply(self, session: RowSession, group: Group, at: list[Transaction]) -> None:
        """Apply a group, and retry it while locks prevent it."""
        import pymysql

        since: float | None = None
        while True:
            try:
                self._once(session, group, at)
                self.turns.done(group)
                return
            except Yielded:
                session.rollback()
                self.turns.give_way(group)
            except pymysql.MySQLError as error:
                since = since or time.monotonic()
                large = any(transaction.rest is not None for transaction, _ in group.transactions)
                if error.args[0] not in RETRY or large or time.monotonic() - since > self._retry_seconds:
                    raise
                _LOG.info("group is tried again", extra={"group": group.number, "error": message_of(error)})
                session.rollback()
                self.turns.favour(group)
                self.turns.give_way(group)

    def _once(self, session: RowSession, group: Group, at: list[Transaction]) -> None:
        self.turns.give_way(group)
        session.begin()
        for transaction, others in group.transactions:
            at.append(transaction)
            if not self.turns.are_done(others):
                session.flush()
                self.turns.after(others, group)
            if transaction.skipped:
                session.skipped(transaction.rank, transaction.gtid)
            for part in transaction.parts:
                _add(session, part)
            for part in transaction.rest or ():
                _add(session, part)
        session.record(group.ranks, self._known)
        self.turns.commit(group)
        session.commit()

    def _ddl(self, session: RowSession, ddl: PendingDdl, found: BegunDdl) -> None:
        transaction: Transaction = ddl.payload
        _LOG.info("DDL begins", extra={"transaction": transaction.rank, "sql": transaction.statements})
        try:
            self._statements(session, transaction, found)
        except Exception as error:
            self._idle.put(session)
            self.outcomes.put(Outcome(ddl, error, transaction))
        else:
            _LOG.info("DDL done", extra={"transaction": transaction.rank})
            self._idle.put(session)
            self.outcomes.put(Outcome(ddl))

    def _statements(self, session: RowSession, transaction: Transaction, found: BegunDdl) -> None:
        if not session.is_open:
            session.open()
        step = 0
        for item, content in transaction.parts:
            if isinstance(item, Statement) and isinstance(content, Plan):
                session.flush()
                carry_out(session, transaction.rank, item, content.steps, found, step)
                step += len(content.steps)
            else:
                _add(session, (item, content))
        session.record(RankSet.of([transaction.rank]), self._known)
        forget(session, transaction.rank)
        session.commit()


def _add(session: RowSession, part: Any) -> None:
    item, event = part
    if isinstance(item, Rows):
        session.add(item, event)


def _undo(session: RowSession) -> None:
    """Roll back a failed group if the session still exists."""
    try:
        session.rollback()
    except Exception:  # the first error is reported; a session that is gone has nothing to roll back
        session.close()
