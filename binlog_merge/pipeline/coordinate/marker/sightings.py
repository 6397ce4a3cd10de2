"""Coordination by markers: they are read from the nodes' logs, and a logical DDL gets the order key of its marker,
which every node must show alike.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from binlog_merge.binlog.kernels import scan_layout
from binlog_merge.binlog.query_session import ddl_session
from binlog_merge.errors import (
    DdlNotUnderstoodError,
    MarkerDisagreement,
    MarkerIncomplete,
    MergeError,
)
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.base.group_at import transaction_events
from binlog_merge.pipeline.base.node_input import located, read_group
from binlog_merge.pipeline.base.render_values import LogicalDdl
from binlog_merge.pipeline.base.state import NO_BOUND, Bound
from binlog_merge.pipeline.coordinate.marker.cluster import Cluster, MessageOutcome
from binlog_merge.pipeline.coordinate.marker.markers import PUBLIC, Marker, MarkerCopy, read_marker
from binlog_merge.pipeline.coordinate.read_again import keys_of
from binlog_merge.pipeline.coordinate.statements import is_schema_ddl
from binlog_merge.polardbx.names import MarkerTables, is_system_table
from snapshot_store.ddl import ParsedDdl
from snapshot_store.ddl.parse.statement import with_folded_names
from snapshot_store.errors import AmbiguousRoute, DdlNotUnderstood
from snapshot_store.mysql.sql.names import folded
from snapshot_store.topology import Topology
from snapshot_store.tso import OrderKey


@dataclass(frozen=True, slots=True)
class Sighting:
    """A marker branch on one node: its order key, position and content."""

    key: OrderKey
    node: int
    source_id: str
    file: str
    position: int
    copy: MarkerCopy


@dataclass(frozen=True, slots=True)
class CoordinatedMarkers:
    """The logical DDLs in order, and the number of messages without one.

    If coordination stopped, `stopped` is the key below which everything is understood, and `error` the reason.
    """

    ddl: tuple[LogicalDdl, ...]
    swallowed: int = 0
    stopped: OrderKey | None = None
    error: MergeError | None = None


Required = Callable[[OrderKey], Sequence[tuple[int, str]]]
"""The nodes, as (number, source-id), that must show a marker at a key."""

Convert = Callable[[OrderKey, MessageOutcome, MarkerCopy], LogicalDdl | None]
"""Converts a DDL marker to the DDL that comes out, None if none does. Raises DdlNotUnderstood."""


def coordinate(
    sightings: Iterable[Sighting],
    nodes: Sequence[tuple[int, str]] | Required,
    cluster: Cluster | None = None,
    convert: Convert | None = None,
) -> CoordinatedMarkers:
    """Return the logical DDLs of all markers, in order; stops at the first marker that is incomplete, differs or is
    invalid.

    Pass only sightings below the watermark, where every node has shown everything. `cluster` and `convert` are for
    PolarDB-X: `cluster` applies every message, `convert` turns the cluster's DDL into MySQL's.
    """
    required: Required = nodes if callable(nodes) else lambda key: nodes
    convert = convert or plain
    by_key: dict[OrderKey, list[Sighting]] = {}
    for sighting in sightings:
        by_key.setdefault(sighting.key, []).append(sighting)
    ddl: list[LogicalDdl] = []
    swallowed = 0
    for key in sorted(by_key):
        copies = sorted(by_key[key], key=lambda s: (s.node, s.file, s.position))
        first = copies[0]
        error = _fault(copies, required(key))
        made = None
        if error is None:
            try:
                made = convert(key, _outcome(key, first.copy, cluster), first.copy)
            except MergeError as raised:
                error = raised
            except DdlNotUnderstood as raised:
                error = DdlNotUnderstoodError(f"logical DDL {first.copy.marker.sql[:300]!r}: {raised}")
        if error is not None:
            error = error.located(node=first.source_id, file=first.file, position=first.position, order_key=key)
            return CoordinatedMarkers(tuple(ddl), swallowed=swallowed, stopped=key, error=error)
        if made is None:
            swallowed += 1
        else:
            ddl.append(made)
    return CoordinatedMarkers(tuple(ddl), swallowed=swallowed)


def _outcome(key: OrderKey, copy: MarkerCopy, cluster: Cluster | None) -> MessageOutcome:
    message = copy.marker
    if cluster is None:
        return MessageOutcome(message) if isinstance(message, Marker) else MessageOutcome()
    outcome = cluster.take(key, message)
    cluster.outcomes[key] = (outcome, copy)
    return outcome


def plain(key: OrderKey, outcome: MessageOutcome, copy: MarkerCopy, server_version: int = 90700) -> LogicalDdl | None:
    """Return a public DDL as its marker has it; None for any other message."""
    marker = outcome.marker
    if marker is None or marker.visibility != PUBLIC or not outcome.applies:
        return None
    variables = replace(copy.session, sql_mode=sql_mode_of(marker.extension.get("sqlMode"), copy))
    parsed = ParsedDdl.of(marker.sql, ddl_session(variables, server_version))
    return LogicalDdl(key, marker.schema, marker.sql, variables, is_schema_ddl(parsed), parsed=parsed)


def in_lower_case(convert: Convert) -> Convert:
    """Return a conversion whose DDL names tables and databases in lower case, as all nodes do."""

    def folding(key: OrderKey, outcome: MessageOutcome, copy: MarkerCopy) -> LogicalDdl | None:
        made = convert(key, outcome, copy)
        if made is None or not made.sql or made.parsed is None:
            return made
        parsed = with_folded_names(made.parsed)
        return replace(made, schema=folded(made.schema), sql=parsed.sql, parsed=parsed)

    return folding


def sql_mode_of(mode: object, copy: MarkerCopy) -> int:
    """Return a marker's sql_mode if it is a number, else that of the session that wrote the marker."""
    if isinstance(mode, str) and mode.isdigit():
        mode = int(mode)
    return mode if isinstance(mode, int) and not isinstance(mode, bool) else copy.session.sql_mode


def _fault(copies: Sequence[Sighting], nodes: Sequence[tuple[int, str]]) -> MergeError | None:
    first = copies[0]
    location = {"node": first.source_id, "file": first.file, "position": first.position, "order_key": first.key}
    seen = {s.node for s in copies}
    missing = [source_id for number, source_id in nodes if number not in seen]
    statement = first.copy.marker.sql[:200]
    if missing:
        return MarkerIncomplete(
            f"the marker of {statement!r} is not on node {', '.join(missing)}",
            **location,  # type: ignore[arg-type]
        )
    for other in copies[1:]:
        if other.copy.marker != first.copy.marker:
            return MarkerDisagreement(
                f"the marker is {first.copy.marker} on node {first.source_id}, "
                f"but {other.copy.marker} on node {other.source_id}",
                **location,  # type: ignore[arg-type]
            )
    return None


def _sightings(node: ScannedNode, tables: MarkerTables, topology: Topology, floor: OrderKey) -> Iterator[Sighting]:
    """Yield the markers that the node shows from `floor` on, in order.

    Raises MergeError, with the key, at the first marker that cannot be read.
    """
    positions = [
        (OrderKey(tso, transaction, 0, 0), piece.file_index, start, end)
        for piece in node.pieces
        for tso, transaction, start, end in piece.markers
    ]
    positions += [
        (OrderKey(e.tso, e.transaction, 0, 0), e.file_index, e.start, e.end)
        for e in node.edges
        if e.flags & scan_layout.MARKER
    ]
    for key, file_index, start, end in sorted(positions):
        if key >= floor:
            try:
                copy = _marker_copy(node, file_index, start, end, tables, topology)
            except MergeError as error:
                raise error.located(order_key=key) from None
            if copy is not None:
                yield Sighting(key, node.input.number, node.source_id, node.input.files[file_index].path, start, copy)


@dataclass(frozen=True, slots=True)
class NodeMarkers:
    """The markers that a node shows, in order, up to the first that cannot be read, which sets the bound."""

    sightings: tuple[Sighting, ...] = ()
    bound: Bound = NO_BOUND

    @property
    def shows_any(self) -> bool:
        """Return whether the node shows a marker, even one that cannot be read."""
        return bool(self.sightings) or self.bound.error is not None


def read_markers(node: ScannedNode, tables: MarkerTables, topology: Topology, floor: OrderKey) -> NodeMarkers:
    """Return the markers that a node shows from `floor` on."""
    found, bound = list[Sighting](), NO_BOUND
    try:
        for sighting in _sightings(node, tables, topology, floor):
            found.append(sighting)
    except MergeError as error:
        bound = Bound.of(error)
    return NodeMarkers(tuple(found), bound)


def markers_below(nodes: Iterable[NodeMarkers], limit: OrderKey) -> tuple[list[Sighting], Bound]:
    """Return the markers of all nodes below `limit` and below the first that cannot be read, which sets the bound."""
    nodes = tuple(nodes)
    first = min((node.bound for node in nodes if node.bound.key < limit), default=NO_BOUND)
    end = min(limit, first.key)
    return [s for node in nodes for s in node.sightings if s.key < end], first


def local_markers(
    node: ScannedNode, tables: MarkerTables, topology: Topology, floor: OrderKey, limit: OrderKey
) -> MergeError | None:
    """Return the error for the first marker that was not written by a distributed transaction, or None."""
    for piece, block in zip(node.pieces, node.blocks, strict=True):
        for key, start, end, _ in keys_of(block, piece.local_markers) if piece.local_markers else ():
            if not floor <= key < limit:
                continue
            try:
                copy = _marker_copy(node, piece.file_index, start, end, tables, topology)
            except MergeError as error:
                return error.located(order_key=key)
            if copy is not None:
                return MarkerIncomplete(
                    "a marker was written by a transaction without a commit TSO, so it has no place on the other nodes",
                    node=node.source_id,
                    file=node.input.files[piece.file_index].path,
                    position=start,
                    order_key=key,
                )
    return None


def _marker_copy(
    node: ScannedNode, file_index: int, start: int, end: int, tables: MarkerTables, topology: Topology
) -> MarkerCopy | None:
    file = node.input.files[file_index]

    def is_user_table(schema: str, table: str) -> bool:
        with suppress(AmbiguousRoute):
            return not is_system_table(table) and topology.logical_name(node.source_id, schema, table) is not None
        return True

    with located(node.input, file_index, start, "a marker"):
        group = read_group(node.input, file_index, start, end)
        return read_marker(transaction_events(group, file.checksum_alg == 1), tables, is_user_table)
