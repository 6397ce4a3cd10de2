"""Says in Spark's own pages what its jobs are: their descriptions, and the names of their stages."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, Final

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
