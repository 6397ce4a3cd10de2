"""The render kernel and its state: registers, the plans of tables, the input, and the file being written.

The kernel stops when it needs Python: `serve` gives it the plan of a table it does not know or a rewritten row event,
or raises an error with its location. `pipeline.gather.task` drives it window by window, `pipeline.gather.giant` piece
by piece.

The events that are not row data (file heads, DDL, rotation) are made here. Rows are rendered by
`binlog.kernels.render`; both write the same GTID event, which is packed there.
"""

import struct
import zlib
from dataclasses import dataclass, field, replace

import numpy as np

from binlog_merge.binlog.constants import BINLOG_MAGIC, POST_HEADER_LENS, EventFlag, EventType
from binlog_merge.binlog.control import announced_version
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.header import EventHeader
from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels.transaction_events import length_width, write_gtid
from binlog_merge.binlog.kernels.writesets import Sets
from binlog_merge.binlog.query import Query
from binlog_merge.binlog.wire import pack_uint
from binlog_merge.errors import ChecksumMismatch, ConversionFailed, MergeError, RowsWithoutTableMap, UnsupportedInput
from binlog_merge.pipeline.base.render_values import CtsPlace, FileHead, LogicalDdl
from binlog_merge.pipeline.gather.input_reader import InputReader
from binlog_merge.pipeline.gather.output_file import Sink
from binlog_merge.pipeline.gather.plans import PlanTable
from binlog_merge.pipeline.gather.rows import Rows
from binlog_merge.pipeline.gather.rows_events import NO_VERDICTS, Bytes, Verdicts
from binlog_merge.pipeline.gather.values import DoubtedTable
from binlog_merge.reshape.plan_of import reshape_rows
from binlog_merge.reshape.writesets import OFF, Writesets
from binlog_merge.values.convert.cells import ConversionError
from snapshot_store.tso import OrderKey


@dataclass
class RowsWritten:
    """Totals of a task's written rows: first and last key, branches and DDL."""

    last_timestamp: int
    first_key: OrderKey | None = None
    last_key: OrderKey | None = None
    input_bytes: int = 0
    branches: int = 0
    ddl: int = 0
    doubted: dict[tuple[tuple[str, str], bool], DoubtedTable] = field(default_factory=dict)

    def doubt(self, table: tuple[str, str], certain: bool, key: OrderKey) -> None:
        """Note a transaction whose rows may be in no order that keeps a table's keys unique."""
        known = self.doubted.get((table, certain), DoubtedTable(table, certain, 0, key))
        self.doubted[table, certain] = replace(known, transactions=known.transactions + 1)

    def add(self, rows: Rows, start: int, stop: int) -> None:
        """Add the transactions of rows[start:stop], which have been written."""
        if stop > start:
            self.first_key = self.first_key or rows.key(start)
            self.last_key = rows.key(stop - 1)
            self.last_timestamp = int(rows.commit_us[stop - 1]) // 1_000_000
            self.input_bytes += int(np.sum(rows.end[start:stop] - rows.start[start:stop]))
            self.branches += stop - start


class Renderer:
    """The state of the render kernel in one gather task."""

    def __init__(
        self,
        head: FileHead,
        plans: PlanTable,
        reader: InputReader,
        out: Sink,
        writesets: Writesets | None = None,
    ) -> None:
        self.plans, self.reader, self.out, self.writesets = plans, reader, out, writesets
        self.reg = np.zeros(k.REGISTERS, np.int64)
        self.reg[k.OWN_SERVER_ID] = head.server_id
        self.reg[k.SERVER_ID], self.reg[k.SERVER_VERSION] = head.server_id, head.server_version_number
        self.reg[k.ANONYMOUS], self.reg[k.CTS] = head.anonymous, CTS_PLACES[head.cts]
        self.sid = np.frombuffer(head.sid, np.uint8).copy()
        self.inject = np.zeros(1 << 16, np.uint8)
        self.verdicts = NO_VERDICTS

    @property
    def sets(self) -> Sets:
        """Return what the kernel takes rows by."""
        return OFF if self.writesets is None else self.writesets.sets

    def begin(self, rank: int, sequence: int, check_rows: bool) -> None:
        """Start writing after the current end of the file; `rank` and `sequence` are those of the next transaction."""
        self.reg[k.FILE_BASE] = self.out.position
        self.reg[k.RANK], self.reg[k.SEQUENCE], self.reg[k.CHECK_ROWS] = rank, sequence, check_rows

    def flush(self) -> None:
        """Write the buffer to the file."""
        self.out.write(int(self.reg[k.OUT]))
        self.reg[k.OUT] = self.reg[k.TXN_OUT] = 0
        self.reg[k.FILE_BASE] = self.out.position

    def judged(self, verdicts: Verdicts) -> None:
        """Set the verdicts on the rows events of the buffer that is rendered next."""
        if verdicts is not self.verdicts:
            self.verdicts = verdicts
            self.plans.take(verdicts.of)

    def serve(self, reason: int, crc: int, buffer: Bytes, rows: Rows, row: int) -> None:
        """Give the kernel what it stopped for, or raise the error it found, with its location."""
        at = int(self.reg[k.IN])
        try:
            if reason not in (k.NEW_PLAN, k.SLOW):
                raise _damage(reason)
            header = EventHeader.parse(buffer[at : at + 19].tobytes())
            body = buffer[at + 19 : at + header.event_size - crc].tobytes()
            if reason == k.NEW_PLAN:
                self.plans.learn_row(body, rows, row)
            else:
                self._rewrite(header.type_code, body, int(rows.commit_us[row]), rows.key(row))
        except MergeError as error:
            raise error.located(**self.reader.place(rows, row)) from None
        except BinlogFormatError as error:
            raise ChecksumMismatch(error.reason, **self.reader.place(rows, row)) from None

    def _rewrite(self, kind: int, body: bytes, commit_us: int, key: OrderKey) -> None:
        """Rewrite a rows event in Python and pass it to the kernel."""
        number, at = int(self.reg[k.PLAN]), int(self.reg[k.IN])
        plan = self.plans.reshape[number]
        assert plan is not None
        if (ready := self.verdicts.ready.get(at)) is not None:
            new, rows = ready
        else:
            try:
                new, rows = (body, 0) if plan.identity else reshape_rows(plan, kind, body, commit_us)
            except ConversionError as error:
                raise ConversionFailed(str(error)) from error
            shape = self.plans.shape_of(number)
            if shape is not None and not self.verdicts.has(at):
                assert self.plans.filter is not None
                kept = self.plans.filter.keep(shape, kind, new, key)
                if kept is None:
                    self.reg[k.INJECT] = k.NOTHING
                    return
                new = kept
        if plan.identity:
            new = pack_uint(plan.table_id, 6) + new[6:]
        if len(new) > len(self.inject):
            self.inject = np.zeros(2 * len(new), np.uint8)
        self.inject[: len(new)] = np.frombuffer(new, np.uint8)
        self.reg[k.INJECT] = len(new)
        self.reg[k.RESHAPED_ROWS] += rows


def _damage(reason: int) -> MergeError:
    if reason == k.NO_TABLE_MAP:
        return RowsWithoutTableMap("a rows event names a table id that no table map of its transaction has")
    if reason == k.BAD_CHECKSUM:
        return ChecksumMismatch("an event's checksum is wrong; it was right when the file was scanned")
    if reason == k.TOO_MANY_TABLES:
        return UnsupportedInput(f"a transaction has more than {k.MAX_MAPS} table maps")
    return ChecksumMismatch("a rows event contradicts its table map")


_HEADER = struct.Struct("<IBIIIH")
_VERSION_LENGTH = 50

CTS_PLACES: dict[CtsPlace, int] = {"begin": k.CTS_BEGIN, "end": k.CTS_END, "both": k.CTS_BOTH}


def heartbeat(key: OrderKey) -> LogicalDdl:
    """Return the transaction that shows how far the cluster is, as PolarDB-X's global binlog writes it."""
    return LogicalDdl(key, "", "", text="# TSO HEARTBEAT TXN", rows_query=True)


def _event(head: FileHead, kind: int, body: bytes, timestamp: int, flags: int, position: int) -> bytes:
    size = 19 + len(body) + 4
    data = _HEADER.pack(timestamp, kind, head.server_id, size, (position + size) & 0xFFFFFFFF, flags) + body
    return data + zlib.crc32(data).to_bytes(4, "little")


def pack_head(head: FileHead, timestamp: int, rank: int) -> bytes:
    """Return the beginning of a file: magic number, FORMAT_DESCRIPTION, and PREVIOUS_GTIDS up to `rank`."""
    version = announced_version(head.server_version).encode("latin-1", "replace").ljust(_VERSION_LENGTH, b"\0")
    description = struct.pack("<H50sIB", 4, version, 0, 19) + POST_HEADER_LENS + b"\x01"
    data = BINLOG_MAGIC + _event(head, EventType.FORMAT_DESCRIPTION_EVENT, description, timestamp, 0, 4)
    if rank and not head.anonymous:
        gtids = struct.pack("<Q16sQQQ", 1, head.sid, 1, 1, rank + 1)
    else:
        gtids = struct.pack("<Q", 0)
    return data + _event(
        head, EventType.PREVIOUS_GTIDS_LOG_EVENT, gtids, timestamp, EventFlag.LOG_EVENT_IGNORABLE_F, len(data)
    )


def pack_rotate(head: FileHead, next_name: str, timestamp: int, position: int) -> bytes:
    """Return the ROTATE event that closes a file."""
    return _event(head, EventType.ROTATE_EVENT, struct.pack("<Q", 4) + next_name.encode(), timestamp, 0, position)


def pack_ddl(
    head: FileHead, ddl: LogicalDdl, *, rank: int, sequence: int, commit_us: int, position: int
) -> tuple[bytes, int]:
    """Return the events of a DDL and their number: GTID and QUERY, and the CTS text if it comes last.

    A statement that has nothing for MySQL is written between BEGIN and XID: a QUERY event with only comments ends no
    transaction, and a server would stop at the next GTID (seen with 9.7).
    """
    if ddl.server_id is not None:
        head = replace(head, server_id=ddl.server_id)
    seconds = commit_us // 1_000_000
    size = _gtid_size(sum(map(len, _ddl_events(head, ddl, rank, seconds, 0))))
    events = _ddl_events(head, ddl, rank, seconds, position + size)
    width = size - (19 + 49 + 4 + 4)
    reg = np.zeros(k.REGISTERS, np.int64)
    # A replica checks which version ran a statement: before 8.0.16 CHECK was parsed and ignored.
    version = ddl.session.server_version or head.server_version_number
    reg[k.FILE_BASE], reg[k.SERVER_ID], reg[k.SERVER_VERSION] = position, head.server_id, version
    reg[k.ANONYMOUS], reg[k.RANK], reg[k.SEQUENCE] = head.anonymous, rank, sequence
    reg[k.TIMESTAMP] = seconds
    gtid = np.zeros(128, np.uint8)
    length = size + sum(map(len, events))
    # Flag 1: there may be statements. Without it a replica expects a transaction of rows only, and stops.
    write_gtid(gtid, 0, reg, np.frombuffer(head.sid, np.uint8).copy(), commit_us, length, width, 1, sequence - 1)
    return gtid[:size].tobytes() + b"".join(events), 1 + len(events)


def _gtid_size(rest: int) -> int:
    """Return the length of the GTID event of a transaction whose other events take `rest` bytes."""
    return 19 + 49 + int(length_width(19 + 49 + 4 + 4 + rest)) + 4 + 4


def _ddl_events(head: FileHead, ddl: LogicalDdl, rank: int, timestamp: int, position: int) -> list[bytes]:
    """Return the events after a DDL's GTID event, the first of them at `position`."""
    text = ddl.sql if ddl.text is None else ddl.text
    begins, ends = head.cts != "end", head.cts != "begin"
    bodies: list[tuple[int, bytes, int]]
    statement = _statement(ddl, text, rank, head.server_version_number)
    if ddl.sql:
        use = EventFlag.LOG_EVENT_SUPPRESS_USE_F if ddl.suppress_use else 0
        bodies = [(EventType.QUERY_EVENT, statement.pack(), use)]
    else:
        begin = Query(0, 0, 0, b"", b"BEGIN")
        bodies = [(EventType.QUERY_EVENT, begin.pack(), EventFlag.LOG_EVENT_SUPPRESS_USE_F)]
        cts = f"# CTS::{ddl.key.text()}"
        if ddl.rows_query:
            # A server accepts only one such event per statement.
            bodies.append(_rows_query(f"{cts}\n{text}" if begins else text))
        else:
            bodies += [_rows_query(cts)] if begins else []
            bodies.append((EventType.QUERY_EVENT, statement.pack(), EventFlag.LOG_EVENT_SUPPRESS_USE_F))
        bodies.append((EventType.XID_EVENT, struct.pack("<Q", rank), 0))
    if ends:
        bodies.append(_rows_query(f"CTS::{ddl.key.text()}"))
    events: list[bytes] = []
    for kind, body, flags in bodies:
        began = timestamp if kind != EventType.QUERY_EVENT or ddl.session.timestamp is None else ddl.session.timestamp
        events.append(_event(head, kind, body, began, flags, position))
        position += len(events[-1])
    return events


def _statement(ddl: LogicalDdl, text: str, rank: int, version: int) -> Query:
    session = ddl.session
    return Query(
        session.thread_id,
        session.exec_time,
        0,
        ddl.schema.encode("utf-8", "surrogateescape"),
        text.encode("utf-8", "surrogateescape"),
        session.status_vars(rank, ddl.listed(version)),
    )


def _rows_query(text: str) -> tuple[int, bytes, int]:
    data = text.encode("utf-8", "surrogateescape")
    return (
        EventType.ROWS_QUERY_LOG_EVENT,
        bytes([min(len(data), 255)]) + data,
        EventFlag.LOG_EVENT_IGNORABLE_F,
    )
