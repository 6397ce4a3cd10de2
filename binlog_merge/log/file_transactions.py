"""The transactions of a merged log by their places: file, offsets, GTID, order key.

A transaction's length is in its GTID event, so the events between are not read, and the key of one transaction is read
without those of others: whoever looks for a key reads about log2(n) of them. A key is in the transaction's CTS text; a
DDL's key is in its PolarDB-X comment lines, else in the schema store, else it is only known to be between its
neighbours' keys. Where a transaction begins is found in its chunk (`chunks`), a MiB of the file.
"""

import mmap
import os
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

from binlog_merge.binlog import errors as format_errors
from binlog_merge.binlog.constants import BINLOG_MAGIC, EVENT_HEADER_LEN, EventType
from binlog_merge.binlog.events import EventHeader, RawEvent, RowsQuery, frame
from binlog_merge.binlog.gtid import Gtid
from binlog_merge.binlog.query import Query
from binlog_merge.errors import (
    CHECK_PATH,
    ChecksumMismatch,
    IoError,
    TruncatedEvent,
)
from binlog_merge.log.chunks import Chunks
from binlog_merge.log.reader import order_key
from binlog_merge.polardbx.ddl.comments import split_comment
from snapshot_store.tso import OrderKey

_GTIDS = (EventType.GTID_LOG_EVENT, EventType.ANONYMOUS_GTID_LOG_EVENT)
# ROWS_QUERY with CTS:: and 54 digits, with or without ::ARCHIVE after them: header, length byte, text, checksum.
_CTS_SIZE = EVENT_HEADER_LEN + 1 + len("CTS::") + 54 + 4
_CTS_SIZES = (_CTS_SIZE, _CTS_SIZE + len("::ARCHIVE"))
# In a GTID event: header, flags, SID, GNO, 2, last_committed, sequence_number. The commit time follows.
_TIME_AT = EVENT_HEADER_LEN + 42
_ORIGINAL_TIME = 1 << 55
_MOST_CHUNKS = 64

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction of the log, from its GTID event to its end; `ddl` is its statement if it is a DDL.

    `key` is None for a DDL whose key is not known. `commit_us` is its commit time in µs since 1970.
    """

    file: str
    start: int
    end: int
    gtid: str
    key: OrderKey | None
    ddl: str | None
    commit_us: int = 0
    rank: int = 0


class FileTransactions:
    """The transactions in the first `size` bytes of a file, by number from 0; what they hold is read when asked for.

    With `chunks` only those chunks are walked through in which something is asked for. Raises MergeError for a damaged
    file.
    """

    def __init__(self, path: Path, size: int, first_rank: int = 1, chunks: Chunks | None = None) -> None:
        self.path = path
        self.size = size
        self.first_rank = first_rank
        self._chunks = chunks
        self._walked: dict[int, tuple[list[int], list[int]]] = {}
        self._count = len(self._span(0)[0]) if chunks is None else chunks.last_rank - first_rank + 1

    def __len__(self) -> int:
        return self._count

    def _span(self, number: int) -> tuple[list[int], list[int]]:
        """Return where the transactions of a chunk begin and end."""
        if number not in self._walked:
            if len(self._walked) >= _MOST_CHUNKS:
                self._walked.pop(next(iter(self._walked)))
            begin, end = len(BINLOG_MAGIC), self.size
            if self._chunks is not None:
                begin, end = self._chunks.at(number), self._chunks.at(number + 1)
            self._walked[number] = _walk(self.path, begin, end)
        return self._walked[number]

    def _place(self, number: int) -> tuple[int, int]:
        """Return where a transaction begins and ends."""
        if self._chunks is None:
            starts, ends = self._span(0)
            return starts[number], ends[number]
        chunk = self._chunks.of_rank(self.first_rank + number)
        starts, ends = self._span(chunk)
        at = self.first_rank + number - self._chunks.rank(chunk)
        if at >= len(starts):
            raise ChecksumMismatch(
                f"transaction {self.first_rank + number} is missing",
                file=str(self.path),
                position=self._chunks.at(chunk),
            )
        return starts[at], ends[at]

    def start(self, number: int) -> int:
        """Return where a transaction begins."""
        return self._place(number)[0]

    def end(self, number: int) -> int:
        """Return where a transaction ends."""
        return self._place(number)[1]

    def transaction(self, number: int) -> Transaction:
        """Return a transaction; its key is None if it is a DDL whose text does not have it."""
        start, end = self._place(number)
        with _opened(self.path) as file:
            event = event_at(file, start, self.path)
            gtid = Gtid.parse(event.body)
            key, ddl = _key_and_ddl(file, start + event.header.event_size, end, self.path)
        time = gtid.immediate_commit_timestamp or 0
        return Transaction(self.path.name, start, end, gtid.text, key, ddl, time, self.first_rank + number)

    def commit_us(self, number: int) -> int:
        """Return a transaction's commit time in µs since 1970."""
        with _opened(self.path) as file:
            gtid = Gtid.parse(event_at(file, self.start(number), self.path).body)
        return gtid.immediate_commit_timestamp or 0

    def ended_by(self, position: int) -> int:
        """Return how many transactions end at a position or before."""
        if self._chunks is None:
            return bisect_right(self._span(0)[1], position)
        chunk = self._chunks.of_position(position)
        return self._chunks.rank(chunk) - self.first_rank + bisect_right(self._span(chunk)[1], position)


def _walk(path: Path, begin: int, size: int) -> tuple[list[int], list[int]]:
    """Return where the transactions in a file's bytes `begin` to `size` begin and end.

    Every GTID event's checksum is verified.
    """
    starts: list[int] = []
    ends: list[int] = []
    with _opened(path) as file:
        if os.fstat(file.fileno()).st_size < size:
            size_there = os.fstat(file.fileno()).st_size
            raise TruncatedEvent(
                f"the file is shorter than the {size} bytes published", file=str(path), position=size_there
            )
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            position = begin
            while position < size:
                head = data[position : position + EVENT_HEADER_LEN]
                length = int.from_bytes(head[9:13], "little")
                if len(head) < EVENT_HEADER_LEN or not EVENT_HEADER_LEN + 4 <= length <= size - position:
                    raise TruncatedEvent("there is no whole event", file=str(path), position=position)
                if head[4] not in _GTIDS:
                    position += length
                    continue
                event = data[position : position + length]
                end = position + _length_of(event, path, position)
                if not position + length < end <= size:
                    raise ChecksumMismatch(
                        f"a transaction of {end - position} bytes does not fit", file=str(path), position=position
                    )
                starts.append(position)
                ends.append(end)
                position = end
    return starts, ends


def _length_of(event: bytes, path: Path, position: int) -> int:
    """Return the transaction's length in a GTID event, 0 if it has none. Raises ChecksumMismatch."""
    if zlib.crc32(event[:-4]) != int.from_bytes(event[-4:], "little"):
        _guarded(lambda: frame(memoryview(event), 0, offset=position), path, position)
    at = _TIME_AT + 7
    if len(event) < at + 5:
        return 0
    if int.from_bytes(event[_TIME_AT:at], "little") & _ORIGINAL_TIME:
        at += 7
    first = event[at]
    width = {252: 2, 253: 3, 254: 8}.get(first, 0)
    return first if first < 251 else int.from_bytes(event[at + 1 : at + 1 + width], "little")


def read_transactions(path: Path, size: int) -> Iterator[Transaction]:
    """Yield the transactions in the first `size` bytes of a file. Raises MergeError for a damaged one."""
    found = FileTransactions(path, min(size, path.stat().st_size))
    for number in range(len(found)):
        yield found.transaction(number)


def boundaries(path: Path, start: int, end: int) -> Iterator[int]:
    """Yield the offsets of the events in [start, end) of a file."""
    with _opened(path) as file:
        while start < end and (header := _header(file, start, path)) is not None:
            yield start
            start += header.event_size


def _key_and_ddl(file: BinaryIO, first: int, end: int, path: Path) -> tuple[OrderKey | None, str | None]:
    """Return the order key and the DDL in a transaction's first events and its last one; None for what is missing."""
    event = event_at(file, first, path)
    query = Query.parse(event.body)
    key = next((_key_of(event_at(file, at, path)) for at in _ends_with_cts(file, end, first)), None)
    if query.text != "BEGIN":
        comment, statement = _comment(query.text, path, first)
        return key or comment, statement
    second = event_at(file, first + event.header.event_size, path)
    if key is None and second.type_code == EventType.ROWS_QUERY_LOG_EVENT:
        key = _key_of(second)
    return key, None


def _comment(text: str, path: Path, position: int) -> tuple[OrderKey | None, str]:
    try:
        comment, statement = split_comment(text)
    except ValueError as error:
        raise ChecksumMismatch(str(error), file=str(path), position=position) from None
    return (comment.key if comment is not None else None), statement


def _ends_with_cts(file: BinaryIO, end: int, first: int) -> Iterator[int]:
    """Yield the offset of the CTS text at the end of a transaction, if there is one."""
    for size in _CTS_SIZES:
        file.seek(max(first, end - size))
        head = file.read(EVENT_HEADER_LEN)
        if (
            end - size > first
            and head[4] == EventType.ROWS_QUERY_LOG_EVENT
            and int.from_bytes(head[9:13], "little") == size
            and int.from_bytes(head[13:17], "little") == end & 0xFFFFFFFF
        ):
            yield end - size


def _key_of(event: RawEvent) -> OrderKey | None:
    return order_key(RowsQuery.parse(event.body))


def _header(file: BinaryIO, position: int, path: Path) -> EventHeader | None:
    file.seek(position)
    head = file.read(EVENT_HEADER_LEN)
    if not head:
        return None
    return _guarded(lambda: EventHeader.parse(head), path, position)


def event_at(file: BinaryIO, position: int, path: Path) -> RawEvent:
    """Return the event at a position of an open file, checked. Raises MergeError for a damaged one."""
    header = _header(file, position, path)
    size = 0 if header is None else header.event_size
    if size < EVENT_HEADER_LEN + 4 or position + size > os.fstat(file.fileno()).st_size:
        raise TruncatedEvent("there is no whole event", file=str(path), position=position)
    file.seek(position)
    data = memoryview(file.read(size))
    return _guarded(lambda: frame(data, 0, file=str(path), offset=position, checksum=True), path, position)


def _guarded(read: Callable[[], Read], path: Path, position: int) -> Read:
    try:
        return read()
    except format_errors.BinlogFormatError as error:
        raise ChecksumMismatch(error.reason, file=str(path), position=position) from None


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise IoError(f"{error.strerror or error}", file=str(path), remedy=CHECK_PATH) from error
