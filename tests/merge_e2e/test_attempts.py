"""Two attempts of one task at once: what is published are the bytes of one of them, whatever the other does then.

Here the attempts are processes; Spark's own, by speculation: `tests.spark.test_attempts`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.files.manifest import Manifest
from binlog_merge.pipeline.run import run_merge
from snapshot_store.tso import OrderKey
from tests.effort import keeping
from tests.forked import forked
from tests.merge_e2e.cases import case_named, copy_case, max_size
from tests.merge_e2e.local import LocalRunner, merge, written
from tests.spark.races import Race


class RacingRunner(LocalRunner):
    """Runs one task of gather twice: an attempt in a process of its own has begun to write when the other begins."""

    def __init__(self, race: Race) -> None:
        self.race = race
        self.slow: Thread | None = None

    def run(self, name: str, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        if name != "gather":
            return super().run(name, function, tasks)
        (task,) = (task for task in tasks if task.name == self.race.task)
        raced = partial(self.race.run, function)
        self.slow = Thread(target=forked, args=(raced, task))
        self.slow.start()
        self.race.wait(lambda: self.race.has("writes-0"), "first attempt")
        return super().run(name, raced, tasks)


@pytest.mark.heavy
@pytest.mark.parametrize("continued", keeping([True], [False, True]))
def test_the_first_goes_on_when_all_is_published(continued: bool, tmp_path: Path) -> None:
    """Of a file that is begun, and of one that a run before has begun: the second attempt is taken."""
    path = copy_case(case_named("three-nodes-online-ddl"), tmp_path / "case", max_size(20_000))
    config, out = MergeConfig.load(path), tmp_path / "out"
    merge(path, tmp_path / "whole")
    expected = written(tmp_path / "whole")
    if continued:
        files = Manifest.load(tmp_path / "whole").state.files
        tsos = [OrderKey.parse(key).commit_tso for key in (files[0].first_key, files[-1].last_key)]
        run_merge(LocalRunner(), config, out, stop_tso=sum(tsos) // 2)
    task = max(written(out)) if continued else min(expected)
    (tmp_path / "race").mkdir()
    race = Race("second", task, str(tmp_path / "race"))
    runner = RacingRunner(race)
    run_merge(runner, config, out, end_of_input=True)
    assert written(out) == expected
    race.note("published")
    assert runner.slow is not None
    runner.slow.join()
    assert race.has("writes-1") and (race.has("done-0") or race.has("failed-0"))
    assert written(out) == expected
    assert not [each for each in out.rglob("*") if each.suffix == ".part" or ".work" in each.parts]
