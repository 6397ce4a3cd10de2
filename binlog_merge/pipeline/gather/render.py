"""The events of the merged log that are not row data: file heads, DDL, rotation.

Rows are rendered by `binlog.kernels.render`; both write the same GTID event, which is packed there.
"""

import struct
import zlib
from dataclasses import replace

import numpy as np

from binlog_merge.binlog.constants import BINLOG_MAGIC, POST_HEADER_LENS, EventFlag, EventType
from binlog_merge.binlog.control import announced_version
from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels.frame import length_width, write_gtid
from binlog_merge.binlog.query import Query
from binlog_merge.pipeline.base.render_values import CtsPlace, FileHead, LogicalDdl
from snapshot_store.tso import OrderKey

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
    write_gtid(gtid, 0, reg, np.frombuffer(head.sid, np.uint8).copy(), commit_us, length, width, 1)
    return gtid[:size].tobytes() + b"".join(events), 1 + len(events)


def _gtid_size(rest: int) -> int:
    """Return the length of the GTID event of a transaction whose other events take `rest` bytes."""
    return 19 + 49 + int(length_width(19 + 49 + 4 + 4 + rest)) + 4 + 4


def _ddl_events(head: FileHead, ddl: LogicalDdl, rank: int, timestamp: int, position: int) -> list[bytes]:
    """Return the events after a DDL's GTID event, the first of them at `position`."""
    text = ddl.sql if ddl.text is None else ddl.text
    begins, ends = head.cts != "end", head.cts != "begin"
    bodies: list[tuple[int, bytes, int]]
    statement = _statement(ddl, text, rank)
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


def _statement(ddl: LogicalDdl, text: str, rank: int) -> Query:
    session = ddl.session
    return Query(
        session.thread_id,
        session.exec_time,
        0,
        ddl.schema.encode("utf-8", "surrogateescape"),
        text.encode("utf-8", "surrogateescape"),
        session.status_vars(rank),
    )


def _rows_query(text: str) -> tuple[int, bytes, int]:
    data = text.encode("utf-8", "surrogateescape")
    return (
        EventType.ROWS_QUERY_LOG_EVENT,
        bytes([min(len(data), 255)]) + data,
        EventFlag.LOG_EVENT_IGNORABLE_F,
    )
