"""Events as values: a frozen class per type, with parse and pack, and the table from type to class.

This module exports everything public about events: framing from `header`, the classes from `control`, `query`, `gtid`,
`table_map`, `rows` and `payload`. An event of a type without a class is an `Opaque`; `is_ignorable` returns whether it
may be skipped.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self

from binlog_merge.binlog.constants import KNOWN_POST_HEADER_LENS, ROWS_TYPES, EventType
from binlog_merge.binlog.control import (
    FormatDescription,
    Gcn,
    Heartbeat,
    HeartbeatV2,
    Incident,
    Intvar,
    PreviousGtids,
    Rand,
    Rotate,
    RowsQuery,
    Sequence,
    Stop,
    XaPrepare,
    Xid,
)
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid import Gtid, GtidTagged
from binlog_merge.binlog.header import EventHeader, RawEvent, check_magic, frame, is_ignorable, pack_event, walk
from binlog_merge.binlog.mariadb import COMPRESSED, GtidList, MariadbGtid, uncompressed
from binlog_merge.binlog.payload import TransactionPayload
from binlog_merge.binlog.query import (
    DeleteFile,
    ExecuteLoadQuery,
    LoadBlock,
    Query,
    StatusVar,
    UserVar,
    parse_status_vars,
)
from binlog_merge.binlog.rows import RowsEvent
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.binlog.wire import Buffer

__all__ = [
    "DeleteFile",
    "Event",
    "EventHeader",
    "ExecuteLoadQuery",
    "FormatDescription",
    "Gcn",
    "Gtid",
    "GtidList",
    "GtidTagged",
    "Heartbeat",
    "HeartbeatV2",
    "Incident",
    "Intvar",
    "LoadBlock",
    "MariadbGtid",
    "Opaque",
    "PreviousGtids",
    "Query",
    "Rand",
    "RawEvent",
    "Rotate",
    "RowsEvent",
    "RowsQuery",
    "Sequence",
    "StatusVar",
    "Stop",
    "TableMap",
    "TransactionPayload",
    "UserVar",
    "XaPrepare",
    "Xid",
    "check_magic",
    "event_name",
    "frame",
    "is_ignorable",
    "is_known",
    "pack_event",
    "parse_event",
    "parse_status_vars",
    "walk",
]


class Event(Protocol):
    """Any event class: `pack` returns the body that was parsed."""

    def pack(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Opaque:
    """The body of an event that is passed through without being parsed."""

    body: bytes

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        return cls(bytes(body))

    def pack(self) -> bytes:
        return self.body


def _compressed(type_code: int) -> Callable[[Buffer], Any]:
    def parse(body: Buffer) -> Any:
        kind, whole = uncompressed(type_code, body)
        return PARSE[kind](whole)

    return parse


def _rows(type_code: int) -> Callable[[Buffer], RowsEvent]:
    return lambda body: RowsEvent.parse(type_code, body)


PARSE: Final[dict[int, Callable[[Buffer], Any]]] = {
    EventType.QUERY_EVENT: Query.parse,
    EventType.STOP_EVENT: Stop.parse,
    EventType.ROTATE_EVENT: Rotate.parse,
    EventType.INTVAR_EVENT: Intvar.parse,
    EventType.RAND_EVENT: Rand.parse,
    EventType.USER_VAR_EVENT: UserVar.parse,
    EventType.FORMAT_DESCRIPTION_EVENT: FormatDescription.parse,
    EventType.XID_EVENT: Xid.parse,
    EventType.TABLE_MAP_EVENT: TableMap.parse,
    EventType.BEGIN_LOAD_QUERY_EVENT: LoadBlock.parse,
    EventType.APPEND_BLOCK_EVENT: LoadBlock.parse,
    EventType.DELETE_FILE_EVENT: DeleteFile.parse,
    EventType.EXECUTE_LOAD_QUERY_EVENT: ExecuteLoadQuery.parse,
    EventType.INCIDENT_EVENT: Incident.parse,
    EventType.HEARTBEAT_LOG_EVENT: Heartbeat.parse,
    EventType.ROWS_QUERY_LOG_EVENT: RowsQuery.parse,
    EventType.GTID_LOG_EVENT: Gtid.parse,
    EventType.ANONYMOUS_GTID_LOG_EVENT: Gtid.parse,
    EventType.PREVIOUS_GTIDS_LOG_EVENT: PreviousGtids.parse,
    EventType.XA_PREPARE_LOG_EVENT: XaPrepare.parse,
    EventType.TRANSACTION_PAYLOAD_EVENT: TransactionPayload.parse,
    EventType.HEARTBEAT_LOG_EVENT_V2: HeartbeatV2.parse,
    EventType.GTID_TAGGED_LOG_EVENT: GtidTagged.parse,
    EventType.SEQUENCE_EVENT: Sequence.parse,
    EventType.GCN_EVENT: Gcn.parse,
    EventType.MARIADB_GTID_EVENT: MariadbGtid.parse,
    EventType.MARIADB_GTID_LIST_EVENT: GtidList.parse,
    **{kind: _rows(kind) for kind in ROWS_TYPES},
    **{kind: _compressed(kind) for kind in COMPRESSED},
}
"""The parser (body -> value) of each event type that is parsed. All other types become `Opaque`."""

_KNOWN: Final = frozenset(EventType) - {EventType.UNKNOWN_EVENT}


def event_name(type_code: int) -> str:
    """Return MySQL's name of an event type, or `UNKNOWN_EVENT(n)`."""
    try:
        return EventType(type_code).name
    except ValueError:
        return f"UNKNOWN_EVENT({type_code})"


def is_known(type_code: int) -> bool:
    """Return whether a server of the supported families writes events of this type."""
    return type_code in _KNOWN


def parse_event(event: RawEvent, fde: FormatDescription | None = None) -> Any:
    """Return the event as a value of its class; `Opaque` for types without one.

    With the file's `fde`, its post-header length for the type must be the one the parser is written for. Errors carry
    the event's offset.
    """
    code = event.type_code
    parse = PARSE.get(code)
    if parse is None:
        return Opaque.parse(event.body)
    try:
        expected = KNOWN_POST_HEADER_LENS.get(code)
        if fde is not None and expected is not None:
            announced = fde.post_header_len(code)
            # MySQL 8.4 and later announce 0 for the V1 rows events that they no longer write.
            if announced is not None and announced not in (0, expected):
                raise BinlogFormatError(
                    f"{event_name(code)}: post-header of {announced} bytes, only {expected} is read"
                )
        if code == EventType.TABLE_MAP_EVENT and fde is not None and fde.is_mariadb:
            return TableMap.parse(event.body, mariadb=True)
        return parse(event.body)
    except BinlogFormatError as error:
        raise error.at("", event.offset) from None
