"""What becomes of a job when the engine is gone (fakes: a test's own session must live on), or a task stops."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from binlog_merge.errors import EngineFailed, EngineLost, IoError
from binlog_merge.pipeline.base.blocks import write_block
from binlog_merge.spark.runner import SparkRunner


class Context:
    def __init__(self, alive: bool) -> None:
        self._alive = alive

    @property
    def defaultParallelism(self) -> int:  # noqa: N802
        if self._alive:
            return 2
        raise ConnectionRefusedError("an error occurred while trying to connect to the Java server")


class Session:
    """A session whose jobs fail."""

    def __init__(self, alive: bool) -> None:
        self.sparkContext = Context(alive)
        self.conf = {"spark.binlogmerge.exchange": "files"}

    def range(self, *arguments: object, **options: object) -> object:
        raise RuntimeError("java.lang.Exception: executor lost")


def test_a_failed_job_may_be_tried_again_as_long_as_java_lives() -> None:
    with pytest.raises(EngineFailed, match=r"stage scan: java\.lang\.Exception: executor lost") as caught:
        SparkRunner(Session(True)).run("scan", str, [1])
    assert not isinstance(caught.value, EngineLost)


def test_without_java_only_another_process_can_go_on() -> None:
    gone = SparkRunner(Session(False))
    with pytest.raises(EngineLost):
        gone.run("scan", str, [1])
    with pytest.raises(EngineLost, match="Spark is gone: an error occurred"):
        _ = gone.slots
    assert EngineLost.exit_code == EngineFailed.exit_code and EngineLost.may_pass


def written(path: str) -> None:
    write_block(path, {"a": np.zeros(3, np.int64)})


def test_what_stops_a_task_comes_as_it_is(spark: Any, tmp_path: Path) -> None:
    block = str(tmp_path / "gone" / "0.arrow")
    with pytest.raises(IoError, match="No such file or directory") as caught:
        SparkRunner(spark).run("order", written, [block, block])
    assert caught.value.file == block
