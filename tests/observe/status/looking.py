"""A cluster that was merged, with all that a status is taken from, in folders of one's own."""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.observe.status.health import Limits
from binlog_merge.observe.status.observer import Observer
from binlog_merge.observe.status.values import Status
from tests.merge_e2e.cases import case_named, copy_case
from tests.merge_e2e.local import merge


@dataclass(frozen=True)
class Cluster:
    """A configuration and its output."""

    path: Path
    out: Path

    @property
    def config(self) -> MergeConfig:
        return MergeConfig.load(self.path)

    def observer(self, lag_seconds: float = 60.0) -> Observer:
        return Observer(self.config, self.out, Limits(lag_seconds))

    def look(self, lag_seconds: float = 60.0) -> Status:
        return self.observer(lag_seconds).look()


def fresh(name: str, folder: Path) -> Cluster:
    """Return a case that is not merged yet."""
    return Cluster(copy_case(case_named(name), folder / "case"), folder / "out")


@cache
def _made(name: str, end_of_input: bool) -> "TemporaryDirectory[str]":
    folder = TemporaryDirectory()
    cluster = fresh(name, Path(folder.name))
    merge(cluster.path, cluster.out, end_of_input=end_of_input)
    return folder


def merged(name: str, folder: Path, end_of_input: bool = True) -> Cluster:
    """Return a merged case that may be changed."""
    shutil.copytree(_made(name, end_of_input).name, folder, dirs_exist_ok=True)
    return Cluster(folder / "case" / "cluster.yaml", folder / "out")


def codes(status: Status) -> set[str]:
    return {problem.code for problem in status.problems}


def eventually(holds: Callable[[], bool]) -> bool:
    """Wait until something holds; it always does, unless something is broken."""
    end = time.monotonic() + 60
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
    return holds()
