"""Replays a merged binlog into a change log of Parquet files."""

import logging

from binlog_merge.binlog.rows import iter_rows
from binlog_merge.errors import ConfigError, MergeError, ReplayStopped
from binlog_merge.log.reader import End, MergedBinlog, Rows
from binlog_merge.log.rows import RowSelector, op_of
from binlog_merge.log.statement import Statement
from binlog_merge.log.walk import ReplayOptions, ReplayResult, Walk
from binlog_merge.targets.changes.parquet import ParquetTarget
from binlog_merge.targets.server.places import Place, check_place, places_of
from binlog_merge.targets.server.statements import plan_statement

_LOG = logging.getLogger(__name__)


def capture(binlog: MergedBinlog, target: ParquetTarget, options: ReplayOptions) -> ReplayResult:
    """Write the changes of a range to a target, from its position on. Errors have what was written as `result`."""
    first = options.first_rank
    if target.empty:
        target.rank = (first or 1) - 1
    elif first is not None and first != target.rank + 1:
        raise ConfigError(
            f"the target has transactions up to {target.rank}; a replay goes on at {target.rank + 1}, not at {first}",
            remedy="leave the start out",
        )
    if target.rank > binlog.last_rank:
        raise ReplayStopped(f"the target has {target.rank} transactions, the merged binlog {binlog.last_rank}")
    check_place(Place(target.rank, key=target.key), places_of(binlog, {target.rank})[target.rank])
    result = ReplayResult(target.rank + 1, target.rank, selector=RowSelector(options.filter, target.history))
    try:
        _walk(binlog, target, options, result)
    except MergeError as error:
        error.result = result
        raise
    return result


def _walk(binlog: MergedBinlog, target: ParquetTarget, options: ReplayOptions, result: ReplayResult) -> None:
    walk, begun, done, key = Walk(options), target.rank, target.rank, target.key
    for item in binlog.items(target.rank + 1):
        if walk.over(item):
            break
        with walk.blamed():
            if isinstance(item, Rows) and not walk.skipping and walk.begin is not None:
                event = result.selector.select(item, walk.key)
                if event is not None:
                    cut = list(iter_rows(event, item.table))
                    target.add(item, cut, op_of(event.type_code), walk.begin, walk.key)
            elif isinstance(item, Statement) and not walk.skipping and walk.begin is not None:
                plan = plan_statement(item, options.filter, walk.ddl_tso())
                for step in plan.steps:
                    target.statement(item, step.shown, walk.begin)
                result.statements += [step.shown for step in plan.steps]
                result.left_out += plan.left_out
            if isinstance(item, End):
                done, key = item.rank, None if walk.key is None else walk.key.text()
                result.skipped += [walk.gtid] if walk.skipping else []
                if target.full:
                    target.commit(done, key)
                    _LOG.debug("applied", extra={"last": done})
                    result.transactions, result.last_rank = done - begun, done
    target.commit(done, key)
    _LOG.debug("applied", extra={"last": done})
    result.transactions, result.last_rank = done - begun, done
