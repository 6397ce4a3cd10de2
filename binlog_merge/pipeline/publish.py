"""Publishes a run: keeps what the next run needs, renames the run's files and appends its record to the manifest."""

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.files.captured import recorded_server_uuid
from binlog_merge.files.manifest import ManifestState, NodeState, OutputFile, Publish
from binlog_merge.files.needed import CapturedBefore
from binlog_merge.files.node_file import gtid_at
from binlog_merge.files.parts import Rendered
from binlog_merge.files.publish import publish
from binlog_merge.files.servers import FollowingServer
from binlog_merge.pipeline.assemble.checkpoints import Checkpoint, checkpoint
from binlog_merge.pipeline.assemble.nodes import ScannedNode
from binlog_merge.pipeline.base.state import GREATEST_KEY
from binlog_merge.pipeline.coordinate.marker.driver import keep_cluster
from binlog_merge.pipeline.coordinate.shards.driver import keep_shards
from binlog_merge.pipeline.coordinate.value import made_of
from binlog_merge.pipeline.gather.driver import key_after_last
from binlog_merge.pipeline.gather.values import GatherResult
from binlog_merge.pipeline.scan.inputs import executed_before
from binlog_merge.pipeline.values import Run, WrittenRun
from snapshot_store.tso import ORIGIN, OrderKey

_LOG = logging.getLogger(__name__)


def floor_after(run: Run, written: WrittenRun) -> OrderKey:
    """Return the key at which the next run continues."""
    bound = written.bound.key
    end = bound if bound != GREATEST_KEY else key_after_last(written.last_key, run.coordination.holds)
    return max(run.floor, end)


def keep_schemas(run: Run, written: WrittenRun, next_floor: OrderKey) -> int | None:
    """Keep in the store what the next run needs: schema versions, what the cluster is, and DDL of shards that wait.

    Returns the number of logical versions that can no longer change.
    """
    job, coordination, bound = run.job, run.coordination, written.bound
    begins = min((n.begins for n in run.scanned if n.begins is not None), default=None)
    first = run.inputs.manifest.state.last is None and begins is not None
    beginning = OrderKey(begins[0], 0, 0, 0) if first and begins is not None else None
    versions = run.store.save(made_of(coordination, bound, run.known.floor, beginning), next_floor)
    keep_cluster(coordination.messages, job.directory, run.known.floor, next_floor)
    waiting = written.ordered.waiting
    keep_shards(coordination.shards, job.directory, next_floor, bound.key, waiting, run.store.cache)
    return versions


def publish_run(run: Run, written: WrittenRun, next_floor: OrderKey, logical_versions: int | None) -> None:
    """Append the run with its files to the manifest. A run that changes nothing leaves no record.

    `next_floor` is the key at which the next run continues, `logical_versions` what `keep_schemas` returns.
    """
    coordination = run.coordination
    announced = run.known.announced.state(coordination.seen, coordination.pending, next_floor)
    job, kept, limit, state = run.job, written.kept, written.bound.key, run.inputs.manifest.state
    discovery = run.inputs.discovery
    servers = {} if discovery is None else discovery.servers
    waiting = written.ordered.waiting_files
    files = tuple(_output_file(state.open_file, g) for g in kept)
    last_key = written.last_key
    totals = dict(state.last.totals) if state.last is not None else {}
    for name, value in totals_of(kept).items():
        totals[name] = totals.get(name, 0) + value
    previous = state.last.last_key if state.last is not None else None
    record = Publish(
        run=state.run + 1,
        files=files,
        last_key=last_key.text() if last_key is not None else previous,
        watermark=limit.text() if limit != GREATEST_KEY else None,
        rank=kept[-1].rank - 1 if kept else state.rank,
        totals=totals,
        nodes={
            n.source_id: _node_state(
                n,
                checkpoint(
                    n,
                    next_floor,
                    _history_to(run, n.source_id),
                    waiting.get(n.input.number),
                    inside=run.inputs.header.carrier is not None,
                ),
                servers.get(n.source_id, ()),
            )
            for n in run.scanned
        },
        end_of_input=job.end_of_input,
        state={
            "floor": next_floor.text(),
            "start_tso": job.start_tso if state.last is None else state.last.state.get("start_tso"),
            "ddl_done": {node: key.text() for node, key in coordination.ddl_done.items()},
            "logical_versions": logical_versions,
            **announced,
            **written.target.below(next_floor).to_state(),
        },
    )
    unchanged = state.last is not None and not kept and _kept_of(record) == _kept_of(state.last)
    if not unchanged:
        publish(job.directory, run.inputs.manifest, record, {g.name: g.sent or _rendered(g, state) for g in kept})
    values = {"run": record.run, "files": [f.name for f in files], "transactions": record.rank - state.rank}
    _LOG.info("published" if not unchanged else "nothing to publish", extra={**values, "watermark": record.watermark})
    for path in job.work.glob(f"{Path(job.written).name}.*"):
        path.unlink()


def _rendered(g: GatherResult, before: ManifestState) -> Rendered:
    open_file = before.open_file
    begins = open_file.size if open_file is not None and open_file.name == g.name else 0
    return Rendered(Path(g.path), g.size - begins, g.crc)


def _history_to(run: Run, node: str) -> OrderKey:
    """Return the key up to which a node's DDL is in its history: there is more only if the history has stopped."""
    ddls, done = run.known.ddls.get(node, ()), run.coordination.ddl_done.get(node, ORIGIN)
    return done if ddls and ddls[-1].key > done else GREATEST_KEY


def _kept_of(record: Publish) -> str:
    """Return what a record passes on to the next run, as the manifest writes it."""
    nodes = {name: asdict(node) for name, node in record.nodes.items()}
    return json.dumps([record.state, nodes], sort_keys=True)


def totals_of(kept: Sequence[GatherResult]) -> dict[str, int]:
    return {
        "branches": sum(g.branches for g in kept),
        "events": sum(g.events for g in kept),
        "rows_reshaped": sum(g.reshaped for g in kept),
        "ddl": sum(g.ddl for g in kept),
        "input_bytes": sum(g.input_bytes for g in kept),
    }


def _output_file(open_file: OutputFile | None, g: GatherResult) -> OutputFile:
    earlier = open_file if open_file is not None and open_file.name == g.name else None
    first = earlier.first_key if earlier is not None else (g.first_key or ORIGIN).text()
    first_rank = earlier.first_rank if earlier is not None else g.rank - (g.sequence - 1)
    last = g.last_key.text() if g.last_key is not None else (earlier.last_key if earlier is not None else first)
    return OutputFile(
        name=g.name,
        size=g.size,
        closed=g.closed,
        first_key=first,
        last_key=last,
        first_rank=first_rank,
        last_rank=g.rank - 1,
        input_bytes=g.input_bytes + (earlier.input_bytes if earlier is not None else 0),
        transactions=g.sequence - 1,
        sequence_number=g.sequence - 1,
        state={"last_timestamp": g.last_timestamp, **_rules(earlier, g)},
    )


def _rules(earlier: OutputFile | None, g: GatherResult) -> dict[str, int]:
    """Return by which rules the dependencies of a file's transactions were found: those of its first ones."""
    if g.dependencies is None or (earlier is not None and "writesets" not in earlier.state):
        return {}
    from binlog_merge.reshape.writesets import RULES

    return {"writesets": RULES if earlier is None else earlier.state["writesets"]}


def _node_state(node: ScannedNode, found: Checkpoint, servers: Sequence[FollowingServer]) -> NodeState:
    files = node.input.files
    end_index, end = node.end
    resume = {"file": files[found.file].name, "identity": files[found.file].identity, **found.resume.to_dict()}
    return NodeState(
        scan_end_file=files[end_index].name,
        scan_end_position=end,
        checkpoint={
            "file": files[found.oldest].name,
            "identity": files[found.oldest].identity,
            "end_identity": files[end_index].identity,
            "resume": resume,
            "carry": found.carry.to_dict([f.name for f in files]),
            "gtids": node.gtids.to_dict(),
            **_captured_before(node, found, servers),
        },
    )


def _captured_before(node: ScannedNode, found: Checkpoint, servers: Sequence[FollowingServer]) -> dict[str, Any]:
    """Return what a capture on another host needs to go on, where a capture fetches the node's files."""
    files = node.input.files
    server_uuid = recorded_server_uuid(files[found.file].path)
    if server_uuid is None:
        return {}
    before, own = executed_before(files[found.file]), found.resume.executed
    captured = CapturedBefore(
        server_uuid=server_uuid,
        position=found.begins,
        following=tuple(servers),
        executed=None if before is None or own is None else before.union(own),
        open=GtidSet.of(item for file, start in found.apart for item in gtid_at(files[file], start).items()),
    )
    return {"captured": captured.to_dict()}
