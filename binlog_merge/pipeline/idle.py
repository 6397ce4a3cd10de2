"""How far nodes are that have nothing to write, where their clocks give the order: the notes beside captured files."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.nodes import Node
from binlog_merge.errors import MergeError
from binlog_merge.files.as_of import AsOf, read_as_of
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.base.node_input import NodeInput
from snapshot_store.tso import ORIGIN, OrderKey


@dataclass(frozen=True, slots=True)
class Notes:
    """The notes in each node's folders, and warnings about damaged ones."""

    of: Mapping[str, tuple[AsOf, ...]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def read_notes(config: MergeConfig, nodes: Collection[str] | None = None) -> Notes:
    """Read the notes of these nodes, None: of all. Raises what `read_as_of` raises."""
    chosen = [node for node in config.nodes if nodes is None or node.source_id in nodes]
    read = {node.source_id: _notes_of(node) for node in chosen}
    warnings = tuple(text for _, damaged in read.values() for text in damaged)
    return Notes({node: tuple(notes) for node, (notes, _) in read.items()}, warnings)


def _notes_of(node: Node) -> tuple[list[AsOf], list[str]]:
    try:
        return read_as_of(node.files)
    except MergeError as error:
        raise error.located(node=node.source_id) from None


def with_notes(nodes: Sequence[NodeInput], notes: Mapping[str, Sequence[AsOf]]) -> list[NodeInput]:
    """Return nodes whose clocks give the order, each with its latest note about one of its files."""
    return [replace(node, by_time=True, as_of=_latest(node, notes[node.source_id])) for node in nodes]


def _latest(node: NodeInput, notes: Sequence[AsOf]) -> AsOf | None:
    identities = {file.name: file.identity for file in node.files}
    known = (note for note in notes if identities.get(note.file) == note.identity)
    return max(known, key=lambda note: note.clock_us, default=None)


def awaited(
    scanned: Sequence[ScannedNode],
    watermarks: Mapping[str, OrderKey | None],
    limit: OrderKey,
    notes: Mapping[str, tuple[AsOf, ...]],
) -> dict[str, tuple[AsOf, ...]]:
    """Return the notes of nodes that hold back something that was read, so that newer notes may let it out.

    Where shards have no markers, all of one place comes out at once: `limit` is then below the least watermark.
    """
    carries = ((n.carry, n.input.number) for n in scanned)
    last = max(OrderKey(carry.max_tso, carry.max_transaction, carry.seq, number) for carry, number in carries)
    if last < limit:
        return {}
    bounds = {node: key or ORIGIN for node, key in watermarks.items()}
    limit = max(limit, min(bounds.values(), default=limit))
    return {node: found for node, found in notes.items() if bounds[node] <= limit}
