"""The command phase as values: the commands that clients send to a binlog server.

Source: https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_command_phase.html; COM_BINLOG_DUMP_GTID and the
flags from mysql-server `sql/rpl_source.cc` (com_binlog_dump_gtid) and `sql/rpl_constants.h`.

Prepared statements: page_protocol_command_phase_ps.html and page_protocol_binary_resultset.html there.

Semi-synchronous replication: two more bytes before each event, and the reader's acknowledgements.

    server   | 0x00 | 0xef | 1: acknowledge this event, 0: not | event ... |
    reader   | 0xef | position 8 | file ... |

Source: mysql-server `plugin/semisync/semisync.h` and `semisync_source.cc`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import IntEnum, IntFlag
from struct import Struct
from typing import Final, Self

from binlog_merge.binlog.constants import ColumnType as T
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


CURSOR_READ_ONLY: Final = 1
_UNSIGNED: Final = 0x80
_INTEGERS: Final = {T.TINY: 1, T.SHORT: 2, T.YEAR: 2, T.INT24: 4, T.LONG: 4, T.LONGLONG: 8}
_LONG: Final = range(T.TINY_BLOB, T.STRING + 1)
"""Types of parameters that may come before the execution."""
_REALS: Final = {T.FLOAT: Struct("<f"), T.DOUBLE: Struct("<d")}

Parameter = int | float | Decimal | str | bytes | None
"""The value of a parameter: dates and times are text, strings are bytes."""
_PLAIN: Final = re.compile(rb"[+-]?(?:\d+(?:\.\d*)?|\.\d+)")
Types = Sequence[tuple[int, bool]]
"""The types of parameters, each with whether it is unsigned."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The response to COM_STMT_PREPARE, before the descriptions of parameters and columns."""

    statement: int
    columns: int
    parameters: int

    def pack(self) -> bytes:
        numbers = pack_uint(self.statement, 4) + pack_uint(self.columns, 2) + pack_uint(self.parameters, 2)
        return b"\0" + numbers + b"\0" + pack_uint(0, 2)


@dataclass(frozen=True, slots=True)
class Execute:
    """COM_STMT_EXECUTE; `types` are those of the parameters, to be kept for the next time."""

    flags: int
    parameters: tuple[Parameter, ...]
    types: Types

    @classmethod
    def parse(cls, r: Sent, count: int, types: Types, long: Mapping[int, bytes]) -> Self:
        """Parse what follows the statement's number. `types` are the last ones, `long` values that came before."""
        flags = r.u8("flags")
        r.take(4, "iterations")
        if not count:
            return cls(flags, (), types)
        nulls = int.from_bytes(r.take((count + 7) // 8, "bitmap of NULLs"), "little")
        if r.u8("new types"):
            types = tuple((r.u8("type"), bool(r.u8("flags of the type") & _UNSIGNED)) for _ in range(count))
        if len(types) != count:
            raise r.fail("the types of the parameters are missing")
        values: list[Parameter] = []
        for place, (kind, unsigned) in enumerate(types):
            if place in long:
                if kind not in _LONG:
                    raise r.fail(f"type {kind} of a parameter that came before")
                values.append(long[place])
            else:
                values.append(None if nulls >> place & 1 else _value(r, kind, unsigned))
        return cls(flags, tuple(values), types)


@dataclass(frozen=True, slots=True)
class Fetch:
    """COM_STMT_FETCH: the statement's number, and how many rows are wanted."""

    statement: int
    rows: int

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        r = Sent(body, "fetch")
        return cls(r.u32("statement"), r.u32("rows"))


def _value(r: Sent, kind: int, unsigned: bool) -> Parameter:
    if kind in _INTEGERS:
        size = _INTEGERS[T(kind)]
        return int.from_bytes(r.take(size, "number"), "little", signed=not unsigned)
    if kind in _REALS:
        form = _REALS[T(kind)]
        (real,) = form.unpack(r.take(form.size, "number"))
        return float(real)
    read = _OTHERS.get(kind)
    return r.packed_bytes("string") if read is None else read(r)


def _moment(r: Sent) -> str:
    size = r.packed("length of a date")
    if size not in (0, 4, 7, 11):
        raise r.fail("a date of that length")
    year, month, day = (r.u16("year"), r.u8("month"), r.u8("day")) if size else (0, 0, 0)
    text = f"{year:04d}-{month:02d}-{day:02d}"
    if size > 4:
        text += f" {r.u8('hour'):02d}:{r.u8('minute'):02d}:{r.u8('second'):02d}"
    return text + (f".{r.u32('microseconds'):06d}" if size > 7 else "")


def _clock(r: Sent) -> str:
    size = r.packed("length of a time")
    if size not in (0, 8, 12):
        raise r.fail("a time of that length")
    if not size:
        return "00:00:00"
    sign = "-" if r.u8("sign") else ""
    hours = 24 * r.u32("days") + r.u8("hours")
    text = f"{sign}{hours:02d}:{r.u8('minutes'):02d}:{r.u8('seconds'):02d}"
    return text + (f".{r.u32('microseconds'):06d}" if size > 8 else "")


def _decimal(r: Sent) -> Parameter:
    """Return a DECIMAL: a number, of however many digits; what is not plainly one stays text."""
    text = r.packed_bytes("decimal")
    return Decimal(text.decode()) if _PLAIN.fullmatch(text) else text


_OTHERS: Final[dict[int, Callable[[Sent], Parameter]]] = {
    T.NULL: lambda r: None,
    T.DATE: _moment,
    T.DATETIME: _moment,
    T.TIMESTAMP: _moment,
    T.TIME: _clock,
    T.DECIMAL: _decimal,
    T.NEWDECIMAL: _decimal,
}
