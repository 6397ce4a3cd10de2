"""The interface through which the job runs a stage's tasks, whichever engine schedules them."""

import pickle
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class Runner(Protocol):
    """Runs module-level functions on frozen values, locally or on a cluster."""

    def start(self) -> None:
        """Make ready for tasks. Called when the nodes' files are found: what is wrong with them costs no start."""

    @property
    def slots(self) -> int:
        """Return how many tasks run at once."""

    def run(self, name: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Run every task and return the results in the order of the tasks. A failed task is retried, so it may run
        several times.
        """


class InDriver:
    """Runs tasks one after the other in this process: what an engine would need longer to hand out than to run.

    Tasks and results are pickled, as an engine pickles them, so that nothing is shared with the driver.
    """

    slots = 1

    def start(self) -> None:
        """Do nothing: this process is there."""

    def run(self, name: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Run every task and return the results in the order of the tasks."""
        return [_copied(function(_copied(task))) for task in tasks]


def _copied(value: Result) -> Result:
    copy: Result = pickle.loads(pickle.dumps(value))
    return copy
