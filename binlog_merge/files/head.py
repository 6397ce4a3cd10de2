"""The first events of a binlog file: who wrote it, when, and with which checksum.

    fe 62 69 6e | FORMAT_DESCRIPTION_EVENT | PREVIOUS_GTIDS_EVENT | ...

Read before anything else, to refuse a file that is encrypted, of another kind of server, or of another node.
"""

import hashlib
import zlib
from dataclasses import dataclass

from binlog_merge.binlog.constants import (
    BINLOG_MAGIC,
    CHECKSUM_LEN,
    ENCRYPTED_MAGIC,
    EVENT_HEADER_LEN,
    MAX_EVENT_SIZE,
    EventFlag,
    EventType,
)
from binlog_merge.binlog.control import FormatDescription
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid import Gtid, GtidSet, GtidTagged, format_sid
from binlog_merge.binlog.header import FDE_FIXED_LEN, EventHeader
from binlog_merge.errors import ChecksumMismatch, EncryptedBinlog, UnsupportedInput
from binlog_merge.files.source import Source

HEAD_LEN = 64 * 1024
COMPARED_LEN = 4096
"""Files that agree for this many bytes after their head are copies: these events hold commit times or a file name."""


@dataclass(frozen=True, slots=True)
class Head:
    """The content of a file's first events.

    `previous_gtids` is the event's body, None if the file does not have one (yet). `identity` is a hash of the format
    description without the in-use flag: it stays the same while the file grows and is closed, and differs from that of
    every file that this server began in another second. `first_events` are the bytes that follow these two events.
    `server_uuids` are those of the GTIDs found so far; for a server that replicates they include other servers'.
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
    server_uuids: frozenset[str]


def read_head(source: Source, node: str, path: str, mariadb: bool = False) -> Head | None:
    """Read the head of a file; None if it ends before its first event does (just created, or cut). `mariadb`: it may be
    one of MariaDB's, which are not merged as they are.

    Raises EncryptedBinlog, UnsupportedInput, or ChecksumMismatch for bytes that no server wrote.
    """
    data = _read(source, 0, HEAD_LEN)
    _check_magic(data, node, path)
    if len(data) < 4 + EVENT_HEADER_LEN:
        return None
    header = EventHeader.parse(data, 4)
    _check_first_event(header, node, path)
    if len(data) < 4 + header.event_size:
        return None
    event = _closed(header, data[4 + EVENT_HEADER_LEN : 4 + header.event_size])
    fde = format_description(event, node, path, mariadb)
    _check_not_relayed(header, node, path)
    previous, end = _previous_gtids(source, 4 + header.event_size, fde)
    first_events = _read(source, end, COMPARED_LEN)
    return Head(
        in_use=bool(header.flags & EventFlag.LOG_EVENT_BINLOG_IN_USE_F),
        server_version=fde.server_version,
        server_id=header.server_id,
        checksum_alg=fde.checksum_alg or 0,
        created=fde.created,
        first_timestamp=header.timestamp,
        previous_gtids=previous,
        identity=_identity(event),
        first_events=first_events,
        server_uuids=_server_uuids(previous, first_events, fde),
    )


def file_identity(source: Source) -> str | None:
    """Return `Head.identity` of a file, without checking its head; None if the first event is missing."""
    head = _read(source, 4, EVENT_HEADER_LEN)
    if len(head) < EVENT_HEADER_LEN:
        return None
    header = EventHeader.parse(head)
    body = _read(source, 4 + EVENT_HEADER_LEN, min(header.event_size, HEAD_LEN) - EVENT_HEADER_LEN)
    return _identity(_closed(header, body))


def _closed(header: EventHeader, body: bytes) -> bytes:
    """Return the format description event as it is in a closed file: without the in-use flag."""
    flags = header.flags & ~int(EventFlag.LOG_EVENT_BINLOG_IN_USE_F)
    return header.pack()[:-2] + flags.to_bytes(2, "little") + body


def _identity(event: bytes) -> str:
    return hashlib.sha256(event).hexdigest()


def _read(source: Source, offset: int, length: int) -> bytes:
    buffer = bytearray(max(0, min(length, source.size - offset)))
    count = source.read_into(memoryview(buffer), offset)
    return bytes(buffer[:count])


def _check_magic(data: bytes, node: str, path: str) -> None:
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
        remedy="narrow the node's `files` pattern to binlogs; if this should be one, copy it from the node again",
    )


def _check_first_event(header: EventHeader, node: str, path: str) -> None:
    type_code, size = header.type_code, header.event_size
    if type_code == EventType.START_EVENT_V3:
        raise _unsupported("the binlog was written by a MySQL before 5.0", node, path, "upgrade the server")
    if type_code != EventType.FORMAT_DESCRIPTION_EVENT or not (
        EVENT_HEADER_LEN + FDE_FIXED_LEN + CHECKSUM_LEN < size <= HEAD_LEN // 2
    ):
        raise ChecksumMismatch(
            f"the file does not begin with a format description event (type {type_code}, size {size})",
            node=node,
            file=path,
            position=4,
        )


def format_description(event: bytes, node: str, path: str, mariadb: bool = False) -> FormatDescription:
    """Parse and verify a format description event whose in-use flag is cleared, as the server clears it for the sum.

    (mysql-server, `event_checksum_test`.) Since 5.6.1 every format description ends with a checksum, whatever the
    algorithm for the events after it.
    """
    stored = int.from_bytes(event[-CHECKSUM_LEN:], "little")
    try:
        fde = FormatDescription.parse(event[EVENT_HEADER_LEN:-CHECKSUM_LEN])
    except BinlogFormatError as error:
        raise ChecksumMismatch(error.reason, node=node, file=path, position=4) from None
    if fde.is_mariadb and not mariadb:
        remedy = "translate the node's files first: binlog-merge from-mariadb FOLDER --to NEW_FOLDER, and merge that"
        raise _unsupported(f"the binlog was written by MariaDB ({fde.server_version})", node, path, remedy)
    if fde.checksum_alg is None:  # such a version cannot be distinguished from a damaged one
        raise _unsupported(
            f"the binlog names the server version {fde.server_version!r}; only MySQL 5.6.1 and later is read",
            node,
            path,
            "upgrade the server; if it is not that old, the file is damaged: copy it from the node again",
        )
    if zlib.crc32(event[:-CHECKSUM_LEN]) != stored:
        raise ChecksumMismatch("the format description event is damaged", node=node, file=path, position=4)
    return fde


def _check_not_relayed(header: EventHeader, node: str, path: str) -> None:
    if header.flags & EventFlag.LOG_EVENT_RELAY_LOG_F:
        raise _unsupported(
            "the file is a relay log: what its server has received from another, and may have applied or not",
            node,
            path,
            "give the binlogs of the source, or those that the replica itself writes (log_replica_updates)",
        )


def _unsupported(what: str, node: str, path: str, remedy: str) -> UnsupportedInput:
    return UnsupportedInput(what, node=node, file=path, position=4, remedy=remedy)


def _previous_gtids(source: Source, at: int, fde: FormatDescription) -> tuple[bytes | None, int]:
    """Return the body of the PREVIOUS_GTIDS event at `at` and the offset after it; (None, `at`) if there is none."""
    head = _read(source, at, EVENT_HEADER_LEN)
    if len(head) < EVENT_HEADER_LEN:
        return None, at
    header = EventHeader.parse(head)
    trailer = CHECKSUM_LEN if fde.checksum else 0
    fits = EVENT_HEADER_LEN + trailer <= header.event_size <= MAX_EVENT_SIZE and at + header.event_size <= source.size
    if header.type_code != EventType.PREVIOUS_GTIDS_LOG_EVENT or not fits:
        return None, at
    body = _read(source, at + EVENT_HEADER_LEN, header.event_size - EVENT_HEADER_LEN - trailer)
    return body, at + header.event_size


def _server_uuids(previous: bytes | None, first_events: bytes, fde: FormatDescription) -> frozenset[str]:
    """Return the UUIDs in the previous GTIDs and in the first GTID event. Damage is ignored: the scan reports it."""
    sids: set[bytes] = set()
    try:
        if previous is not None:
            sids |= {sid for sid, _ in GtidSet.parse(previous).intervals}
        header = EventHeader.parse(first_events)
        body = first_events[EVENT_HEADER_LEN : header.event_size - (CHECKSUM_LEN if fde.checksum else 0)]
        if header.type_code == EventType.GTID_LOG_EVENT:
            sids.add(Gtid.parse(body).sid)
        elif header.type_code == EventType.GTID_TAGGED_LOG_EVENT:
            sids.add(GtidTagged.parse(body).sid)
    except BinlogFormatError:
        pass
    return frozenset(map(format_sid, sids))
