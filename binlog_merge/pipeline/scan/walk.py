"""The scan kernel's arrays, and the work that the kernel leaves to Python while it walks one piece.

`run` drives the kernel over a buffer of whole events. When the kernel needs Python (a table it does not know, a
compressed payload, a tagged GTID, a query inside a transaction, more room), `run` serves the request and resumes it;
damage is raised.
"""

import zlib
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog import query_session
from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.gtid import Gtid, GtidTagged
from binlog_merge.binlog.header import EventHeader
from binlog_merge.binlog.header import walk as events_of
from binlog_merge.binlog.kernels import scan_layout as k
from binlog_merge.binlog.kernels.scan import scan_events
from binlog_merge.binlog.kernels.scan_groups import follows, is_decided, is_elsewhere, leave_out, log_gtid
from binlog_merge.binlog.kernels.scan_tables import name_hash
from binlog_merge.binlog.kernels.xid import find, rehash
from binlog_merge.binlog.payload import TransactionPayload
from binlog_merge.binlog.query import Query
from binlog_merge.errors import ChecksumMismatch, MergeError, StatementDml, UnsupportedInput
from binlog_merge.files.node_file import Instead
from binlog_merge.files.source import Source
from binlog_merge.pipeline.base.decided import ways_out
from binlog_merge.pipeline.base.logged import Gtid as LoggedGtid
from binlog_merge.pipeline.base.logged import changes_source, out_of_sequence, text_of
from binlog_merge.pipeline.base.pieces import view
from binlog_merge.pipeline.scan.damage import damage
from binlog_merge.pipeline.scan.statements import CONTEXT, DECIDED, STATEMENT_FORMAT, left_out, query_of
from binlog_merge.pipeline.scan.values import ScanTask
from binlog_merge.polardbx.names import TRANSACTION_LOG, MarkerTable, is_named, is_system_table
from snapshot_store.ddl.parse.statement import ParsedDdl
from snapshot_store.ddl.statements import CreateTable
from snapshot_store.surrogates import shown

CHUNK = 8 << 20
LISTED, LONGEST = 20, 300
"""How many statements that are left out are listed for each kind, and how much of each."""
_MAY_BE_GIANT = frozenset({23, 24, 25, 29, 30, 31, 32, 39})

_MESSAGES = {
    MarkerTable.DDL_RECORD: k.MARKER_TABLE,
    MarkerTable.INSTRUCTION: k.MARKER_TABLE,
    MarkerTable.HEARTBEAT: k.HEARTBEAT_TABLE,
    MarkerTable.SYNC_POINT: k.SYNC_POINT_TABLE,
}


@dataclass
class Walk:
    """The kernel's arrays, and the names that their numbers refer to, while one piece is walked."""

    task: ScanTask
    arrays: k.Arrays
    names: list[tuple[str, str]] = field(default_factory=list)
    tags: list[str] = field(default_factory=lambda: [""])
    breaks: list[tuple[int, int, int]] = field(default_factory=list)
    passed: dict[tuple[str, str], tuple[int, list[tuple[int, str]]]] = field(default_factory=dict)
    """What is left out, by kind and reason: how many, and (position, text) of the first."""
    again: set[tuple[int, int]] = field(default_factory=set)
    """The awaited branches that were prepared, as far as `arrays` may have forgotten them."""

    @property
    def reg(self) -> npt.NDArray[np.int64]:
        return self.arrays.reg


def new_arrays(rows: int = 1 << 12, branches: int = 1 << 13) -> k.Arrays:
    """Return empty arrays with room for `rows` rows, and for some of so many branches; `_grown` enlarges them.

    The hash tables begin small so that they stay in the processor's cache, and all the smaller for a small file, which
    is walked faster than large ones are looked through; their lengths are powers of two.
    """
    slots = max(1 << 8, min(1 << 12, 1 << (branches >> 2).bit_length()))
    table = lambda n, columns: np.zeros((n, columns), np.int64)  # noqa: E731
    registers = np.zeros(k.REGISTERS, np.int64)
    for register in (k.INNER_END, k.ORIGINAL_US, k.SEQUENCE_TSO, k.COMMIT_TABLE_ID, k.LOG_TSO):
        registers[register] = -1
    registers[k.N_SETS] = 1
    registers[k.FIRST_SEQUENCE], registers[k.NEXT_SEQUENCE] = -1, k.ANY_SEQUENCE
    return k.Arrays(
        reg=registers,
        names=np.zeros(1 << 14, np.uint8),
        tables=table(256, 5),
        steps=table(1024, 3),
        sets=table(256, 2),
        timed=table(rows, k.T_COLUMNS),
        local=table(rows, k.L_COLUMNS),
        late=table(256, k.X_COLUMNS),
        xids=table(slots, k.P_COLUMNS),
        tsos=table(slots, k.C_COLUMNS),
        gtids=table(64, k.G_COLUMNS),
        elsewhere=table(0, k.G_COLUMNS),
        ids=np.zeros(k.MAX_TABLES_IN_GROUP + k.COMMIT_SHAPE, np.int64),
    )


_ROWS = (
    ("timed", k.N_TIMED), ("local", k.N_LOCAL), ("late", k.N_LATE), ("sets", k.N_SETS), ("gtids", k.N_GTIDS),
)  # fmt: skip


def _longer(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    longer = np.zeros((len(rows) * 2, *rows.shape[1:]), rows.dtype)
    longer[: len(rows)] = rows
    return longer


def prepared_again(walk: Walk) -> set[tuple[int, int]]:
    """Return the awaited branches that were prepared until now, whether they have ended or not."""
    xids = walk.arrays.xids
    return walk.again | {xid for xid in walk.task.awaited if find(xids, *xid, k.P_STATE) >= 0}


def _grow(walk: Walk) -> None:
    """Make room in the arrays, which may forget branches that have ended."""
    walk.again = prepared_again(walk) if walk.task.awaited else walk.again
    walk.arrays = _grown(walk.arrays)


def _grown(a: k.Arrays) -> k.Arrays:
    """Replace every array that is full, or nearly so, by one twice as long."""
    reg = a.reg
    changed: dict[str, Any] = {}
    for name, count in _ROWS:
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
        # The table is simply emptied at twice the size: a known step is added again, at worst to a duplicate of a set.
        changed["steps"] = np.zeros((len(a.steps) * 2, 3), np.int64)
        reg[k.N_STEPS] = 0
    return a._replace(**changed)


def leaving_out(walk: Walk) -> Walk:
    """Return the walk with the task's GTIDs and offsets whose groups are left out in its arrays."""
    task = walk.task
    items = [(item, 0) for item in task.elsewhere.items()] + [(item, 1) for item in task.decided.items()]
    walk.tags += sorted({tag for (_, tag, _, _), _ in items} - {""})
    places = [(at, k.SKIPPED) for at in task.decided_at] + [(each.start, k.REPLACED) for each in task.file.instead]
    rows = np.zeros((len(items) + len(places), k.G_COLUMNS), np.int64)
    for row, ((sid, tag, start, end), own) in zip(rows, items, strict=False):
        row[k.G_SID_1 : k.G_SID_2 + 1] = np.frombuffer(sid, np.int64)
        row[k.G_TAG], row[k.G_START], row[k.G_END], row[k.G_OWN] = walk.tags.index(tag), start, end, own
    for row, (place, decided) in zip(rows[len(items) :], places, strict=True):
        row[k.G_TAG], row[k.G_START], row[k.G_END], row[k.G_OWN] = -1, place, place + 1, decided
    walk.arrays = walk.arrays._replace(elsewhere=rows)
    return walk


def read(source: Source, buffer: npt.NDArray[np.uint8], offset: int, end: int) -> int:
    wanted = min(len(buffer), end - offset)
    return source.read_into(view(buffer)[:wanted], offset) if wanted > 0 else 0


def run(walk: Walk, buffer: npt.NDArray[np.uint8], end: int, crc: int) -> int:
    """Run the kernel over the buffer, serving its requests, until it needs more input or is done; raises on damage."""
    task, reg = walk.task, walk.reg
    while True:
        reason = int(scan_events(walk.arrays, buffer, end, task.stop, crc, task.carrier, task.use_own_tso))
        if reason in (k.MORE, k.DONE):
            return reason
        if reason == k.GROW:
            _grow(walk)
        elif reason == k.NEW_TABLE:
            _learn_table(walk, buffer, int(reg[k.POS]))
        elif reason == k.PAYLOAD:
            _payload(walk, buffer, crc)
        elif reason == k.TAGGED_GTID:
            _tagged_gtid(walk, buffer, crc)
        elif reason == k.DECIDED:
            _decided(walk, buffer, crc)
        elif reason == k.SEQUENCE:
            _out_of_sequence(walk, buffer, crc)
        elif reason == k.QUERY_IN_TRANSACTION:
            _query_in_transaction(walk, buffer, crc)
        elif reason == k.STATEMENT_EVENT:
            _statement_event(walk, buffer, crc)
        else:
            raise _damage(walk, reason, buffer)


def _event(walk: Walk, buffer: npt.NDArray[np.uint8], crc: int) -> tuple[EventHeader, bytes]:
    at = int(walk.reg[k.POS])
    header = EventHeader.parse(bytes(buffer[at : at + 19]))
    return header, bytes(buffer[at + 19 : at + header.event_size - crc])


def _learn_table(walk: Walk, buffer: npt.NDArray[np.uint8], at: int) -> None:
    """Add the table name at offset `at` to the kernel's dictionary."""
    schema = int(buffer[at + 27])
    table = int(buffer[at + 29 + schema])
    key = buffer[at + 27 : at + 27 + schema + table + 3].copy()
    raw = key[1 : 1 + schema].tobytes(), key[3 + schema : 3 + schema + table].tobytes()
    try:
        names = raw[0].decode(), raw[1].decode()
    except UnicodeDecodeError:
        # Even if the table would be filtered out: mistaken for another table, its rows would be lost or misplaced.
        name = b".".join(raw)
        raise ChecksumMismatch(f"the table name {name!r} is not utf8", position=int(walk.reg[k.BASE]) + at) from None
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


def _payload(walk: Walk, buffer: npt.NDArray[np.uint8], crc: int) -> None:
    """Walk the events inside a TRANSACTION_PAYLOAD_EVENT as if they were in the log itself."""
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
        run(walk, inner, len(inner), 0)
    if len(inner) and reg[k.POS] != len(inner):
        raise ChecksumMismatch("a transaction payload ends inside an event", position=base + at)
    reg[k.INNER_END] = -1
    reg[k.POS] = at + header.event_size
    reg[k.EVENTS] += 1


def _tagged_gtid(walk: Walk, buffer: npt.NDArray[np.uint8], crc: int) -> None:
    """Open a group at a GTID_TAGGED_LOG_EVENT, whose body has no fixed layout."""
    reg = walk.reg
    header, body = _event(walk, buffer, crc)
    gtid = GtidTagged.parse(body)
    if gtid.sequence_number < 0 or not 0 <= gtid.gno < k.MAX_GNO:
        raise _damage(walk, k.BAD_BODY, buffer)
    if not follows.py_func(reg, gtid.sequence_number):
        _out_of_sequence(walk, buffer, crc)
        return
    if gtid.tag not in walk.tags:
        walk.tags.append(gtid.tag)
    if gtid.gno > 0:
        sid_1, sid_2 = np.frombuffer(gtid.sid, np.int64)
        begins = reg[k.GROUP_START] if reg[k.PHASE] == k.CARRIED else reg[k.BASE] + reg[k.POS]
        own = sid_1, sid_2, walk.tags.index(gtid.tag), gtid.gno
        decided = is_decided.py_func(walk.arrays, *own, begins)
        if decided != k.UNDECIDED and reg[k.DECIDED_AT] != begins + 1:
            _decided(walk, buffer, crc)
            return
        if decided == k.SKIPPED or is_elsewhere.py_func(walk.arrays, *own):
            leave_out.py_func(reg, begins, gtid.sequence_number, gtid.gno)
            reg[k.POS] += header.event_size
            reg[k.EVENTS] += 1
            return
        if not log_gtid.py_func(walk.arrays, sid_1, sid_2, walk.tags.index(gtid.tag), gtid.gno):
            _grow(walk)
            return
    reg[k.NEXT_SEQUENCE] = gtid.sequence_number + (gtid.sequence_number != 0)
    if reg[k.PHASE] != k.CARRIED:
        reg[k.GROUP_START] = reg[k.BASE] + reg[k.POS]
    reg[k.PHASE] = k.STARTED
    reg[k.SET] = reg[k.FLAGS] = reg[k.SEEN_IDS] = 0
    reg[k.COMMIT_TABLE_ID] = reg[k.LOG_TSO] = -1
    reg[k.FIRST_TIMESTAMP] = header.timestamp
    reg[k.GNO] = gtid.gno
    reg[k.LENGTH_FROM], reg[k.PASSED_OVER] = reg[k.BASE] + reg[k.POS], 0
    reg[k.LOGGED_LENGTH] = gtid.transaction_length
    name = np.frombuffer(gtid.sid + gtid.tag.encode() + gtid.gno.to_bytes(8, "little"), np.uint8).copy()
    reg[k.GTID_HASH] = name_hash(name)
    reg[k.COMMIT_US] = gtid.immediate_commit_timestamp or header.timestamp * 1_000_000
    original = gtid.original_commit_timestamp
    reg[k.ORIGINAL_US] = -1 if original is None or original == gtid.immediate_commit_timestamp else original
    reg[k.POS] += header.event_size
    reg[k.EVENTS] += 1


def _out_of_sequence(walk: Walk, buffer: npt.NDArray[np.uint8], crc: int) -> None:
    """Raise for a group whose sequence number is not the next one, or only record it if the task is lenient."""
    reg = walk.reg
    header, body = _event(walk, buffer, crc)
    gtid = (GtidTagged if header.type_code == EventType.GTID_TAGGED_LOG_EVENT else Gtid).parse(body)
    number, expected = gtid.sequence_number or 0, int(reg[k.NEXT_SEQUENCE])
    place = int(reg[k.GROUP_START] if reg[k.PHASE] == k.CARRIED else reg[k.BASE] + reg[k.POS])
    own = (gtid.sid, gtid.tag, gtid.gno) if gtid.gno else None
    if not (walk.task.carrier == k.BY_SEQUENCE and changes_source(last_gtid(walk), own)):
        if not walk.task.lenient and place >= walk.task.seen:
            error = out_of_sequence(number, expected)
            error.position = place
            raise error
        walk.breaks.append((place, number, expected))
    reg[k.NEXT_SEQUENCE] = k.ANY_SEQUENCE if reg[k.FIRST_SEQUENCE] < 0 else number


def last_gtid(walk: Walk) -> LoggedGtid | None:
    """Return the GTID of the last group, None if no group had one."""
    row, reg = walk.arrays.gtids[int(walk.reg[k.GTID_ROW])], walk.reg
    return (row[:2].tobytes(), walk.tags[row[k.G_TAG]], int(row[k.G_END]) - 1) if reg[k.N_GTIDS] else None


def _makes_with_rows(query: Query) -> bool:
    """Return whether a statement is the CREATE TABLE of a CREATE TABLE … SELECT; its options may follow the words."""
    statement = ParsedDdl.of(query.text, query_session.session_of(query)).result
    return isinstance(statement, CreateTable) and statement.options.with_rows


def _query_in_transaction(walk: Walk, buffer: npt.NDArray[np.uint8], crc: int) -> None:
    """Accept the CREATE TABLE of a CREATE TABLE ... SELECT, and statements that write only what is left out of the
    output.
    """
    header, body = _event(walk, buffer, crc)
    query = query_of(header.type_code, body)
    text = shown(query.text)
    place = int(walk.reg[k.BASE] + walk.reg[k.POS])
    words = text.upper()
    if words.startswith("CREATE TABLE") and "START TRANSACTION" in words and _makes_with_rows(query):
        walk.reg[k.FLAGS] |= k.FLAG_CREATE_SELECT
        _pass(walk, header)
        return
    kind = left_out(query, walk.task.topology)
    if kind is not None:
        _left_out(walk, kind, STATEMENT_FORMAT, place, text)
        _pass(walk, header)
        return
    if words.startswith("ROLLBACK TO"):
        raise UnsupportedInput(
            "a transaction was partly rolled back in the log (it touched a non-transactional table)",
            position=place,
            remedy=f"read from here on with a base taken after it; or {_decide(walk)}",
        )
    raise StatementDml(
        f"a statement stands inside a transaction: {text[:200]!r}",
        position=place,
        remedy=f"{StatementDml.default_remedy}; if it writes only what needs no merging, keep that in a database of "
        f"`ignore-schemas`; or {_decide(walk)}",
    )


def _decide(walk: Walk) -> str:
    """Return what can be decided about the transaction that the walk is in."""
    place = int(walk.reg[k.GROUP_START])
    gtid = last_gtid(walk) if walk.reg[k.GNO] > 0 else None
    name = f"{walk.task.node}/{PurePath(walk.task.file.path).name}:{place}" if gtid is None else text_of(gtid)
    return ways_out(name)


def _statement_event(walk: Walk, buffer: npt.NDArray[np.uint8], crc: int) -> None:
    """Pass over what a statement takes values from; the statement itself comes behind it."""
    header, _ = _event(walk, buffer, crc)
    if header.type_code == EventType.EXECUTE_LOAD_QUERY_EVENT:
        _query_in_transaction(walk, buffer, crc)
    elif header.type_code in CONTEXT:
        _pass(walk, header)
    else:
        raise _damage(walk, k.STATEMENT_EVENT, buffer)


def _left_out(walk: Walk, kind: str, why: str, place: int, text: str) -> None:
    """Record what is left out, unless an earlier run has seen it."""
    if place >= walk.task.seen:
        _name(walk, kind, why, place, text)


def _name(walk: Walk, kind: str, why: str, place: int, text: str) -> None:
    count, first = walk.passed.get((kind, why), (0, []))
    walk.passed[kind, why] = count + 1, [*first, (place, text[:LONGEST])] if count < LISTED else first


def _decided(walk: Walk, buffer: npt.NDArray[np.uint8], crc: int) -> None:
    """Record the group that begins at the walk's position, about which somebody decided; what is read in its place is
    walked.
    """
    header, body = _event(walk, buffer, crc)
    gtid = (GtidTagged if header.type_code == EventType.GTID_TAGGED_LOG_EVENT else Gtid).parse(body)
    reg = walk.reg
    place = int(reg[k.GROUP_START] if reg[k.PHASE] == k.CARRIED else reg[k.BASE] + reg[k.POS])
    reg[k.DECIDED_AT] = place + 1
    instead = walk.task.file.instead_of(place)
    if instead is None:
        _left_out(walk, "transaction", DECIDED, place, text_of((gtid.sid, gtid.tag, gtid.gno)) if gtid.gno else "")
    else:
        _name(walk, "transaction", instead.why, place, instead.said)  # an earlier run may have seen it, and stopped
        _replaced(walk, instead, buffer, int(reg[k.POS]) + header.event_size, crc)


def _replaced(walk: Walk, instead: Instead, buffer: npt.NDArray[np.uint8], end: int, crc: int) -> None:
    """Open the group whose GTID event ends at `end` of the buffer, and walk what is read in place of its other
    events.
    """
    reg = walk.reg
    run(walk, buffer, end, crc)
    payloads = (
        e
        for e in events_of(instead.group, offset=instead.start, checksum=walk.task.checksum)
        if e.type_code == EventType.TRANSACTION_PAYLOAD_EVENT
    )
    inner = b"".join(chunk for event in payloads for chunk in TransactionPayload.parse(event.body).chunks())
    reg[k.LOGGED_LENGTH] = -1  # it tells of the events that are not read
    reg[k.INNER_END] = instead.end
    reg[k.FLAGS] |= k.COMPRESSED
    reg[k.POS] = 0
    run(walk, np.frombuffer(inner, np.uint8).copy(), len(inner), 0)
    reg[k.INNER_END] = -1
    reg[k.POS] = instead.end - reg[k.BASE]


def _pass(walk: Walk, header: EventHeader) -> None:
    walk.reg[k.POS] += header.event_size
    walk.reg[k.EVENTS] += 1


def giant_event(walk: Walk, source: Source, offset: int, length: int) -> None:
    """Check and skip a row event too big to hold in memory; its checksum is computed piece by piece."""
    reg = walk.reg
    buffer = np.empty(CHUNK, np.uint8)
    got = read(source, buffer, offset, walk.task.size)
    reg[k.BASE], reg[k.POS] = offset, 0
    kind = int(buffer[4])
    if kind == EventType.TRANSACTION_PAYLOAD_EVENT:
        whole = np.empty(length, np.uint8)
        read(source, whole, offset, walk.task.size)
        run(walk, whole, length, 4 if walk.task.checksum else 0)
        return
    if kind not in _MAY_BE_GIANT:
        raise UnsupportedInput(f"an event of type {kind} is {length} bytes long", position=offset)
    table_id = int.from_bytes(buffer[19:25].tobytes(), "little")
    needs_map = kind != EventType.ROWS_QUERY_LOG_EVENT and reg[k.PHASE] != k.LEAVING_OUT
    if needs_map and table_id not in walk.arrays.ids[: int(reg[k.SEEN_IDS])]:
        raise _damage(walk, k.NO_TABLE_MAP, buffer)
    if int.from_bytes(buffer[13:17].tobytes(), "little") != (offset + length) & 0xFFFFFFFF:
        raise _damage(walk, k.BAD_POSITION, buffer)
    if walk.task.checksum:
        body, done, check = length - 4, 0, 0
        while done < body:
            got = read(source, buffer, offset + done, offset + body)
            if got <= 0:
                raise _damage(walk, k.BAD_SIZE, buffer)
            check = zlib.crc32(view(buffer)[:got], check)
            done += got
        read(source, buffer, offset + body, offset + length)
        if check != int.from_bytes(buffer[:4].tobytes(), "little"):
            raise _damage(walk, k.BAD_CHECKSUM, buffer)
    reg[k.EVENTS] += 1
    reg[k.POS] = length


def _damage(walk: Walk, reason: int, buffer: npt.NDArray[np.uint8]) -> MergeError:
    """Return the error for what stopped the kernel, with its position."""
    at = int(walk.reg[k.POS])
    place = int(walk.reg[k.BASE]) + at
    if walk.reg[k.INNER_END] >= 0:
        place = int(walk.reg[k.GROUP_START])  # inside a payload: name the transaction
    error = damage(reason, int(buffer[at + 4]) if at + 5 <= len(buffer) else -1, place)
    if reason in (k.STATEMENT_EVENT, k.UNSUPPORTED) and walk.reg[k.PHASE] in (k.IN_LOCAL, k.IN_XA):
        error.remedy = f"{error.remedy}; or {_decide(walk)}"
    return error
