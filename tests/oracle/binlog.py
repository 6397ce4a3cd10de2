"""Binlog files read whole and slowly: events, then groups (one commit, prepare, rollback or DDL each).

Knows the file format only as far as the merge needs it, and nothing of keys or schemas.
"""

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import zstandard

QUERY, STOP, ROTATE, FORMAT_DESCRIPTION, XID = 2, 3, 4, 15, 16
TABLE_MAP, HEARTBEAT, IGNORABLE, ROWS_QUERY = 19, 27, 28, 29
GTID, ANONYMOUS_GTID, PREVIOUS_GTIDS, XA_PREPARE = 33, 34, 35, 38
PARTIAL_UPDATE, TRANSACTION_PAYLOAD, HEARTBEAT_V2, GTID_TAGGED = 39, 40, 41, 42
WRITE, UPDATE, DELETE = (23, 30), (24, 31, 39), (25, 32)
ROWS = (*WRITE, *UPDATE, *DELETE)
KNOWN = (QUERY, XID, TABLE_MAP, ROWS_QUERY, GTID, ANONYMOUS_GTID, XA_PREPARE, TRANSACTION_PAYLOAD, GTID_TAGGED, *ROWS)
NOTES = (IGNORABLE, 36, 37, 101, 102, 103, 104)  # group replication's, and those of PolarDB-X's consensus layer
OUTSIDE = (STOP, ROTATE, FORMAT_DESCRIPTION, PREVIOUS_GTIDS, HEARTBEAT, HEARTBEAT_V2)


Packed = tuple[int, int, bytes | bytearray]  # type, header flags, body


class OracleError(Exception):
    """The input is damaged, contradictory, or uses something the oracle does not model."""


@dataclass(frozen=True)
class Event:
    type: int
    timestamp: int
    body: bytes
    start: int
    end: int
    flags: int = 0

    @property
    def ignorable(self) -> bool:
        """Tell whether a reader may pass over the event: unknown to us, and LOG_EVENT_IGNORABLE_F is set."""
        return self.type in NOTES or (self.type not in KNOWN and bool(self.flags & 0x80))


@dataclass(frozen=True)
class GtidInfo:
    gno: int
    original_us: int | None  # None when the event does not carry one (it then equals the immediate one)
    immediate_us: int | None
    length: int | None = None  # of the group, from its GTID event on


@dataclass(frozen=True)
class Xid:
    gtrid: bytes
    bqual: bytes
    format_id: int


@dataclass
class Group:
    """One committed local, prepared branch, commit, rollback or DDL, with its events in file order."""

    file_number: int
    file: str
    kind: str = ""  # local | prepare | one-phase | commit | rollback | ddl | undone
    xid: Xid | None = None
    gtid: GtidInfo | None = None
    creates: bool = False  # CREATE TABLE ... SELECT: a DDL and a transaction with rows in one
    events: list[Event] = field(default_factory=list)

    @property
    def start(self) -> int:
        return self.events[0].start

    @property
    def size(self) -> int:
        return self.events[-1].end - self.events[0].start

    def commit_us(self) -> int:
        """Return the commit time the source gives this group."""
        if self.gtid is not None and self.gtid.immediate_us is not None:
            return self.gtid.immediate_us
        return self.events[0].timestamp * 1_000_000

    def where(self) -> str:
        return f"{self.file}:{self.start}"


@dataclass(frozen=True)
class Query:
    schema: str
    text: str
    flags2: int | None
    sql_mode: int | None
    collation_server: int | None
    utf8mb4_collation: int | None
    commit_gcn: int | None = None  # of PolarDB-X's data nodes
    status: dict[int, bytes] = field(default_factory=dict)

    def status_of_ddl(self, flags2: int, sql_mode: int, databases: set[str]) -> bytes:
        """Return the status variables of a DDL that a marker announces: those of the session that wrote the marker."""
        own = {0: flags2.to_bytes(4, "little"), 1: sql_mode.to_bytes(8, "little"), 4: bytes([45, 0, 45, 0, 255, 0])}
        if 4 in self.status:  # the text is utf8mb4
            own[4] = bytes([45, 0]) + self.status[4][2:]
        kept = {code: value for code, value in self.status.items() if code in (3, 5, 7, 8, 16, 18, 19, 20, 21)}
        if databases:
            own[12] = listed(databases)
        return b"".join(bytes([code]) + value for code, value in sorted({**kept, **own}.items()))


def listed(databases: set[str]) -> bytes:
    """Return the value of status variable 12."""
    names = sorted((name.encode("utf-8", "surrogateescape") for name in databases), reverse=True)
    return bytes([254]) if len(names) > 16 else bytes([len(names)]) + b"".join(name + b"\0" for name in names)


def packed(data: bytes, at: int) -> tuple[int, int]:
    """Read a length-encoded integer; return it and the position after it."""
    first = data[at]
    if first < 251:
        return first, at + 1
    width = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + width], "little"), at + 1 + width


def pack(value: int) -> bytes:
    """Write a length-encoded integer in its shortest form."""
    if value < 251:
        return bytes([value])
    for first, width in ((252, 2), (253, 3), (254, 8)):
        if value < 1 << (8 * width):
            return bytes([first]) + value.to_bytes(width, "little")
    raise ValueError(value)


def read_file(path: Path) -> tuple[str, list[Event]]:
    """Return the server version and all events of a file; verifies every CRC32."""
    data = path.read_bytes()
    if data[:4] != b"\xfebin":
        raise OracleError(f"{path}: not a binlog file")
    events: list[Event] = []
    version, checksum, at = "", True, 4
    while at < len(data):
        if at + 19 > len(data):
            raise OracleError(f"{path}:{at}: truncated header")
        timestamp, kind, _server, size, _pos, flags = struct.unpack_from("<IBIIIH", data, at)
        raw = data[at : at + size]
        if size < 19 or len(raw) != size:
            raise OracleError(f"{path}:{at}: truncated event of type {kind}")
        if kind == FORMAT_DESCRIPTION:
            checksum = raw[-5] == 1
            version = raw[21:71].split(b"\0")[0].decode()
            if flags & 1:  # LOG_EVENT_BINLOG_IN_USE_F is set after the checksum was computed
                raw = raw[:17] + bytes([raw[17] & 0xFE]) + raw[18:]
        if checksum or kind == FORMAT_DESCRIPTION:
            if checksum and zlib.crc32(raw[:-4]) != int.from_bytes(raw[-4:], "little"):
                raise OracleError(f"{path}:{at}: CRC32 of event type {kind} is wrong")
            raw = raw[:-4]
        at += size
        events.append(Event(kind, timestamp, raw[19:], at - size, at, flags))
    if not events or events[0].type != FORMAT_DESCRIPTION:
        raise OracleError(f"{path}: no FORMAT_DESCRIPTION_EVENT")
    return version, events


def unpack_payload(event: Event) -> list[Event]:
    """Return the events inside a TRANSACTION_PAYLOAD; all of them keep the payload's place in the file."""
    body, at, fields = event.body, 0, dict[int, int]()
    while True:
        kind, at = packed(body, at)
        if kind == 0:
            break
        length, at = packed(body, at)
        fields[kind] = packed(body, at)[0]
        at += length
    inside = body[at : at + fields[1]]
    if fields.get(2, 0) == 0:
        inside = zstandard.ZstdDecompressor().decompressobj().decompress(inside)
    found, at = [], 0
    while at < len(inside):
        timestamp, kind, _server, size, _pos, _flags = struct.unpack_from("<IBIIIH", inside, at)
        found.append(Event(kind, timestamp, inside[at + 19 : at + size], event.start, event.end))
        at += size
    return found


def parse_gtid(event: Event) -> GtidInfo:
    """Read GTID_LOG_EVENT, ANONYMOUS_GTID_LOG_EVENT or GTID_TAGGED_LOG_EVENT."""
    body = event.body
    if event.type == GTID_TAGGED:
        return _parse_tagged(body)
    gno = int.from_bytes(body[17:25], "little")
    if len(body) < 49:
        return GtidInfo(gno, None, None)
    immediate = int.from_bytes(body[42:49], "little")
    at = 56 if immediate >> 55 else 49
    length = packed(body, at)[0] if len(body) > at else None
    if immediate >> 55:
        return GtidInfo(gno, int.from_bytes(body[49:56], "little"), immediate & ((1 << 55) - 1), length)
    return GtidInfo(gno, None, immediate, length)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Read an integer of MySQL's serialization library: as many trailing one bits as further bytes follow."""
    extra = 0
    while extra < 8 and data[at] >> extra & 1:
        extra += 1
    value = int.from_bytes(data[at : at + 1 + extra], "little")
    return value >> (8 if extra == 8 else extra + 1), at + 1 + extra


def _parse_tagged(body: bytes) -> GtidInfo:
    _version, at = _varint(body, 0)
    _size, at = _varint(body, at)
    _last, at = _varint(body, at)
    fields: dict[int, int] = {}
    while at < len(body):
        number, at = _varint(body, at)
        if number == 1:
            for _ in range(16):
                _byte, at = _varint(body, at)
        elif number == 3:
            length, at = _varint(body, at)
            at += length
        else:
            fields[number], at = _varint(body, at)
    signed = {k: (v >> 1) ^ -(v & 1) for k, v in fields.items()}
    return GtidInfo(signed[2], fields.get(7), fields.get(6), fields.get(8))


def parse_query(event: Event) -> Query:
    """Read a QUERY_EVENT with the status variables that the output repeats."""
    _thread, _exec, schema_length, _error, length = struct.unpack_from("<IIBHH", event.body)
    status, rest = event.body[13 : 13 + length], event.body[13 + length :]
    found: dict[int, int] = {}
    raw: dict[int, bytes] = {}
    fixed = {
        0: 4,
        1: 8,
        3: 4,
        4: 6,
        7: 2,
        8: 2,
        9: 8,
        10: 4,
        13: 3,
        16: 1,
        17: 8,
        18: 2,
        19: 1,
        20: 1,
        21: 1,
        200: 8,
        201: 8,
    }
    at = 0
    while at < len(status):
        code, at = status[at], at + 1
        if code in fixed:
            width = fixed[code]
            found[code] = int.from_bytes(status[at : at + width], "little")
        elif code == 2:
            width = status[at] + 2
        elif code in (5, 6):
            width = status[at] + 1
        elif code == 11:
            width = status[at] + 1
            width += status[at + width] + 1
        elif code == 12:
            width = 1
            for _ in range(status[at] if status[at] != 254 else 0):
                width = status.index(0, at + width) + 1 - at
        else:
            raise OracleError(f"query status variable {code} is not known")
        raw[code] = status[at : at + width]
        at += width
    schema, text = rest[:schema_length], rest[schema_length + 1 :]
    server = found[4] >> 32 if 4 in found else None
    return Query(schema.decode(), text.decode(), found.get(0), found.get(1), server, found.get(18), found.get(200), raw)


_XID = re.compile(r"XA (?:START|COMMIT|ROLLBACK) X'([0-9a-fA-F]*)',X'([0-9a-fA-F]*)',(\d+)$")


def _xid(text: str, where: str) -> Xid:
    match = _XID.match(text.strip())
    if match is None:
        raise OracleError(f"{where}: not understood: {text!r}")
    return Xid(bytes.fromhex(match[1]), bytes.fromhex(match[2]), int(match[3]))


def advance(group: Group, event: Event) -> bool:
    """Let one event shape the group; return True when it ends there."""
    where = f"{group.file}:{event.start}"
    if event.type == XID:
        group.kind = "local"
        return True
    if event.type == XA_PREPARE:
        group.kind = "one-phase" if event.body[0] else "prepare"
        return True
    if event.type in (TABLE_MAP, ROWS_QUERY, *ROWS):
        if not group.kind and event.type != ROWS_QUERY:  # a text changes nothing, wherever it stands
            raise OracleError(f"{where}: event type {event.type} outside a transaction")
        return False
    if event.type != QUERY:
        raise OracleError(f"{where}: event type {event.type} is not understood")
    text = parse_query(event).text
    if not group.kind:
        if text == "BEGIN":
            group.kind = "open"
        elif text.startswith("XA START "):
            group.kind, group.xid = "open", _xid(text, where)
        elif text.startswith(("XA COMMIT ", "XA ROLLBACK ")):
            group.kind, group.xid = ("commit" if text.startswith("XA C") else "rollback"), _xid(text, where)
            return True
        else:
            group.kind = "ddl"
            return True
        return False
    if text in ("COMMIT", "ROLLBACK"):
        group.kind = "local" if text == "COMMIT" else "undone"
        return True
    if text.upper().startswith("CREATE TABLE") and text.upper().rstrip().endswith("START TRANSACTION"):
        group.creates = True
        return False
    if not text.upper().startswith(("XA END ", "SAVEPOINT ", "ROLLBACK TO ", "RELEASE SAVEPOINT ")):
        raise OracleError(f"{where}: statement inside a transaction: {text[:80]!r}")
    return False


def groups_of(path: Path, file_number: int, events: list[Event]) -> Iterator[Group]:
    """Cut a file's events into groups; a group left open at the end of the file never committed and is not yielded."""
    group: Group | None = None
    ignored = 0
    for outer in events:
        if outer.type in OUTSIDE:
            if group is not None and outer.type in (ROTATE, STOP):
                raise OracleError(f"{path}:{outer.start}: the file ends inside a transaction")
            ignored += outer.end - outer.start
            continue
        if outer.ignorable or (group is None and outer.type == ROWS_QUERY):  # a text without rows
            ignored += outer.end - outer.start
            continue
        if outer.type in (GTID, ANONYMOUS_GTID, GTID_TAGGED):
            if group is not None:
                raise OracleError(f"{path}:{outer.start}: a transaction begins inside another")
            group = Group(file_number, path.name, gtid=parse_gtid(outer), events=[outer])
            ignored = 0
            continue
        if group is None:
            group = Group(file_number, path.name)
        ended = False
        for event in unpack_payload(outer) if outer.type == TRANSACTION_PAYLOAD else [outer]:
            if ended:
                raise OracleError(f"{path}:{outer.start}: events after the end of a transaction")
            group.events.append(event)
            ended = advance(group, event)
        if ended:
            length = None if group.gtid is None else group.gtid.length
            if length not in (None, group.size, group.size - ignored):
                raise OracleError(f"{group.where()}: {group.size} bytes, its GTID event says {length}")
            yield group
            group = None
