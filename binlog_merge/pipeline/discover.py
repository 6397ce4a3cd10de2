"""The discover stage: loads the state that earlier runs left in the output directory and finds the nodes' files.

Nodes that have nothing to write, where their clocks give the order, are as far as the notes beside captured files say.
"""

import logging
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from binlog_merge.binlog.constants import FROM_MARIADB, version_number
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.nodes import Node
from binlog_merge.errors import ConfigError, MergeError, Purged
from binlog_merge.files import directory
from binlog_merge.files.as_of import AsOf, read_as_of
from binlog_merge.files.listing import KnownHeads
from binlog_merge.files.manifest import Header, Manifest, ManifestState
from binlog_merge.files.node_file import Discovery
from binlog_merge.files.output import check_continuation
from binlog_merge.files.publish import recover
from binlog_merge.files.removal import finish, read_removed
from binlog_merge.moved_keys import NODES
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.base.decided import Decided, Skipped, read_decided, read_skipped, with_decided
from binlog_merge.pipeline.base.node_input import NodeInput
from binlog_merge.pipeline.base.render_values import FileHead
from binlog_merge.pipeline.base.state import Inputs, Job
from binlog_merge.pipeline.coordinate.shards.notes import note_decisions
from binlog_merge.pipeline.coordinate.stores import STORE_NAME, SchemaCache, stored_note
from binlog_merge.pipeline.scan.carriers import BY_TIME, DEFAULT, POLARDBX
from binlog_merge.pipeline.scan.inputs import detect_carrier, node_inputs
from binlog_merge.pipeline.values import RoundState
from binlog_merge.store_errors import as_merge_errors
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


_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """The nodes' files, by what the configuration says and earlier runs have read; `carrier` is None if unknown."""

    discovery: Discovery
    numbers: Mapping[str, int]
    nodes: list[NodeInput]
    carrier: str | None
    notes: Notes = Notes()


def find_inputs(config: MergeConfig, state: ManifestState, heads: KnownHeads | None = None) -> Found:
    """Find the nodes' files and what carries their commit TSOs; nothing is written. `heads`: see `discover`.

    Raises ConfigError if the configuration contradicts the nodes, and what `discover` and `node_inputs` raise.
    """
    header = state.header
    # Before the files' sizes are taken, so that what a note covers is read.
    notes = read_notes(config)
    discovery = directory.discover(config, heads)
    numbers = config.node_numbers(header.node_numbers if header is not None else None)
    if config.coordinates and max(numbers.values()) >= NODES:
        raise ConfigError(
            f"a node has the number {max(numbers.values())}; without markers numbers are below {NODES}",
            remedy="choose smaller node-numbers; or merge fewer nodes into one output",
        )
    nodes = node_inputs(discovery, numbers, state)
    carrier = _carrier(config, nodes, header)
    if carrier == POLARDBX and config.coordinates:
        raise ConfigError(
            "the nodes are PolarDB-X's, whose markers tell of every DDL; a shard-mode other than marker is for others",
            remedy="leave shard-mode out; if these are plain MySQL shards, set commit-tso.carrier",
        )
    if carrier != BY_TIME:
        return Found(discovery, numbers, nodes, carrier)
    return Found(discovery, numbers, with_notes(nodes, notes.of), carrier, notes)


def check_beginnings(
    config: MergeConfig, nodes: Sequence[NodeInput], state: ManifestState, start_tso: int | None
) -> None:
    """Raise Purged for a node that is new to the output and whose captured files were removed at the front."""
    known = {} if state.last is None else state.last.nodes
    for node in nodes:
        patterns = config.node(node.source_id).files
        removed = None if node.source_id in known else read_removed(patterns)
        if removed is None or node.file_index(removed.first) is not None:
            continue
        behind = OrderKey.parse(removed.below).commit_tso + 1
        if start_tso is None or start_tso < behind:
            raise Purged(
                f"{removed.first} to {removed.last} were removed, as `retention` in the configuration said, when "
                f"{removed.out} had what is in them; what is left begins with {node.files[0].name}",
                node=node.source_id,
                file=removed.last,
                remedy="put the captured files back from a backup; or begin after them, with bases as of that moment "
                f"and `--start-tso {behind}` or later",
            )


def discover(job: Job, earlier: RoundState) -> Inputs:
    """Find the nodes' files, and write the header of a new output.

    A first round loads the manifest and undoes what a killed run left. Raises ConfigError if the configuration
    contradicts the output or the nodes.
    """
    job.config = job.config.with_captured_settings()
    manifest, read_again = (earlier.manifest, ()) if earlier.manifest is not None else _recovered(job, earlier)
    if manifest.state.header is not None:
        job.config = job.config.continuing(manifest.state.header.settings)
    job.clear_work(earlier.pieces.paths())
    job.work.mkdir(exist_ok=True)
    found = find_inputs(job.config, manifest.state, earlier.heads)
    check_beginnings(job.config, found.nodes, manifest.state, job.start_tso)
    job.warnings += found.notes.warnings
    header = _header(job.config, found, manifest)
    ignored = found.discovery.ignored
    values = {
        "run": manifest.state.run + 1,
        "carrier": found.carrier,
        "nodes": {n.source_id: len(n.files) for n in found.nodes},
    }
    _LOG.info("files found", extra={**values, "left_out": len(ignored), "read_again": len(read_again)})
    skipped, decided = _decisions(job, earlier.schemas)
    nodes = [replace(n, gtids=replace(n.gtids, base=n.gtids.base.union(skipped.gtids))) for n in found.nodes]
    return Inputs(
        manifest=manifest,
        header=header,
        head=_head(job.config, header),
        nodes=[with_decided(n, decided) for n in nodes],
        carrier=found.carrier or DEFAULT,
        left_out=ignored,
        read_again=read_again,
        skipped=skipped,
        discovery=found.discovery,
        notes=found.notes.of,
    )


def _recovered(job: Job, earlier: RoundState) -> tuple[Manifest, tuple[str, ...]]:
    """Load the manifest and undo what a killed run left; return it, and the published files that were read again."""
    manifest = Manifest.load(job.directory)
    manifest.copies(earlier.elsewhere)
    manifest.allowed = earlier.allowed
    if (header := manifest.state.header) is not None:
        check_continuation(header, job.config.continuing(header.settings), bool(manifest.state.files))
    read_again = recover(job.directory, manifest, job.config.output.basename)
    finish(job.directory, manifest, job.config.captured_folders())
    return manifest, read_again


def _header(config: MergeConfig, found: Found, manifest: Manifest) -> Header:
    """Return the header of the output; append it to the manifest if it is new or says something else."""
    header = manifest.state.header
    if header is not None and dict(header.node_numbers) == found.numbers and header.carrier == found.carrier:
        return header
    header = Header(
        cluster_uuid=header.cluster_uuid if header is not None else config.cluster_uuid(),
        name=config.name,
        node_numbers=found.numbers,
        server_version=header.server_version if header is not None else _newest_version(found.discovery),
        fingerprint=config.fingerprint(),
        settings=config.settings(),
        carrier=found.carrier,
    )
    manifest.append(header)
    return header


def _head(config: MergeConfig, header: Header) -> FileHead:
    return FileHead(
        config.output.server_id,
        header.server_version,
        version_number(header.server_version),
        uuid.UUID(header.cluster_uuid).bytes,
        config.output.gtid == "anonymous",
        config.output.cts,
    )


def _decisions(job: Job, schemas: SchemaCache) -> tuple[Skipped, tuple[Decided, ...]]:
    """Return the transactions that somebody decided to leave out, and those in whose place others are read."""
    path = job.directory / STORE_NAME

    def note(name: str) -> str | None:
        return schemas.note(name, lambda: stored_note(path, name)) if path.exists() else None

    with as_merge_errors(path):
        note_decisions(job.directory, note)
        return read_skipped(note), read_decided(note)


def _carrier(config: MergeConfig, nodes: Sequence[NodeInput], header: Header | None) -> str | None:
    configured = config.commit_tso.carrier
    if configured != "auto":
        return configured
    if header is not None and header.carrier is not None:
        return header.carrier
    # Shards on which no commit TSO was found usually have none.
    found = detect_carrier(config, nodes)[0] or (BY_TIME if config.coordinates else None)
    if found == BY_TIME:
        _check_known_times(nodes)
    return found


def _check_known_times(nodes: Sequence[NodeInput]) -> None:
    """Raise ConfigError if a node was a MariaDB: its events have whole seconds, of when a statement began."""
    for node in nodes:
        file = next((file for file in node.files if FROM_MARIADB in file.server_version), None)
        if file is not None:
            raise ConfigError(
                "the node is a MariaDB, whose binlog has no commit times, but the second in which a statement began",
                node=node.source_id,
                file=file.path,
                remedy="where rows never move from shard to shard, any order between shards is right: write "
                "`commit-tso: {carrier: gtid-time}`, and it is that of these seconds. Else have transactions write a "
                "commit table (`carrier: commit-table`)",
            )


def _newest_version(discovery: Discovery) -> str:
    """Return the newest server version among the nodes' first files: an upgrade later on does not change an output."""
    return max((files[0].server_version for files in discovery.nodes.values()), key=lambda v: (version_number(v), v))
