"""Bounds-checked reading of little-endian bytes, and packing.

Every read is checked against the end first. So for any bytes a parser returns a value or raises BinlogFormatError.
Length-encoded integers must be minimal, as every server writes them, so that parse and pack are inverse.

`read_varlen` and its kin are those of MySQL's serialization library, as far as GTID_TAGGED_LOG_EVENT needs them.

    message = version varlen | size varlen (of the whole message) | last non-ignorable field id varlen |
              (field id varlen, value)*

The trailing ones in the first byte of a varlen integer are its length; signed ones have the sign in the lowest bit.
Source: mysql-server `libs/mysql/serialization/readme.md`, `variable_length_integers.h`.
"""

from binlog_merge.binlog.errors import BinlogFormatError

Buffer = bytes | bytearray | memoryview


class Reader:
    """A cursor over an event's body. `what` names the body in errors."""

    __slots__ = ("data", "end", "pos", "what")

    def __init__(self, data: Buffer, what: str) -> None:
        self.data = memoryview(data)
        self.pos = 0
        self.end = len(self.data)
        self.what = what

    def left(self) -> int:
        """Return the number of unread bytes."""
        return self.end - self.pos

    def fail(self, reason: str) -> BinlogFormatError:
        """Return an error at the current position."""
        return BinlogFormatError(f"{self.what}: {reason} (byte {self.pos} of {self.end})")

    def take(self, size: int, field: str = "bytes") -> memoryview:
        """Return the next `size` bytes without copying them."""
        if size > self.end - self.pos:
            raise self.fail(f"{field} needs {size} bytes, {self.left()} are left")
        start = self.pos
        self.pos = start + size
        return self.data[start : self.pos]

    def uint(self, size: int, field: str) -> int:
        """Return a little-endian unsigned integer of `size` bytes."""
        return int.from_bytes(self.take(size, field), "little")

    def u8(self, field: str) -> int:
        return self.uint(1, field)

    def u16(self, field: str) -> int:
        return self.uint(2, field)

    def u32(self, field: str) -> int:
        return self.uint(4, field)

    def u48(self, field: str) -> int:
        return self.uint(6, field)

    def u64(self, field: str) -> int:
        return self.uint(8, field)

    def i64(self, field: str) -> int:
        return int.from_bytes(self.take(8, field), "little", signed=True)

    def packed(self, field: str) -> int:
        """Return a length-encoded integer (`net_field_length_ll`), which must be of minimal length."""
        value, self.pos = read_packed(self.data, self.pos, f"{self.what}: {field}")
        return value

    def packed_bytes(self, field: str) -> bytes:
        """Return a string preceded by its length-encoded length."""
        return bytes(self.take(self.packed(f"length of {field}"), field))

    def rest(self) -> bytes:
        """Return all unread bytes."""
        return bytes(self.take(self.left()))

    def done(self) -> None:
        """Raise BinlogFormatError unless all bytes were read."""
        if self.pos != self.end:
            raise self.fail(f"{self.left()} bytes too many")


# net_field_length_ll: first byte < 251 is the value; 252, 253, 254: 2, 3, 8 bytes follow; 251 means NULL, 255 nothing.
_PACKED = {252: (2, 251), 253: (3, 1 << 16), 254: (8, 1 << 24)}


def read_packed(data: memoryview, pos: int, what: str) -> tuple[int, int]:
    """Return the length-encoded integer at `pos`, and the position after it."""
    if pos >= len(data):
        raise BinlogFormatError(f"{what}: the bytes end before a packed integer")
    first = data[pos]
    if first < 251:
        return first, pos + 1
    size, least = _PACKED.get(first, (0, 0))
    if not size:
        raise BinlogFormatError(f"{what}: byte {first} starts no packed integer")
    end = pos + 1 + size
    if end > len(data):
        raise BinlogFormatError(f"{what}: a packed integer needs {size} more bytes, {len(data) - pos - 1} are left")
    value = int.from_bytes(data[pos + 1 : end], "little")
    if value < least:
        raise BinlogFormatError(f"{what}: packed integer {value} takes {size + 1} bytes, which no server writes")
    return value, end


def pack_uint(value: int, size: int) -> bytes:
    """Return `value` as `size` little-endian bytes."""
    return value.to_bytes(size, "little")


def pack_packed(value: int) -> bytes:
    """Return `value` as a minimal length-encoded integer (`net_store_length`)."""
    if value < 251:
        return bytes([value])
    if value < 1 << 16:
        return b"\xfc" + value.to_bytes(2, "little")
    if value < 1 << 24:
        return b"\xfd" + value.to_bytes(3, "little")
    return b"\xfe" + value.to_bytes(8, "little")


def pack_packed_bytes(value: bytes) -> bytes:
    """Return `value` preceded by its length-encoded length."""
    return pack_packed(len(value)) + value


_MAX_BITS = 64


def read_varlen(r: Reader, field: str) -> int:
    """Return an unsigned varlen integer, which must be of minimal length."""
    first = r.u8(field)
    size = 1
    while size < 9 and first >> (size - 1) & 1:
        size += 1
    more = int.from_bytes(r.take(size - 1, field), "little")
    # With 9 bytes all 64 bits are after the first byte; with fewer, value and length share the first byte.
    value = more if size == 9 else (first | more << 8) >> size
    if len(pack_varlen(value)) != size:
        raise r.fail(f"{field} {value} takes {size} bytes, which no server writes")
    return value


def pack_varlen(value: int) -> bytes:
    """Return an unsigned integer of up to 64 bits as varlen bytes."""
    if not 0 <= value < 1 << _MAX_BITS:
        raise OverflowError(f"{value} does not fit 64 bits unsigned")
    size = value.bit_length() * 575 // 4096 + 1
    if size == 9:
        return b"\xff" + value.to_bytes(8, "little")
    return (value << size | (1 << (size - 1)) - 1).to_bytes(size, "little")


def read_signed_varlen(r: Reader, field: str) -> int:
    """Return a signed varlen integer."""
    value = read_varlen(r, field)
    return -(value >> 1) - 1 if value & 1 else value >> 1


def pack_signed_varlen(value: int) -> bytes:
    """Return a signed integer of up to 64 bits as varlen bytes."""
    return pack_varlen((-value - 1) << 1 | 1 if value < 0 else value << 1)
