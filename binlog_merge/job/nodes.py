"""A node after the scan: its pieces joined, its watermark, its DDL and markers, and how far it can be trusted."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.query import Query
from binlog_merge.errors import ChecksumMismatch, LateTransaction, MarkerIncomplete, MergeError, TruncatedEvent
from binlog_merge.files.directory import NodeFile
from binlog_merge.files.source import open_source
from binlog_merge.job.inputs import NodeInput
from binlog_merge.job.sync_points import moved_locals
from binlog_merge.merge.assemble import Carry, assemble_piece, local_keys, lost_branch, node_watermark
from binlog_merge.merge.clock import time_tso
from binlog_merge.merge.coordinate.marker import Sighting
from binlog_merge.merge.histories import PhysicalDdl
from binlog_merge.merge.markers import MarkerCopy, SessionVariables, read_marker, transaction_events
from binlog_merge.merge.query_session import session_of, text_of
from binlog_merge.merge.render import version_number
from binlog_merge.polardbx.names import MarkerTables
from binlog_merge.stages.block import read_block
from binlog_merge.stages.order_values import Block, EdgeRow
from binlog_merge.stages.scan_values import ScanResult
from snapshot_store.tso import OrderKey


@dataclass
class ScannedNode:
    """One node, assembled. `error` says where its log stops being usable; `carries` are what comes in before each
    piece.
    """

    input: NodeInput
    pieces: list[ScanResult] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    carries: list[Carry] = field(default_factory=list)
    edges: list[EdgeRow] = field(default_factory=list)
    lost: list[tuple[OrderKey, int, int]] = field(default_factory=list)  # XA COMMITs without a prepare: file, offset
    carry: Carry = field(default_factory=Carry)
    without_tso: list[tuple[tuple[int, int], int]] = field(default_factory=list)
    error: MergeError | None = None
    warnings: list[str] = field(default_factory=list)
    least_new: tuple[int, int] | None = None

    @property
    def source_id(self) -> str:
        return self.input.source_id

    @property
    def end(self) -> tuple[int, int]:
        """Return (file index, offset) behind the last group that was read, in this run or before."""
        seen = self.input.seen or (self.input.first, 4)
        return next((max(seen, (p.file_index, p.end)) for p in reversed(self.pieces) if p.groups), seen)

    @property
    def by_time(self) -> bool:
        """Tell whether the node's clock gives the order."""
        return any(p.clock is not None for p in self.pieces)

    @property
    def begins(self) -> tuple[int, int] | None:
        """Return the least (tso, transaction) that no run had seen, None where nothing has come."""
        times = [p.clock.least for p in self.pieces if p.clock is not None]
        return (time_tso(min(times)), 0) if times else self.least_new

    def watermark(self, max_disorder: int) -> OrderKey | None:
        """Return the least order key that may still arrive, or None before the first commit TSO."""
        return node_watermark(self.carry, self.input.number, max_disorder, not self.by_time)


def misread(results: Sequence[ScanResult], sizes: Mapping[tuple[str, int], int]) -> frozenset[tuple[str, int]]:
    """Return (node, file) of files whose pieces do not join, or do not reach the file's end.

    In the one a piece began where no group of the piece before it ended. In the other no piece found the groups of its
    own: so it is with a log without GTID events (MySQL 5.6), whose groups can only be found from the one before.
    """
    wrong = set()
    expected: dict[tuple[str, int], int] = {}
    damaged, torn = set[tuple[str, int]](), set[tuple[str, int]]()
    for piece in results:
        file = (piece.node, piece.file_index)
        if piece.first < 0 or file in damaged:
            continue
        if piece.first != expected.get(file, 4):
            wrong.add(file)
        expected[file] = piece.reached
        if piece.error is not None:
            damaged.add(file)
        if piece.truncated is not None:
            torn.add(file)  # a tail still being written, unless a later piece finds groups behind it
    short = {file for file, end in expected.items() if file not in damaged | torn and end < sizes[file]}
    return frozenset(wrong | short)


def assemble_node(
    node: NodeInput, results: Sequence[ScanResult], prefixes: Sequence[str], end_of_input: bool
) -> ScannedNode:
    """Join a node's pieces, in the order of its log, up to the first damage."""
    scanned = _assembled(node, results, prefixes, end_of_input, {})
    moved = moved_locals(scanned)
    return _assembled(node, results, prefixes, end_of_input, moved) if moved else scanned


def _assembled(
    node: NodeInput,
    results: Sequence[ScanResult],
    prefixes: Sequence[str],
    end_of_input: bool,
    moved: Mapping[int, Sequence[tuple[int, OrderKey]]],
) -> ScannedNode:
    """Join a node's pieces; `moved` are the locals of each, by index, that stand at a key of their own."""
    scanned = ScannedNode(node, carry=node.carry)
    for piece, prefix in zip(results, prefixes, strict=True):
        file = node.files[piece.file_index]
        try:
            elsewhere = moved.get(len(scanned.pieces), ())
            whole = _with_used_rows(piece, prefix, scanned.carry)
            assembled = assemble_piece(whole, scanned.carry, [index for index, _ in elsewhere])
        except MergeError as error:
            scanned.error = error.located(node=node.source_id, file=file.path)
            break
        scanned.pieces.append(piece)
        scanned.carries.append(scanned.carry)
        scanned.blocks.append(Block(node.number, node.source_id, piece.file_index, prefix, assembled.patch, piece.sets))
        scanned.edges += [
            EdgeRow(
                node.number,
                node.source_id,
                e.file_index,
                e.tso,
                e.transaction,
                e.start,
                e.end,
                e.commit_us,
                e.tables,
                e.flags,
            )
            for e in assembled.edges
        ]
        scanned.edges += _edges_of(node, piece, prefix, elsewhere)
        scanned.without_tso += assembled.without_tso
        ended = (*assembled.new_edges, *assembled.lost)
        _note_new(scanned, piece, [(t, x) for t, x, at in ended if _is_new(node, piece.file_index, at)])
        scanned.lost += [(OrderKey(t, x, 0, 0), piece.file_index, at) for t, x, at in assembled.lost]
        scanned.carry = assembled.carry
        if piece.error is not None:
            scanned.error = MergeError.from_dict(piece.error)
        elif _last_piece(results, piece):
            scanned.error = _file_end(node, _walked_to_end(scanned.pieces), file, end_of_input, scanned.warnings)
        if scanned.error is not None:
            break
    return scanned


def _edges_of(
    node: NodeInput, piece: ScanResult, prefix: str, moved: Sequence[tuple[int, OrderKey]]
) -> Iterator[EdgeRow]:
    columns = read_block(f"{prefix}.local.arrow") if moved else {}
    for index, key in moved:
        start, end, commit_us, tables, flags = (
            int(columns[name][index]) for name in ("start", "end", "commit_us", "set", "flags")
        )
        yield EdgeRow(
            node.number,
            node.source_id,
            piece.file_index,
            key.commit_tso,
            key.transaction_id,
            start,
            end,
            commit_us,
            piece.sets[tables],
            flags,
            key.seq,
        )


def _with_used_rows(piece: ScanResult, prefix: str, carry: Carry) -> ScanResult:
    """Add the commit rows, used in the piece, of transactions that have branches open from before it.

    A node may hold several branches of one transaction, and an edge may lie between their commits.
    """
    if not carry.open or not piece.used_rows:
        return piece
    columns = read_block(f"{prefix}.rows.arrow")
    wanted = {p.gtrid for p in carry.open.values()}
    near = np.flatnonzero(np.isin(columns["gtrid_1"], [g for g, _ in wanted]))
    rows = [(int(columns["gtrid_1"][i]), int(columns["gtrid_2"][i]), int(columns["tso"][i])) for i in near.tolist()]
    return replace(piece, commit_rows=(*piece.commit_rows, *(row for row in rows if row[:2] in wanted)))


def _last_piece(results: Sequence[ScanResult], piece: ScanResult) -> bool:
    return all(r.file_index != piece.file_index or r.piece <= piece.piece for r in results)


def _walked_to_end(pieces: Sequence[ScanResult]) -> ScanResult:
    """Return the piece that walked to the end of the last file: the last one in which a group begins."""
    file = [p for p in pieces if p.file_index == pieces[-1].file_index]
    return next((p for p in reversed(file) if p.first >= 0), file[0])


def _is_new(node: NodeInput, file_index: int, offset: int) -> bool:
    return node.seen is None or (file_index, offset) >= node.seen


def _note_new(scanned: ScannedNode, piece: ScanResult, edges: list[tuple[int, int]]) -> None:
    new = [k for k in (piece.least_new, scanned.least_new, *edges) if k is not None]
    scanned.least_new = min(new) if new else None


def _file_end(
    node: NodeInput, piece: ScanResult, file: NodeFile, end_of_input: bool, warnings: list[str]
) -> MergeError | None:
    """Return why the log cannot be followed beyond the end of this file, which `piece` met, or None. A tail that is
    still being written only warns.
    """
    last = piece.file_index == len(node.files) - 1
    place = {"node": node.source_id, "file": file.path}
    if piece.truncated is not None:
        if last and file.in_use and not end_of_input:
            warnings.append(f"{file.path}: the last event is not whole yet (at {piece.truncated}); it is held back")
            return None
        return TruncatedEvent("the file ends inside an event", position=piece.truncated, **place)
    if piece.unfinished is not None:
        if last and not end_of_input:
            warnings.append(
                f"{file.path}: the last transaction is not whole yet (at {piece.unfinished}); it is held back"
            )
            return None
        return TruncatedEvent("the file ends inside a transaction", position=piece.unfinished, **place)
    if not last and not piece.clean_end and not file.in_use:
        return TruncatedEvent("the file has no ROTATE or STOP event at its end", position=piece.reached, **place)
    return None


def first_lost(nodes: Sequence[ScannedNode], floor: OrderKey) -> MergeError | None:
    """Return the error of the first transaction, from `floor` on, with a branch that is committed but not prepared."""
    found = [(key, node, file, at) for node in nodes for key, file, at in node.lost if key >= floor]
    if not found:
        return None
    key, node, file, at = min(found, key=lambda lost: lost[0])
    return lost_branch(at).located(node=node.source_id, file=node.input.files[file].path, order_key=key)


def check_late(node: ScannedNode, floor: OrderKey) -> None:
    """Raise LateTransaction if a transaction that no run had seen commits below what is published."""
    if node.least_new is not None and node.input.seen is not None:
        key = OrderKey(*node.least_new, 0, 0)
        if key < floor:
            raise LateTransaction(
                f"a transaction commits at TSO {key.commit_tso}, below the published watermark",
                node=node.source_id,
                order_key=key,
            )


def half_committed(nodes: Sequence[ScannedNode]) -> list[str]:
    """Say which branches are in doubt although other branches of their transaction have committed."""
    warnings = []
    for node in nodes:
        for branch in node.carry.open.values():
            committed = [n.source_id for n in nodes if _has_committed(n, branch.transaction)]
            if committed:
                name = node.input.files[branch.file_index].name if branch.file_index >= 0 else "an earlier file"
                warnings.append(
                    f"transaction {branch.transaction} has committed on {', '.join(committed)}, but its branch on "
                    f"{node.source_id} ({name}:{branch.start}) is in doubt: that branch's rows are not in the output"
                )
    return warnings


def _has_committed(node: ScannedNode, transaction: int) -> bool:
    blocks = (read_block(f"{b.path}.timed.arrow")["transaction"] for b in node.blocks)
    return any(e.transaction == transaction for e in node.edges) or any(bool(np.any(t == transaction)) for t in blocks)


def read_group(node: NodeInput, file_index: int, start: int, end: int) -> bytes:
    """Return the bytes of one group."""
    data = bytearray(end - start)
    with open_source(node.files[file_index].path) as source:
        source.read_into(memoryview(data), start)
    return bytes(data)


def _keys_of(block: Block, wanted: Sequence[int]) -> list[tuple[OrderKey, int, int, int]]:
    """Return (key, start, end, flags) of locals by index."""
    columns = read_block(f"{block.path}.local.arrow")
    keys = local_keys(columns["max_tso"], columns["max_transaction"], block.patch)
    return [
        (
            OrderKey(int(keys.tso[i]), int(keys.transaction[i]), int(keys.seq[i]), block.node),
            int(columns["start"][i]),
            int(columns["end"][i]),
            int(columns["flags"][i]),
        )
        for i in wanted
        if keys.alive[i]
    ]


def physical_ddl(node: ScannedNode, floor: OrderKey, done: OrderKey) -> Iterator[PhysicalDdl]:
    """Yield, in order, the node's DDL from `floor` on, and what stands behind `done`, up to where an earlier run knew
    it.
    """
    for piece, block in zip(node.pieces, node.blocks, strict=True):
        if not piece.ddl:
            continue
        file = node.input.files[piece.file_index]
        for key, start, end, _ in _keys_of(block, piece.ddl):
            if key < floor and key <= done:
                continue
            try:
                query = _ddl_query(read_group(node.input, piece.file_index, start, end), file)
            except BinlogFormatError as error:
                raise ChecksumMismatch(
                    f"a DDL cannot be read: {error.reason}",
                    node=node.source_id,
                    file=file.path,
                    position=start,
                    order_key=key,
                ) from None
            if query is not None:
                yield PhysicalDdl(
                    key, file.path, start, query.schema_text or None, text_of(query),
                    session_of(query, version_number(file.server_version)), SessionVariables.of(query),
                )  # fmt: skip


def _ddl_query(data: bytes, file: NodeFile) -> Query | None:
    for event in transaction_events(data, file.checksum_alg == 1):
        if event.type_code == EventType.QUERY_EVENT:
            query = Query.parse(event.body)
            if query.text not in ("BEGIN", "COMMIT"):
                return query
    return None


def first_rows(
    node: ScannedNode, tables: Collection[tuple[str, str]], floor: OrderKey
) -> tuple[OrderKey, str, int, tuple[str, str]] | None:
    """Return key, file, position and table of the first transaction from `floor` on that changes one of `tables`."""
    found = [
        (OrderKey(e.tso, e.transaction, 0, 0), e.file_index, e.start, name)
        for e in node.edges
        for name in e.tables
        if name in tables
    ]
    for piece, block in zip(node.pieces, node.blocks, strict=True):
        sets = {i: name for i, names in enumerate(block.sets) for name in names if name in tables}
        if not sets:
            continue
        columns = read_block(f"{block.path}.local.arrow")
        touching = np.flatnonzero(np.isin(columns["set"], list(sets))).tolist()
        found += [
            (key, piece.file_index, start, sets[int(columns["set"][i])])
            for i in touching
            for key, start, _, _ in _keys_of(block, [i])
        ]
        columns = read_block(f"{block.path}.timed.arrow")
        for i in np.flatnonzero(np.isin(columns["set"], list(sets))).tolist():
            key = OrderKey(int(columns["tso"][i]), int(columns["transaction"][i]), 0, 0)
            found.append((key, piece.file_index, int(columns["start"][i]), sets[int(columns["set"][i])]))
    key, index, position, name = min((f for f in found if f[0] >= floor), default=(floor, -1, 0, ("", "")))
    return (key, node.input.files[index].path, position, name) if index >= 0 else None


def sightings(node: ScannedNode, tables: MarkerTables, floor: OrderKey, limit: OrderKey) -> Iterator[Sighting]:
    """Yield the markers that the node shows with floor <= key < limit, in order. Raises MergeError, with the key, at
    the first that cannot be read.
    """
    places = [
        (OrderKey(tso, transaction, 0, 0), piece.file_index, start, end)
        for piece in node.pieces
        for tso, transaction, start, end in piece.markers
    ]
    places += [(OrderKey(e.tso, e.transaction, 0, 0), e.file_index, e.start, e.end) for e in node.edges if e.flags & 2]
    for key, file_index, start, end in sorted(places):
        if floor <= key < limit:
            try:
                copy = _marker_copy(node, file_index, start, end, tables)
            except MergeError as error:
                raise error.located(order_key=key) from None
            if copy is not None:
                yield Sighting(key, node.input.number, node.source_id, node.input.files[file_index].path, start, copy)


def all_sightings(
    nodes: Sequence[ScannedNode], tables: MarkerTables, floor: OrderKey, limit: OrderKey
) -> tuple[list[Sighting], MergeError | None]:
    """Return the markers of all nodes before the first that cannot be read, and the error of that one."""
    found: list[Sighting] = []
    first: MergeError | None = None
    for node in nodes:
        try:
            for sighting in sightings(node, tables, floor, limit):
                found.append(sighting)
        except MergeError as error:
            if first is None or (error.order_key or "") < (first.order_key or ""):
                first = error
    if first is not None and first.order_key is not None:
        bound = OrderKey.parse(first.order_key)
        found = [sighting for sighting in found if sighting.key < bound]
    return found, first


def local_markers(node: ScannedNode, tables: MarkerTables, floor: OrderKey, limit: OrderKey) -> MergeError | None:
    """Return the error of the first marker that was not written by a distributed transaction, or None."""
    for piece, block in zip(node.pieces, node.blocks, strict=True):
        for key, start, end, _ in _keys_of(block, piece.local_markers) if piece.local_markers else ():
            if floor <= key < limit and _marker_copy(node, piece.file_index, start, end, tables) is not None:
                return MarkerIncomplete(
                    "a marker was written by a transaction without a commit TSO, so it has no place on the other nodes",
                    node=node.source_id,
                    file=node.input.files[piece.file_index].path,
                    position=start,
                    order_key=key,
                )
    return None


def _marker_copy(node: ScannedNode, file_index: int, start: int, end: int, tables: MarkerTables) -> MarkerCopy | None:
    file = node.input.files[file_index]
    try:
        return read_marker(
            transaction_events(read_group(node.input, file_index, start, end), file.checksum_alg == 1), tables
        )
    except BinlogFormatError as error:
        raise ChecksumMismatch(
            f"a marker cannot be read: {error.reason}", node=node.source_id, file=file.path, position=start
        ) from None
    except MergeError as error:
        raise error.located(node=node.source_id, file=file.path, position=start) from None


def checkpoint(node: ScannedNode, floor: OrderKey, waiting: int | None = None) -> tuple[int, Carry]:
    """Return the file to begin with next time and what then comes in: the first file that still holds anything not
    merged. `waiting` is the first with rows below the floor that come out later.
    """
    needed = [] if waiting is None else [waiting]
    needed += [p.file_index for p in node.carry.open.values() if p.file_index >= 0]
    needed += [file_index for key, file_index, _ in node.lost if key >= floor]
    needed += [e.file_index for e in node.edges if e.key >= floor and e.file_index >= 0]
    for position, (piece, block) in enumerate(zip(node.pieces, node.blocks, strict=True)):
        after = node.carries[position + 1] if position + 1 < len(node.carries) else node.carry
        if _holds_timed(piece, block, floor) or (
            piece.local and OrderKey(after.max_tso, after.max_transaction, after.seq, node.input.number) >= floor
        ):
            needed.append(piece.file_index)
            needed += [kept.file_index for kept in block.patch.kept if kept.file_index >= 0]
    # Never behind the file in which reading ended: the next run checks that it is still that file.
    index = min([*needed, node.end[0]])
    for piece, carry in zip(node.pieces, node.carries, strict=True):
        if piece.file_index == index:
            return index, carry
    return node.input.first, node.input.carry


def _holds_timed(piece: ScanResult, block: Block, floor: OrderKey) -> bool:
    if not piece.timed:
        return False
    columns = read_block(f"{block.path}.timed.arrow")
    last = OrderKey(int(columns["tso"][-1]), int(columns["transaction"][-1]), 0, 0)
    if np.any(columns["flags"][-1:] & 16):
        last = last._replace(node_seq=block.node)
    return last >= floor
