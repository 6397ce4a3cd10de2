"""Where a stage's time goes: reading, the kernel, writing, and the Python around them; one process, no scheduler."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.runner import InlineRunner
from binlog_merge.files import source
from binlog_merge.pipeline.gather import giant as giant_stage
from binlog_merge.pipeline.gather import output_file
from binlog_merge.pipeline.gather import task as gather_stage
from binlog_merge.pipeline.scan import walk as scan_walk


class _Timer:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            begun = time.perf_counter()
            try:
                return function(*arguments)
            finally:
                self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begun

        return timed


@contextmanager
def _patched(timer: _Timer) -> Iterator[None]:
    places: list[tuple[Any, str, str]] = [
        (source.LocalSource, "read_into", "read"),
        (scan_walk, "scan_events", "kernel"),
        (gather_stage, "render_window", "kernel"),
        (giant_stage, "render_events", "kernel"),
        (output_file.OutputFile, "write", "write"),
        (os, "fsync", "fsync"),
    ]
    before = [getattr(owner, name) for owner, name, _ in places]
    for owner, name, label in places:
        setattr(owner, name, timer.wrap(label, getattr(owner, name)))
    try:
        yield
    finally:
        for (owner, name, _), function in zip(places, before, strict=True):
            setattr(owner, name, function)


class ProfilingRunner(InlineRunner):
    """An InlineRunner that takes its stages apart; `parts` are the seconds by stage."""

    def __init__(self) -> None:
        self.parts: dict[str, dict[str, float]] = {}

    def run(self, name: str, function: Callable[[Any], Any], tasks: Any) -> list[Any]:
        """Run every task and return the results in order."""
        timer = _Timer()
        with _patched(timer):
            begun = time.perf_counter()
            results = super().run(name, function, tasks)
            total = time.perf_counter() - begun
        here = {**timer.seconds, "python": total - sum(timer.seconds.values()), "total": total}
        known = self.parts.setdefault(name, {})
        for part, seconds in here.items():
            known[part] = known.get(part, 0.0) + seconds
        return results
