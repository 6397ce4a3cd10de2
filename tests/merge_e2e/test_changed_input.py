"""A node's file changes while a merge reads it: the merge says so and goes on right once it is whole again."""

import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import FileChanged
from binlog_merge.pipeline.run import run_merge
from tests.effort import keeping
from tests.merge_e2e.cases import case_named, copy_case, whole
from tests.merge_e2e.editing import assert_prefix
from tests.merge_e2e.local import LocalRunner, merge, written

CASE = case_named("rotation")


class Meddler(LocalRunner):
    """A runner that does something right before the tasks of one stage run."""

    def __init__(self, stage: str, act: Callable[[], object]) -> None:
        self.stage, self.act = stage, act

    def run(self, name: str, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        if name == self.stage:
            self.act()
        return super().run(name, function, tasks)


@contextmanager
def _watched(seconds: int = 300) -> Iterator[None]:
    """Fail rather than hang."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail(f"no end in {seconds} s"))
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _shorter(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _other(path: Path) -> None:
    shutil.copyfile(path.with_name("binlog.000001"), path)
    path.write_bytes(path.read_bytes() + bytes(1 << 20))


def _grown(path: Path) -> None:
    path.write_bytes(path.read_bytes() + bytes(100))


@pytest.mark.parametrize("partitions", keeping([7], [None, 7]))  # a file of which several tasks read a part
@pytest.mark.parametrize(
    ("stage", "change"),
    keeping(
        [("scan", _shorter), ("gather", _other), ("gather", Path.unlink)],
        [(stage, change) for stage in ("scan", "gather") for change in (_shorter, _empty, _other, Path.unlink)],
    ),
)
def test_a_file_that_does_more_than_grow_is_an_error(
    tmp_path: Path, stage: str, change: Callable[[Path], object], partitions: int | None
) -> None:
    config = copy_case(CASE, tmp_path / "case")
    path = config.parent / "nodes" / "dn-2" / "binlog.000003"
    data = path.read_bytes()
    runner = Meddler(stage, lambda: change(path))
    with _watched(), pytest.raises(FileChanged) as caught:
        run_merge(runner, MergeConfig.load(config), tmp_path / "out", end_of_input=True, partitions=partitions)
    assert (caught.value.node, caught.value.file) == ("dn-2", str(path))
    assert "run it again" in caught.value.remedy
    assert_prefix(written(tmp_path / "out"), whole(CASE / "cluster.yaml"))
    path.write_bytes(data)
    merge(config, tmp_path / "out")
    assert written(tmp_path / "out") == whole(CASE / "cluster.yaml")


@pytest.mark.parametrize("stage", ["scan", "gather"])
def test_a_file_that_grows_is_read_to_where_it_ended(tmp_path: Path, stage: str) -> None:
    config = copy_case(CASE, tmp_path / "case")
    last = max((config.parent / "nodes" / "dn-2").glob("binlog.0*"))
    run_merge(Meddler(stage, lambda: _grown(last)), MergeConfig.load(config), tmp_path / "out", end_of_input=True)
    assert written(tmp_path / "out") == whole(CASE / "cluster.yaml")


def test_files_that_are_left_out_are_told(tmp_path: Path) -> None:
    config = copy_case(CASE, tmp_path / "case")
    last = max((config.parent / "nodes" / "dn-1").glob("binlog.0*"))
    unborn = last.with_name(f"binlog.{int(last.name[-6:]) + 1:06d}")
    unborn.write_bytes(b"\xfebi")
    result = merge(config, tmp_path / "out")
    assert {"node": "dn-1", "file": str(unborn), "reason": "the last file, and it has no complete event yet"} in (
        result.left_out
    )
    assert written(tmp_path / "out") == whole(CASE / "cluster.yaml")
