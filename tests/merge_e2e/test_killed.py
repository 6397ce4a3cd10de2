"""Killed anywhere, the next run ends with the same bytes."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import yaml

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.files.failpoint import VARIABLE
from binlog_merge.files.publish import FAILPOINTS
from binlog_merge.pipeline.run import run_merge
from tests.effort import effort, keeping
from tests.merge_e2e.cases import case_named, copy_case, max_size, whole
from tests.merge_e2e.editing import assert_prefix
from tests.merge_e2e.growth import GrowingNode, schedule
from tests.merge_e2e.killed import merge_until
from tests.merge_e2e.local import LocalRunner, Result, Task, merge, state_of, written

STAGES = ("discover", "scan", "assemble", "coordinate", "order", "gather", "publish")
# A visit is one of several: the header's record is written in two halves, then the run's; files are renamed one by one.
PLACES = [
    *(f"after-{stage}:kill" for stage in STAGES),
    *(f"{name}:kill" for name in FAILPOINTS),
    "publish-appended:kill:2",
    "publish-after-rename:kill:3",
    "store-after-commit:kill",
    *(f"manifest-torn:kill:{visit}" for visit in (2, 3, 4)),
]
ROOT = Path(__file__).resolve().parents[2]
# One of each kind: before anything is written, with files beside the output, between names and the manifest, in the
# middle of its record, and behind it.
KEPT = (
    "store-after-commit:kill",
    "publish-after-rename:kill:3",
    "manifest-torn:kill:2",
)
KEPT_LATER = ("publish-appended:kill:2", "publish-before-manifest:kill")


def published(out: Path) -> dict[str, bytes]:
    """Return what the manifest says exists; what else lies about does not."""
    return {file.name: (out / file.name).read_bytes()[: file.size] for file in state_of(out).files}


def assert_clean(out: Path) -> None:
    assert not list(out.glob(".*.part")) and not (out / ".work").exists()


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A case with DDL, cut into several output files."""
    return copy_case(case_named("ddl-by-markers"), tmp_path_factory.mktemp("killed") / "case", max_size(4000))


@pytest.mark.parametrize(
    "failpoint", keeping(KEPT, [place for place in PLACES if not place.startswith("publish-appended")])
)
def test_the_first_run_is_killed(failpoint: str, case: Path, tmp_path: Path) -> None:
    assert len(whole(case)) > 2
    assert merge_until(failpoint, case, tmp_path)
    assert_prefix(published(tmp_path), whole(case))
    merge(case, tmp_path)
    assert written(tmp_path) == whole(case)
    assert_clean(tmp_path)


def test_files_that_a_killed_run_has_named_are_gone_though_the_next_makes_none(case: Path, tmp_path: Path) -> None:
    """A run up to an earlier TSO than the killed one's, without files that are published before, and with some."""
    merge(case, tmp_path / "whole")
    in_first_file = int(state_of(tmp_path / "whole").files[0].last_key[:19]) - 1
    out = tmp_path / "out"
    for stop in (0, in_first_file):
        merge(case, out, stop_tso=stop)
        begun = written(out)
        assert begun == published(out) and bool(begun) == (stop > 0)
        assert merge_until("publish-before-manifest:kill", case, out)
        assert len(written(out)) > len(begun)
        merge(case, out, stop_tso=stop)
        assert written(out) == published(out) == begun
        assert_clean(out)


class Dying(LocalRunner):
    """An engine whose driver dies when all is ordered; `asked` is what its executors were to do."""

    def __init__(self) -> None:
        self.asked: list[Callable[[], object]] = []

    def run(self, name: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        self.asked += [partial(function, task) for task in tasks]
        if name == "gather":
            raise KeyboardInterrupt
        return super().run(name, function, tasks)


class Beside(LocalRunner):
    """An engine beside which the executors of a dead driver go on, at the worst moments."""

    def __init__(self, late: Sequence[Callable[[], object]]) -> None:
        self._late = late

    def run(self, name: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        results = super().run(name, function, tasks)
        for task in self._late:
            with suppress(Exception):  # what they were to read is gone
                task()
        return results


def test_executors_that_outlive_their_driver_change_nothing(case: Path, tmp_path: Path) -> None:
    config = MergeConfig.load(copy_case(case.parent, tmp_path / "case"))
    nodes = [GrowingNode.of(tmp_path / "case" / "nodes" / node.source_id) for node in config.nodes]
    for node in nodes:
        places = node.places(False)
        node.grow(places[len(places) // 2], False)
    dying = Dying()
    with pytest.raises(KeyboardInterrupt):
        run_merge(dying, config, tmp_path / "out")
    for node in nodes:
        node.grow(node.places(False)[-1], False)
    run_merge(Beside(dying.asked), config, tmp_path / "out", end_of_input=True)
    assert written(tmp_path / "out") == whole(case)


@pytest.mark.parametrize(
    "failpoint",
    keeping(KEPT_LATER, [place for place in PLACES if place not in ("manifest-torn:kill:3", "manifest-torn:kill:4")]),
)
def test_a_later_run_is_killed(failpoint: str, case: Path, tmp_path: Path) -> None:
    merge(case, tmp_path / "whole")
    in_first_file = int(state_of(tmp_path / "whole").files[0].last_key[:19])
    merge(case, tmp_path / "out", stop_tso=in_first_file - 1)
    begun = published(tmp_path / "out")
    assert merge_until(failpoint, case, tmp_path / "out")
    assert_prefix(begun, published(tmp_path / "out"))
    assert_prefix(published(tmp_path / "out"), whole(case))
    merge(case, tmp_path / "out")
    assert written(tmp_path / "out") == whole(case)
    assert_clean(tmp_path / "out")


@pytest.mark.extended  # at places that are named: above
@pytest.mark.parametrize(
    ("name", "seed"),
    [("shards-optimistic", 3), ("three-nodes-online-ddl", 0)][: effort(1, 2)],
)
def test_killed_over_and_over_while_the_nodes_grow(name: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    path = copy_case(case_named(name), tmp_path / "case", max_size(20_000 if name.startswith("three") else 2000))
    good = whole(path)
    out = tmp_path / "out"
    ids = [n["source-id"] for n in yaml.safe_load(path.read_text())["nodes"]]
    nodes = {name: GrowingNode.of(path.parent / "nodes" / name) for name in ids}
    rounds = effort(3, 6)
    for number, places in enumerate(schedule(nodes, rounds, True, rng), 1):
        for name, place in places.items():
            nodes[name].grow(place, True)
        for failpoint in rng.choices(PLACES, k=2):
            merge_until(failpoint, path, out, end_of_input=number == rounds, partitions=rng.choice([None, 4]))
            assert_prefix(published(out), good)
    merge(path, out)
    assert written(out) == good
    assert_clean(out)


@pytest.mark.extended  # the same driver is killed above; processes of a `run` on Spark in tests/cli/test_run_live.py
@pytest.mark.spark
def test_the_command_line_is_killed(case: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "binlog_merge.cli.main", "merge", "-c", str(case), "--out", str(tmp_path / "out")]
    command += ["--end-of-input", "--master", "local[2]"]
    environment = {**os.environ, VARIABLE: "publish-before-manifest:kill"}
    killed = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert published(tmp_path / "out") == {}
    assert written(tmp_path / "out")  # they have their names already, but nothing says that they exist
    merge(case, tmp_path / "out")
    assert written(tmp_path / "out") == whole(case)
    assert_clean(tmp_path / "out")
