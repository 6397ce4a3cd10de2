"""The merge, stage by stage.

    discover → scan → assemble → coordinate → order → cut → gather → publish

Whatever stops a stage lowers the *limit*, the key up to which everything is understood; what lies below it is still
merged and published, then the error is raised. So the output is always a valid prefix, and a run after the cause is
removed goes on there.
"""

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from binlog_merge.config import MergeConfig
from binlog_merge.errors import ConfigError, LateTransaction, MergeError
from binlog_merge.files.continuation import check_continuation
from binlog_merge.files.directory import Discovery, discover
from binlog_merge.files.lock import OutputLock
from binlog_merge.files.manifest import Header, Manifest, OutputFile
from binlog_merge.files.publish import file_name, part_path, recover
from binlog_merge.job.assembling import assemble_node, misread
from binlog_merge.job.clocks import check_clocks
from binlog_merge.job.cluster import ClusterWork
from binlog_merge.job.conflicts import tso_conflict
from binlog_merge.job.cutting import Cut, cut
from binlog_merge.job.inputs import NodeInput, detect_carrier, node_inputs, scan_tasks
from binlog_merge.job.nodes import ScannedNode, check_late, first_lost, half_committed
from binlog_merge.job.ordering import Ordered, order_all
from binlog_merge.job.publishing import publish_run
from binlog_merge.job.result import MergeResult
from binlog_merge.job.runner import Runner
from binlog_merge.job.schemas import Coordination, SchemaWork, topology_of
from binlog_merge.job.shards import ShardWork
from binlog_merge.job.shared_rows import logged_elsewhere, with_rows
from binlog_merge.job.state import GREATEST_KEY, Inputs, Job, Progress, key_after
from binlog_merge.job.stores import SchemaStore
from binlog_merge.job.summary import result_of
from binlog_merge.job.undecided import undecided
from binlog_merge.merge.assemble import Hash, check_without_tso, split_transactions
from binlog_merge.merge.carriers import BY_TIME, DEFAULT, POLARDBX
from binlog_merge.merge.convert import ReshapeOptions
from binlog_merge.merge.render import FileHead, version_number
from binlog_merge.stages.gather import gather
from binlog_merge.stages.gather_state import GatherResult, GatherTask, InputFile
from binlog_merge.stages.holds import NODES, Holds, place_of
from binlog_merge.stages.plans import Schemas
from binlog_merge.stages.scan import scan
from binlog_merge.stages.scan_values import ScanResult
from snapshot_store.tso import ORIGIN, OrderKey


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


def _run(job: Job) -> MergeResult:
    with job.stage("discover"):
        inputs = _begin(job)
    scanned = _scan(job, inputs)
    floor = _floor(job, inputs)
    if inputs.carrier not in (POLARDBX, BY_TIME):
        check_without_tso({n.source_id: n.without_tso for n in scanned})
    with job.stage("coordinate"):
        store = SchemaStore(job.config, job.directory, inputs.manifest)
        merged_to = _merged_to(inputs)
        cluster = ClusterWork(
            job.config, scanned, inputs.nodes, merged_to, inputs.carrier == POLARDBX, topology_of(job.config),
            job.directory,
        )  # fmt: skip
        shards = ShardWork(job.config, topology_of(job.config), merged_to, job.directory)
        work = SchemaWork(job.config, store, scanned, inputs.nodes, merged_to, cluster, shards)
        limit, watermarks, errors = _limit(job, scanned, cluster, floor)
        if shards.active and limit != GREATEST_KEY:
            limit = limit._replace(node_seq=0)  # events that differ in nothing but their nodes are of one run
        gone = {n.source_id for n in scanned if cluster.bound(n, watermarks[n.source_id]) is None}
        for node in scanned:
            if node.source_id not in gone:
                check_late(node, floor)
        coordination = work.coordinate(limit, version_number(inputs.header.server_version))
        job.warnings += coordination.notes
        if coordination.stopped is not None and coordination.stopped < limit:
            limit, errors = coordination.stopped, [coordination.error]
    ordered = order_all(job, inputs, scanned, coordination, floor, limit)
    late = next((r.late for r in ordered.parts if r.late is not None), None)
    if late is not None:
        key, number, file_index, position = late
        source = next(n for n in scanned if n.input.number == number)
        raise LateTransaction(
            "a transaction stands below the published watermark",
            node=source.source_id, file=source.input.files[file_index].path, position=position, order_key=key,
        )  # fmt: skip
    gathered = _gather(job, inputs, coordination, ordered)
    while (failed := next((g for g in gathered if g.error is not None), None)) is not None:
        assert failed.error is not None
        errors = [MergeError.from_dict(failed.error)]
        gathered = gathered[: gathered.index(failed) + 1]
        limit = _written_to(gathered, coordination.holds) or floor
        if coordination.holds is None:
            break
        # What comes out at one place comes out in one run, and with another limit other rows wait.
        ordered = order_all(job, inputs, scanned, coordination, floor, limit)
        gathered = _gather(job, inputs, coordination, ordered)
    with job.stage("publish"):
        kept = [g for g in gathered if g.size and (g.last_key is not None or g.closed)]
        believed = sorted({said for g in kept for said in g.believed})
        job.warnings += [f"the table map is believed, not the schema history: {said}" for said in believed]
        last_key = next((g.last_key for g in reversed(kept) if g.last_key is not None), None)
        next_floor = max(floor, limit if limit != GREATEST_KEY else _behind(last_key, coordination.holds))
        versions = work.save(coordination, limit, next_floor, errors[0] if errors else None)
        cluster.keep(next_floor)
        shards.keep(next_floor, limit, ordered.waiting)
        publish_run(job, inputs, scanned, coordination, kept, next_floor, limit, versions, ordered.waiting_files)
    result = result_of(job, inputs, scanned, coordination, ordered, kept, watermarks, limit, gone)
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
        check_continuation(header, job.config, bool(manifest.state.files))
    recover(job.directory, manifest, job.config.output.basename)
    _clean(job.work)
    job.work.mkdir()
    discovery = discover(job.config)
    numbers = job.config.node_numbers(header.node_numbers if header is not None else None)
    if job.config.coordinates and max(numbers.values()) >= NODES:
        raise ConfigError(
            f"a node has the number {max(numbers.values())}; without markers numbers are below {NODES}",
            remedy="choose smaller node-numbers; or merge fewer nodes into one output",
        )
    nodes = node_inputs(discovery, numbers, manifest.state)
    carrier = _carrier(job, nodes, header)
    if carrier == POLARDBX and job.config.coordinates:
        raise ConfigError(
            "the nodes are PolarDB-X's, whose markers tell of every DDL; a shard-mode other than marker is for others",
            remedy="leave shard-mode out; if these are plain MySQL shards, set commit-tso.carrier",
        )
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
        job.config.output.cts,
    )
    return Inputs(manifest, header, head, nodes, carrier or DEFAULT)


def _carrier(job: Job, nodes: Sequence[NodeInput], header: Header | None) -> str | None:
    configured = job.config.commit_tso.carrier
    if configured != "auto":
        return configured
    if header is not None and header.carrier is not None:
        return header.carrier
    # Shards that no commit TSO was found on have none, as a rule.
    return detect_carrier(job.config, nodes)[0] or (BY_TIME if job.config.coordinates else None)


def _newest_version(discovery: Discovery) -> str:
    """Return the newest server version among the nodes' first files: a later upgrade does not change an output."""
    return max((files[0].server_version for files in discovery.nodes.values()), key=lambda v: (version_number(v), v))


def _scan(job: Job, inputs: Inputs) -> list[ScannedNode]:
    tasks = scan_tasks(inputs.nodes, job.config, inputs.carrier, str(job.work), job.partitions, frozenset())
    with job.stage("scan", len(tasks)):
        results: list[ScanResult] = job.runner.run("scan", scan, tasks)
        wrong = misread(results, {(t.node, t.file_index): t.size for t in tasks})
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
        carried = [node.carry.commit_rows for node in inputs.nodes]
        all_pieces = [pair for pairs in by_node.values() for pair in pairs]
        told = logged_elsewhere(all_pieces, carried, inputs.carrier == POLARDBX)
        for node in inputs.nodes:
            pairs = by_node.get(node.source_id, [])
            results, prefixes = [with_rows(result, told) for result, _ in pairs], [prefix for _, prefix in pairs]
            scanned.append(assemble_node(node, results, prefixes, job.end_of_input))
    for one in scanned:
        job.warnings += one.warnings
    if job.end_of_input and all(one.error is None for one in scanned):
        job.warnings += half_committed(scanned)
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
    job: Job, scanned: Sequence[ScannedNode], cluster: ClusterWork, floor: OrderKey
) -> tuple[OrderKey, dict[str, OrderKey | None], list[MergeError | None]]:
    """Return the key below which everything is final, the nodes' watermarks, and the errors that lower it."""
    watermarks = {n.source_id: n.watermark(job.config.commit_tso.max_disorder) for n in scanned}
    waiting = _waiting(job, scanned, cluster, watermarks) if cluster.polardbx else {}
    errors: list[MergeError | None] = [n.error for n in scanned if n.error is not None]
    limit = GREATEST_KEY
    stepped = check_clocks(scanned, job.config.commit_tso, floor, job.warnings)
    for node in scanned:
        if job.end_of_input and node.error is None:
            continue
        limit = min(limit, cluster.bound(node, watermarks[node.source_id]) or GREATEST_KEY)
    limit = min([limit, *waiting.values()])
    if job.stop_tso is not None:
        limit = min(limit, OrderKey(job.stop_tso, 0, 0, 0))
    conflict = None if any(n.by_time for n in scanned) else tso_conflict(scanned, cluster.polardbx, floor)
    for error in (stepped, conflict, first_lost(scanned, floor)):
        if error is not None and error.order_key is not None and OrderKey.parse(error.order_key) < limit:
            limit, errors = OrderKey.parse(error.order_key), [error]
    return limit, watermarks, errors


def _waiting(
    job: Job, scanned: Sequence[ScannedNode], cluster: ClusterWork, watermarks: dict[str, OrderKey | None]
) -> Mapping[str, OrderKey]:
    """Lower the watermarks of nodes that have XA COMMITs whose TSO may still come, and return to what; warn of those
    for which none will.
    """
    found: Mapping[str, tuple[OrderKey, frozenset[Hash]]] = {}
    if not job.end_of_input or any(n.error is not None for n in scanned):
        found = undecided([n for n in scanned if cluster.bound(n, watermarks[n.source_id]) is not None])
    for name, (key, _) in found.items():
        watermarks[name] = min(watermarks[name] or key, key)
    without = {
        n.source_id: [one for one in n.without_tso if n.source_id not in found or one[0] not in found[n.source_id][1]]
        for n in scanned
    }
    job.warnings += split_transactions(without)
    return {name: key for name, (key, _) in found.items()}


def _behind(key: OrderKey | None, holds: Holds | None) -> OrderKey:
    """Return the least key behind what came out last."""
    return key_after(key if key is None or holds is None else place_of(key).key)


def _written_to(written: Sequence[GatherResult], holds: Holds | None) -> OrderKey | None:
    """Return the key below which everything came out before the last of these failed, None if nothing did.

    With holds, a place of which something is missing counts as missing.
    """
    last = next((g.last_key for g in reversed(written) if g.last_key is not None), None)
    if last is None:
        return None
    missing = written[-1].failed
    if holds is not None and missing is not None and place_of(missing).key == place_of(last).key:
        return place_of(last).key
    return _behind(last, holds)


def _gather(job: Job, inputs: Inputs, coordination: Coordination, ordered: Ordered) -> list[GatherResult]:
    state = inputs.manifest.state
    open_file = state.open_file
    used = open_file.input_bytes if open_file is not None else None
    cuts = cut(ordered.parts, job.config.output.max_size, state.rank + 1, used)
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
        schemas=Schemas(
            coordination.history,
            coordination.topology,
            job.config.schemas.not_understood == "opaque",
            reshape=ReshapeOptions(job.config.reshape.on_unconvertible, job.config.reshape.offset),
            places=coordination.places,
            polardbx=inputs.carrier == POLARDBX,
            modes=coordination.modes,
            holds=coordination.holds,
            filter=job.filter,
        ),
        ddl={d.key: d for d in coordination.ddl},
        hints=inputs.carrier == POLARDBX,
    )
