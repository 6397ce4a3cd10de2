"""Replays a merged binlog into a change log of Parquet files."""

import logging
from collections.abc import Collection
from typing import Any

import numpy as np

from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.errors import MergeError
from binlog_merge.log.changes import OPS, Changes, changes_of, narrowed, without_ranks
from binlog_merge.log.checkpoint import Checkpoint, resume
from binlog_merge.log.log import Log
from binlog_merge.log.read import RowReader, Wants
from binlog_merge.log.replay_options import ReplayOptions, ReplayResult, Walk
from binlog_merge.log.rows import RowSelector
from binlog_merge.log.segments import Segment, StatementAt, segments
from binlog_merge.targets.parquet.target import ParquetTarget
from binlog_merge.targets.server.statements import plan_statement

_LOG = logging.getLogger(__name__)


def capture(binlog: Log, target: ParquetTarget, options: ReplayOptions) -> ReplayResult:
    """Write the changes of a range to a target, from its position on. Errors have what was written as `result`."""
    first = options.first_rank
    if target.empty:
        target.rank = (first or 1) - 1
    resume(binlog, Checkpoint(target.rank, key=target.key), first)
    result = ReplayResult(target.rank + 1, target.rank, selector=RowSelector(options.filter))
    try:
        _walk(binlog, target, options, result)
    except MergeError as error:
        error.result = result
        raise
    return result


def _walk(binlog: Log, target: ParquetTarget, options: ReplayOptions, result: ReplayResult) -> None:
    begun, done, key = target.rank, target.rank, target.key
    chosen = options.filter
    left_out: Wants = lambda schema, table: chosen is not None and chosen.table(schema, table).ignored  # noqa: E731
    reader = RowReader(binlog, lambda *name: not left_out(*name), target.definitions(binlog), filter=chosen)
    for piece in segments(binlog, target.rank + 1, options.last_rank):
        if isinstance(piece, Segment):
            last, ended = len(piece.transactions) - 1, piece.ended
            result.skipped += _skipped(piece, options.skip)
            kept = without_ranks(piece, options.skip)
            for each in changes_of(narrowed(kept, left_out)):
                _count(each, np.zeros(0, np.int8), result.selector)
            for part in reader.parts(kept, target.part_bytes):
                for changes in part:
                    _count(changes.changes, changes.ops, result.selector)
                    if len(changes):
                        target.add(changes)
            rank, order_key = piece.last_rank, piece.key(last)
        else:
            _statement(piece, target, options, result)
            rank, order_key, ended = piece.begin.rank, piece.statement.key, piece.ended
        if ended:
            done, key = rank, None if order_key is None else order_key.text()
            if target.full:
                target.commit(done, key)
                _LOG.debug("applied", extra={"last": done})
                result.transactions, result.last_rank = done - begun, done
    target.commit(done, key)
    _LOG.debug("applied", extra={"last": done})
    result.transactions, result.last_rank = done - begun, done


def _skipped(segment: Segment, skip: Collection[int]) -> list[str]:
    """Return what the transactions of a segment are called that are skipped, and end in it."""
    numbers = [n for n, rank in enumerate(segment.ranks) if rank in skip and segment.transactions[n, k.T_END] >= 0]
    begins = map(segment.begin, numbers)
    return [begin.gtid if ":" in begin.gtid else f"transaction {begin.rank}" for begin in begins]


def _count(changes: Changes, written: Any, selector: RowSelector) -> None:
    """Count the rows that are `written`, by their operations, and those that the filter leaves out."""
    name = (changes.table.schema, changes.table.table)
    for code, op in enumerate(OPS):
        rows, kept = int(changes.rows_of(op).sum()), int((written == code).sum())
        selector.applied[*name, op] += kept
        selector.filtered[*name, op] += rows - kept


def _statement(piece: StatementAt, target: ParquetTarget, options: ReplayOptions, result: ReplayResult) -> None:
    walk = Walk(options)
    walk.begin, walk.key = piece.begin, piece.statement.key
    if walk.skipping:
        result.skipped += [walk.gtid] if piece.ended else []
        return
    with walk.blamed():
        plan = plan_statement(piece.statement, options.filter, walk.ddl_tso())
    for step in plan.steps:
        target.statement(piece, step.shown)
        result.statements.append(step.shown)
    result.left_out += plan.left_out
