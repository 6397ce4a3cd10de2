"""Runs the merge on Spark."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.files.lease_keeper import LeaseKeeper
from binlog_merge.pipeline.rehearsal import rehearse
from binlog_merge.pipeline.rounds import IN_DRIVER, STORE_INTERVAL, Pace, Rounds, Watcher, follow_leading
from binlog_merge.pipeline.rounds import follow as follow_rounds
from binlog_merge.pipeline.run import run_merge
from binlog_merge.pipeline.values import MergeResult
from binlog_merge.pipeline.warm import warm
from binlog_merge.spark.runner import SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["IN_DRIVER", "STORE_INTERVAL", "MergeResult", "Pace", "Watcher", "follow", "merge"]


def merge(
    spark: "SparkSession | Callable[[], SparkSession]",
    config: MergeConfig,
    merged: str | Path,
    *,
    start_tso: int | None = None,
    stop_tso: int | None = None,
    end_of_input: bool = False,
    partitions: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    work: Path | None = None,
    in_driver: int = 0,
    at_need: bool = False,
) -> MergeResult:
    """Merge the binlogs of a cluster's nodes into one, continuing at the end of `merged`, a directory or an s3:// URI.

    `spark` is a session, or a function that returns one: it is called when the nodes' files are found and in order.
    `start_tso` is inclusive, `stop_tso` exclusive. With `end_of_input` the input is complete, so that nothing is held
    back. `partitions` overrides the number of scanned chunks and ordered ranges; the files do not depend on it.
    `progress` gets a stage's name, how many of its tasks are done, and how many there are. `work` is the driver's local
    folder for a merged log at a URI; default: one in TMPDIR. A stage that reads at most `in_driver` bytes runs in this
    process. `at_need`: the function `spark` is called by the first stage that reads more, and starts a session on this
    machine. Returns what was published and what is held back. Raises MergeError; its `result` is what was published
    before the stop.
    """
    return run_merge(
        SparkRunner(spark, at_need=at_need),
        config,
        merged,
        start_tso=start_tso,
        stop_tso=stop_tso,
        end_of_input=end_of_input,
        partitions=partitions,
        progress=progress,
        work=work,
        in_driver=in_driver,
    )


def follow(
    spark: Any,
    config: MergeConfig,
    out: str | Path,
    stop: Event,
    watcher: Watcher,
    pace: Pace | None = None,
    *,
    in_driver: int = IN_DRIVER,
    at_need: bool = False,
    start_tso: int | None = None,
    work: Path | None = None,
    keeper: LeaseKeeper | None = None,
    example: Path | None = None,
) -> None:
    """Merge as `merge` does, round after round, until `stop` is set: as soon as the nodes have written more.

    `in_driver` and `at_need` are those of `merge`. `watcher` gets each round's result. With `keeper` it waits for a
    lease, with all loaded that a round needs, and merges while it is held; `example` is the configuration that it
    rehearses with while it waits. The files are those of one merge, byte for
    byte. Raises MergeError for what does not pass by itself.
    """
    runner = SparkRunner(spark, at_need=at_need)
    opened = partial(Rounds, runner, config, out, start_tso=start_tso, in_driver=in_driver, work=work)
    if keeper is not None:
        runner.start()
        warm()
        rehearsal = None if example is None else partial(rehearse, runner, example)
        follow_leading(partial(opened, allowed=keeper.check), keeper, stop, watcher, pace or Pace(), rehearsal)
        return
    with opened() as rounds:
        follow_rounds(rounds, stop, watcher, pace or Pace())
