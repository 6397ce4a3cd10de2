"""Reads a merged binlog as a stream of items to apply, one event at a time; memory is that of the largest event.

    Begin  OrderedBy?  Rows*  End            a transaction of rows
    Begin  Statement  End                    a DDL

Only what the manifest lists as published is read. The rank of a transaction is its GTID's number or, in an output with
anonymous GTIDs, its number in the order of the log.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from binlog_merge.binlog.constants import BINLOG_MAGIC, EVENT_HEADER_LEN, EventType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.events import (
    FormatDescription,
    Gtid,
    Query,
    RowsEvent,
    RowsQuery,
    TableMap,
    parse_event,
)
from binlog_merge.binlog.header import EventHeader, RawEvent, check_magic, frame
from binlog_merge.errors import ChecksumMismatch, ManifestError, OutsideLog, UnsupportedInput, io_error
from binlog_merge.files.log_folder import LogFolder
from binlog_merge.files.manifest import Gone, OutputFile
from binlog_merge.log.statement import Statement
from snapshot_store.tso import OrderKey

_CTS = re.compile(rb"(?:# )?CTS::(\d{54})(?:::ARCHIVE)?(?:\n|$)")
"""The text with which a merge writes an order key; that of PolarDB-X's deletes of rows whose time to live is over."""


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction begins; `rank` counts transactions from 1, `commit_us` is its commit time in µs since 1970."""

    rank: int
    gtid: str
    commit_us: int
    file: str
    position: int

    def __reduce__(self) -> tuple[Any, ...]:
        # As a dataclass pickles itself, hundreds of thousands take seconds.
        return Begin, (self.rank, self.gtid, self.commit_us, self.file, self.position)


@dataclass(frozen=True, slots=True)
class OrderedBy:
    """The transaction's order key, if the output has it as a rows-query event after BEGIN."""

    key: OrderKey


@dataclass(frozen=True, slots=True)
class Rows:
    """A rows event and its table map, parsed and as raw bytes for a server."""

    table: TableMap
    event: RowsEvent
    raw_table: RawEvent
    raw: RawEvent


@dataclass(frozen=True, slots=True)
class End:
    """A transaction ends; `position` is the offset after its last event."""

    rank: int
    file: str
    position: int


Item = Begin | OrderedBy | Rows | Statement | End


def file_items(folder: LogFolder, file: OutputFile, first_rank: int) -> Iterator[Item]:
    """Yield the items of one file from a rank on. Raises ChecksumMismatch and ManifestError for damage."""
    check_kept(folder, file)
    path = folder.place(file.name)
    walker = _Walker(path, file.first_rank)
    try:
        for event in events_of(folder, file):
            for item in walker.take(event):
                if walker.rank >= first_rank:
                    yield item
    except BinlogFormatError as error:
        position = error.offset if error.offset >= 0 else None
        raise ChecksumMismatch(error.reason, file=path, position=position, remedy=DAMAGED) from None
    if walker.rank != file.last_rank or walker.open:
        raise ManifestError(
            f"{file.name} ends with transaction {walker.rank}, the manifest says {file.last_rank}",
            file=path,
            remedy=DAMAGED,
        )


def check_kept(folder: LogFolder, file: OutputFile) -> None:
    """Raise OutsideLog if a file was removed since the manifest was loaded: it is not missing."""
    if not folder.is_there(file):
        gone = folder.state().gone
        if gone is not None and file.last_rank <= gone.last_rank:
            raise removed_before(folder.place(), gone, f"transaction {file.first_rank}")


class NoLongerInLog(OutsideLog):
    """What is asked for stood in files that were removed."""


def removed_before(place: str, gone: Gone, what: str) -> NoLongerInLog:
    """Return the error for something that stood in removed files."""
    return NoLongerInLog(
        f"{what} is not in the log any more: it begins with transaction {gone.last_rank + 1}, everything up to "
        f"{gone.last_name} was removed",
        file=place,
        remedy="begin with a copy of the data that has what was removed, or merge again from the nodes' files into "
        "another directory",
    )


_MOST_MAPS: Final = 1000
MERGE_ON: Final = "merge on, then begin"
DAMAGED = "the merged binlog is damaged: restore it, or merge again into an empty directory"


def order_key(value: RowsQuery) -> OrderKey | None:
    """Return the order key in a rows-query event that the merge wrote (`CTS::…`), None for any other."""
    match = _CTS.match(value.query)
    return None if match is None else OrderKey.parse(match[1].decode())


class _Walker:
    """Converts the events of a file into items."""

    def __init__(self, name: str, first_rank: int) -> None:
        self.name = name
        self.rank = first_rank - 1
        self.open = False
        self._in_rows = False
        self._commented = False
        self._key: OrderKey | None = None
        self._tables: dict[int, tuple[TableMap, RawEvent]] = {}
        self._maps: dict[bytes, TableMap] = {}

    def take(self, event: RawEvent) -> Iterator[Item]:
        """Yield the items of an event."""
        value = self._parsed(event)
        if isinstance(value, Gtid):
            yield self._begin(event, value)
        elif isinstance(value, RowsQuery):
            yield from self._comment(value)
        elif isinstance(value, TableMap):
            self._tables[value.table_id] = (value, event)
        elif isinstance(value, RowsEvent):
            if value.table_id not in self._tables:
                raise BinlogFormatError(
                    f"rows of table id {value.table_id} without a table map", self.name, event.offset
                )
            table, raw = self._tables[value.table_id]
            yield Rows(table, value, raw, event)
        elif isinstance(value, Query):
            yield from self._query(event, value)
        elif event.type_code == EventType.XID_EVENT:
            yield self._end(event)
        elif event.type_code not in _INERT:
            raise UnsupportedInput(
                f"event type {event.type_code} in a merged binlog", file=self.name, position=event.offset
            )

    def _parsed(self, event: RawEvent) -> Any:
        """Parse an event; an identical table map is parsed only once."""
        if event.type_code != EventType.TABLE_MAP_EVENT:
            return parse_event(event)
        body = bytes(event.body)
        parsed = self._maps.get(body)
        if parsed is None:
            if len(self._maps) >= _MOST_MAPS:
                self._maps.clear()
            parsed = self._maps[body] = parse_event(event)
        return parsed

    def _begin(self, event: RawEvent, value: Gtid) -> Begin:
        self.rank += 1
        if self.open or (value.gno and value.gno != self.rank):
            raise BinlogFormatError(f"{value.text} is out of order: transaction {self.rank}", self.name, event.offset)
        self.open, self._in_rows, self._commented, self._key = True, False, False, None
        self._tables.clear()
        return Begin(self.rank, value.text, value.immediate_commit_timestamp or 0, self.name, event.offset)

    def _comment(self, value: RowsQuery) -> Iterator[Item]:
        # Only the first may be ours; what users write is theirs.
        key = None if self._commented else order_key(value)
        self._commented = True
        if self.open and key is not None:
            self._key = key
            yield OrderedBy(key)

    def _query(self, event: RawEvent, value: Query) -> Iterator[Item]:
        if value.query == b"BEGIN":
            self._in_rows = True
            return
        if value.query == b"COMMIT":
            yield self._end(event)
            return
        yield Statement.of(event, value, self._key)
        if not self._in_rows:
            yield self._end(event)

    def _end(self, event: RawEvent) -> End:
        self.open = False
        return End(self.rank, self.name, event.end)


_INERT = frozenset(
    {
        EventType.FORMAT_DESCRIPTION_EVENT,
        EventType.PREVIOUS_GTIDS_LOG_EVENT,
        EventType.ROTATE_EVENT,
        EventType.STOP_EVENT,
    }
)


def events_of(folder: LogFolder, file: OutputFile, position: int = len(BINLOG_MAGIC)) -> Iterator[RawEvent]:
    """Yield the published events of a file from a position on. Raises BinlogFormatError for damage, and MergeError."""
    name = folder.place(file.name)
    try:
        source = folder.opened(file, 1 << 20)
    except OSError as error:
        raise io_error(error, name) from error
    with source:
        yield from events_in(source, name, file.size, position)


def events_in(source: BinaryIO, name: str, size: int, position: int = len(BINLOG_MAGIC)) -> Iterator[RawEvent]:
    """Yield the events of the first `size` bytes of an open file from a position on, where an event begins.

    Raises BinlogFormatError for damage.
    """
    source.seek(0)
    check_magic(source.read(len(BINLOG_MAGIC)), name)
    # Behind the format description every event of a merged log has its checksum.
    checksum = position > len(BINLOG_MAGIC)
    source.seek(position)
    while position < size:
        head = source.read(EVENT_HEADER_LEN)
        length = EventHeader.parse(head).event_size if len(head) == EVENT_HEADER_LEN else 0
        if not EVENT_HEADER_LEN <= length <= size - position:
            raise BinlogFormatError(f"event of {length} bytes, {size - position} are published", name, position)
        data = memoryview(head + source.read(length - EVENT_HEADER_LEN))
        event = frame(data, 0, file=name, offset=position, checksum=checksum)
        if event.type_code == EventType.FORMAT_DESCRIPTION_EVENT:
            checksum = FormatDescription.parse(event.body).checksum
        yield event
        position += length
