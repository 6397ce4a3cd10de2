"""The merge without Spark: the same stage functions, by plain processes. What Spark costs is measured against it."""

import pickle
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from types import TracebackType
from typing import Any, Self, TypeVar

from binlog_merge.pipeline.base.runner import Files

Task = TypeVar("Task")
Result = TypeVar("Result")


def _run(function: Callable[[Any], Any], data: bytes) -> bytes:
    return pickle.dumps(function(pickle.loads(data)))


def _warm(_: int) -> None:
    import binlog_merge.pipeline.gather.task
    import binlog_merge.pipeline.order.task
    import binlog_merge.pipeline.scan.task  # noqa: F401

    time.sleep(0.2)


class ProcessRunner:
    """Runs tasks in a pool of processes (the job's Runner protocol). Make it before a Spark session: it forks."""

    exchange = Files()

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._pool = ProcessPoolExecutor(processes, get_context("forkserver"))
        list(self._pool.map(_warm, range(processes)))

    def start(self, progress: object) -> None:
        """Do nothing: the pool is there."""

    @property
    def slots(self) -> int:
        """Return how many tasks run at once."""
        return self._processes

    def run(self, name: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Run every task and return the results in order."""
        jobs = [self._pool.submit(_run, function, pickle.dumps(task)) for task in tasks]
        return [pickle.loads(job.result()) for job in jobs]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._pool.shutdown()


class InlineRunner:
    """Runs tasks one after the other in this process, to be profiled."""

    slots = 1
    exchange = Files()

    def start(self, progress: object) -> None:
        """Do nothing: this process is there."""

    def run(self, name: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Run every task and return the results in order."""
        return [function(task) for task in tasks]
