"""How much of a core a test takes: its process and all that it has started, ended ones included.

It is the figure that holds on a busy machine, where seconds of the wall count others' work.
"""

import os
from pathlib import Path
from typing import Final

PROPERTY: Final = "processor"
"""The property of a test in JUnit reports that has it."""
_TICK: Final = os.sysconf("SC_CLK_TCK")


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
