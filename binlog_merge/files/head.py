"""The first events of a binlog file: who wrote it, when, and with which checksum.

    fe 62 69 6e | FORMAT_DESCRIPTION_EVENT | PREVIOUS_GTIDS_EVENT | ...

Read before anything else, to refuse a file that is encrypted, of another server kind, or on the wrong node's list.
"""

import hashlib
import struct
import zlib
from dataclasses import dataclass

from binlog_merge.binlog.constants import (
    BINLOG_MAGIC,
    BINLOG_VERSION,
    CHECKSUM_LEN,
    ENCRYPTED_MAGIC,
    EVENT_HEADER_LEN,
    MAX_EVENT_SIZE,
    SERVER_VERSION_LEN,
    ChecksumAlg,
    EventFlag,
    EventType,
)
from binlog_merge.errors import ChecksumMismatch, EncryptedBinlog, UnsupportedInput
from binlog_merge.files.source import Source

HEAD_LEN = 64 * 1024
COMPARED_LEN = 4096
"""Files that agree this far beyond their head are one: the events there hold commit times, or the next file's name."""

_HEADER = struct.Struct("<IBIIIH")  # timestamp, type, server_id, event_size, log_pos, flags
_FLAGS_AT = 17  # in the header
_FIXED_LEN = 2 + SERVER_VERSION_LEN + 4 + 1  # binlog version, server version, create timestamp, header length
_FIRST_VERSION_WITH_CHECKSUM = (5, 6, 1)  # mysql-server, `checksum_version_split`


@dataclass(frozen=True, slots=True)
class Head:
    """What the first events of a file say.

    `previous_gtids` is the event's body, None if the file does not have one (yet). `identity` is a hash of the format
    description without the in-use flag: it stays while the file grows and is closed, and differs from every other file
    that this server began in another second. `first_events` are the bytes that follow these two events.
    """

    in_use: bool
    server_version: str
    server_id: int
    checksum_alg: int
    created: int
    first_timestamp: int
    previous_gtids: bytes | None
    identity: str
    first_events: bytes


def read_head(source: Source, node: str, path: str) -> Head | None:
    """Read the head of a file; None if it ends before its first event does (just created, or cut).

    Raises EncryptedBinlog, UnsupportedInput, or ChecksumMismatch for bytes that no server wrote.
    """
    data = _read(source, 0, HEAD_LEN)
    _check_magic(data, source.size, node, path)
    if len(data) < 4 + EVENT_HEADER_LEN:
        return None
    timestamp, type_code, server_id, size, _, flags = _HEADER.unpack_from(data, 4)
    if type_code == EventType.START_EVENT_V3:
        raise UnsupportedInput(
            "the binlog was written by a MySQL before 5.0",
            node=node,
            file=path,
            position=4,
            remedy="upgrade the server",
        )
    smallest = EVENT_HEADER_LEN + _FIXED_LEN
    if type_code != EventType.FORMAT_DESCRIPTION_EVENT or not smallest <= size <= HEAD_LEN // 2:
        raise ChecksumMismatch(
            f"the file does not begin with a format description event (type {type_code}, size {size})",
            node=node,
            file=path,
            position=4,
        )
    if len(data) < 4 + size:
        return None
    event = bytearray(data[4 : 4 + size])
    struct.pack_into("<H", event, _FLAGS_AT, flags & ~int(EventFlag.LOG_EVENT_BINLOG_IN_USE_F))
    version, created, checksum_alg = _format_description(bytes(event), node, path)
    previous, end = _previous_gtids(source, 4 + size, checksum_alg)
    return Head(
        in_use=bool(flags & EventFlag.LOG_EVENT_BINLOG_IN_USE_F),
        server_version=version,
        server_id=server_id,
        checksum_alg=checksum_alg,
        created=created,
        first_timestamp=timestamp,
        previous_gtids=previous,
        identity=hashlib.sha256(event).hexdigest(),
        first_events=_read(source, end, COMPARED_LEN),
    )


def _read(source: Source, offset: int, length: int) -> bytes:
    buffer = bytearray(max(0, min(length, source.size - offset)))
    count = source.read_into(memoryview(buffer), offset)
    return bytes(buffer[:count])


def _check_magic(data: bytes, size: int, node: str, path: str) -> None:
    magic = data[:4]
    if magic == BINLOG_MAGIC or (len(magic) < 4 and BINLOG_MAGIC.startswith(magic)):
        return
    if magic == ENCRYPTED_MAGIC:
        raise EncryptedBinlog("the file is encrypted (magic fd 62 69 6e)", node=node, file=path, position=0)
    raise ChecksumMismatch(
        f"not a binlog file: it begins with {magic.hex(' ')}, not fe 62 69 6e",
        node=node,
        file=path,
        position=0,
        remedy="copy the file from the node again, or narrow the node's `files` pattern",
    )


def _format_description(event: bytes, node: str, path: str) -> tuple[str, int, int]:
    binlog_version, version, created, header_len = struct.unpack_from(
        f"<H{SERVER_VERSION_LEN}sIB", event, EVENT_HEADER_LEN
    )
    text = version.split(b"\0", 1)[0].decode("latin-1")
    if "mariadb" in text.lower():
        raise UnsupportedInput(
            f"the binlog was written by MariaDB ({text})",
            node=node,
            file=path,
            position=4,
            remedy="only binlogs of MySQL and servers that keep its format are read",
        )
    if binlog_version != BINLOG_VERSION or header_len != EVENT_HEADER_LEN:
        raise UnsupportedInput(
            f"binlog version {binlog_version} with headers of {header_len} bytes; only version 4 with 19 is known",
            node=node,
            file=path,
            position=4,
            remedy="upgrade the server",
        )
    # The algorithm byte and the checksum end every format description since 5.6.1, whatever the algorithm. An older
    # version is refused: nothing would tell it from a damaged one.
    if _version_numbers(text) < _FIRST_VERSION_WITH_CHECKSUM:
        raise UnsupportedInput(
            f"the binlog names the server version {text!r}; only MySQL 5.6.1 and later is read",
            node=node,
            file=path,
            position=4,
            remedy="upgrade the server; if it is not that old, the file is damaged: copy it from the node again",
        )
    alg = event[-CHECKSUM_LEN - 1]
    stored = int.from_bytes(event[-CHECKSUM_LEN:], "little")
    known = alg in (ChecksumAlg.OFF, ChecksumAlg.CRC32)
    # The server clears the in-use flag for the sum, as the caller did (mysql-server, event_checksum_test).
    if not known or (alg == ChecksumAlg.CRC32 and zlib.crc32(event[:-CHECKSUM_LEN]) != stored):
        raise ChecksumMismatch("the format description event is damaged", node=node, file=path, position=4)
    return text, created, alg


def _version_numbers(text: str) -> tuple[int, ...]:
    """Return (8, 0, 36) for "8.0.36-log"; zeros for what is missing, as the server's `do_server_version_split`."""
    numbers = []
    for part in text.split(".", 2):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        numbers.append(int(digits) if digits and len(digits) <= 3 else 0)
    return tuple(numbers)


def _previous_gtids(source: Source, at: int, checksum_alg: int) -> tuple[bytes | None, int]:
    """Return the body of the PREVIOUS_GTIDS event at `at`, or None, and where the next event begins."""
    header = _read(source, at, EVENT_HEADER_LEN)
    if len(header) < EVENT_HEADER_LEN:
        return None, at
    _, type_code, _, size, _, _ = _HEADER.unpack(header)
    trailer = CHECKSUM_LEN if checksum_alg == ChecksumAlg.CRC32 else 0
    fits = EVENT_HEADER_LEN + trailer <= size <= MAX_EVENT_SIZE and at + size <= source.size
    if type_code != EventType.PREVIOUS_GTIDS_LOG_EVENT or not fits:
        return None, at
    return _read(source, at + EVENT_HEADER_LEN, size - EVENT_HEADER_LEN - trailer), at + size
