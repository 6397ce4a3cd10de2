"""What Spark's Python workers find when they begin."""

import gc
import sys
from typing import Any

import pytest

from binlog_merge.spark.runner import SparkRunner

pytestmark = pytest.mark.spark


def looked_at(_: int) -> list[str]:
    """Return which packages a collection of garbage looks at."""
    seen = {id(each) for each in gc.get_objects()}
    return [name for name in ("numpy", "pyarrow.compute", "sqlglot") if id(vars(sys.modules[name])) in seen]


def test_a_worker_does_not_look_for_garbage_in_packages(spark: Any) -> None:
    """Spark collects garbage after every task: in what a worker imports itself, that takes longer than many tasks."""
    assert SparkRunner(spark).run("look", looked_at, [1, 2]) == [[], []]
