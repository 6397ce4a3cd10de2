"""Stages as Spark jobs: a task is a row of `spark.range`, its input travels in the closure, its result comes back as
one value.

No shuffle, no RDD, no JVM access: DataFrame and mapInArrow only, so it runs on Spark Connect as well.
"""

import logging
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa

_LOG = logging.getLogger(__name__)

Task = TypeVar("Task")
Result = TypeVar("Result")


class SparkRunner:
    """Runs tasks on a session. Attempts may repeat: a task's outputs are named by the task, or by the attempt."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    @property
    def slots(self) -> int:
        """Return how many tasks run at once."""
        try:
            return int(self._spark.sparkContext.defaultParallelism)
        except Exception:
            return int(self._spark.conf.get("spark.default.parallelism", "2"))

    def run(self, name: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Run `function` on every task, one Spark task each, and return the results in order."""
        if not tasks:
            return []
        frame = self._spark.range(0, len(tasks), 1, numPartitions=len(tasks))
        rows = frame.mapInArrow(_Body(function, tuple(tasks)), "number long, result binary").collect()
        results = {row["number"]: pickle.loads(row["result"]) for row in rows}
        for number, (seconds, _) in sorted(results.items()):
            _LOG.debug("task done", extra={"stage": name, "task": number, "seconds": round(seconds, 3)})
        return [results[i][1] for i in range(len(tasks))]


class _Body:
    """What a Spark task does: look up its input by number, call the function, hand back the seconds it took and the
    result, as bytes.
    """

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
