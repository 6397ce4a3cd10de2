r"""Finds the group of events at a position of a node's file, and puts other rows in the place of its own.

GCN or SEQUENCE | GTID | BEGIN | rows, or a statement with its context … | XID or COMMIT
\____ stays as it is _____/\_ stays _/\_____ the given events _________/\_ stays _/      in a payload event

"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from binlog_merge.binlog.constants import EVENT_HEADER_LEN, ROWS_TYPES, EventType
from binlog_merge.binlog.gtid import Gtid, GtidTagged
from binlog_merge.binlog.header import EventHeader, RawEvent, fde_checksum, frame, pack_event, walk
from binlog_merge.binlog.payload import TransactionPayload
from binlog_merge.binlog.query import Query
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.files.head import file_identity
from binlog_merge.files.source import Source, WithHole, open_source
from binlog_merge.pipeline.base.logged import text_of

_GTIDS: Final = (EventType.GTID_LOG_EVENT, EventType.ANONYMOUS_GTID_LOG_EVENT, EventType.GTID_TAGGED_LOG_EVENT)
_CARRIERS: Final = (EventType.GCN_EVENT, EventType.SEQUENCE_EVENT)
_LASTS: Final = (
    *(EventType.XID_EVENT, EventType.QUERY_EVENT, EventType.XA_PREPARE_LOG_EVENT),
    EventType.TRANSACTION_PAYLOAD_EVENT,
)
_BETWEEN: Final = (EventType.FORMAT_DESCRIPTION_EVENT, EventType.ROTATE_EVENT, EventType.STOP_EVENT)
_FRAME: Final = re.compile(r"BEGIN|COMMIT|XA (START|END)\b.*", re.IGNORECASE | re.DOTALL)
_BUFFER: Final = 1 << 20

Event = tuple[int, bytes]
"""The type and the body of an event."""


@dataclass(frozen=True, slots=True)
class Group:
    """The group of events at [start, end) of a file.

    `gtid` is None if it has none. `table_map`, and the flags of a rows event, are the last before it in its file, None
    if there are none.
    """

    file: str
    identity: str
    start: int
    end: int
    data: bytes
    checksum: bool
    gtid: str | None
    server_version: str
    table_map: TableMap | None
    rows_flags: int | None


class NoTransaction(Exception):  # noqa: N818 (it says what was found)
    """A group is no transaction whose rows could be others."""


def group_at(path: str, position: int) -> Group | None:
    """Return the group of which an event stands at a position, None if there is none or it is not whole.

    The file's events are walked from its beginning. Raises IoError and BinlogFormatError.
    """
    with open_source(path) as source:
        walked = _Walk(source)
        for place in walked.groups():
            if place[0] <= position < place[1]:
                return walked.group(path, *place)
    return None


class _Walk:
    """Walks the headers of a file's events."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.checksum, self.version, self.map_at, self.rows_at = False, "", 0, 0
        self._base, self._data = 0, memoryview(b"")
        self._hole = source.hole if isinstance(source, WithHole) else None

    def groups(self) -> Iterator[tuple[int, int]]:
        """Yield (start, end) of each group; `map_at` and `rows_at` are then where the last table map and rows event
        before it begin.
        """
        start, end, carrier, maps, rows, before = -1, -1, -1, 0, 0, (0, 0)
        for at, header in self._headers():
            kind = header.type_code
            begins = kind in _GTIDS
            if (begins or kind in _BETWEEN) and 0 <= start < end:
                self.map_at, self.rows_at = before
                yield start, end
                start = end = -1
            if begins:
                start, end, before = (at if carrier < 0 else carrier), -1, (maps, rows)
            elif kind in _LASTS:
                end = at + header.event_size
            elif kind == EventType.TABLE_MAP_EVENT:
                maps = at
            elif kind in ROWS_TYPES:
                rows = at
            carrier = (at if carrier < 0 else carrier) if kind in _CARRIERS else -1
        if 0 <= start < end:
            self.map_at, self.rows_at = before
            yield start, end

    def group(self, path: str, start: int, end: int) -> Group:
        data = bytes(self._read(start, end - start))
        return Group(
            PurePath(path).name,
            file_identity(self.source) or "",
            start,
            end,
            data,
            self.checksum,
            _gtid_of(walk(data, offset=start, checksum=self.checksum)),
            self.version,
            self._table_map(),
            self._rows_flags(),
        )

    def _headers(self) -> Iterator[tuple[int, EventHeader]]:
        at = 4
        hole = self._hole
        while at + EVENT_HEADER_LEN <= self.source.size:
            if hole is not None and at == hole.begin:
                at = hole.end
                continue
            header = EventHeader.parse(self._read(at, EVENT_HEADER_LEN))
            if header.event_size < EVENT_HEADER_LEN or at + header.event_size > self.source.size:
                return
            if header.type_code == EventType.FORMAT_DESCRIPTION_EVENT:
                event = frame(self._read(at, header.event_size), 0, offset=at, verify=False)
                self.checksum = bool(fde_checksum(event.body))
                self.version = bytes(event.body[2:52]).split(b"\0")[0].decode("latin-1")
            yield at, header
            at += header.event_size

    def _table_map(self) -> TableMap | None:
        if not self.map_at:
            return None
        size = EventHeader.parse(self._read(self.map_at, EVENT_HEADER_LEN)).event_size
        event = frame(self._read(self.map_at, size), 0, offset=self.map_at, checksum=self.checksum)
        return TableMap.parse(event.body)

    def _rows_flags(self) -> int | None:
        at = self.rows_at + EVENT_HEADER_LEN + 6
        return int.from_bytes(self._read(at, 2), "little") if self.rows_at else None

    def _read(self, at: int, size: int) -> memoryview:
        if not self._base <= at or at + size > self._base + len(self._data):
            ahead = self.source.size if self._hole is None or at >= self._hole.end else self._hole.begin
            buffer = bytearray(max(size, min(_BUFFER, ahead - at)))
            got = self.source.read_into(memoryview(buffer), at)
            self._base, self._data = at, memoryview(bytes(buffer[:got]))
        return self._data[at - self._base : at - self._base + size]


def _gtid_of(events: Iterator[RawEvent]) -> str | None:
    event = next(event for event in events if event.type_code in _GTIDS)
    gtid = (GtidTagged if event.type_code == EventType.GTID_TAGGED_LOG_EVENT else Gtid).parse(event.body)
    return text_of((gtid.sid, gtid.tag, gtid.gno)) if gtid.gno else None


def with_rows(group: Group, given: Callable[[], Sequence[Event]]) -> bytes:
    """Return what is read in place of a group (`files.node_file.Instead`): it has the given events instead of its own.

    Raises NoTransaction if it is none, before the events are made.
    """
    events = list(transaction_events(group.data, group.checksum))
    at = next(i for i, event in enumerate(events) if event.type_code in _GTIDS) + 1
    head, rest = events[:at], events[at:]
    kept = [event for event in rest if _stays(event)]
    if not kept or kept[0] is not rest[0] or kept[-1] is not rest[-1] or kept[0].type_code != EventType.QUERY_EVENT:
        text = Query.parse(rest[0].body).text if rest and rest[0].type_code == EventType.QUERY_EVENT else ""
        raise NoTransaction(f"it changes no rows of its own: {text[:200]!r}" if text else "it changes no rows")
    first = rest[1] if len(rest) > 1 else rest[0]
    stamp = {"timestamp": first.header.timestamp, "server_id": first.header.server_id}
    made = b"".join(pack_event(kind, body, **stamp, position=0, checksum=False) for kind, body in given())
    frames = [pack_event(e.type_code, e.body, **_stamp(e), position=0, checksum=False) for e in kept]
    payload = TransactionPayload.compress(frames[0] + made + b"".join(frames[1:])).pack()
    begins = b"".join(event.pack() for event in head)
    kind = EventType.TRANSACTION_PAYLOAD_EVENT
    return begins + pack_event(kind, payload, **stamp, position=group.start + len(begins), checksum=group.checksum)


def _stamp(event: RawEvent) -> dict[str, int]:
    return {"timestamp": event.header.timestamp, "server_id": event.header.server_id, "flags": event.header.flags}


def _stays(event: RawEvent) -> bool:
    """Return whether an event frames a transaction, or carries its commit TSO."""
    if event.type_code == EventType.QUERY_EVENT:
        return _FRAME.fullmatch(Query.parse(event.body).text.strip()) is not None
    return event.type_code in (EventType.XID_EVENT, EventType.XA_PREPARE_LOG_EVENT, *_CARRIERS)


def transaction_events(data: bytes, checksum: bool) -> Iterator[RawEvent]:
    """Yield the events of one group, those of a TRANSACTION_PAYLOAD_EVENT unpacked."""
    for event in walk(data, checksum=checksum, offset=4):
        if event.type_code == EventType.TRANSACTION_PAYLOAD_EVENT:
            yield from TransactionPayload.parse(event.body).events()
        else:
            yield event
