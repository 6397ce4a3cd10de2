"""Tasks for `test_exchange`: pickled, so not in a test module."""

from dataclasses import dataclass

import numpy as np

from binlog_merge.pipeline.base.blocks import write_block


@dataclass(frozen=True)
class Sharing:
    """A number of its own, and what all have."""

    number: int
    common: tuple[int, ...]


@dataclass(frozen=True)
class Writing:
    """Writes two blocks of different kinds."""

    number: int
    path: str

    def write(self) -> None:
        """Write them, with the task's number in them."""
        write_block(f"{self.path}.timed", {"tso": np.array([self.number]), "row": np.array([1])})
        write_block(f"{self.path}.local", {"row": np.full(3, self.number)})


@dataclass(frozen=True)
class WritingMany:
    """Writes many small blocks: with as many rows as their numbers say."""

    count: int

    def write(self) -> None:
        """Write them."""
        for number in range(self.count):
            write_block(f"held:{number}", {"row": np.arange(number)})
