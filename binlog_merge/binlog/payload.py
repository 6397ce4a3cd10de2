"""The transaction payload event: all events of a transaction after its GTID event, compressed.

    fields (type packed, length packed, value)* up to type 0, then the payload
    1 payload size | 2 compression (0 zstd, 255 none) | 3 uncompressed size

Decompression is bounded: however small a hostile payload is, it yields no more than `max_size` bytes, an event at a
time. Inner events have no checksum. Source: mysql-server `libs/mysql/binlog/event/codecs/binary.cpp`.
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import zstandard

from binlog_merge.binlog.constants import EVENT_HEADER_LEN, MAX_EVENT_SIZE, EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.header import EventHeader, RawEvent
from binlog_merge.binlog.wire import Buffer, Reader, pack_packed, pack_packed_bytes

END_MARK, PAYLOAD_SIZE, COMPRESSION_TYPE, UNCOMPRESSED_SIZE = 0, 1, 2, 3
ZSTD: Final = 0
NONE: Final = 255

MAX_UNCOMPRESSED: Final = 1 << 30
MAX_RATIO: Final = 1000
# The ratio is judged only from here on: a small transaction of blanks may honestly compress better than 1000 to 1.
RATIO_FLOOR: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class TransactionPayload:
    """TRANSACTION_PAYLOAD_EVENT; `fields` keeps the header fields in their order, as (type, value bytes)."""

    compression: int
    payload: memoryview | bytes
    uncompressed_size: int | None = None
    fields: tuple[tuple[int, bytes], ...] = ()

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        """Parse the event's body, without decompressing it."""
        r = Reader(body, "transaction payload")
        fields: list[tuple[int, bytes]] = []
        numbers: dict[int, int] = {}
        while (kind := r.packed("field type")) != END_MARK:
            value = r.packed_bytes(f"field {kind}")
            fields.append((kind, value))
            if kind in (PAYLOAD_SIZE, COMPRESSION_TYPE, UNCOMPRESSED_SIZE):
                if kind in numbers:
                    raise r.fail(f"field {kind} stands twice")
                number = Reader(value, f"transaction payload, field {kind}")
                numbers[kind] = number.packed("value")
                number.done()
        if PAYLOAD_SIZE not in numbers or COMPRESSION_TYPE not in numbers:
            raise r.fail("payload size or compression type is missing")
        if numbers[PAYLOAD_SIZE] != r.left():
            raise r.fail(f"payload of {numbers[PAYLOAD_SIZE]} bytes, {r.left()} are there")
        compression = numbers[COMPRESSION_TYPE]
        return cls(compression, r.take(r.left()), numbers.get(UNCOMPRESSED_SIZE), tuple(fields))

    @classmethod
    def compress(cls, events: Buffer, level: int = 3) -> Self:
        """Return the payload of these event bytes, with fields in MySQL's order."""
        payload = zstandard.ZstdCompressor(level=level).compress(bytes(events))
        fields = ((COMPRESSION_TYPE, ZSTD), (UNCOMPRESSED_SIZE, len(events)), (PAYLOAD_SIZE, len(payload)))
        return cls(ZSTD, payload, len(events), tuple((kind, pack_packed(value)) for kind, value in fields))

    def pack(self) -> bytes:
        """Return the body."""
        fields = b"".join(pack_packed(kind) + pack_packed_bytes(value) for kind, value in self.fields)
        return fields + b"\0" + self.payload

    def events(self, max_size: int = MAX_UNCOMPRESSED, offset: int = -1) -> Iterator[RawEvent]:
        """Yield the events inside. They get `offset`, that of the payload event.

        Raises if the bytes are damaged, or decompress to more than `max_size` or than 1000 times their size.
        """
        try:
            source = _Unpacked(self, max_size)
            while (event := source.next_event()) is not None:
                yield replace(event, offset=offset)
        except BinlogFormatError as error:
            raise error.at("", offset) from None

    def chunks(self, size: int = 1 << 20, max_size: int = MAX_UNCOMPRESSED) -> Iterator[bytes]:
        """Yield the decompressed bytes in chunks of about `size`, regardless of events. Raises as `events` does."""
        if self.uncompressed_size is None:
            yield from (event.header.pack() + bytes(event.body) for event in self.events(max_size))
            return
        source, left = _Unpacked(self, max_size), self.uncompressed_size
        while left:
            part = source.read(min(size, left))
            if not part:
                raise BinlogFormatError(f"transaction payload: ends {left} bytes before the announced length")
            left -= len(part)
            yield part
        if source.stream.read(1):
            raise BinlogFormatError(f"transaction payload: more than the announced {self.uncompressed_size} bytes")


class _Unpacked:
    """Reads the decompressed bytes event by event, and counts them against the limit."""

    __slots__ = ("limit", "payload", "stream", "taken")

    def __init__(self, payload: TransactionPayload, max_size: int) -> None:
        self.payload = payload
        size = payload.uncompressed_size
        if size is not None and size > max_size:
            raise BinlogFormatError(f"transaction payload: {size} bytes unpacked, the limit is {max_size}")
        self.limit = min(max_size, max(RATIO_FLOOR, len(payload.payload) * MAX_RATIO))
        self.taken = 0
        self.stream: Any
        if payload.compression == ZSTD:
            self.stream = zstandard.ZstdDecompressor().stream_reader(bytes(payload.payload), read_across_frames=True)
        elif payload.compression == NONE:
            self.stream = io.BytesIO(bytes(payload.payload))
        else:
            raise BinlogFormatError(f"transaction payload: compression {payload.compression} is not known")

    def read(self, size: int) -> bytes:
        if self.taken + size > self.limit:
            raise BinlogFormatError(
                f"transaction payload: more than {self.limit} bytes come out of {len(self.payload.payload)}"
            )
        parts: list[bytes] = []
        missing = size
        try:
            while missing and (part := self.stream.read(min(missing, 1 << 20))):
                parts.append(part)
                missing -= len(part)
        except (zstandard.ZstdError, MemoryError) as error:
            raise BinlogFormatError(f"transaction payload: {error or 'out of memory'}") from None
        self.taken += size - missing
        return b"".join(parts)

    def next_event(self) -> RawEvent | None:
        head = self.read(EVENT_HEADER_LEN)
        if not head:
            expected = self.payload.uncompressed_size
            if expected is not None and expected != self.taken:
                raise BinlogFormatError(f"transaction payload: {self.taken} bytes unpacked, {expected} were announced")
            return None
        if len(head) < EVENT_HEADER_LEN:
            raise BinlogFormatError(f"transaction payload: ends {len(head)} bytes into an event header")
        header = EventHeader.parse(head)
        if not EVENT_HEADER_LEN <= header.event_size <= MAX_EVENT_SIZE:
            raise BinlogFormatError(f"transaction payload: event size {header.event_size}")
        if header.type_code == EventType.TRANSACTION_PAYLOAD_EVENT:
            raise BinlogFormatError("transaction payload: holds a transaction payload")
        size = header.event_size - EVENT_HEADER_LEN
        body = self.read(size)
        if len(body) < size:
            raise BinlogFormatError(f"transaction payload: ends {len(body)} bytes into a body of {size}")
        return RawEvent(header, body)
