"""What is looked at while a job runs: whether it waits for executors, and whether Java still answers.

Spark itself waits for ever, and without a word.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, Final

from binlog_merge.heartbeat import HEARTBEAT
from binlog_merge.spark.master import is_local, master_of

_LOG = logging.getLogger(__name__)

FIRST: Final = 10.0
"""Seconds until it is said. Then it is said after twice as long, and again."""
LOOKS: Final = 2.0


@contextmanager
def saying_what_is_awaited(spark: Any, first: float = FIRST) -> Iterator[None]:
    """Log a warning when the job within has waited for its first task to be taken by an executor."""
    master = master_of(spark)
    if master is None or is_local(master):  # a server of Spark Connect does not say for what it waits
        yield
        return
    done = Event()
    watch = Thread(target=_watch, args=(spark, master, first, done), daemon=True)
    watch.start()
    try:
        yield
    finally:
        done.set()


@contextmanager
def answering(spark: Any, every: float = LOOKS) -> Iterator[None]:
    """Give signs of life for the job within while Java answers: a job may take long, one that hangs for ever."""
    if not HEARTBEAT.is_heard:
        yield
        return
    done = Event()
    watch = Thread(target=_beat, args=(spark, every, done), daemon=True)
    watch.start()
    try:
        yield
    finally:
        done.set()


def _beat(spark: Any, every: float, done: Event) -> None:
    while not done.wait(every):
        try:
            spark.conf.get("spark.app.name")  # of Spark Connect, too
        except Exception:  # a session that has ended; the job says so
            return
        HEARTBEAT.beat()


def _watch(spark: Any, master: str, first: float, done: Event) -> None:
    pause = waited = first
    while not done.wait(pause):
        try:
            waiting = _waits(spark.sparkContext.statusTracker())
        except Exception:  # a session that has ended; the job says so
            return
        if waiting:
            _LOG.warning(
                f"waiting for executors: for {waited:.0f} s the master at {master} has given none "
                "(cores and memory free? workers registered? can they reach the driver?)",
                extra={"master": master, "seconds": waited},
            )
        pause, waited = waited, 2 * waited


def _waits(tracker: Any) -> bool:
    """Return whether stages are to run, and no task of theirs runs or has run."""
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    return bool(known) and not any(s.numActiveTasks or s.numCompletedTasks or s.numFailedTasks for s in known)
