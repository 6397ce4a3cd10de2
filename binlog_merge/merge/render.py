"""The events of the merged log that are not row data: file heads, DDL, rotation.

Rows are rendered by `binlog.kernels.render`; both write the same GTID event, which is packed there.
"""

import struct
import zlib
from dataclasses import dataclass

import numpy as np

from binlog_merge.binlog.constants import BINLOG_MAGIC, POST_HEADER_LENS, EventFlag, EventType
from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.kernels.frame import length_width, write_gtid
from snapshot_store.tso import OrderKey

_HEADER = struct.Struct("<IBIIIH")
VERSION_SUFFIX = "-binlog-merge"
_VERSION_LENGTH = 50


@dataclass(frozen=True, slots=True)
class FileHead:
    """What every output file of a cluster has in common. `sid` is the cluster's UUID, 16 bytes."""

    server_id: int
    server_version: str
    server_version_number: int
    sid: bytes
    anonymous: bool


@dataclass(frozen=True, slots=True)
class LogicalDdl:
    """A DDL as it comes out: at its key, in its default schema, with the session variables that its text depends on.

    `suppress_use` is for statements about a database, which must not be entered first (LOG_EVENT_SUPPRESS_USE_F).
    """

    key: OrderKey
    schema: str
    sql: str
    flags2: int
    sql_mode: int
    server_collation: int
    utf8mb4_collation: int | None
    suppress_use: bool = False


def version_number(version: str) -> int:
    """Return 90704 for "9.7.4-log" (MySQL `get_server_version`)."""
    numbers = [0, 0, 0]
    for place, part in enumerate(version.split(".")[:3]):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        numbers[place] = int(digits) if digits else 0
    return numbers[0] * 10000 + numbers[1] * 100 + numbers[2]


def announced_version(version: str) -> str:
    """Return the version an output announces: the server's, and who made the file; cut to what an FDE can hold."""
    return version[: _VERSION_LENGTH - 1 - len(VERSION_SUFFIX)] + VERSION_SUFFIX


def _event(head: FileHead, kind: int, body: bytes, timestamp: int, flags: int, position: int) -> bytes:
    size = 19 + len(body) + 4
    data = _HEADER.pack(timestamp, kind, head.server_id, size, (position + size) & 0xFFFFFFFF, flags) + body
    return data + zlib.crc32(data).to_bytes(4, "little")


def pack_head(head: FileHead, timestamp: int, rank: int) -> bytes:
    """Return the beginning of a file: magic, FORMAT_DESCRIPTION, and PREVIOUS_GTIDS up to `rank`."""
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


def status_variables(ddl: LogicalDdl) -> bytes:
    """Return the QUERY event's status variables: flags2, sql_mode, character sets (the text is utf8mb4).

    Client and connection are collation 45 (utf8mb4_general_ci), which MariaDB knows as well; the default collation of
    utf8mb4 (code 18) is named where the session's was.
    """
    data = struct.pack("<BIBQBHHH", 0, ddl.flags2, 1, ddl.sql_mode, 4, 45, 45, ddl.server_collation)
    if ddl.utf8mb4_collation is not None:
        data += struct.pack("<BH", 18, ddl.utf8mb4_collation)
    return data


def pack_ddl(head: FileHead, ddl: LogicalDdl, *, rank: int, sequence: int, commit_us: int, position: int) -> bytes:
    """Return the two events of a DDL: GTID and QUERY."""
    schema, variables = ddl.schema.encode(), status_variables(ddl)
    body = struct.pack("<IIBHH", 0, 0, len(schema), 0, len(variables)) + variables + schema + b"\0" + ddl.sql.encode()
    query_size = 19 + len(body) + 4
    width = int(length_width(19 + 49 + 4 + 4 + query_size))
    length = 19 + 49 + width + 4 + 4 + query_size
    reg = np.zeros(k.REGISTERS, np.int64)
    reg[k.FILE_BASE], reg[k.SERVER_ID], reg[k.SERVER_VERSION] = position, head.server_id, head.server_version_number
    reg[k.ANONYMOUS], reg[k.RANK], reg[k.SEQUENCE] = head.anonymous, rank, sequence
    reg[k.TIMESTAMP] = commit_us // 1_000_000
    event = np.zeros(128, np.uint8)
    size = int(write_gtid(event, 0, reg, np.frombuffer(head.sid, np.uint8).copy(), commit_us, length, width, 1))
    gtid = event[:size].tobytes()
    flags = EventFlag.LOG_EVENT_SUPPRESS_USE_F if ddl.suppress_use else 0
    return gtid + _event(head, EventType.QUERY_EVENT, body, commit_us // 1_000_000, flags, position + size)
