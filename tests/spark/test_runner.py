"""What becomes of a job when the engine is gone: fakes, as a test's own session must live on."""

import pytest

from binlog_merge.errors import EngineFailed, EngineLost
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
