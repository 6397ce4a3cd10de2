"""The input of a run: per node the files from its checkpoint on, the state carried over from earlier runs, the pieces
to scan, and the GTIDs executed before a file.

The GTIDs tell whether a file that ends with neither ROTATE nor STOP is complete. A server that crashes writes neither.
After the restart it truncates the file after its last whole transaction, clears the in-use flag as if it had closed the
file (mysql-server, `sql/binlog.cc`, `MYSQL_BIN_LOG::open_binlog`), and begins the next file, whose PREVIOUS_GTIDS names
everything executed before. So GTIDs distinguish a crash from a truncated copy; without GTIDs nothing does.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from binlog_merge.binlog.constants import ChecksumAlg, EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog.header import EventHeader, RawEvent
from binlog_merge.binlog.kernels.scan_layout import GCN_SIZE
from binlog_merge.binlog.payload import TransactionPayload
from binlog_merge.config.merge_config import MergeConfig, topology_of
from binlog_merge.errors import ConfigError, MissingFile, NoFiles, ShorterThanMerged, WrongNode
from binlog_merge.files.captured import begun_of
from binlog_merge.files.manifest import ManifestState, NodeState
from binlog_merge.files.needed import file_number
from binlog_merge.files.node_file import Discovery, NodeFile, open_known
from binlog_merge.files.servers import FollowingServer, LogEnd
from binlog_merge.pipeline.base.branches import Carry
from binlog_merge.pipeline.base.decided import Skipped
from binlog_merge.pipeline.base.logged import MOST_SPANS, NodeGtids
from binlog_merge.pipeline.base.node_input import FILE_BEGINS, NodeInput, Resume
from binlog_merge.pipeline.scan.carriers import CARRIERS, Detection
from binlog_merge.pipeline.scan.values import Piece, PieceBlock, ScanResult, ScanTask

_MOST_BYTES: Final = 24 * MOST_SPANS


def executed_before(file: NodeFile) -> GtidSet | None:
    """Return a file's PREVIOUS_GTIDS, None if it has none, cannot be parsed, or has too many intervals to use.

    For a file of a server after the node's first one they include all that was captured before.
    """
    before = _previous(file)
    return before if before is None or file.earlier is None else before.union(file.earlier)


def elsewhere(file: NodeFile) -> GtidSet:
    """Return the GTIDs whose groups are left out where they are in a file: the logs of earlier servers have them."""
    return GtidSet() if file.earlier is None else file.earlier.minus(_previous(file) or GtidSet())


def _previous(file: NodeFile) -> GtidSet | None:
    if file.previous_gtids is None or len(file.previous_gtids) > _MOST_BYTES:
        return None
    try:
        return GtidSet.parse(file.previous_gtids)
    except BinlogFormatError:
        return None


def nothing_is_missing(
    files: Sequence[NodeFile], pieces: Sequence[ScanResult], index: int, skipped: GtidSet | None
) -> bool:
    """Return whether a file and those before it have all PREVIOUS_GTIDS of the next file, and it has none besides.

    A file before it may have others: what was committing when the next was begun is in no list
    (`node_capture.captured_gtids`). `skipped` are those of the file's groups before its first piece: an earlier run
    has read them. Returns False if that cannot be known: a file has no PREVIOUS_GTIDS, or transactions without a
    GTID, or `skipped` is None.
    """
    before, after = executed_before(files[index]), executed_before(files[index + 1])
    own = [p.logged for p in pieces if p.file_index == index]
    if before is None or after is None or skipped is None or any(logged.without or logged.scattered for logged in own):
        return False
    mine = GtidSet.of((*skipped.items(), *(item for logged in own for item in logged.all.items())))
    earlier = (item for p in pieces if p.file_index < index for item in p.logged.all.items())
    found = GtidSet.of((*before.items(), *mine.items(), *earlier))
    return bool(found) and found.contains_set(after) and after.contains_set(mine)


PIECE_BYTES = 256 << 20
BUNDLE_BYTES, GREATEST_BUNDLE = 4 << 20, 64 << 20
BUNDLES_A_SLOT = 4
DETECTION_BYTES = 64 << 20
NONE_SKIPPED = Skipped()
NO_PIECES: Mapping[str, Sequence[Piece]] = {}
_NOTHING_NEW = 1 << 62


def node_inputs(discovery: Discovery, numbers: Mapping[str, int], state: ManifestState) -> list[NodeInput]:
    """Return every node's input, in order of node number.

    Raises MissingFile if the checkpoint's file no longer exists, WrongNode if it is another file or shorter than
    before.
    """
    known = state.last.nodes if state.last is not None else {}
    inputs = [
        _node_input(source_id, numbers[source_id], files, known.get(source_id), discovery.servers.get(source_id, ()))
        for source_id, files in discovery.nodes.items()
    ]
    return sorted(inputs, key=lambda n: n.number)


def _node_input(
    source_id: str,
    number: int,
    files: tuple[NodeFile, ...],
    state: NodeState | None,
    servers: Sequence[FollowingServer] = (),
) -> NodeInput:
    if state is None:
        return NodeInput(source_id, number, files, 0, Carry(), None, _begun_with(files[0]))
    names = [f.name for f in files]
    checkpoint = state.checkpoint
    resume = checkpoint.get("resume") or {"file": checkpoint["file"], "identity": checkpoint["identity"]}
    _check_captured_again(source_id, files)
    if (first := _goes_on_at(files, resume, servers)) is not None:
        # Nothing is known to be late: which of these transactions were read before, of another server, no place says.
        there = [f"\0{index}" if index < first else name for index, name in enumerate(names)]
        carry, gtids = Carry.from_dict(checkpoint["carry"], there), NodeGtids.from_dict(checkpoint["gtids"])
        return NodeInput(source_id, number, files, first, carry, None, gtids)
    for name, identity in (
        (checkpoint["file"], checkpoint["identity"]),
        (resume["file"], resume["identity"]),
        (state.scan_end_file, checkpoint["end_identity"]),
    ):
        if name not in names:
            raise MissingFile(f"{name} is gone, and the merge goes on in it", node=source_id, file=name)
        if files[names.index(name)].identity != identity:
            raise WrongNode(
                f"{name} is not the file that was merged before",
                node=source_id,
                file=files[names.index(name)].path,
                remedy="the node began its binlogs anew: start a new output, or give the earlier files",
            )
    end = names.index(state.scan_end_file)
    if files[end].size < state.scan_end_position:
        raise ShorterThanMerged(
            f"the file is shorter ({files[end].size} bytes) than what was merged from it ({state.scan_end_position})",
            node=source_id,
            file=files[end].path,
            remedy="the node lost transactions in a crash after they were merged; begin a new output from a backup",
        )
    carry = Carry.from_dict(checkpoint["carry"], names)
    first = names.index(resume["file"])
    known = checkpoint.get("gtids")
    gtids = _begun_with(files[first]) if known is None else NodeGtids.from_dict(known)
    begins = Resume.from_dict(resume) if "position" in resume else Resume()
    return NodeInput(source_id, number, files, first, carry, (end, state.scan_end_position), gtids, begins)


def _goes_on_at(files: Sequence[NodeFile], resume: Mapping[str, Any], servers: Sequence[FollowingServer]) -> int | None:
    """Return the index of the first file of the server that has a node's log from where a scan goes on; None if none.

    A capture on a new host says so (`node_capture.servers`), where another server has the node by now.
    """
    folder, _, name = resume["file"].rpartition("/")
    left = LogEnd(folder, name, resume.get("position", FILE_BEGINS))
    server = next((server for server in servers if server.ended == left), None)
    if server is None:
        return None
    first = next((i for i, file in enumerate(files) if file.name.rpartition("/")[0] == server.folder), None)
    begun = None if first is None else begun_of(files[first].path)
    place = None if begun is None else (begun.resumed_in, begun.resumed)
    return first if place == (left.file, left.position) else None


def _check_captured_again(source_id: str, files: Sequence[NodeFile]) -> None:
    """Raise NoFiles while a capture that began where the output goes on has not fetched what was read of it again."""
    last = files[-1]
    begun = begun_of(last.path)
    if begun is None:
        return
    if (file_number(last.name), last.size) < (file_number(begun.read_in), begun.read):
        raise NoFiles(
            f"the log is captured up to {last.name}:{last.size}, and {begun.merged} was made of it up to what is "
            f"before {begun.read_in}:{begun.read}",
            node=source_id,
            file=last.path,
            remedy="it goes on when `binlog-merge capture` has fetched that again",
        )


def _begun_with(file: NodeFile) -> NodeGtids:
    return NodeGtids(base=executed_before(file) or GtidSet())


def scan_tasks(
    inputs: Sequence[NodeInput],
    config: MergeConfig,
    carrier: str,
    blocks: str,
    partitions: int | None,
    whole: frozenset[str],
    kept: Mapping[str, Sequence[Piece]] = NO_PIECES,
    first_number: int = 0,
    skipped: Skipped = NONE_SKIPPED,
) -> list[ScanTask]:
    """Cut what is still to be scanned into pieces, one task each, numbered from `first_number` on.

    `blocks` is how the paths of their index blocks begin.
    `kept` are, by node, the pieces that need no scan: the node's log is scanned from the end of the last one on, else
    from where the node resumes. Files whose path is in `whole` are not cut.
    """
    ranges = [(node, *found) for node in inputs for found in _ranges(node, kept.get(node.source_id, ()))]
    total = sum(node.files[index].size - start for node, index, start in ranges)
    piece = max(1, -(-total // partitions)) if partitions else PIECE_BYTES
    use = config.commit_tso.local_tso == "use" and CARRIERS[carrier].own
    topology, decided = topology_of(config), skipped.gtids
    tasks: list[ScanTask] = []
    for node, index, start in ranges:
        file = node.files[index]
        awaited = tuple(xid for xid, prepared in node.carry.open.items() if prepared.file_index < 0)
        span = file.size - start
        # A piece looks for its first group a little before its own bytes: not before where the scan goes on.
        count = 1 if file.path in whole else max(1, min(-(-span // piece), span // GCN_SIZE))
        for part in range(count):
            number = first_number + len(tasks)
            tasks.append(
                ScanTask(
                    piece=number,
                    node=node.source_id,
                    file_index=index,
                    file=file.known,
                    start=start + span * part // count,
                    stop=start + span * (part + 1) // count if part + 1 < count else _NOTHING_NEW,
                    checksum=file.checksum_alg == ChecksumAlg.CRC32,
                    carrier=CARRIERS[carrier].code,
                    use_own_tso=use,
                    commit_table=config.commit_tso.commit_table_name,
                    markers=config.markers.tables(),
                    block=PieceBlock(f"{blocks}-{number:06d}"),
                    exact=part == 0,
                    lenient=config.log_doubts == "warn",
                    seen=_seen(node, index),
                    elsewhere=elsewhere(file),
                    decided=decided,
                    decided_at=skipped.offsets(node.source_id, file),
                    awaited=awaited,
                    topology=topology,
                )
            )
    return tasks


def bundles(tasks: Sequence[ScanTask], slots: int) -> list[list[ScanTask]]:
    """Put small pieces together: an engine's task takes as long as scanning tens of megabytes, whatever it does.

    Of an engine that runs `slots` tasks at once each slot gets a few, so that all are busy to the end.
    """
    share = sum(task.length for task in tasks) // (slots * BUNDLES_A_SLOT)
    size = max(BUNDLE_BYTES, min(GREATEST_BUNDLE, share))
    found: list[list[ScanTask]] = []
    filled = 0
    for task in tasks:
        if not found or filled + task.length > size:  # the first piece may be empty
            found.append([])
            filled = 0
        found[-1].append(task)
        filled += task.length
    return found


def _ranges(node: NodeInput, kept: Sequence[Piece]) -> Iterator[tuple[int, int]]:
    """Yield (file index, offset) from which each of the node's files is still to be scanned, to its end."""
    first, start = (kept[-1].task.file_index, kept[-1].result.reached) if kept else (node.first, node.resume.start)
    yield first, start
    yield from ((index, FILE_BEGINS) for index in range(first + 1, len(node.files)))


def _seen(node: NodeInput, index: int) -> int:
    if node.seen is None or index > node.seen[0]:
        return -1
    return node.seen[1] if index == node.seen[0] else _NOTHING_NEW


def detect_carrier(config: MergeConfig, inputs: Sequence[NodeInput]) -> tuple[str | None, dict[str, str | None]]:
    """Return the carrier of the first committed XA transactions, and the carrier found on each node; None if none was
    found.

    Raises ConfigError if nodes differ.
    """
    detections = {n.source_id: Detection(config.commit_tso.commit_table_name) for n in inputs}
    found = {n.source_id: _detect(detections[n.source_id], n) for n in inputs}
    carriers = sorted({c for c in found.values() if c is not None})
    if not carriers:
        carriers = sorted({d.likely for d in detections.values() if d.likely is not None})
    if len(carriers) > 1:
        raise ConfigError(
            f"the nodes carry their commit TSOs in different ways: {found}",
            remedy=f"set commit-tso.carrier to one of {', '.join(CARRIERS)}",
        )
    return (carriers[0] if carriers else None), found


def _detect(detection: Detection, node: NodeInput) -> str | None:
    try:
        return detection.feed(_first_events(node.files[node.first :]))
    except BinlogFormatError:
        return None  # the scan reports the damage


def _first_events(files: Sequence[NodeFile]) -> Iterator[RawEvent]:
    """Yield the first events of a node's files: often several files, since nothing may commit in the first."""
    budget = DETECTION_BYTES
    for file in files:
        if budget <= 0:
            return
        yield from _head_events(file, budget)
        budget -= file.size


def _head_events(file: NodeFile, limit: int) -> Iterator[RawEvent]:
    """Yield the first events of a file, payloads unpacked. They are not checked: the scan does that."""
    crc = 4 if file.checksum_alg == ChecksumAlg.CRC32 else 0
    data = bytearray(min(file.size, limit))
    with open_known(file.known) as source:
        source.read_into(memoryview(data), 0)
    at = 4
    while at + 19 <= len(data):
        header = EventHeader.parse(data, at)
        if header.event_size < 19 + crc or at + header.event_size > len(data):
            return
        body = bytes(data[at + 19 : at + header.event_size - crc])
        if header.type_code == EventType.TRANSACTION_PAYLOAD_EVENT:
            yield from TransactionPayload.parse(body).events()
        elif header.type_code != EventType.FORMAT_DESCRIPTION_EVENT:
            yield RawEvent(header, body, at)
        at += header.event_size
