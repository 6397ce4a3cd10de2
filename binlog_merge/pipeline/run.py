"""The merge, stage by stage.

    discover → scan → assemble → coordinate → order → cut → gather → publish

An error in a stage lowers the *bound*, the key below which everything is understood. What lies below it is still merged
and published, then the error is raised. So the output is always a valid prefix, and once the cause is removed the next
run continues there.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

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
from binlog_merge.pipeline.assemble.driver import assemble
from binlog_merge.pipeline.base.decided import ways_out
from binlog_merge.pipeline.base.runner import Progress, Runner, silent
from binlog_merge.pipeline.base.state import Bound, Inputs, Job
from binlog_merge.pipeline.coordinated import coordinate_nodes
from binlog_merge.pipeline.copies import compare_copies
from binlog_merge.pipeline.discover import awaited, discover
from binlog_merge.pipeline.gather.collisions import Collided, collision_error, collision_warnings
from binlog_merge.pipeline.gather.driver import gather_files, target_keys, written_to
from binlog_merge.pipeline.gather.values import doubted_orders
from binlog_merge.pipeline.order.cutting import cut_files
from binlog_merge.pipeline.order.driver import order_all
from binlog_merge.pipeline.publish import floor_after, keep_schemas, publish_run
from binlog_merge.pipeline.retention import is_due, retain
from binlog_merge.pipeline.scan.driver import scan
from binlog_merge.pipeline.summary import note_error, note_run, result_of
from binlog_merge.pipeline.traced import traced
from binlog_merge.pipeline.values import MergeResult, RoundState, Run, WrittenRun
from binlog_merge.tracing import tracer

if TYPE_CHECKING:
    from binlog_merge.pipeline.gather.writeset_history import OpenHistory

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
        check_storable(config)
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
        earlier = RoundState.of(config, directory, output.elsewhere)
        try:
            if output.uri is None:
                earlier = replace(earlier, archiver=Archiver(config, directory))
            return placed(merge_once(job, earlier)[0], output)
        except MergeError as error:
            error.result = None if error.result is None else placed(error.result, output)
            raise
        finally:
            job.clear_work()


def check_storable(config: MergeConfig) -> None:
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


def placed(result: MergeResult, output: Output) -> MergeResult:
    """Return a result whose files are named by where they are in the output."""
    files = tuple({**file, "path": output.place(file["name"])} for file in result.files)
    return replace(result, files=files)


def merge_once(job: Job, earlier: RoundState) -> tuple[MergeResult, RoundState]:
    """Merge what the nodes' files hold now, going on from what the round before has left; return that of this one, too.

    Raises MergeError, whose `result` is what was published before the stop.
    """
    spans = tracer()
    return _merged(job, earlier) if spans is None else traced(spans, job, earlier, _merged)


def _merged(job: Job, earlier: RoundState) -> tuple[MergeResult, RoundState]:
    try:
        with job.stage("discover"):
            inputs = discover(job, earlier)
        job.engine.start(job.progress)
        with job.engine.exchange.opened():
            return _merge(job, inputs, earlier)
    except MergeError as error:
        note_error(job.directory, error)
        raise


def _merge(job: Job, inputs: Inputs, earlier: RoundState) -> tuple[MergeResult, RoundState]:
    pieces = scan(job, inputs, earlier.pieces)
    nodes = assemble(job, inputs, pieces)
    run = coordinate_nodes(job, inputs, nodes, earlier.schemas)
    written = _write(run, earlier.history)
    collided = earlier.keys.follow(g.keys for g in written.kept)
    if collided and inputs.manifest.state.rank == 0 and job.config.key_doubts == "error":
        raise collision_error(collided)  # each way out makes another output: now it costs nothing
    job.warnings += _believed(written)
    differing = _publish(run, written)
    job.warnings += collision_warnings(collided).values()
    return _end(run, written, collided, differing, earlier)


def _write(run: Run, history: "OpenHistory | None") -> WrittenRun:
    """Order, cut and gather what comes out below the bound; an error in gather lowers the bound."""
    job, inputs, coordination, bound = run.job, run.inputs, run.coordination, run.bound
    target = target_keys(job, inputs, coordination)
    while True:
        ordered = order_all(job, inputs, run.scanned, coordination, run.floor, bound.key)
        cuts = cut_files(inputs.manifest.state, job.config.output.max_size, ordered.parts)
        gathered = gather_files(job, inputs, coordination, ordered, cuts, history, target)
        failed, error = next(((i, g.error) for i, g in enumerate(gathered) if g.error is not None), (0, None))
        if error is None:
            return WrittenRun(bound, ordered, gathered, target)
        _LOG.info("a file could not be finished", extra={"file": gathered[failed].name, "error": error["code"]})
        gathered = gathered[: failed + 1]
        stopped_at = written_to(gathered, coordination.holds) or run.floor
        bound = Bound(stopped_at, _explained(run, MergeError.from_dict(error)))
        if coordination.holds is None:
            return WrittenRun(bound, ordered, gathered, target)
        # All of one place comes out in one run, and with a lower bound other rows wait: order again.


def _believed(written: WrittenRun) -> list[str]:
    """Return warnings of what was written by the table map or in an order that nothing proves."""
    believed = sorted({text for g in written.kept for text in g.believed})
    texts = [f"the table map is believed, not the schema history: {text}" for text in believed]
    return [*texts, *doubted_orders(doubted for g in written.kept for doubted in g.doubted)]


def _publish(run: Run, written: WrittenRun) -> MergeError | None:
    """Keep what the next run needs, and publish the output files; return what the copies of nodes differ in."""
    with run.job.stage("publish"):
        next_floor = floor_after(run, written)
        versions = keep_schemas(run, written, next_floor)
        differing = compare_copies(run, written.bound, next_floor)
        elsewhere, history = run.inputs.manifest.elsewhere, written.open_history
        if elsewhere is not None and history is not None:
            elsewhere.remember(history.name, history.size, history.note())
        publish_run(run, written, next_floor, versions)
    return differing


def _end(
    run: Run, written: WrittenRun, collided: Sequence[Collided], differing: MergeError | None, earlier: RoundState
) -> tuple[MergeResult, RoundState]:
    """Archive and remove files that are published, and note the run for `status`. Raises the error that stopped it."""
    _archive(run, earlier.archiver)
    result, removed_at = result_of(run, written), earlier.removed_at
    if written.bound.error is None and is_due(run, written, removed_at):
        removed_at = time.monotonic()
        try:
            result = replace(result, removed=retain(run, written))
        except MergeError as failed:
            failed.result = result
            raise
    note_run(run, written, result, collided)
    error = written.bound.error or differing
    if error is not None:
        error.result = result
        raise error
    return result, replace(
        earlier,
        manifest=run.inputs.manifest,
        found=run.inputs.discovery,
        notes=awaited(run.scanned, run.watermarks, written.bound.key, run.inputs.notes),
        removed_at=removed_at,
        history=written.open_history or earlier.history,
    )


def _archive(run: Run, archiver: Archiver | None) -> None:
    """Let closed files be sent to the archive; what is in the way is a warning."""
    if archiver is None:
        return
    archiver.published(run.inputs.manifest.state)
    if archiver.problem is not None:
        run.job.warnings.append(f"closed files are not archived, and tried again: {archiver.problem}")


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
