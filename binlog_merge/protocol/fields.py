"""The columns of a result as MySQL describes them, and the rows of both protocols.

    text     each value as a string with its length before it, 0xfb for NULL
    binary   0x00, a bitmap of NULLs from its bit 2 on, then the other values, each in its type's form

Sources: https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response_text_resultset.html and
page_protocol_binary_resultset.html; flags from mysql-server `include/mysql_com.h`.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntFlag
from typing import Final

from binlog_merge.binlog.constants import ColumnType
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.wire import pack_packed, pack_packed_bytes, pack_uint
from binlog_merge.protocol.packets import SERVER_STATUS_AUTOCOMMIT, UNSIGNED_FLAG, Eof, utf8

SERVER_STATUS_CURSOR_EXISTS: Final = 0x40
SERVER_STATUS_LAST_ROW_SENT: Final = 0x80
SHORTEST: Final = [bytes([length]) for length in range(251)]
"""The lengths that take a byte, as they stand before a value."""
NULL: Final = b"\xfb"


class FieldFlag(IntFlag):
    """Flags of a column in a result."""

    NOT_NULL = 1
    PRI_KEY = 2
    UNIQUE_KEY = 4
    MULTIPLE_KEY = 8
    BLOB = 16
    UNSIGNED = UNSIGNED_FLAG
    ZEROFILL = 64
    BINARY = 128
    ENUM = 256
    AUTO_INCREMENT = 512
    TIMESTAMP = 1024
    SET = 2048
    NO_DEFAULT_VALUE = 4096
    ON_UPDATE_NOW = 8192
    PART_KEY = 16384


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a result; `table` is its name in the statement, `original_table` the table's own."""

    name: str
    kind: ColumnType
    charset: int
    length: int
    flags: int = 0
    decimals: int = 0
    schema: str = ""
    table: str = ""
    original_table: str = ""
    original_name: str = ""

    def pack(self, encode: Callable[[str], bytes] = utf8) -> bytes:
        """Return its ColumnDefinition41, its names as `encode` writes them."""
        texts = ("def", self.schema, self.table, self.original_table, self.name, self.original_name)
        fixed = pack_uint(self.charset, 2) + pack_uint(min(self.length, 0xFFFFFFFF), 4) + bytes([self.kind])
        fixed += pack_uint(int(self.flags), 2) + bytes([self.decimals]) + b"\0\0"
        return b"".join(pack_packed_bytes(encode(text)) for text in texts) + (pack_packed(len(fixed)) + fixed)


def binary_rows(columns: Sequence[Sequence[bytes | None]]) -> Iterator[bytes]:
    """Yield rows of the binary protocol from columns of values, each in its type's form already."""
    size = (len(columns) + 9) // 8
    for row in zip(*columns, strict=True):
        nulls = 0
        for place, value in enumerate(row, 2):
            if value is None:
                nulls |= 1 << place
        yield b"\0" + nulls.to_bytes(size, "little") + b"".join(value for value in row if value is not None)


def described(
    fields: Sequence[Field], status: int = SERVER_STATUS_AUTOCOMMIT, encode: Callable[[str], bytes] = utf8
) -> Iterator[bytes]:
    """Yield the payloads that begin a result: the number of columns, the columns, EOF."""
    yield pack_packed(len(fields))
    for field in fields:
        yield field.pack(encode)
    yield Eof(0, status).pack()


Bytes = Sequence[bytes | None]
_SIZES: Final = {T.TINY: 1, T.SHORT: 2, T.YEAR: 2, T.INT24: 4, T.LONG: 4, T.LONGLONG: 8}
_REALS: Final = {T.FLOAT: struct.Struct("<f"), T.DOUBLE: struct.Struct("<d")}
_MICROSECONDS: Final = 6


def binary_of(field: Field, texts: Bytes) -> Bytes:
    """Return values of the text protocol as the binary protocol has them."""
    form: Callable[[bytes], bytes] = pack_packed_bytes
    if field.kind in _SIZES:
        size, signed = _SIZES[field.kind], not field.flags & FieldFlag.UNSIGNED
        form = lambda text: int(text).to_bytes(size, "little", signed=signed)  # noqa: E731
    elif field.kind in _REALS:
        real = _REALS[field.kind]
        form = lambda text: real.pack(float(text))  # noqa: E731
    elif field.kind in (T.DATE, T.DATETIME, T.TIMESTAMP):
        form = _moment
    elif field.kind == T.TIME:
        form = _clock
    return [None if text is None else form(text) for text in texts]


def _moment(text: bytes) -> bytes:
    """Return a DATE, DATETIME or TIMESTAMP: as many fields as are needed, with their length before them."""
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    hour, minute, second = (int(text[11:13]), int(text[14:16]), int(text[17:19])) if len(text) > 10 else (0, 0, 0)
    micro = int(text[20:].ljust(_MICROSECONDS, b"0"))
    found = struct.pack("<HBBBBBI", year, month, day, hour, minute, second, micro)
    size = 11 if micro else 7 if hour or minute or second else 4 if year or month or day else 0
    return bytes([size]) + found[:size]


def _clock(text: bytes) -> bytes:
    negative = text[:1] == b"-"
    whole, _, fraction = text[negative:].partition(b".")
    hours, minutes, seconds = map(int, whole.split(b":"))
    micro = int(fraction.ljust(_MICROSECONDS, b"0"))
    found = struct.pack("<BIBBBI", negative, hours // 24, hours % 24, minutes, seconds, micro)
    size = 12 if micro else 8 if hours or minutes or seconds else 0
    return bytes([size]) + found[:size]
