"""MariaDB's own events: its GTIDs, and events whose statement or rows are compressed.

    162  GTID         seq_no 8 | domain 4 | flags 1 | commit id 8, if flags & 2 | xid, if flags & 192 | more flags 1 …
    163  GTID_LIST    count 4, its high 4 bits are flags | (domain 4 | server id 4 | seq_no 8)*
    161  BINLOG_CHECKPOINT, 160 ANNOTATE_ROWS (the statement's text), 164 START_ENCRYPTION
    165  QUERY, 166-168 rows V1, 169-171 rows V2, each with its text or rows compressed:
         header 1 (0x80 | algorithm << 4 | n) | length before, n bytes, big-endian | zlib stream

An xid is format id 4 | gtrid length 1 | bqual length 1 | bytes. Sources: MariaDB `sql/log_event.h`, `sql/log_event.cc`
(Gtid_log_event, query_event_uncompress, row_log_event_uncompress); observed in files of 10.11 and 11.8.
"""

import zlib
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from binlog_merge.binlog.constants import MAX_EVENT_SIZE, EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.wire import Buffer, Reader

STANDALONE: Final = 1
HAS_COMMIT_ID: Final = 2
DDL: Final = 32
PREPARED_XA: Final = 64
COMPLETED_XA: Final = 128
"""Flags of a GTID event."""
MULTI_ENGINE: Final = 1
START_ALTER: Final = 2
COMMIT_ALTER: Final = 4
ROLLBACK_ALTER: Final = 8
"""More flags of a GTID event. With the last three it is a part of a two-phase ALTER (`binlog_alter_two_phase`)."""
_ZLIB: Final = 0
_COUNT_BITS: Final = 28


class Domain(NamedTuple):
    """The last GTID of a domain and server that was logged before a file."""

    domain: int
    server_id: int
    seq_no: int


class XaId(NamedTuple):
    """The xid of an XA transaction."""

    format_id: int
    gtrid: bytes
    bqual: bytes

    @property
    def sql(self) -> str:
        """Return the xid as the server writes it in XA statements."""
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}"


@dataclass(frozen=True, slots=True)
class MariadbGtid:
    """GTID event: it begins a group, without a BEGIN unless it is `standalone` (one statement, as every DDL)."""

    seq_no: int
    domain: int
    flags: int
    commit_id: int | None = None
    xid: XaId | None = None
    more: int = 0

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        """Parse the body; what newer servers append is left out."""
        r = Reader(body, "GTID event of MariaDB")
        seq_no, domain, flags = r.u64("seq_no"), r.u32("domain"), r.u8("flags")
        commit_id = r.u64("commit id") if flags & HAS_COMMIT_ID else None
        xid = None
        if flags & (PREPARED_XA | COMPLETED_XA):
            format_id, gtrid, bqual = r.u32("format id"), r.u8("gtrid length"), r.u8("bqual length")
            xid = XaId(format_id, bytes(r.take(gtrid, "gtrid")), bytes(r.take(bqual, "bqual")))
        return cls(seq_no, domain, flags, commit_id, xid, r.u8("more flags") if r.left() else 0)

    @property
    def standalone(self) -> bool:
        return bool(self.flags & STANDALONE)

    def text(self, server_id: int) -> str:
        """Return the GTID as MariaDB prints it; the server id is that of the event's header."""
        return f"{self.domain}-{server_id}-{self.seq_no}"


@dataclass(frozen=True, slots=True)
class GtidList:
    """GTID_LIST event, the second of a file: the last GTIDs of each domain and server before it."""

    domains: tuple[Domain, ...]

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        r = Reader(body, "GTID list")
        count = r.u32("count") & (1 << _COUNT_BITS) - 1
        if count * 16 > r.left():
            raise r.fail(f"{count} GTIDs do not fit into {r.left()} bytes")
        return cls(tuple(Domain(r.u32("domain"), r.u32("server id"), r.u64("seq_no")) for _ in range(count)))


_ROWS: Final = {
    EventType.MARIADB_WRITE_ROWS_COMPRESSED_EVENT_V1: EventType.WRITE_ROWS_EVENT_V1,
    EventType.MARIADB_UPDATE_ROWS_COMPRESSED_EVENT_V1: EventType.UPDATE_ROWS_EVENT_V1,
    EventType.MARIADB_DELETE_ROWS_COMPRESSED_EVENT_V1: EventType.DELETE_ROWS_EVENT_V1,
    EventType.MARIADB_WRITE_ROWS_COMPRESSED_EVENT: EventType.WRITE_ROWS_EVENT,
    EventType.MARIADB_UPDATE_ROWS_COMPRESSED_EVENT: EventType.UPDATE_ROWS_EVENT,
    EventType.MARIADB_DELETE_ROWS_COMPRESSED_EVENT: EventType.DELETE_ROWS_EVENT,
}
_UPDATES: Final = (EventType.UPDATE_ROWS_EVENT_V1, EventType.UPDATE_ROWS_EVENT)
_V1: Final = (EventType.WRITE_ROWS_EVENT_V1, EventType.UPDATE_ROWS_EVENT_V1, EventType.DELETE_ROWS_EVENT_V1)
COMPRESSED: Final = frozenset({EventType.MARIADB_QUERY_COMPRESSED_EVENT, *_ROWS})


def uncompressed(type_code: int, body: Buffer) -> tuple[int, bytes]:
    """Return the type and body of the event that a compressed one holds; any other as it is."""
    if type_code not in COMPRESSED:
        return type_code, bytes(body)
    r = Reader(body, "compressed event")
    if type_code == EventType.MARIADB_QUERY_COMPRESSED_EVENT:
        r.take(8, "thread_id and exec_time")
        schema = r.u8("schema length")
        r.u16("error_code")
        r.take(r.u16("status length") + schema + 1, "status variables and schema")
        kind = EventType.QUERY_EVENT
    else:
        kind = _ROWS[EventType(type_code)]
        r.take(8, "table id and flags")
        if kind not in _V1:
            extra = r.u16("extra length")
            r.take(max(0, extra - 2), "extra")
        bitmap = (r.packed("column count") + 7) // 8
        r.take(bitmap * (2 if kind in _UPDATES else 1), "columns present")
    return kind, bytes(body[: r.pos]) + _inflated(r)


def _inflated(r: Reader) -> bytes:
    """Return what the rest holds, uncompressed."""
    header = r.u8("header of the compressed part")
    if not header & 0x80 or (header & 0x70) >> 4 != _ZLIB:
        raise r.fail(f"compression header {header:#x} is not known")
    length = int.from_bytes(r.take(header & 0x07, "length before compression"), "big")
    if length > MAX_EVENT_SIZE:
        raise r.fail(f"{length} bytes before compression are more than an event has")
    return inflated(r.rest(), length)


def inflated(data: bytes, length: int, raw: bool = False) -> bytes:
    """Return zlib data of a known length uncompressed; `raw`: a deflate stream without a header."""
    stream = zlib.decompressobj(-zlib.MAX_WBITS if raw else zlib.MAX_WBITS)
    try:
        found = stream.decompress(data, length + 1)
    except zlib.error as error:
        raise BinlogFormatError(f"a compressed value cannot be uncompressed: {error}") from None
    if len(found) != length or not stream.eof:
        raise BinlogFormatError(f"a compressed value of {length} bytes has {len(found)}")
    return found
