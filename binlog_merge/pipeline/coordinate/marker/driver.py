"""A run's view of its cluster: which nodes belong to it at which key, the placement of tables, and the note for the
next run.

If only the configuration describes the cluster, every node belongs to it all the time, and only routes map tables.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from binlog_merge.config.merge_config import MergeConfig, topology_of
from binlog_merge.errors import MergeError
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.base.render_values import LogicalDdl
from binlog_merge.pipeline.base.state import NO_BOUND, Bound
from binlog_merge.pipeline.coordinate.histories import PhysicalDdl
from binlog_merge.pipeline.coordinate.marker.cluster import Cluster, Members, bounds, members_of
from binlog_merge.pipeline.coordinate.marker.markers import Instruction, Marker
from binlog_merge.pipeline.coordinate.marker.polardbx import PolarDbXConvert, Shapes, converter, shapes_of, strange
from binlog_merge.pipeline.coordinate.marker.sightings import (
    CoordinatedMarkers,
    NodeMarkers,
    Sighting,
    coordinate,
    in_lower_case,
)
from binlog_merge.pipeline.coordinate.statements import renamed_tables
from binlog_merge.pipeline.coordinate.stores import STORE_NAME, SchemaCache, stored_note
from binlog_merge.polardbx import placements
from binlog_merge.polardbx.ddl.items import SHARD_KEY_PREFIX
from binlog_merge.polardbx.ddl.markers import PrivateForm
from binlog_merge.polardbx.meta import MetaError, parse_storage_list
from binlog_merge.polardbx.table_mapping import Places, PlacesBuilder, Rename, follow_renames
from binlog_merge.polardbx.topology import ClusterState
from binlog_merge.store_errors import as_merge_errors
from snapshot_store.history import HistoryKey
from snapshot_store.model import Catalog
from snapshot_store.topology import Route, Topology
from snapshot_store.tso import ORIGIN, OrderKey

_NOTE = "cluster"


@dataclass(frozen=True)
class ClusterView:
    """What a run knows about its cluster before it coordinates, and what earlier runs have noted (`kept`).

    `inputs` are the nodes as (number, source-id); `nodes` maps storage instances to nodes. `by_markers`: markers give
    the placement of tables. `ended` are nodes that left, with the ends of their logs: see `_ended_early`.
    """

    polardbx: bool
    by_markers: bool
    routes: Topology
    inputs: tuple[tuple[int, str], ...]
    nodes: Mapping[str, str]
    members: Members
    kept: Mapping[str, Any] = field(default_factory=dict)
    ended: Mapping[str, OrderKey] = field(default_factory=dict)

    def bound(self, node: str, watermark: OrderKey | None) -> OrderKey | None:
        """Return the key below which nothing more comes from a node, None if it holds nothing back."""
        if not self.polardbx:
            return watermark or ORIGIN
        return None if node in self.ended else bounds(self.members, node, watermark)

    def required(self, key: OrderKey) -> list[tuple[int, str]]:
        """Return the nodes that must show a marker at a key."""
        here = self.members.at(key) - {name for name, end in self.ended.items() if end <= key}
        return [(number, source_id) for number, source_id in self.inputs if source_id in here]

    def begin(self) -> Cluster:
        """Return the cluster's state at the start of the run, to which messages are applied."""
        places = PlacesBuilder(self.nodes, self.routes) if self.by_markers else None
        if places is not None and self.kept.get("topology"):
            places.advance(ORIGIN, ClusterState.from_dict(self.kept["topology"]))
        jobs = dict.fromkeys(((a, b, c) for a, b, c in self.kept.get("jobs", ())), ORIGIN)
        return Cluster(places, jobs, self.nodes)


def cluster_view(
    config: MergeConfig,
    polardbx: bool,
    inputs: Sequence[tuple[int, str]],
    kept: Mapping[str, Any],
    markers: Sequence[NodeMarkers],
    ends: Mapping[str, OrderKey | None],
) -> ClusterView:
    """Return what a run knows about its cluster.

    `ends` are the nodes' watermarks; `kept` is the note of an earlier run: see `kept_after`.
    """
    nodes = {n.storage_inst_id or n.source_id: n.source_id for n in config.nodes}
    found = [s for node in markers for s in node.sightings] if polardbx else []
    known = kept.get("members")
    members = _members([name for _, name in inputs], nodes, None if known is None else frozenset(known), found)
    by_markers = _by_markers(config, polardbx, kept, found)
    view = ClusterView(polardbx, by_markers, topology_of(config), tuple(inputs), nodes, members, kept)
    if not by_markers or config.routes:
        return view
    return replace(view, ended=dict(_ended_early(view, ends, found)))


def _by_markers(config: MergeConfig, polardbx: bool, kept: Mapping[str, Any], found: Sequence[Sighting]) -> bool:
    if config.topology != "auto" or not polardbx:
        return config.topology == "markers"
    if kept and (kept["by_markers"] or config.routes):
        return bool(kept["by_markers"])
    # Without routes, markers may appear that earlier runs have not seen yet.
    messages = (s.copy.marker for s in found)
    return any(m.type in ("CdcStart", "MetaSnapshot") if isinstance(m, Instruction) else _places(m) for m in messages)


def _members(
    names: Sequence[str], nodes: Mapping[str, str], known: frozenset[str] | None, found: Sequence[Sighting]
) -> Members:
    changes, shown = dict[OrderKey, frozenset[str]](), dict[str, OrderKey]()
    for sighting in sorted(found, key=lambda s: s.key):
        shown.setdefault(sighting.source_id, sighting.key)
        message = sighting.copy.marker
        if isinstance(message, Instruction) and message.type == "StorageInstChange":
            try:
                listed = parse_storage_list(message.content)
            except MetaError:
                continue  # coordination reports it
            changes[sighting.key] = frozenset(nodes.get(name, name) for name in listed)
    return members_of(names, sorted(changes.items()), known, shown)


def _ended_early(
    view: ClusterView, ends: Mapping[str, OrderKey | None], found: Sequence[Sighting]
) -> Iterator[tuple[str, OrderKey]]:
    """Yield nodes that leave the cluster after the end of their logs but lost their tables before it, with that end.

    Whatever they may still write cannot come out. An older cluster moves its tables off a node before it announces that
    the node leaves.
    """
    for node, end in ends.items():
        left_at = view.members.left(node)
        if left_at is not None and end is not None and end <= left_at:
            last = _placed_until(view, node, found)
            if last is not None and last < end:
                yield node, end


def _placed_until(view: ClusterView, node: str, found: Sequence[Sighting]) -> OrderKey | None:
    """Return the key up to which tables of a node come out, according to all messages.

    None if some table of the node stays forever, or if it is unknown.
    """
    cluster = view.begin()
    messages = {sighting.key: sighting.copy.marker for sighting in found}
    try:
        for key in sorted(messages):
            cluster.take(key, messages[key])
    except MergeError:
        return None
    spans = () if cluster.places is None else cluster.places.places().spans
    until = [known[-1].until for (where, _, _), known in spans if where == node]
    return None if None in until else max((key for key in until if key is not None), default=ORIGIN)


@dataclass(frozen=True)
class Messages:
    """The outcome of a cluster's messages below the limit: logical DDL, shapes in snapshots, placement, and the bound.

    `places` is None if routes map tables. `cluster` is the state after all messages, None if the nodes are not
    PolarDB-X's. `renames` are the renames of physical tables that the nodes ran themselves.
    """

    view: ClusterView
    logical: CoordinatedMarkers
    shapes: tuple[Shapes, ...] = ()
    bound: Bound = NO_BOUND
    renames: tuple[Rename, ...] = ()
    places: Places | None = None
    cluster: Cluster | None = None
    convert: PolarDbXConvert | None = None

    def asks(self, ddl: LogicalDdl) -> bool:
        """Return whether a DDL's form depends on the indexes of its table at that point: see
        `ddl.markers.convert_ddl`.
        """
        return self.cluster is not None and SHARD_KEY_PREFIX in ddl.sql.lower() and "drop" in ddl.sql.lower()

    def answer(self, ddl: LogicalDdl, catalog: Catalog) -> list[LogicalDdl]:
        """Return such a DDL as it comes out, given the catalog before it; empty if nothing of it does."""
        assert self.cluster is not None and self.convert is not None
        outcome, copy = self.cluster.outcomes[ddl.key]
        table = catalog.get(ddl.schema, ((outcome.marker.table if outcome.marker is not None else None) or "").lower())
        indexes = frozenset(i.name.lower() for i in table.indexes) if table is not None else None
        found = self.convert(ddl.key, outcome, copy, indexes)
        return [] if found is None else [found]

    def topology(self) -> Topology:
        """Return the routes for queries: one for each physical table that is placed at the end of the run."""
        routes = self.view.routes
        if self.places is None:
            return routes
        own = tuple(
            Route(schema, table, *spans[-1].logical, node)
            for (node, schema, table), spans in self.places.spans
            if spans[-1].until is None
        )
        return replace(routes, routes=(*own, *routes.routes), hidden=())

    def history_keys(self, scanned: Sequence[ScannedNode]) -> set[HistoryKey]:
        """Return the history keys that placed tables and snapshots need."""
        keys: set[HistoryKey] = {(None, t.schema, t.name) for s in self.shapes for t in s.logical}
        keys |= {(node, t.schema, t.name) for s in self.shapes for node, t in s.physical}
        if self.places is None:
            return keys
        for node in scanned:
            tables = {name for block in node.blocks for names in block.sets for name in names}
            tables |= {name for edge in node.edges for name in edge.tables}
            for table in tables:
                keys |= {(None, *span.logical) for span in self.places.of(node.source_id, *table) or ()}
        return keys


def take_messages(
    view: ClusterView,
    found: Sequence[Sighting],
    ddls: Mapping[str, Sequence[PhysicalDdl]],
    private: PrivateForm,
    server_version: int,
) -> Messages:
    """Apply the markers found below the limit; `ddls` are the statements that the nodes ran themselves."""
    if not view.polardbx:
        convert_plain = strange(private, server_version)
        if view.routes.folding >= {source_id for _, source_id in view.inputs}:
            convert_plain = in_lower_case(convert_plain)
        logical = coordinate(found, view.inputs, convert=convert_plain)
        return Messages(view, logical, bound=Bound.at(logical.stopped, logical.error))
    cluster = view.begin()
    convert = converter(cluster, private, server_version)
    logical = coordinate(found, view.required, cluster, convert)
    shapes, unread = _shapes(cluster, server_version)
    renames = (*_kept_renames(view), *_renames(ddls)) if view.by_markers else tuple(_kept_renames(view))
    places = None if cluster.places is None else follow_renames(cluster.places.places(), renames)
    bound = min(Bound.at(logical.stopped, logical.error), unread)
    return Messages(view, logical, tuple(shapes), bound, renames, places, cluster, convert)


def _shapes(cluster: Cluster, server_version: int) -> tuple[list[Shapes], Bound]:
    """Return the shapes in the cluster's snapshots, and the bound at the first snapshot that cannot be read."""
    shapes: list[Shapes] = []
    for key, databases in cluster.snapshots:
        try:
            shapes.append(shapes_of(key, databases, cluster.nodes, server_version))
        except MergeError as error:
            return shapes, Bound.of(error)
    return shapes, NO_BOUND


def _kept_renames(view: ClusterView) -> Iterator[Rename]:
    for text, node, pairs in view.kept.get("renames", ()):
        yield Rename(OrderKey.parse(text), node, tuple(((a, b), (c, d)) for (a, b), (c, d) in pairs))


def _renames(ddls: Mapping[str, Sequence[PhysicalDdl]]) -> Iterator[Rename]:
    """Yield the physical tables that nodes renamed themselves."""
    for node, statements in ddls.items():
        for ddl in statements:
            pairs = renamed_tables(ddl.parsed, ddl.schema)
            if pairs:
                yield Rename(ddl.key, node, tuple((_lower(a), _lower(b)) for a, b in pairs))


def kept_after(messages: Messages, next_floor: OrderKey) -> Mapping[str, Any]:
    """Return what the next run must know about messages below its floor; empty if the nodes are not PolarDB-X's."""
    view, cluster = messages.view, messages.cluster
    if cluster is None:
        return {}
    value: dict[str, Any] = {
        "by_markers": view.by_markers,
        "jobs": [list(job) for job in cluster.jobs_before(next_floor)],
    }
    if "members" in view.kept or (view.members.shown is not None and view.members.shown < next_floor):
        # Before the first marker nothing says who belongs to the cluster.
        value["members"] = sorted(view.members.before(next_floor))
    if cluster.places is not None:
        state = cluster.places.state_before(next_floor)
        value["topology"] = state.to_dict()
        value["renames"] = _still_followed(messages, state, next_floor)
    return value


def _still_followed(messages: Messages, state: ClusterState, next_floor: OrderKey) -> list[Any]:
    """Return the renames below a key that the markers below it, which made `state`, have not recorded yet."""
    recorded = PlacesBuilder(messages.view.nodes, messages.view.routes)
    recorded.advance(ORIGIN, state)
    placed = {physical for physical, _ in recorded.places().spans}
    kept = []
    for rename in messages.renames:
        if rename.key < next_floor and any((rename.node, *old) in placed for old, _ in rename.pairs):
            kept.append([rename.key.text(), rename.node, rename.pairs])
            placed |= {(rename.node, *new) for _, new in rename.pairs}
    return json.loads(json.dumps(kept))


def _lower(name: tuple[str, str]) -> tuple[str, str]:
    return name[0].lower(), name[1].lower()


def _places(message: Any) -> bool:
    return isinstance(message, Marker) and bool(message.meta_info.strip())


def read_note(directory: Path, floor: OrderKey, cache: SchemaCache) -> Mapping[str, Any]:
    """Return the note for a run that continues at `floor`.

    A run that was killed between writing the store and the manifest has left a later note, which is ignored.
    """
    path = directory / STORE_NAME
    if floor == ORIGIN or not path.exists():
        return {}
    entries = json.loads(cache.note(_NOTE, lambda: stored_note(path, _NOTE)) or "[]")
    known: Mapping[str, Any] = next((value for since, value in reversed(entries) if since <= floor.text()), {})
    return known


def keep_cluster(messages: Messages, directory: Path, floor: OrderKey, next_floor: OrderKey) -> None:
    """Save the note for the run that continues at `next_floor`."""
    from snapshot_store.store.db import Store

    value = kept_after(messages, next_floor)
    if value == messages.view.kept:
        return
    with as_merge_errors(directory / STORE_NAME), Store.open(directory / STORE_NAME) as store:
        entries = [e for e in json.loads(store.note(_NOTE) or "[]") if e[0] <= floor.text()]
        store.set_note(_NOTE, json.dumps([*entries[-1:], [next_floor.text(), value]]))
        if messages.places is not None:
            known = placements.from_json(store.note(placements.NOTE))
            store.set_note(placements.NOTE, placements.to_json(placements.joined(known, messages.places, floor)))
