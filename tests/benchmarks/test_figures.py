"""The figures of `make bench`: merges of two trees in turns, and the table."""

import subprocess
from pathlib import Path

import pytest

from benchmarks.figures import Figure, as_table
from benchmarks.generate import generate
from benchmarks.schedule import Workload
from benchmarks.trees import ROOT, configured, in_turns, mergers, tree_of


def test_the_table() -> None:
    assert as_table([Figure("one", "0.9", "1.02")]).splitlines()[2] == "| one | 0.9 | 1.02 |"


@pytest.mark.extended
def test_two_trees_merge_in_turns(tmp_path: Path) -> None:
    try:
        committed = tree_of("HEAD", tmp_path)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no git repository")
    assert (committed / "binlog_merge/__init__.py").exists() and tree_of("HEAD", tmp_path) == committed
    config = Path(generate(tmp_path / "cluster", Workload(size=1_000_000, nodes=2)).config)
    with mergers({"writeset": ROOT, "against": committed}, tmp_path) as found:
        cpu = in_turns(found, {"writeset": configured(config, "writeset"), "against": config}, 1)
        merged = [merger.merge(config)["transactions"] for merger in found.values()]
    assert [len(seconds) for seconds in cpu.values()] == [1, 1] and merged[0] == merged[1] > 0
