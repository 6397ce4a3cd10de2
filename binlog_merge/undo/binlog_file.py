"""Undoing, or doing again, as a binlog file: `mysqlbinlog FILE | mysql` applies it, byte for byte, without triggers.

    FORMAT_DESCRIPTION   PREVIOUS_GTIDS?   ( GTID?   BEGIN   ( TABLE_MAP   ROWS )*   XID )*

With GTID events it is for servers with gtid_mode=ON, without them for others. Every event has a checksum.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from binlog_merge.binlog.constants import BINLOG_MAGIC, EventFlag, EventType
from binlog_merge.binlog.control import Xid
from binlog_merge.binlog.gtid import Gtid
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog.header import RawEvent, pack_event
from binlog_merge.binlog.kernels import log_walk as k
from binlog_merge.binlog.query import Query
from binlog_merge.log.segments import Segment
from binlog_merge.undo.blocks import Entry, Part, parts
from binlog_merge.undo.inverse_events import MappedRows, forward_events, inverse_events
from binlog_merge.undo.selection import Chosen, Reader

_BEGIN: Final = Query(0, 0, 0, b"", b"BEGIN").pack()


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

    def transaction(self, rows: list[MappedRows], micros: int) -> bytes:
        """Return the events of a transaction that committed at a time, in µs since 1970."""
        self.transactions += 1
        self.rows += sum(each.count for each in rows)
        seconds = micros // 1_000_000
        bodies = [(EventType.QUERY_EVENT, _BEGIN, EventFlag.LOG_EVENT_SUPPRESS_USE_F)]
        for each in rows:
            bodies += [(EventType.TABLE_MAP_EVENT, each.table, 0), (each.kind, each.rows, 0)]  # type: ignore[list-item]
        bodies.append((EventType.XID_EVENT, Xid(self.transactions).pack(), 0))  # type: ignore[arg-type]
        data = b"" if self.sid is None else self._gtid(self.sid, sum(23 + len(body) for _, body, _ in bodies), micros)
        return data + b"".join(self._event(kind, body, seconds, flags) for kind, body, flags in bodies)

    def _gtid(self, sid: bytes, rest: int, micros: int) -> bytes:
        number = self.transactions
        gtid = Gtid(0, sid, number, number - 1, number, micros, micros, rest, 80_000, 80_000)
        length = 0
        while gtid.transaction_length != length:  # the length of a transaction counts its own digits
            length = rest + 23 + len(gtid.pack())
            gtid = replace(gtid, transaction_length=length)
            length = rest + 23 + len(gtid.pack())
        return self._event(EventType.GTID_LOG_EVENT, gtid.pack(), micros // 1_000_000, 0)

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

    def rows(self, segment: Segment, chosen: Chosen) -> list[Entry[MappedRows]]:
        """Return an event for each event that has chosen rows."""
        made = forward_events(chosen) if self.do_again else inverse_events(chosen)
        return [(int(segment.events[event, k.E_TRANSACTION]), event, row, rows) for event, row, rows in made]

    def joined(self, rows: Sequence[MappedRows]) -> list[MappedRows]:
        """Return the events."""
        return list(rows)


def binlog(reader: Reader, out: Binlog, do_again: bool = False) -> Iterator[bytes]:
    """Yield the bytes of the file. Raises what reading the rows does, before the first byte unless `do_again`."""
    found = parts(reader, RowsWriter(do_again), backwards=not do_again)
    begun = False
    for _, group in groupby(found, key=lambda part: part.begin.rank):
        of = list[Part[list[MappedRows]]](group)
        if not begun:
            yield out.head()
            begun = True
        yield out.transaction([rows for part in of for rows in part.made], of[0].begin.commit_us)
