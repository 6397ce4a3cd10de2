"""A run's DDL that no marker takes up: where it stops the merge, what is to be said of it, and what the next run must
know.

A cluster that has never shown a marker may have none: then the first DDL that changes rows stops the merge, before it.
In one that has, a coordinator may have forgotten one: then a warning says what becomes of the rows, as soon as the
marker is overdue (`markers.overdue`) and where the input ends. PolarDB-X tells of each of its jobs by itself.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.modes import Modes
from binlog_merge.config.sections import Markers
from binlog_merge.config.topologies import topology_of
from binlog_merge.errors import UnannouncedDdl
from binlog_merge.pipeline.base.bound import GREATEST_KEY, Bound
from binlog_merge.pipeline.base.filter_settings import filter_settings
from binlog_merge.pipeline.base.state import Inputs, Job
from binlog_merge.pipeline.coordinate.histories import Applied
from binlog_merge.pipeline.coordinate.marker.driver import ClusterView
from binlog_merge.pipeline.coordinate.marker.unannounced import Change, Name, alike, changes_of, consequence, taken_up
from binlog_merge.pipeline.coordinate.shards.driver import modes_of
from binlog_merge.pipeline.coordinate.touched import Line
from snapshot_store.errors import AmbiguousRoute
from snapshot_store.history import SchemaHistory, TableVersion
from snapshot_store.tso import LOGICAL_BITS, ORIGIN, OrderKey

if TYPE_CHECKING:
    from binlog_merge.filters.filter import Filter

Shards = Callable[[], Collection[tuple[str, Name]]]
"""The physical tables that there are, of all nodes."""


Applications = Sequence[tuple[str, Applied]]
"""What nodes ran, each with the node's name."""


@dataclass(frozen=True)
class Announced:
    """What a run that compares nodes' DDL with markers begins with.

    `kept` are changes of earlier runs that no marker has taken up, `seen` tells whether they saw any marker. `begins`
    is the key from which on transactions come out: what rows went away before it is not this log's. `partial`: the run
    is to stop somewhere, so that markers may well stand behind.
    """

    markers: Markers
    modes: Modes
    begins: OrderKey
    kept: tuple[Change, ...] = ()
    seen: bool = False
    active: bool = True
    partial: bool = False
    filter: "Filter | None" = None

    def lines(self) -> set[Line]:
        """Return the lines of history that earlier runs' changes need."""
        lines: set[Line] = {(c.node, *c.table) for c in self.kept}
        return lines | {(None, *c.logical) for c in self.kept}

    def logical(self, node: str, schema: str, table: str) -> Name | None:
        """Return the logical table of a physical one; None if it does not come out, or is not for markers to tell."""
        with suppress(AmbiguousRoute):  # whoever routes the rows says so
            name = self.modes.topology.logical_name(node, schema, table)
            if name is None or self.modes.of(node, schema, table) != "marker":
                return None
            if self.filter is not None and self.filter.table(*name).action != "Do":
                return None
            return name
        return None

    def _changes(self, applied: Applications, history: SchemaHistory) -> list[Change]:
        """Return all changes that a marker must tell of, in order; what went away before the log begins is none."""
        found = list(self.kept)
        for node, one in applied:
            for change in changes_of(node, one, self.logical, history):
                if change.kind == "shape" or change.key >= self.begins:
                    found.append(change)
        return sorted(dict.fromkeys(found), key=lambda c: (c.key, c.node, c.table))

    def unheard(
        self, applied: Applications, history: SchemaHistory, limit: OrderKey, shards: Shards
    ) -> tuple[Bound, str] | None:
        """Return the first change below the limit, where no marker has ever been seen, and what is held back for it.
        There is no error yet where more may come and the marker is not overdue.
        """
        if self.markers.missing == "warn":
            return None
        changes = [c for c in self._changes(applied, history) if c.key < limit]
        change = next((c for c in changes if not taken_up(c, history, GREATEST_KEY)), None)
        if change is None:
            return None
        there = history.at(*change.logical, change.key)
        where = ".".join(change.logical)
        text = (
            f"{change.sql[:200]!r} changes {'rows of ' if there is not None else ''}{where}, and no marker has ever "
            f"been seen that would say when the logical table does: {_behind(change, history)}"
        )
        error = UnannouncedDdl(text, node=change.node, file=change.file, position=change.position, order_key=change.key)
        if limit == GREATEST_KEY or self._overdue(change, changes, limit, shards):
            return Bound(change.key, error), text
        held = f"{change.where}: {text}; what stands behind it is held back until a marker comes"
        return Bound(change.key), held

    def untold(
        self, applied: Applications, history: SchemaHistory, limit: OrderKey, shards: Shards
    ) -> tuple[list[str], list[Change]]:
        """Return warnings of the changes that nothing takes up below the limit, and those that the next run looks at
        again.
        """
        changes = [c for c in self._changes(applied, history) if c.key < limit]
        left = [c for c in changes if not taken_up(c, history, limit)]
        told = [c for c in left if limit == GREATEST_KEY or self._overdue(c, left, limit, shards)]
        # Rows are reshaped run by run; what is gone is gone once.
        pending = [c for c in left if c.kind == "shape" or c not in told]
        said = dict[tuple[Name, str, str], list[Change]]()
        for change in told:
            said.setdefault((change.logical, change.kind, change.like), []).append(change)
        return [_warning(same, history, limit) for same in said.values()], pending

    def _overdue(self, change: Change, changes: Sequence[Change], limit: OrderKey, shards: Shards) -> bool:
        """Tell whether the marker of a change is overdue where everything below `limit` is known."""
        if self.partial:
            return False
        overdue = self.markers.overdue
        if overdue is None:
            return alike(change, changes, [s for s in shards() if self.logical(s[0], *s[1]) == change.logical])
        distance = (limit.commit_tso >> LOGICAL_BITS) - (change.key.commit_tso >> LOGICAL_BITS)
        return distance * 1000 > overdue

    def state(self, seen: bool, pending: Sequence[Change], next_floor: OrderKey) -> dict[str, Any]:
        """Return what the next run must know; nothing where all is as in every cluster with markers."""
        if not self.active:
            return {}
        kept = [c.to_json() for c in pending if c.key < next_floor]
        return {"markers": seen, **({"unannounced": kept} if kept else {})}


def announced_of(job: Job, inputs: Inputs, cluster: ClusterView, floor: OrderKey) -> Announced:
    """Return what a run begins with."""
    last = inputs.manifest.state.last
    state = {} if last is None else last.state
    modes = modes_of(job.config, topology_of(job.config))
    by_marker = {job.config.shard_mode, *(modes.routes.values())} & {"marker"}
    return Announced(
        job.config.markers,
        modes,
        ORIGIN if last is not None else floor,
        tuple(Change.from_json(values) for values in state.get("unannounced", ())),
        active=bool(by_marker) and not cluster.polardbx and not cluster.by_markers,
        partial=job.stop_tso is not None,
        # Outputs begun before this was noted went on over everything.
        seen=bool(state.get("markers", last is not None)),
        filter=_filter(job.config),
    )


def _filter(config: MergeConfig) -> "Filter | None":
    settings = filter_settings(config.filter)
    if settings is None:
        return None
    from binlog_merge.filters.filter import Filter  # imports DuckDB

    return Filter(settings)


def physical_tables(known: Iterable[tuple[str, Name]], coming: Iterable[TableVersion]) -> set[tuple[str, Name]]:
    """Return the tables of nodes that there are, from those known before and what this run adds."""
    found = set(known)
    for version in sorted((v for v in coming if v.node is not None), key=lambda v: v.key):
        one = (version.node or "", (version.schema, version.name))
        if version.table is None and not version.opaque:
            found.discard(one)
        else:
            found.add(one)
    return found


def _behind(change: Change, history: SchemaHistory) -> str:
    behind = change.key._replace(node_seq=change.key.node_seq + 1)
    return f"without one, {consequence(change, history, behind)}"


def _warning(same: Sequence[Change], history: SchemaHistory, limit: OrderKey) -> str:
    first = same[0]
    name, more = ".".join(first.logical), f" (and {len(same) - 1} more)" if len(same) > 1 else ""
    return (
        f"{name}: no marker tells of {first.sql[:200]!r} ({first.where}){more}: "
        f"{consequence(first, history, limit)}. If the nodes write no markers, set shard-mode; if this one was "
        f"forgotten, say what the table is: `binlog-merge schema set {name} --sql FILE --store OUT --at-tso KEY`, or "
        "have the marker written"
    )
