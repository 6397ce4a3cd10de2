"""The artificial events of a dump: what a source sends in addition to the log's own events.

    a file begins                    ROTATE, artificial: no time, log_pos 0
    the file does not exist yet      the same, to a reader that waits for it: heartbeats name the reader's file
    transactions the reader has      a heartbeat with the position after them, before the next event
    nothing to send                  a heartbeat, with the period that the reader asked for

Events of the file are sent unchanged. Artificial events have a checksum as those of the file do. Before the first
format description, which announces it, they have one only if the reader asked for CRC32 (mysqlbinlog asks for NONE, and
would take a checksum for a part of a file name). Source: mysql-server `sql/rpl_binlog_sender.cc`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self
from zlib import crc32

from binlog_merge.binlog.constants import CHECKSUM_LEN, EVENT_HEADER_LEN, EventFlag, EventType
from binlog_merge.binlog.control import Heartbeat, HeartbeatV2, Rotate
from binlog_merge.binlog.header import EventHeader
from binlog_merge.binlog_server.place import Start
from binlog_merge.binlog_server.settings import Settings
from binlog_merge.binlog_server.stream import AtEnd, Events, Item, Opened, Skipped
from binlog_merge.protocol.commands import NOT_ASKED, BinlogDumpGtid, Dump, DumpFlag
from binlog_merge.protocol.packets import EVENT_FOLLOWS

_LARGEST_LOG_POS: Final = 0xFFFFFFFF
_NANOSECONDS: Final = 1_000_000_000
_LONGEST_PERIOD: Final = 4_294_967.0


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """The options of a reader's dump; `period` is that of heartbeats in seconds, None without heartbeats.

    `semi_sync`: packets have the form of semi-synchronous replication, and the reader acknowledges what it has stored.
    """

    start: Start
    wait: bool
    checksum: bool
    heartbeat_v2: bool
    period: float | None
    semi_sync: bool = False

    @property
    def prefix(self) -> bytes:
        """Return what a packet begins with before its event, if that is not to be acknowledged."""
        return NOT_ASKED if self.semi_sync else EVENT_FOLLOWS

    @classmethod
    def of(cls, dump: Dump, settings: Settings) -> Self:
        """Return the options from a dump request and from the variables that its session has set."""
        file = dump.file.rstrip(b"\0").decode("utf-8", "replace")
        start = Start(file, dump.position, dump.gtids if isinstance(dump, BinlogDumpGtid) else None)
        # A server id of 0 had the meaning of the flag before the flag existed; MariaDB's flag 2 means something else.
        wait = not (dump.flags & DumpFlag.BINLOG_DUMP_NON_BLOCK or dump.server_id == 0)
        mariadb = settings.either("@mariadb_slave_capability") is not None
        v2 = bool(dump.flags & DumpFlag.USE_HEARTBEAT_EVENT_V2) and not mariadb
        checksum = settings.either("@source_binlog_checksum", "@master_binlog_checksum")
        period = settings.either("@source_heartbeat_period", "@master_heartbeat_period")
        semi_sync = settings.either("@rpl_semi_sync_replica", "@rpl_semi_sync_slave") in (1, "1")
        return cls(start, wait, str(checksum).upper() != "NONE", v2, _seconds(period), semi_sync)


def _seconds(period: object) -> float | None:
    """Convert a period in nanoseconds, given as a number or as text, to seconds."""
    text = str(period)
    nanoseconds = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0
    return min(max(nanoseconds / _NANOSECONDS, 0.001), _LONGEST_PERIOD) if nanoseconds else None


class Sending:
    """Produces the artificial events of a dump, from the items of `stream` in order."""

    def __init__(self, options: DumpOptions, server_id: int) -> None:
        self._options = options
        self._server_id = server_id
        self._checksum = options.checksum
        self._place: Opened | Events | Skipped | AtEnd | None = None
        self._announced: tuple[str, int] | None = None

    def before(self, item: Item) -> Iterator[bytes]:
        """Yield the payloads of artificial events to send before the item's own events."""
        last, self._place = self._place, item
        if isinstance(last, Skipped) and not isinstance(item, Skipped):
            yield self._beat(last.file, last.end)
        if isinstance(item, Opened) or (isinstance(item, AtEnd) and last is None):
            # A file that the reader waited for is announced already.
            if self._announced != (item.file, item.position):
                yield self._rotate(item.file, item.position)
            self._announced = item.file, item.position
        elif isinstance(item, Events):
            self._checksum, self._announced = True, None

    def heartbeat(self) -> bytes:
        """Return a heartbeat with the reader's file and position, after at least one item."""
        place = self._place
        assert place is not None
        return self._beat(place.file, place.end if isinstance(place, Events | Skipped) else place.position)

    def _beat(self, file: str, position: int) -> bytes:
        if self._options.heartbeat_v2:
            body = HeartbeatV2(file.encode(), position).pack()
            return self._made_up(EventType.HEARTBEAT_LOG_EVENT_V2, body, 0, 0)
        if position > _LARGEST_LOG_POS:
            # The older heartbeat has no room for it, and a replica stops if the position is less than its own.
            return self._rotate(file, position)
        return self._made_up(EventType.HEARTBEAT_LOG_EVENT, Heartbeat(file.encode()).pack(), position, 0)

    def _rotate(self, file: str, position: int) -> bytes:
        body = Rotate(position, file.encode()).pack()
        return self._made_up(EventType.ROTATE_EVENT, body, 0, EventFlag.LOG_EVENT_ARTIFICIAL_F)

    def _made_up(self, kind: int, body: bytes, log_pos: int, flags: int) -> bytes:
        size = EVENT_HEADER_LEN + len(body) + (CHECKSUM_LEN if self._checksum else 0)
        event = EventHeader(0, kind, self._server_id, size, log_pos, flags).pack() + body
        if self._checksum:
            event += crc32(event).to_bytes(CHECKSUM_LEN, "little")
        return self._options.prefix + event
