"""A node's binlog files as values: what is known of each before its events are read.

`open_known` opens one again after it was discovered. Since then it may have grown, but not changed otherwise: a file
that is copied again, cut, purged or replaced between two reads would give bytes that were never written one after the
other. So every reader opens it here.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from binlog_merge.binlog.constants import CHECKSUM_LEN, EVENT_HEADER_LEN, GTID_TYPES, ChecksumAlg, EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid import Gtid, GtidTagged
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog.header import EventHeader
from binlog_merge.config.uri import local_path
from binlog_merge.errors import FileChanged, IoError
from binlog_merge.files.head import Head, file_identity
from binlog_merge.files.servers import FollowingServer
from binlog_merge.files.source import Closing, ReadAhead, Source, open_source


@dataclass(frozen=True, slots=True)
class Instead:
    """What is read in place of the group at [start, end) of a file, as somebody decided.

    `group` has what begins the group, up to its GTID event, and a TRANSACTION_PAYLOAD_EVENT with all else; with
    checksums as in the file. `said` is what the result says of it, and `why`.
    """

    start: int
    end: int
    group: bytes
    said: str
    why: str


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A discovered file: its size at that time, and its identity (`head.file_identity`).

    Its bytes are what `KnownSource` reads; who reads a group takes what is decided in its place, `instead_of`.
    """

    node: str
    path: str
    size: int
    identity: str
    instead: tuple[Instead, ...] = ()

    def instead_of(self, start: int) -> Instead | None:
        """Return what is read in place of the group that begins at an offset, None if nothing is decided about it."""
        return next((each for each in self.instead if each.start == start), None)


class KnownSource(Closing):
    """The first `size` bytes of a file, read-only: a read that ends before them raises FileChanged."""

    def __init__(self, source: Source, file: KnownFile) -> None:
        self._source = source
        self._file = file
        self.size = file.size

    def expect(self, stop: int) -> None:
        """Say that what comes before `stop` is read next; it is read ahead, if the file was opened for that."""
        if isinstance(self._source, ReadAhead):
            self._source.stop = stop

    @property
    def held(self) -> int:
        """Return how many bytes are held that were read ahead."""
        return self._source.held if isinstance(self._source, ReadAhead) else 0

    def release(self) -> None:
        """Forget what was read ahead."""
        if isinstance(self._source, ReadAhead):
            self._source.release()

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill `buffer` from `offset` on, or to the known end."""
        wanted = buffer[: max(0, self.size - offset)]
        got = self._source.read_into(wanted, offset)
        if got != len(wanted):
            raise _shorter(self._file, offset + got)
        return got

    def close(self) -> None:
        """Close the file; closing twice is allowed."""
        self._source.close()


def open_known(file: KnownFile, block: int | None = None) -> KnownSource:
    """Open a discovered file. Raises FileChanged if it is another file or is shorter now, IoError if it cannot.

    `block`: where the file is remote, it is read ahead in blocks of this size, once the reader says how far (`expect`).
    """
    local = local_path(file.path)
    if local is not None and not os.path.lexists(local):
        raise FileChanged("the file was there when the merge began, and is gone", node=file.node, file=file.path)
    try:
        source = open_source(file.path)
    except IoError as error:
        raise error.located(node=file.node) from None
    try:
        if source.size < file.size:
            raise _shorter(file, source.size)
        if file_identity(source) != file.identity:
            what = "the file is not the one that was there when the merge began"
            raise FileChanged(what, node=file.node, file=file.path, position=4)
    except (FileChanged, IoError):
        source.close()
        raise
    return KnownSource(source if block is None or local is not None else ReadAhead(source, block), file)


def _shorter(file: KnownFile, now: int) -> FileChanged:
    what = f"the file has {now} bytes, and had {file.size} when the merge began"
    return FileChanged(what, node=file.node, file=file.path, position=now)


@dataclass(frozen=True, slots=True)
class NodeFile:
    """A binlog file of a node. `path` is a local path or a URI, `number` its numeric suffix.

    `name` is unique among the node's files: with the folder in it if a server after the first one wrote it; then
    `earlier` are the GTIDs that the logs of the servers before it have, else None. `size` is up to where it is read.
    `identity` distinguishes this file from another of the same name (after RESET BINARY LOGS, say); it stays the same
    while the file grows. `instead` are the groups in whose place others are read.
    """

    node: str
    path: str
    name: str
    number: int
    size: int
    in_use: bool
    server_version: str
    server_id: int
    checksum_alg: int
    created: int
    first_timestamp: int
    previous_gtids: bytes | None
    identity: str
    earlier: GtidSet | None = None
    instead: tuple[Instead, ...] = ()

    @property
    def known(self) -> KnownFile:
        """Return the facts with which later readers open the file again (`files.node_file`)."""
        return KnownFile(self.node, self.path, self.size, self.identity, self.instead)


@dataclass(frozen=True, slots=True)
class IgnoredFile:
    """A file that matches a node's pattern but is not read; `reason` says why."""

    node: str
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Discovery:
    """The files of every node, in order of its log; nodes in the order of the configuration.

    `servers` are those that had a node after the first one, by node.
    """

    nodes: Mapping[str, tuple[NodeFile, ...]]
    ignored: tuple[IgnoredFile, ...]
    servers: Mapping[str, tuple[FollowingServer, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A numbered file as it was found. `server` counts the node's servers from 0.

    `head` is None while the file does not have its first event.
    """

    node: str
    server: int
    path: str
    name: str
    series: str
    number: int
    size: int
    head: Head | None


_WINDOW: Final = 16 << 20
_LONGEST_GTID: Final = 64 << 10


class Group(NamedTuple):
    """The offset at which a transaction's group of events begins, and its GTID; `gno` is 0 if it is anonymous."""

    offset: int
    sid: bytes
    tag: str
    gno: int


_BEGINNING: Final = 1 << 10


def gtid_at(file: NodeFile, start: int) -> GtidSet:
    """Return the GTID of the group that begins at an offset, empty if it has none; the scan has checked its events.

    Raises IoError.
    """
    return _gtid_at(file.path, file.identity, start, CHECKSUM_LEN if file.checksum_alg == ChecksumAlg.CRC32 else 0)


@lru_cache(1 << 12)
def _gtid_at(path: str, identity: str, start: int, crc: int) -> GtidSet:
    """Return the GTID in a file that `identity` tells from others of this path."""
    with open_source(path) as source:
        data = bytearray(min(_BEGINNING, source.size - start))
        source.read_into(memoryview(data), start)
    at = 0
    while at + EVENT_HEADER_LEN < len(data):
        header = EventHeader.parse(data, at)
        if header.type_code in GTID_TYPES:
            body = bytes(data[at + EVENT_HEADER_LEN : at + header.event_size - crc])
            gtid = (GtidTagged if header.type_code == EventType.GTID_TAGGED_LOG_EVENT else Gtid).parse(body)
            return GtidSet.of([(gtid.sid, gtid.tag, gtid.gno, gtid.gno + 1)] if gtid.gno else [])
        if header.type_code not in (EventType.GCN_EVENT, EventType.SEQUENCE_EVENT):
            break
        at += header.event_size
    return GtidSet()


def groups(file: NodeFile, start: int, end: int) -> Iterator[Group]:
    """Yield the groups between `start`, where an event begins, and `end`; the scan has checked the events there."""
    crc = CHECKSUM_LEN if file.checksum_alg == ChecksumAlg.CRC32 else 0
    at, base, length, begins = max(start, 4), 0, 0, -1
    with open_known(file.known) as source:
        window = memoryview(bytearray(min(source.size, _WINDOW)))
        while at + EVENT_HEADER_LEN <= min(end, source.size):
            if at < base or (at + _LONGEST_GTID > base + length and base + length < source.size):
                base, length = at, source.read_into(window, at)
            header = EventHeader.parse(window, at - base)
            if header.event_size < EVENT_HEADER_LEN:
                raise BinlogFormatError(f"event size {header.event_size}")
            if header.type_code in GTID_TYPES:
                begin = at - base + EVENT_HEADER_LEN
                body = bytes(window[begin : at - base + header.event_size - crc])
                tagged = header.type_code == EventType.GTID_TAGGED_LOG_EVENT
                gtid = (GtidTagged if tagged else Gtid).parse(body)
                yield Group(at if begins < 0 else begins, gtid.sid, gtid.tag, gtid.gno)
            if header.type_code not in (EventType.GCN_EVENT, EventType.SEQUENCE_EVENT):
                begins = -1
            elif begins < 0:
                begins = at
            at += header.event_size
