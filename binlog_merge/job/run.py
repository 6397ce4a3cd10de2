"""The merge, stage by stage.

    discover → scan → assemble → coordinate → order → cut → gather → publish

Whatever stops a stage lowers the *limit*, the key up to which everything is understood; what lies below it is still
merged and published, then the error is raised. So the output is always a valid prefix, and a run after the cause is
removed goes on there.
"""

from collections.abc import Sequence
from pathlib import Path

from binlog_merge.config import MergeConfig
from binlog_merge.errors import LateTransaction, MergeError
from binlog_merge.files.lock import OutputLock
from binlog_merge.files.publish import output_directory
from binlog_merge.job.announced import announced_of
from binlog_merge.job.beginning import begin
from binlog_merge.job.bound import GREATEST_KEY, Bound
from binlog_merge.job.cluster import ClusterWork
from binlog_merge.job.gathering import behind, gather_files, written_to
from binlog_merge.job.limits import floor_of, limits_of, merged_to
from binlog_merge.job.nodes import ScannedNode, check_late
from binlog_merge.job.ordering import Ordered, order_all
from binlog_merge.job.publishing import publish_run
from binlog_merge.job.result import MergeResult
from binlog_merge.job.runner import Runner
from binlog_merge.job.scanning import scan_nodes
from binlog_merge.job.schemas import SchemaWork
from binlog_merge.job.shards import ShardWork
from binlog_merge.job.sightings import read_markers
from binlog_merge.job.state import Job, Progress
from binlog_merge.job.stores import SchemaStore
from binlog_merge.job.summary import result_of
from binlog_merge.merge.carriers import BY_TIME, POLARDBX
from binlog_merge.merge.render import version_number
from binlog_merge.merge.without_tso import check_ordered, check_without_tso, still_without
from binlog_merge.topologies import topology_of


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
) -> MergeResult:
    """Merge what the nodes have written into `out`, going on where its manifest ends.

    Raises MergeError; when something was published before the stop, its `result` says what.
    """
    directory = output_directory(out)
    with OutputLock(directory):
        silent: Progress = lambda stage, done, total: None  # noqa: E731
        job = Job(runner, config, directory, start_tso, stop_tso, end_of_input, partitions, progress or silent)
        try:
            return _run(job)
        finally:
            job.clear_work()


def _run(job: Job) -> MergeResult:
    with job.stage("discover"):
        inputs = begin(job)
    scanned = scan_nodes(job, inputs)
    floor = floor_of(job, inputs)
    if inputs.carrier not in (POLARDBX, BY_TIME):
        check_without_tso({n.source_id: n.without_tso for n in scanned})
        _check_order(job, scanned)
    with job.stage("coordinate"):
        store = SchemaStore(job.config, job.directory, inputs.manifest)
        merged = merged_to(inputs)
        markers = [read_markers(node, job.config.markers.tables(), merged) for node in scanned]
        cluster = ClusterWork(
            job.config, scanned, inputs.nodes, merged, inputs.carrier == POLARDBX, topology_of(job.config),
            job.directory, markers,
        )  # fmt: skip
        shards = ShardWork(job.config, topology_of(job.config), merged, job.directory)
        announced = announced_of(job, inputs, cluster, floor)
        work = SchemaWork(job.config, store, scanned, inputs.nodes, merged, cluster, shards, announced, markers)
        limits = limits_of(job, scanned, cluster, floor)
        job.warnings += limits.warnings
        bound, watermarks = limits.bound, limits.watermarks
        if shards.active and bound.key != GREATEST_KEY:
            # Events that differ in nothing but their nodes are of one run.
            bound = Bound(bound.key._replace(node_seq=0), bound.error)
        gone = {n.source_id for n in scanned if cluster.bound(n, watermarks[n.source_id]) is None}
        for node in scanned:
            if node.source_id not in gone:
                check_late(node, floor)
        coordination = work.coordinate(bound.key, version_number(inputs.header.server_version))
        job.warnings += coordination.notes
        bound = min(bound, coordination.bound)
    ordered = order_all(job, inputs, scanned, coordination, floor, bound.key)
    _check_late(scanned, ordered)
    gathered = gather_files(job, inputs, coordination, ordered)
    while (failed := next((g for g in gathered if g.error is not None), None)) is not None:
        assert failed.error is not None
        gathered = gathered[: gathered.index(failed) + 1]
        bound = Bound(written_to(gathered, coordination.holds) or floor, MergeError.from_dict(failed.error))
        if coordination.holds is None:
            break
        # What comes out at one place comes out in one run, and with another limit other rows wait.
        ordered = order_all(job, inputs, scanned, coordination, floor, bound.key)
        gathered = gather_files(job, inputs, coordination, ordered)
    with job.stage("publish"):
        kept = [g for g in gathered if g.size and (g.last_key is not None or g.closed)]
        believed = sorted({said for g in kept for said in g.believed})
        job.warnings += [f"the table map is believed, not the schema history: {said}" for said in believed]
        last_key = next((g.last_key for g in reversed(kept) if g.last_key is not None), None)
        next_floor = max(floor, bound.key if bound.key != GREATEST_KEY else behind(last_key, coordination.holds))
        versions = work.save(coordination, bound, next_floor)
        cluster.keep(next_floor)
        shards.keep(next_floor, bound.key, ordered.waiting)
        known = announced.keep(next_floor)
        publish_run(
            job, inputs, scanned, coordination, kept, next_floor, bound.key, versions, ordered.waiting_files, known
        )
    result = result_of(job, inputs, scanned, coordination, ordered, kept, watermarks, bound.key, gone)
    if bound.error is not None:
        bound.error.result = result
        raise bound.error
    return result


def _check_order(job: Job, scanned: Sequence[ScannedNode]) -> None:
    """Raise MissingCommitTso, or warn where more may come, if nothing says in which order the nodes committed.

    A log that could not be read to its end says nothing of it: what stands behind the damage may carry the TSO.
    """
    greatest = {n.source_id: n.carry.max_tso for n in scanned}
    without = {n.source_id: n.carry.seq for n in scanned}
    if job.end_of_input and all(n.error is None for n in scanned):
        check_ordered(greatest, without)
    else:
        job.warnings += still_without(greatest, without)


def _check_late(scanned: Sequence[ScannedNode], ordered: Ordered) -> None:
    """Raise LateTransaction if a transaction stands below what is published, whatever its node's log said before."""
    late = next((r.late for r in ordered.parts if r.late is not None), None)
    if late is not None:
        key, number, file_index, position = late
        source = next(n for n in scanned if n.input.number == number)
        raise LateTransaction(
            "a transaction stands below the published watermark",
            node=source.source_id, file=source.input.files[file_index].path, position=position, order_key=key,
        )  # fmt: skip
