"""What Spark says of executors that cannot run tasks, turned into one error. The texts are Spark 4.3's."""

import pytest

from binlog_merge.errors import ExecutorUnfit
from binlog_merge.spark.engine import unfit
from binlog_merge.spark.peer import identity

LOST = (
    "Job aborted: Task 0 failed 4 times, most recent failure: Lost task 0.3 in stage 0.0 (TID 6) (10.0.0.7 executor 0)"
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            f'{LOST}: java.io.IOException: Cannot run program "/nowhere/python3": error=2, No such file or directory',
            "the executor on 10.0.0.7 has no Python /nowhere/python3: No such file or directory",
        ),
        (
            f"{LOST}: org.apache.spark.SparkException: \nError from python worker:\n  /usr/bin/python3.11: Error while "
            "finding module specification for 'binlog_merge.spark.daemon' (ModuleNotFoundError: No module named "
            "'binlog_merge')\nPYTHONPATH was:\n  /opt/spark/python/lib/pyspark.zip",
            "the executor on 10.0.0.7 has no module binlog_merge",
        ),
        (
            f"{LOST}: org.apache.spark.SparkException: \nError from python worker:\n  binlog-merge: this executor has "
            "Python 3.12, binlog-merge 0.2.0\nPYTHONPATH was:\n  /opt/spark/python/lib/pyspark.zip",
            "the executor on 10.0.0.7 has Python 3.12, binlog-merge 0.2.0",
        ),
        (
            "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has "
            "different version: 3.12 than that in driver: 3.11, PySpark cannot run with different minor versions.",
            "an executor has Python 3.12",
        ),
        (
            "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n    import pyarrow\n"
            "ModuleNotFoundError: No module named 'pyarrow'",
            "an executor has no module pyarrow",
        ),
    ],
)
def test_what_an_executor_lacks(text: str, said: str) -> None:
    error = unfit(RuntimeError(text))
    assert isinstance(error, ExecutorUnfit)
    assert error.message == f"{said}; the driver has {identity()}"


def test_other_failures_are_nobodys() -> None:
    assert unfit(RuntimeError(f"{LOST}: java.lang.OutOfMemoryError: Java heap space")) is None
