"""A cluster's transactions as a DataFrame."""

import logging
from collections.abc import Callable
from typing import Any, Final

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import ConfigError
from binlog_merge.pipeline.gather.listing import listed
from binlog_merge.pipeline.transactions import found_transactions
from binlog_merge.pipeline.values import MergeResult
from binlog_merge.spark.runner import SparkRunner

_LOG = logging.getLogger(__name__)

COLUMNS: Final = (
    "commit_tso bigint, order_key string, gtid string, rank bigint, kind string, committed timestamp, bytes bigint, "
    "branches array<struct<node: string, file: string, start: bigint, end: bigint>>, database string, statement string"
)
COUNTED: Final = "tables array<string>, rows bigint"


def transactions(
    spark: Any,
    config: MergeConfig,
    *,
    start_tso: int | None = None,
    stop_tso: int | None = None,
    end_of_input: bool = False,
    partitions: int | None = None,
    rows: bool = True,
    progress: Callable[[str, int, int], None] | None = None,
) -> Any:
    """Return the DataFrame of the transactions that `merge` would write into an empty directory, in global order.

    A row is a transaction, a DDL or a heartbeat (`kind`: rows, ddl, heartbeat):

        commit_tso, order_key   its place: the commit TSO, and the 54 digits that the merged log has as CTS
        gtid, rank              as in the merged log; gtid is NULL where `output.gtid` is anonymous
        committed               its commit time
        bytes                   of its branches in the nodes' logs
        branches                an array of (node, file, start, end): where its events stand
        database, statement     of a DDL: its default schema and text as written, else NULL
        tables, rows            the logical tables that it changes, sorted, and how many rows; not with `rows=False`

    The call scans the nodes' files and puts the index in order, as Spark jobs: an index of some dozen bytes for each
    branch, which stays with Spark. The transactions' rows are read when an action asks for the frame's. With
    `rows=False` they are not read at all. Each of the frame's partitions follows on the one before.

    Nothing is published, and the session goes on. The frame's `merge_result` is a MergeResult without files: what is
    held back and by whom, watermarks, what is left out, warnings; these are logged, too. (What only a merge finds when
    it writes, and `first_key`, are not in it.) Its `unpersist()` frees what
    Spark keeps of the index, which a later action makes again.

    `start_tso`, `stop_tso`, `end_of_input` and `partitions` are those of `merge`. Raises MergeError, as `merge` does;
    then its `result` is the DataFrame of what comes before the stop, None if nothing does. What is wrong with rows is
    found by the action that reads them, whose error has the same text; they are checked as with `check-rows: always`.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise ConfigError(
            "transactions are not listed on Spark Connect", remedy="give a session that has its driver in this process"
        )
    runner = SparkRunner(spark, carries=True)
    with found_transactions(
        runner, config, start_tso=start_tso, stop_tso=stop_tso, end_of_input=end_of_input, partitions=partitions,
        counts=rows, progress=progress,
    ) as found:  # fmt: skip
        pass  # Spark keeps the blocks
    frame = runner.frame(listed, found.tasks, f"{COLUMNS}, {COUNTED}" if rows else COLUMNS)
    say(found.result)
    frame.merge_result = found.result
    frame.unpersist = _unpersist(runner, frame)
    if found.error is not None:
        found.error.result = frame if found.tasks else None
        raise found.error
    return frame


def say(result: MergeResult) -> None:
    """Log what a merge would say is not in its output."""
    for text in result.warnings:
        _LOG.warning("%s", text)
    for file in result.left_out:
        _LOG.warning("left out: %s of node %s: %s", file["file"], file["node"], file["reason"])
    if result.held:
        why = "" if result.held_back_by is None else f" by node {result.held_back_by}"
        _LOG.warning("%d branches are held back%s: %d bytes", result.held, why, result.held_bytes)
    if result.waiting:
        _LOG.warning("%d branches wait for DDL of other shards", result.waiting)
    if result.in_doubt and result.end_of_input:
        _LOG.warning("%d prepared branches are in doubt", len(result.in_doubt))


def _unpersist(runner: SparkRunner, frame: Any) -> Callable[..., Any]:
    """Return the frame's `unpersist`, which also forgets the index."""

    def unpersist(blocking: bool = False) -> Any:
        runner.forget()
        return type(frame).unpersist(frame, blocking)

    return unpersist
