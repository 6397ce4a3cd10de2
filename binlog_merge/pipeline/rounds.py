"""Merges in rounds, in one process: each round costs what is new.

The output is what one merge of all that the nodes have written would give, byte for byte, however it was cut into
rounds. A round that fails leaves nothing behind it; the next one begins with what is on disk, as a new process would.
"""

from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Self

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.files.directory import Glance, discover
from binlog_merge.files.lock import OutputLock
from binlog_merge.files.publish import output_directory
from binlog_merge.files.watch import FolderWatch
from binlog_merge.pipeline.archiving import ArchiverBeside
from binlog_merge.pipeline.base.runner import Progress, Runner, silent
from binlog_merge.pipeline.base.state import Job
from binlog_merge.pipeline.idle import read_notes
from binlog_merge.pipeline.result import MergeResult
from binlog_merge.pipeline.round_state import Between
from binlog_merge.pipeline.run import merge_once

IN_DRIVER = 16 << 20
"""Bytes that a stage's tasks read before an engine runs them: the driver has read them before Spark has begun."""


class Rounds:
    """Merges into one output directory, round after round: `with Rounds(…) as rounds: rounds.merge()`.

    Holds the directory's lock between `__enter__` and `__exit__`.
    """

    def __init__(
        self, runner: Runner, config: MergeConfig, out: str | Path, *, start_tso: int | None = None,
        partitions: int | None = None, in_driver: int = IN_DRIVER,
    ) -> None:  # fmt: skip
        self._runner, self._config = runner, config
        self._directory = output_directory(out)
        self._start_tso, self._partitions, self._in_driver = start_tso, partitions, in_driver
        self._between = Between.of(config, self._directory)
        self._lock = OutputLock(self._directory)
        self._glance = Glance(config, self._between.schemas.paths)
        self._watch: FolderWatch | None = None

    def __enter__(self) -> Self:
        self._lock.__enter__()
        try:
            self._between.archiver = ArchiverBeside(self._config, self._directory)
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if self._watch is not None:
                self._watch.close()
            if self._between.archiver is not None:
                self._between.archiver.close()
            self._job(silent).clear_work()
        finally:
            self._lock.__exit__(kind, error, traceback)

    def has_news(self) -> bool:
        """Return whether a round may find anything: nodes have written, somebody wrote to the schema store, or
        the clock of an idle node that holds something back has gone on.

        Raises what the discover stage raises about the nodes' files.
        """
        between = self._between
        if between.found is None:
            return True
        if read_notes(self._config, between.notes.keys()).of != between.notes:
            return True
        if self._glance.is_same(between.found):
            return False
        return discover(self._config, between.heads) != between.found or not between.schemas.fresh()

    def wait(self, stop: Event, seconds: float, poll: float) -> None:
        """Return when a node may have written, at a stop, or after so many `seconds`; after `poll` where nothing tells
        of what nodes write.
        """
        folders = self._glance.folders(self._between.found)
        if self._watch is None or self._watch.folders != folders:
            if self._watch is not None:
                self._watch.close()
            self._watch = FolderWatch(folders)
            return  # something may have been written before the watch began
        self._watch.wait(stop, seconds, poll)

    def merge(self, *, end_of_input: bool = False, progress: Progress = silent) -> MergeResult:
        """Merge what the nodes have written by now, and publish what no node can add to any more. Raises MergeError."""
        done = False
        try:
            result = merge_once(self._job(progress, end_of_input), self._between)
            done = True
        finally:
            if not done:
                self._between.forget()
        return result

    def _job(self, progress: Progress, end_of_input: bool = False) -> Job:
        return Job(
            self._runner, self._config, self._directory, self._start_tso, None, end_of_input, self._partitions,
            progress, following=True, in_driver=self._in_driver,
        )  # fmt: skip
