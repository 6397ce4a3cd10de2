"""Clocks of nodes that give the order (`carriers`, gtid-time): times and TSOs, and how far a clock stepped back.

A transaction's TSO is its commit time, but never less than the greatest its node has had: what a node commits while its
clock is behind follows right after that one, in the order of its log. Then its place among the transactions of other
nodes is off by as much as the clock stepped back.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from snapshot_store.tso import LOGICAL_BITS

Column = npt.NDArray[np.int64]


def time_tso(us: Any) -> Any:
    """Return the TSO of a time in microseconds since 1970, or of an array of them: its milliseconds << 22 | the
    microseconds beyond.
    """
    return us // 1000 << LOGICAL_BITS | us % 1000


def tso_us(tso: Any) -> Any:
    """Return the microseconds since 1970 of such a TSO, or of an array of them."""
    return (tso >> LOGICAL_BITS) * 1000 + (tso & (1 << LOGICAL_BITS) - 1)


@dataclass(frozen=True, slots=True)
class Clocked:
    """The clock in a piece of a log, in microseconds: the furthest it stepped back, and the least time in it."""

    step: int
    least: int

    def furthest(self, greatest_tso: int) -> int:
        """Return the furthest step back, where `greatest_tso` is the greatest TSO before the piece."""
        return max(self.step, tso_us(greatest_tso) - self.least)


def steps_back(max_tso: Column, time: Column, greatest_tso: int) -> Column:
    """Return, for each transaction, how many microseconds its own time is behind the greatest of its node.

    `max_tso` is the greatest in the piece up to each, itself included.
    """
    steps: Column = tso_us(np.maximum(max_tso, greatest_tso)) - time
    return steps


def clocked(max_tso: Column, time: Column) -> Clocked | None:
    """Return what a piece says of its node's clock, None where nothing was committed in it."""
    if not len(time):
        return None
    return Clocked(int(steps_back(max_tso, time, 0).max()), int(time.min()))
