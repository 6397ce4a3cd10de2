"""Whether a file that ends with neither ROTATE nor STOP is whole.

A server that crashes writes neither. When it comes back it cuts the file behind its last whole transaction, clears the
in-use flag as if it had closed the file (mysql-server, `sql/binlog.cc`, `MYSQL_BIN_LOG::open_binlog`), and begins the
next one, whose PREVIOUS_GTIDS names everything that was executed before. So GTIDs tell a crash from a copy that was
cut; without them nothing does.
"""

from collections.abc import Iterator
from typing import Final

from binlog_merge.binlog.constants import CHECKSUM_LEN, EVENT_HEADER_LEN, GTID_TYPES, ChecksumAlg, EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid import Gtid, GtidSet, GtidTagged
from binlog_merge.binlog.header import EventHeader
from binlog_merge.files.directory import NodeFile
from binlog_merge.files.known import open_known

_WINDOW: Final = 16 << 20
_LONGEST_GTID: Final = 64 << 10


def nothing_is_missing(file: NodeFile, following: NodeFile) -> bool:
    """Tell whether the GTIDs of a file, and those before it, are what the next file says was executed.

    False where that is not known: a file without PREVIOUS_GTIDS, or with transactions without a GTID.
    """
    if file.previous_gtids is None or following.previous_gtids is None:
        return False
    try:
        before, after = GtidSet.parse(file.previous_gtids), GtidSet.parse(following.previous_gtids)
        own = list(_gtids(file))
    except BinlogFormatError:
        return False
    if any(gno == 0 for _, _, gno in own):
        return False
    known = [(sid, tag, start, end) for (sid, tag), spans in before.intervals.items() for start, end in spans]
    found = GtidSet.of([*known, *((sid, tag, gno, gno + 1) for sid, tag, gno in own)])
    return bool(found.intervals) and found == after


def _gtids(file: NodeFile) -> Iterator[tuple[bytes, str, int]]:
    """Yield (sid, tag, number) of each transaction of a file; the number is 0 where it has no GTID."""
    for type_code, body in _gtid_events(file):
        if type_code == EventType.GTID_TAGGED_LOG_EVENT:
            tagged = GtidTagged.parse(body)
            yield tagged.sid, tagged.tag, tagged.gno
        else:
            plain = Gtid.parse(body)
            yield plain.sid, "", plain.gno


def _gtid_events(file: NodeFile) -> Iterator[tuple[int, bytes]]:
    """Yield type and body of the GTID events of a file that has been scanned: its events are whole and sound."""
    crc = CHECKSUM_LEN if file.checksum_alg == ChecksumAlg.CRC32 else 0
    at, base, length = 4, 0, 0
    with open_known(file.known) as source:
        window = memoryview(bytearray(min(source.size, _WINDOW)))
        while at + EVENT_HEADER_LEN <= source.size:
            if at + _LONGEST_GTID > base + length and base + length < source.size:
                base, length = at, source.read_into(window, at)
            header = EventHeader.parse(window, at - base)
            if header.event_size < EVENT_HEADER_LEN:
                raise BinlogFormatError(f"event size {header.event_size}")
            if header.type_code in GTID_TYPES:
                begin = at - base + EVENT_HEADER_LEN
                yield header.type_code, bytes(window[begin : at - base + header.event_size - crc])
            at += header.event_size
