"""The USER_VAR event: the value of a user variable for the statement after it.

    | name length 4 | name | is NULL 1 |, and if it is not: | type 1 | collation 4 | length 4 | value | flags 1 |

Source: mysql-server `libs/mysql/binlog/event/statement_events.cpp` (User_var_event), `include/field_types.h`
(Item_result).
"""

import struct
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from typing import Final, Self

from binlog_merge.binlog.decimals import decode_decimal
from binlog_merge.binlog.wire import Buffer, Reader, pack_uint

_UNSIGNED: Final = 1
_NUMBER_BYTES: Final = 8


class UserVarType(IntEnum):
    """The types of `Item_result` that variables can have."""

    STRING = 0
    REAL = 1
    INT = 2
    DECIMAL = 4


@dataclass(frozen=True, slots=True)
class UserVar:
    """USER_VAR_EVENT. `raw` are the value's bytes, None for NULL; `flags` is None if an old server wrote none."""

    name: bytes
    kind: UserVarType = UserVarType.STRING
    collation: int = 0
    raw: bytes | None = None
    flags: int | None = None

    @classmethod
    def parse(cls, body: Buffer) -> Self:
        r = Reader(body, "user variable event")
        name = bytes(r.take(r.u32("name length"), "name"))
        if r.u8("whether it is NULL"):
            r.done()
            return cls(name)
        number = r.u8("type")
        if number not in set(UserVarType):
            raise r.fail(f"type {number} is not known")
        kind, collation = UserVarType(number), r.u32("collation")
        raw = bytes(r.take(r.u32("length"), "value"))
        if kind in (UserVarType.REAL, UserVarType.INT) and len(raw) != _NUMBER_BYTES:
            raise r.fail(f"a number of {len(raw)} bytes")
        flags = r.u8("flags") if r.left() else None
        r.done()
        found = cls(name, kind, collation, raw, flags)
        found.value()
        return found

    def pack(self) -> bytes:
        name = pack_uint(len(self.name), 4) + self.name
        if self.raw is None:
            return name + b"\1"
        value = bytes([0, self.kind]) + pack_uint(self.collation, 4) + pack_uint(len(self.raw), 4) + self.raw
        return name + value + (b"" if self.flags is None else bytes([self.flags]))

    def value(self) -> bytes | float | int | Decimal | None:
        """Return the value; text as bytes, whose character set is that of `collation`."""
        if self.raw is None or self.kind == UserVarType.STRING:
            return self.raw
        if self.kind == UserVarType.REAL:
            return float(struct.unpack("<d", self.raw)[0])
        if self.kind == UserVarType.INT:
            return int.from_bytes(self.raw, "little", signed=not (self.flags or 0) & _UNSIGNED)
        r = Reader(self.raw, "DECIMAL of a user variable")
        precision, scale = r.u8("precision"), r.u8("scale")
        if not scale <= precision <= 81 or not precision:
            raise r.fail(f"DECIMAL({precision},{scale})")
        return decode_decimal(r.rest(), precision, scale)
