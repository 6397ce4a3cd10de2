"""MySQL's binary JSON: documents as Python values, and back.

    document = type 1, value
    object   = count, size, (key offset, key length 2)*, (type 1, offset or inlined value)*, keys, values
    array    = count, size, (type 1, offset or inlined value)*, values
    string   = length in 7-bit groups, utf8;    opaque = MySQL type 1, length in 7-bit groups, bytes

Counts, sizes and offsets have 2 bytes in the small form, 4 in the large; offsets count from the container's first byte.
Objects become dicts, decimals Decimal, dates and times Python's; any other opaque value stays `JsonOpaque`.
Source: mysql-server `sql-common/json_binary.h` and `.cc`.
"""

import base64
import json
import math
import struct
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.decimals import decode_decimal, encode_decimal
from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from binlog_merge.binlog.temporal import packed_to_temporal, temporal_to_packed, time_text
from binlog_merge.binlog.wire import Buffer

SMALL_OBJECT, LARGE_OBJECT, SMALL_ARRAY, LARGE_ARRAY, LITERAL = range(5)
INT16, UINT16, INT32, UINT32, INT64, UINT64, DOUBLE, STRING = range(5, 13)
OPAQUE: Final = 15

MAX_DEPTH: Final = 100
"""JSON_DOCUMENT_MAX_DEPTH: no server writes deeper documents."""

JsonValue = Any

_LITERALS: Final[dict[int, bool | None]] = {0: None, 1: True, 2: False}
# type -> (bytes, signed)
_INTEGERS: Final = {
    INT16: (2, True),
    UINT16: (2, False),
    INT32: (4, True),
    UINT32: (4, False),
    INT64: (8, True),
    UINT64: (8, False),
}
_TEMPORAL: Final = frozenset((T.DATE, T.TIME, T.DATETIME, T.TIMESTAMP))


@dataclass(frozen=True, slots=True)
class JsonOpaque:
    """A value of a MySQL type that JSON does not have: its column type and its bytes."""

    type_code: int
    data: bytes


def decode_json(data: Buffer) -> JsonValue:
    """Return the value of a binary document. An empty one is JSON null, as the server reads it.

    Work is bounded by the document's length: values that overlap, which no server writes, are refused before they
    multiply.
    """
    view = memoryview(data)
    if not view:
        return None
    return _Decoder(view).value(view[0], view[1:], 0)


class _Decoder:
    __slots__ = ("budget",)

    def __init__(self, view: memoryview) -> None:
        self.budget = len(view)

    def spend(self, size: int) -> None:
        self.budget -= size
        if self.budget < 0:
            raise BinlogFormatError("JSON: values overlap")

    def cut(self, data: memoryview, start: int, size: int) -> memoryview:
        """Return `size` bytes at `start`, charged to the budget."""
        if size < 0 or start < 0 or start + size > len(data):
            raise BinlogFormatError(f"JSON: {size} bytes at {start} are not within {len(data)}")
        self.spend(size)
        return data[start : start + size]

    def value(self, kind: int, data: memoryview, depth: int) -> JsonValue:
        """Return the value of type `kind` whose bytes begin at data[0]."""
        if kind <= LARGE_ARRAY:
            if depth >= MAX_DEPTH:
                raise BinlogFormatError(f"JSON: deeper than {MAX_DEPTH}")
            return self.container(kind, data, depth)
        if kind == LITERAL:
            return self.literal(self.cut(data, 0, 1)[0])
        if kind in _INTEGERS:
            size, signed = _INTEGERS[kind]
            return int.from_bytes(self.cut(data, 0, size), "little", signed=signed)
        if kind == DOUBLE:
            return struct.unpack("<d", self.cut(data, 0, 8))[0]
        if kind == STRING:
            return _text(self.blob(data))
        if kind == OPAQUE:
            if not data:
                raise BinlogFormatError("JSON: an opaque value without a type")
            return _from_opaque(data[0], bytes(self.blob(data[1:])))
        raise BinlogFormatError(f"JSON: type {kind} is not known")

    def literal(self, number: int) -> bool | None:
        if number not in _LITERALS:
            raise BinlogFormatError(f"JSON: literal {number} is not known")
        return _LITERALS[number]

    def blob(self, data: memoryview) -> memoryview:
        """Return the bytes after a length in 7-bit groups, lowest first; the server reads at most five groups."""
        length = 0
        for i in range(5):
            if i >= len(data):
                raise BinlogFormatError("JSON: a length is cut off")
            length |= (data[i] & 0x7F) << 7 * i
            if not data[i] & 0x80:
                return self.cut(data, i + 1, length)
        raise BinlogFormatError("JSON: a length has more than five bytes")

    def container(self, kind: int, data: memoryview, depth: int) -> JsonValue:
        width = 4 if kind in (LARGE_OBJECT, LARGE_ARRAY) else 2
        is_object = kind in (SMALL_OBJECT, LARGE_OBJECT)
        if len(data) < 2 * width:
            raise BinlogFormatError("JSON: a container's head is cut off")
        count = int.from_bytes(data[:width], "little")
        size = int.from_bytes(data[width : 2 * width], "little")
        entry = 1 + width
        head = 2 * width + count * (entry + (width + 2 if is_object else 0))
        if not head <= size <= len(data):
            raise BinlogFormatError(f"JSON: {count} members, head {head}, size {size}, {len(data)} bytes")
        data = data[:size]
        self.spend(head)
        entries = head - count * entry
        values = [self.entry(data, entries + i * entry, width, depth) for i in range(count)]
        if not is_object:
            return values
        return {self.key(data, (2 * width) + i * (width + 2), width): value for i, value in enumerate(values)}

    def key(self, data: memoryview, pos: int, width: int) -> str:
        offset = int.from_bytes(data[pos : pos + width], "little")
        length = int.from_bytes(data[pos + width : pos + width + 2], "little")
        return _text(self.cut(data, offset, length))

    def entry(self, data: memoryview, pos: int, width: int, depth: int) -> JsonValue:
        kind = data[pos]
        slot = data[pos + 1 : pos + 1 + width]
        if kind == LITERAL:
            return self.literal(slot[0])
        if kind in _INTEGERS and _INTEGERS[kind][0] <= width:
            size, signed = _INTEGERS[kind]
            return int.from_bytes(slot[:size], "little", signed=signed)
        offset = int.from_bytes(slot, "little")
        if offset > len(data):
            raise BinlogFormatError(f"JSON: offset {offset} is behind the {len(data)} bytes of its container")
        return self.value(kind, data[offset:], depth + 1)


def _text(data: memoryview) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        raise BinlogFormatError("JSON: a string is not utf8") from None


def _from_opaque(kind: int, data: bytes) -> JsonValue:
    if kind in _TEMPORAL:
        if len(data) != 8:
            raise BinlogFormatError(f"JSON: a date or time of {len(data)} bytes")
        value = packed_to_temporal(kind, int.from_bytes(data, "little", signed=True))
        # A TIMESTAMP and a date that Python cannot hold keep their bytes: as a datetime or text they would come back
        # as something else.
        return JsonOpaque(kind, data) if kind == T.TIMESTAMP or isinstance(value, str) else value
    if kind == T.NEWDECIMAL:
        if len(data) < 2:
            raise BinlogFormatError("JSON: a decimal without precision")
        return decode_decimal(data[2:], data[0], data[1])
    return JsonOpaque(kind, data)


def encode_json(value: JsonValue) -> bytes:
    """Return the binary document of a Python value, as the server encodes the same JSON text."""
    kind, data = _encode(value, 0)
    return bytes([kind]) + data


def _encode(value: JsonValue, depth: int) -> tuple[int, bytes]:
    if value is None or isinstance(value, bool):
        return LITERAL, bytes([0 if value is None else 1 if value else 2])
    if isinstance(value, int):
        return _encode_int(value)
    if isinstance(value, float):
        return DOUBLE, struct.pack("<d", value)
    if isinstance(value, str):
        return STRING, _encode_blob(value.encode())
    if isinstance(value, list | tuple | dict):
        if depth >= MAX_DEPTH:
            raise CellValueError(f"JSON deeper than {MAX_DEPTH}")
        return _encode_container(value, depth)
    return OPAQUE, _encode_opaque(value)


def _encode_int(value: int) -> tuple[int, bytes]:
    # From text, what does not fit 32 bits unsigned becomes an unsigned number (the server's RapidJSON handler, Uint64).
    kinds = (INT16, INT32, INT64) if value < 1 << 32 else (UINT64,)
    for kind in kinds:
        size, signed = _INTEGERS[kind]
        try:
            return kind, value.to_bytes(size, "little", signed=signed)
        except OverflowError:
            continue
    raise CellValueError(f"{value} does not fit 64 bits")


def _encode_blob(data: bytes) -> bytes:
    length = len(data)
    head = bytearray()
    while length >= 0x80:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    head.append(length)
    return bytes(head) + data


def _encode_opaque(value: JsonValue) -> bytes:
    if isinstance(value, JsonOpaque):
        return bytes([value.type_code]) + _encode_blob(value.data)
    if isinstance(value, Decimal):
        scale = max(0, -int(value.as_tuple().exponent))
        precision = max(len(value.as_tuple().digits), scale, 1)
        try:
            return bytes([T.NEWDECIMAL]) + _encode_blob(
                bytes([precision, scale]) + encode_decimal(value, precision, scale)
            )
        except (BinlogFormatError, ValueError):
            raise CellValueError(f"{value} is no DECIMAL") from None
    if isinstance(value, date | timedelta):
        kind = T.TIME if isinstance(value, timedelta) else T.DATETIME if isinstance(value, datetime) else T.DATE
        return bytes([kind]) + _encode_blob(temporal_to_packed(kind, value).to_bytes(8, "little", signed=True))
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes([T.BLOB]) + _encode_blob(bytes(value))
    raise CellValueError(f"{type(value).__name__} has no place in JSON")


def _encode_container(value: list[Any] | tuple[Any, ...] | dict[str, Any], depth: int) -> tuple[int, bytes]:
    keys: list[bytes] = []
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise CellValueError("keys of a JSON object are strings")
        # The server sorts keys by length first, then by bytes; lookups search by that order.
        pairs = sorted(((key.encode(), item) for key, item in value.items()), key=lambda pair: (len(pair[0]), pair[0]))
        keys = [key for key, _ in pairs]
        members = [_encode(item, depth + 1) for _, item in pairs]
        if any(len(key) > 0xFFFF for key in keys):
            raise CellValueError("a JSON key is longer than 65535 bytes")
        small, large = SMALL_OBJECT, LARGE_OBJECT
    else:
        members = [_encode(item, depth + 1) for item in value]
        small, large = SMALL_ARRAY, LARGE_ARRAY
    packed = _lay_out(keys, members, isinstance(value, dict), 2)
    if packed is not None:
        return small, packed
    packed = _lay_out(keys, members, isinstance(value, dict), 4)
    if packed is None:
        raise CellValueError("JSON larger than 4 GiB")
    return large, packed


def _lay_out(keys: list[bytes], members: list[tuple[int, bytes]], is_object: bool, width: int) -> bytes | None:
    """Return the container with offsets of `width` bytes; None if it is too large for them."""
    limit = (1 << 8 * width) - 1
    count = len(members)
    pos = 2 * width + count * (1 + width + (width + 2 if is_object else 0))
    key_entries: list[bytes] = []
    if count > limit or pos > limit:
        return None
    for key in keys:
        if pos > limit:
            return None
        key_entries.append(pos.to_bytes(width, "little") + len(key).to_bytes(2, "little"))
        pos += len(key)
    entries: list[bytes] = []
    tail: list[bytes] = []
    for kind, data in members:
        if kind == LITERAL or (kind in _INTEGERS and _INTEGERS[kind][0] <= width):
            # An inlined number fills its slot with its sign.
            fill = b"\xff" if kind in (INT16, INT32) and data[-1] & 0x80 else b"\0"
            entries.append(bytes([kind]) + data.ljust(width, fill))
            continue
        if pos > limit:
            return None
        entries.append(bytes([kind]) + pos.to_bytes(width, "little"))
        tail.append(data)
        pos += len(data)
    if pos > limit:
        return None
    head = count.to_bytes(width, "little") + pos.to_bytes(width, "little")
    return b"".join((head, *key_entries, *entries, *keys, *tail))


def json_text(value: JsonValue) -> str:
    """Return the JSON text of a decoded document, spaced as by MySQL; values without a JSON type become strings."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_string(key)}: {json_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(json_text, value)) + "]"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float):
        return float_text(value)
    if value is None or isinstance(value, bool | int):
        return json.dumps(value)
    return _string(value if isinstance(value, str) else plain_text(value))


def float_text(value: float) -> str:
    """Return a double as MySQL prints it: the shortest digits, with an exponent only outside 1e-15..1e15.

    Beyond 1e15, too, there is none if digits stand after the point.
    """
    if not math.isfinite(value):
        return _string(str(value))  # no server stores one
    text = repr(value)
    if "e" not in text and abs(value) < 1e15:
        return text
    number = Decimal(text)
    digits = "".join(map(str, number.as_tuple().digits)).rstrip("0") or "0"
    # `strings/dtoa.cc` (my_gcvt): the point's position, counted from the first digit; MAX_DECPT_FOR_F_FORMAT is 15.
    point = number.adjusted() + 1 if number else 1
    if -15 < point <= 15 or 15 < point < len(digits):
        whole, _, fraction = format(number, "f").partition(".")
        return f"{whole}.{fraction.rstrip('0') or '0'}"
    sign = "-" if number.is_signed() else ""
    return f"{sign}{digits[0]}{'.' * (len(digits) > 1)}{digits[1:]}e{point - 1}"


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def plain_text(value: Any) -> str:
    """Return the text of a value without a JSON type, as MySQL casts it."""
    if isinstance(value, datetime):
        return f"{value.year:04d}-{value:%m-%d %H:%M:%S.%f}"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return time_text(value, 6)
    if isinstance(value, JsonOpaque):
        if value.type_code in _TEMPORAL:
            moment = packed_to_temporal(value.type_code, int.from_bytes(value.data, "little", signed=True))
            return moment if isinstance(moment, str) else plain_text(moment)
        return f"base64:type{value.type_code}:{base64.b64encode(value.data).decode()}"
    raise TypeError(f"{type(value).__name__} has no place in JSON")
