"""SHOW BINLOG EVENTS: a file's events as MySQL shows them, for people and for connectors that read the first event."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from binlog_merge.binlog.constants import BINLOG_MAGIC, EventType, RowsFlag
from binlog_merge.binlog.events import (
    FormatDescription,
    Gtid,
    PreviousGtids,
    Query,
    Rotate,
    RowsEvent,
    RowsQuery,
    TableMap,
    Xid,
    parse_event,
)
from binlog_merge.binlog.header import frame
from binlog_merge.binlog_server.log import DumpRequest, PublishedLog
from binlog_merge.binlog_server.statements import ShowEvents
from binlog_merge.binlog_server.stream import Events, Opened, stream
from binlog_merge.protocol.packets import Value
from snapshot_store.mysql.sql.names import quote_name

_NAMES: Final[dict[int, str]] = {
    EventType.FORMAT_DESCRIPTION_EVENT: "Format_desc",
    EventType.PREVIOUS_GTIDS_LOG_EVENT: "Previous_gtids",
    EventType.GTID_LOG_EVENT: "Gtid",
    EventType.ANONYMOUS_GTID_LOG_EVENT: "Anonymous_Gtid",
    EventType.QUERY_EVENT: "Query",
    EventType.ROWS_QUERY_LOG_EVENT: "Rows_query",
    EventType.TABLE_MAP_EVENT: "Table_map",
    EventType.WRITE_ROWS_EVENT: "Write_rows",
    EventType.UPDATE_ROWS_EVENT: "Update_rows",
    EventType.DELETE_ROWS_EVENT: "Delete_rows",
    EventType.WRITE_ROWS_EVENT_V1: "Write_rows_v1",
    EventType.UPDATE_ROWS_EVENT_V1: "Update_rows_v1",
    EventType.DELETE_ROWS_EVENT_V1: "Delete_rows_v1",
    EventType.PARTIAL_UPDATE_ROWS_EVENT: "Update_rows_partial",
    EventType.XID_EVENT: "Xid",
    EventType.ROTATE_EVENT: "Rotate",
    EventType.STOP_EVENT: "Stop",
}


def event_rows(log: PublishedLog, show: ShowEvents) -> Iterator[Sequence[Value]]:
    """Yield the rows of a file's events. Raises NotServed for a file or a position that does not exist."""
    rows = _rows(log, DumpRequest(show.file, show.position))
    return islice(rows, show.skip, None if show.limit is None else show.skip + show.limit)


def _rows(log: PublishedLog, start: DumpRequest) -> Iterator[Sequence[Value]]:
    opened = False
    for item in stream(log, start):
        if isinstance(item, Opened) and not opened:
            opened = True
        elif not isinstance(item, Events):
            return
        elif start.position == len(BINLOG_MAGIC) or item.end > start.position:
            at = item.end - len(item.data)
            for data in item.each():
                yield _row(item.file, at, data)
                at += len(data)


def _row(file: str, at: int, data: memoryview) -> Sequence[Value]:
    event = frame(data, 0, file=file, offset=at, verify=False)
    name = _NAMES.get(event.type_code, f"Event {event.type_code}")
    return file, at, name, event.header.server_id, event.end, _info(parse_event(event))


def _info(value: Any) -> str:
    match value:
        case FormatDescription():
            return f"Server ver: {value.server_version}, Binlog ver: {value.binlog_version}"
        case PreviousGtids():
            return str(value.gtids)
        case Gtid():
            return f"SET @@SESSION.GTID_NEXT= '{value.text}'"
        case Query():
            plain = not value.schema or value.query in (b"BEGIN", b"COMMIT")
            return value.text if plain else f"use {quote_name(value.schema_text)}; {value.text}"
        case RowsQuery():
            return value.text
        case TableMap():
            return f"table_id: {value.table_id} ({value.schema}.{value.table})"
        case RowsEvent():
            return f"table_id: {value.table_id}" + (" flags: STMT_END_F" if value.flags & RowsFlag.STMT_END_F else "")
        case Xid():
            return f"COMMIT /* xid={value.xid} */"
        case Rotate():
            return f"{value.next_file.decode('utf-8', 'surrogateescape')};pos={value.position}"
        case _:
            return ""
