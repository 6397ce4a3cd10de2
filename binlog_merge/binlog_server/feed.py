"""Sends a log to one reader: events and what goes with them, heartbeats, and what the reader says meanwhile."""

import contextlib
import select
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Self
from zlib import crc32

from binlog_merge.binlog.constants import CHECKSUM_LEN, EVENT_HEADER_LEN, EventFlag, EventType
from binlog_merge.binlog.control import Heartbeat, HeartbeatV2, Rotate
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.header import EventHeader
from binlog_merge.binlog_server.log import DumpRequest, NotServed, PublishedLog
from binlog_merge.binlog_server.readers import LONGEST_NAME, Reader
from binlog_merge.binlog_server.settings import Settings
from binlog_merge.binlog_server.stream import AtEnd, Events, Item, Opened, Skipped, stream
from binlog_merge.binlog_server.traced import SendSpans
from binlog_merge.binlog_server.wire import LONGEST_TIMEOUT, Wire
from binlog_merge.errors import MergeError, ObjectStoreRefused, ObjectStoreUnreachable
from binlog_merge.protocol.commands import MAGIC, NOT_ASKED, Acknowledgement, BinlogDumpGtid, Dump, DumpFlag
from binlog_merge.protocol.packets import EVENT_FOLLOWS, Eof, Err, ErrorCode
from binlog_merge.tracing import tracer

_LARGEST_LOG_POS: Final = 0xFFFFFFFF
_NANOSECONDS: Final = 1_000_000_000
_LONGEST_PERIOD: Final = 4_294_967.0


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """The options of a reader's dump; `period` is that of heartbeats in seconds, None without heartbeats.

    `semi_sync`: packets have the form of semi-synchronous replication, and the reader acknowledges what it has stored.
    """

    start: DumpRequest
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
        start = DumpRequest(file, dump.position, dump.gtids if isinstance(dump, BinlogDumpGtid) else None)
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


_BUFFER: Final = 1 << 16
_LOOK_EVERY: Final = 0.1
_LONGEST_MESSAGE: Final = 500
_NOTHING: Final = (
    "Could not find first log file name in binary log index file: nothing is published yet. Come again when the first "
    "merge has published, or wait for it (mysqlbinlog: --stop-never)"
)


@dataclass(frozen=True, slots=True)
class Told:
    """Who is told about a dump: `moved` where its reader is, whenever that changes, `report` lines for the operator."""

    moved: Callable[[Reader], None]
    report: Callable[[str], None]


def await_made(wire: Wire, log: PublishedLog, options: DumpOptions, peer: str, told: Told) -> None:
    """Wait until a stream is made, for a reader that would otherwise be told that there is nothing more, or too little.

    These are readers that do not wait, and those that have more of it already: it is made anew. Raises NotServed for a
    stream that cannot be made, and for a reader that does not wait while nothing is published, MergeError for a log
    that cannot be read, Gone and OSError when the client leaves.
    """
    if not options.wait:
        log.refresh()  # such a reader comes once, and gets all that there is by then
    view = log.view()
    has = () if options.start.has is None else view.ranks_of(options.start.has).intervals
    if options.wait and not (has and has[-1][1] > view.state.rank):
        return
    made = log.made()
    if not made():
        told.report(f"{peer}: waits until the stream has all that the log has now")
        poll = select.poll()
        poll.register(wire, select.POLLIN)
        while not made():
            if poll.poll(_LOOK_EVERY * 1000):
                wire.take()
    if not options.wait and not log.view().count:
        raise NotServed(_NOTHING)


class Feed:
    """A dump of a log over a client's wire; `told` gets what there is to tell about it."""

    def __init__(self, wire: Wire, log: PublishedLog, options: DumpOptions, reader: Reader, told: Told) -> None:
        self._wire = wire
        self._log = log
        self._options = options
        self._reader = reader
        self._told = told

    def run(self) -> None:
        """Send until the reader has what it asked for. Raises Gone, Broken and OSError when the client leaves."""
        try:
            self._stream()
            last = Eof().pack()
        except (ObjectStoreUnreachable, ObjectStoreRefused) as error:
            # Not a fatal error of the log: the reader comes again, and goes on from where it is.
            self._told.report(f"{self._reader.peer}: left, {error.message}")
            return
        except (NotServed, MergeError) as error:
            last, line = failure(ErrorCode.ER_MASTER_FATAL_ERROR_READING_BINLOG, error, self._reader.peer)
            self._told.report(line)
        self._wire.put(last)
        self._wire.flush()

    def _stream(self) -> None:
        options, sending = self._options, Sending(self._options, self._log.view().server_id)
        spans = None if (asked := tracer()) is None else SendSpans(asked, self._reader.peer, self._log.view())
        with self._log.bell() as bell:
            for item in stream(self._log, options.start):
                for payload in sending.before(item):
                    self._wire.put(payload)
                if isinstance(item, Events):
                    self._wire.put_events(item, options.prefix, options.semi_sync)
                    self._sent_to(item.file, item.end, size=len(item.data))
                    if spans is not None:
                        spans.sent(len(item.data))
                    if options.semi_sync:
                        self._take_input()
                elif isinstance(item, AtEnd):
                    self._wire.flush()
                    if spans is not None:
                        spans.at_end(self._log.view(), item.file, item.position)
                    self._sent_to(item.file, item.position, waiting=True)
                    if not options.wait:
                        return
                    self._wait(bell, sending, options.period)
                elif isinstance(item, Skipped):
                    self._sent_to(item.file, item.end)
                    if self._late(options.period):
                        self._beat(sending)

    def _sent_to(self, file: str, position: int, waiting: bool = False, size: int = 0) -> None:
        sent = self._reader.sent + size
        self._reader = replace(self._reader, file=file, position=position, waiting=waiting, sent=sent)
        self._told.moved(self._reader)

    def _wait(self, bell: socket.socket, sending: Sending, period: float | None) -> None:
        """Wait until more is published, and send heartbeats meanwhile."""
        poll = select.poll()
        poll.register(self._wire, select.POLLIN)
        poll.register(bell, select.POLLIN)
        while True:
            remaining = LONGEST_TIMEOUT if period is None else max(0.0, self._wire.sent_at + period - time.monotonic())
            ready = [fd for fd, _ in poll.poll(min(remaining, LONGEST_TIMEOUT) * 1000)]
            if self._wire.fileno() in ready:
                self._take_input()
            if bell.fileno() in ready:
                with contextlib.suppress(BlockingIOError):
                    bell.recv(_BUFFER)
                return
            if self._late(period):
                self._beat(sending)

    def _late(self, period: float | None) -> bool:
        return period is not None and time.monotonic() >= self._wire.sent_at + period

    def _beat(self, sending: Sending) -> None:
        self._wire.put(sending.heartbeat())
        self._wire.flush()

    def _take_input(self) -> None:
        """Take what a client sends during a dump: acknowledgements; pings and the like have no answer."""
        for payload in self._wire.take():
            if payload[:1] == bytes([MAGIC]):
                with contextlib.suppress(BinlogFormatError):
                    ack = Acknowledgement.parse(payload)
                    place = f"{ack.file[:LONGEST_NAME]}:{ack.position}"
                    self._reader = replace(self._reader, acknowledged=place)
                    self._told.moved(self._reader)


def failure(code: ErrorCode, error: Exception, peer: str) -> tuple[bytes, str]:
    """Return an error packet for the client, and a line for the operator."""
    if isinstance(error, MergeError):
        text, line = f"{error.code}: {error.message} ({error.where()})", str(error)
    else:
        text, line = str(error), f"{peer}: not served: {str(error)[:_LONGEST_MESSAGE]}"
    return Err.of(code, text[:_LONGEST_MESSAGE]).pack(), line
