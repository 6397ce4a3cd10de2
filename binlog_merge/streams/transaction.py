"""Cuts the events of a file of a merged log into transactions, and packs a stream's transactions into events."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from struct import Struct
from typing import Final
from zlib import crc32

from binlog_merge.binlog.constants import (
    CHECKSUM_LEN,
    EVENT_HEADER_LEN,
    MAX_EVENT_SIZE,
    ROWS_TYPES,
    EventType,
    RowsFlag,
)
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.events import Query, RowsQuery, TableMap
from binlog_merge.binlog.gtid import Gtid
from binlog_merge.binlog.header import RawEvent, pack_event
from binlog_merge.binlog.rows import RowsEvent
from binlog_merge.log.reader import order_key
from binlog_merge.log.statement import Statement
from snapshot_store.tso import OrderKey

_MOST_MAPS: Final = 1000
_GTIDS: Final = (EventType.GTID_LOG_EVENT, EventType.ANONYMOUS_GTID_LOG_EVENT)
_HEADER: Final = Struct("<IBIIIH")
_FLAGS: Final = 6
"""Of a rows event, behind the table id."""
_OVERHEAD: Final = EVENT_HEADER_LEN + CHECKSUM_LEN


@dataclass(frozen=True, slots=True)
class Piece:
    """An event of a transaction, without what depends on its position. `value`: a table map, parsed."""

    type_code: int
    timestamp: int
    server_id: int
    flags: int
    body: memoryview | bytes
    value: TableMap | None = None

    @property
    def is_rows(self) -> bool:
        return self.type_code in ROWS_TYPES

    @property
    def table_id(self) -> int:
        """Return the table id of a rows event."""
        return int.from_bytes(self.body[:6], "little")

    @property
    def ends_statement(self) -> bool:
        """Return whether a rows event is the last of its statement."""
        return bool(self.body[_FLAGS] & RowsFlag.STMT_END_F)

    def ending(self, ends: bool) -> "Piece":
        """Return a rows event that is the last of its statement, or is not."""
        if self.ends_statement == ends:
            return self
        body = bytearray(self.body)
        body[_FLAGS] ^= RowsFlag.STMT_END_F
        return replace(self, body=bytes(body))

    def rows(self) -> RowsEvent:
        """Return the parsed rows event."""
        return RowsEvent.parse(self.type_code, self.body)

    def with_rows(self, event: RowsEvent) -> "Piece":
        """Return the piece with other rows."""
        return replace(self, type_code=event.type_code, body=event.pack())


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction: its GTID event as a piece and parsed, the events behind it, and where it stood in the log.

    `statement` is that of a DDL; then `pieces` has it alone.
    """

    head: Piece
    gtid: Gtid
    pieces: tuple[Piece, ...]
    key: OrderKey | None
    statement: Statement | None
    file: str
    position: int


class TransactionReader:
    """Cuts a file's events into transactions. `end` is the position after the last whole one, or control event."""

    def __init__(self, file: str, end: int) -> None:
        self.file = file
        self.end = end
        self._maps: dict[bytes, TableMap] = {}
        self._open: list[RawEvent] = []

    def take(self, event: RawEvent) -> Transaction | None:
        """Take the next event behind the file's head; return the transaction that it ends."""
        if not self._open:
            if event.type_code not in _GTIDS:
                raise BinlogFormatError(f"event type {event.type_code} outside of a transaction", offset=event.offset)
            self._open.append(event)
            return None
        self._open.append(event)
        if not self._ends(event):
            return None
        events, self._open = self._open, []
        self.end = event.end
        return self._made(events)

    def _ends(self, event: RawEvent) -> bool:
        if event.type_code != EventType.QUERY_EVENT:
            return event.type_code == EventType.XID_EVENT
        text = Query.parse(event.body).query
        return text == b"COMMIT" or (len(self._open) == 2 and text != b"BEGIN")

    def _made(self, events: Sequence[RawEvent]) -> Transaction:
        first, *rest = events
        pieces = tuple(map(self._piece, rest))
        statement = Statement.of(rest[0], Query.parse(rest[0].body)) if len(rest) == 1 else None
        key = next(
            (order_key(RowsQuery.parse(p.body)) for p in pieces if p.type_code == EventType.ROWS_QUERY_LOG_EVENT), None
        )
        gtid = Gtid.parse(first.body)
        return Transaction(self._piece(first), gtid, pieces, key, statement, self.file, first.offset)

    def _piece(self, event: RawEvent) -> Piece:
        value: TableMap | None = None
        if event.type_code == EventType.TABLE_MAP_EVENT:
            body = bytes(event.body)
            value = self._maps.get(body)
            if value is None:
                if len(self._maps) >= _MOST_MAPS:
                    self._maps.clear()
                value = self._maps[body] = TableMap.parse(body)
        head = event.header
        return Piece(head.type_code, head.timestamp, head.server_id, head.flags, event.body, value)


def packed(transaction: Transaction, sid: bytes, rank: int, sequence: int, position: int) -> Iterator[bytes]:
    """Yield a transaction's events as they stand at a position of a stream's file.

    `rank` counts the stream's transactions, `sequence` those of the file. Each depends on the one before.
    """
    length = sum(len(piece.body) + _OVERHEAD for piece in transaction.pieces)
    gtid = replace(
        transaction.gtid,
        sid=sid if transaction.gtid.gno else transaction.gtid.sid,
        gno=rank if transaction.gtid.gno else 0,
        last_committed=sequence - 1,
        sequence_number=sequence,
        transaction_length=length + len(transaction.head.body) + _OVERHEAD,
    )
    # The length of the transaction counts the event that holds it.
    while (whole := length + len(body := gtid.pack()) + _OVERHEAD) != gtid.transaction_length:
        gtid = replace(gtid, transaction_length=whole)
    for piece in (replace(transaction.head, body=body), *transaction.pieces):
        # `pack_event` for what is not at the beginning of a file, without what that needs: events are many.
        size = len(piece.body) + _OVERHEAD
        if size > MAX_EVENT_SIZE:
            raise BinlogFormatError(f"event of {size} bytes is larger than {MAX_EVENT_SIZE}")
        position += size
        head = _HEADER.pack(piece.timestamp, piece.type_code, piece.server_id, size, position & 0xFFFFFFFF, piece.flags)
        yield b"".join((head, piece.body, crc32(piece.body, crc32(head)).to_bytes(CHECKSUM_LEN, "little")))


def pack_piece(piece: Piece, position: int) -> bytes:
    """Return the event at a position of a file."""
    return pack_event(
        piece.type_code,
        piece.body,
        timestamp=piece.timestamp,
        server_id=piece.server_id,
        flags=piece.flags,
        position=position,
    )
