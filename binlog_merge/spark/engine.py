"""What becomes of a job that Spark could not finish."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from binlog_merge.errors import EngineFailed, EngineLost, ExecutorUnfit
from binlog_merge.spark.executors import unfit
from binlog_merge.spark.tasks import told
from binlog_merge.spark.waiting import answering, saying_what_is_awaited


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
            if (said := told(str(error))) is not None:
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
