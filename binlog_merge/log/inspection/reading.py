"""Binlog files as they are shown: event by event, as lines of text or as plain values.

Files are read one event at a time, whatever their size. Nothing is skipped: the first event that is cut or damaged ends
the reading with its position and the error. Sound events of an unknown type are shown by their size, and the reading
fails with the first of them at the end.
"""

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from binlog_merge.binlog import errors as format_errors
from binlog_merge.binlog.constants import BINLOG_MAGIC, EVENT_HEADER_LEN, MAX_EVENT_SIZE, EventFlag, EventType
from binlog_merge.binlog.events import (
    EventHeader,
    FormatDescription,
    RawEvent,
    RowsEvent,
    TableMap,
    TransactionPayload,
    check_magic,
    event_name,
    frame,
    is_ignorable,
    is_known,
    parse_event,
)
from binlog_merge.config.uri import local_path
from binlog_merge.errors import (
    CHECK_PATH,
    ChecksumMismatch,
    EncryptedBinlog,
    IoError,
    MergeError,
    TruncatedEvent,
    UnknownEvent,
    UnsupportedInput,
)
from binlog_merge.files.source import SourceFile, open_local, open_source
from binlog_merge.log.inspection.records import event_record, rows_record
from binlog_merge.log.inspection.text import event_lines, rows_lines
from binlog_merge.redaction import redacted

_RENUMBERED = "-a_drop"  # previews of 5.1 and 5.2 (mysql-server 5.7, `control_events.cpp`)
_UNREAD = frozenset(
    {
        EventType.UNKNOWN_EVENT,
        EventType.START_EVENT_V3,
        EventType.LOAD_EVENT,
        EventType.SLAVE_EVENT,
        EventType.CREATE_FILE_EVENT,
        EventType.EXEC_LOAD_EVENT,
        EventType.NEW_LOAD_EVENT,
        EventType.PRE_GA_WRITE_ROWS_EVENT,
        EventType.PRE_GA_UPDATE_ROWS_EVENT,
        EventType.PRE_GA_DELETE_ROWS_EVENT,
    }
)
Shown = str | dict[str, Any]
"""A line of text, or an event as plain values."""


def inspect_file(path: str | Path, start: int, stop: int | None, verbose: int) -> Iterator[str]:
    """Yield the lines of text for one file. Raises a MergeError at the first event that cannot be read."""
    return cast(Iterator[str], _inspected(path, start, stop, verbose, False))


def records_of(path: str | Path, start: int, stop: int | None, verbose: int) -> Iterator[dict[str, Any]]:
    """Yield plain values for each event of one file. Raises a MergeError at the first event that cannot be read."""
    return cast(Iterator[dict[str, Any]], _inspected(path, start, stop, verbose, True))


def _inspected(path: str | Path, start: int, stop: int | None, verbose: int, records: bool) -> Iterator[Shown]:
    try:
        with _opened(str(path)) as file:
            shown = redacted(str(path))
            yield from _shown(read_events(file, shown, start, stop), shown, verbose, records)
    except OSError as error:
        raise IoError(f"{error.strerror or error}", file=str(path), remedy=CHECK_PATH) from error
    except format_errors.BinlogFormatError as error:
        raise _failure(error.at(str(path), -1)) from error


def _failure(error: format_errors.BinlogFormatError) -> MergeError:
    place: dict[str, Any] = {"file": error.file, "position": error.offset if error.offset >= 0 else None}
    if isinstance(error, format_errors.EncryptedBinlog):
        return EncryptedBinlog(error.reason, file=error.file)
    if isinstance(error, format_errors.TruncatedEvent):
        remedy = "copy the file again; if the server is still writing to it, the event is not complete yet"
        return TruncatedEvent(error.reason, **place, remedy=remedy)
    if isinstance(error, format_errors.NoBinlog):
        remedy = "give a binlog, such as binlog.000001; if this should be one, copy it from the node again"
        return ChecksumMismatch(error.reason, **place, remedy=remedy)
    return ChecksumMismatch(error.reason, **place)


def _opened(path: str) -> BinaryIO:
    local = local_path(path)
    if local is not None and not Path(local).exists() and (archived := _archived(Path(local))) is not None:
        return archived
    if local is not None:
        return os.fdopen(open_local(local), "rb")
    return cast(BinaryIO, io.BufferedReader(SourceFile(open_source(path)), 1 << 20))


def _archived(path: Path) -> BinaryIO | None:
    """Return a file that was removed from an output and is archived, None if it is none."""
    from binlog_merge.files.archived import NOTE_NAME, read_note

    if not (path.parent / NOTE_NAME).exists() or (note := read_note(path.parent)) is None:
        return None
    if (file := note.files.get(path.name)) is None:
        return None
    from binlog_merge.files.log_folder import LogFolder

    return LogFolder(path.parent).opened(file)


def _size_of(file: BinaryIO) -> int:
    raw = getattr(file, "raw", None)
    return raw.size if isinstance(raw, SourceFile) else os.fstat(file.fileno()).st_size


def read_events(file: BinaryIO, name: str, start: int = 4, stop: int | None = None) -> Iterator[RawEvent]:
    """Yield an open binlog's format description, then its events that begin in [start, stop).

    Positions are counted, not taken from log_pos, so files beyond 4 GiB are handled correctly.
    """
    magic = file.read(len(BINLOG_MAGIC))
    check_magic(magic, name)
    position = first = len(BINLOG_MAGIC)
    checksum = False
    while stop is None or position < stop:
        event = _read_event(file, name, position, checksum)
        if event is None:
            return
        describes = event.type_code == EventType.FORMAT_DESCRIPTION_EVENT
        if position == first and not describes:
            raise format_errors.BinlogFormatError("the file does not begin with a format description", name, first)
        if describes:
            checksum = _described(event, name).checksum
        if describes or position >= start:
            yield event
        end = position + event.header.event_size
        if position == first and end < start and not event.header.flags & EventFlag.LOG_EVENT_RELAY_LOG_F:
            file.seek(start)  # in a relay log, the source's format description may be in between
            end = start
        position = end


def _described(event: RawEvent, name: str) -> FormatDescription:
    description = FormatDescription.parse(event.body)
    if _RENUMBERED in description.server_version:
        raise UnsupportedInput(
            f"a server {description.server_version} numbers its events in another way than every release",
            file=name,
            position=event.offset,
            remedy="no program of today reads it; merge and inspect take binlogs of released servers",
        )
    return description


def _read_event(file: BinaryIO, name: str, position: int, checksum: bool) -> RawEvent | None:
    head = file.read(EVENT_HEADER_LEN)
    if not head:
        return None
    if len(head) < EVENT_HEADER_LEN:
        raise format_errors.TruncatedEvent(f"the file ends {len(head)} bytes into an event header", name, position)
    size = EventHeader.parse(head).event_size
    rest = _size_of(file) - position
    if EVENT_HEADER_LEN <= size <= MAX_EVENT_SIZE and size > rest:
        # Checked before reading: a damaged length must not make us ask for a gigabyte.
        raise format_errors.TruncatedEvent(f"event of {size} bytes, {rest} are left in the file", name, position)
    body = file.read(min(size, MAX_EVENT_SIZE) - EVENT_HEADER_LEN) if size >= EVENT_HEADER_LEN else b""
    return frame(memoryview(head + body), 0, file=name, offset=position, checksum=checksum)


def _shown(events: Iterator[RawEvent], file: str, verbose: int, records: bool) -> Iterator[Shown]:
    """Yield what is shown of these events; transaction payloads are unpacked into their events."""
    tables: dict[int, TableMap] = {}
    description: FormatDescription | None = None
    unread: dict[str, RawEvent] = {}  # the first of each type
    for event in events:
        value = parse_event(event, description)
        _note_unread(unread, event)
        if isinstance(value, FormatDescription):
            description = value
            tables.clear()
        yield from _lines(event, value, file, tables, verbose, records, inside=False)
        if not isinstance(value, TransactionPayload):
            continue
        if not records:
            yield "# Start of compressed events."
        for inner in value.events(offset=event.offset):
            _note_unread(unread, inner)
            yield from _lines(inner, parse_event(inner, description), file, tables, verbose, records, inside=True)
        if not records:
            yield "# End of compressed events."
    if unread:
        first = next(iter(unread.values()))
        raise UnknownEvent(f"events of types that are not read: {', '.join(unread)}", file=file, position=first.offset)


def _note_unread(unread: dict[str, RawEvent], event: RawEvent) -> None:
    if event.type_code in _UNREAD or not (is_known(event.type_code) or is_ignorable(event.header)):
        unread.setdefault(event_name(event.type_code), event)


def _lines(
    event: RawEvent,
    value: Any,
    file: str,
    tables: dict[int, TableMap],
    verbose: int,
    records: bool,
    inside: bool,
) -> Iterator[Shown]:
    try:
        if isinstance(value, TableMap):
            tables[value.table_id] = value
        rows = isinstance(value, RowsEvent) and verbose > 0
        if records:
            record = event_record(event, value, file, inside)
            if rows:
                record["rows"] = rows_record(value, tables.get(value.table_id))
            yield record
        else:
            yield from event_lines(event, value)
            if rows:
                yield from rows_lines(value, tables.get(value.table_id), verbose)
        if isinstance(value, RowsEvent) and value.ends_statement:
            tables.clear()  # every statement logs its table maps again
    except format_errors.BinlogFormatError as error:
        raise error.at(file, event.offset) from None
