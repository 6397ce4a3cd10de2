"""The progress of a merge on stderr: a bar per stage on a terminal, a line per finished stage elsewhere."""

import sys
import time
from types import TracebackType
from typing import Self

from binlog_merge.cli.log_lines import logs_json, say


class LineProgress:
    """Prints a line per finished stage: for logs and pipes."""

    def __init__(self) -> None:
        self._started: dict[str, float] = {}
        self._finished: set[str] = set()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Take note that `done` of `total` parts of a stage are done."""
        started = self._started.setdefault(stage, time.monotonic())
        if done >= total and stage not in self._finished:
            self._finished.add(stage)
            took = time.monotonic() - started
            say(
                f"{stage}: {done}/{total} in {took:.1f} s",
                "progress",
                stage=stage,
                tasks=total,
                seconds=round(took, 3),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Do nothing: every line is complete."""


class BarProgress:
    """Draws a bar per stage, in place: for terminals."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            TextColumn("{task.description:<12}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Take note that `done` of `total` parts of a stage are done."""
        if stage not in self._tasks:
            self._tasks[stage] = self._progress.add_task(stage, total=total)
        self._progress.update(self._tasks[stage], completed=done, total=total)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()


def progress() -> LineProgress | BarProgress:
    """Return the progress display that suits stderr."""
    return BarProgress() if sys.stderr.isatty() and not logs_json() else LineProgress()
