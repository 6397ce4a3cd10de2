"""The coordinate stage as a run calls it: the range that is merged, and the nodes' DDL and markers within it.

The range begins at a floor, where earlier runs ended, and ends at the bound below which the input is final. An error
lowers the bound, and what lies below it is right: see `pipeline.run`.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from binlog_merge.binlog.constants import version_number
from binlog_merge.config.merge_config import topology_of
from binlog_merge.errors import ConfigError
from binlog_merge.pipeline.assemble.nodes import ScannedNode, check_late, first_lost
from binlog_merge.pipeline.assemble.order_faults import (
    check_clocks,
    check_ordered,
    check_without_tso,
    split_transactions,
    still_without,
    tso_conflict,
)
from binlog_merge.pipeline.assemble.several_tsos import with_several_tsos
from binlog_merge.pipeline.assemble.undecided import undecided
from binlog_merge.pipeline.base.branches import Hash
from binlog_merge.pipeline.base.state import GREATEST_KEY, Bound, Inputs, Job
from binlog_merge.pipeline.coordinate.driver import CoordinationInput, CoordinationReader, coordinate
from binlog_merge.pipeline.coordinate.marker.announced import announced_of
from binlog_merge.pipeline.coordinate.marker.driver import ClusterView, cluster_view, read_note
from binlog_merge.pipeline.coordinate.marker.sightings import read_markers
from binlog_merge.pipeline.coordinate.read_again import ddl_of
from binlog_merge.pipeline.coordinate.shards.driver import read_shards
from binlog_merge.pipeline.coordinate.stores import SchemaCache, SchemaStore
from binlog_merge.pipeline.coordinate.value import Coordination
from binlog_merge.pipeline.scan.carriers import BY_TIME, POLARDBX
from binlog_merge.pipeline.values import Run
from snapshot_store.tso import ORIGIN, OrderKey

_LOG = logging.getLogger(__name__)


def coordinate_nodes(job: Job, inputs: Inputs, scanned: Sequence[ScannedNode], schemas: SchemaCache) -> Run:
    """Find the floor and the bound of the run, and apply the nodes' DDL and markers below it.

    `schemas` is what earlier rounds have read of the schema store. Raises MergeError for what has no place in the
    order.
    """
    floor = floor_of(job, inputs)
    if inputs.carrier not in (POLARDBX, BY_TIME):
        check_without_tso({n.source_id: n.without_tso for n in scanned})
        _check_order(job, scanned)
    with job.stage("coordinate"):
        return _coordinate(job, inputs, scanned, floor, schemas)


def _coordinate(job: Job, inputs: Inputs, scanned: Sequence[ScannedNode], floor: OrderKey, schemas: SchemaCache) -> Run:
    config, merged, last = job.config, merged_to(inputs), inputs.manifest.state.last
    routes = topology_of(config)
    markers = [read_markers(node, config.markers.tables(), routes, merged) for node in scanned]
    ends = {n.source_id: n.watermark(config.commit_tso.max_disorder) for n in scanned}
    polardbx = inputs.carrier == POLARDBX
    numbers = [(n.number, n.source_id) for n in inputs.nodes]
    kept = read_note(job.directory, merged, schemas) if polardbx else {}
    cluster = cluster_view(config, polardbx, numbers, kept, markers, ends)
    shards = read_shards(config, merged, job.directory, schemas)
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
    store = SchemaStore(config, job.directory, inputs.manifest, schemas)
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


def merged_to(inputs: Inputs) -> OrderKey:
    """Return the key below which earlier runs have merged everything."""
    last = inputs.manifest.state.last
    return ORIGIN if last is None else OrderKey.parse(last.state["floor"])


def floor_of(job: Job, inputs: Inputs) -> OrderKey:
    """Return the lowest key that this run may write. Raises ConfigError if `--start-tso` differs from that of the first
    run.
    """
    last = inputs.manifest.state.last
    if last is None:
        return OrderKey(job.start_tso, 0, 0, 0) if job.start_tso is not None else ORIGIN
    begun_with = last.state.get("start_tso")
    if job.start_tso is not None and begun_with != job.start_tso:
        raise ConfigError(
            f"--start-tso {job.start_tso}, but this output was begun with {begun_with}",
            remedy="leave --start-tso out, or choose another --merged",
        )
    return merged_to(inputs)


@dataclass(frozen=True, slots=True)
class Limits:
    """The bound below which the input is final, and each node's watermark (None: the node has shown no commit TSO)."""

    bound: Bound
    watermarks: Mapping[str, OrderKey | None]
    warnings: tuple[str, ...] = ()


def limits_of(job: Job, scanned: Sequence[ScannedNode], cluster: ClusterView, floor: OrderKey) -> Limits:
    """Compute the bound of a run from watermarks, XA COMMITs whose TSO may still arrive, damage and conflicts."""
    settings = job.config.commit_tso
    watermarks = {n.source_id: n.watermark(settings.max_disorder, settings.max_step_back) for n in scanned}
    lowered, warnings = dict[str, OrderKey](), list[str]()
    if cluster.polardbx:
        there = [n for n in scanned if cluster.bound(n.source_id, watermarks[n.source_id]) is not None]
        more = not job.end_of_input or any(n.error is not None for n in scanned)
        waiting = undecided(there) if more else {}
        lowered = {name: key for name, (key, _) in waiting.items()}
        watermarks = {name: _least(key, lowered.get(name)) for name, key in watermarks.items()}
        warnings += split_transactions(_never_decided(scanned, waiting))
    stepped, clock_warnings = check_clocks(scanned, job.config.commit_tso, floor)
    open_ended = [n for n in scanned if not job.end_of_input or n.error is not None]
    keys = [cluster.bound(n.source_id, watermarks[n.source_id]) or GREATEST_KEY for n in open_ended]
    keys += [] if job.stop_tso is None else [OrderKey(job.stop_tso, 0, 0, 0)]
    end = min([*keys, *lowered.values()], default=GREATEST_KEY)
    conflict = None
    if not any(n.by_time for n in scanned):
        conflict = tso_conflict(scanned, with_several_tsos(job, scanned), cluster.polardbx, floor)
    bound = min(
        Bound(end, next((n.error for n in scanned if n.error is not None), None)),
        stepped,
        Bound.of(conflict),
        Bound.of(first_lost(scanned, floor)),
    )
    return Limits(bound, watermarks, (*warnings, *clock_warnings))


def _least(watermark: OrderKey | None, key: OrderKey | None) -> OrderKey | None:
    """Return the lower of a watermark and a key, either of which may be missing."""
    return watermark if key is None else min(watermark or key, key)


def _never_decided(
    scanned: Sequence[ScannedNode], waiting: Mapping[str, tuple[OrderKey, frozenset[Hash]]]
) -> dict[str, list[tuple[Hash, int]]]:
    """Return, by node, the XA COMMITs whose TSO can no longer arrive: all without a TSO except those in `waiting`."""
    still = {name: gtrids for name, (_, gtrids) in waiting.items()}
    return {
        n.source_id: [(gtrid, at) for gtrid, at in n.without_tso if gtrid not in still.get(n.source_id, ())]
        for n in scanned
    }
