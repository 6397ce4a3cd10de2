"""The replay itself: from a merged binlog to a target, exactly once, from where the target stands.

Transactions are committed in batches, each with the position behind it. When a batch fails, its transactions are
applied one by one, so that all before the faulty one arrive and the error names it. A lost connection is made again,
with growing pauses; what the target has is read from the target, so nothing is applied twice.
"""

import time
from collections.abc import Callable
from typing import Any

from binlog_merge.binlog.header import RawEvent
from binlog_merge.errors import ConfigError, MergeError, ReplayStopped, ServerRefused, TargetBusy
from binlog_merge.replay.mysql import MysqlTarget, TargetPosition, passes
from binlog_merge.replay.reader import End, MergedBinlog, Rows, Statement
from binlog_merge.replay.rows import RowSelector
from binlog_merge.replay.statements import carry_out, plan_statement
from binlog_merge.replay.walk import ReplayOptions, ReplayResult, Walk, history_of, text_of

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0


def dry_run(binlog: MergedBinlog, options: ReplayOptions) -> ReplayResult:
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
                result.statements += [text_of(step.sql) for step in plan.steps]
                result.left_out += plan.left_out
        if isinstance(item, End):
            result.transactions, result.last_rank = result.transactions + 1, item.rank
            result.skipped += [walk.gtid] if walk.skipping else []
    return result


def replay(
    binlog: MergedBinlog,
    target: MysqlTarget,
    options: ReplayOptions,
    progress: Callable[[ReplayResult], None] = lambda result: None,
) -> ReplayResult:
    """Apply a merged binlog to a target. Raises ReplayStopped with what was applied before as its `result`."""
    run = _Run(binlog, target, options, progress)
    try:
        return run.to_the_end()
    except MergeError as error:
        error.result = run.result
        raise
    finally:
        target.close()


def _selector(binlog: MergedBinlog, options: ReplayOptions) -> RowSelector:
    wanted = options.filter is not None and bool(options.filter.settings.expression_rules)
    return RowSelector(options.filter, history_of(binlog.directory) if wanted else None)


class _Run:
    """One replay: goes on from the target's position, again and again, until the end or an error."""

    def __init__(
        self,
        binlog: MergedBinlog,
        target: MysqlTarget,
        options: ReplayOptions,
        progress: Callable[[ReplayResult], None],
    ) -> None:
        self.binlog = binlog
        self.target = target
        self.options = options
        self.progress = progress
        self.result = ReplayResult(0, 0, selector=_selector(binlog, options))
        self.batch = options.batch
        self.walk = Walk(options)
        self._description: RawEvent | None = binlog.format_description()
        self._applied = 0
        self._counted = self._counts()

    def to_the_end(self) -> ReplayResult:
        """Apply everything there is to apply."""
        import pymysql

        pause, lost_since = _FIRST_PAUSE, 0.0
        while True:
            before = self._applied
            try:
                self._go_on()
                return self.result
            except (pymysql.MySQLError, ServerRefused, TargetBusy) as error:
                if self._applied > before:
                    pause, lost_since = _FIRST_PAUSE, 0.0
                if not (passes(error) if isinstance(error, pymysql.MySQLError) else lost_since):
                    raise self._refused(error) if isinstance(error, pymysql.MySQLError) else error from error
                lost_since = lost_since or time.monotonic()
                if time.monotonic() - lost_since > self.options.retry_seconds:
                    raise ReplayStopped(f"{self.walk.gtid}: {_told(error)}", remedy=_LOST) from error
                self.target.close()
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _go_on(self) -> None:
        """Apply from the target's position to the end; after a failed batch, once more one by one."""
        import pymysql

        self.walk = Walk(self.options)
        self._restore(self._counted)
        position = self._begin_at(self.target.open(self._description))
        self._applied = position.rank
        try:
            self._apply(position)
        except pymysql.MySQLError as error:
            if passes(error):
                raise
            self.target.rollback()
            if self.batch == 1:
                raise self._refused(error) from error
            self.batch = 1
            self.target.close()
            self._go_on()

    def _begin_at(self, found: TargetPosition | None) -> TargetPosition:
        """Return where the target stands; a first replay begins where the options say."""
        first = self.options.first_rank
        if found is None:
            found = TargetPosition((first or 1) - 1)
            self.target.start_at(found.rank)
        elif first is not None and first != found.rank + 1 and self.result.first_rank == 0:
            raise ConfigError(
                f"the target has transactions up to {found.rank}; a replay goes on at {found.rank + 1}, not at {first}",
                remedy="leave the start out",
            )
        if self.result.first_rank == 0:
            self.result.first_rank, self.result.last_rank = found.rank + 1, found.rank
        if found.rank > self.binlog.last_rank:
            raise ReplayStopped(
                f"the target has {found.rank} transactions of this cluster, the merged binlog {self.binlog.last_rank}",
                remedy="this is another, or an older, output of the cluster",
            )
        return found

    def _apply(self, position: TargetPosition) -> None:
        pending, walk = 0, self.walk
        resumed: TargetPosition | None = position if position.step or position.intent else None
        for item in self.binlog.items(position.rank + 1):
            if walk.over(item):
                break
            with walk.blamed():
                if isinstance(item, Rows) and not walk.skipping:
                    event = self.result.selector.select(item, walk.key)
                    if event is not None:
                        self.target.add(item, event)
                elif isinstance(item, Statement) and not walk.skipping:
                    # What stands before must be in the target, with its position, before the statement commits it.
                    pending = self._commit(pending, item_rank(walk) - 1)
                    self._statement(item, resumed)
                if isinstance(item, End):
                    resumed = None
                    pending = self._ended(item, pending + 1)
        self._commit(pending, self._applied + pending)

    def _ended(self, end: End, pending: int) -> int:
        if self.walk.skipping:
            self.target.skipped(end.rank, self.walk.gtid)
            self.result.skipped.append(self.walk.gtid)
        return self._commit(pending, end.rank) if pending >= self.batch else pending

    def _commit(self, pending: int, rank: int) -> int:
        """Commit what is pending, up to a rank; return 0, what is pending then."""
        if pending:
            key = None if self.walk.key is None else self.walk.key.text()
            self.target.commit(rank, self.walk.gtid, key, self._applied)
            self.result.transactions += rank - self._applied
            self._applied = self.result.last_rank = rank
            self._counted = self._counts()
            self.progress(self.result)
        return 0

    def _counts(self) -> tuple[Any, ...]:
        """Return what was counted of committed transactions."""
        selector, result = self.result.selector, self.result
        lists = tuple(tuple(found) for found in (result.statements, result.left_out, result.skipped))
        return (selector.applied.copy(), selector.filtered.copy(), lists)

    def _restore(self, counts: tuple[Any, ...]) -> None:
        """Forget what was counted of transactions that were undone."""
        selector, result = self.result.selector, self.result
        selector.applied, selector.filtered = counts[0].copy(), counts[1].copy()
        result.statements, result.left_out, result.skipped = (list(found) for found in counts[2])

    def _statement(self, item: Statement, resumed: TargetPosition | None) -> None:
        plan = plan_statement(item, self.options.filter, self.walk.ddl_tso())
        carry_out(self.target, item, plan.steps, resumed)
        self.result.statements += [text_of(step.sql) for step in plan.steps]
        self.result.left_out += plan.left_out

    def _refused(self, error: Exception) -> ReplayStopped:
        """Return the error of the transaction that the walk is in, or of the preparations before any."""
        walk = self.walk
        if walk.begin is None:
            return ReplayStopped(f"the target refuses what a replay needs: {_told(error)}", remedy=_NEEDED)
        return ReplayStopped(
            f"{walk.gtid}: the target refuses it: {_told(error)}",
            remedy="correct the target and run the replay again; it goes on here. "
            f"--skip {walk.begin.rank} leaves the transaction out, and records it",
        ).located(file=walk.begin.file, position=walk.begin.position, order_key=walk.key)


def item_rank(walk: Walk) -> int:
    """Return the rank of the transaction that a walk is in."""
    return 0 if walk.begin is None else walk.begin.rank


_NEEDED = (
    "the user needs REPLICATION_APPLIER (or BINLOG_ADMIN and SESSION_VARIABLES_ADMIN, or SUPER), the rights to make "
    "the schema binlog_merge, and those on the tables"
)
_LOST = "run the replay again when the target is there; it goes on behind what is applied"


def _told(error: Exception) -> str:
    return " ".join(str(arg) for arg in error.args)
