"""What a program does to the merge that it runs on a cluster: processes are killed in chosen stages, or it waits there.

Goes to driver and executors by `--py-files`, so on executors it has nothing but what every Python has.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

VARIABLE = "BINLOG_MERGE_SABOTAGE"


@dataclass(frozen=True)
class Strike:
    """Kill what runs a task of a stage, at most so many times.

    `kills` is "executor", or "worker", whose executor dies with it. `when` is "before" the task or "after" it, when its
    files are written and its result has gone nowhere. What has struck is noted in `folder`, which all processes see.
    """

    stage: str
    kills: str
    when: str
    times: int
    folder: str

    def may(self, when: str) -> None:
        """Strike, if it is time. The Python that runs the task lives on for as long as Spark lets it."""
        if when != self.when or not self._claimed():
            return
        executor = _parent(os.getppid())  # this process, Spark's Python daemon, the executor, its worker
        for process in (executor,) if self.kills == "executor" else (_parent(executor), executor):
            os.kill(process, signal.SIGKILL)

    def _claimed(self) -> bool:
        for number in range(self.times):
            try:
                os.close(os.open(f"{self.folder}/{self.stage}-{number}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            return True
        return False


@dataclass(frozen=True)
class Pause:
    """Wait until the file `folder`/go is there: in the driver "before" a stage's tasks or "after" them, or as a "task"
    begins.
    """

    stage: str
    when: str
    folder: str

    def may(self, when: str) -> None:
        """Wait, if it is time."""
        if when == self.when:
            Path(self.folder, "waits").touch()
            while not Path(self.folder, "go").exists():
                time.sleep(0.05)


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def _sabotaged(function: Callable[[Any], Any], planned: Sequence[Strike | Pause], task: Any) -> Any:
    for one in planned:
        one.may("before" if isinstance(one, Strike) else "task")
    result = function(task)
    for one in planned:
        if isinstance(one, Strike):
            one.may("after")
    return result


def prepare() -> None:
    """Do in this driver what the environment says; all blocks stay on executors."""
    from binlog_merge.spark import tasks
    from binlog_merge.spark.runner import SparkRunner

    told = json.loads(os.environ.get(VARIABLE, "{}"))
    if not told:
        return
    strikes = [Strike(**values) for values in told["strikes"]]
    pauses = [Pause(**values) for values in told["pauses"]]
    run = SparkRunner.run

    def sabotaged(self: SparkRunner, name: str, function: Callable[[Any], Any], own: Sequence[Any]) -> Any:
        here = [pause for pause in pauses if pause.stage == name]
        for pause in here:
            pause.may("before")
        there = [one for one in (*strikes, *pauses) if one.stage == name]
        result = run(self, name, partial(_sabotaged, function, there) if there else function, own)
        for pause in here:
            pause.may("after")
        return result

    tasks.NEAR_BLOCK = 0  # type: ignore[misc]
    SparkRunner.run = sabotaged  # type: ignore[method-assign,assignment]
