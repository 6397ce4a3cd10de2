"""How much of a core a test takes: its process and all that it has started, ended ones included.

It is the figure that holds on a busy machine, where seconds of the wall count others' work.
"""

import os
import time
from pathlib import Path
from typing import Final

PROPERTY: Final = "processor"
"""The property of a test in JUnit reports that has it."""
_TICK: Final = os.sysconf("SC_CLK_TCK")
_SHORT: Final = 0.1
"""Seconds of a test within which it starts nothing: to look at every process takes some milliseconds."""


class Meter:
    """Says of one test after the other what it takes; what lies between two of them is the later one's.

    What others take during a short test is told of the next one that is none.
    """

    def __init__(self) -> None:
        self._all, self._told = processor_seconds(), 0.0
        self._begun, self._own = 0.0, 0.0

    def begin(self) -> None:
        """Begin a test."""
        self._begun, self._own = time.monotonic(), time.process_time()

    def end(self) -> float:
        """Return what the test has taken that is over."""
        if time.monotonic() - self._begun < _SHORT:
            taken = time.process_time() - self._own
            self._told += taken
            return taken
        now = processor_seconds()
        taken = now - self._all - self._told
        self._all, self._told = now, 0.0
        return taken


def processor_seconds() -> float:
    """Return what this process, its children and theirs have taken so far.

    Elsewhere than on Linux only those children count that have ended.
    """
    return sum(os.times()[:4]) + sum(map(_of_process, _children(os.getpid())))


def _of_process(number: int) -> float:
    try:
        # The name in front, in brackets, may have blanks.
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended since
        return 0.0
    ticks = sum(map(int, fields[11:15]))  # user, system, and those of its own children that have ended
    return ticks / _TICK + sum(map(_of_process, _children(number)))


def _children(number: int) -> list[int]:
    found: list[int] = []
    try:
        for thread in Path(f"/proc/{number}/task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    except OSError:  # it has ended since, or there is no such thing here
        pass
    return found
