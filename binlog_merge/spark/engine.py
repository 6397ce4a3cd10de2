"""Whether Spark can run a job: asked of executors before the first stage, looked at while it runs, told when it could
not.

While a job runs, executors may be awaited, and Java may answer no more: Spark itself waits for ever, without a word.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, Final

import pyarrow as pa

from binlog_merge.errors import EngineFailed, EngineLost, ExecutorUnfit
from binlog_merge.heartbeat import HEARTBEAT
from binlog_merge.spark.master import is_local, master_of
from binlog_merge.spark.peer import here, identity
from binlog_merge.spark.tasks import error_in


def slots(spark: Any) -> int:
    """Return the number of tasks that run at once, 2 if nobody says. Raises EngineLost if the JVM or its context is
    gone.
    """
    return parallelism(spark) or 2


def parallelism(spark: Any) -> int | None:
    """Return the number of tasks that run at once, None if Spark Connect does not say. Raises EngineLost."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except (AttributeError, NotImplementedError):  # Spark Connect
        said = spark.conf.get("spark.default.parallelism", None)
        return None if said is None else int(said)
    except Exception as error:
        raise EngineLost(f"Spark is gone: {_gist(error)}") from error


@contextmanager
def finishing(spark: Any, stage: str) -> Iterator[None]:
    """Raise EngineFailed if Spark cannot finish the job within, EngineLost if this session never will again.

    Raises ExecutorUnfit if an executor is to blame. A MergeError of a task's function is raised as it was,
    everything else as Spark has it.
    """
    from pyspark.errors import PythonException

    try:
        with answering(spark), saying_what_is_awaited(spark):
            yield
    except ExecutorUnfit:
        raise
    except Exception as error:
        if (blamed := unfit(error)) is not None:
            raise blamed from error
        if isinstance(error, PythonException):
            if (said := error_in(str(error))) is not None:
                raise said from error
            raise
        kind = EngineLost if _is_lost(spark) else EngineFailed
        raise kind(f"Spark could not finish the stage {stage}: {_gist(error)}") from error


def _is_lost(spark: Any) -> bool:
    try:
        return slots(spark) < 0
    except EngineLost:
        return True


def _gist(error: Exception) -> str:
    """Return the line that says most of what Java has to say."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if "PYTHONPATH was:" in lines:  # Python could not even start to work; its last line stands before
        return lines[lines.index("PYTHONPATH was:") - 1][:500]
    return next((line for line in lines if "Exception: " in line), next(iter(lines), type(error).__name__))[:500]


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


_HOST: Final = re.compile(r"\(TID \d+\) \((\S+) executor")
_SAID: Final = (
    (re.compile(r"No module named '([\w.]+)'"), "has no module {0}"),
    (re.compile(r"PYTHON_VERSION_MISMATCH\].*? version: (\S+) than"), "has Python {0}"),
    (re.compile(r'Cannot run program "([^"]+)": (?:error=\d+, )?(.+)'), "has no Python {0}: {1}"),
    (re.compile(r"binlog-merge: this executor has (.+)"), "has {0}"),
)


def unfit(error: Exception) -> ExecutorUnfit | None:
    """Return the error that says what is wrong with an executor, if that is why a job of Spark's failed."""
    text = str(error)
    for pattern, what in _SAID:
        if (found := pattern.search(text)) is not None:
            host = _HOST.search(text)
            where = "an executor" if host is None else f"the executor on {host[1]}"
            return ExecutorUnfit(f"{where} {what.format(*found.groups())}; the driver has {identity()}")
    return None


def check_executors(spark: Any, tasks: int) -> None:
    """Run a small job that asks executors what they have. Raises ExecutorUnfit, and what Spark raises."""
    asked = spark.range(0, tasks, 1, numPartitions=tasks).mapInArrow(_Answers(), "host string, identity string")
    for host, found in sorted({(row["host"], row["identity"]) for row in asked.collect()}):
        if found != identity():
            raise ExecutorUnfit(f"the executor on {host} has {found}; the driver has {identity()}")


class _Answers:
    """The body of a task that says what its executor has."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        host, found = here()
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"host": [host], "identity": [found]})
