"""What to do when a supervised process has ended: a function of values.

A process whose exit code says that somebody must first correct something is not started again. Every other end is an
accident: the process is started again after a pause, which doubles with each accident that follows at once. What was
told to a component that has worked was right, and it is told the same again: that it calls that wrong now is an
accident too (its address is in use for a moment, a file is away).
"""

import math
import signal
from dataclasses import dataclass

from binlog_merge.errors import EXIT_CODES, FINAL_EXITS, ConfigError, InternalError


@dataclass(frozen=True, slots=True)
class Policy:
    """When to start a process again. Pauses and `settled` in seconds.

    A process that has lived for `settled` has no accidents behind it. After `most_internal` internal errors in a row
    (exit code 70) the next start would end the same way. One that has given signs of life, and gives none for
    `silence`, is killed; after each accident in a row it may be silent for twice as long. None: for ever.
    """

    first_pause: float = 1.0
    longest_pause: float = 60.0
    settled: float = 60.0
    most_internal: int = 5
    silence: float | None = None

    def may_be_silent(self, accidents: "Accidents") -> float:
        """Return for how many seconds a process with these accidents behind it may give no sign of life."""
        return math.inf if self.silence is None else self.silence * 2.0 ** min(accidents.all, 10)


@dataclass(frozen=True, slots=True)
class Accidents:
    """How often a process has ended in a row without having settled, and how often of these with an internal error."""

    all: int = 0
    internal: int = 0


@dataclass(frozen=True, slots=True)
class Restart:
    """Start the process again after `pause` seconds; `accidents` count this end."""

    pause: float
    accidents: Accidents


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Stop the other processes, and end with `code`."""

    code: int


def decide(code: int, lived: float, accidents: Accidents, policy: Policy, worked: bool = False) -> Restart | GiveUp:
    """Return what follows the end of a process that nobody had asked to end.

    `code` is its exit code, or minus the number of the signal that killed it; `lived` in seconds; `accidents` those
    before this end; `worked`: the component has worked, this process or one before it.
    """
    if code in FINAL_EXITS and not (worked and code == ConfigError.exit_code):
        return GiveUp(code)
    before = Accidents() if lived >= policy.settled else accidents
    internal = before.internal + 1 if code == InternalError.exit_code else 0
    if internal >= policy.most_internal:
        return GiveUp(code)
    pause = min(policy.first_pause * 2.0 ** min(before.all, 30), policy.longest_pause)
    return Restart(pause, Accidents(before.all + 1, internal))


_NAMES = {row.exit_code: row.code for row in EXIT_CODES}


def end_text(code: int) -> str:
    """Return how a process ended, for people: `exit code 26 (ddl-not-understood)`, `signal 9 (SIGKILL)`."""
    if code < 0:
        try:
            return f"signal {-code} ({signal.Signals(-code).name})"
        except ValueError:  # a real-time signal
            return f"signal {-code}"
    return f"exit code {code} ({_NAMES[code]})" if code in _NAMES else f"exit code {code}"
