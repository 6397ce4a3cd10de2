"""Binlog files as they are shown: event by event, as lines of text or as plain values.

Files are read one event at a time, whatever their size. Nothing is skipped: the first event that is cut or damaged ends
the reading with its position and the error. Sound events of an unknown type are shown by their size, and the reading
fails with the first of them at the end.

For `inspect -o jsonl` an event is a JSON object; `inspection_text` has the texts.
"""

import io
import math
import os
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, cast

from binlog_merge.binlog import errors as format_errors
from binlog_merge.binlog.cell_length import type_name
from binlog_merge.binlog.constants import BINLOG_MAGIC, EVENT_HEADER_LEN, MAX_EVENT_SIZE, EventFlag, EventType, RowsFlag
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.events import (
    EventHeader,
    ExecuteLoadQuery,
    FormatDescription,
    Gtid,
    GtidList,
    GtidTagged,
    LoadBlock,
    MariadbGtid,
    Opaque,
    PreviousGtids,
    Query,
    RawEvent,
    Rotate,
    RowsEvent,
    RowsQuery,
    Stop,
    TableMap,
    TransactionPayload,
    UserVar,
    XaPrepare,
    check_magic,
    event_name,
    frame,
    is_ignorable,
    is_known,
    parse_event,
)
from binlog_merge.binlog.json_binary import decode_json, plain_text
from binlog_merge.binlog.json_diff import JsonDiff, JsonOperation
from binlog_merge.binlog.rows import ABSENT, PartialJson, Row, iter_rows
from binlog_merge.binlog.table_map import column_names, member_text, temporal_as_text
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
from binlog_merge.files.captured import hole_of
from binlog_merge.files.source import SourceFile, open_local, open_source
from binlog_merge.json_values import utc_text
from binlog_merge.log.inspection_text import Columns, diffs_of, event_lines, rows_lines, xid_text
from binlog_merge.redaction import redacted
from snapshot_store.mysql.text.codecs import text_or_bytes

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
    local = local_path(str(path))
    hole = None if local is None else hole_of(local)
    refused = hole is not None and start < hole.end and (stop is None or stop > hole.begin)
    try:
        with _opened(str(path)) as file:
            shown = redacted(str(path))
            until = hole.begin if hole is not None and refused else stop
            yield from _shown(read_events(file, shown, start, until), shown, verbose, records)
    except OSError as error:
        raise IoError(f"{error.strerror or error}", file=str(path), remedy=CHECK_PATH) from error
    except format_errors.BinlogFormatError as error:
        raise _failure(error.at(str(path), -1)) from error
    if hole is not None and refused:
        raise hole.refusal(str(path), start)


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


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DUPLICATES = ("ERROR", "IGNORE", "REPLACE")


def event_record(event: RawEvent, value: Any, file: str, inside: bool) -> dict[str, Any]:
    """Return an event as plain values. `inside`: it is in a transaction payload, whose position it has."""
    header = event.header
    return {
        "file": file,
        "position": event.offset,
        "end_position": None if inside else event.end,
        "in_payload": inside,
        "type": event_name(event.type_code),
        "type_code": event.type_code,
        "time": _moment(header.timestamp * 1_000_000),
        "server_id": header.server_id,
        "event_size": header.event_size,
        "log_pos": header.log_pos,
        "flags": header.flags,
        "crc32": None if event.checksum is None else f"{event.checksum:08x}",
        "event": _facts(event, value),
    }


def _moment(micros: int | None) -> str | None:
    """Return microseconds since 1970 as RFC 3339; None for 0, which stands for no time."""
    return utc_text(_EPOCH + timedelta(microseconds=micros)) if micros else None


def _bytes_text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return "0x" + raw.hex()


def _facts(event: RawEvent, value: Any) -> dict[str, Any]:
    match value:
        case FormatDescription():
            checksum = None if value.checksum_alg is None else ("CRC32" if value.checksum else "NONE")
            return {
                "server_version": value.server_version,
                "created": _moment(value.created * 1_000_000),
                "checksum": checksum,
            }
        case Query():
            status = {code.name: _status_value(item) for code, item in value.status_vars.items()}
            schema, query = _bytes_text(value.schema), _bytes_text(value.query)
            return {"thread_id": value.thread_id, "schema": schema, "query": query, "status_vars": status}
        case Gtid() | GtidTagged():
            keys: tuple[str, ...] = ("last_committed", "sequence_number", "transaction_length")
            keys += ("original_server_version", "immediate_server_version")
            times = ("original_commit_timestamp", "immediate_commit_timestamp")
            return {
                "gtid": value.text,
                "gtid_flags": value.flags,
                **{key: getattr(value, key) for key in keys},
                **{key: _moment(getattr(value, key)) for key in times},
            }
        case PreviousGtids():
            return {"gtid_set": str(value.gtids)}
        case TableMap():
            columns = [
                {"name": name, "type": type_name(kind), "meta": meta, "nullable": value.nullable(i)}
                for i, (name, kind, meta) in enumerate(
                    zip(column_names(value), value.real_types(), value.metas, strict=True)
                )
            ]
            return {"table_id": value.table_id, "schema": value.schema, "table": value.table, "columns": columns}
        case RowsEvent():
            return {"table_id": value.table_id, "flags": [flag.name for flag in RowsFlag if value.flags & flag]}
        case XaPrepare():
            return {"xid": xid_text(value), "one_phase": value.one_phase}
        case RowsQuery():
            return {"query": _bytes_text(value.query)}
        case Rotate():
            return {"next_file": _bytes_text(value.next_file), "position": value.position}
        case TransactionPayload():
            sizes = {"payload_size": len(value.payload), "uncompressed_size": value.uncompressed_size}
            return {"compression": value.compression, **sizes}
        case UserVar():
            user = value.value()
            plain = None if user is None else _bytes_text(user) if isinstance(user, bytes) else str(user)
            return {
                "name": _bytes_text(value.name),
                "type": value.kind.name,
                "collation": value.collation,
                "value": plain,
            }
        case LoadBlock():
            return {"file_id": value.file_id, "block": _bytes_text(value.block)}
        case ExecuteLoadQuery():
            return {**_facts(event, value.query), "file_id": value.file_id, "duplicates": _DUPLICATES[value.duplicates]}
        case MariadbGtid():
            return {
                "gtid": value.text(event.header.server_id),
                "gtid_flags": value.flags,
                "more_flags": value.more,
                "commit_id": value.commit_id,
                "xid": None if value.xid is None else value.xid.sql,
            }
        case GtidList():
            return {"gtids": ["-".join(map(str, each)) for each in value.domains]}
        case Opaque():
            return {"bytes": len(value.body), "ignorable": is_ignorable(event.header)}
        case Stop():
            return {}
    fields = {name: getattr(value, name) for name in value.__dataclass_fields__}
    return {name: _bytes_text(item) if isinstance(item, bytes) else item for name, item in fields.items()}


def _status_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return _bytes_text(value)
    return [_status_value(item) for item in value] if isinstance(value, tuple) else value


def rows_record(event: RowsEvent, table_map: TableMap | None) -> list[dict[str, Any]] | None:
    """Return the rows of an event by column name; None if its table map is before the start position."""
    if table_map is None:
        return None
    columns = Columns(table_map)
    return [_row_record(columns, row) for row in iter_rows(event, table_map)]


def _row_record(columns: Columns, row: Row) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for word, image in zip(("before", "after"), row, strict=True):
        if image is not None:
            cells = ((i, cell) for i, cell in enumerate(image) if cell is not ABSENT)
            record[word] = {columns.names[i]: _plain(columns, i, cell) for i, cell in cells}
    return record


def _plain(columns: Columns, i: int, cell: Any) -> Any:
    """Return a cell as a JSON value: ENUM and SET by their text if known, JSON as a document."""
    if cell is None:
        return None
    if isinstance(cell, PartialJson):
        return {"json_diff": [_diff_record(diff) for diff in diffs_of(cell)]}
    value, kind = columns.value(i, cell), columns.kinds[i]
    members = columns.members[i]
    if kind in (T.ENUM, T.SET) and members is not None:
        texts = [text_or_bytes(columns.charsets[i], member) for member in members]
        return member_text(kind, value, [t if isinstance(t, str) else t.decode("latin-1") for t in texts])
    if kind == T.JSON:
        return _json_value(value)
    if isinstance(value, date | timedelta):
        return temporal_as_text(value, columns.fsp(i))
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return "0x" + value.hex() if isinstance(value, bytes) else value


def _diff_record(diff: JsonDiff) -> dict[str, Any]:
    record: dict[str, Any] = {"operation": diff.operation.name, "path": diff.path}
    return (
        record if diff.operation == JsonOperation.REMOVE else {**record, "value": _json_value(decode_json(diff.data))}
    )


def _json_value(value: Any) -> Any:
    """Return a document as plain JSON values: values without a JSON type become text."""
    if isinstance(value, dict):
        return {key: _json_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_json_value(item) for item in value]
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return (
        format(value, "f")
        if isinstance(value, Decimal)
        else str(value)
        if isinstance(value, float)
        else plain_text(value)
    )
