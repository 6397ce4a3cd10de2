"""The client/server protocol as bytes: packets, and a server's responses. No socket here.

    | payload length 3 | sequence 1 | payload ... |      a payload of 2^24-1 bytes goes on in the next packet

Sources: https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_packets.html and, for the result set,
page_protocol_com_query_response.html; error numbers from the manual's server error reference. The result set is the
text protocol's, with EOF packets: CLIENT_DEPRECATE_EOF is never offered, so that all clients get the same answer.

What clients send is read as leniently as MySQL reads it: an integer may take more bytes than it needs. Source:
mysql-server `mysys/pack.cc` (net_field_length_ll), `sql/protocol_classic.cc` (parse_packet), and
`sql/auth/sql_authentication.cc` (get_56_lenc_string, read_client_connect_attrs).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from binlog_merge.binlog.constants import ColumnType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.kernels.packets import frame_events
from binlog_merge.binlog.wire import Buffer, Reader, pack_packed, pack_packed_bytes, pack_uint

PACKET_HEADER_LEN: Final = 4
UNSIGNED_FLAG: Final = 32
MAX_PAYLOAD: Final = (1 << 24) - 1
UTF8MB4: Final = 45
"""utf8mb4_general_ci: the only collation of utf8mb4 that every client knows."""
BINARY: Final = 63
EVENT_FOLLOWS: Final = b"\0"
"""What a packet of a dump begins with, if an event follows."""
Sizes = NDArray[np.int64]


class Capability(IntFlag):
    """Bits of the capability flags that both sides exchange."""

    CLIENT_LONG_PASSWORD = 1
    CLIENT_LONG_FLAG = 1 << 2
    CLIENT_CONNECT_WITH_DB = 1 << 3
    CLIENT_COMPRESS = 1 << 5
    CLIENT_PROTOCOL_41 = 1 << 9
    CLIENT_SSL = 1 << 11
    CLIENT_TRANSACTIONS = 1 << 13
    CLIENT_SECURE_CONNECTION = 1 << 15
    CLIENT_PLUGIN_AUTH = 1 << 19
    CLIENT_CONNECT_ATTRS = 1 << 20
    CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA = 1 << 21
    CLIENT_ZSTD_COMPRESSION_ALGORITHM = 1 << 26


SERVER_STATUS_AUTOCOMMIT: Final = 2


class ErrorCode(IntEnum):
    """Numbers of the errors that are sent, in MySQL's spelling."""

    ER_CON_COUNT_ERROR = 1040
    ER_OUT_OF_RESOURCES = 1041
    ER_HANDSHAKE_ERROR = 1043
    ER_ACCESS_DENIED_ERROR = 1045
    ER_UNKNOWN_COM_ERROR = 1047
    ER_NO_DB_ERROR = 1046
    ER_BAD_DB_ERROR = 1049
    ER_BAD_FIELD_ERROR = 1054
    ER_PARSE_ERROR = 1064
    ER_EMPTY_QUERY = 1065
    ER_NO_SUCH_THREAD = 1094
    ER_UNKNOWN_ERROR = 1105
    ER_UNKNOWN_TABLE = 1109
    ER_UNKNOWN_CHARACTER_SET = 1115
    ER_NON_UNIQ_ERROR = 1052
    ER_WRONG_FIELD_WITH_GROUP = 1055
    ER_INVALID_GROUP_FUNC_USE = 1111
    ER_SUBQUERY_NO_1_ROW = 1242
    ER_NO_SUCH_TABLE = 1146
    ER_NET_PACKET_TOO_LARGE = 1153
    ER_NET_PACKETS_OUT_OF_ORDER = 1156
    ER_NET_UNCOMPRESS_ERROR = 1157
    ER_UNKNOWN_SYSTEM_VARIABLE = 1193
    ER_WRONG_ARGUMENTS = 1210
    ER_GLOBAL_VARIABLE = 1229
    ER_WRONG_VALUE_FOR_VAR = 1231
    ER_WRONG_TYPE_FOR_VAR = 1232
    ER_INCORRECT_GLOBAL_LOCAL_VAR = 1238
    ER_UNKNOWN_COLLATION = 1273
    ER_VARIABLE_IS_READONLY = 1621
    ER_UNKNOWN_STMT_HANDLER = 1243
    ER_UNKNOWN_TIME_ZONE = 1298
    ER_NOT_SUPPORTED_YET = 1235
    ER_LOCK_WAIT_TIMEOUT = 1205
    ER_MASTER_FATAL_ERROR_READING_BINLOG = 1236
    ER_OPTION_PREVENTS_STATEMENT = 1290
    ER_UNSUPPORTED_PS = 1295
    ER_DATA_OUT_OF_RANGE = 1690
    ER_SP_DOES_NOT_EXIST = 1305
    ER_WRONG_OBJECT = 1347
    ER_TRG_DOES_NOT_EXIST = 1360
    ER_EVENT_DOES_NOT_EXIST = 1539
    ER_QUERY_INTERRUPTED = 1317
    ER_STACK_OVERRUN_NEED_MORE = 1436
    ER_QUERY_TIMEOUT = 3024
    ER_STMT_HAS_NO_OPEN_CURSOR = 1421
    ER_MAX_PREPARED_STMT_COUNT_REACHED = 1461
    ER_MALFORMED_PACKET = 1835
    ER_SECURE_TRANSPORT_REQUIRED = 3159
    ER_MALFORMED_GTID_SET_SPECIFICATION = 1772


_SQLSTATES: Final = {
    ErrorCode.ER_CON_COUNT_ERROR: b"08004",
    ErrorCode.ER_HANDSHAKE_ERROR: b"08S01",
    ErrorCode.ER_ACCESS_DENIED_ERROR: b"28000",
    ErrorCode.ER_UNKNOWN_COM_ERROR: b"08S01",
    ErrorCode.ER_NO_DB_ERROR: b"3D000",
    ErrorCode.ER_BAD_DB_ERROR: b"42000",
    ErrorCode.ER_BAD_FIELD_ERROR: b"42S22",
    ErrorCode.ER_PARSE_ERROR: b"42000",
    ErrorCode.ER_UNKNOWN_TABLE: b"42S02",
    ErrorCode.ER_NO_SUCH_TABLE: b"42S02",
    ErrorCode.ER_NON_UNIQ_ERROR: b"23000",
    ErrorCode.ER_WRONG_FIELD_WITH_GROUP: b"42000",
    ErrorCode.ER_SUBQUERY_NO_1_ROW: b"21000",
    ErrorCode.ER_EMPTY_QUERY: b"42000",
    ErrorCode.ER_WRONG_VALUE_FOR_VAR: b"42000",
    ErrorCode.ER_NET_PACKET_TOO_LARGE: b"08S01",
    ErrorCode.ER_NET_PACKETS_OUT_OF_ORDER: b"08S01",
    ErrorCode.ER_NET_UNCOMPRESS_ERROR: b"08S01",
    ErrorCode.ER_NOT_SUPPORTED_YET: b"42000",
    ErrorCode.ER_WRONG_VALUE_FOR_VAR: b"42000",
    ErrorCode.ER_WRONG_TYPE_FOR_VAR: b"42000",
    ErrorCode.ER_UNKNOWN_CHARACTER_SET: b"42000",
    ErrorCode.ER_SP_DOES_NOT_EXIST: b"42000",
    ErrorCode.ER_DATA_OUT_OF_RANGE: b"22003",
    ErrorCode.ER_QUERY_INTERRUPTED: b"70100",
}


@dataclass(frozen=True, slots=True)
class PacketHeader:
    """The header of a packet; `more`: the payload continues in the next packet."""

    length: int
    sequence: int

    @property
    def more(self) -> bool:
        return self.length == MAX_PAYLOAD

    @classmethod
    def parse(cls, data: Buffer) -> Self:
        r = Reader(data, "packet header")
        header = cls(r.uint(3, "payload length"), r.u8("sequence"))
        r.done()
        return header

    def pack(self) -> bytes:
        return pack_uint(self.length, 3) + pack_uint(self.sequence, 1)


def packets(payload: Buffer, sequence: int) -> Iterator[tuple[bytes, memoryview]]:
    """Yield the packets of a payload as header and slice; `sequence` is the first packet's number, mod 256."""
    view = memoryview(payload)
    for start in range(0, len(view) + 1, MAX_PAYLOAD):
        part = view[start : start + MAX_PAYLOAD]
        yield PacketHeader(len(part), sequence & 0xFF).pack(), part
        sequence += 1


def event_packets(
    data: memoryview, sizes: Sequence[int] | Sizes, sequence: int, prefix: bytes = EVENT_FOLLOWS
) -> memoryview:
    """Return the packets of adjacent events in `data`, each smaller than a packet: its payload is prefix and bytes."""
    found = np.frombuffer(bytearray(data) if data.readonly else data, np.uint8)
    out = np.empty(len(found) + len(sizes) * (PACKET_HEADER_LEN + len(prefix)), np.uint8)
    ahead = np.frombuffer(bytearray(prefix), np.uint8)
    return out.data[: frame_events(found, np.asarray(sizes, np.int64), sequence & 0xFF, ahead, out)]


def large_event_packets(
    data: memoryview, sequence: int, prefix: bytes = EVENT_FOLLOWS
) -> Iterator[tuple[bytes, memoryview]]:
    """Yield the packets of one event of any size, each as its first bytes and a slice of the event."""
    at, ahead = 0, prefix
    while True:
        part = data[at : at + MAX_PAYLOAD - len(ahead)]
        length = len(ahead) + len(part)
        yield PacketHeader(length, sequence & 0xFF).pack() + ahead, part
        at, ahead, sequence = at + len(part), b"", sequence + 1
        if length < MAX_PAYLOAD:
            return


@dataclass(frozen=True, slots=True)
class Ok:
    """OK_Packet: a statement was carried out."""

    affected_rows: int = 0
    last_insert_id: int = 0
    status: int = SERVER_STATUS_AUTOCOMMIT
    warnings: int = 0

    @classmethod
    def parse(cls, payload: Buffer) -> Self:
        r = Reader(payload, "OK packet")
        if r.u8("header") != 0:
            raise r.fail("the header is not 0")
        ok = cls(r.packed("affected rows"), r.packed("last insert id"), r.u16("status"), r.u16("warnings"))
        r.done()
        return ok

    def pack(self) -> bytes:
        numbers = pack_packed(self.affected_rows) + pack_packed(self.last_insert_id)
        return b"\0" + numbers + pack_uint(self.status, 2) + pack_uint(self.warnings, 2)


@dataclass(frozen=True, slots=True)
class Eof:
    """EOF_Packet: the end of columns, of rows, or of a non-blocking binlog dump."""

    warnings: int = 0
    status: int = SERVER_STATUS_AUTOCOMMIT

    @classmethod
    def parse(cls, payload: Buffer) -> Self:
        r = Reader(payload, "EOF packet")
        if r.u8("header") != 0xFE:
            raise r.fail("the header is not 0xfe")
        eof = cls(r.u16("warnings"), r.u16("status"))
        r.done()
        return eof

    def pack(self) -> bytes:
        return b"\xfe" + pack_uint(self.warnings, 2) + pack_uint(self.status, 2)


@dataclass(frozen=True, slots=True)
class Err:
    """ERR_Packet: an error number, its SQLSTATE, and a message."""

    code: int
    message: str
    sqlstate: bytes = b"HY000"

    @classmethod
    def of(cls, code: ErrorCode, message: str) -> Self:
        """Return the packet of an error with the SQLSTATE that MySQL sends with it."""
        return cls(int(code), message, _SQLSTATES.get(code, b"HY000"))

    @classmethod
    def parse(cls, payload: Buffer) -> Self:
        r = Reader(payload, "ERR packet")
        if r.u8("header") != 0xFF:
            raise r.fail("the header is not 0xff")
        code = r.u16("error code")
        if r.u8("SQLSTATE marker") != ord("#"):
            raise r.fail("the SQLSTATE is missing")
        state = bytes(r.take(5, "SQLSTATE"))
        return cls(code, r.rest().decode("utf-8", "surrogateescape"), state)

    def pack(self) -> bytes:
        text = self.message.encode("utf-8", "surrogateescape")
        return b"\xff" + pack_uint(self.code, 2) + b"#" + self.sqlstate + text


Value = str | int | None


def utf8(text: str) -> bytes:
    """Return a text in UTF-8; stray bytes stay as they are."""
    return text.encode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class Texts:
    """How texts and names of a result are written, and the number of the collation that the texts are said to have."""

    encode: Callable[[str], bytes] = utf8
    collation: int = UTF8MB4


IN_UTF8: Final = Texts()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a result: its name, whether its values are numbers, and whether these have no sign.

    `kind` is its type; None for LONGLONG of a number, VAR_STRING of a text.
    """

    name: str
    number: bool = False
    kind: ColumnType | None = None
    unsigned: bool = False

    @classmethod
    def parse(cls, payload: Buffer) -> Self:
        """Parse a ColumnDefinition41; catalog, schema, tables and the original name are ignored."""
        r = Reader(payload, "column definition")
        for field in ("catalog", "schema", "table", "original table"):
            r.packed_bytes(field)
        name = r.packed_bytes("name").decode("utf-8", "surrogateescape")
        r.packed_bytes("original name")
        r.packed("length of fixed fields")
        number = r.u16("character set") == BINARY
        r.take(4, "length")
        kind = r.u8("type")
        unsigned = bool(r.u16("flags") & UNSIGNED_FLAG)
        r.take(3, "decimals, filler")
        r.done()
        usual = ColumnType.LONGLONG if number else ColumnType.VAR_STRING
        try:
            return cls(name, number, None if kind == usual else ColumnType(kind), unsigned)
        except ValueError:
            raise r.fail(f"{kind} is no type of a column") from None

    def pack(self, texts: Texts = IN_UTF8) -> bytes:
        usual, charset = (ColumnType.LONGLONG, BINARY) if self.number else (ColumnType.VAR_STRING, texts.collation)
        kind = usual if self.kind is None else self.kind
        fixed = pack_uint(charset, 2) + pack_uint(1 << 16, 4) + bytes([kind])
        fixed += pack_uint(UNSIGNED_FLAG if self.unsigned else 0, 2) + b"\x1f\0\0"
        name = pack_packed_bytes(texts.encode(self.name))
        return b"\x03def\0\0\0" + name + b"\0" + pack_packed(len(fixed)) + fixed


def pack_row(values: Sequence[Value], encode: Callable[[str], bytes] = utf8) -> bytes:
    """Return a row of the text protocol; None is NULL."""
    texts = (None if value is None else encode(str(value)) for value in values)
    return b"".join(b"\xfb" if text is None else pack_packed_bytes(text) for text in texts)


def result_set(columns: Sequence[Column], rows: Iterable[Sequence[Value]], texts: Texts = IN_UTF8) -> Iterator[bytes]:
    """Yield the payloads of a result: columns, EOF, rows, EOF."""
    yield pack_packed(len(columns))
    for column in columns:
        yield column.pack(texts)
    yield Eof().pack()
    for row in rows:
        yield pack_row(row, texts.encode)
    yield Eof().pack()


_SIZES = {252: 2, 253: 3, 254: 8, 255: 8}


class Sent(Reader):
    """A cursor over a client's packet; bytes behind the last field that is asked for are ignored."""

    __slots__ = ()

    def packed(self, field: str) -> int:
        """Return a length-encoded integer of any form."""
        first = self.u8(field)
        if first < 251:
            return first
        if first not in _SIZES:
            raise self.fail(f"{field} is NULL")
        return self.uint(_SIZES[first], field)

    def text(self, field: str) -> bytes:
        """Return the bytes before the next zero byte, behind which the cursor is then."""
        found = self.ended()
        if found is None:
            raise self.fail(f"the {field} does not end")
        return found

    def ended(self) -> bytes | None:
        """Return the bytes before the next zero byte, as `text` does; None, without moving, if there is none."""
        length = bytes(self.data[self.pos :]).find(b"\0")
        if length < 0:
            return None
        found = bytes(self.take(length))
        self.take(1)
        return found


def attributes_of(data: bytes) -> dict[str, str]:
    """Return a client's attributes; what cannot be read of them is left out, as it is in MySQL."""
    r = Sent(data, "connection attributes")
    attributes: dict[str, str] = {}
    while r.left():
        try:
            name, value = r.packed_bytes("name"), r.packed_bytes("value")
        except BinlogFormatError:
            break
        attributes[name.decode("utf-8", "surrogateescape")] = value.decode("utf-8", "surrogateescape")
    return attributes
