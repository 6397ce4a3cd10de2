"""Counts the tasks of a job that are done while it runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, Final

_EVERY: Final = 0.25


@contextmanager
def counted(spark: Any, tasks: int, report: Callable[[int, int], None]) -> Iterator[None]:
    """Report how many of the tasks of the job within are done, each time that it has become more; not the last one.

    With several stages the tasks of the last one are counted. With Spark Connect nothing is: its server does not say.
    """
    try:
        tracker = spark.sparkContext.statusTracker() if tasks > 1 else None
    except Exception:  # Spark Connect, or a session that has ended, as the job will say
        tracker = None
    if tracker is None:
        yield
        return
    done = Event()
    watch = Thread(target=_watch, args=(tracker, tasks, report, done), daemon=True)
    watch.start()
    try:
        yield
    finally:
        done.set()
        watch.join()


def _watch(tracker: Any, tasks: int, report: Callable[[int, int], None], done: Event) -> None:
    most = 0
    while not done.wait(_EVERY):
        try:
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        except Exception:  # a session that has ended
            return
        completed = max((s.numCompletedTasks for s in stages if s is not None and s.numTasks == tasks), default=0)
        if most < completed < tasks and not done.is_set():
            most = completed
            report(completed, tasks)
