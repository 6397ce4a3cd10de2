"""From which key on transactions come out, and up to which everything is final."""

from collections.abc import Mapping, Sequence

from binlog_merge.errors import ConfigError, MergeError
from binlog_merge.job.clocks import check_clocks
from binlog_merge.job.cluster import ClusterWork
from binlog_merge.job.conflicts import tso_conflict
from binlog_merge.job.nodes import ScannedNode, first_lost
from binlog_merge.job.state import GREATEST_KEY, Inputs, Job
from binlog_merge.job.undecided import undecided
from binlog_merge.merge.branches import Hash
from binlog_merge.merge.without_tso import split_transactions
from snapshot_store.tso import ORIGIN, OrderKey


def merged_to(inputs: Inputs) -> OrderKey:
    """Return the key before which earlier runs have merged everything."""
    last = inputs.manifest.state.last
    return ORIGIN if last is None else OrderKey.parse(last.state["floor"])


def floor_of(job: Job, inputs: Inputs) -> OrderKey:
    """Return the key from which on transactions come out."""
    last = inputs.manifest.state.last
    if last is None:
        return OrderKey(job.start_tso, 0, 0, 0) if job.start_tso is not None else ORIGIN
    begun_with = last.state.get("start_tso")
    if job.start_tso is not None and begun_with != job.start_tso:
        raise ConfigError(
            f"--start-tso {job.start_tso}, but this output was begun with {begun_with}",
            remedy="leave --start-tso out, or choose another --out",
        )
    return merged_to(inputs)


def limit_of(
    job: Job, scanned: Sequence[ScannedNode], cluster: ClusterWork, floor: OrderKey
) -> tuple[OrderKey, dict[str, OrderKey | None], list[MergeError | None]]:
    """Return the key below which everything is final, the nodes' watermarks, and the errors that lower it."""
    watermarks = {n.source_id: n.watermark(job.config.commit_tso.max_disorder) for n in scanned}
    waiting = _waiting(job, scanned, cluster, watermarks) if cluster.polardbx else {}
    errors: list[MergeError | None] = [n.error for n in scanned if n.error is not None]
    limit = GREATEST_KEY
    stepped = check_clocks(scanned, job.config.commit_tso, floor, job.warnings)
    for node in scanned:
        if job.end_of_input and node.error is None:
            continue
        limit = min(limit, cluster.bound(node, watermarks[node.source_id]) or GREATEST_KEY)
    limit = min([limit, *waiting.values()])
    if job.stop_tso is not None:
        limit = min(limit, OrderKey(job.stop_tso, 0, 0, 0))
    conflict = None if any(n.by_time for n in scanned) else tso_conflict(scanned, cluster.polardbx, floor)
    for error in (stepped, conflict, first_lost(scanned, floor)):
        if error is not None and error.order_key is not None and OrderKey.parse(error.order_key) < limit:
            limit, errors = OrderKey.parse(error.order_key), [error]
    return limit, watermarks, errors


def _waiting(
    job: Job, scanned: Sequence[ScannedNode], cluster: ClusterWork, watermarks: dict[str, OrderKey | None]
) -> Mapping[str, OrderKey]:
    """Lower the watermarks of nodes that have XA COMMITs whose TSO may still come, and return to what; warn of those
    for which none will.
    """
    found: Mapping[str, tuple[OrderKey, frozenset[Hash]]] = {}
    if not job.end_of_input or any(n.error is not None for n in scanned):
        found = undecided([n for n in scanned if cluster.bound(n, watermarks[n.source_id]) is not None])
    for name, (key, _) in found.items():
        watermarks[name] = min(watermarks[name] or key, key)
    without = {
        n.source_id: [one for one in n.without_tso if n.source_id not in found or one[0] not in found[n.source_id][1]]
        for n in scanned
    }
    job.warnings += split_transactions(without)
    return {name: key for name, (key, _) in found.items()}
