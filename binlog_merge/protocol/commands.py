"""The command phase as values: the commands that clients send to a binlog server.

Source: https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_command_phase.html; COM_BINLOG_DUMP_GTID and the
flags from mysql-server `sql/rpl_source.cc` (com_binlog_dump_gtid) and `sql/rpl_constants.h`.

Semi-synchronous replication: two more bytes before each event, and the reader's acknowledgements.

    server   | 0x00 | 0xef | 1: acknowledge this event, 0: not | event ... |
    reader   | 0xef | position 8 | file ... |

Source: mysql-server `plugin/semisync/semisync.h` and `semisync_source.cc`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import Final, Self

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.binlog.wire import Buffer, Reader, pack_uint
from binlog_merge.protocol.packets import Sent


class Com(IntEnum):
    """The commands that are known here, from `enum_server_command`."""

    COM_QUIT = 0x01
    COM_INIT_DB = 0x02
    COM_QUERY = 0x03
    COM_STATISTICS = 0x09
    COM_PING = 0x0E
    COM_CHANGE_USER = 0x11
    COM_BINLOG_DUMP = 0x12
    COM_REGISTER_SLAVE = 0x15
    COM_STMT_PREPARE = 0x16
    COM_STMT_EXECUTE = 0x17
    COM_STMT_SEND_LONG_DATA = 0x18
    COM_STMT_CLOSE = 0x19
    COM_STMT_RESET = 0x1A
    COM_SET_OPTION = 0x1B
    COM_STMT_FETCH = 0x1C
    COM_BINLOG_DUMP_GTID = 0x1E
    COM_RESET_CONNECTION = 0x1F


class DumpFlag(IntFlag):
    """Flags of both dump commands. Other flags that clients set (4: a GTID set follows) have no effect."""

    BINLOG_DUMP_NON_BLOCK = 1
    USE_HEARTBEAT_EVENT_V2 = 2


@dataclass(frozen=True, slots=True)
class InitDb:
    """COM_INIT_DB: make a schema the default."""

    schema: bytes

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        return cls(bytes(body))

    def pack(self) -> bytes:
        return bytes([Com.COM_INIT_DB]) + self.schema


@dataclass(frozen=True, slots=True)
class Query:
    """COM_QUERY: a statement, in the client's bytes."""

    sql: bytes

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        return cls(bytes(body))

    def pack(self) -> bytes:
        return bytes([Com.COM_QUERY]) + self.sql


@dataclass(frozen=True, slots=True)
class RegisterReplica:
    """COM_REGISTER_SLAVE: a replica introduces itself before it requests a binlog."""

    server_id: int
    host: bytes = b""
    user: bytes = b""
    password: bytes = b""
    port: int = 0
    rank: int = 0
    source_id: int = 0

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        r = Sent(body, "replica registration")
        server_id = r.u32("server id")
        host, user, password = (bytes(r.take(r.u8(f"length of {name}"), name)) for name in ("host", "user", "password"))
        return cls(server_id, host, user, password, r.u16("port"), r.u32("rank"), r.u32("source id"))

    def pack(self) -> bytes:
        texts = b"".join(pack_uint(len(text), 1) + text for text in (self.host, self.user, self.password))
        numbers = pack_uint(self.port, 2) + pack_uint(self.rank, 4) + pack_uint(self.source_id, 4)
        return bytes([Com.COM_REGISTER_SLAVE]) + pack_uint(self.server_id, 4) + texts + numbers


@dataclass(frozen=True, slots=True)
class BinlogDump:
    """COM_BINLOG_DUMP: send a file from a position on; without a name, the first file."""

    position: int
    flags: int
    server_id: int
    file: bytes = b""

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        r = Sent(body, "dump request")
        return cls(r.u32("position"), r.u16("flags"), r.u32("server id"), _until_zero(r.rest()))

    def pack(self) -> bytes:
        numbers = pack_uint(self.position, 4) + pack_uint(self.flags, 2) + pack_uint(self.server_id, 4)
        return bytes([Com.COM_BINLOG_DUMP]) + numbers + self.file


@dataclass(frozen=True, slots=True)
class BinlogDumpGtid:
    """COM_BINLOG_DUMP_GTID: send every transaction that is not in a set."""

    flags: int
    server_id: int
    gtids: GtidSet
    file: bytes = b""
    position: int = 4

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        r = Sent(body, "dump request")
        flags, server_id = r.u16("flags"), r.u32("server id")
        file = _until_zero(bytes(r.take(r.u32("length of the file name"), "file name")))
        position = r.u64("position")
        data = r.take(r.u32("length of the GTID set"), "GTID set") if r.left() else b""
        return cls(flags, server_id, GtidSet.parse(data) if data else GtidSet(), file, position)

    def pack(self) -> bytes:
        gtids = self.gtids.pack()
        return b"".join(
            (
                bytes([Com.COM_BINLOG_DUMP_GTID]),
                pack_uint(self.flags, 2) + pack_uint(self.server_id, 4),
                pack_uint(len(self.file), 4) + self.file,
                pack_uint(self.position, 8),
                pack_uint(len(gtids), 4) + gtids,
            )
        )


@dataclass(frozen=True, slots=True)
class Plain:
    """A command without arguments, or one that is not supported; `code` is None for an empty packet."""

    code: int | None
    body: bytes = field(default=b"", repr=False)

    def pack(self) -> bytes:
        return (b"" if self.code is None else bytes([self.code])) + self.body


def _until_zero(name: bytes) -> bytes:
    """Return the name of a file, which ends at a zero byte wherever the packet does."""
    return name.partition(b"\0")[0]


Dump = BinlogDump | BinlogDumpGtid
Command = InitDb | Query | RegisterReplica | BinlogDump | BinlogDumpGtid | Plain

_PARSERS: Final[dict[int, Callable[[Buffer], Command]]] = {
    Com.COM_INIT_DB: InitDb.parse,
    Com.COM_QUERY: Query.parse,
    Com.COM_BINLOG_DUMP: BinlogDump.parse,
    Com.COM_REGISTER_SLAVE: RegisterReplica.parse,
    Com.COM_BINLOG_DUMP_GTID: BinlogDumpGtid.parse,
}


def parse_command(payload: Buffer) -> Command:
    """Parse a command's payload. Raises BinlogFormatError if its fields do not fit."""
    view = memoryview(payload)
    if not len(view):
        return Plain(None)
    parser = _PARSERS.get(view[0])
    return Plain(view[0], bytes(view[1:])) if parser is None else parser(view[1:])


MAGIC: Final = 0xEF
NOT_ASKED: Final = bytes([0, MAGIC, 0])
"""What a packet begins with whose event is not to be acknowledged."""
ASKED: Final = bytes([0, MAGIC, 1])


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A reader has stored everything before this position."""

    position: int
    file: str

    @classmethod
    def parse(cls, payload: Buffer) -> Self:
        r = Reader(payload, "acknowledgement")
        if r.u8("magic number") != MAGIC:
            raise r.fail("the magic number is not 0xef")
        return cls(r.u64("position"), r.rest().decode("utf-8", "surrogateescape"))

    def pack(self) -> bytes:
        return bytes([MAGIC]) + pack_uint(self.position, 8) + self.file.encode("utf-8", "surrogateescape")
