"""Two attempts of one task at once, by Spark's own speculation: what is published are the bytes of one of them.

Executors are on two addresses, which Spark takes for two machines: it starts a second attempt on another only.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.merge_e2e.cases import case_named, copy_case, max_size
from tests.merge_e2e.local import merge
from tests.object_store import Store
from tests.spark.cluster import Cluster
from tests.spark.races import MODES
from tests.spark.submitting import ROOT, stored

pytestmark = pytest.mark.spark
CASE = case_named("three-nodes-online-ddl")
MOST = 20_000


def raced(cluster: Cluster, folder: Path, config: Path, outs: list[str], first: int, *conf: str) -> None:
    """Merge into each of the outputs, each time in a race."""
    merge(copy_case(CASE, folder / "alone", max_size(MOST)), folder / "whole")
    (folder / "scratch").mkdir()
    command = [sys.executable, "-m", "tests.spark.racing", cluster.master, str(config), str(folder / "whole")]
    done = subprocess.run(
        [*command, str(folder / "scratch"), str(first), *outs],
        cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "RACING_SPARK": " ".join(conf)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("raced ") == len(outs)


def into_folders(cluster: Cluster, folder: Path, races: int, first: int, *conf: str) -> None:
    config = copy_case(CASE, folder / "case", max_size(MOST))
    raced(cluster, folder, config, [str(folder / f"out-{n}") for n in range(races)], first, *conf)


def into_store(cluster: Cluster, folder: Path, s3: Store, races: int, first: int) -> None:
    config = stored(CASE, folder / "case", s3, MOST)
    raced(cluster, folder, config, [s3.uri(f"merged-{first}-{n}") for n in range(races)], first)


@pytest.mark.extended  # with attempts that Spark does not start: merge_e2e/test_attempts
def test_a_file_is_written_twice_at_once(two_machines: Cluster, tmp_path: Path) -> None:
    """Of an output that is gone on with; the second attempt is taken, and the first goes on when all is published."""
    into_folders(two_machines, tmp_path, 1, len(MODES) + MODES.index("second"))


# The one race above has two attempts, bytes in front of theirs, and one that writes when all is published.
@pytest.mark.extended
def test_files_are_written_twice_at_once(two_machines: Cluster, tmp_path: Path) -> None:
    """Each way to win, of an output that is gone on with."""
    into_folders(two_machines, tmp_path, len(MODES), len(MODES))


@pytest.mark.extended
def test_new_files_are_written_twice_at_once(two_machines: Cluster, tmp_path: Path) -> None:
    into_folders(two_machines, tmp_path, len(MODES), 0)


@pytest.mark.extended
def test_parts_in_a_store_are_written_twice_at_once(two_machines: Cluster, s3: Store, tmp_path: Path) -> None:
    into_store(two_machines, tmp_path, s3, 4, 2)


@pytest.mark.soak
def test_a_hundred_races(two_machines: Cluster, s3: Store, tmp_path: Path) -> None:
    """With index blocks in files, and carried by Spark; into folders, and a store."""
    for part, conf in enumerate([(), ("spark.binlogmerge.exchange=files",)]):
        folder = tmp_path / str(part)
        folder.mkdir()
        into_folders(two_machines, folder, 36, 36 * part, *conf)
    into_store(two_machines, tmp_path, s3, 28, 72)
