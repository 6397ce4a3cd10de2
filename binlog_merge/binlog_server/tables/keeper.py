"""Keeps a DuckDB file up with a published log, and gives readers consistent views of it.

    round   what is published is applied, to its end      view   begins between two rounds only
    hold    no round begins (FLUSH TABLES WITH READ LOCK) view   all that begin meanwhile are of one position

As a view begins where a round has ended, its position is that of the log's end as published then: a file, a position
and a GTID set, from which a reader goes on without a gap and without a change that comes twice.
"""

import select
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Condition, Event, Thread
from typing import Any, Final

import duckdb

from binlog_merge.binlog_server.log import LogView, PublishedLog
from binlog_merge.binlog_server.refused import Refused
from binlog_merge.binlog_server.tables.compiled import Shape
from binlog_merge.binlog_server.tables.fields import Reading
from binlog_merge.binlog_server.tables.view import View
from binlog_merge.errors import ConfigError, InternalError, MergeError
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.log.log import Log
from binlog_merge.log.replay_options import ReplayOptions
from binlog_merge.log.shapes import Shapes
from binlog_merge.protocol.packets import ErrorCode
from binlog_merge.tables.load import load
from binlog_merge.tables.target import DuckdbTarget
from binlog_merge.tables.types import qualified
from snapshot_store.model import Catalog
from snapshot_store.mysql.sql.names import quote_plainly

_AGAIN: Final = 5.0
_POLL: Final = 1.0
_AHEAD: Final = "256KB"
"""What the engine reads of a result before it is asked for: its own 10 MiB are twice that in memory, and no faster."""
LONGEST_LOCK: Final = 60.0
"""Seconds for which a session may keep others waiting by its lock."""


@dataclass(slots=True, eq=False)
class Hold:
    """A session's lock; `lost`: it was given up, as others have waited for long."""

    begun: float
    lost: bool = False


class Tables:
    """The tables of a log in a DuckDB file; a context manager, which has the file for itself and keeps it up.

    Raises TargetBusy, ConfigError and IoError when it begins. What goes wrong later is reported, and refuses reads.
    A lock that is older than LONGEST_LOCK is given up when somebody waits for it.
    """

    def __init__(self, log: PublishedLog, path: Path, report: Callable[[str], None]) -> None:
        self._log = log
        self._report = report
        self._target = DuckdbTarget(path, log.view().header.cluster_uuid, None)
        self._closed = Event()
        self._changed = Condition()
        self._busy = False
        self._holds: set[Hold] = set()
        self._wanted: list[int] = []
        self._failed: MergeError | None = None
        self._at: tuple[LogView, Catalog] | None = None
        self._thread = Thread(target=self._keep, daemon=True, name="tables")
        self._open = ExitStack()

    def __enter__(self) -> "Tables":
        with ExitStack() as undo:
            undo.enter_context(self._target)
            check_file(self._target, self._log, self._report)
            self._root = self._target.connection.cursor()
            folder = quote_plainly(str(self._target.path.with_name(self._target.path.name + ".tmp")))
            self._root.execute(f"SET GLOBAL temp_directory = {folder}")
            self._open = undo.pop_all()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join()
        self._open.close()

    @property
    def rank(self) -> int:
        """Return how many transactions the tables have."""
        return self._target.rank or 0

    def held(self) -> LogView | None:
        """Return the log as of which the tables are, None before the first round has ended."""
        with self._changed:
            return None if self._at is None else self._at[0]

    def view(self, rank: int, seconds: float, as_held: bool) -> View:
        """Return a view that has at least `rank` transactions; `as_held`: or of the tables as they are held.

        Raises Refused if that takes more than `seconds`, and if the tables are not kept up any more.
        """
        with self._changed:
            self._await(lambda at: (as_held and bool(self._holds)) or at.state.rank >= rank, rank, seconds)
            return self._begun()

    def hold(self, rank: int, seconds: float) -> Hold:
        """Let no round begin until what is returned is released, or lost. Raises Refused as `view` does."""
        with self._changed:
            self._await(lambda at: bool(self._holds) or at.state.rank >= rank, rank, seconds)
            hold = Hold(time.monotonic())
            self._holds.add(hold)
        return hold

    def release(self, hold: Hold) -> None:
        """Let rounds begin again, as far as this lock is in their way."""
        with self._changed:
            self._holds.discard(hold)
            self._changed.notify_all()

    def shape(self, minutes: int, seconds: float) -> Shape:
        """Return what is known of the tables as of the last round, for a session's time zone. Raises Refused."""
        with self._changed:
            if self._at is None:
                self._await(lambda at: True, 0, seconds)
            assert self._at is not None
            catalog = self._at[1]
        names = lambda schema, name: tuple(c.name for c in catalog.tables[schema, name].columns)  # noqa: E731
        return Shape(catalog, names, qualified, Reading(self.temporal_text, minutes))

    @property
    def temporal_text(self) -> bool:
        """Return whether dates and times are text in the file."""
        return self._target.temporal_text

    def _lose_old_locks(self) -> float:
        """Give up the locks that others have waited for long enough, with the lock; return when the next one is."""
        now = time.monotonic()
        for hold in [hold for hold in self._holds if hold.begun + LONGEST_LOCK <= now]:
            hold.lost = True
            self._holds.discard(hold)
            self._report(f"a lock of all tables is given up after {now - hold.begun:.0f} s: others wait for newer rows")
            self._changed.notify_all()
        return min((hold.begun for hold in self._holds), default=now) + LONGEST_LOCK - now

    def _await(self, suits: Callable[[LogView], bool], rank: int, seconds: float) -> None:
        """Wait, with the lock, until no round runs and the position suits."""
        end = time.monotonic() + seconds
        self._wanted.append(rank)
        try:
            while self._busy or self._at is None or not suits(self._at[0]):
                if self._failed is not None:
                    raise Refused(
                        ErrorCode.ER_UNKNOWN_ERROR,
                        f"the tables are not kept up with the log any more, they have {self.rank} transactions: "
                        f"{self._failed.code}: {self._failed.message}"[:500],
                    )
                lost = self._lose_old_locks()
                left = end - time.monotonic()
                if left <= 0 or self._closed.is_set():
                    raise Refused(
                        ErrorCode.ER_LOCK_WAIT_TIMEOUT,
                        f"Lock wait timeout exceeded: the tables have {self.rank} of the log's transactions, and "
                        f"{rank} are wanted; try again later, or SET lock_wait_timeout",
                    )
                self._changed.wait(min(left, lost if self._holds else 3600.0))
        finally:
            self._wanted.remove(rank)
            self._changed.notify_all()

    def _begun(self) -> View:
        assert self._at is not None
        log, catalog = self._at
        connection = self._root.cursor()
        try:
            connection.execute(f"SET streaming_buffer_size = '{_AHEAD}'; SET TimeZone = 'UTC'; BEGIN TRANSACTION")
            rows = connection.execute(self._target.position_sql()).fetchall()
        except duckdb.Error as error:
            connection.close()
            raise Refused(ErrorCode.ER_UNKNOWN_ERROR, f"the tables cannot be read: {error}"[:300]) from None
        assert rows == [(log.state.rank,)], (rows, log.state.rank)
        return View(connection, log, catalog, self.temporal_text)

    # The thread that applies the log

    def _keep(self) -> None:
        with self._log.bell() as bell:
            while not self._closed.is_set():
                view = self._log.view()
                if self._may_begin(view):
                    self._round(view)
                elif not select.select([bell], [], [], _POLL)[0]:
                    continue
                else:
                    bell.recv(1 << 16)

    def _may_begin(self, view: LogView) -> bool:
        """Wait until no reader is in the way; return whether there is something to apply, which begins then."""
        with self._changed:
            if self._failed is not None or (self._at is not None and view.state.rank <= self._at[0].state.rank):
                return False
            if self._at is None and not view.state.rank:
                return False
            while self._holds or (self._at and any(rank <= self._at[0].state.rank for rank in self._wanted)):
                if self._closed.is_set():
                    return False
                self._changed.wait()
            self._busy = True
            return True

    def _round(self, view: LogView) -> None:
        failed: MergeError | None = None
        try:
            self._apply(view)
        except MergeError as error:
            if error.may_pass:
                self._report(f"the tables wait, and it is tried again: {error.message}")
                self._target.roll_back()
                self._closed.wait(_AGAIN)
                return
            failed = error
        except Exception as error:  # a fault of ours ends the tables, not the log
            failed = InternalError(f"{type(error).__name__}: {error}")
        finally:
            with self._changed:
                self._busy, self._failed = False, failed
                # What has ended in the midst of a round is at no position that was told to anybody.
                whole = failed is None and self._target.rank == view.state.rank
                self._at = (view, self._target.catalog) if whole else None
                self._changed.notify_all()
            if failed is not None:
                self._report(f"the tables are not kept up any more, and are not read: {failed}")

    def _apply(self, view: LogView) -> None:
        binlog = Log(view.folder)
        binlog.state = view.state
        if self._target.rank is None:
            check_new(self._target, view.folder)
        with view.folder.schema_store() as (path, _):
            shapes = Shapes(path) if path.exists() else None
            # File by file, so that an end is not put off for long.
            for last in [file.last_rank for file in view.files if file.last_rank > self.rank] or [view.state.rank]:
                if not self._closed.is_set():
                    load(binlog, self._target, shapes, ReplayOptions(last_rank=last))


def check_file(target: DuckdbTarget, log: PublishedLog, report: Callable[[str], None]) -> None:
    """Raise ConfigError for a file that does not have the rows of the whole log, or cannot get them."""
    where, begun = str(target.path), target.rank is not None
    if begun and target.filtered():
        raise ConfigError(
            "the file was filled with a filter, so its tables are not those of the log",
            file=where,
            remedy="give --tables a file of its own",
        )
    skipped = target.skipped_ranks()
    if skipped:
        report(
            f"{where}: transactions that a replay skipped are not in the tables: {', '.join(map(str, skipped))[:200]}"
        )
    if not begun:
        check_new(target, log.folder)


def check_new(target: DuckdbTarget, folder: LogFolder) -> None:
    """Raise ConfigError if a new file would not get all rows from the log."""
    found = _there_before(folder)
    if found:
        raise ConfigError(
            f"rows of {', '.join(found[:5])} from before the log begins are not in it",
            file=str(target.path),
            remedy="bring their rows with `binlog-merge bootstrap --to duckdb:///…`; if these tables were empty then, "
            "begin the file with `binlog-merge replay --to duckdb:///…`",
        )


def _there_before(folder: LogFolder) -> list[str]:
    """Return the tables that existed when the log began."""
    state = Log(folder).state
    if not state.files:
        return []
    from snapshot_store.tso import OrderKey

    with folder.schema_store() as (path, _):
        if not path.exists():
            return []
        tables: Any = Shapes(path).catalog(OrderKey.parse(state.files[0].first_key)).tables
    return [f"{schema}.{name}" for schema, name in sorted(tables)]
