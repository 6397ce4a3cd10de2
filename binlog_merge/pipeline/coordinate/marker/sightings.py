"""Reads the markers that nodes show from their logs."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.kernels import scan_layout
from binlog_merge.errors import ChecksumMismatch, MarkerIncomplete, MergeError
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.base.bound import NO_BOUND, Bound
from binlog_merge.pipeline.base.group_at import transaction_events
from binlog_merge.pipeline.base.node_input import read_group
from binlog_merge.pipeline.coordinate.marker.markers import MarkerCopy, read_marker
from binlog_merge.pipeline.coordinate.marker.place import Sighting
from binlog_merge.pipeline.coordinate.read_again import keys_of
from binlog_merge.polardbx.names import MarkerTables, is_system_table
from snapshot_store.errors import AmbiguousRoute
from snapshot_store.topology import Topology
from snapshot_store.tso import OrderKey


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

    try:
        group = read_group(node.input, file_index, start, end)
        return read_marker(transaction_events(group, file.checksum_alg == 1), tables, is_user_table)
    except BinlogFormatError as error:
        raise ChecksumMismatch(
            f"a marker cannot be read: {error.reason}", node=node.source_id, file=file.path, position=start
        ) from None
    except MergeError as error:
        raise error.located(node=node.source_id, file=file.path, position=start) from None
