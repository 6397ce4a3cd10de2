"""Undoing, or doing again, as a binlog file: `mysqlbinlog FILE | mysql` applies it, byte for byte, without triggers.

    FORMAT_DESCRIPTION   PREVIOUS_GTIDS?   ( GTID?   BEGIN   ( TABLE_MAP   ROWS )*   XID )*

With GTID events it is for servers with gtid_mode=ON, without them for others. Every event has a checksum.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Final

from binlog_merge.ask.rows import transactions_of
from binlog_merge.binlog.constants import BINLOG_MAGIC, EventFlag, EventType
from binlog_merge.binlog.control import Xid
from binlog_merge.binlog.gtid import Gtid
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog.header import RawEvent, pack_event
from binlog_merge.binlog.kernels import log_index as x
from binlog_merge.binlog.query import Query
from binlog_merge.binlog.wire import pack_packed
from binlog_merge.log.segments import Segment
from binlog_merge.undo.blocks import blocks, by_transaction
from binlog_merge.undo.inverse_events import forward_events, inverse_events
from binlog_merge.undo.selection import Chosen, Reader

_TABLE_MAP: Final = int(EventType.TABLE_MAP_EVENT)
_BEGIN: Final = Query(0, 0, 0, b"", b"BEGIN").pack()
_GTID_SIZE: Final = len(Gtid(0, bytes(16), 0, 0, 0, 0, 0, 0, 0, 0).pack()) - 1
"""The length of a GTID event's body without that of the transaction in it."""

Body = tuple[int, bytes]
"""An event's type and body."""
Transaction = tuple[int, int, list[Body]]
"""A transaction's rank, its time in µs since 1970, and the events of its rows."""


@dataclass
class Binlog:
    """Writes events one after the other; `sid` is the UUID of GTIDs to give, None for none."""

    description: RawEvent
    sid: bytes | None = None
    position: int = len(BINLOG_MAGIC)
    transactions: int = 0
    rows: int = 0

    def head(self) -> bytes:
        """Return the beginning of the file."""
        header = self.description.header
        data = BINLOG_MAGIC + self._event(EventType.FORMAT_DESCRIPTION_EVENT, bytes(self.description.body), 0, 0)
        if self.sid is not None:
            nothing = GtidSet().pack()
            flag = EventFlag.LOG_EVENT_IGNORABLE_F
            data += self._event(EventType.PREVIOUS_GTIDS_LOG_EVENT, nothing, header.timestamp, flag)
        return data

    def transaction(self, rows: Sequence[Body], micros: int) -> bytes:
        """Return the events of a transaction that committed at a time, in µs since 1970."""
        self.transactions += 1
        seconds = micros // 1_000_000
        xid = Xid(self.transactions).pack()
        data = []
        if self.sid is not None:
            bodies = len(_BEGIN) + len(xid) + sum(len(body) for _, body in rows)
            data.append(self._gtid(self.sid, bodies + 23 * (2 + len(rows)), micros))
        data.append(self._event(EventType.QUERY_EVENT, _BEGIN, seconds, EventFlag.LOG_EVENT_SUPPRESS_USE_F))
        data += [self._event(kind, body, seconds, 0) for kind, body in rows]
        data.append(self._event(EventType.XID_EVENT, xid, seconds, 0))
        return b"".join(data)

    def _gtid(self, sid: bytes, rest: int, micros: int) -> bytes:
        number, width, length = self.transactions, 0, rest
        while (needed := len(pack_packed(length))) > width:  # the length of a transaction counts its own digits
            width, length = needed, rest + 23 + _GTID_SIZE + needed
        body = Gtid(0, sid, number, number - 1, number, micros, micros, length, 80_000, 80_000).pack()
        return self._event(EventType.GTID_LOG_EVENT, body, micros // 1_000_000, 0)

    def _event(self, kind: int, body: bytes, timestamp: int, flags: int) -> bytes:
        server_id = self.description.header.server_id
        data = pack_event(
            kind, body, timestamp=timestamp, server_id=server_id, flags=flags, position=self.position, checksum=True
        )
        self.position += len(data)
        return data


@dataclass(frozen=True, slots=True)
class RowsWriter:
    """Makes rows events of rows: those that undo them, or `do_again`."""

    do_again: bool

    def block(self, segment: Segment, chosen: list[Chosen], backwards: bool) -> tuple[list[Transaction], int]:
        """Return the transactions of a segment, and how many rows they have."""
        make = forward_events if self.do_again else inverse_events
        entries = [make(each) for each in chosen]
        facts = transactions_of(segment)[:, [x.X_RANK, x.X_COMMIT_US]].tolist()
        made: list[Transaction] = []
        for number, of in by_transaction(segment, entries, backwards):
            bodies = [body for each in of for body in ((_TABLE_MAP, each.table), (each.kind, each.rows))]
            rank, micros = facts[number]
            made.append((rank, micros, bodies))
        return made, sum(each.number for _, _, of in entries for each in of)


def binlog(reader: Reader, out: Binlog, do_again: bool = False) -> Iterator[bytes]:
    """Yield the bytes of the file. Raises what reading the rows does, before the first byte unless `do_again`."""

    def found() -> Iterator[Transaction]:
        for transactions, rows in blocks(reader, RowsWriter(do_again), backwards=not do_again):
            out.rows += rows
            yield from transactions

    begun = False
    for _, group in groupby(found(), key=itemgetter(0)):
        of = list(group)
        if not begun:
            yield out.head()
            begun = True
        yield out.transaction([body for _, _, bodies in of for body in bodies], of[0][1])
