"""Tells the process that supervises this one that it works, and that it goes on: a byte now and then, through a pipe.

Without a supervisor nothing is told. A process that hangs tells nothing, whatever it hangs in: so a sign is given where
the work is done, not by a thread beside it.
"""

import os
import time
from contextlib import suppress
from enum import Enum
from typing import Final

VARIABLE: Final = "BINLOG_MERGE_HEARTBEAT"
"""Names the descriptor of the pipe's writing end. What this process starts does not inherit it."""

WORKS: Final = b"!"
ALIVE: Final = b"."


class Role(Enum):
    """What this process is among those that stand by to do the same, and the sign that says so.

    One that prepares is asked to lead, and is about to.
    """

    LEADS = b"+"
    PREPARES = b"*"
    FOLLOWS = b"-"


HOLDER: Final = "BINLOG_MERGE_HOLDER"
"""Names who is to lead: so a process that is started again goes on with the lease of the one before it."""
CAPTURED: Final = "BINLOG_MERGE_CAPTURED"
"""Is set where a capture runs beside a merge, or is to when that leads."""
GATE: Final = "BINLOG_MERGE_GATE"
"""Names the descriptor of a pipe from which a byte is to be read before the process begins with its work."""
_EVERY: Final = 1.0


class Heartbeat:
    """The signs of life of one process; `descriptor` is the writing end of a pipe, None if nobody listens."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        self._told = -_EVERY
        self._works = False
        if descriptor is not None:
            os.set_inheritable(descriptor, False)
            os.set_blocking(descriptor, False)

    @property
    def is_heard(self) -> bool:
        """Return whether somebody listens."""
        return self._descriptor is not None

    @property
    def has_worked(self) -> bool:
        """Return whether this process has done what it is for."""
        return self._works

    def beat(self) -> None:
        """Say that this process goes on; at most once a second, however often it is called."""
        now = time.monotonic()
        if now - self._told >= _EVERY:
            self._tell(ALIVE)
            self._told = now

    def works(self) -> None:
        """Say that this process does what it is for: nothing is wrong with what it was told to do."""
        if not self._works:
            self._tell(WORKS)
            self._works = True
        self.beat()

    def has_role(self, role: Role) -> None:
        """Say what this process is, where several stand by to do the same."""
        self._tell(role.value)

    def _tell(self, sign: bytes) -> None:
        if self._descriptor is not None:
            with suppress(OSError):  # a full pipe tells enough, and without its reader this process ends
                os.write(self._descriptor, sign)


def await_gate() -> None:
    """Wait until the supervisor says that the work may begin; not at all if it has not asked for that."""
    if text := os.environ.pop(GATE, ""):
        gate = int(text)
        os.set_inheritable(gate, False)
        os.read(gate, 1)


def _of_environment() -> Heartbeat:
    text = os.environ.pop(VARIABLE, "")
    try:
        return Heartbeat(int(text) if text else None)
    except (ValueError, OSError):  # of another process' environment
        return Heartbeat(None)


HEARTBEAT: Final = _of_environment()
"""That of this process."""
