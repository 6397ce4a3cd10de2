"""Who runs a stage's tasks. The job asks for results in the order of the tasks and knows nothing else."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class Runner(Protocol):
    """Runs module-level functions of frozen values, somewhere."""

    @property
    def slots(self) -> int:
        """Return how many tasks run at once."""

    def run(self, name: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Run every task once or more (a failed attempt is tried again) and return the results in order."""
