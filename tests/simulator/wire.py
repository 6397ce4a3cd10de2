"""Binlog events as bytes, written from the format's description alone; nothing here comes from the product."""

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import zstandard

MAGIC = b"\xfebin"
QUERY, STOP, ROTATE, FORMAT_DESCRIPTION, XID = 2, 3, 4, 15, 16
TABLE_MAP, IGNORABLE, ROWS_QUERY, WRITE, UPDATE, DELETE = 19, 28, 29, 30, 31, 32
GTID, ANONYMOUS_GTID, PREVIOUS_GTIDS, XA_PREPARE, PAYLOAD, GTID_TAGGED = 33, 34, 35, 38, 40, 42
HEARTBEAT_V2, STRANGER = 41, 121
POST_HEADER_LENGTHS = bytes.fromhex(
    "000d0008000000000400040000006300041a08000000000000020000000a0a0a2a2a001234000a280000"
)
UNCOMPRESSED = 255


@dataclass(frozen=True)
class Event:
    """One event without its place: the file it goes into decides that."""

    type: int
    body: bytes
    flags: int = 0


def frame(event: Event, timestamp: int, server_id: int, position: int, checksum: bool) -> bytes:
    """Return the event's bytes; `position` is where it begins."""
    size = 19 + len(event.body) + (4 if checksum else 0)
    head = struct.pack("<IBIIIH", timestamp, event.type, server_id, size, (position + size) % 2**32, event.flags)
    data = head + event.body
    return data + struct.pack("<I", zlib.crc32(data)) if checksum else data


def lenenc(value: int) -> bytes:
    """Return a length-encoded integer in its shortest form."""
    if value < 251:
        return bytes([value])
    width = 2 if value < 1 << 16 else 3 if value < 1 << 24 else 8
    return bytes([{2: 252, 3: 253, 8: 254}[width]]) + value.to_bytes(width, "little")


def format_description(version: str, created: int, checksum: bool, types: int = 42) -> bytes:
    """Return the body, with the algorithm but without the checksum that always follows."""
    head = struct.pack("<H50sIB", 4, version.encode(), created, 19)
    return head + POST_HEADER_LENGTHS[:types] + bytes([checksum])


def previous_gtids(logged: Mapping[tuple[bytes, str], Iterable[int]]) -> bytes:
    """Return the body of PREVIOUS_GTIDS: the numbers logged so far, by source and tag; tagged only where a tag is."""
    spans = {source: _spans(numbers) for source, numbers in sorted(logged.items()) if numbers}
    tagged = any(tag for _, tag in spans)
    body = struct.pack("<Q", 1 << 56 | len(spans) << 8 | 1 if tagged else len(spans))
    for (sid, tag), pairs in spans.items():
        body += sid + (_varint(len(tag)) + tag.encode() if tagged else b"") + struct.pack("<Q", len(pairs))
        body += b"".join(struct.pack("<QQ", start, end) for start, end in pairs)
    return body


def _spans(numbers: Iterable[int]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if spans and spans[-1][1] == number:
            spans[-1] = (spans[-1][0], number + 1)
        else:
            spans.append((number, number + 1))
    return spans


@dataclass(frozen=True)
class Gtid:
    """What a GTID event says. `kind` is its event type; `original_us` None: the same as immediate."""

    kind: int
    sid: bytes
    gno: int
    immediate_us: int
    original_us: int | None = None
    ddl: bool = False
    tag: str = ""
    timestamps: bool = True  # MySQL 5.7 writes none

    def event(self, last_committed: int, sequence: int, rest: Sequence[Event], checksum: bool = True) -> Event:
        """Return the event in front of the group's others; it says how long they are together."""
        trailer = 4 if checksum else 0
        others = sum(19 + len(event.body) + trailer for event in rest) + 19 + trailer
        if self.kind == GTID_TAGGED:
            return Event(GTID_TAGGED, self._tagged(last_committed, sequence, others))
        sid, gno = (bytes(16), 0) if self.kind == ANONYMOUS_GTID else (self.sid, self.gno)
        head = struct.pack("<B16sQBQQ", self.ddl, sid, gno, 2, last_committed, sequence)
        if not self.timestamps:
            return Event(self.kind, head)
        if self.original_us is None:
            head += self.immediate_us.to_bytes(7, "little")
        else:
            head += (self.immediate_us | 1 << 55).to_bytes(7, "little") + self.original_us.to_bytes(7, "little")
        others += len(head) + 4
        length = next(lenenc(others + width) for width in (1, 3, 4, 9) if len(lenenc(others + width)) == width)
        return Event(self.kind, head + length + struct.pack("<I", 90704))

    def _tagged(self, last_committed: int, sequence: int, others: int) -> bytes:
        bodies = ((size, self._tagged_body(last_committed, sequence, others + size)) for size in range(30, 200))
        return next(body for size, body in bodies if len(body) == size)

    def _tagged_body(self, last_committed: int, sequence: int, length: int) -> bytes:
        fields = _varint(0) + _varint(int(self.ddl))
        fields += _varint(1) + b"".join(_varint(byte) for byte in self.sid)
        fields += _varint(2) + _varint(self.gno << 1)
        fields += _varint(3) + _varint(len(self.tag)) + self.tag.encode()
        fields += _varint(4) + _varint(last_committed << 1) + _varint(5) + _varint(sequence << 1)
        fields += _varint(6) + _varint(self.immediate_us)
        if self.original_us is not None:
            fields += _varint(7) + _varint(self.original_us)
        fields += _varint(8) + _varint(length) + _varint(9) + _varint(90704)
        size = len(fields) + 3
        return _varint(1) + _varint(size if size < 128 else size + 1) + _varint(0) + fields


def _varint(value: int) -> bytes:
    """Return an integer as MySQL's serialization library does: trailing one bits count the bytes that follow."""
    width = next((w for w in range(1, 9) if value < 1 << 7 * w), 9)
    if width == 9:
        return b"\xff" + value.to_bytes(8, "little")
    return (value << width | ((1 << (width - 1)) - 1)).to_bytes(width, "little")


SESSION = bytes.fromhex("00000000000120 00a04500000000060373746404ff00ff00ff00".replace(" ", ""))


def query(text: str, schema: str = "", status: bytes = SESSION, flags: int = 0) -> Event:
    """Return a QUERY event."""
    name = schema.encode()
    head = struct.pack("<IIBHH", 17, 0, len(name), 0, len(status))
    return Event(QUERY, head + status + name + b"\0" + text.encode(), flags)


def xa_text(verb: str, gtrid: bytes, bqual: bytes) -> str:
    """Return an XA statement as servers log it."""
    return f"XA {verb} X'{gtrid.hex()}',X'{bqual.hex()}',1"


def xa_prepare(gtrid: bytes, bqual: bytes, one_phase: bool) -> Event:
    """Return an XA_PREPARE event."""
    return Event(XA_PREPARE, struct.pack("<BIII", one_phase, 1, len(gtrid), len(bqual)) + gtrid + bqual)


def xid(number: int) -> Event:
    """Return an XID event."""
    return Event(XID, struct.pack("<Q", number))


def rows_query(text: str) -> Event:
    """Return a ROWS_QUERY event."""
    return Event(ROWS_QUERY, bytes([min(255, len(text))]) + text.encode(), 0x80)


def payload(events: Iterable[Event], timestamp: int, server_id: int, compress: bool) -> Event:
    """Return a TRANSACTION_PAYLOAD event around others, which lose their checksums."""
    inside = b"".join(frame(event, timestamp, server_id, 0, False) for event in events)
    packed = zstandard.ZstdCompressor().compress(inside) if compress else inside
    kind = 0 if compress else UNCOMPRESSED
    fields = b"".join(
        bytes([field]) + lenenc(len(lenenc(value))) + lenenc(value)
        for field, value in ((2, kind), (3, len(inside)), (1, len(packed)))
    )
    return Event(PAYLOAD, fields + b"\0" + packed)


def to_bits(bits: Sequence[bool], spare: bool = False) -> bytes:
    """Return a bitmap, least significant bit first; `spare` sets the bits beyond."""
    number = sum(1 << i for i, bit in enumerate(bits) if bit)
    width = (len(bits) + 7) // 8
    if spare:
        number |= (1 << 8 * width) - (1 << len(bits))
    return number.to_bytes(width, "little")
