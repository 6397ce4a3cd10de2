"""Reads the published log from a position on as the items of a dump, with checksums verified.

    Opened   Events* | Skipped*   AtEnd …   Opened …       after AtEnd ask again: more may be published then

Only complete and sound events are yielded. They are yielded in batches, since handling them singly would cost more than
all the rest.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, Final
from zlib import crc32

import numpy as np

from binlog_merge.binlog.constants import BINLOG_MAGIC, CHECKSUM_LEN, EVENT_HEADER_LEN, MAX_EVENT_SIZE, EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid import Gtid
from binlog_merge.binlog.header import EventHeader, RawEvent, check_magic, frame
from binlog_merge.binlog.kernels import packets as k
from binlog_merge.binlog_server.log import DumpRequest, LogView, NotServed, PublishedLog, dump_start_of
from binlog_merge.errors import ChecksumMismatch, io_error
from binlog_merge.log.rank_set import RankSet
from binlog_merge.protocol.packets import Sizes, event_packets

_CHUNK: Final = 1 << 19
_MOST_EVENTS: Final = 1 << 16
_LEAST_SIZE: Final = EVENT_HEADER_LEN + CHECKSUM_LEN
_DAMAGED: Final = "restore the file, or merge again into an empty directory; what stands before it is served"


@dataclass(frozen=True, slots=True)
class Opened:
    """A file begins; the reader is told its name and the position from which it is sent."""

    file: str
    position: int


@dataclass(frozen=True, slots=True)
class Events:
    """Consecutive events of a file: their bytes and their sizes; `end` is the position after the last."""

    data: memoryview
    sizes: Sequence[int] | Sizes
    file: str
    end: int

    def each(self) -> Iterator[memoryview]:
        """Yield the bytes of each event."""
        at = 0
        for size in self.sizes:
            yield self.data[at : at + size]
            at += size


@dataclass(frozen=True, slots=True)
class Skipped:
    """A transaction that the reader has already, or several; `end` is the position after them."""

    file: str
    end: int


@dataclass(frozen=True, slots=True)
class AtEnd:
    """The end of what is published. The next event will have this position."""

    file: str
    position: int


Item = Opened | Events | Skipped | AtEnd


def stream(log: PublishedLog, start: DumpRequest) -> Iterator[Item]:
    """Yield the items for a request, endlessly: AtEnd is repeated while nothing more is published.

    Raises NotServed, and ChecksumMismatch or IoError, with the position, for a file that was changed.
    """
    place = dump_start_of(log.view(), start)
    number, position, resumes = place.number, place.position, place.resumes
    while True:
        while number >= (view := log.view()).count:
            yield AtEnd(view.name(number), len(BINLOG_MAGIC))
        if number < view.first:
            raise NotServed("Could not find next log; it was removed while the log was being sent")
        yield Opened(view.name(number), position)
        with _Reader(log, view, number, place.has) as reader:
            yield from reader.events(position, resumes, by_gtids=start.has is not None)
        number, position, resumes = number + 1, len(BINLOG_MAGIC), False


def warm() -> None:
    """Load the kernels, so that the first reader does not wait for them."""
    nothing = np.empty(0, np.uint8)
    k.sound_events(nothing, 0, np.zeros(k.REGISTERS, np.int64), np.empty(0, np.int64))
    event_packets(nothing.data, (), 0)


class _Reader:
    """Reads a file from a position to its published end, also while it grows."""

    def __init__(self, log: PublishedLog, view: LogView, number: int, has: RankSet) -> None:
        self._log = log
        self._view = view
        self._number = number
        self._has = has
        self._name = view.name(number)
        self._path = view.folder.place(self._name)
        self._size = view.size(number)
        self._known = max((last for _, last in has.intervals), default=0)
        self._looked_upto = 0
        self._source = self._opened()

    def __enter__(self) -> "_Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    def events(self, position: int, resumes: bool, by_gtids: bool) -> Iterator[Item]:
        """Yield the file's events from a position on, preceded by its format description."""
        first = self._event(len(BINLOG_MAGIC))
        if first.type_code != EventType.FORMAT_DESCRIPTION_EVENT:
            raise self._damaged("no format description begins the file", len(BINLOG_MAGIC))
        description = _resumed(first, by_gtids) if resumes else first.pack()
        yield Events(memoryview(description), (len(description),), self._name, first.end)
        at = first.end
        if position > len(BINLOG_MAGIC):
            at = position
            self._check_begins(at)
        while True:
            while at < self._size:
                for item in self._chunk(at):
                    yield item
                    at = item.end
            if self._view.file(self._number).closed:
                return
            yield AtEnd(self._name, at)
            self._grown()

    def _chunk(self, at: int) -> Iterator[Events | Skipped]:
        """Yield the next chunk of the file: at least one event, in batches between skipped transactions."""
        data = self._piece(at)
        found = np.frombuffer(data, np.uint8)
        sizes = np.empty(min(len(data) // _LEAST_SIZE + 1, _MOST_EVENTS), np.int64)
        reg = np.zeros(k.REGISTERS, np.int64)
        begin = first = 0
        while True:
            why = k.sound_events(found, self._known, reg, sizes)
            pos, count = reg.tolist()
            length = 0
            if why == k.ASKED:
                size = int.from_bytes(data[pos + 9 : pos + 13], "little")
                gtid = data[pos : pos + size]
                length = self._length_of_known(gtid, at + pos)
                if length:
                    length = max(length, self._known_upto(gtid) - at - pos)
                else:
                    sizes[count] = size
                    reg[:] = pos + size, count + 1
                    continue
            if count > first:
                yield Events(data[begin:pos], sizes[first:count], self._name, at + pos)
            if not length:
                break
            yield Skipped(self._name, at + pos + length)
            begin, first = pos + length, count
            if begin > len(data):
                return
            reg[k.AT] = begin
        if pos == 0:
            self._event(at)  # raises the error
            raise self._damaged("no event can be read", at)

    def _piece(self, at: int) -> memoryview:
        """Return a chunk of the file from a position on: shorter at the file's end, longer for a larger event."""
        data = self._read(at, _CHUNK)
        size = EventHeader.parse(data).event_size if len(data) >= EVENT_HEADER_LEN else 0
        return self._read(at, size) if len(data) < size <= MAX_EVENT_SIZE else data

    def _length_of_known(self, data: memoryview, at: int) -> int:
        """Return the length of the transaction that begins with this GTID event if the reader has it, else 0."""
        if not self._has:
            return 0
        try:
            gtid = Gtid.parse(data[EVENT_HEADER_LEN:-CHECKSUM_LEN])
        except BinlogFormatError as error:
            raise self._damaged(error.reason, at) from None
        if gtid.gno not in self._has:
            return 0
        length = gtid.transaction_length or 0
        if not len(data) < length <= self._size - at:
            raise self._damaged(f"a transaction of {length} bytes does not fit", at)
        return length

    def _known_upto(self, gtid: memoryview) -> int:
        """Return an offset before which the reader has all transactions from the one with this event on; 0 if none is
        known. Of a file that is in a store, what is before it need not be brought.
        """
        first = Gtid.parse(gtid[EVENT_HEADER_LEN:-CHECKSUM_LEN]).gno
        last = next(last for _, last in self._has.intervals if last >= first)
        if last <= self._looked_upto:
            return 0
        self._looked_upto = last
        begins = self._view.folder.begins(self._view.file(self._number))
        at = bisect_right(begins, last + 1, key=self._rank_at) - 1
        return begins[at] if at >= 0 else 0

    def _rank_at(self, offset: int) -> int:
        """Return the rank of the transaction that begins, or will begin, at an offset of the file."""
        file = self._view.file(self._number)
        if offset >= file.size:
            return file.last_rank + 1
        event = self._event(offset)
        if event.type_code != EventType.GTID_LOG_EVENT:  # what ends a file
            return file.last_rank + 1
        try:
            return Gtid.parse(event.body).gno
        except BinlogFormatError as error:
            raise self._damaged(error.reason, offset) from None

    def _grown(self) -> None:
        """Read the current published size, and open the file again if it has grown: publishing replaces the file."""
        view = self._log.view()
        if self._number < view.first:
            # Removed, so it was closed: whatever it has grown by cannot be read any more.
            raise self._removed()
        self._view = view
        size = self._view.size(self._number)
        if size != self._size:
            self._source.close()
            self._size, self._source = size, self._opened()

    def _check_begins(self, at: int) -> None:
        """Raise NotServed unless an event begins at the client's position, or the file ends there."""
        if at == self._size:
            return
        try:
            event = self._event(at)
            begins = event.header.log_pos == event.end & 0xFFFFFFFF
        except ChecksumMismatch:
            begins = False
        if not begins:
            raise NotServed(f"no event begins at {self._name}:{at}, where the replica asks for one")

    def _event(self, at: int) -> RawEvent:
        """Return the event at a position. Raises ChecksumMismatch if it is cut or damaged."""
        try:
            size = EventHeader.parse(self._read(at, EVENT_HEADER_LEN)).event_size
            if not EVENT_HEADER_LEN <= size <= self._size - at:
                raise BinlogFormatError(f"event of {size} bytes, {self._size - at} are published")
            return frame(self._read(at, size), 0, file=self._path, offset=at, checksum=True)
        except BinlogFormatError as error:
            raise self._damaged(error.reason, at) from None

    def _read(self, at: int, size: int) -> memoryview:
        """Return at most `size` published bytes of the file, as a buffer of their own."""
        data = np.empty(max(0, min(size, self._size - at)), np.uint8).data
        there = 0
        try:
            self._source.seek(at)
            while there < len(data) and (more := self._source.readinto(data[there:])):  # type: ignore[attr-defined]
                there += more
        except FileNotFoundError:
            raise self._removed() from None
        except OSError as error:
            raise io_error(error, self._path, at) from error
        return data[:there]

    def _opened(self) -> BinaryIO:
        try:
            source = self._view.opened(self._number)
        except FileNotFoundError:
            raise self._removed() from None
        except OSError as error:
            raise io_error(error, self._path) from error
        try:
            check_magic(source.read(len(BINLOG_MAGIC)))
        except BinlogFormatError as error:
            source.close()
            raise self._damaged(error.reason, 0) from None
        return source

    def _removed(self) -> NotServed:
        return NotServed(f"could not find next log: {self._name} was removed")

    def _damaged(self, reason: str, position: int) -> ChecksumMismatch:
        return ChecksumMismatch(reason, file=self._path, position=position, remedy=_DAMAGED)


def _resumed(event: RawEvent, by_gtids: bool) -> bytes:
    """Return the format description for a reader that has what follows it: its creation time is 0.

    With one a replica would assume that the source was restarted, and drop temporary tables. log_pos is 0, too, for a
    reader by position: that does not move its position. To a reader by GTIDs it says that a transaction of which it has
    got a part comes again: with 0, a replica with parallel workers would wait for the rest of that part for ever.
    Source: mysql-server `sql/rpl_binlog_sender.cc`, send_format_description_event; `sql/rpl_replica.cc`,
    coord_handle_partial_binlogged_transaction.
    """
    body = bytearray(event.body)
    body[52:56] = bytes(4)  # after binlog_version (2 bytes) and server_version (50 bytes)
    packed = replace(event.header, log_pos=event.header.log_pos if by_gtids else 0).pack() + bytes(body)
    return packed + crc32(packed).to_bytes(CHECKSUM_LEN, "little")
