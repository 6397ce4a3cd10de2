"""Runs stages as Spark jobs: a task is a row of `spark.range`, with its input in the closure and its result a value.

No shuffle, no RDD, no JVM access: DataFrame and mapInArrow only, so it runs on Spark Connect as well.
"""

import logging
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from binlog_merge.errors import EngineFailed, EngineLost

_LOG = logging.getLogger(__name__)

Task = TypeVar("Task")
Result = TypeVar("Result")


class SparkRunner:
    """Runs tasks on a session. An attempt may be repeated: a task's outputs are named after the task or the attempt.

    `spark` is a session, or a function that starts one when tasks are near.
    """

    def __init__(self, spark: Any) -> None:
        self._starts = spark if callable(spark) else None
        self._spark: Any = None if callable(spark) else spark

    def start(self) -> None:
        """Start the session, if it is not there. Raises ConfigError or EngineFailed."""
        if self._spark is None and self._starts is not None:
            self._spark = self._starts()

    @property
    def slots(self) -> int:
        """Return the number of tasks that run at once. Raises EngineLost if the JVM or its context is gone."""
        try:
            return int(self._spark.sparkContext.defaultParallelism)
        except (AttributeError, NotImplementedError):  # Spark Connect
            return int(self._spark.conf.get("spark.default.parallelism", "2"))
        except Exception as error:
            raise EngineLost(f"Spark is gone: {_gist(error)}") from error

    def run(self, name: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Run `function` on every task, each as a Spark task, and return the results in order.

        Raises EngineFailed if Spark could not finish the job, EngineLost if this session never will again; an exception
        of the function's own is raised as it is.
        """
        if not tasks:
            return []
        from pyspark.errors import PythonException

        try:
            frame = self._spark.range(0, len(tasks), 1, numPartitions=len(tasks))
            rows = frame.mapInArrow(_Body(function, tuple(tasks)), "number long, result binary").collect()
        except PythonException:
            raise
        except Exception as error:
            kind = EngineLost if self._is_lost() else EngineFailed
            raise kind(f"Spark could not finish the stage {name}: {_gist(error)}") from error
        results = {row["number"]: pickle.loads(row["result"]) for row in rows}
        for number, (seconds, _) in sorted(results.items()):
            _LOG.debug("task done", extra={"stage": name, "task": number, "seconds": round(seconds, 3)})
        return [results[i][1] for i in range(len(tasks))]

    def _is_lost(self) -> bool:
        try:
            return self.slots < 0
        except EngineLost:
            return True


def _gist(error: Exception) -> str:
    """Return the line that says most of what Java has to say."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if "Exception: " in line), next(iter(lines), type(error).__name__))[:500]


class _Body:
    """The body of a Spark task: looks up its input by number, calls the function, and returns seconds and result."""

    def __init__(self, function: Callable[[Any], Any], tasks: tuple[Any, ...]) -> None:
        self._function = function
        self._tasks = tasks

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = batch.column(0).to_pylist()
            results = [pickle.dumps(self._timed(self._tasks[n])) for n in numbers]
            yield pa.RecordBatch.from_arrays(
                [pa.array(numbers, pa.int64()), pa.array(results, pa.binary())], ["number", "result"]
            )

    def _timed(self, task: Any) -> tuple[float, Any]:
        begun = time.perf_counter()
        result = self._function(task)
        return time.perf_counter() - begun, result
