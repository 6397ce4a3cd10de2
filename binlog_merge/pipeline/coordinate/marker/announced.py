"""Compares the nodes' DDL with markers: stops or warns if no marker takes up a DDL that changes rows.

A cluster that has never shown a marker may not write any: then the first DDL that changes rows stops the merge before
it. In a cluster with markers the coordinator may have forgotten one: then a warning says what happens to the rows, as
soon as the marker is overdue (`markers.overdue`) or the input ends. PolarDB-X announces each of its jobs, so it is not
checked.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from binlog_merge.config.merge_config import MergeConfig, topology_of
from binlog_merge.config.modes import Modes
from binlog_merge.config.sections import Markers
from binlog_merge.errors import UnannouncedDdl
from binlog_merge.pipeline.base.bound import GREATEST_KEY, Bound
from binlog_merge.pipeline.base.state import Inputs, Job, filter_settings, key_after
from binlog_merge.pipeline.coordinate.histories import Applied
from binlog_merge.pipeline.coordinate.marker.driver import ClusterView
from binlog_merge.pipeline.coordinate.marker.unannounced import Change, Name, alike, changes_of, consequence, taken_up
from binlog_merge.pipeline.coordinate.shards.driver import modes_of
from snapshot_store.errors import AmbiguousRoute
from snapshot_store.history import HistoryKey, SchemaHistory, TableVersion
from snapshot_store.tso import LOGICAL_BITS, ORIGIN, OrderKey

if TYPE_CHECKING:
    from binlog_merge.filters.filter import Filter

Shards = Callable[[], Collection[tuple[str, Name]]]
"""The nodes' physical tables that exist."""


Applications = Sequence[tuple[str, Applied]]
"""The DDL that nodes ran, each with the node's name."""


@dataclass(frozen=True)
class Announced:
    """The state with which a run compares the nodes' DDL with markers.

    `kept` are changes of earlier runs that no marker has taken up; `seen`: earlier runs saw a marker. `begins` is the
    lowest key of the output: rows that were removed before it do not concern this log. `partial`: the run stops early
    on request, so markers may follow.
    """

    markers: Markers
    modes: Modes
    begins: OrderKey
    kept: tuple[Change, ...] = ()
    seen: bool = False
    active: bool = True
    partial: bool = False
    filter: "Filter | None" = None

    def history_keys(self) -> set[HistoryKey]:
        """Return the history keys that earlier runs' changes need."""
        keys: set[HistoryKey] = {(c.node, *c.table) for c in self.kept}
        return keys | {(None, *c.logical) for c in self.kept}

    def logical(self, node: str, schema: str, table: str) -> Name | None:
        """Return the logical table of a physical one; None if it does not come out or is not coordinated by markers."""
        with suppress(AmbiguousRoute):  # routing the rows raises it
            name = self.modes.topology.logical_name(node, schema, table)
            if name is None or self.modes.of(node, schema, table) != "marker":
                return None
            if self.filter is not None and self.filter.table(*name).action != "Do":
                return None
            return name
        return None

    def _changes(self, applied: Applications, history: SchemaHistory) -> list[Change]:
        """Return all changes that a marker must announce, in order, without rows removed before the log begins."""
        found = list(self.kept)
        for node, ddl in applied:
            for change in changes_of(node, ddl, self.logical, history):
                if change.kind == "shape" or change.key >= self.begins:
                    found.append(change)
        return sorted(dict.fromkeys(found), key=lambda c: (c.key, c.node, c.table))

    def first_unannounced(
        self, applied: Applications, history: SchemaHistory, limit: OrderKey, shards: Shards
    ) -> tuple[Bound, str] | None:
        """Return the bound at the first change below the limit, in a cluster without any marker so far, and a message
        about it.

        The bound has no error yet if more input may come and the marker is not overdue. None if there is no such
        change.
        """
        if self.markers.missing == "warn":
            return None
        changes = [c for c in self._changes(applied, history) if c.key < limit]
        change = next((c for c in changes if not taken_up(c, history, GREATEST_KEY)), None)
        if change is None:
            return None
        version = history.at(*change.logical, change.key)
        where = ".".join(change.logical)
        text = (
            f"{change.sql[:200]!r} changes {'rows of ' if version is not None else ''}{where}, and no marker has ever "
            "been seen that would say when the logical table does: without one, "
            f"{consequence(change, history, key_after(change.key))}"
        )
        error = UnannouncedDdl(text, node=change.node, file=change.file, position=change.position, order_key=change.key)
        if limit == GREATEST_KEY or self._overdue(change, changes, limit, shards):
            return Bound(change.key, error), text
        held = f"{change.where}: {text}; what stands behind it is held back until a marker comes"
        return Bound(change.key), held

    def unannounced(
        self, applied: Applications, history: SchemaHistory, limit: OrderKey, shards: Shards
    ) -> tuple[list[str], list[Change]]:
        """Return warnings about changes that no marker takes up below the limit, and the changes to check again in the
        next run.
        """
        changes = [c for c in self._changes(applied, history) if c.key < limit]
        open_ = [c for c in changes if not taken_up(c, history, limit)]
        overdue = [c for c in open_ if limit == GREATEST_KEY or self._overdue(c, open_, limit, shards)]
        # Rows are reshaped in every run, but removed only once.
        told = [c for c in overdue if c.kind == "shape" or not c.warned]
        warnings = [_warning(same, history, limit) for same in _groups(told)]
        taken = [c for c in changes if c.warned and c not in open_]
        warnings += [_taken_back(same) for same in _groups(taken)]
        pending = [replace(c, warned=True) if c in overdue else c for c in open_]
        return warnings, _without_earlier(pending)

    def _overdue(self, change: Change, changes: Sequence[Change], limit: OrderKey, shards: Shards) -> bool:
        """Return whether the marker of a change is overdue, given that everything below `limit` is known."""
        if self.partial:
            return False
        overdue = self.markers.overdue
        if overdue is None:
            return alike(change, changes, [s for s in shards() if self.logical(s[0], *s[1]) == change.logical])
        distance = (limit.commit_tso >> LOGICAL_BITS) - (change.key.commit_tso >> LOGICAL_BITS)
        return distance * 1000 > overdue

    def state(self, seen: bool, pending: Sequence[Change], next_floor: OrderKey) -> dict[str, Any]:
        """Return the state for the next run, for the manifest; empty if markers are not compared."""
        if not self.active:
            return {}
        kept = [c.to_json() for c in pending if c.key < next_floor]
        return {"markers": seen, **({"unannounced": kept} if kept else {})}


def announced_of(job: Job, inputs: Inputs, cluster: ClusterView, floor: OrderKey) -> Announced:
    """Return the state with which a run begins."""
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
        # Outputs begun before this was recorded did not stop for missing markers.
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
    """Return the nodes' tables that exist, from those known before and the versions that this run adds."""
    found = set(known)
    for version in sorted((v for v in coming if v.node is not None), key=lambda v: v.key):
        table = (version.node or "", (version.schema, version.name))
        if version.table is None and not version.opaque:
            found.discard(table)
        else:
            found.add(table)
    return found


def _groups(changes: Iterable[Change]) -> Iterable[list[Change]]:
    """Return the changes that are alike, in groups."""
    groups = dict[tuple[Name, str, str], list[Change]]()
    for change in changes:
        groups.setdefault((change.logical, change.kind, change.like), []).append(change)
    return groups.values()


def _without_earlier(pending: Sequence[Change]) -> list[Change]:
    """Leave out changes that were warned of and reshape no rows, but for a table's last: what takes it up takes up all.

    So the state does not grow with the statements of a cluster whose coordinator announces none.
    """
    last = set({(c.node, c.table, c.logical, c.kind): c for c in pending}.values())
    return [c for c in pending if c.kind == "shape" or not c.warned or c in last]


def _statements(same: Sequence[Change]) -> str:
    """Return the statement of changes that are alike, and where the first is, for people."""
    more = f" (and {len(same) - 1} more)" if len(same) > 1 else ""
    return f"{same[0].sql[:200]!r} ({same[0].where}){more}"


def _taken_back(same: Sequence[Change]) -> str:
    return (
        f"{'.'.join(same[0].logical)}: the warning that no marker tells of {_statements(same)} holds no longer: the "
        "table has been changed since, or no longer needs to be"
    )


def _warning(same: Sequence[Change], history: SchemaHistory, limit: OrderKey) -> str:
    first, name = same[0], ".".join(same[0].logical)
    return (
        f"{name}: no marker tells of {_statements(same)}: "
        f"{consequence(first, history, limit)}. If the nodes write no markers, set shard-mode; if this one was "
        f"forgotten, say what the table is: `binlog-merge schema set {name} --sql FILE --merged DIR --at-tso KEY`, or "
        "have the marker written"
    )
