"""The merge, stage by stage.

    discover → scan → assemble → coordinate → order → cut → gather → publish

Whatever stops a stage lowers the *limit*, the key up to which everything is understood; what lies below it is still
merged and published, then the error is raised. So the output is always a valid prefix, and a run after the cause is
removed goes on there.
"""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from binlog_merge.config import MergeConfig
from binlog_merge.errors import ConfigError, LateTransaction, MergeError
from binlog_merge.files.continuation import check_continuation
from binlog_merge.files.directory import Discovery, discover
from binlog_merge.files.failpoint import failpoint
from binlog_merge.files.lock import OutputLock
from binlog_merge.files.manifest import Header, Manifest, NodeState, OutputFile, Publish
from binlog_merge.files.publish import file_name, part_path, publish, recover
from binlog_merge.job.cutting import Cut, cut
from binlog_merge.job.inputs import NodeInput, detect_carrier, node_inputs, scan_tasks
from binlog_merge.job.nodes import ScannedNode, assemble_node, check_late, checkpoint, misread
from binlog_merge.job.result import MergeResult, NodeResult
from binlog_merge.job.runner import Runner
from binlog_merge.job.schemas import Coordination, SchemaWork
from binlog_merge.merge.assemble import check_without_tso
from binlog_merge.merge.carriers import DEFAULT
from binlog_merge.merge.render import FileHead, version_number
from binlog_merge.stages.gather import GatherResult, GatherTask, InputFile, gather
from binlog_merge.stages.order import OrderResult, OrderTask, order, ranges
from binlog_merge.stages.plans import Schemas
from binlog_merge.stages.scan import ScanResult, scan
from snapshot_store.tso import ORIGIN, OrderKey

Progress = Callable[[str, int, int], None]

WORK_FOLDER = ".work"
RANGE_BYTES = 256 << 20
GREATEST_KEY = OrderKey((1 << 63) - 1, (1 << 63) - 1, (1 << 62), 1 << 30)


@dataclass
class Job:
    """One run: what was asked for, and what has been found out so far."""

    runner: Runner
    config: MergeConfig
    directory: Path
    start_tso: int | None
    stop_tso: int | None
    end_of_input: bool
    partitions: int | None
    progress: Progress
    warnings: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def work(self) -> Path:
        return self.directory / WORK_FOLDER

    @contextmanager
    def stage(self, name: str, total: int = 1) -> Any:
        """Time a stage and report its beginning and end."""
        begun = time.perf_counter()
        self.progress(name, 0, total)
        yield
        self.progress(name, total, total)
        self.seconds[name] = round(time.perf_counter() - begun, 3)
        failpoint(f"after-{name}")


def run_merge(
    runner: Runner,
    config: MergeConfig,
    out: str | Path,
    *,
    start_tso: int | None = None,
    stop_tso: int | None = None,
    end_of_input: bool = False,
    partitions: int | None = None,
    progress: Progress | None = None,
) -> MergeResult:
    """Merge what the nodes have written into `out`, going on where its manifest ends.

    Raises MergeError; when something was published before the stop, its `result` says what.
    """
    directory = Path(out)
    with OutputLock(directory):
        silent: Progress = lambda stage, done, total: None  # noqa: E731
        job = Job(runner, config, directory, start_tso, stop_tso, end_of_input, partitions, progress or silent)
        try:
            return _run(job)
        finally:
            _clean(job.work)


def _clean(folder: Path) -> None:
    if folder.is_dir():
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


@dataclass(frozen=True)
class Inputs:
    """The nodes' files and what the output was begun with."""

    manifest: Manifest
    header: Header
    head: FileHead
    nodes: list[NodeInput]
    carrier: str


def _run(job: Job) -> MergeResult:
    with job.stage("discover"):
        inputs = _begin(job)
    scanned = _scan(job, inputs)
    floor = _floor(job, inputs)
    for node in scanned:
        check_late(node, floor)
    check_without_tso({n.source_id: n.without_tso for n in scanned})
    with job.stage("coordinate"):
        work = SchemaWork(job.config, job.directory, inputs.manifest, scanned, inputs.nodes)
        limit, watermarks, errors = _limit(job, scanned)
        coordination = work.coordinate(_merged_to(inputs), limit, version_number(inputs.header.server_version))
        if coordination.stopped is not None and coordination.stopped < limit:
            limit, errors = coordination.stopped, [coordination.error]
    ordered = _order(job, inputs, scanned, coordination, floor, limit)
    late = next((r.late for r in ordered if r.late is not None), None)
    if late is not None:
        key, number, file_index, position = late
        source = next(n for n in scanned if n.input.number == number)
        raise LateTransaction(
            "a transaction stands below the published watermark",
            node=source.source_id, file=source.input.files[file_index].path, position=position, order_key=key,
        )  # fmt: skip
    gathered = _gather(job, inputs, scanned, coordination, ordered)
    failed = next((g for g in gathered if g.error is not None), None)
    if failed is not None and failed.error is not None:
        errors = [MergeError.from_dict(failed.error)]
        written = [g.last_key for g in gathered[: gathered.index(failed) + 1] if g.last_key is not None]
        limit = _after(written[-1]) if written else floor
    with job.stage("publish"):
        kept = gathered[: gathered.index(failed) + 1] if failed is not None else gathered
        kept = [g for g in kept if g.size and (g.last_key is not None or g.closed)]
        work.store(coordination, limit)
        _publish(job, inputs, scanned, coordination, kept, floor, limit)
    result = _result(job, inputs, scanned, coordination, ordered, kept, watermarks, limit)
    if errors and errors[0] is not None:
        error = errors[0]
        error.result = result
        raise error
    return result


def _begin(job: Job) -> Inputs:
    """Load the manifest, put the directory in order, find the files; write the header of a new output."""
    manifest = Manifest.load(job.directory)
    header = manifest.state.header
    if header is not None:
        check_continuation(header, job.config)
    recover(job.directory, manifest, job.config.output.basename)
    _clean(job.work)
    job.work.mkdir()
    discovery = discover(job.config)
    numbers = job.config.node_numbers(header.node_numbers if header is not None else None)
    nodes = node_inputs(discovery, numbers, manifest.state)
    carrier = _carrier(job, nodes, header)
    if header is None or dict(header.node_numbers) != numbers or header.carrier != carrier:
        version = header.server_version if header is not None else _newest_version(discovery)
        header = Header(
            cluster_uuid=header.cluster_uuid if header is not None else job.config.cluster_uuid(),
            name=job.config.name,
            node_numbers=numbers,
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
    )
    return Inputs(manifest, header, head, nodes, carrier or DEFAULT)


def _carrier(job: Job, nodes: Sequence[NodeInput], header: Header | None) -> str | None:
    configured = job.config.commit_tso.carrier
    if configured != "auto":
        return configured
    if header is not None and header.carrier is not None:
        return header.carrier
    return detect_carrier(job.config, nodes)[0]


def _newest_version(discovery: Discovery) -> str:
    """Return the newest server version among the nodes' first files: a later upgrade does not change an output."""
    return max((files[0].server_version for files in discovery.nodes.values()), key=lambda v: (version_number(v), v))


def _scan(job: Job, inputs: Inputs) -> list[ScannedNode]:
    tasks = scan_tasks(inputs.nodes, job.config, inputs.carrier, str(job.work), job.partitions, frozenset())
    with job.stage("scan", len(tasks)):
        results: list[ScanResult] = job.runner.run("scan", scan, tasks)
        wrong = misread(results)
        if wrong:
            # A row image that holds a binlog of its own, at just its own place: scan such a file in one piece.
            paths = frozenset(t.path for t in tasks if (t.node, t.file_index) in wrong)
            tasks = scan_tasks(inputs.nodes, job.config, inputs.carrier, str(job.work), job.partitions, paths)
            results = job.runner.run("scan", scan, tasks)
    with job.stage("assemble"):
        by_node: dict[str, list[tuple[ScanResult, str]]] = {}
        for task, result in zip(tasks, results, strict=True):
            by_node.setdefault(task.node, []).append((result, task.block))
        scanned = []
        for node in inputs.nodes:
            pairs = by_node.get(node.source_id, [])
            scanned.append(assemble_node(node, [r for r, _ in pairs], [p for _, p in pairs], job.end_of_input))
    for one in scanned:
        job.warnings += one.warnings
    return scanned


def _merged_to(inputs: Inputs) -> OrderKey:
    """Return the key before which earlier runs have merged everything."""
    last = inputs.manifest.state.last
    return ORIGIN if last is None else OrderKey.parse(last.state["floor"])


def _floor(job: Job, inputs: Inputs) -> OrderKey:
    """Return the key from which on transactions come out."""
    last = inputs.manifest.state.last
    if last is None:
        return OrderKey(job.start_tso, 0, 0, 0) if job.start_tso is not None else ORIGIN
    begun_with = last.state.get("start_tso")
    if job.start_tso is not None and begun_with != job.start_tso:
        raise ConfigError(
            f"--start-tso {job.start_tso}, but this output was begun with {begun_with}",
            remedy="leave --start-tso out, or choose another --out",
        )
    return _merged_to(inputs)


def _limit(
    job: Job, scanned: Sequence[ScannedNode]
) -> tuple[OrderKey, dict[str, OrderKey | None], list[MergeError | None]]:
    """Return the key below which everything is final, the nodes' watermarks, and the errors that lower it."""
    watermarks = {n.source_id: n.watermark(job.config.commit_tso.max_disorder) for n in scanned}
    errors: list[MergeError | None] = [n.error for n in scanned if n.error is not None]
    limit = GREATEST_KEY
    for node in scanned:
        if job.end_of_input and node.error is None:
            continue
        limit = min(limit, watermarks[node.source_id] or ORIGIN)
    if job.stop_tso is not None:
        limit = min(limit, OrderKey(job.stop_tso, 0, 0, 0))
    return limit, watermarks, errors


def _order(
    job: Job,
    inputs: Inputs,
    scanned: Sequence[ScannedNode],
    coordination: Coordination,
    floor: OrderKey,
    limit: OrderKey,
) -> list[OrderResult]:
    points = [q for n in scanned for p in n.pieces for q in p.quantiles]
    total = sum(weight for _, weight in points)
    large = total > 1 << 20
    wanted = job.partitions or (max(job.runner.slots, -(-total // RANGE_BYTES)) if large else 1)
    blocks = tuple(b for n in scanned for b in n.blocks)
    edges = tuple(e for n in scanned for e in n.edges)
    seen = {n.number: n.seen for n in inputs.nodes if n.seen is not None}
    tasks = [
        OrderTask(
            i, low, high, floor, limit, blocks, edges, coordination.topology,
            frozenset((d.key.commit_tso, d.key.transaction_id) for d in coordination.ddl), seen,
            str(job.work / f"order-{i:06d}.arrow"),
        )
        for i, (low, high) in enumerate(ranges(points, wanted))
    ]  # fmt: skip
    with job.stage("order", len(tasks)):
        return job.runner.run("order", order, tasks)


def _gather(
    job: Job,
    inputs: Inputs,
    scanned: Sequence[ScannedNode],
    coordination: Coordination,
    ordered: Sequence[OrderResult],
) -> list[GatherResult]:
    state = inputs.manifest.state
    open_file = state.open_file
    used = open_file.input_bytes if open_file is not None else None
    cuts = cut(ordered, job.config.output.max_size, state.rank + 1, used)
    number = len(state.files) if open_file is not None else len(state.files) + 1
    files = {(n.number, i): InputFile(f.path, f.checksum_alg == 1) for n in inputs.nodes for i, f in enumerate(n.files)}
    tasks = [
        _gather_task(
            job, inputs, coordination, files, one, number + i, open_file if one.goes_on else None, i + 1 < len(cuts)
        )
        for i, one in enumerate(cuts)
    ]
    with job.stage("gather", len(tasks)):
        return job.runner.run("gather", gather, tasks) if tasks else []


def _gather_task(
    job: Job,
    inputs: Inputs,
    coordination: Coordination,
    files: Mapping[tuple[int, int], InputFile],
    one: Cut,
    number: int,
    goes_on: OutputFile | None,
    closes: bool,
) -> GatherTask:
    basename = job.config.output.basename
    name = file_name(basename, number)
    return GatherTask(
        name=name,
        path=str(part_path(job.directory, name)),
        prefix=(str(job.directory / name), goes_on.size) if goes_on is not None else None,
        head=inputs.head,
        runs=tuple(one.runs),
        rank=one.rank,
        sequence=goes_on.sequence_number + 1 if goes_on is not None else 1,
        last_timestamp=int(goes_on.state["last_timestamp"]) if goes_on is not None else 0,
        next_name=file_name(basename, number + 1) if closes else None,
        nodes={n.number: n.source_id for n in inputs.nodes},
        files=files,
        schemas=Schemas(coordination.history, coordination.topology),
        ddl={(d.key.commit_tso, d.key.transaction_id): d for d in coordination.ddl},
    )


def _publish(
    job: Job,
    inputs: Inputs,
    scanned: Sequence[ScannedNode],
    coordination: Coordination,
    kept: Sequence[GatherResult],
    floor: OrderKey,
    limit: OrderKey,
) -> None:
    """Append the run to the manifest, with its files; a run that changes nothing leaves no record."""
    state = inputs.manifest.state
    files = tuple(_output_file(state.open_file, g) for g in kept)
    last_key = next((g.last_key for g in reversed(kept) if g.last_key is not None), None)
    reached = limit if limit != GREATEST_KEY else _after(last_key)
    next_floor = max(floor, reached)
    totals = dict(state.last.totals) if state.last is not None else {}
    for name, value in _totals(kept).items():
        totals[name] = totals.get(name, 0) + value
    previous = state.last.last_key if state.last is not None else None
    record = Publish(
        run=state.run + 1,
        files=files,
        last_key=last_key.text() if last_key is not None else previous,
        watermark=limit.text() if limit != GREATEST_KEY else None,
        rank=kept[-1].rank - 1 if kept else state.rank,
        totals=totals,
        nodes={n.source_id: _node_state(n, next_floor) for n in scanned},
        end_of_input=job.end_of_input,
        state={
            "floor": next_floor.text(),
            "start_tso": job.start_tso if state.last is None else state.last.state.get("start_tso"),
            "ddl_done": {node: key.text() for node, key in coordination.ddl_done.items()},
        },
    )
    unchanged = (
        state.last is not None and not kept and (record.state, record.nodes) == (state.last.state, state.last.nodes)
    )
    if not unchanged:
        publish(job.directory, inputs.manifest, record, {g.name: Path(g.path) for g in kept})
    for path in job.directory.glob(".*.part"):
        path.unlink()


def _after(key: OrderKey | None) -> OrderKey:
    return ORIGIN if key is None else key._replace(node_seq=key.node_seq + 1)


def _totals(kept: Sequence[GatherResult]) -> dict[str, int]:
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
        state={"last_timestamp": g.last_timestamp},
    )


def _node_state(node: ScannedNode, floor: OrderKey) -> NodeState:
    files = node.input.files
    index, carry = checkpoint(node, floor)
    end_index, end = node.end
    return NodeState(
        scan_end_file=files[end_index].name,
        scan_end_position=end,
        checkpoint={
            "file": files[index].name,
            "identity": files[index].identity,
            "end_identity": files[end_index].identity,
            "carry": carry.to_dict([f.name for f in files]),
        },
    )


def _result(
    job: Job,
    inputs: Inputs,
    scanned: Sequence[ScannedNode],
    coordination: Coordination,
    ordered: Sequence[OrderResult],
    kept: Sequence[GatherResult],
    watermarks: Mapping[str, OrderKey | None],
    limit: OrderKey,
) -> MergeResult:
    least = min((w or ORIGIN for w in watermarks.values()), default=ORIGIN)
    holders = sorted(n for n, w in watermarks.items() if (w or ORIGIN) == least)
    totals = _totals(kept)
    held = sum(r.held for r in ordered)
    transactions = sum(g.transactions for g in kept)
    nodes = {
        n.source_id: NodeResult(
            watermark=_text(watermarks[n.source_id]),
            holds_back=n.source_id in holders and bool(held) and not job.end_of_input,
            files=len(n.input.files),
            read_to=f"{n.input.files[n.end[0]].name}:{n.end[1]}",
            open_branches=len(n.carry.open),
        )
        for n in scanned
    }
    in_doubt = tuple(
        {
            "node": n.source_id,
            "file": n.input.files[p.file_index].name if p.file_index >= 0 else "",
            "position": p.start,
            "transaction_id": p.transaction,
        }
        for n in scanned
        for p in n.carry.open.values()
    )
    return MergeResult(
        files=tuple(
            {"name": g.name, "size": g.size, "closed": g.closed, "path": str(job.directory / g.name)} for g in kept
        ),
        watermark=None if limit == GREATEST_KEY else limit.text(),
        end_of_input=limit == GREATEST_KEY,
        first_key=_text(next((g.first_key for g in kept if g.first_key is not None), None)),
        last_key=_text(next((g.last_key for g in reversed(kept) if g.last_key is not None), None)),
        transactions=transactions,
        branches=totals["branches"],
        events=totals["events"],
        row_events=sum(g.row_events for g in kept),
        rows_reshaped=totals["rows_reshaped"],
        ddl=totals["ddl"],
        input_bytes=totals["input_bytes"],
        output_bytes=sum(g.size for g in kept),
        held=held,
        held_bytes=sum(r.held_bytes for r in ordered),
        held_back_by=holders[0] if held and not job.end_of_input else None,
        in_doubt=in_doubt,
        nodes=nodes,
        carrier=inputs.header.carrier,
        ignored={
            "events": sum(p.ignored for n in scanned for p in n.pieces),
            "branches": sum(r.empty for r in ordered),
            "ddl": coordination.ignored,
            "markers": coordination.swallowed,
        },
        warnings=tuple(job.warnings),
        stages=dict(job.seconds),
    )


def _text(key: OrderKey | None) -> str | None:
    return None if key is None else key.text()
