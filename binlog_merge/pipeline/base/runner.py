"""The interface through which the job runs a stage's tasks, whichever engine schedules them."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class Runner(Protocol):
    """Runs module-level functions on frozen values, locally or on a cluster."""

    @property
    def slots(self) -> int:
        """Return how many tasks run at once."""

    def run(self, name: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Run every task and return the results in the order of the tasks. A failed task is retried, so it may run
        several times.
        """
