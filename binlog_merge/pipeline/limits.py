"""The range of order keys that a run merges: the floor it starts from, and the bound below which the input is final."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from binlog_merge.errors import ConfigError
from binlog_merge.pipeline.assemble.clocks import check_clocks
from binlog_merge.pipeline.assemble.conflicts import tso_conflict
from binlog_merge.pipeline.assemble.nodes import ScannedNode, first_lost
from binlog_merge.pipeline.assemble.undecided import undecided
from binlog_merge.pipeline.assemble.without_tso import split_transactions
from binlog_merge.pipeline.base.bound import GREATEST_KEY, Bound
from binlog_merge.pipeline.base.branches import Hash
from binlog_merge.pipeline.base.state import Inputs, Job
from binlog_merge.pipeline.coordinate.marker.driver import ClusterView
from snapshot_store.tso import ORIGIN, OrderKey


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
    conflict = None if any(n.by_time for n in scanned) else tso_conflict(scanned, cluster.polardbx, floor)
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
