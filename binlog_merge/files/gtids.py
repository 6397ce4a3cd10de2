"""Reads the GTID events of a file with their positions, which the scan does not keep (it keeps intervals)."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from binlog_merge.binlog.constants import CHECKSUM_LEN, EVENT_HEADER_LEN, GTID_TYPES, ChecksumAlg, EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid import Gtid, GtidTagged
from binlog_merge.binlog.header import EventHeader
from binlog_merge.files.known import open_known
from binlog_merge.files.node_file import NodeFile

_WINDOW: Final = 16 << 20
_LONGEST_GTID: Final = 64 << 10


class Group(NamedTuple):
    """The offset at which a transaction's group of events begins, and its GTID; `gno` is 0 if it is anonymous."""

    offset: int
    sid: bytes
    tag: str
    gno: int


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
