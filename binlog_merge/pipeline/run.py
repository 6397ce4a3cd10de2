"""The merge, stage by stage.

    discover → scan → assemble → coordinate → order → cut → gather → publish

An error in a stage lowers the *bound*, the key below which everything is understood. What lies below it is still merged
and published, then the error is raised. So the output is always a valid prefix, and once the cause is removed the next
run continues there.
"""

import logging
from dataclasses import replace
from pathlib import Path, PurePath

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.uri import is_uri
from binlog_merge.errors import (
    WITHOUT_MARKERS,
    ConfigError,
    ConversionFailed,
    MergeError,
    SchemaMismatch,
    UnknownTableSchema,
    UnsupportedInput,
)
from binlog_merge.files.objects import check_object_size
from binlog_merge.files.output import Output, opened_output
from binlog_merge.pipeline.archiving import Archiver
from binlog_merge.pipeline.base.bound import GREATEST_KEY, Bound
from binlog_merge.pipeline.base.decided import ways_out
from binlog_merge.pipeline.base.runner import Progress, Runner, silent
from binlog_merge.pipeline.base.state import Inputs, Job
from binlog_merge.pipeline.beginning import begin
from binlog_merge.pipeline.coordinate.marker.driver import keep_cluster
from binlog_merge.pipeline.coordinate.shards.driver import keep_shards
from binlog_merge.pipeline.coordinate.value import made_of
from binlog_merge.pipeline.copies import compare_copies
from binlog_merge.pipeline.gather.collisions import collision_error, collision_warnings
from binlog_merge.pipeline.gather.driver import gather_files, key_after_last, written_to
from binlog_merge.pipeline.gather.values import doubted_orders
from binlog_merge.pipeline.idle import awaited
from binlog_merge.pipeline.publish import publish_run
from binlog_merge.pipeline.result import MergeResult
from binlog_merge.pipeline.retention import retain
from binlog_merge.pipeline.round_state import Between
from binlog_merge.pipeline.summary import note_error, note_run, result_of
from binlog_merge.pipeline.understood import put_in_order, understand
from binlog_merge.pipeline.values import Run, WrittenRun
from snapshot_store.tso import OrderKey

_LOG = logging.getLogger(__name__)
_OF_ROWS = (ConversionFailed, SchemaMismatch, UnknownTableSchema, UnsupportedInput)
"""What stops gather for what one transaction's rows are, and need not be so for others."""


def run_merge(
    runner: Runner,
    config: MergeConfig,
    out: str | Path,
    *,
    start_tso: int | None = None,
    stop_tso: int | None = None,
    end_of_input: bool = False,
    partitions: int | None = None,
    progress: Progress | None = None,
    work: Path | None = None,
    in_driver: int = 0,
) -> MergeResult:
    """Merge the nodes' binlogs into the directory or object-store URI `out`, continuing where its manifest ends.

    `work`: see `opened_output`. `in_driver`: see `Job`. Raises MergeError. If something was published before the stop,
    the error's `result` holds the MergeResult.
    """
    if is_uri(str(out)):
        _check_storable(config)
    with opened_output(out, work) as output:
        directory = output.directory
        job = Job(
            runner,
            config,
            directory,
            start_tso,
            stop_tso,
            end_of_input,
            partitions,
            progress or silent,
            in_driver=in_driver,
            store=output.uri,
        )
        between = Between.of(config, directory)
        between.elsewhere = output.elsewhere
        try:
            if output.uri is None:
                between.archiver = Archiver(config, directory)
            return _placed(merge_once(job, between), output)
        except MergeError as error:
            error.result = None if error.result is None else _placed(error.result, output)
            raise
        finally:
            job.clear_work()


def _check_storable(config: MergeConfig) -> None:
    """Raise ConfigError for settings that an output in an object store cannot have."""
    check_object_size(config.output.max_size)
    if config.archive is not None:
        raise ConfigError(
            "archive is for an output in a local folder: this one is in an object store already",
            remedy="leave it out",
        )
    if config.retention.age is not None:
        raise ConfigError(
            "retention.age is for an output in a local folder: how old objects are is not known to a merge",
            remedy="set retention.size instead, or leave it out",
        )


def _placed(result: MergeResult, output: Output) -> MergeResult:
    files = tuple({**file, "path": output.place(file["name"])} for file in result.files)
    return replace(result, files=files)


def merge_once(job: Job, between: Between) -> MergeResult:
    """Merge what the nodes' files hold now, going on from what the round before has left."""
    try:
        with job.stage("discover"):
            inputs = begin(job, between)
        job.engine.start(job.progress)
        with job.engine.exchange.opened():
            return _merge(job, inputs, between)
    except MergeError as error:
        note_error(job.directory, error)
        raise


def _merge(job: Job, inputs: Inputs, between: Between) -> MergeResult:
    run = understand(job, inputs, between)
    scanned = run.scanned
    written = _write(run, between)
    collided = between.keys.follow(g.keys for g in written.kept)
    if collided and inputs.manifest.state.rank == 0 and job.config.key_doubts == "error":
        raise collision_error(collided)  # each way out makes another output: now it costs nothing
    with job.stage("publish"):
        differing = _publish(run, written)
    between.history = written.open_history or between.history
    job.warnings += collision_warnings(collided).values()
    _archive(run, between)
    result = result_of(run, written)
    if written.bound.error is None:
        try:
            result = replace(result, removed=retain(run, written, between))
        except MergeError as failed:
            failed.result = result
            raise
    note_run(run, written, result, collided)
    between.notes = awaited(scanned, run.watermarks, written.bound.key, between.notes)
    error = written.bound.error or differing
    if error is not None:
        error.result = result
        raise error
    return result


def _write(run: Run, between: Between) -> WrittenRun:
    """Order and gather what comes out below the bound; an error in gather lowers the bound."""
    holds, bound = run.coordination.holds, run.bound
    while True:
        ordered = put_in_order(run, bound.key)
        gathered = gather_files(run.job, run.inputs, run.coordination, ordered, between.history)
        failed, error = next(((i, g.error) for i, g in enumerate(gathered) if g.error is not None), (0, None))
        if error is None:
            return WrittenRun(bound, ordered, gathered)
        _LOG.info("a file could not be finished", extra={"file": gathered[failed].name, "error": error["code"]})
        gathered = gathered[: failed + 1]
        bound = Bound(written_to(gathered, holds) or run.floor, _explained(run, MergeError.from_dict(error)))
        if holds is None:
            return WrittenRun(bound, ordered, gathered)
        # All of one place comes out in one run, and with a lower bound other rows wait: order again.


def _archive(run: Run, between: Between) -> None:
    """Let closed files be sent to the archive; what is in the way is a warning."""
    if between.archiver is None:
        return
    between.archiver.published(run.inputs.manifest.state)
    if between.archiver.problem is not None:
        run.job.warnings.append(f"closed files are not archived, and tried again: {between.archiver.problem}")


def _explained(run: Run, error: MergeError) -> MergeError:
    """Add to the remedy what can be decided about a transaction whose rows cannot be written, and prefix it with how to
    merge without markers, if a logical table is unknown and no marker was seen.
    """
    if isinstance(error, _OF_ROWS) and None not in (error.node, error.file, error.position):
        name = f"{error.node}/{PurePath(str(error.file)).name}:{error.position}"
        error.remedy = f"{error.remedy}; or {ways_out(name)}"
    if isinstance(error, UnknownTableSchema) and run.known.announced.active and not run.coordination.seen:
        error.remedy = f"{WITHOUT_MARKERS}; {error.remedy}"
    return error


def _publish(run: Run, written: WrittenRun) -> MergeError | None:
    """Save the state that the next run needs to the store, and publish the output files; return what the copies of
    nodes differ in.
    """
    job, coordination, bound = run.job, run.coordination, written.bound
    believed = sorted({text for g in written.kept for text in g.believed})
    job.warnings += [f"the table map is believed, not the schema history: {text}" for text in believed]
    job.warnings += doubted_orders(doubted for g in written.kept for doubted in g.doubted)
    end = bound.key if bound.key != GREATEST_KEY else key_after_last(written.last_key, coordination.holds)
    next_floor = max(run.floor, end)
    begins = min((n.begins for n in run.scanned if n.begins is not None), default=None)
    first = run.inputs.manifest.state.last is None and begins is not None
    beginning = OrderKey(begins[0], 0, 0, 0) if first and begins is not None else None
    versions = run.store.save(made_of(coordination, bound, run.known.floor, beginning), next_floor)
    keep_cluster(coordination.messages, job.directory, run.known.floor, next_floor)
    waiting = written.ordered.waiting
    keep_shards(coordination.shards, job.directory, next_floor, bound.key, waiting, run.store.cache)
    differing = compare_copies(run, bound, next_floor)
    announced = run.known.announced.state(coordination.seen, coordination.pending, next_floor)
    publish_run(run, written, next_floor, versions, announced)
    return differing
