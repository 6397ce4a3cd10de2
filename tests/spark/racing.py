"""The program that merges in races: `python -m tests.spark.racing MASTER CONFIG WHOLE SCRATCH FIRST OUT…`.

A race is for one output file, of a new output or of one that has a part already. WHOLE is an output with the same
files, merged without races. Prints a line for each race; what is wrong ends it.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest import mock

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.uri import is_uri
from binlog_merge.files.manifest import Manifest
from binlog_merge.files.object_output import ObjectOutput
from binlog_merge.files.remote_log import opened_log
from binlog_merge.pipeline.run import run_merge
from binlog_merge.spark.runner import SparkRunner
from binlog_merge.spark.session import create_session
from snapshot_store.tso import OrderKey
from tests.merge_e2e.local import LocalRunner
from tests.spark.races import MODES, Race

ROOT: Final = Path(__file__).resolve().parents[2]
_SPARK: Final = {
    "spark.speculation": "true",
    "spark.speculation.interval": "20ms",
    "spark.speculation.multiplier": "1.0",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "50ms",
    "spark.speculation.efficiency.enabled": "false",
    "spark.python.task.killTimeout": "120s",  # what has lost lives on
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.executor.memory": "512m",
    "spark.executorEnv.PYTHONPATH": str(ROOT),
    "spark.pyspark.python": sys.executable,
}


def main(master: str, config: str, expected: str, scratch: str, first: str, *outs: str) -> None:
    """Merge into each of the outputs."""
    settings = MergeConfig.load(Path(config))
    state = Manifest.load(Path(expected)).state
    whole = {file.name: Path(expected, file.name).read_bytes() for file in state.files}
    halfway = [OrderKey.parse(key).commit_tso for key in (state.files[0].first_key, state.files[-1].last_key)]
    keys = {f"spark.executorEnv.{name}": value for name, value in os.environ.items() if name.startswith("AWS_")}
    more = keys | dict(option.split("=", 1) for option in os.environ.get("RACING_SPARK", "").split())
    spark = create_session(master, {**_SPARK, **more}, {})
    try:
        for number, out in enumerate(outs, int(first)):
            names, folder = sorted(whole), Path(scratch, f"race-{number}")
            folder.mkdir()
            if number // len(MODES) % 2:
                run_merge(LocalRunner(), settings, out, stop_tso=sum(halfway) // 2)
                names = names[len(published(out)) - 1 :]
            race = Race(MODES[number % len(MODES)], names[number // (2 * len(MODES)) % len(names)], str(folder))
            with _racing(race):
                run_merge(SparkRunner(spark), settings, out, end_of_input=True)
            found = published(out)
            race.note("published")
            if not race.mode.endswith("killed"):
                race.wait(lambda race=race: race.has(f"done-{race.loser}") or race.has(f"failed-{race.loser}"), "end")
            assert race.has("writes-0") and race.has("writes-1"), race
            assert found == published(out) == whole, race
            assert not left(out), (race, left(out))
            print("raced", number, race.mode, race.task, flush=True)
    finally:
        spark.stop()


@contextmanager
def _racing(race: Race) -> Iterator[None]:
    """Let the tasks of gather run in the race."""
    run = SparkRunner.run

    def raced(self: SparkRunner, name: str, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        if name != "gather":
            return run(self, name, function, tasks)
        assert len(tasks) > 1, "Spark compares a task with others before it starts it again"
        return run(self, name, partial(race.run, function), tasks)

    with mock.patch.object(SparkRunner, "run", raced):
        yield


def published(out: str) -> dict[str, bytes]:
    """Return what readers see."""
    with opened_log(out) as log:
        return {file.name: log.path(file).read_bytes() for file in log.state().files}


def left(out: str) -> list[str]:
    """Return what no reader needs, and no later run would go on with."""
    if is_uri(out):
        output = ObjectOutput(out)
        return sorted(name for name in output.objects.below() if name.startswith("parts/") or name.count(".") > 1)
    return sorted(str(path) for path in Path(out).rglob("*") if path.suffix == ".part" or ".work" in path.parts)


if __name__ == "__main__":
    main(*sys.argv[1:])
