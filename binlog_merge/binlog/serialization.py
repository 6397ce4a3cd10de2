"""The wire format of MySQL's serialization library, as far as GTID_TAGGED_LOG_EVENT needs it.

    message = version varlen | size varlen (of the whole message) | last non-ignorable field id varlen |
              (field id varlen, value)*

The trailing ones in the first byte of a varlen integer are its length; signed ones have the sign in the lowest bit.
Source: mysql-server `libs/mysql/serialization/readme.md`, `variable_length_integers.h`.
"""

from binlog_merge.binlog.wire import Reader

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
