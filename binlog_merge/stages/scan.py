"""The scan stage: walk one piece of a binlog file and write its index block.

A piece owns the groups that begin in [start, stop). What it finds is final but for three things, which `merge.assemble`
settles per node: the greatest commit TSO that earlier pieces bring in, XA COMMITs whose prepare or TSO lies in an
earlier piece, and prepares that are still open at the end. A piece that meets damage keeps what stands before it and
says where it stopped.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid import GtidTagged
from binlog_merge.binlog.header import EventHeader
from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.binlog.kernels.scan import find_group, name_hash, scan_events
from binlog_merge.binlog.kernels.sort import sorted_places
from binlog_merge.binlog.kernels.xid import rehash
from binlog_merge.binlog.payload import TransactionPayload
from binlog_merge.errors import (
    ChecksumMismatch,
    CommitTsoConflict,
    MergeError,
    RowsWithoutTableMap,
    StatementDml,
    UnknownEvent,
    UnsupportedInput,
)
from binlog_merge.files.source import Source, open_source
from binlog_merge.merge.assemble import LateCommit, OpenBranch
from binlog_merge.merge.clock import Clocked, clocked
from binlog_merge.polardbx.names import TRANSACTION_LOG, MarkerTable, MarkerTables, is_named, is_system_table
from binlog_merge.stages.block import from_rows, view, write_block

CHUNK = 8 << 20
FIND_BUFFER = 20 << 20  # more than find_group asks to see of one event
GIANT_EVENT = 64 << 20  # a bigger row event is not held in memory: its checksum is taken piece by piece
QUANTILES = 256

_MESSAGES = {
    MarkerTable.DDL_RECORD: k.MARKER_TABLE,
    MarkerTable.INSTRUCTION: k.MARKER_TABLE,
    MarkerTable.HEARTBEAT: k.HEARTBEAT_TABLE,
    MarkerTable.SYNC_POINT: k.SYNC_POINT_TABLE,
}

TIMED_COLUMNS = ("tso", "transaction", "start", "end", "commit_us", "set", "flags")
_TIMED_FROM = (k.T_TSO, k.T_TRANSACTION, k.T_START, k.T_END, k.T_COMMIT_US, k.T_SET, k.T_FLAGS)
ROW_COLUMNS = ("gtrid_1", "gtrid_2", "tso")
LOCAL_COLUMNS = ("start", "end", "commit_us", "set", "flags", "max_tso", "max_transaction")


@dataclass(frozen=True, slots=True)
class ScanTask:
    """One piece of one file, and what the scan must know to read it."""

    piece: int
    node: str
    file_index: int
    path: str
    start: int
    stop: int
    size: int
    checksum: bool
    carrier: int
    use_own_tso: bool
    commit_table: tuple[str, str]
    markers: MarkerTables
    block: str  # path prefix
    seen: int = -1  # commits before this offset were seen by an earlier run; -1: none of this file


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What the driver learns of a piece; rows stay in the block."""

    piece: int
    node: str
    file_index: int
    first: int  # where its first group may begin; -1: no group begins in it
    end: int  # behind its last complete group
    reached: int  # where the walk stopped: the next piece's first group, the file's end, or damage
    clean_end: bool
    truncated: int | None  # offset of an event that goes beyond the file
    timed: int
    local: int
    groups: int
    events: int
    ignored: int
    max_tso: int
    max_transaction: int
    locals_after_max: int
    least_new: tuple[int, int] | None  # least (tso, transaction) committed after the place an earlier run had seen
    quantiles: tuple[tuple[int, int], ...]  # (tso, bytes up to it since the last)
    sets: tuple[tuple[tuple[str, str], ...], ...]
    late: tuple[LateCommit, ...]
    open: tuple[OpenBranch, ...]
    commit_rows: tuple[tuple[int, int, int], ...]  # (gtrid hash, gtrid hash, tso) that later pieces may need
    used_rows: int  # commit rows used here, in the block: later pieces may need those of branches prepared earlier
    ddl: tuple[int, ...]  # indexes of DDL among the locals
    markers: tuple[tuple[int, int, int, int], ...]  # (tso, transaction, start, end) of marker branches
    local_markers: tuple[int, ...]  # indexes of locals that touch the marker table
    unfinished: int | None  # where the group begins that is open at the end of the walk
    clock: Clocked | None = None  # where the node's clock gives the order
    error: dict[str, Any] | None = None


@dataclass
class _Walk:
    """The kernel's arrays and the names they stand for, while one piece is walked."""

    task: ScanTask
    arrays: k.Arrays
    names: list[tuple[str, str]] = field(default_factory=list)

    @property
    def reg(self) -> npt.NDArray[np.int64]:
        return self.arrays.reg


def new_arrays(rows: int = 1 << 12) -> k.Arrays:
    """Return empty arrays with room for `rows` rows; `_grow` gives them more.

    The hash tables begin small, so that they stay in the processor's cache; their lengths are powers of two.
    """
    table = lambda n, columns: np.zeros((n, columns), np.int64)  # noqa: E731
    registers = np.zeros(k.REGISTERS, np.int64)
    for register in (k.INNER_END, k.ORIGINAL_US, k.SEQUENCE_TSO, k.COMMIT_TABLE_ID, k.LOG_TSO):
        registers[register] = -1
    registers[k.N_SETS] = 1
    return k.Arrays(
        reg=registers,
        names=np.zeros(1 << 14, np.uint8),
        tables=table(256, 5),
        steps=table(1024, 3),
        sets=table(256, 2),
        timed=table(rows, k.T_COLUMNS),
        local=table(rows, k.L_COLUMNS),
        late=table(256, k.X_COLUMNS),
        xids=table(1 << 12, k.P_COLUMNS),
        tsos=table(1 << 12, k.C_COLUMNS),
        ids=np.zeros(k.MAX_TABLES_IN_GROUP + k.COMMIT_SHAPE, np.int64),
    )


def _longer(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    longer = np.zeros((len(rows) * 2, *rows.shape[1:]), rows.dtype)
    longer[: len(rows)] = rows
    return longer


def _grow(a: k.Arrays) -> k.Arrays:
    """Replace every array that is full, or nearly, by one twice as long."""
    reg = a.reg
    changed: dict[str, Any] = {}
    for name, count in (("timed", k.N_TIMED), ("local", k.N_LOCAL), ("late", k.N_LATE), ("sets", k.N_SETS)):
        if reg[count] + 2 > len(getattr(a, name)):
            changed[name] = _longer(getattr(a, name))
    if (reg[k.N_XIDS] + 2) * 2 > len(a.xids):
        live = int(np.count_nonzero(a.xids[:, k.P_STATE] == 1))
        bigger = np.zeros((max(len(a.xids), 1 << (live * 4).bit_length()), k.P_COLUMNS), np.int64)
        reg[k.N_XIDS] = rehash(a.xids, bigger, k.P_STATE, True)
        changed["xids"] = bigger
    if (reg[k.N_TSOS] + 2) * 2 > len(a.tsos):
        bigger = np.zeros((len(a.tsos) * 2, k.C_COLUMNS), np.int64)
        rehash(a.tsos, bigger, k.C_STATE, False)
        changed["tsos"] = bigger
    if (reg[k.N_STEPS] + 2) * 2 > len(a.steps):
        # The table is simply begun again at twice the size: a known move is found anew, at worst to a set like an old
        # one.
        changed["steps"] = np.zeros((len(a.steps) * 2, 3), np.int64)
        reg[k.N_STEPS] = 0
    return a._replace(**changed)


def scan(task: ScanTask) -> ScanResult:
    """Walk one piece and write its block; damage is returned as `error`, never raised."""
    walk = _Walk(task, new_arrays(min(1 << 20, max(1 << 10, (task.stop - task.start) // 512))))
    first, truncated, error = -1, None, None
    try:
        with open_source(task.path) as source:
            first, truncated = _walk_piece(walk, source)
    except MergeError as raised:
        error = raised.located(node=task.node, file=task.path).to_dict()
    except BinlogFormatError as raised:
        position = raised.offset if raised.offset >= 0 else int(walk.reg[k.BASE] + walk.reg[k.POS])
        error = ChecksumMismatch(raised.reason, node=task.node, file=task.path, position=position).to_dict()
    return _result(walk, first, truncated, error)


def _walk_piece(walk: _Walk, source: Source) -> tuple[int, int | None]:
    """Walk the piece; returns where its first group may begin (-1: it owns none) and the offset of a truncated
    event.
    """
    task, reg = walk.task, walk.reg
    crc = 4 if task.checksum else 0
    first = offset = 4 if task.start <= 4 else _find_group(source, task, crc)
    if first < 0:
        return -1, None
    buffer = np.empty(min(CHUNK, max(task.size, 1 << 12)), np.uint8)
    if offset == 4:
        # The FDE was checked when the file was found; while the file is in use its checksum does not cover its flags.
        _read(source, buffer, offset, task.size)
        offset += EventHeader.parse(buffer[:19].tobytes()).event_size
    while True:
        got = _read(source, buffer, offset, task.size)
        reg[k.BASE], reg[k.POS] = offset, 0
        reason = _run(walk, buffer, got, crc)
        offset = int(reg[k.BASE] + reg[k.POS])
        left = task.size - offset
        if reason == k.DONE or left == 0:
            return first, None
        if left < 19:
            return first, offset
        head = np.empty(19, np.uint8)
        _read(source, head, offset, task.size)
        length = EventHeader.parse(head.tobytes()).event_size
        if length > left:
            return first, offset
        if length > GIANT_EVENT:
            _giant_event(walk, source, offset, length)
            offset += length
        elif length > len(buffer):
            buffer = np.empty(length + CHUNK, np.uint8)


def _read(source: Source, buffer: npt.NDArray[np.uint8], offset: int, end: int) -> int:
    wanted = min(len(buffer), end - offset)
    return source.read_into(view(buffer)[:wanted], offset) if wanted > 0 else 0


def _find_group(source: Source, task: ScanTask, crc: int) -> int:
    """Return the offset of the first group that begins at or after the piece's start and before its stop, or -1."""
    buffer = np.empty(min(FIND_BUFFER, task.size), np.uint8)
    offset = max(4, task.start - k.GCN_SIZE)  # a GTID event right behind the start may belong to a group before it
    while offset < task.stop and offset + 19 <= task.size:
        got = _read(source, buffer, offset, task.size)
        found = int(find_group(buffer, got, offset, 0, crc, max(0, task.start - offset)))
        if 0 <= found < got:
            return offset + found if offset + found < task.stop else -1
        known = -1 - found if found < 0 else got
        if offset + got >= task.size and known == 0:
            return -1
        # At `known` an event begins that is not whole in the buffer; without progress it is no event at all.
        offset += known if known > 0 else 1
    return -1


def _run(walk: _Walk, buffer: npt.NDArray[np.uint8], end: int, crc: int) -> int:
    """Run the kernel over the buffer, serving what it asks for, until it needs input or is done; raises on damage."""
    task, reg = walk.task, walk.reg
    while True:
        reason = int(scan_events(walk.arrays, buffer, end, task.stop, crc, task.carrier, task.use_own_tso))
        if reason in (k.MORE, k.DONE):
            return reason
        if reason == k.GROW:
            walk.arrays = _grow(walk.arrays)
        elif reason == k.NEW_TABLE:
            _learn_table(walk, buffer, int(reg[k.POS]))
        elif reason == k.PAYLOAD:
            _payload(walk, buffer, crc)
        elif reason == k.TAGGED_GTID:
            _tagged_gtid(walk, buffer, crc)
        elif reason == k.QUERY_IN_TRANSACTION:
            _query_in_transaction(walk, buffer, crc)
        else:
            raise _damage(walk, reason, buffer)


def _event(walk: _Walk, buffer: npt.NDArray[np.uint8], crc: int) -> tuple[EventHeader, bytes]:
    at = int(walk.reg[k.POS])
    header = EventHeader.parse(bytes(buffer[at : at + 19]))
    return header, bytes(buffer[at + 19 : at + header.event_size - crc])


def _learn_table(walk: _Walk, buffer: npt.NDArray[np.uint8], at: int) -> None:
    """Put the table name at the current event into the kernel's dictionary."""
    schema = int(buffer[at + 27])
    table = int(buffer[at + 29 + schema])
    key = buffer[at + 27 : at + 27 + schema + table + 3].copy()
    names = (
        key[1 : 1 + schema].tobytes().decode("utf-8", "surrogateescape"),
        key[3 + schema : 3 + schema + table].tobytes().decode("utf-8", "surrogateescape"),
    )
    task, a, reg = walk.task, walk.arrays, walk.reg
    kind = k.ORDINARY
    if task.carrier == k.BY_COMMIT_TABLE and names == task.commit_table:
        kind = k.COMMIT_TABLE
    elif task.carrier == k.BY_SEQUENCE and is_named(names[1], TRANSACTION_LOG):
        kind = k.LOG_TABLE
    elif task.carrier == k.BY_SEQUENCE and is_system_table(names[1]):
        kind = k.SYSTEM_TABLE
    elif (message := task.markers.kind(*names)) is not None:
        kind = _MESSAGES[message]
    if reg[k.NAMES_END] + len(key) > len(a.names):
        longer = np.zeros(2 * len(a.names) + len(key), np.uint8)
        longer[: len(a.names)] = a.names
        a = a._replace(names=longer)
    if (reg[k.N_TABLES] + 1) * 2 > len(a.tables):
        bigger = np.zeros((2 * len(a.tables), 5), np.int64)
        for row in a.tables[a.tables[:, 3] != 0]:
            _place(bigger, row)
        a = a._replace(tables=bigger)
    start = int(reg[k.NAMES_END])
    a.names[start : start + len(key)] = key
    reg[k.NAMES_END] += len(key)
    reg[k.N_TABLES] += 1
    walk.names.append(names)
    _place(a.tables, np.array([name_hash(key), start, len(key), reg[k.N_TABLES], kind], np.int64))
    walk.arrays = a


def _place(table: npt.NDArray[np.int64], row: npt.NDArray[np.int64]) -> None:
    slot = int(row[0]) & (len(table) - 1)
    while table[slot, 3]:
        slot = (slot + 1) & (len(table) - 1)
    table[slot] = row


def _payload(walk: _Walk, buffer: npt.NDArray[np.uint8], crc: int) -> None:
    """Walk the events inside a TRANSACTION_PAYLOAD_EVENT as if they stood in the log."""
    reg = walk.reg
    if reg[k.PHASE] == k.IDLE:
        raise _damage(walk, k.OUTSIDE, buffer)
    header, body = _event(walk, buffer, crc)
    at, base = int(reg[k.POS]), int(reg[k.BASE])
    reg[k.INNER_END] = base + at + header.event_size
    reg[k.FLAGS] |= k.COMPRESSED
    inner = np.empty(0, np.uint8)
    for chunk in TransactionPayload.parse(body).chunks():
        inner = np.concatenate([inner[int(reg[k.POS]) :] if len(inner) else inner, np.frombuffer(chunk, np.uint8)])
        reg[k.POS] = 0
        _run(walk, inner, len(inner), 0)
    if len(inner) and reg[k.POS] != len(inner):
        raise ChecksumMismatch("a transaction payload ends inside an event", position=base + at)
    reg[k.INNER_END] = -1
    reg[k.POS] = at + header.event_size
    reg[k.EVENTS] += 1


def _tagged_gtid(walk: _Walk, buffer: npt.NDArray[np.uint8], crc: int) -> None:
    """Open a group at a GTID_TAGGED_LOG_EVENT, whose body is not of fixed layout."""
    reg = walk.reg
    header, body = _event(walk, buffer, crc)
    gtid = GtidTagged.parse(body)
    if reg[k.PHASE] != k.CARRIED:
        reg[k.GROUP_START] = reg[k.BASE] + reg[k.POS]
    reg[k.PHASE] = k.STARTED
    reg[k.SET] = reg[k.FLAGS] = reg[k.SEEN_IDS] = 0
    reg[k.COMMIT_TABLE_ID] = reg[k.LOG_TSO] = -1
    reg[k.FIRST_TIMESTAMP] = header.timestamp
    reg[k.GNO] = gtid.gno
    name = np.frombuffer(gtid.sid + gtid.tag.encode() + gtid.gno.to_bytes(8, "little"), np.uint8).copy()
    reg[k.GTID_HASH] = name_hash(name)
    reg[k.COMMIT_US] = gtid.immediate_commit_timestamp or header.timestamp * 1_000_000
    original = gtid.original_commit_timestamp
    reg[k.ORIGINAL_US] = -1 if original is None or original == gtid.immediate_commit_timestamp else original
    reg[k.POS] += header.event_size
    reg[k.EVENTS] += 1


def _query_in_transaction(walk: _Walk, buffer: npt.NDArray[np.uint8], crc: int) -> None:
    """Accept the CREATE TABLE of a CREATE TABLE ... SELECT; everything else is statement-format DML."""
    header, body = _event(walk, buffer, crc)
    status, schema = int.from_bytes(body[11:13], "little"), body[8]
    text = body[13 + status + schema + 1 :].decode("utf-8", "replace")
    place = int(walk.reg[k.BASE] + walk.reg[k.POS])
    words = text.upper()
    if words.startswith("CREATE TABLE") and words.rstrip().endswith("START TRANSACTION"):
        walk.reg[k.FLAGS] |= k.FLAG_CREATE_SELECT
        walk.reg[k.POS] += header.event_size
        walk.reg[k.EVENTS] += 1
        return
    if words.startswith("ROLLBACK TO"):
        raise UnsupportedInput(
            "a transaction was partly rolled back in the log (it touched a non-transactional table)", position=place
        )
    raise StatementDml(f"a statement stands inside a transaction: {text[:200]!r}", position=place)


def _giant_event(walk: _Walk, source: Source, offset: int, length: int) -> None:
    """Check and pass over a row event too big to hold; its checksum is taken piece by piece."""
    reg = walk.reg
    buffer = np.empty(CHUNK, np.uint8)
    got = _read(source, buffer, offset, walk.task.size)
    reg[k.BASE], reg[k.POS] = offset, 0
    kind = int(buffer[4])
    if kind == EventType.TRANSACTION_PAYLOAD_EVENT:
        whole = np.empty(length, np.uint8)
        _read(source, whole, offset, walk.task.size)
        _run(walk, whole, length, 4 if walk.task.checksum else 0)
        return
    if kind not in _MAY_BE_GIANT:
        raise UnsupportedInput(f"an event of type {kind} is {length} bytes long", position=offset)
    table_id = int.from_bytes(buffer[19:25].tobytes(), "little")
    if kind != EventType.ROWS_QUERY_LOG_EVENT and table_id not in walk.arrays.ids[: int(reg[k.SEEN_IDS])]:
        raise _damage(walk, k.NO_TABLE_MAP, buffer)
    if int.from_bytes(buffer[13:17].tobytes(), "little") != (offset + length) & 0xFFFFFFFF:
        raise _damage(walk, k.BAD_POSITION, buffer)
    if walk.task.checksum:
        body, done, check = length - 4, 0, 0
        while done < body:
            got = _read(source, buffer, offset + done, offset + body)
            if got <= 0:
                raise _damage(walk, k.BAD_SIZE, buffer)
            check = zlib.crc32(view(buffer)[:got], check)
            done += got
        _read(source, buffer, offset + body, offset + length)
        if check != int.from_bytes(buffer[:4].tobytes(), "little"):
            raise _damage(walk, k.BAD_CHECKSUM, buffer)
    reg[k.EVENTS] += 1
    reg[k.POS] = length


_MAY_BE_GIANT = frozenset({23, 24, 25, 29, 30, 31, 32, 39})
_DAMAGE = {
    k.BAD_SIZE: "an event's length is impossible",
    k.BAD_CHECKSUM: "an event's checksum is wrong",
    k.BAD_POSITION: "an event's log_pos is not where it ends",
    k.BAD_BODY: "an event's body contradicts its length",
    k.UNFINISHED: "a transaction begins before the one before it has ended",
    k.OUTSIDE: "an event of a transaction stands outside of one",
    k.BAD_XID: "an XA statement's transaction id cannot be read",
    k.DUPLICATE_XID: "an XA transaction is prepared twice",
}


def _damage(walk: _Walk, reason: int, buffer: npt.NDArray[np.uint8]) -> MergeError:
    """Say what the kernel met, and where."""
    at = int(walk.reg[k.POS])
    place = int(walk.reg[k.BASE]) + at
    if walk.reg[k.INNER_END] >= 0:
        place = int(walk.reg[k.GROUP_START])  # inside a payload: name the transaction
    kind = int(buffer[at + 4]) if at + 5 <= len(buffer) else -1
    if reason == k.NO_TABLE_MAP:
        return RowsWithoutTableMap(
            "a rows event names a table id that no table map of its transaction has", position=place
        )
    if reason == k.UNKNOWN_EVENT:
        return UnknownEvent(f"event type {kind} is not known, and is not marked ignorable", position=place)
    if reason == k.STATEMENT_EVENT:
        return StatementDml(f"event type {kind} belongs to statement-format logging", position=place)
    if reason == k.UNSUPPORTED:
        return UnsupportedInput(
            f"an event of type {kind} that cannot be merged (INCIDENT, or a logged ROLLBACK)",
            position=place,
            remedy="what stands before it is merged; begin a new output from a base taken behind it",
        )
    if reason == k.XA_FORMAT:
        return UnsupportedInput(
            "a PolarDB-X transaction has a format id that is not one of 1 to 4, so what it is for is not known",
            position=place,
        )
    if reason == k.TWO_TSOS:
        return CommitTsoConflict(
            "a commit row gives a transaction another commit TSO than one before it", position=place
        )
    if reason == k.BAD_TSO:
        return UnsupportedInput(
            "a commit row's TSO has more than 63 bits",
            position=place,
            remedy="the second column of the commit table must hold the commit TSO",
        )
    return ChecksumMismatch(f"{_DAMAGE[reason]} (event type {kind})", position=place)


def _result(walk: _Walk, first: int, truncated: int | None, error: dict[str, Any] | None) -> ScanResult:
    """Write the block and sum the piece up."""
    task, reg, a = walk.task, walk.reg, walk.arrays
    timed, local = a.timed[: reg[k.N_TIMED]], a.local[: reg[k.N_LOCAL]]
    late = a.late[: reg[k.N_LATE]]
    timed = timed[sorted_places(np.stack([timed[:, k.T_TSO], timed[:, k.T_TRANSACTION]]))]
    write_block(f"{task.block}.timed.arrow", from_rows(timed, TIMED_COLUMNS, _TIMED_FROM))
    write_block(f"{task.block}.local.arrow", from_rows(local, LOCAL_COLUMNS, range(k.L_COLUMNS)))
    used = a.tsos[a.tsos[:, k.C_STATE] == 2]
    if len(used):
        write_block(f"{task.block}.rows.arrow", from_rows(used, ROW_COLUMNS, (k.C_GTRID_1, k.C_GTRID_2, k.C_TSO)))
    live = a.xids[a.xids[:, k.P_STATE] == 1]
    live = live[np.argsort(live[:, k.P_START], kind="stable")]
    new = timed[timed[:, k.T_COMMIT_AT] >= task.seen]
    markers = timed[(timed[:, k.T_FLAGS] & k.MARKER) != 0]
    after_max = (local[:, k.L_MAX_TSO] == reg[k.MAX_TSO]) & (local[:, k.L_MAX_TRANSACTION] == reg[k.MAX_TRANSACTION])
    return ScanResult(
        piece=task.piece,
        node=task.node,
        file_index=task.file_index,
        first=first,
        end=int(reg[k.LAST_END]),
        reached=int(reg[k.BASE] + reg[k.POS]),
        clean_end=bool(reg[k.CLEAN_END]),
        truncated=truncated,
        timed=len(timed),
        local=len(local),
        groups=int(reg[k.GROUPS]),
        events=int(reg[k.EVENTS]),
        ignored=int(reg[k.IGNORED]),
        max_tso=int(reg[k.MAX_TSO]),
        max_transaction=int(reg[k.MAX_TRANSACTION]),
        locals_after_max=int(np.count_nonzero(after_max)),
        least_new=(int(new[0, k.T_TSO]), int(new[0, k.T_TRANSACTION])) if len(new) else None,
        quantiles=tuple(_quantiles(timed[:, k.T_TSO], timed[:, k.T_END] - timed[:, k.T_START]))
        + tuple(_quantiles(local[:, k.L_MAX_TSO], local[:, k.L_END] - local[:, k.L_START])),
        sets=tuple(_sets(walk)),
        late=tuple(_late(row) for row in late.tolist()),
        open=tuple(_open(row) for row in live.tolist()),
        commit_rows=tuple(_pending_commit_rows(a, live)),
        used_rows=len(used),
        ddl=tuple(np.flatnonzero(local[:, k.L_FLAGS] & (k.DDL | k.FLAG_CREATE_SELECT)).tolist()),
        markers=tuple((r[k.T_TSO], r[k.T_TRANSACTION], r[k.T_START], r[k.T_END]) for r in markers.tolist()),
        local_markers=tuple(np.flatnonzero(local[:, k.L_FLAGS] & k.MARKER).tolist()),
        unfinished=None if reg[k.PHASE] == k.IDLE else int(reg[k.GROUP_START]),
        clock=clocked(local[:, k.L_MAX_TSO], local[:, k.L_COMMIT_US]) if task.carrier == k.BY_TIME else None,
        error=error,
    )


def _quantiles(tso: npt.NDArray[np.int64], weight: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield up to QUANTILES points (tso, bytes since the last point), evenly spaced by bytes; `tso` is sorted."""
    if not len(tso):
        return
    total = np.cumsum(weight)
    wanted = (np.arange(1, QUANTILES + 1) * int(total[-1])) // QUANTILES
    at = np.unique(np.minimum(np.searchsorted(total, wanted), len(tso) - 1))
    yield from zip(tso[at].tolist(), np.diff(total[at], prepend=0).tolist(), strict=True)


def _sets(walk: _Walk) -> Iterator[tuple[tuple[str, str], ...]]:
    """Yield, for each set number, the tables in it."""
    sets = walk.arrays.sets
    for number in range(int(walk.reg[k.N_SETS])):
        tables, here = [], number
        while here > 0:
            tables.append(walk.names[int(sets[here, 1])])
            here = int(sets[here, 0])
        yield tuple(reversed(tables))


def _late(row: list[int]) -> LateCommit:
    branch = (row[k.X_START], row[k.X_END], row[k.X_SET], row[k.X_FLAGS]) if row[k.X_START] >= 0 else None
    return LateCommit(
        local=row[k.X_LOCAL],
        locals_before=row[k.X_LOCALS_BEFORE],
        xid=(row[k.X_XID_1], row[k.X_XID_2]),
        gtrid=(row[k.X_GTRID_1], row[k.X_GTRID_2]),
        transaction=row[k.X_TRANSACTION],
        tso=row[k.X_TSO] if row[k.X_TSO] >= 0 else None,
        rollback=row[k.X_TSO] == -2,
        commit_us=row[k.X_COMMIT_US],
        commit_at=row[k.X_COMMIT_AT],
        branch=branch,
        greatest=(row[k.X_MAX_TSO], row[k.X_MAX_TRANSACTION]) if branch is not None else (0, 0),
    )


def _open(row: list[int]) -> OpenBranch:
    return OpenBranch(
        xid=(row[k.P_XID_1], row[k.P_XID_2]),
        gtrid=(row[k.P_GTRID_1], row[k.P_GTRID_2]),
        transaction=row[k.P_TRANSACTION],
        start=row[k.P_START],
        end=row[k.P_END],
        set=row[k.P_SET],
        flags=row[k.P_FLAGS],
        max_tso=row[k.P_MAX_TSO],
        max_transaction=row[k.P_MAX_TRANSACTION],
    )


def _pending_commit_rows(a: k.Arrays, live: npt.NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """Yield the commit rows that a later piece may ask for: not used here, or of a transaction with an open branch."""
    rows = a.tsos[a.tsos[:, k.C_STATE] != 0]
    open_gtrids = {(r[k.P_GTRID_1], r[k.P_GTRID_2]) for r in live.tolist()}
    unused = rows[rows[:, k.C_STATE] == 1]
    used = rows[rows[:, k.C_STATE] == 2] if open_gtrids else rows[:0]
    for g1, g2, tso, _ in unused.tolist():
        yield g1, g2, tso
    for g1, g2, tso, _ in used.tolist():
        if (g1, g2) in open_gtrids:
            yield g1, g2, tso
