"""Merges in rounds, in one process: each round costs what is new. `follow` makes them until it is told to stop: as soon
as nodes have written, and through what passes.

The output is what one merge of all that the nodes have written would give, byte for byte, however it was cut into
rounds. A round that fails leaves nothing behind it; the next one begins with what is on disk, as a new process would.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Final, Protocol, Self

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.uri import is_uri
from binlog_merge.errors import (
    EngineLost,
    InternalError,
    LeaseLapsed,
    MergeError,
    NoFiles,
    OutputBusy,
    ShorterThanMerged,
    io_error,
)
from binlog_merge.files.directory import Glance, discover
from binlog_merge.files.lease_keeper import LeaseKeeper
from binlog_merge.files.output import opened_output
from binlog_merge.files.watch import FolderWatch
from binlog_merge.heartbeat import HEARTBEAT
from binlog_merge.pipeline.archiving import ArchiverBeside
from binlog_merge.pipeline.base.runner import Progress, Runner, silent
from binlog_merge.pipeline.base.state import Job
from binlog_merge.pipeline.discover import find_inputs, read_notes
from binlog_merge.pipeline.run import check_storable, merge_once, placed
from binlog_merge.pipeline.values import MergeResult, RoundState

IN_DRIVER = 16 << 20
"""Bytes that a stage's tasks read before an engine runs them: the driver has read them before Spark has begun."""


_FILES_POLL: Final = 0.1
STORE_INTERVAL: Final = 0.5
"""Seconds from round to round at least, where each is paid for: two requests that write."""


class Rounds:
    """Merges into one output, round after round: `with Rounds(…) as rounds: rounds.merge()`.

    `out` is a directory or an object-store URI, `work` the local folder of the latter: see `opened_output`. Holds the
    output between `__enter__` and `__exit__`. `allowed` is called before anything of a round can be seen; it raises
    what is in the way of writing.
    """

    def __init__(
        self, runner: Runner, config: MergeConfig, out: str | Path, *, start_tso: int | None = None,
        partitions: int | None = None, in_driver: int = IN_DRIVER, work: Path | None = None,
        allowed: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        self._runner, self._config = runner, config
        self._out, self._work, self._allowed = out, work, allowed
        self._start_tso, self._partitions, self._in_driver = start_tso, partitions, in_driver
        self._watch: FolderWatch | None = None
        self._held = ExitStack()
        self._failed = False
        self._claimed = 0

    def __enter__(self) -> Self:
        if is_uri(str(self._out)):
            check_storable(self._config)
        with ExitStack() as held:
            self._output = held.enter_context(opened_output(self._out, self._work, follows=True))
            held.callback(self._close)
            directory, elsewhere = self._output.directory, self._output.elsewhere
            if elsewhere is not None:
                elsewhere.allowed = self._allowed
            self._state = RoundState.of(self._config, directory, elsewhere, self._allowed)
            self._glance = Glance(self._config, self._state.schemas.paths)
            if elsewhere is None:
                self._state = replace(self._state, archiver=ArchiverBeside(self._config, directory))
            self._held = held.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._held.__exit__(kind, error, traceback)

    def _close(self) -> None:
        if self._watch is not None:
            self._watch.close()
        if self._state.archiver is not None:
            self._state.archiver.close()
        self._job(silent).clear_work()

    @property
    def directory(self) -> Path:
        """Return the local folder of the output: the output itself, or where one in an object store is worked on."""
        return self._output.directory

    @property
    def epoch(self) -> int:
        """Return the epoch that was claimed last, by anybody; 0 if none was."""
        return self._output.epoch

    def claim(self, epoch: int, holder: str) -> None:
        """Say in the manifest who writes from here on, as the holder of a lease. Raises OutputBusy if another does."""
        self._output.claim(epoch, holder)
        self._claimed = epoch
        self._state = self._state.forgotten()

    def again(self) -> None:
        """Take in what was published meanwhile. Raises OutputBusy if another has claimed the output."""
        self._output.again(self._claimed)
        self._state = self._state.forgotten()

    def has_news(self) -> bool:
        """Return whether a round may find anything: nodes have written, somebody wrote to the schema store, or
        the clock of an idle node that holds something back has gone on.

        Raises what the discover stage raises about the nodes' files.
        """
        state = self._state
        if state.found is None:
            return True
        if read_notes(self._config, state.notes.keys()).of != state.notes:
            return True
        if self._glance.is_same(state.found):
            return False
        try:
            return discover(self._config, state.heads) != state.found or not state.schemas.fresh()
        except MergeError:
            self._glance.forget()  # so that it is not what the next look finds nothing new beside
            raise

    def wait(self, stop: Event, seconds: float, poll: float) -> None:
        """Return when a node may have written, at a stop, or after so many `seconds`; after `poll` where nothing tells
        of what nodes write.
        """
        folders = self._glance.folders(self._state.found)
        if self._watch is None or self._watch.folders != folders:
            if self._watch is not None:
                self._watch.close()
            self._watch = FolderWatch(folders)
            return  # something may have been written before the watch began
        self._watch.wait(stop, seconds, poll)

    def await_files(self, stop: Event, seconds: float) -> None:
        """Return when the files of all nodes are there, at a stop, or after so many `seconds`."""
        end = time.monotonic() + seconds
        folders = tuple(map(str, self._config.captured_folders().values()))
        while not stop.is_set() and (left := end - time.monotonic()) > 0:
            with FolderWatch(folders) as watch:
                watch.wait(stop, left, _FILES_POLL)
            try:
                find_inputs(self._config, self._output.state)
            except (NoFiles, ShorterThanMerged):
                continue
            except MergeError:  # for the next round to say
                return
            return

    def merge(self, *, end_of_input: bool = False, progress: Progress = silent) -> MergeResult:
        """Merge what the nodes have written by now, and publish what no node can add to any more. Raises MergeError."""
        if self._failed or self._output.is_lost:
            self.again()
            self._failed = False
        try:
            result, self._state = merge_once(self._job(progress, end_of_input), self._state)
        except BaseException as error:
            self._state, self._failed = self._state.forgotten(), True
            if isinstance(error, MergeError) and error.result is not None:
                error.result = placed(error.result, self._output)
            if isinstance(error, ShorterThanMerged) and self._claimed and error.node in self._config.captured_folders():
                raise NoFiles(
                    f"{error.message}: another host has captured more, and the capture here catches up",
                    node=error.node,
                    file=error.file,
                    remedy=f"wait; if its capture has all that the server has, {error.remedy}",
                ) from error
            if isinstance(error, MergeError) and not error.may_pass:
                self._output.check_copy()  # of which whatever is wrong is made anew
            if isinstance(error, OSError):  # somebody removes what a round is working on: the next one makes it anew
                raise io_error(error, str(error.filename or self._output.directory)) from error
            raise
        return placed(result, self._output)

    def _job(self, progress: Progress, end_of_input: bool = False) -> Job:
        return Job(
            self._runner, self._config, self._output.directory, self._start_tso, None, end_of_input, self._partitions,
            progress, following=True, in_driver=self._in_driver, store=self._output.uri,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pace:
    """When a round begins, in seconds.

    No sooner than `min_interval` after the one before began, and after a rest of half the time that one took, between
    `least_rest` and `rest`: rounds without a rest would keep a core busy, on which a server or a reader may wait, and
    many small rounds cost more than a few. Then as soon as a node has written: `look` is how often its files are looked
    at where the system tells when they change, `poll` where it does not. An error that may pass is tried again after a
    pause that grows from `first_pause` to `last_pause`, for `patience` at most.
    """

    min_interval: float = 0.0
    least_rest: float = 0.05
    rest: float = 0.25
    look: float = 0.5
    poll: float = 0.05
    first_pause: float = 0.5
    last_pause: float = 15.0
    patience: float = 600.0

    def pause(self, attempt: int) -> float:
        """Return how long to wait after the n-th failure in a row, from 1 on."""
        return float(min(self.last_pause, self.first_pause * 2 ** min(attempt - 1, 30)))


class Watcher(Protocol):
    """Is told what happens."""

    def merged(self, result: MergeResult) -> None:
        """Take the result of a round."""

    def failed(self, error: MergeError, pause: float) -> None:
        """Take an error that may pass; the round is tried again after a pause of so many seconds."""

    def recovered(self, seconds: float) -> None:
        """Take note that a round has come to its end after so many seconds of failures."""


def follow(
    rounds: Rounds, stop: Event, watcher: Watcher, pace: Pace, clock: Callable[[], float] = time.monotonic
) -> None:
    """Merge until `stop` is set, which ends it after the round. Raises MergeError for what does not pass."""
    failing_since, attempts = 0.0, 0
    while not stop.is_set():
        begun = clock()
        try:
            result = rounds.merge() if rounds.has_news() else None
        except MergeError as error:
            if stop.is_set():
                return
            attempts += 1
            failing_since = begun if attempts == 1 else failing_since
            # A full disk, a folder that is not mounted, a lost executor, a lease that is late. A JVM that is gone needs
            # another process; an internal error may. Whoever else has written is now the one who writes.
            passes = error.may_pass and not isinstance(error, InternalError | EngineLost | OutputBusy)
            passes = passes or isinstance(error, LeaseLapsed)
            if not passes or clock() - failing_since > pace.patience:
                raise
            if HEARTBEAT.has_worked:  # else it still starts, for which kernels may be compiled: nobody waits for signs
                HEARTBEAT.beat()
            # Files that are not there yet come any moment: on a new host they are being captured.
            pause = min(pace.pause(attempts), _CAPTURED_SOON if isinstance(error, NoFiles) else pace.last_pause)
            watcher.failed(error, pause)
            if isinstance(error, NoFiles):
                rounds.await_files(stop, pause)
            else:
                stop.wait(pause)
            continue
        HEARTBEAT.works()
        if attempts:
            watcher.recovered(clock() - failing_since)
            attempts = 0
        if result is not None:
            watcher.merged(result)
        took = clock() - begun
        if result is not None:
            stop.wait(max(min(pace.rest, max(pace.least_rest, took / 2)), pace.min_interval - took))
        elif not stop.is_set():
            rounds.wait(stop, pace.look, pace.poll)


_CLAIMS: Final = 5
_CAPTURED_SOON: Final = 1.0


def follow_leading(
    opened: Callable[[], Rounds],
    keeper: LeaseKeeper,
    stop: Event,
    watcher: Watcher,
    pace: Pace,
    rehearse: Callable[[], None] | None = None,
) -> None:
    """Wait for a lease, and merge as `follow` does while it is held; again and again, until `stop` is set.

    `opened` returns rounds that may write while `keeper.check` allows it. Who sets `stop` sets `keeper.ending`, too.
    `rehearse` is called if another has the lease at first. Raises LeaseLost when another has taken over, and as
    `follow` does.
    """
    while keeper.leads(stop, rehearse):
        rehearse = None
        with opened() as rounds:
            _claim(rounds, keeper, stop)
            follow(rounds, keeper.ending, watcher, pace)
            keeper.release()  # before the local copy is cleared: somebody waits


def _claim(rounds: Rounds, keeper: LeaseKeeper, stop: Event) -> None:
    """Claim an output. What who led before has published in the meantime is taken in."""
    for attempt in range(_CLAIMS):
        try:
            if rounds.epoch >= keeper.epoch:  # of a lease that was removed by hand
                keeper.outdo(rounds.epoch, stop)
            rounds.claim(keeper.epoch, keeper.terms.name)
        except OutputBusy:
            if stop.is_set():
                return
            keeper.check()
            if attempt + 1 == _CLAIMS:
                raise
            rounds.again()
        else:
            return
