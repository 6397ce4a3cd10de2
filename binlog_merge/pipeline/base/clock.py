"""Commit times as TSOs, for nodes whose clocks give the order (gtid-time, see `carriers`), and how far a clock stepped
back.

A transaction's TSO is its commit time, but never below the greatest TSO of its node. So after a clock steps back,
transactions follow in the order of their log until the clock has caught up. Their position relative to other nodes is
then wrong by as much as the clock stepped back.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from snapshot_store.tso import LOGICAL_BITS

Column = npt.NDArray[np.int64]


def time_tso(us: Any) -> Any:
    """Return the TSO of a time in microseconds since 1970, or of an array of times.

    The TSO is the milliseconds << 22 plus the remaining microseconds.
    """
    return us // 1000 << LOGICAL_BITS | us % 1000


def tso_us(tso: Any) -> Any:
    """Return the microseconds since 1970 of a TSO that `time_tso` made, or of an array of them."""
    return (tso >> LOGICAL_BITS) * 1000 + (tso & (1 << LOGICAL_BITS) - 1)


@dataclass(frozen=True, slots=True)
class Clocked:
    """The clock in a piece of a log, in microseconds: how far at most it stepped back, and the least time in it."""

    step: int
    least: int

    def furthest(self, greatest_tso: int) -> int:
        """Return the largest step back in microseconds, given the greatest TSO before the piece."""
        return max(self.step, tso_us(greatest_tso) - self.least)


def steps_back(max_tso: Column, time: Column, greatest_tso: int) -> Column:
    """Return for each transaction how many microseconds its commit time is below the greatest of its node so far.

    `max_tso` is the greatest TSO in the piece up to and including each transaction, `greatest_tso` that before the
    piece.
    """
    steps: Column = tso_us(np.maximum(max_tso, greatest_tso)) - time
    return steps


def clocked(max_tso: Column, time: Column) -> Clocked | None:
    """Return the clock of a piece, None if nothing was committed in it."""
    if not len(time):
        return None
    return Clocked(int(steps_back(max_tso, time, 0).max()), int(time.min()))
