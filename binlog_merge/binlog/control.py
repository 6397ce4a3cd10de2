"""Events that hold no rows: file control, commits, XA, statements' side values, and the carriers of PolarDB-X.

Sources: mysql-server `libs/mysql/binlog/event/control_events.cpp`, `statement_events.cpp`, `load_data_events.h`;
PolarDB-X events 80 and 105 as its storage nodes write them.
"""

from dataclasses import dataclass
from typing import Final, Self

from binlog_merge.binlog.constants import (
    BINLOG_VERSION,
    EVENT_HEADER_LEN,
    POST_HEADER_LENS,
    SERVER_VERSION_LEN,
    ChecksumAlg,
)
from binlog_merge.binlog.gtid import GtidSet
from binlog_merge.binlog.header import knows_checksums
from binlog_merge.binlog.wire import Buffer, Reader, pack_packed, pack_packed_bytes, pack_uint

LOST_EVENTS: Final = 1
"""The only incident; 0 is none."""

VERSION_SUFFIX: Final = "-binlog-merge"


def announced_version(version: str) -> str:
    """Return the version in the FDE of an output: the server's with our name, cut to the field's length."""
    return version[: SERVER_VERSION_LEN - 1 - len(VERSION_SUFFIX)] + VERSION_SUFFIX


@dataclass(frozen=True, slots=True)
class FormatDescription:
    """FORMAT_DESCRIPTION_EVENT: who wrote the file, the post-header lengths of types 1.., and the checksum algorithm
    after it.

    `checksum_alg` is None for servers that predate checksums. `version_raw` is kept if bytes follow the version's NUL.
    """

    server_version: str
    created: int = 0
    post_header_lens: bytes = POST_HEADER_LENS
    checksum_alg: int | None = ChecksumAlg.CRC32
    binlog_version: int = BINLOG_VERSION
    header_len: int = EVENT_HEADER_LEN
    version_raw: bytes = b""

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        """Parse the body without its checksum."""
        r = Reader(body, "format description")
        binlog_version = r.u16("binlog version")
        raw = bytes(r.take(SERVER_VERSION_LEN, "server version"))
        created, header_len = r.u32("created"), r.u8("header length")
        if binlog_version != BINLOG_VERSION:
            raise r.fail(f"binlog version {binlog_version}; only {BINLOG_VERSION} (MySQL 5.0 and later) is read")
        if header_len != EVENT_HEADER_LEN:
            raise r.fail(f"event headers of {header_len} bytes; only {EVENT_HEADER_LEN} is read")
        version = raw.split(b"\0", 1)[0].decode("latin-1")
        lens = r.rest()
        alg: int | None = None
        if knows_checksums(version):
            if not lens:
                raise r.fail("the checksum algorithm is missing")
            lens, alg = lens[:-1], lens[-1]
            if alg > ChecksumAlg.CRC32:
                raise r.fail(f"checksum algorithm {alg} is not known")
        canonical = raw == version.encode("latin-1").ljust(SERVER_VERSION_LEN, b"\0")
        return cls(version, created, lens, alg, binlog_version, header_len, b"" if canonical else raw)

    def pack(self) -> bytes:
        """Return the body without its checksum."""
        version = self.version_raw or self.server_version.encode("latin-1")[: SERVER_VERSION_LEN - 1]
        return b"".join(
            (
                pack_uint(self.binlog_version, 2),
                version.ljust(SERVER_VERSION_LEN, b"\0"),
                pack_uint(self.created, 4),
                pack_uint(self.header_len, 1),
                self.post_header_lens,
                b"" if self.checksum_alg is None else bytes([self.checksum_alg]),
            )
        )

    @property
    def checksum(self) -> bool:
        """Return whether the following events have a CRC32."""
        return self.checksum_alg == ChecksumAlg.CRC32

    def post_header_len(self, type_code: int) -> int | None:
        """Return the post-header length announced for an event type; None if it is not listed."""
        return self.post_header_lens[type_code - 1] if 0 < type_code <= len(self.post_header_lens) else None

    @property
    def is_mariadb(self) -> bool:
        return "mariadb" in self.server_version.lower()


@dataclass(frozen=True, slots=True)
class Rotate:
    """ROTATE_EVENT: the next file and the position to begin at."""

    position: int
    next_file: bytes

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        r = Reader(body, "rotate event")
        position, name = r.u64("position"), r.rest()
        if not name:
            raise r.fail("the next file's name is missing")
        return cls(position, name)

    def pack(self) -> bytes:
        return pack_uint(self.position, 8) + self.next_file


@dataclass(frozen=True, slots=True)
class Xid:
    """XID_EVENT: the commit of a local transaction."""

    xid: int

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        r = Reader(body, "XID event")
        xid = r.u64("xid")
        r.done()
        return cls(xid)

    def pack(self) -> bytes:
        return pack_uint(self.xid, 8)


_XID_PART: Final = 64


@dataclass(frozen=True, slots=True)
class XaPrepare:
    """XA_PREPARE_LOG_EVENT: the end of a prepared branch, or with `one_phase` its commit."""

    one_phase: bool
    format_id: int
    gtrid: bytes
    bqual: bytes

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        r = Reader(body, "XA prepare event")
        one_phase, format_id = r.u8("one_phase"), r.u32("formatID")
        gtrid_length, bqual_length = r.u32("gtrid length"), r.u32("bqual length")
        if one_phase > 1 or gtrid_length > _XID_PART or bqual_length > _XID_PART:
            raise r.fail(f"one_phase {one_phase}, gtrid of {gtrid_length} and bqual of {bqual_length} bytes")
        gtrid, bqual = bytes(r.take(gtrid_length, "gtrid")), bytes(r.take(bqual_length, "bqual"))
        r.done()
        return cls(bool(one_phase), format_id, gtrid, bqual)

    def pack(self) -> bytes:
        sizes = pack_uint(len(self.gtrid), 4) + pack_uint(len(self.bqual), 4)
        return pack_uint(self.one_phase, 1) + pack_uint(self.format_id, 4) + sizes + self.gtrid + self.bqual


@dataclass(frozen=True, slots=True)
class RowsQuery:
    """ROWS_QUERY_LOG_EVENT: the statement that caused the following rows events.

    Its length byte is the length mod 256 capped at 255, and ignored.
    """

    query: bytes
    length_byte: int = -1

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        r = Reader(body, "rows query event")
        length, query = r.u8("length"), r.rest()
        return cls(query, -1 if length == min(len(query), 255) else length)

    def pack(self) -> bytes:
        length = min(len(self.query), 255) if self.length_byte < 0 else self.length_byte
        return bytes([length]) + self.query

    @property
    def text(self) -> str:
        """Return the statement as text; bytes that are not UTF-8 become surrogates."""
        return self.query.decode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class PreviousGtids:
    """PREVIOUS_GTIDS_LOG_EVENT: the GTIDs of all files before. `raw` is packed, which keeps the order of the source."""

    gtids: GtidSet
    raw: bytes = b""

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        return cls(GtidSet.parse(body), bytes(body))

    def pack(self) -> bytes:
        return self.raw or self.gtids.pack()


@dataclass(frozen=True, slots=True)
class Stop:
    """STOP_EVENT: the server shut down cleanly."""

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        Reader(body, "stop event").done()
        return cls()

    def pack(self) -> bytes:
        return b""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """HEARTBEAT_LOG_EVENT (27): sent to replicas, never written to a file; log_pos is the source's position."""

    file: bytes

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        return cls(bytes(body))

    def pack(self) -> bytes:
        return self.file


@dataclass(frozen=True, slots=True)
class HeartbeatV2:
    """HEARTBEAT_LOG_EVENT_V2 (41): file name and a 64-bit position, as (type, length, value) fields."""

    file: bytes
    position: int

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        r = Reader(body, "heartbeat event")
        if r.packed("field") != 1:
            raise r.fail("the file name is missing")
        file = r.packed_bytes("file name")
        if r.packed("field") != 2:
            raise r.fail("the position is missing")
        length, start = r.packed("length of the position"), r.pos
        position = r.packed("position")
        if r.pos - start != length or r.packed("end mark") != 0:
            raise r.fail("the position is not as long as said, or no end mark follows")
        r.done()
        return cls(file, position)

    def pack(self) -> bytes:
        position = pack_packed(self.position)
        return b"\x01" + pack_packed_bytes(self.file) + b"\x02" + pack_packed_bytes(position) + b"\0"


@dataclass(frozen=True, slots=True)
class Incident:
    """INCIDENT_EVENT: something was lost (number 1: LOST_EVENTS)."""

    number: int
    message: bytes

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        r = Reader(body, "incident event")
        number = r.u16("incident")
        if number > LOST_EVENTS:  # as the server judges it
            raise r.fail(f"incident {number} is not known")
        message = bytes(r.take(r.u8("message length"), "message"))
        r.done()
        return cls(number, message)

    def pack(self) -> bytes:
        return pack_uint(self.number, 2) + pack_uint(len(self.message), 1) + self.message


@dataclass(frozen=True, slots=True)
class Intvar:
    """INTVAR_EVENT: LAST_INSERT_ID (1) or INSERT_ID (2) for the statement after it."""

    kind: int
    value: int

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        r = Reader(body, "intvar event")
        kind, value = r.u8("kind"), r.u64("value")
        r.done()
        return cls(kind, value)

    def pack(self) -> bytes:
        return pack_uint(self.kind, 1) + pack_uint(self.value, 8)


@dataclass(frozen=True, slots=True)
class Rand:
    """RAND_EVENT: the seeds of RAND() for the statement after it."""

    seed1: int
    seed2: int

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        r = Reader(body, "rand event")
        seeds = r.u64("seed"), r.u64("seed")
        r.done()
        return cls(*seeds)

    def pack(self) -> bytes:
        return pack_uint(self.seed1, 8) + pack_uint(self.seed2, 8)


@dataclass(frozen=True, slots=True)
class Sequence:
    """SEQUENCE_EVENT (80, PolarDB-X on 5.7): kind 1 snapshot, 2 commit, 3 heartbeat, and a TSO. Only kind 2 is a
    commit TSO."""

    kind: int
    tso: int

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        r = Reader(body, "sequence event")
        kind, tso = r.u8("kind"), r.u64("tso")
        r.done()
        return cls(kind, tso)

    def pack(self) -> bytes:
        return pack_uint(self.kind, 1) + pack_uint(self.tso, 8)


@dataclass(frozen=True, slots=True)
class Gcn:
    """GCN_EVENT (105, PolarDB-X on 8.0): with flag bit 2, `tso` is a commit TSO from outside.

    Bit 0: there is a TSO; bit 5: the numbers of all branches and of this node's branches follow (engine:
    libbinlogevents gcn_event).
    """

    flag: int
    tso: int | None = None
    branches: tuple[int, int] | None = None

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        r = Reader(body, "GCN event")
        flag = r.u8("flag")
        tso = r.u64("gcn") if flag & 0x01 else None
        branches = (r.u16("branches"), r.u16("local branches")) if flag & 0x20 else None
        r.done()
        return cls(flag, tso, branches)

    def pack(self) -> bytes:
        counts = b"".join(pack_uint(count, 2) for count in self.branches or ())
        return pack_uint(self.flag, 1) + (b"" if self.tso is None else pack_uint(self.tso, 8)) + counts

    @property
    def is_commit(self) -> bool:
        return bool(self.flag & 0x04)
