"""Runs the gather stage: one task per output file, and the key up to which the files were written."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_merge.files.manifest import OutputFile
from binlog_merge.files.parts import Away, take_part
from binlog_merge.files.publish import file_name
from binlog_merge.moved_keys import place_of
from binlog_merge.pipeline.base.render_values import LogicalDdl
from binlog_merge.pipeline.base.state import Inputs, Job, key_after
from binlog_merge.pipeline.coordinate.shards.values import Holds
from binlog_merge.pipeline.coordinate.stores import STORE_NAME
from binlog_merge.pipeline.coordinate.value import Coordination
from binlog_merge.pipeline.gather.task import gather
from binlog_merge.pipeline.gather.values import GatherResult, GatherTask, InputFile, Schemas
from binlog_merge.pipeline.order.cutting import Cut
from binlog_merge.pipeline.order.driver import Ordered
from binlog_merge.pipeline.scan.carriers import POLARDBX
from binlog_merge.reshape.target_keys import TargetKeys, given_apart
from binlog_merge.values.convert.cells import ReshapeOptions
from snapshot_store.history import SchemaHistory
from snapshot_store.tso import ORIGIN, OrderKey

if TYPE_CHECKING:
    from binlog_merge.filters.filter import FilterSettings
    from binlog_merge.pipeline.gather.filtering import OutputFilter
    from binlog_merge.pipeline.gather.writeset_history import OpenHistory
    from binlog_merge.reshape.writesets import History

_LOG = logging.getLogger(__name__)


def key_after_last(key: OrderKey | None, holds: Holds | None) -> OrderKey:
    """Return the least key after the last transaction written, at which the next run continues."""
    return key_after(key if key is None or holds is None else place_of(key).key)


def written_to(written: Sequence[GatherResult], holds: Holds | None) -> OrderKey | None:
    """Return the key below which everything was written before the last file failed, None if nothing was.

    With holds, a place of which part is missing counts as not written.
    """
    last = next((g.last_key for g in reversed(written) if g.last_key is not None), None)
    if last is None:
        return None
    missing = written[-1].failed
    if holds is not None and missing is not None and place_of(missing).key == place_of(last).key:
        return place_of(last).key
    return key_after_last(last, holds)


def gather_files(
    job: Job,
    inputs: Inputs,
    coordination: Coordination,
    ordered: Ordered,
    cuts: Sequence[Cut],
    history: "OpenHistory | None" = None,
    target: TargetKeys | None = None,
) -> list[GatherResult]:
    """Write the output files under temporary names and return the result of each, in order.

    `history` is that of the open file, if this process has it; `target` has the tables of which a target may hold other
    keys, found if it is None.
    """
    state = inputs.manifest.state
    open_file = state.open_file
    number = state.next_number - (open_file is not None)
    files = input_files(inputs)
    target = target_keys(job, inputs, coordination) if target is None else target
    schemas = replace(schemas_of(job, inputs, coordination), target=target)
    ddl = {d.key: d for d in coordination.ddl}
    tasks = [
        gather_task(
            job, inputs, schemas, ddl, files, rows, number + i, open_file if rows.goes_on else None, i + 1 < len(cuts)
        )
        for i, rows in enumerate(cuts)
    ]
    if job.config.output.dependencies == "writeset":
        tasks = [
            replace(
                task, writesets=True, history=_history(job, inputs, open_file, history, target) if task.begins else None
            )
            for task in tasks
        ]
    size = sum(part.bytes for part in ordered.parts)
    with job.stage("gather", len(tasks), size, sum(part.rows for part in ordered.parts)):
        gathered = job.runner(size).run("gather", gather, tasks) if tasks else []
        gathered = [_taken(task, result) for task, result in zip(tasks, gathered, strict=True)]
    for result in gathered:
        values = {
            "file": result.name,
            "size": result.size,
            "transactions": result.transactions,
            "events": result.events,
        }
        more = {"ddl": result.ddl, "rows_reshaped": result.reshaped, "error": (result.error or {}).get("code")}
        _LOG.debug("file written", extra={**values, **more})
    return gathered


def target_keys(job: Job, inputs: Inputs, coordination: Coordination) -> TargetKeys:
    """Return the tables of which a target may hold other keys than the schema history; none by commit order."""
    if job.config.output.dependencies != "writeset":
        return TargetKeys()
    last = inputs.manifest.state.last
    known = TargetKeys.of_state({} if last is None else last.state)
    floor = ORIGIN if last is None else OrderKey.parse(last.state["floor"])
    known = known.then(given_apart(coordination.history, floor))
    chosen = _output_filter(job.filter, coordination.history)
    if chosen is not None:
        for ddl in sorted(coordination.ddl, key=lambda ddl: ddl.key):
            known = known.then(chosen.apart(ddl, known))
    return known


def _history(
    job: Job, inputs: Inputs, file: OutputFile | None, known: "OpenHistory | None", target: TargetKeys
) -> "History | None":
    """Return the history of the open file that goes on, made again from its bytes if nobody has it."""
    from binlog_merge.pipeline.gather.writeset_history import history_of_file, noted

    if file is None:
        return None
    if known is not None and (history := known.of(file)) is not None:
        return history
    before, filtered = None, job.filter is not None
    if (elsewhere := inputs.manifest.elsewhere) is not None:
        before = noted(file, elsewhere.remembered(file))
        elsewhere.fill(file, 0 if before is None else before.size)
    return history_of_file(job.directory / file.name, file, job.directory / STORE_NAME, target, filtered, before)


def _taken(task: GatherTask, result: GatherResult) -> GatherResult:
    """Return a result whose file is here, unless it is in the store for good."""
    if task.away is None or result.part is None:
        return result
    path = f"{task.path}.{task.name}"
    take_part(task.away, result.part, Path(path), result.size - task.begins)
    return replace(result, path=path)


def input_files(inputs: Inputs) -> dict[tuple[int, int], InputFile]:
    """Return the nodes' files by number of the node and index."""
    found = ((n.number, i, f) for n in inputs.nodes for i, f in enumerate(n.files))
    return {(node, i): InputFile(f.known, f.checksum_alg == 1) for node, i, f in found}


def schemas_of(job: Job, inputs: Inputs, coordination: Coordination) -> Schemas:
    """Return the schemas by which transactions are rendered."""
    return Schemas(
        coordination.history,
        coordination.topology,
        job.config.schemas.not_understood == "opaque",
        reshape=ReshapeOptions(job.config.reshape.on_unconvertible, job.config.reshape.offset),
        places=coordination.places,
        polardbx=inputs.carrier == POLARDBX,
        modes=coordination.modes,
        holds=coordination.holds,
        filter=_output_filter(job.filter, coordination.history),
    )


def _output_filter(settings: "FilterSettings | None", history: SchemaHistory) -> "OutputFilter | None":
    if settings is None:
        return None
    from binlog_merge.pipeline.gather.filtering import OutputFilter  # imports DuckDB

    return OutputFilter(settings, history)


def gather_task(
    job: Job,
    inputs: Inputs,
    schemas: Schemas,
    ddl: Mapping[OrderKey, LogicalDdl],
    files: Mapping[tuple[int, int], InputFile],
    rows: Cut,
    number: int,
    goes_on: OutputFile | None,
    closes: bool,
) -> GatherTask:
    """Return the task that renders `rows` as the output file with this number."""
    basename = job.config.output.basename
    name = file_name(basename, number)
    elsewhere = None if job.engine.exchange.shared else inputs.manifest.elsewhere
    return GatherTask(
        name=name,
        path=job.written,
        begins=goes_on.size if goes_on is not None else 0,
        head=inputs.head,
        runs=tuple(rows.runs),
        rank=rows.rank,
        sequence=goes_on.sequence_number + 1 if goes_on is not None else 1,
        last_timestamp=int(goes_on.state["last_timestamp"]) if goes_on is not None else 0,
        next_name=file_name(basename, number + 1) if closes else None,
        nodes={n.number: n.source_id for n in inputs.nodes},
        files=files,
        schemas=schemas,
        ddl=ddl,
        hints=inputs.carrier == POLARDBX,
        check_rows=job.config.check_rows == "always",
        key_doubts=job.config.key_doubts == "warn",
        away=None if elsewhere is None else Away(str(job.store), job.attempt, elsewhere.head),
    )
