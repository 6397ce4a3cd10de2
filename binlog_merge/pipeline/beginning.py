"""The discover stage: loads the state that earlier runs left in the output directory and finds the nodes' files."""

import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from binlog_merge.binlog.constants import version_number
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import ConfigError, Purged
from binlog_merge.files.directory import discover
from binlog_merge.files.listing import KnownHeads
from binlog_merge.files.manifest import Header, Manifest, ManifestState
from binlog_merge.files.node_file import Discovery
from binlog_merge.files.output import check_continuation
from binlog_merge.files.publish import recover
from binlog_merge.files.removal import finish, read_removed
from binlog_merge.moved_keys import NODES
from binlog_merge.pipeline.base.decided import Decided, Skipped, read_decided, read_skipped, with_decided
from binlog_merge.pipeline.base.node_input import NodeInput
from binlog_merge.pipeline.base.render_values import FileHead
from binlog_merge.pipeline.base.state import Inputs, Job
from binlog_merge.pipeline.coordinate.stores import STORE_NAME, stored_note
from binlog_merge.pipeline.decisions import note_decisions
from binlog_merge.pipeline.idle import Notes, read_notes, with_notes
from binlog_merge.pipeline.round_state import Between
from binlog_merge.pipeline.scan.carriers import BY_TIME, DEFAULT, POLARDBX
from binlog_merge.pipeline.scan.inputs import detect_carrier, node_inputs
from binlog_merge.store_errors import as_merge_errors
from snapshot_store.tso import OrderKey

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """The nodes' files, by what the configuration says and earlier runs have read; `carrier` is None if unknown."""

    discovery: Discovery
    numbers: Mapping[str, int]
    nodes: list[NodeInput]
    carrier: str | None
    notes: Notes = Notes()  # noqa: RUF009 - frozen


def find_inputs(config: MergeConfig, state: ManifestState, heads: KnownHeads | None = None) -> Found:
    """Find the nodes' files and what carries their commit TSOs; nothing is written. `heads`: see `discover`.

    Raises ConfigError if the configuration contradicts the nodes, and what `discover` and `node_inputs` raise.
    """
    header = state.header
    # Before the files' sizes are taken, so that what a note covers is read.
    notes = read_notes(config)
    discovery = discover(config, heads)
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


def begin(job: Job, between: Between) -> Inputs:
    """Find the nodes' files, and write the header of a new output.

    A first round loads the manifest and undoes what a killed run left.

    Raises ConfigError if the configuration contradicts the output or the nodes.
    """
    job.config = job.config.with_captured_settings()
    manifest, read_again = between.manifest, tuple[str, ...]()
    if manifest is None:
        manifest = Manifest.load(job.directory)
        manifest.elsewhere = between.elsewhere
        if manifest.state.header is not None:
            check_continuation(manifest.state.header, job.config, bool(manifest.state.files))
        read_again = recover(job.directory, manifest, job.config.output.basename)
        finish(job.directory, manifest, job.config.captured_folders())
        between.manifest = manifest
    job.clear_work(between.pieces.paths())
    job.work.mkdir(exist_ok=True)
    header = manifest.state.header
    inputs = find_inputs(job.config, manifest.state, between.heads)
    check_beginnings(job.config, inputs.nodes, manifest.state, job.start_tso)
    between.found = inputs.discovery
    between.notes = inputs.notes.of
    job.warnings += inputs.notes.warnings
    carrier = inputs.carrier
    if header is None or dict(header.node_numbers) != inputs.numbers or header.carrier != carrier:
        version = header.server_version if header is not None else _newest_version(inputs.discovery)
        header = Header(
            cluster_uuid=header.cluster_uuid if header is not None else job.config.cluster_uuid(),
            name=job.config.name,
            node_numbers=inputs.numbers,
            server_version=version,
            fingerprint=job.config.fingerprint(),
            settings=job.config.settings(),
            carrier=carrier,
        )
        manifest.append(header)
    head = FileHead(
        job.config.output.server_id,
        header.server_version,
        version_number(header.server_version),
        uuid.UUID(header.cluster_uuid).bytes,
        job.config.output.gtid == "anonymous",
        job.config.output.cts,
    )
    ignored = inputs.discovery.ignored
    found = {
        "run": manifest.state.run + 1,
        "carrier": carrier,
        "nodes": {n.source_id: len(n.files) for n in inputs.nodes},
    }
    _LOG.info("files found", extra={**found, "left_out": len(ignored), "read_again": len(read_again)})
    skipped, decided = _decisions(job, between)
    nodes = [replace(n, gtids=replace(n.gtids, base=n.gtids.base.union(skipped.gtids))) for n in inputs.nodes]
    nodes = [with_decided(n, decided) for n in nodes]
    return Inputs(manifest, header, head, nodes, carrier or DEFAULT, ignored, read_again, skipped)


def _decisions(job: Job, between: Between) -> tuple[Skipped, tuple[Decided, ...]]:
    """Return the transactions that somebody decided to leave out, and those in whose place others are read."""
    path = job.directory / STORE_NAME

    def note(name: str) -> str | None:
        return between.schemas.note(name, lambda: stored_note(path, name)) if path.exists() else None

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
    return detect_carrier(config, nodes)[0] or (BY_TIME if config.coordinates else None)


def _newest_version(discovery: Discovery) -> str:
    """Return the newest server version among the nodes' first files: an upgrade later on does not change an output."""
    return max((files[0].server_version for files in discovery.nodes.values()), key=lambda v: (version_number(v), v))
