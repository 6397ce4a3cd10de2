"""The interface through which the job runs a stage's tasks, whichever engine schedules them, and how far a stage has
come.
"""

import pickle
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

Progress = Callable[[str, int, int], None]
"""Is told of a stage, how many of its parts are done, and how many there are."""


@runtime_checkable
class Sized(Protocol):
    """A Progress, or a Runner, that also wants to know how many bytes a stage reads, and of how many branches."""

    def size_is(self, stage: str, size: int, branches: int = 0) -> None:
        """Take note of it, before the stage's parts are reported. `branches` is 0 where that is not known before."""


def silent(stage: str, done: int, total: int) -> None:
    """Report nothing."""


Task = TypeVar("Task")
Result = TypeVar("Result")


class Exchange(Protocol):
    """How index blocks come from the tasks that write them to the tasks that read them.

    `shared`: what a task writes into a folder of the driver is there for the driver.
    """

    @property
    def shared(self) -> bool:
        """Return whether driver and executors have folders in common."""

    def prefix(self, work: Path) -> str:
        """Return the beginning of the paths of a run's blocks."""

    def opened(self) -> AbstractContextManager[None]:
        """Let this process write blocks, and read those of all tasks."""

    def clear(self, work: Path, kept: frozenset[str]) -> None:
        """Remove the blocks, but for those whose paths up to the first dot of their names are `kept`."""


class Files:
    """Blocks are files in the work folder, which the driver and all executors see under one path."""

    shared = True

    def prefix(self, work: Path) -> str:
        """Return the work folder's path."""
        return f"{work}/"

    def opened(self) -> AbstractContextManager[None]:
        """Do nothing: files need nobody."""
        return nullcontext()

    def clear(self, work: Path, kept: frozenset[str]) -> None:
        """Remove the work folder with its files, whether this run or a killed one left them, but for those `kept`."""
        if work.is_dir():
            for path in work.iterdir():
                if str(path.with_name(path.name.partition(".")[0])) not in kept:
                    path.unlink(missing_ok=True)
            if not kept:
                with suppress(OSError):  # an executor of a killed driver has just written something
                    work.rmdir()


class Runner(Protocol):
    """Runs module-level functions on frozen values, locally or on a cluster."""

    def start(self, progress: Progress) -> None:
        """Make ready for tasks, and report their progress from then on.

        Called when the nodes' files are found: what is wrong with them costs no start.
        """

    @property
    def slots(self) -> int:
        """Return how many tasks run at once."""

    @property
    def exchange(self) -> Exchange:
        """Return how tasks get the blocks of others. A task names those that it reads in `reads`."""

    def run(self, name: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Run every task and return the results in the order of the tasks. A failed task is retried, so it may run
        several times.
        """


class InDriver:
    """Runs tasks one after the other in this process: what an engine would need longer to hand out than to run.

    Tasks and results are pickled, as an engine pickles them, so that nothing is shared with the driver. Blocks are
    where those of the engine are.
    """

    slots = 1

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange

    def start(self, progress: Progress) -> None:
        """Do nothing: this process is there."""

    def run(self, name: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Run every task and return the results in the order of the tasks."""
        return [_copied(function(_copied(task))) for task in tasks]


def _copied(value: Result) -> Result:
    copy: Result = pickle.loads(pickle.dumps(value))
    return copy
