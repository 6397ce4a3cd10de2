"""Merges round after round until it is told to stop: as soon as nodes have written, and through what passes."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Protocol

from binlog_merge.errors import EngineLost, InternalError, MergeError
from binlog_merge.heartbeat import HEARTBEAT
from binlog_merge.pipeline.result import MergeResult


@dataclass(frozen=True, slots=True)
class Pace:
    """When a round begins, in seconds.

    No sooner than `min_interval` after the one before began, and after a rest of half the time that one took, between
    `least_rest` and `rest`: rounds without a rest would keep a core busy, on which a server or a reader may wait, and
    many small rounds cost more than a few. Then as soon as a node has written: `look` is how often its files are looked
    at where the system tells when they change, `poll` where it does not. An error that may pass is tried again after a
    pause that grows from `first_pause` to `last_pause`, for `patience` at most.
    """

    min_interval: float = 0.0
    least_rest: float = 0.05
    rest: float = 0.25
    look: float = 0.5
    poll: float = 0.05
    first_pause: float = 0.5
    last_pause: float = 15.0
    patience: float = 600.0

    def pause(self, attempt: int) -> float:
        """Return how long to wait after the n-th failure in a row, from 1 on."""
        return float(min(self.last_pause, self.first_pause * 2 ** min(attempt - 1, 30)))


class Rounds(Protocol):
    """What merges in rounds (`pipeline.rounds.Rounds`)."""

    def has_news(self) -> bool: ...

    def merge(self) -> MergeResult: ...

    def wait(self, stop: Event, seconds: float, poll: float) -> None: ...


class Watcher(Protocol):
    """Is told what happens."""

    def merged(self, result: MergeResult) -> None:
        """Take the result of a round."""

    def failed(self, error: MergeError, pause: float) -> None:
        """Take an error that may pass; the round is tried again after a pause of so many seconds."""

    def recovered(self, seconds: float) -> None:
        """Take note that a round has come to its end after so many seconds of failures."""


def follow(
    rounds: Rounds, stop: Event, watcher: Watcher, pace: Pace, clock: Callable[[], float] = time.monotonic
) -> None:
    """Merge until `stop` is set, which ends it after the round. Raises MergeError for what does not pass."""
    failing_since, attempts = 0.0, 0
    while not stop.is_set():
        begun = clock()
        try:
            result = rounds.merge() if rounds.has_news() else None
        except MergeError as error:
            if stop.is_set():
                return
            attempts += 1
            failing_since = begun if attempts == 1 else failing_since
            # A full disk, a folder that is not mounted, a lost executor. A JVM that is gone needs another process; an
            # internal error may.
            passes = error.may_pass and not isinstance(error, InternalError | EngineLost)
            if not passes or clock() - failing_since > pace.patience:
                raise
            if HEARTBEAT.has_worked:  # else it still starts, for which kernels may be compiled: nobody waits for signs
                HEARTBEAT.beat()
            watcher.failed(error, pace.pause(attempts))
            stop.wait(pace.pause(attempts))
            continue
        HEARTBEAT.works()
        if attempts:
            watcher.recovered(clock() - failing_since)
            attempts = 0
        if result is not None:
            watcher.merged(result)
        took = clock() - begun
        if result is not None:
            stop.wait(max(min(pace.rest, max(pace.least_rest, took / 2)), pace.min_interval - took))
        elif not stop.is_set():
            rounds.wait(stop, pace.look, pace.poll)
