"""The progress of a merge on stderr: a bar per stage on a terminal, a line per finished stage elsewhere."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from binlog_merge.cli.log_lines import is_quiet, logs_json, say

if TYPE_CHECKING:
    from rich.progress import Task

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


class LineProgress:
    """Prints a line per finished stage: for logs and pipes."""

    def __init__(self) -> None:
        self._started: dict[str, float] = {}
        self._sizes: dict[str, int] = {}
        self._finished: set[str] = set()

    def size_is(self, stage: str, size: int, branches: int = 0) -> None:
        """Take note that a stage reads so many bytes."""
        if size:
            self._sizes[stage] = size

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Take note that `done` of `total` parts of a stage are done."""
        started = self._started.setdefault(stage, time.monotonic())
        if done >= total and stage not in self._finished:
            self._finished.add(stage)
            took = time.monotonic() - started
            size = self._sizes.get(stage)
            say(
                f"{stage}: {done}/{total} in {took:.1f} s" + ("" if size is None else f", {_amount(size, took)}"),
                "progress",
                stage=stage,
                tasks=total,
                seconds=round(took, 3),
                **({} if size is None else {"bytes": size}),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Do nothing: every line is complete."""


class BarProgress:
    """Draws a bar per stage, in place: for terminals. Other lines on stderr stand above the bars."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description:<12}"),
            BarColumn(),
            TextColumn("{task.fields[amount]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            TimeRemainingColumn(compact=True),
            console=Console(stderr=True),
        )
        self._tasks: dict[str, TaskID] = {}
        self._sizes: dict[str, int] = {}

    def size_is(self, stage: str, size: int, branches: int = 0) -> None:
        """Take note that a stage reads so many bytes."""
        if size:
            self._sizes[stage] = size

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Take note that `done` of `total` parts of a stage are done."""
        if stage not in self._tasks:
            self._tasks[stage] = self._progress.add_task(stage, total=total, amount="", left="")
        number = self._tasks[stage]
        size = self._sizes.get(stage)
        shown = f"{done}/{total}"
        if size is not None and total:
            shown = _amount_of(self._progress.tasks[number], size * done // total, size)
        left = "" if done >= total else "left"
        self._progress.update(number, completed=done, total=total, amount=shown, left=left)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()


def _amount_of(task: "Task", done: int, size: int) -> str:
    """Return the bytes that are done, of how many, and how many that is a second."""
    elapsed = task.elapsed or 0.0
    return _amount(size, elapsed) if done >= size else f"{_bytes(done)} of {_amount(size, elapsed, done)}"


def _amount(size: int, seconds: float, done: int | None = None) -> str:
    rate = "" if not seconds or done == 0 else f", {_bytes((size if done is None else done) / seconds)}/s"
    return f"{_bytes(size)}{rate}"


def _bytes(size: float) -> str:
    for unit in _UNITS[:-1]:
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} {_UNITS[-1]}"


def progress() -> LineProgress | BarProgress:
    """Return the progress display that suits stderr."""
    return BarProgress() if sys.stderr.isatty() and not logs_json() and not is_quiet() else LineProgress()
