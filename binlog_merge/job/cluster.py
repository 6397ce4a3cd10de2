"""A run's cluster: who is in it when, where tables lie, and what of that the next run must know.

For clusters of which no more is known than their configuration, every node is in them all the time, and routes alone
say what belongs together.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from binlog_merge.config import MergeConfig
from binlog_merge.errors import MergeError
from binlog_merge.job.bound import NO_BOUND, Bound
from binlog_merge.job.inputs import NodeInput
from binlog_merge.job.nodes import ScannedNode
from binlog_merge.job.sightings import NodeMarkers
from binlog_merge.job.stores import STORE_NAME
from binlog_merge.merge.coordinate import Coordinated
from binlog_merge.merge.coordinate.cluster import Cluster
from binlog_merge.merge.coordinate.marker import Sighting, coordinate
from binlog_merge.merge.coordinate.members import Members, bounds, members_of
from binlog_merge.merge.coordinate.polardbx import Shapes, converter, shapes_of, strange
from binlog_merge.merge.histories import PhysicalDdl
from binlog_merge.merge.markers import Instruction, Marker
from binlog_merge.merge.render import LogicalDdl
from binlog_merge.merge.statements import renamed_tables
from binlog_merge.polardbx.ddl_items import SHARD_KEY_PREFIX
from binlog_merge.polardbx.meta import MetaError, parse_storage_list
from binlog_merge.polardbx.places import Places, PlacesBuilder, Rename, follow_renames
from binlog_merge.polardbx.topology import ClusterState
from binlog_merge.store_errors import as_merge_errors
from snapshot_store.model import Catalog
from snapshot_store.topology import Route, Topology
from snapshot_store.tso import ORIGIN, OrderKey

_NOTE = "cluster"

Line = tuple[str | None, str, str]


@dataclass
class ClusterWork:
    """What a run makes of its cluster's messages. `kept` is what an earlier run left: see `keep`."""

    config: MergeConfig
    scanned: Sequence[ScannedNode]
    inputs: Sequence[NodeInput]
    floor: OrderKey
    polardbx: bool
    routes: Topology
    directory: Path
    markers: Sequence[NodeMarkers]
    kept: Mapping[str, Any] = field(default_factory=dict)
    _found: list[Sighting] = field(default_factory=list)
    _renames: list[Rename] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.polardbx:
            self.kept = _read_note(self.directory, self.floor)
            self._found = [s for node in self.markers for s in node.sightings]
        storage = {n.storage_inst_id or n.source_id: n.source_id for n in self.config.nodes}
        self.nodes: Mapping[str, str] = storage
        self.by_markers = self._by_markers()
        builder = self._builder() if self.by_markers else None
        jobs = dict.fromkeys(((a, b, c) for a, b, c in self.kept.get("jobs", ())), ORIGIN)
        self.cluster = Cluster(builder, jobs, storage) if self.polardbx else None
        for text, node, pairs in self.kept.get("renames", ()):
            named = tuple(((a, b), (c, d)) for (a, b), (c, d) in pairs)
            self._renames.append(Rename(OrderKey.parse(text), node, named))
        self.members = self._members()
        self._ended = dict(self._ended_early()) if self.by_markers and not self.config.routes else {}

    def _builder(self) -> PlacesBuilder:
        """Return where tables lie when the run begins."""
        builder = PlacesBuilder(self.nodes, self.routes)
        if self.kept.get("topology"):
            builder.advance(ORIGIN, ClusterState.from_dict(self.kept["topology"]))
        return builder

    def _by_markers(self) -> bool:
        if self.config.topology != "auto" or not self.polardbx:
            return self.config.topology == "markers"
        if self.kept and (self.kept["by_markers"] or self.config.routes):
            return bool(self.kept["by_markers"])
        # Without routes, what earlier runs did not see yet may be told now.
        told = (s.copy.marker for s in self._found)
        return any(m.type in ("CdcStart", "MetaSnapshot") if isinstance(m, Instruction) else _places(m) for m in told)

    def _members(self) -> Members:
        names = [n.source_id for n in self.inputs]
        changes, shown = dict[OrderKey, frozenset[str]](), dict[str, OrderKey]()
        for sighting in sorted(self._found, key=lambda s: s.key):
            shown.setdefault(sighting.source_id, sighting.key)
            message = sighting.copy.marker
            if isinstance(message, Instruction) and message.type == "StorageInstChange":
                try:
                    listed = parse_storage_list(message.content)
                except MetaError:
                    continue  # the coordination says so
                changes[sighting.key] = frozenset(self.nodes.get(name, name) for name in listed)
        known = self.kept.get("members")
        return members_of(names, sorted(changes.items()), None if known is None else frozenset(known), shown)

    def _ended_early(self) -> Iterator[tuple[str, OrderKey]]:
        """Yield the nodes that leave the cluster behind the end of their logs and lost their tables before it, and
        where that is: whatever they may still write, nothing of it can come out.

        An older cluster takes its own tables from a node before it tells that the node goes.
        """
        for node in self.scanned:
            left, end = self.members.left(node.source_id), node.watermark(self.config.commit_tso.max_disorder)
            if left is not None and end is not None and end <= left:
                last = self._placed_until(node.source_id)
                if last is not None and last < end:
                    yield node.source_id, end

    def _placed_until(self, node: str) -> OrderKey | None:
        """Return the key up to which tables of a node come out, as all messages tell it; None where that is for good,
        or not known.
        """
        builder = self._builder()
        cluster = Cluster(builder, dict(self.cluster.jobs) if self.cluster is not None else {}, self.nodes)
        messages = {sighting.key: sighting.copy.marker for sighting in self._found}
        try:
            for key in sorted(messages):
                cluster.take(key, messages[key])
        except MergeError:
            return None
        until = [spans[-1].until for (where, _, _), spans in builder.places().spans if where == node]
        return None if None in until else max((key for key in until if key is not None), default=ORIGIN)

    def bound(self, node: ScannedNode, watermark: OrderKey | None) -> OrderKey | None:
        """Return the key below which nothing more comes from a node, None where it holds back nothing."""
        if not self.polardbx:
            return watermark or ORIGIN
        if node.source_id in self._ended:
            return None
        return bounds(self.members, node.source_id, watermark)

    def required(self, key: OrderKey) -> list[tuple[int, str]]:
        """Return the nodes that must show a marker at a key."""
        here = self.members.at(key) - {name for name, end in self._ended.items() if end <= key}
        return [(n.number, n.source_id) for n in self.inputs if n.source_id in here]

    def coordinate(self, found: Sequence[Sighting], server_version: int) -> Coordinated:
        """Take in the markers found below the limit."""
        if self.cluster is None:
            convert = strange(self.config.ddl.private, server_version)
            return coordinate(found, [(n.number, n.source_id) for n in self.inputs], convert=convert)
        self._convert = converter(self.cluster, self.config.ddl.private, server_version)
        return coordinate(found, self.required, self.cluster, self._convert)

    def asks(self, ddl: LogicalDdl) -> bool:
        """Tell whether a DDL's form depends on the indexes that its table has then: see `ddl_markers.convert_ddl`."""
        return self.cluster is not None and SHARD_KEY_PREFIX in ddl.sql.lower() and "drop" in ddl.sql.lower()

    def answer(self, ddl: LogicalDdl, catalog: Catalog) -> list[LogicalDdl]:
        """Return such a DDL as it comes out, nothing if nothing of it does."""
        assert self.cluster is not None
        said, copy = self.cluster.said[ddl.key]
        table = catalog.get(ddl.schema, ((said.marker.table if said.marker is not None else None) or "").lower())
        indexes = frozenset(i.name.lower() for i in table.indexes) if table is not None else None
        found = self._convert(ddl.key, said, copy, indexes)
        return [] if found is None else [found]

    def shapes(self, server_version: int) -> tuple[list[Shapes], Bound]:
        """Return the shapes in the snapshots taken in, and the bound at which that ended."""
        found: list[Shapes] = []
        for key, databases in self.cluster.snapshots if self.cluster is not None else ():
            try:
                found.append(shapes_of(key, databases, self.nodes, server_version))
            except MergeError as error:
                return found, Bound.of(error)
        return found, NO_BOUND

    def follow(self, ddls: Mapping[str, Sequence[PhysicalDdl]]) -> None:
        """Take in the physical tables that nodes renamed themselves."""
        for node, statements in ddls.items() if self.by_markers else ():
            for ddl in statements:
                pairs = renamed_tables(ddl.parsed, ddl.schema)
                if pairs:
                    self._renames.append(Rename(ddl.key, node, tuple((_lower(a), _lower(b)) for a, b in pairs)))

    def places(self) -> Places | None:
        """Return where tables lie, None where routes decide."""
        builder = None if self.cluster is None else self.cluster.places
        return None if builder is None else follow_renames(builder.places(), self._renames)

    def topology(self) -> Topology:
        """Return the routes that questions go by: at the end of the run every physical table has its own."""
        places = self.places()
        if places is None:
            return self.routes
        own = tuple(
            Route(schema, table, *spans[-1].logical, node)
            for (node, schema, table), spans in places.spans
            if spans[-1].until is None
        )
        return Topology((*own, *self.routes.routes), self.routes.ignored, fold=self.routes.fold)

    def lines(self, shapes: Sequence[Shapes], places: Places | None) -> set[Line]:
        """Return the lines of history that placed tables and snapshots need, beside those that are named."""
        lines: set[Line] = {(None, t.schema, t.name) for s in shapes for t in s.logical}
        lines |= {(node, t.schema, t.name) for s in shapes for node, t in s.physical}
        if places is not None:
            for node in self.scanned:
                tables = {name for block in node.blocks for names in block.sets for name in names}
                tables |= {name for edge in node.edges for name in edge.tables}
                for table in tables:
                    lines |= {(None, *span.logical) for span in places.of(node.source_id, *table) or ()}
        return lines

    def _still_followed(self, next_floor: OrderKey) -> list[Any]:
        """Return the renames below a key of which the markers below it have not told yet."""
        assert self.cluster is not None and self.cluster.places is not None
        state = self.cluster.places.state_before(next_floor)
        told = PlacesBuilder(self.nodes, self.routes)
        told.advance(ORIGIN, state)
        placed = {physical for physical, _ in told.places().spans}
        kept = []
        for rename in self._renames:
            if rename.key < next_floor and any((rename.node, *old) in placed for old, _ in rename.pairs):
                kept.append([rename.key.text(), rename.node, rename.pairs])
                placed |= {(rename.node, *new) for _, new in rename.pairs}
        return json.loads(json.dumps(kept))

    def keep(self, next_floor: OrderKey) -> None:
        """Leave what the next run must know of messages below its floor."""
        cluster = self.cluster
        if cluster is None:
            return
        value: dict[str, Any] = {
            "by_markers": self.by_markers,
            "jobs": [list(job) for job in cluster.jobs_before(next_floor)],
            "members": sorted(self.members.before(next_floor)),
        }
        if cluster.places is not None:
            value["topology"] = cluster.places.state_before(next_floor).to_dict()
            value["renames"] = self._still_followed(next_floor)
        if value != self.kept:
            _write_note(self.directory, self.floor, next_floor, value)


def _lower(name: tuple[str, str]) -> tuple[str, str]:
    return name[0].lower(), name[1].lower()


def _places(message: Any) -> bool:
    return isinstance(message, Marker) and bool(message.meta_info.strip())


def _read_note(directory: Path, floor: OrderKey) -> Mapping[str, Any]:
    """Return what was left for a run that goes on at `floor`.

    A run that was killed between the store and the manifest has left a later one too.
    """
    from snapshot_store.store import Store

    path = directory / STORE_NAME
    if floor == ORIGIN or not path.exists():
        return {}
    with as_merge_errors(path), Store.open(path) as store:
        entries = json.loads(store.note(_NOTE) or "[]")
    known: Mapping[str, Any] = next((value for since, value in reversed(entries) if since <= floor.text()), {})
    return known


def _write_note(directory: Path, floor: OrderKey, next_floor: OrderKey, value: Mapping[str, Any]) -> None:
    from snapshot_store.store import Store

    with as_merge_errors(directory / STORE_NAME), Store.open(directory / STORE_NAME) as store:
        entries = [e for e in json.loads(store.note(_NOTE) or "[]") if e[0] <= floor.text()]
        store.set_note(_NOTE, json.dumps([*entries[-1:], [next_floor.text(), value]]))
