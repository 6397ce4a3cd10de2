"""A merge on a real standalone cluster whose executors have a bare Python: what is sent there, and what is said."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.errors import ExecutorUnfit
from binlog_merge.spark.peer import identity
from tests.merge_e2e.cases import case_named, copy_case, max_size, whole
from tests.spark.cluster import Cluster
from tests.spark.submitting import BARE, ROOT, Submitter, packed, stored

pytestmark = pytest.mark.spark
CONFIG = case_named("two-nodes") / "cluster.yaml"
MOST = 20_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master that has no worker yet."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packed(tmp_path_factory.mktemp("archive") / "packages.tar.gz")


@pytest.mark.extended  # another merge of a cluster is test_cluster_faults', whose executors share a file system
def test_spark_submit_from_s3_to_s3_with_executors_that_share_nothing(
    cluster: Cluster, archive: Path, s3: Any, tmp_path: Path
) -> None:
    """Files and output are in the store, blocks go through Spark, the package is in the archive. Workers come late.

    What spark-submit was told wins over the configuration; that executors are awaited is said, then it goes on.
    """
    case = case_named("three-nodes-online-ddl")
    config = stored(case, tmp_path / "case", s3, MOST)
    with Submitter(cluster, tmp_path, archive) as submitter:
        merge = submitter.submit(config, s3.uri("merged"))
        while f"the master at {cluster.master} has given none" not in merge.said():
            assert merge.process.poll() is None, merge.said()
            time.sleep(0.1)
        for _ in range(2):
            cluster.add_worker(cores=1)
        assert merge.ended() == 0, merge.said()
    assert "Submitted application: submitted" in merge.said()
    local = whole(copy_case(case, tmp_path / "local", max_size(MOST)))
    assert {name: data for name, data in s3.objects("merged/").items() if name.startswith("binlog.0")} == local
    assert len(local) > 2 and not s3.objects("merged/parts/")


@pytest.mark.extended
def test_an_executor_that_is_not_as_the_driver_is_named(cluster: Cluster, tmp_path: Path) -> None:
    """Without the package, or with another Python."""
    if cluster.workers == 0:
        cluster.add_worker()
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nclass Version(tuple):\n    major, minor = 3, 99\n"
        "sys.version_info = Version((3, 99, 0, 'final', 0))\n"
    )
    absent = _merge(cluster, tmp_path / "1", BARE)
    other = _merge(cluster, tmp_path / "2", BARE, f"spark.executorEnv.PYTHONPATH={tmp_path}:{ROOT}")
    for run, has in ((absent, "has no module binlog_merge"), (other, "has Python 3.99, binlog-merge of no version")):
        error = run.communicate()[1]
        assert run.returncode == ExecutorUnfit.exit_code, error
        assert f"executor: the executor on 127.0.0.1 {has}; the driver has {identity()}" in error
        assert "Traceback" not in error and "spark.archives" in error


def _merge(cluster: Cluster, out: Path, *options: str) -> subprocess.Popen[str]:
    """Start a merge that takes one core of the cluster."""
    command = [sys.executable, "-m", "binlog_merge.cli.main", "merge", "-c", str(CONFIG), "--out", str(out)]
    command += ["--master", cluster.master]
    for option in ("spark.cores.max=1", "spark.executor.memory=512m", *options):
        command += ["--conf", option]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
