"""From a place in the published log to what is sent from there on, event by event, checksums verified.

    Opened   Event* | Skipped*   AtEnd …   Opened …        AtEnd: ask again, more may be published by then

An event leaves here whole and sound, or not at all. What a source says when it cannot send is MySQL's, of mysql-server
`sql/rpl_binlog_sender.cc` and `share/messages_to_clients.txt`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO, Final
from zlib import crc32

from binlog_merge.binlog.constants import BINLOG_MAGIC, EVENT_HEADER_LEN, EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid import Gtid
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog.header import EventHeader, RawEvent, check_magic, frame
from binlog_merge.errors import ChecksumMismatch
from binlog_merge.files.source import io_error
from binlog_merge.live.serve_log import LogView, PublishedLog
from binlog_merge.replay.progress import RankSet

_BUFFER: Final = 1 << 18
_SERVED_GTIDS: Final = (EventType.GTID_LOG_EVENT, EventType.ANONYMOUS_GTID_LOG_EVENT)
_DAMAGED: Final = "restore the file, or merge again into an empty directory; what stands before it is served"


class NotServed(Exception):  # noqa: N818 (it says what is the case, as the faults of the project do)
    """A request that cannot be met; the text is for the replica, as error 1236."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin: a file (the first one, if "") and position, and, with auto-position, what the reader has."""

    file: str
    position: int
    has: GtidSet | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """A file begins, to be announced with the position from which it is sent."""

    file: str
    position: int


@dataclass(frozen=True, slots=True)
class Event:
    """An event as a packet's payload: a zero byte, then the event as it stands in the file; `end` is behind it."""

    payload: bytearray
    file: str
    end: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """A transaction that the reader has; `end` is behind it."""

    file: str
    end: int


@dataclass(frozen=True, slots=True)
class AtEnd:
    """Nothing more is published. What comes next will stand at this place."""

    file: str
    position: int


Item = Opened | Event | Skipped | AtEnd


@dataclass(frozen=True, slots=True)
class _Place:
    """Where to begin, as a file's place in the log; `resumes`: the file's beginning is not for the reader."""

    number: int
    position: int
    has: RankSet
    resumes: bool


def place_of(view: LogView, start: Start) -> _Place:
    """Return where a request begins. Raises NotServed."""
    has = RankSet() if start.has is None else view.ranks_of(start.has)
    if start.has is not None:
        _check_gtids(view, start.has, by_file=bool(start.file))
    if start.position < len(BINLOG_MAGIC):
        raise NotServed("Client requested source to start replication from position < 4")
    if start.has is not None and not start.file:
        number = view.file_of(has)
        resumes = number < len(view.files) and view.files[number].first_rank in has
        return _Place(number, len(BINLOG_MAGIC), has, resumes)
    found = view.number(start.file) if start.file else view.first
    if found is None:
        raise NotServed("Could not find first log file name in binary log index file")
    if start.position > view.size(found):
        raise NotServed("Client requested source to start replication from position > file size")
    return _Place(found, start.position, has, start.position > len(BINLOG_MAGIC))


def _check_gtids(view: LogView, has: GtidSet, by_file: bool) -> None:
    if not view.with_gtids:
        raise NotServed(
            "The replication sender thread cannot start in AUTO_POSITION mode: this server has GTID_MODE = OFF instead "
            "of ON: the merged binlog was made with output.gtid: anonymous."
        )
    ours = GtidSet.of(item for item in has.items() if item[0] == view.sid)
    if not view.executed.contains_set(ours):
        raise NotServed(
            "Replica has more GTIDs than the source has, using the source's SERVER_UUID. This may indicate that the "
            f"merged binlog was made anew, or that another one is served. The replica has '{ours}', the source "
            f"'{view.executed}'."
        )
    if not by_file and not has.contains_set(view.purged):
        missing = RankSet.upto(view.purged_rank) - view.ranks_of(has)
        raise NotServed(
            "Cannot replicate because the source purged required binary logs. Replicate the missing transactions from "
            "elsewhere, or provision a new replica from backup. The GTID set sent by the replica is "
            f"'{has}', and the missing transactions are '{view.gtids_of(missing)}'."
        )


def stream(log: PublishedLog, start: Start) -> Iterator[Item]:
    """Yield what a request brings, without an end: AtEnd comes again as long as it is asked.

    Raises NotServed, and ChecksumMismatch or IoError, with the place, for a file that is not as it was published.
    """
    place = place_of(log.view(), start)
    number, position, resumes = place.number, place.position, place.resumes
    while True:
        while number >= len((view := log.view()).files):
            yield AtEnd(view.name(number), len(BINLOG_MAGIC))
        yield Opened(view.name(number), position)
        with _Reader(log, view, number, place.has) as reader:
            yield from reader.events(position, resumes)
        number, position, resumes = number + 1, len(BINLOG_MAGIC), False


class _Reader:
    """One file, from a position to its end, as far as it is published and as it grows."""

    def __init__(self, log: PublishedLog, view: LogView, number: int, has: RankSet) -> None:
        self._log = log
        self._view = view
        self._number = number
        self._has = has
        self._name = view.name(number)
        self._path = str(view.path(number))
        self._size = view.size(number)
        self._source = self._opened()

    def __enter__(self) -> "_Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    def events(self, position: int, resumes: bool) -> Iterator[Item]:
        """Yield the file's events from a position on, its format description first."""
        description, first = self._event(len(BINLOG_MAGIC), None)
        if first.type_code != EventType.FORMAT_DESCRIPTION_EVENT:
            raise self._damaged("no format description begins the file", len(BINLOG_MAGIC))
        yield Event(_resumed(first) if resumes else description, self._name, first.end)
        asked = position if position > len(BINLOG_MAGIC) else None
        at = first.end if asked is None else position
        self._source.seek(at)
        while True:
            while at < self._size:
                payload, event = self._event(at, asked)
                asked = None
                length = self._length_of_known(event)
                if length:
                    at = event.offset + length
                    self._source.seek(at)
                    yield Skipped(self._name, at)
                else:
                    at = event.end
                    yield Event(payload, self._name, at)
            if self._view.files[self._number].closed:
                return
            yield AtEnd(self._name, at)
            self._grown(at)

    def _length_of_known(self, event: RawEvent) -> int:
        """Return the length of the transaction that begins here if the reader has it, else 0."""
        if not self._has or event.type_code not in _SERVED_GTIDS:
            return 0
        gtid = Gtid.parse(event.body)
        if gtid.gno not in self._has:
            return 0
        length = gtid.transaction_length or 0
        if not event.header.event_size < length <= self._size - event.offset:
            raise self._damaged(f"a transaction of {length} bytes does not fit", event.offset)
        return length

    def _grown(self, at: int) -> None:
        """Take note of what is published by now. A file that has grown is another one under the same name."""
        self._view = self._log.view()
        size = self._view.size(self._number)
        if size != self._size:
            self._source.close()
            self._size, self._source = size, self._opened()
            self._source.seek(at)

    def _event(self, at: int, asked: int | None) -> tuple[bytearray, RawEvent]:
        """Read the event at a position, which the reader is at. `asked`: a client says that one begins there."""
        try:
            head = self._source.read(EVENT_HEADER_LEN)
            length = EventHeader.parse(head).event_size
            if not EVENT_HEADER_LEN <= length <= self._size - at:
                raise BinlogFormatError(f"event of {length} bytes, {self._size - at} are published")
            payload = bytearray(1 + length)
            payload[1 : 1 + EVENT_HEADER_LEN] = head
            with memoryview(payload) as view:
                self._source.readinto(view[1 + EVENT_HEADER_LEN :])  # type: ignore[attr-defined]
            event = frame(memoryview(payload)[1:], 0, file=self._path, offset=at, checksum=True)
            if asked is not None and event.header.log_pos != event.end & 0xFFFFFFFF:
                raise BinlogFormatError("the event says that it stands elsewhere")
        except BinlogFormatError as error:
            if asked is not None:
                raise NotServed(f"no event begins at {self._name}:{asked}, where the replica asks for one") from None
            raise self._damaged(error.reason, at) from None
        except OSError as error:
            raise io_error(error, self._path, at) from error
        return payload, event

    def _opened(self) -> BinaryIO:
        try:
            source = self._view.path(self._number).open("rb", buffering=_BUFFER)
        except FileNotFoundError:
            raise NotServed(f"could not find next log: {self._name} was removed") from None
        except OSError as error:
            raise io_error(error, self._path) from error
        try:
            check_magic(source.read(len(BINLOG_MAGIC)))
        except BinlogFormatError as error:
            source.close()
            raise self._damaged(error.reason, 0) from None
        return source

    def _damaged(self, reason: str, position: int) -> ChecksumMismatch:
        return ChecksumMismatch(reason, file=self._path, position=position, remedy=_DAMAGED)


def _resumed(event: RawEvent) -> bytearray:
    """Return a format description that does not move the reader's position: log_pos and its time are 0.

    With a time of its own a replica would take it for a source that was started anew, and drop temporary tables.
    """
    header = replace(event.header, log_pos=0)
    body = bytearray(event.body)
    body[52:56] = bytes(4)  # behind binlog_version 2 and server_version 50
    packed = b"\0" + header.pack() + bytes(body)
    return bytearray(packed + crc32(packed[1:]).to_bytes(4, "little"))
