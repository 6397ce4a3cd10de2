"""How far a stage has come."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

Progress = Callable[[str, int, int], None]
"""Is told of a stage, how many of its parts are done, and how many there are."""


@runtime_checkable
class Sized(Protocol):
    """A Progress, or a Runner, that also wants to know how many bytes a stage reads, and of how many branches."""

    def size_is(self, stage: str, size: int, branches: int = 0) -> None:
        """Take note of it, before the stage's parts are reported. `branches` is 0 where that is not known before."""


def silent(stage: str, done: int, total: int) -> None:
    """Report nothing."""
