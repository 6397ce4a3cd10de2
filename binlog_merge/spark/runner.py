"""Runs stages as Spark jobs: a task is a row, or a few with the blocks that it reads, and its result is a value.

No RDD, no JVM access: DataFrame and mapInArrow only, so it runs on Spark Connect as well.

Spark's own pages say what its jobs are: their descriptions, and the names of their stages.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from threading import Event, Thread
from typing import Any, Final, TypeVar

from binlog_merge.pipeline.base.blocks import reads_of
from binlog_merge.pipeline.base.runner import Exchange, Files, Progress, silent
from binlog_merge.pipeline.compiling import compiling
from binlog_merge.spark.engine import check_executors, finishing, slots
from binlog_merge.spark.exchange import ShuffleExchange, carries_blocks
from binlog_merge.spark.master import is_elsewhere
from binlog_merge.spark.tasks import Batched, Numbered, Work, columns_out, pickled, result_of

_LOG = logging.getLogger(__name__)

Task = TypeVar("Task")
Result = TypeVar("Result")


class SparkRunner:
    """Runs tasks on a session. An attempt may be repeated: a task's outputs are named after the task or the attempt.

    `spark` is a session, or a function that starts one when tasks are near. `carries`: blocks go through Spark,
    wherever the executors are. `at_need`: the function is called by the first stage that is run on it, and starts a
    session on this machine.
    """

    def __init__(self, spark: Any, carries: bool = False, at_need: bool = False) -> None:
        self._carries, self._at_need = carries, at_need
        self._starts = spark if callable(spark) else None
        self._spark: Any = None
        self._shuffle: ShuffleExchange | None = None
        self._checked = False
        self._progress: Progress = silent
        self._sizes: dict[str, tuple[int, int]] = {}
        if not callable(spark):
            self._take(spark)

    def start(self, progress: Progress = silent) -> None:
        """Start the session, unless it is there or starts at need, and ask executors elsewhere what they have, once.

        Compiles the kernels where executors are on this machine: Spark waits for a worker without a word.

        Raises ConfigError, EngineFailed or ExecutorUnfit.
        """
        waits = self._spark is None and self._at_need
        if not waits:
            self._begin()
        if not self._checked and (waits or not is_elsewhere(self._spark)):
            with compiling(progress):
                pass
        self._progress = progress
        if not self._checked and not waits and is_elsewhere(self._spark):
            with finishing(self._spark, "check"):
                check_executors(self._spark, self.slots)
        self._checked = True

    def _begin(self) -> None:
        if self._spark is None and self._starts is not None:
            self._take(self._starts())

    def _take(self, spark: Any) -> None:
        self._spark = spark
        self._shuffle = ShuffleExchange(spark) if self._carries or carries_blocks(spark) else None

    @property
    def exchange(self) -> Exchange:
        """Return how blocks travel: through Spark, or as files where all processes are on one machine."""
        return self._shuffle or Files()

    @property
    def slots(self) -> int:
        """Return the number of tasks that run at once. Raises EngineLost if the JVM or its context is gone."""
        self._begin()
        return slots(self._spark)

    def size_is(self, stage: str, size: int, branches: int = 0) -> None:
        """Take note that a stage reads so many bytes, of so many branches: Spark's pages show it."""
        self._sizes[stage] = size, branches

    def frame(self, function: Callable[[Task], Iterator[Any]], tasks: Sequence[Task], columns: str) -> Any:
        """Return the DataFrame of what `function` yields for each task, Arrow batches with `columns`, in the order of
        the tasks. Nothing runs before an action does. The blocks that tasks read must be carried.
        """
        if self._shuffle is None or not tasks:
            return self._spark.createDataFrame([], columns)
        common, own = pickled(tasks)
        rows = self._shuffle.inputs(own, [reads_of(task) for task in tasks])
        return rows.mapInArrow(Batched(function, common), columns)

    def forget(self) -> None:
        """Let go of all carried blocks that Spark has kept. What still reads them makes them again."""
        if self._shuffle is not None:
            self._shuffle.forget(frozenset())

    def run(self, name: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Run `function` on every task, each as a Spark task, and return the results in order.

        Raises EngineFailed if Spark could not finish the job, EngineLost if this session never will again; an exception
        of the function's own is raised as it is.
        """
        if not tasks:
            return []
        self._begin()
        common, own = pickled(tasks)
        work = partial(Work, function, common, len(tasks))
        text = description(name, len(tasks), *self._sizes.pop(name, (0, 0)))
        with (
            finishing(self._spark, name),
            described(self._spark, name, text),
            counted(self._spark, len(tasks), partial(self._progress, name)),
        ):
            if self._shuffle is not None:
                rows = self._shuffle.run(work, own, [reads_of(task) for task in tasks])
                found = {number: result_of(data) for number, data in rows}
            else:
                frame = self._spark.range(0, len(tasks), 1, numPartitions=len(tasks))
                collected = frame.mapInArrow(work(Numbered(own)), columns_out()).select("number", "near").collect()
                found = {row["number"]: result_of(row["near"]) for row in collected}
        for number, result in sorted(found.items()):
            _LOG.debug("task done", extra={"stage": name, "task": number, "seconds": round(result.seconds, 3)})
        return [found[number].value for number in range(len(tasks))]


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


_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")
_DESCRIPTION: Final = "spark.job.description"
"""A local property: of the jobs that this thread starts."""


def description(stage: str, tasks: int, size: int = 0, branches: int = 0) -> str:
    """Return what a job is, for people: `gather: 4 tasks, 281 MB, 1,200 branches`. `size`: the bytes that they read;
    0, like `branches`, where that is not known.
    """
    counted = [f"{stage}: {_count(tasks, 'task', 'tasks')}"]
    counted += [_amount(size)] if size else []
    counted += [_count(branches, "branch", "branches")] if branches else []
    return ", ".join(counted)


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _amount(size: int) -> str:
    amount, unit = float(size), 0
    while amount >= 1000 and unit + 1 < len(_UNITS):
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.{0 if unit == 0 or amount >= 100 else 1}f} {_UNITS[unit]}"


@contextmanager
def described(spark: Any, stage: str, text: str) -> Iterator[None]:
    """Give the jobs within a description, and their stages the name of ours; with Spark Connect a tag says it.

    What cannot be said stops no job.
    """
    try:
        context = spark.sparkContext
        before = context.getLocalProperty(_DESCRIPTION)
    except Exception:  # Spark Connect; or a session that has ended, as the job will say
        with _tagged(spark, f"binlog-merge {text}".replace(",", ";")):
            yield
        return
    context.setLocalProperty(_DESCRIPTION, f"binlog-merge {text}")
    try:
        with _called_from(context, f"binlog-merge {stage}"):
            yield
    finally:
        with suppress(Exception):
            context.setLocalProperty(_DESCRIPTION, before)


def _called_from(context: Any, name: str) -> AbstractContextManager[Any]:
    """Return what lets stages be called from a name: pyspark would name them all after the line that collects."""
    try:
        from pyspark.traceback_utils import SCCallSiteSync

        site = SCCallSiteSync(context)
        site._call_site = name
    except (ImportError, AttributeError):  # its own matter: they have pyspark's names then
        return nullcontext()
    return site


@contextmanager
def _tagged(spark: Any, tag: str) -> Iterator[None]:
    with suppress(Exception):
        spark.addTag(tag)
    try:
        yield
    finally:
        with suppress(Exception):
            spark.removeTag(tag)
