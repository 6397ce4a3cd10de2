"""Values in the forms of the binary protocol, from what the text protocol has.

Source: https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_binary_resultset.html.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Final

from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.wire import pack_packed_bytes
from binlog_merge.protocol.fields import Field, FieldFlag

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
