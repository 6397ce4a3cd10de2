"""Replays a merged binlog to a MySQL server, exactly once, from the server's recorded position on.

Transactions are committed in groups, each with the record of its ranks. If a transaction is refused, its group is
retried one transaction at a time, in one session, after everything before it. So the error names the faulty transaction
and does not depend on what ran in parallel. A lost connection is retried, with growing pauses. What the target has is
read from the target, so nothing is applied twice.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from binlog_merge.errors import ConfigError, MergeError, ReplayStopped, ServerRefused, TargetBusy
from binlog_merge.log.checkpoint import Checkpoint, checkpoints_of
from binlog_merge.log.log import Log
from binlog_merge.log.rank_set import RankSet
from binlog_merge.log.reader import End, Rows
from binlog_merge.log.replay_options import ReplayOptions, ReplayResult, Walk, history_of
from binlog_merge.log.rows import RowSelector
from binlog_merge.log.statement import Statement
from binlog_merge.targets.server.flow import Flow
from binlog_merge.targets.server.ledger import RECORD_GONE, Found, Ledger
from binlog_merge.targets.server.mysql import RETRY, MysqlTarget, RowSession, passes
from binlog_merge.targets.server.statements import plan_statement
from binlog_merge.targets.server.transactions import Failed, Transaction, transactions
from binlog_merge.targets.server.workers import DDL_SESSIONS, Workers
from snapshot_store.server import message_of

_LOG = logging.getLogger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0


def dry_run(binlog: Log, options: ReplayOptions) -> ReplayResult:
    """Return what a replay would do, without a target."""
    first = options.first_rank or 1
    result = ReplayResult(first, first - 1, selector=_selector(binlog, options))
    walk = Walk(options)
    for item in binlog.items(first):
        if walk.over(item):
            break
        with walk.blamed():
            if isinstance(item, Rows) and not walk.skipping:
                result.selector.select(item, walk.key)
            elif isinstance(item, Statement) and not walk.skipping:
                plan = plan_statement(item, options.filter, walk.ddl_tso())
                result.statements += [step.shown for step in plan.steps]
                result.left_out += plan.left_out
        if isinstance(item, End):
            result.transactions, result.last_rank = result.transactions + 1, item.rank
            result.skipped += [walk.gtid] if walk.skipping else []
    return result


def replay(
    binlog: Log,
    target: MysqlTarget,
    options: ReplayOptions,
    progress: Callable[[ReplayResult], None] = lambda result: None,
    applied: Callable[[Sequence[Transaction]], None] = lambda done: None,
) -> ReplayResult:
    """Apply a merged binlog to a target. Raises ReplayStopped with what was applied before as its `result`.

    `applied` is called with the transactions just committed, in the order of commits.
    """
    run = _Run(binlog, target, options, progress, applied)
    try:
        return run.to_the_end()
    except MergeError as error:
        error.result = run.result
        raise


def _selector(binlog: Log, options: ReplayOptions) -> RowSelector:
    wanted = options.filter is not None and bool(options.filter.settings.expression_rules)
    return RowSelector(options.filter, history_of(binlog.directory) if wanted else None)


class _Run:
    """A replay: resumes at the target's position until the end is reached or an error is final."""

    def __init__(
        self,
        binlog: Log,
        target: MysqlTarget,
        options: ReplayOptions,
        progress: Callable[[ReplayResult], None],
        applied: Callable[[Sequence[Transaction]], None],
    ) -> None:
        self.binlog = binlog
        self.target = target
        self.options = options
        self.result = ReplayResult(0, 0, selector=_selector(binlog, options))
        self._progress = progress
        self._applied = applied
        self._done = RankSet()
        self._pace = Pace(options)
        self._careful_until = 0
        self._read = 0
        self._unsure: list[Transaction] = []

    def to_the_end(self) -> ReplayResult:
        """Apply everything up to the end of the range."""
        import pymysql

        pause, lost_since = _FIRST_PAUSE, 0.0
        while True:
            before = self.result.transactions
            try:
                if self._go_on():
                    return self.result
            except (Failed, pymysql.MySQLError, ServerRefused, TargetBusy) as error:
                cause = error.error if isinstance(error, Failed) else error
                if self.result.transactions > before:
                    pause, lost_since = _FIRST_PAUSE, 0.0
                # A server that let us in and does so no more is taken for gone.
                gone = isinstance(error, Failed) and isinstance(cause, ServerRefused)
                if not (passes(cause) if isinstance(cause, pymysql.MySQLError) else lost_since or gone):
                    raise self._stopped(error) from error
                lost_since = lost_since or time.monotonic()
                if time.monotonic() - lost_since > self.options.retry_seconds:
                    where = error.transaction.gtid if isinstance(error, Failed) and error.transaction else "the target"
                    locked = bool(cause.args) and cause.args[0] in RETRY
                    raise ReplayStopped(f"{where}: {message_of(cause)}", remedy=_LOCKED if locked else _LOST) from error
                _LOG.info("attempt failed", extra={"error": message_of(cause), "retry_in": pause})
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _go_on(self) -> bool:
        """Apply from the target's position on; return whether the end was reached."""
        careful, self._careful_until = self._careful_until, 0
        options = self.options
        if careful:
            last = careful if options.last_rank is None else min(careful, options.last_rank)
            options = replace(options, workers=1, batch=1, last_rank=last)
        ledger = Ledger(self.target, options.overwrite)
        try:
            found = self._begin(ledger)
            at = {"target": str(self.target.address), "applied": str(found.applied)}
            _LOG.info("connected", extra={**at, "workers": options.workers, "careful": careful > 0})
            through = self._apply(ledger, found, options, careful > 0)
            ledger.finish()
        finally:
            ledger.close()
        return through and not careful and not self._pace.follows(self.binlog, self.result.last_rank)

    def _apply(self, ledger: Ledger, found: Found, options: ReplayOptions, careful: bool) -> bool:
        """Apply a range in new sessions; return whether that succeeded.

        If rows were refused, perhaps because of what ran in parallel, the next attempt is made carefully.
        """
        places = self._places(found)
        count = options.workers + DDL_SESSIONS
        given = ledger.take_over(found.applied, places[found.applied.low], count)
        description = self.binlog.format_description()
        sessions = [
            RowSession(self.target, number + 1, given, description, careful, options.overwrite)
            for number in range(count)
        ]
        workers: Workers | None = None
        flow: Flow | None = None
        at_once = True
        try:
            for session in sessions[: options.workers]:
                session.open()
                session.rows_only()
                if options.workers > 1:
                    session.side_by_side()
            workers = Workers(sessions, options.keep_order, options.retry_seconds)
            flow = Flow(ledger, workers, found, places, options, self._note)
            flow.run(self._source(found, options), self._pace.due)
            at_once = False
        except Failed as failed:
            if careful or not failed.may_be_of_others:
                raise
            self._careful_until = self._read
            _LOG.info("rows refused; one by one up to here", extra={"through": self._read, "error": failed.text})
            at_once = False
            return False
        finally:
            self._unsure = [] if flow is None else flow.unsure
            if workers is not None:
                workers.stop(at_once)
            for session in sessions:
                session.close()
        return True

    def _source(self, found: Found, options: ReplayOptions) -> Iterator[Transaction]:
        selector = _selector(self.binlog, options)
        for transaction in transactions(self.binlog, options, selector, found.applied):
            self._read = transaction.rank
            yield transaction

    def _places(self, found: Found) -> dict[int, Checkpoint]:
        """Return the positions at which the intervals of what the target has end.

        Raises ReplayStopped if the target was written from another log.
        """
        ends = {last for _, last in found.applied.intervals}
        places = checkpoints_of(self.binlog, {found.place.rank, found.applied.low, *ends})
        found.place.check(places[found.place.rank])
        return places

    def _begin(self, ledger: Ledger) -> Found:
        """Return what the target has; a first replay begins at the first rank of the options."""
        first = self.options.first_rank
        found = ledger.begin(self.options.retry_seconds)
        if found is None and self.result.first_rank:
            raise ReplayStopped("the target no longer says what it has", remedy=RECORD_GONE)
        if found is None:
            first = self.binlog.check_reached(first or 1, f"transaction {first}")
            found = Found(RankSet.upto(first - 1), {}, Checkpoint(first - 1))
        elif self.result.first_rank == 0:
            Checkpoint(found.applied.low).check_first(first)
        if self.result.first_rank == 0:
            self.result.first_rank, self.result.last_rank = found.applied.low + 1, found.applied.low
        last = found.applied.intervals[-1][1] if found.applied.intervals else 0
        if last > self.binlog.last_rank:
            raise ReplayStopped(
                f"the target has {last} transactions of this cluster, the merged binlog {self.binlog.last_rank}",
                remedy="this is another, or an older, output of the cluster",
            )
        if unsure := [t for t in self._unsure if t.rank in found.applied and t.rank not in self._done]:
            self._note(unsure)
        self._done = found.applied
        return found

    def _note(self, done: Sequence[Transaction]) -> None:
        """Add committed transactions to the result."""
        result = self.result
        for transaction in done:
            result.selector.applied.update(transaction.applied)
            result.selector.filtered.update(transaction.filtered)
            result.statements += transaction.statements
            result.left_out += transaction.left_out
            result.skipped += [transaction.gtid] if transaction.skipped else []
        result.transactions += len(done)
        self._done |= RankSet.of(transaction.rank for transaction in done)
        result.last_rank = self._done.low
        _LOG.debug("applied", extra={"transactions": len(done), "last": result.last_rank})
        self._applied(done)
        self._progress(result)

    def _stopped(self, error: Exception) -> Exception:
        """Return the error for the user."""
        if not isinstance(error, Failed):
            if isinstance(error, MergeError):
                return error
            return _refused(error)
        found = error.transaction
        if found is None:
            return _refused(error.error)
        begin = found.begin
        if isinstance(error.error, MergeError):
            if found.gtid not in error.error.message:
                error.error.message = f"{found.gtid}: {error.error.message}"
            return error.error.located(file=begin.file, position=begin.position, order_key=found.key)
        return ReplayStopped(
            f"{found.gtid}: the target refuses it: {error.text}",
            remedy="correct the target and run the replay again; it goes on here. "
            f"--skip {begin.rank} leaves the transaction out, and records it",
        ).located(file=begin.file, position=begin.position, order_key=found.key)


def _refused(error: Exception) -> ReplayStopped:
    """Return the error for a server that refuses one of the replay's own statements."""
    number = error.args[0] if error.args else 0
    remedy = RECORD_GONE if number in (1049, 1146) else _READ_ONLY if number == 1290 else _NEEDED
    return ReplayStopped(f"the target refuses what a replay needs: {message_of(error)}", remedy=remedy)


_READ_ONLY = "let the target take writes (read_only, super_read_only), or name the server that does"
_NEEDED = (
    "the user needs REPLICATION_APPLIER (or BINLOG_ADMIN and SESSION_VARIABLES_ADMIN, or SUPER), the rights to make "
    "the schema binlog_merge, and those on the tables"
)
_LOCKED = (
    "another session of the target keeps its locks: look for it in SHOW PROCESSLIST and sys.innodb_lock_waits, end it, "
    "and run the replay again; it goes on after what is applied"
)
_LOST = "run the replay again when the target is there; it goes on after what is applied"


_CATCH_UP_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.5


class Pace:
    """Decides when each transaction may begin, and whether a replay at the end of the log waits for more."""

    def __init__(self, options: ReplayOptions) -> None:
        self._options = options
        self._next = 0.0
        self._commit_us = 0

    def due(self, transaction: Transaction) -> float:
        """Return when (monotonic clock) a transaction may begin. Time lost in a short stall is made up for."""
        self._commit_us = transaction.begin.commit_us
        if self._options.rate is None:
            return 0.0
        due = max(self._next, time.monotonic() - _CATCH_UP_SECONDS) if self._next else time.monotonic()
        self._next = due + 1 / self._options.rate
        return due

    def follows(self, binlog: Log, last_rank: int) -> bool:
        """Return whether there is more to apply; with `until_lag`, wait for it until the replay has caught up."""
        wanted, end = self._options.until_lag, self._options.last_rank
        if wanted is None or (end is not None and last_rank >= end):
            return False
        while True:
            if self._commit_us == 0 and binlog.last_rank > 0:
                raise ConfigError("--until-lag: the merged binlog does not say when transactions committed")
            if self._commit_us and time.time() - self._commit_us / 1e6 <= wanted:
                return False
            time.sleep(_LOOK_SECONDS)
            binlog.refresh()
            if binlog.last_rank > last_rank:
                return True
