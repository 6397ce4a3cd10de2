"""Event framing: the 19-byte header, the checksum, and walking from event to event.

    | timestamp 4 | type 1 | server_id 4 | event_size 4 | log_pos 4 | flags 2 | body ... | CRC32 4 |

The format description event (FDE) announces whether the following events have a checksum, and always has one itself.
`log_pos` is the end position mod 2^32 and is never trusted: offsets are counted.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Self

from binlog_merge.binlog.constants import (
    BINLOG_MAGIC,
    CHECKSUM_LEN,
    ENCRYPTED_MAGIC,
    EVENT_HEADER_LEN,
    MAX_EVENT_SIZE,
    SERVER_VERSION_LEN,
    ChecksumAlg,
    EventFlag,
    EventType,
)
from binlog_merge.binlog.errors import BinlogFormatError, ChecksumMismatch, EncryptedBinlog, NoBinlog, TruncatedEvent
from binlog_merge.binlog.wire import Buffer

_HEADER: Final = struct.Struct("<IBIIIH")
_FLAGS_OFFSET: Final = 17

# Body of an FDE up to the post-header lengths: binlog_version 2, server_version 50, created 4, header_length 1.
FDE_FIXED_LEN: Final = 2 + SERVER_VERSION_LEN + 4 + 1


@dataclass(frozen=True, slots=True)
class EventHeader:
    """The common header of an event; `event_size` counts header, body and checksum."""

    timestamp: int
    type_code: int
    server_id: int
    event_size: int
    log_pos: int
    flags: int

    @classmethod
    def parse(cls, data: Buffer, pos: int = 0) -> Self:
        """Parse the header at `pos`. Raises TruncatedEvent if there are fewer than 19 bytes."""
        if pos < 0 or len(data) - pos < EVENT_HEADER_LEN:
            raise TruncatedEvent(f"event header: needs {EVENT_HEADER_LEN} bytes, {max(0, len(data) - pos)} are left")
        return cls(*_HEADER.unpack_from(data, pos))

    def pack(self) -> bytes:
        """Return the 19 bytes of the header."""
        return _HEADER.pack(self.timestamp, self.type_code, self.server_id, self.event_size, self.log_pos, self.flags)


@dataclass(frozen=True, slots=True)
class RawEvent:
    """An event with its header parsed and its body raw (a view into the caller's bytes).

    `offset` is where the event begins in its file; for an event inside a transaction payload, where the payload event
    begins.
    """

    header: EventHeader
    body: memoryview | bytes
    offset: int = -1
    checksum: int | None = None

    @property
    def type_code(self) -> int:
        return self.header.type_code

    @property
    def end(self) -> int:
        """Return the position after the event, which `log_pos` has only mod 2^32."""
        return self.offset + self.header.event_size

    def pack(self) -> bytes:
        """Return the event's bytes as they were read, with its checksum."""
        tail = b"" if self.checksum is None else self.checksum.to_bytes(CHECKSUM_LEN, "little")
        return b"".join((self.header.pack(), self.body, tail))


def is_ignorable(header: EventHeader) -> bool:
    """Return whether a reader that does not know the event's type may skip it (LOG_EVENT_IGNORABLE_F)."""
    return bool(header.flags & EventFlag.LOG_EVENT_IGNORABLE_F)


def check_magic(data: Buffer, file: str = "") -> None:
    """Raise EncryptedBinlog, TruncatedEvent or BinlogFormatError unless `data` begins with the binlog magic."""
    magic = bytes(data[:4])
    if magic == ENCRYPTED_MAGIC:
        raise EncryptedBinlog(
            "the file is encrypted; copy it decrypted (mysqlbinlog --read-from-remote-server --raw)", file, 0
        )
    if magic != BINLOG_MAGIC:
        if BINLOG_MAGIC.startswith(magic):
            raise TruncatedEvent(f"the file begins with {magic.hex(' ') or 'nothing'}, and ends", file, 0)
        raise NoBinlog(f"the file is no binlog: it begins with {magic.hex(' ')}, a binlog with fe 62 69 6e", file, 0)


def server_version_split(version: str) -> tuple[int, int, int]:
    """Return the three numbers of a version string as the server parses them; (0, 0, 0) if it has none."""
    numbers: list[int] = []
    rest = version
    for place in range(3):
        digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
        rest = rest[len(digits) :]
        number = int(digits) if digits and len(digits) < 6 else 0 if not digits else 256
        if number > 255 or (place == 0 and not rest.startswith(".")):
            return (0, 0, 0)
        numbers.append(number)
        rest = rest[1:] if rest.startswith(".") else rest
    return (numbers[0], numbers[1], numbers[2])


def knows_checksums(server_version: str) -> bool:
    """Return whether a server of this version writes the checksum algorithm into its FDE (MySQL 5.6.1, MariaDB 5.3)."""
    least = (5, 3, 0) if "mariadb" in server_version.lower() else (5, 6, 1)
    return server_version_split(server_version) >= least


def _fde_version(body: Buffer) -> str:
    raw = bytes(body[2 : 2 + SERVER_VERSION_LEN])
    return raw.split(b"\0", 1)[0].decode("latin-1")


def frame(
    data: memoryview, pos: int, *, file: str = "", offset: int = -1, checksum: bool = True, verify: bool = True
) -> RawEvent:
    """Return the event at `pos` in `data`; `offset` is its offset in the file, for errors.

    An FDE's own version decides about its checksum, whatever `checksum` is. Raises TruncatedEvent if bytes are missing.
    """
    try:
        header = EventHeader.parse(data, pos)
        size = header.event_size
        if not EVENT_HEADER_LEN <= size <= MAX_EVENT_SIZE:
            raise BinlogFormatError(f"event size {size} is not within {EVENT_HEADER_LEN}..{MAX_EVENT_SIZE}")
        if size > len(data) - pos:
            raise TruncatedEvent(f"event of {size} bytes is cut after {len(data) - pos}")
        body = data[pos + EVENT_HEADER_LEN : pos + size]
        if header.type_code == EventType.FORMAT_DESCRIPTION_EVENT:
            checksum = knows_checksums(_fde_version(body))
        if not checksum:
            return RawEvent(header, body, offset)
        if len(body) < CHECKSUM_LEN:
            raise BinlogFormatError(f"event of {size} bytes has no room for its checksum")
        crc = int.from_bytes(body[-CHECKSUM_LEN:], "little")
        event = RawEvent(header, body[:-CHECKSUM_LEN], offset, crc)
        if verify:
            _verify(event, data[pos : pos + size - CHECKSUM_LEN])
    except BinlogFormatError as error:
        raise error.at(file, offset) from None
    return event


def _verify(event: RawEvent, covered: memoryview) -> None:
    if event.type_code == EventType.FORMAT_DESCRIPTION_EVENT:
        if fde_checksum(event.body) is not True:
            return  # with checksums off nobody checks the FDE's either
        if event.header.flags & EventFlag.LOG_EVENT_BINLOG_IN_USE_F:
            # The flag is cleared in place when the file is closed, so the CRC never covers it.
            header = replace(event.header, flags=event.header.flags & ~EventFlag.LOG_EVENT_BINLOG_IN_USE_F)
            covered = memoryview(header.pack() + bytes(event.body))
    crc = zlib.crc32(covered)
    if crc != event.checksum:
        raise ChecksumMismatch(f"checksum is {event.checksum:08x} in the file, {crc:08x} by its bytes")


def fde_checksum(body: Buffer) -> bool | None:
    """Return whether an FDE's body (without its CRC) announces checksums; None if its server predates checksums."""
    if len(body) < FDE_FIXED_LEN + 1:
        raise BinlogFormatError(f"format description: {len(body)} bytes are too few")
    if not knows_checksums(_fde_version(body)):
        return None
    alg = body[len(body) - 1]
    if alg > ChecksumAlg.CRC32:
        raise BinlogFormatError(f"format description: checksum algorithm {alg} is not known")
    return alg == ChecksumAlg.CRC32


def walk(
    data: Buffer, file: str = "", offset: int = 0, checksum: bool | None = None, verify: bool = True
) -> Iterator[RawEvent]:
    """Yield the events of `data` in order. Raises at the first that is cut or damaged; never skips.

    `offset` is the file position of data[0]; at the beginning of a file the magic is skipped. `checksum` is whether
    events have a CRC until an FDE announces it: for a slice from the middle of a file the caller must know.
    """
    view = memoryview(data)
    pos = 0
    if offset == 0 and bytes(view[:4]) in (BINLOG_MAGIC, ENCRYPTED_MAGIC):
        check_magic(view, file)
        pos = len(BINLOG_MAGIC)
    with_crc = bool(checksum)
    while pos < len(view):
        event = frame(view, pos, file=file, offset=offset + pos, checksum=with_crc, verify=verify)
        if event.type_code == EventType.FORMAT_DESCRIPTION_EVENT:
            try:
                with_crc = bool(fde_checksum(event.body))
            except BinlogFormatError as error:
                raise error.at(file, offset + pos) from None
        yield event
        pos += event.header.event_size


def pack_event(
    type_code: int,
    body: Buffer,
    *,
    timestamp: int,
    server_id: int,
    flags: int = 0,
    position: int,
    checksum: bool = True,
) -> bytes:
    """Return the bytes of an event that begins at `position` of its file: header, body and optionally CRC32."""
    size = EVENT_HEADER_LEN + len(body) + (CHECKSUM_LEN if checksum else 0)
    if size > MAX_EVENT_SIZE:
        raise BinlogFormatError(f"event of {size} bytes is larger than {MAX_EVENT_SIZE}", offset=position)
    log_pos = (position + size) & 0xFFFFFFFF
    head = covered = _HEADER.pack(timestamp, type_code, server_id, size, log_pos, flags)
    if not checksum:
        return head + bytes(body)
    if type_code == EventType.FORMAT_DESCRIPTION_EVENT:
        flags &= ~EventFlag.LOG_EVENT_BINLOG_IN_USE_F
        covered = head[:_FLAGS_OFFSET] + flags.to_bytes(2, "little")
    crc = zlib.crc32(body, zlib.crc32(covered))
    return b"".join((head, body, crc.to_bytes(CHECKSUM_LEN, "little")))
