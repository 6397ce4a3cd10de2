"""Binlogs with giant transactions: one of many large row events, one of very many small ones, one shared by two nodes,
and a single giant row event. Written in pieces, so that making them takes no memory either.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import yaml

from benchmarks.generate import STATUS, file_head, source_id
from benchmarks.schedule import FIRST_MILLIS, FIRST_TRANSACTION
from benchmarks.tables import COMMIT_TABLE, table_map
from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.control import XaPrepare
from binlog_merge.binlog.gtid import Gtid
from binlog_merge.binlog.header import pack_event
from snapshot_store.ddl import parse_dump
from snapshot_store.model import Table

CREATE = (
    "CREATE TABLE `{}` (`id` bigint NOT NULL, `data` longblob NOT NULL, `qty` int NOT NULL, PRIMARY KEY (`id`)) "
    "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;"
)
STAMP = FIRST_MILLIS // 1000
PIECE = 4 << 20


@dataclass(frozen=True, slots=True)
class Giant:
    """A transaction of `rows` rows with `row_bytes` bytes of data each, on `nodes` nodes; `per_event` rows an event."""

    name: str
    rows: int
    row_bytes: int
    per_event: int = 1
    nodes: int = 1

    @property
    def bytes(self) -> int:
        """Return about how many bytes all its branches have."""
        return self.rows * self.nodes * (self.row_bytes + 17)


@dataclass
class _Log:
    """A binlog being written."""

    file: BinaryIO
    server_id: int
    sid: bytes
    position: int = 0
    gno: int = 1

    def event(self, kind: int, body: bytes, flags: int = 0) -> bytes:
        """Return an event that stands at the log's end."""
        return pack_event(kind, body, timestamp=STAMP, server_id=self.server_id, flags=flags, position=self.position)

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self.file.write(data)
        self.position += len(data)

    def group(self, length: int) -> None:
        """Begin a group whose other events have `length` bytes."""
        width = 3
        while True:
            total = length + 76 + width
            right = 1 if total < 251 else 3 if total < 65536 else 4 if total < 1 << 24 else 9
            if right == width:
                break
            width = right
        micros = FIRST_MILLIS * 1000 + self.gno
        gtid = Gtid(0, self.sid, self.gno, self.gno - 1, self.gno, micros, micros, total, 90704, 90704)
        self.write(self.event(EventType.GTID_LOG_EVENT, gtid.pack()))
        self.gno += 1

    def query(self, text: str) -> bytes:
        """Return a QUERY event's body."""
        return struct.pack("<IIBHH", 18, 0, 0, 0, len(STATUS)) + STATUS + b"\0" + text.encode()


def make(folder: Path, giant: Giant, *, extra: bool = False) -> str:
    """Write the nodes' binlogs, a few small transactions around the giant; returns the path of cluster.yaml.

    With `extra` the logical table has a column more, so that every row is written anew.
    """
    names = [source_id(node) for node in range(giant.nodes)]
    (folder / "base").mkdir(parents=True)
    logical = CREATE.format("big").replace("`qty`", "`extra` int NOT NULL DEFAULT '42', `qty`" if extra else "`qty`")
    (folder / "base" / "logical.sql").write_text(f"CREATE DATABASE `shop`;\nUSE `shop`;\n{logical}\n")
    for node, name in enumerate(names):
        dump = (
            f"CREATE DATABASE `__cdc__`;\nUSE `__cdc__`;\n{COMMIT_TABLE}\n"
            f"CREATE DATABASE `shop_{node}`;\nUSE `shop_{node}`;\n{CREATE.format('big')}\n"
        )
        (folder / "base" / f"{name}.sql").write_text(dump)
        (folder / "nodes" / name).mkdir(parents=True)
        tables = parse_dump(dump).tables
        path = folder / "nodes" / name / "binlog.000001"
        _write_node(path, giant, node, tables[f"shop_{node}", "big"], tables["__cdc__", "__commit_ts__"])
    route = {"schema-pattern": "shop_*", "table-pattern": "big", "target-schema": "shop", "target-table": "big"}
    document = {
        "version": 1, "name": giant.name, "nodes": [{"source-id": n, "files": [f"nodes/{n}/binlog.*"]} for n in names],
        "routes": [route], "commit-tso": {"carrier": "commit-table"},
        "base": {"logical": "base/logical.sql", "physical": {n: f"base/{n}.sql" for n in names}},
    }  # fmt: skip
    config = folder / "cluster.yaml"
    config.write_text(yaml.safe_dump(document, sort_keys=False))
    return str(config)


def _write_node(path: Path, giant: Giant, node: int, table: Table, commit: Table) -> None:
    with path.open("wb") as file:
        log = _Log(file, 101 + node, bytes([node + 1] * 16))
        log.write(file_head(log.server_id, log.sid, 1, STAMP))
        body, commit_body = table_map(table, 100).pack(), table_map(commit, 101).pack()
        small = Giant("small", 3, 100)
        _local(log, body, small, node)
        if giant.nodes == 1:
            _local(log, body, giant, node)
        else:
            _distributed(log, body, commit_body, giant, node)
        _local(log, body, small, node)
        rotate = struct.pack("<Q", 4) + b"binlog.000002"
        log.write(log.event(EventType.ROTATE_EVENT, rotate))


def _local(log: _Log, table: bytes, giant: Giant, node: int) -> None:
    begin, xid = log.query("BEGIN"), struct.pack("<Q", log.gno)
    log.group(_framed(begin, table, xid) + sum(_rows_sizes(giant)))
    log.write(log.event(EventType.QUERY_EVENT, begin, 8))
    _write_rows(log, table, giant, node)
    log.write(log.event(EventType.XID_EVENT, xid))


def _distributed(log: _Log, table: bytes, commit_table: bytes, giant: Giant, node: int) -> None:
    gtrid, bqual = f"drds-{FIRST_TRANSACTION:016x}@1".encode(), f"SHOP_{node}_GROUP@0".encode()
    xid = f"X'{gtrid.hex()}',X'{bqual.hex()}',1"
    start, end = log.query(f"XA START {xid}"), log.query(f"XA END {xid}")
    prepare = XaPrepare(False, 1, gtrid, bqual).pack()
    log.group(_framed(start, table, end, prepare) + sum(_rows_sizes(giant)))
    log.write(log.event(EventType.QUERY_EVENT, start))
    _write_rows(log, table, giant, node)
    log.write(log.event(EventType.QUERY_EVENT, end))
    log.write(log.event(EventType.XA_PREPARE_LOG_EVENT, prepare))
    begin, one = log.query("BEGIN"), struct.pack("<Q", log.gno)
    row = struct.pack("<IHHHBBBB", 101, 0, 1, 2, 2, 0xFF, 0, len(gtrid)) + gtrid
    row += struct.pack("<Q", (FIRST_MILLIS + 1) << 22)
    log.group(_framed(begin, commit_table, row, one))
    for kind, body in (
        (EventType.QUERY_EVENT, begin),
        (EventType.TABLE_MAP_EVENT, commit_table),
        (EventType.WRITE_ROWS_EVENT, row),
        (EventType.XID_EVENT, one),
    ):
        log.write(log.event(kind, body))
    commit = log.query(f"XA COMMIT {xid}")
    log.group(_framed(commit))
    log.write(log.event(EventType.QUERY_EVENT, commit))


def _framed(*bodies: bytes) -> int:
    return sum(len(body) + 23 for body in bodies)


def _events(giant: Giant) -> Iterator[tuple[int, int]]:
    """Yield (first row, rows) of each row event."""
    for first in range(0, giant.rows, giant.per_event):
        yield first, min(giant.per_event, giant.rows - first)


def _rows_sizes(giant: Giant) -> Iterator[int]:
    for _, rows in _events(giant):
        yield 23 + 12 + rows * (17 + giant.row_bytes)


def _write_rows(log: _Log, table: bytes, giant: Giant, node: int) -> None:
    log.write(log.event(EventType.TABLE_MAP_EVENT, table))
    pattern = bytes(range(256)) * (PIECE // 256)
    last = giant.rows - 1
    for first, rows in _events(giant):
        size = 23 + 12 + rows * (17 + giant.row_bytes)
        ends = first + rows > last
        head = struct.pack(
            "<IBIIIHIHHHBB", STAMP, EventType.WRITE_ROWS_EVENT, log.server_id, size,
            (log.position + size) & 0xFFFFFFFF, 0, 100, 0, int(ends), 2, 3, 0xFF,
        )  # fmt: skip
        check = zlib.crc32(head)
        log.file.write(head)
        for row in range(first, first + rows):
            for part in _row(pattern, (node << 40) + row, giant.row_bytes):
                check = zlib.crc32(part, check)
                log.file.write(part)
        log.file.write(struct.pack("<I", check))
        log.position += size


def _row(pattern: bytes, row_id: int, size: int) -> Iterator[bytes | memoryview]:
    """Yield a row image in pieces: NULL bits, id, the blob's length and bytes, qty."""
    yield struct.pack("<BqI", 0, row_id, size)
    view = memoryview(pattern)
    while size:
        step = min(size, len(pattern))
        yield view[:step]
        size -= step
    yield struct.pack("<i", row_id & 0x7FFFFFFF)
