"""Rounds one after the other: when the next begins, what is tried again, and how it ends."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Event
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.errors import (
    EngineLost,
    InternalError,
    IoError,
    MergeError,
    MissingFile,
    NoFiles,
    Purged,
    SchemaMismatch,
)
from binlog_merge.pipeline.rounds import Pace, follow
from binlog_merge.pipeline.values import MergeResult

PACE = Pace(first_pause=0.001, last_pause=0.002, poll=0.0, rest=0.0, least_rest=0.0)


@dataclass
class Script:
    """Rounds that do what a script says: a result, an error, or None where nothing is new; then it is stopped."""

    stop: Event
    steps: Iterator[Any]
    merged: int = 0

    def has_news(self) -> bool:
        self.step = next(self.steps, "stop")
        if self.step == "stop":
            self.stop.set()
        return self.step not in (None, "stop")

    def wait(self, stop: Event, seconds: float, poll: float) -> None:
        stop.wait(poll)

    def await_files(self, stop: Event, seconds: float) -> None:
        stop.wait(seconds)

    def merge(self) -> MergeResult:
        self.merged += 1
        if isinstance(self.step, MergeError):
            raise self.step
        return cast(MergeResult, self.step)


@dataclass
class Heard:
    """What a watcher is told."""

    words: list[Any] = field(default_factory=list)

    def merged(self, result: MergeResult) -> None:
        self.words.append(result)

    def failed(self, error: MergeError, pause: float) -> None:
        self.words.append((error.code, pause))

    def recovered(self, seconds: float) -> None:
        self.words.append("recovered")


def heard(steps: list[Any], pace: Pace = PACE, clock: Callable[[], float] | None = None) -> list[Any]:
    stop, watcher = Event(), Heard()
    script = Script(stop, iter(steps))
    follow(script, stop, watcher, pace, **({} if clock is None else {"clock": clock}))
    return watcher.words


def test_there_is_a_round_only_where_there_is_news() -> None:
    assert heard([None, "a", None, None, "b"]) == ["a", "b"]


def test_what_passes_is_tried_again_with_growing_pauses() -> None:
    pace = Pace(first_pause=0.001, last_pause=0.003, poll=0.0)
    words = heard(["a", IoError("full"), IoError("full"), NoFiles("away"), "b", MissingFile("gap"), "c"], pace)
    assert words == [
        "a", ("io", 0.001), ("io", 0.002), ("no-files", 0.003), "recovered",
        "b", ("missing-file", 0.001), "recovered", "c",
    ]  # fmt: skip


@pytest.mark.parametrize("error", [SchemaMismatch, Purged, InternalError, EngineLost])
def test_what_does_not_pass_ends_it(error: type[MergeError]) -> None:
    with pytest.raises(error):
        heard(["a", error("x"), "b"])


def test_patience_ends() -> None:
    times = iter(range(1000))
    errors = [IoError(str(n)) for n in range(100)]
    with pytest.raises(IoError) as caught:
        heard(["a", *errors], Pace(first_pause=0.0, last_pause=0.0, poll=0.0, patience=10), lambda: float(next(times)))
    assert 2 <= int(caught.value.message) < 12


def test_an_error_while_it_is_stopped_is_none() -> None:
    stop, watcher = Event(), Heard()

    class Stopped(Script):
        def merge(self) -> MergeResult:
            stop.set()
            raise IoError("the engine is gone")

    follow(Stopped(stop, iter(["a"])), stop, watcher, PACE)
    assert watcher.words == []


@given(st.integers(1, 10_000))
def test_pauses_grow_up_to_the_last(attempt: int) -> None:
    pace = Pace()
    assert pace.first_pause <= pace.pause(attempt) <= pace.pause(attempt + 1) <= pace.last_pause
