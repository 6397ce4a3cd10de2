"""What a run knows before it writes: its nodes scanned, its DDL understood, its transactions in order.

    scan → assemble → coordinate (`understand`) → order (`put_in_order`)

An error lowers the run's bound, and what lies below it is right: see `pipeline.run`.
"""

import logging
from collections.abc import Sequence

from binlog_merge.binlog.version import version_number
from binlog_merge.config.topologies import topology_of
from binlog_merge.errors import LateTransaction
from binlog_merge.pipeline.assemble.driver import scan_nodes
from binlog_merge.pipeline.assemble.nodes import ScannedNode, check_late
from binlog_merge.pipeline.assemble.without_tso import check_ordered, check_without_tso, still_without
from binlog_merge.pipeline.base.bound import GREATEST_KEY, Bound
from binlog_merge.pipeline.base.state import Inputs, Job
from binlog_merge.pipeline.between import Between
from binlog_merge.pipeline.coordinate.driver import CoordinationInput, CoordinationReader, coordinate
from binlog_merge.pipeline.coordinate.marker.announced import announced_of
from binlog_merge.pipeline.coordinate.marker.driver import cluster_view, read_note
from binlog_merge.pipeline.coordinate.marker.sightings import read_markers
from binlog_merge.pipeline.coordinate.read_again import ddl_of
from binlog_merge.pipeline.coordinate.shards.driver import read_shards
from binlog_merge.pipeline.coordinate.stores import SchemaStore
from binlog_merge.pipeline.coordinate.value import Coordination
from binlog_merge.pipeline.limits import floor_of, limits_of, merged_to
from binlog_merge.pipeline.order.driver import Ordered, order_all
from binlog_merge.pipeline.scan.carriers import BY_TIME, POLARDBX
from binlog_merge.pipeline.values import Run
from snapshot_store.tso import ORIGIN, OrderKey

_LOG = logging.getLogger(__name__)


def understand(job: Job, inputs: Inputs, between: Between) -> Run:
    """Scan the nodes' files and apply their DDL and markers. Raises MergeError for what has no place in the order."""
    scanned = scan_nodes(job, inputs, between.pieces)
    floor = floor_of(job, inputs)
    if inputs.carrier not in (POLARDBX, BY_TIME):
        check_without_tso({n.source_id: n.without_tso for n in scanned})
        _check_order(job, scanned)
    with job.stage("coordinate"):
        return _coordinate(job, inputs, scanned, floor, between)


def put_in_order(run: Run, limit: OrderKey) -> Ordered:
    """Order what comes out below a key. Raises LateTransaction for what stands below what is published."""
    ordered = order_all(run.job, run.inputs, run.scanned, run.coordination, run.floor, limit)
    _check_late(run.scanned, ordered)
    return ordered


def _coordinate(job: Job, inputs: Inputs, scanned: Sequence[ScannedNode], floor: OrderKey, between: Between) -> Run:
    """Find the bound of the run, and apply the nodes' DDL and markers below it."""
    config, merged, last = job.config, merged_to(inputs), inputs.manifest.state.last
    routes = topology_of(config)
    markers = [read_markers(node, config.markers.tables(), routes, merged) for node in scanned]
    ends = {n.source_id: n.watermark(config.commit_tso.max_disorder) for n in scanned}
    polardbx = inputs.carrier == POLARDBX
    numbers = [(n.number, n.source_id) for n in inputs.nodes]
    kept = read_note(job.directory, merged, between.schemas) if polardbx else {}
    cluster = cluster_view(config, polardbx, numbers, kept, markers, ends)
    shards = read_shards(config, merged, job.directory, between.schemas)
    announced = announced_of(job, inputs, cluster, floor)
    limits = limits_of(job, scanned, cluster, floor)
    job.warnings += limits.warnings
    bound = limits.bound
    if shards.active and bound.key != GREATEST_KEY:
        # Events whose keys differ only by node must come out in the same run.
        bound = Bound(bound.key._replace(node_seq=0), bound.error)
    gone = frozenset(n for n, watermark in limits.watermarks.items() if cluster.bound(n, watermark) is None)
    for node in scanned:
        if node.source_id not in gone:
            check_late(node, floor)
    done = {} if last is None else {n: OrderKey.parse(text) for n, text in last.state["ddl_done"].items()}
    known = CoordinationInput(
        config=config,
        server_version=version_number(inputs.header.server_version),
        floor=merged,
        nodes=tuple(n.source_id for n in inputs.nodes),
        joined=tuple(n.source_id for n in inputs.nodes if last is not None and n.source_id not in last.nodes),
        ddls={n.source_id: ddl_of(n, merged, done.get(n.source_id, ORIGIN), routes.folding) for n in scanned},
        done=done,
        markers=markers,
        cluster=cluster,
        shards=shards,
        announced=announced,
    )
    store = SchemaStore(config, job.directory, inputs.manifest, between.schemas)
    coordination = coordinate(known, CoordinationReader(store, scanned, routes), bound.key)
    job.warnings += coordination.notes
    _log_coordination(coordination, bound)
    return Run(
        job=job,
        inputs=inputs,
        scanned=scanned,
        known=known,
        store=store,
        floor=floor,
        watermarks=limits.watermarks,
        gone=gone,
        coordination=coordination,
        bound=min(bound, coordination.bound),
    )


def _log_coordination(coordination: Coordination, final: Bound) -> None:
    bound = min(final, coordination.bound)
    values = {"bound": None if bound.key == GREATEST_KEY else bound.key.text(), "ddl": len(coordination.ddl)}
    made = {"tables": len(coordination.new_tables), "locks": len(coordination.locks)}
    error = None if bound.error is None else bound.error.code
    _LOG.info("coordinated", extra={**values, **made, "error": error})


def _check_order(job: Job, scanned: Sequence[ScannedNode]) -> None:
    """Raise MissingCommitTso if no TSO gives the order between the nodes' commits; only warn while more input may come.

    A log that could not be read to its end only causes a warning too: the events after the damage may carry the TSO.
    """
    greatest = {n.source_id: n.carry.max_tso for n in scanned}
    without = {n.source_id: n.carry.seq for n in scanned}
    if job.end_of_input and all(n.error is None for n in scanned):
        check_ordered(greatest, without)
    else:
        job.warnings += still_without(greatest, without)


def _check_late(scanned: Sequence[ScannedNode], ordered: Ordered) -> None:
    """Raise LateTransaction if a transaction lies below what is published, even though its node's watermark had passed
    it.
    """
    late = next((r.late for r in ordered.parts if r.late is not None), None)
    if late is not None:
        key, number, file_index, position = late
        source = next(n for n in scanned if n.input.number == number)
        raise LateTransaction(
            "a transaction stands below the published watermark",
            node=source.source_id, file=source.input.files[file_index].path, position=position, order_key=key,
        )  # fmt: skip
