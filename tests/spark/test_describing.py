"""What Spark shows of a merge: descriptions of jobs, names of stages; and that a server of Connect gets no coalesce."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.spark.engine import parallelism, slots
from binlog_merge.spark.job import merge
from binlog_merge.spark.runner import described, description
from tests.merge_e2e.cases import case_named


@pytest.mark.parametrize(
    ("tasks", "size", "branches", "text"),
    [
        (4, 281_000_000, 1200, "scan: 4 tasks, 281 MB, 1,200 branches"),
        (1, 999, 1, "scan: 1 task, 999 B, 1 branch"),
        (2, 0, 0, "scan: 2 tasks"),
        (2, 1_530_000_000_000, 0, "scan: 2 tasks, 1.5 TB"),
    ],
)
def test_a_description(tasks: int, size: int, branches: int, text: str) -> None:
    assert description("scan", tasks, size, branches) == text


@pytest.mark.spark
def test_jobs_and_stages_have_names(spark: Any, tmp_path: Path) -> None:
    """As Spark's status store has them, which its pages show."""
    store = spark.sparkContext._jsc.sc().statusStore()
    before = {job.jobId() for job in _sequence(store.jobsList(None))}
    merge(spark, MergeConfig.load(case_named("two-nodes") / "cluster.yaml"), tmp_path / "out")
    jobs = [job for job in _sequence(store.jobsList(None)) if job.jobId() not in before]
    said = sorted(str(job.description().get()) for job in jobs)
    names = {str(job.name()) for job in jobs}
    assert [text.split(":")[0] for text in said] == ["binlog-merge gather", "binlog-merge order", "binlog-merge scan"]
    assert all("task" in text and "B" in text.rpartition(", ")[2] for text in said if "scan" in text), said
    for text in said:
        assert ("scan" in text) or (text.endswith(" branches") and int(text.split()[-2].replace(",", "")) > 0), said
    assert names == {"binlog-merge gather", "binlog-merge order", "binlog-merge scan"}
    assert spark.sparkContext.getLocalProperty("spark.job.description") is None


def _sequence(found: Any) -> list[Any]:
    return [found.apply(i) for i in range(found.size())]


class _Connect:
    """What a session of Spark Connect has of what is asked here."""

    def __init__(self, said: str | None) -> None:
        self.conf = SimpleNamespace(get=lambda name, default=None: said or default)
        self.tags: list[str] = []

    @property
    def sparkContext(self) -> Any:  # noqa: N802
        raise NotImplementedError

    def addTag(self, tag: str) -> None:  # noqa: N802
        self.tags.append(tag)

    def removeTag(self, tag: str) -> None:  # noqa: N802
        self.tags.remove(tag)


def test_a_server_of_connect_says_itself_how_much_it_does_at_once() -> None:
    assert (parallelism(_Connect(None)), slots(_Connect(None))) == (None, 2)
    assert (parallelism(_Connect("8")), slots(_Connect("8"))) == (8, 8)
    session = _Connect(None)
    with described(session, "scan", "scan: 4 tasks, 281 MB"):
        assert session.tags == ["binlog-merge scan: 4 tasks; 281 MB"]
    assert session.tags == []
