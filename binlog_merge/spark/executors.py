"""Whether executors can run tasks: asked before the first stage, and read out of what Spark says when they cannot."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from binlog_merge.errors import ExecutorUnfit
from binlog_merge.spark.peer import here, identity

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
