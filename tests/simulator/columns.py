"""Columns and tables of a simulated cluster: their SQL, their table maps, their values as cells."""

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

from tests.simulator.wire import TABLE_MAP, Event, lenenc, to_bits

Value = int | float | str | bytes | Decimal | tuple[int, ...] | None
NOW = "now"  # DEFAULT CURRENT_TIMESTAMP

_INTEGERS = {"tinyint": (1, 1), "smallint": (2, 2), "int": (3, 4), "bigint": (8, 8)}
_BLOBS = {"text": 2, "mediumtext": 3, "longtext": 4, "blob": 2, "mediumblob": 3}
_DECIMAL_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_UTF8MB4, _BINARY = 255, 63


@dataclass(frozen=True)
class Column:
    """`safe` bounds the values while a MODIFY is in flight: what the narrower type still holds."""

    name: str
    type: str
    length: int = 0
    decimals: int = 0
    unsigned: bool = False
    nullable: bool = True
    default: Value = None
    members: tuple[str, ...] = ()
    safe: "Column | None" = None

    @property
    def is_blob(self) -> bool:
        return self.type in _BLOBS

    @property
    def is_text(self) -> bool:
        return self.type in ("varchar", "char", "text", "mediumtext", "longtext")

    def sql(self) -> str:
        """Return the column's definition."""
        kind = self.type
        if kind in ("varchar", "char", "varbinary"):
            kind += f"({self.length})"
        elif kind == "decimal":
            kind += f"({self.length},{self.decimals})"
        elif kind == "enum":
            kind += "(" + ",".join(f"'{m}'" for m in self.members) + ")"
        elif kind == "datetime" and self.decimals:
            kind += f"({self.decimals})"
        text = f"`{self.name}` {kind}{' unsigned' if self.unsigned else ''}"
        text += " NULL" if self.nullable else " NOT NULL"
        if self.default == NOW:
            text += f" DEFAULT CURRENT_TIMESTAMP{f'({self.decimals})' if self.decimals else ''}"
        elif self.default is not None:
            text += f" DEFAULT '{self.default!s}'"
        return text

    def described(self) -> tuple[int, bytes]:
        """Return type and metadata as a table map has them."""
        if self.type in _INTEGERS:
            return _INTEGERS[self.type][0], b""
        if self.type in _BLOBS:
            return 252, bytes([_BLOBS[self.type]])
        if self.type in ("varchar", "varbinary"):
            return 15, (self.length * (4 if self.type == "varchar" else 1)).to_bytes(2, "little")
        if self.type == "char":
            size = self.length * 4
            return 254, bytes([254 ^ ((size & 0x300) >> 4), size & 0xFF])
        if self.type == "enum":
            return 254, bytes([247, 1])
        if self.type == "decimal":
            return 246, bytes([self.length, self.decimals])
        if self.type == "datetime":
            return 18, bytes([self.decimals])
        return {"double": (5, b"\x08"), "date": (10, b"")}[self.type]

    def cell(self, value: Value) -> bytes:
        """Return a value's bytes in a row image."""
        if self.type in _INTEGERS:
            assert isinstance(value, int)
            return value.to_bytes(_INTEGERS[self.type][1], "little", signed=not self.unsigned)
        if self.type == "double":
            assert isinstance(value, float)
            return struct.pack("<d", value)
        if self.type == "decimal":
            assert isinstance(value, Decimal)
            return _decimal(self.length, self.decimals, value)
        if self.type == "enum":
            assert isinstance(value, str)
            return bytes([self.members.index(value) + 1])
        if self.type == "date":
            assert isinstance(value, tuple)
            return (value[0] << 9 | value[1] << 5 | value[2]).to_bytes(3, "little")
        if self.type == "datetime":
            assert isinstance(value, tuple)
            return _datetime(value, self.decimals)
        assert isinstance(value, str | bytes)
        data = value.encode() if isinstance(value, str) else value
        kind, meta = self.described()
        width = meta[0] if kind == 252 else 2 if kind == 15 and int.from_bytes(meta, "little") > 255 else 1
        if kind == 254 and self.length * 4 > 255:
            width = 2
        return len(data).to_bytes(width, "little") + data

    def random(self, rng: random.Random, large: int) -> Value:
        """Return a value that fits, also while a MODIFY is in flight; `large` bounds the longest text."""
        column = self.safe or self
        if column.nullable and rng.random() < 0.15:
            return None
        if column.type in _INTEGERS:
            bits = 8 * _INTEGERS[column.type][1]
            low, high = (0, 2**bits) if column.unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1))
            return rng.choice((low, high - 1, 0, rng.randrange(low, high), rng.randrange(low, high)))
        if column.type == "double":
            return rng.choice((0.0, -1.5, rng.random() * 10 ** rng.randrange(-5, 20)))
        if column.type == "decimal":
            digits = rng.randrange(10 ** rng.randrange(column.length + 1))
            return Decimal(rng.choice((-1, 1)) * digits).scaleb(-column.decimals) + Decimal(0)
        if column.type == "enum":
            return rng.choice(column.members)
        if column.type == "date":
            return rng.randrange(1000, 9999), rng.randrange(1, 13), rng.randrange(1, 29)
        if column.type == "datetime":
            micros = rng.randrange(10**column.decimals) * 10 ** (6 - column.decimals)
            day = (rng.randrange(1000, 9999), rng.randrange(1, 13), rng.randrange(1, 29))
            return *day, rng.randrange(24), rng.randrange(60), rng.randrange(60), micros
        if column.is_blob:
            most = min(large, 2 ** (8 * _BLOBS[column.type]) - 1) // 4
            length = rng.choice((0, 1, rng.randrange(60), rng.randrange(most + 1) if rng.random() < 0.2 else 5))
        else:
            length = rng.choice((0, column.length, rng.randrange(column.length + 1), rng.randrange(column.length + 1)))
        if not self.is_text:
            return rng.randbytes(length)
        text = "".join(rng.choices("abcxyzABC019 äß漢😀", k=length)) if length < 500 else "x" * length
        return text.rstrip(" ") if column.type == "char" else text

    def pad(self, commit_us: int) -> bytes | None:
        """Return the cell of a row written without this column."""
        if self.default == NOW:
            unit = 10 ** (6 - self.decimals)
            seconds, micros = divmod(commit_us // unit * unit, 1_000_000)
            at = datetime.fromtimestamp(seconds, UTC)
            return self.cell((at.year, at.month, at.day, at.hour, at.minute, at.second, micros))
        if self.default is not None:
            return self.cell(self.default)
        if self.nullable:
            return None
        zero: Value = 0 if self.type in _INTEGERS else Decimal(0) if self.type == "decimal" else ""
        if self.type == "datetime":
            zero = (0, 0, 0, 0, 0, 0, 0)
        if self.type == "double":
            zero = 0.0
        return self.cell(zero)


def _decimal(precision: int, scale: int, value: Decimal) -> bytes:
    digits = str(abs(int(value.scaleb(scale)))).zfill(precision)
    whole, fraction = digits[: precision - scale], digits[precision - scale :]
    lead = len(whole) % 9
    groups = [whole[:lead]] + [whole[i : i + 9] for i in range(lead, len(whole), 9)]
    groups += [fraction[i : i + 9] for i in range(0, len(fraction), 9)]
    data = b"".join(int(g).to_bytes(_DECIMAL_BYTES[len(g)], "big") for g in groups if g)
    if value < 0:
        data = bytes(byte ^ 0xFF for byte in data)
    return bytes([data[0] ^ 0x80]) + data[1:]


def _datetime(parts: Sequence[int], decimals: int) -> bytes:
    year, month, day, hour, minute, second, micros = parts
    number = ((year * 13 + month) << 5 | day) << 17 | hour << 12 | minute << 6 | second
    width = (decimals + 1) // 2
    fraction = (micros // 10 ** (6 - 2 * width)).to_bytes(width, "big") if width else b""
    return (number + (1 << 39)).to_bytes(5, "big") + fraction


@dataclass(frozen=True)
class Table:
    """Columns; the first is always the primary key."""

    columns: tuple[Column, ...]

    def create(self, name: str) -> str:
        """Return CREATE TABLE."""
        lines = [c.sql() for c in self.columns] + [f"PRIMARY KEY (`{self.columns[0].name}`)"]
        return f"CREATE TABLE {name} (\n  " + ",\n  ".join(lines) + "\n) DEFAULT CHARSET=utf8mb4"

    def index(self, name: str) -> int:
        return next(i for i, c in enumerate(self.columns) if c.name == name)

    def named(self, name: str) -> Column | None:
        return next((c for c in self.columns if c.name == name), None)

    def settled(self) -> "Table":
        """Return the table once a MODIFY is over: every column takes all its values."""
        return Table(tuple(replace(c, safe=None) for c in self.columns))


def table_map(
    table: Table, schema: str, name: str, table_id: int, full: bool, rng: random.Random, flags: int = 1
) -> Event:
    """Return the TABLE_MAP event with MINIMAL or FULL metadata."""
    described = [c.described() for c in table.columns]
    meta = b"".join(m for _, m in described)
    body = table_id.to_bytes(6, "little") + flags.to_bytes(2, "little")
    for word in (schema.encode(), name.encode()):
        body += bytes([len(word)]) + word + b"\0"
    body += lenenc(len(described)) + bytes(kind for kind, _ in described) + lenenc(len(meta)) + meta
    body += to_bits([c.nullable for c in table.columns])
    return Event(TABLE_MAP, body + _metadata(table, full, rng))


def _metadata(table: Table, full: bool, rng: random.Random) -> bytes:
    fields: list[tuple[int, bytes]] = []
    numeric = [c for c in table.columns if c.type in (*_INTEGERS, "decimal", "double")]
    if numeric:
        bits = [c.unsigned for c in numeric]
        fields.append((1, _high_bits(bits)))
    text = [c for c in table.columns if c.is_text or c.is_blob or c.type == "varbinary"]
    if text:
        numbers = [_UTF8MB4 if c.is_text else _BINARY for c in text]
        if rng.random() < 0.5:
            default = max(set(numbers), key=numbers.count)
            others = b"".join(lenenc(i) + lenenc(n) for i, n in enumerate(numbers) if n != default)
            fields.append((2, lenenc(default) + others))
        else:
            fields.append((3, b"".join(map(lenenc, numbers))))
    if full:
        fields.append((4, b"".join(lenenc(len(c.name.encode())) + c.name.encode() for c in table.columns)))
        enums = [c for c in table.columns if c.type == "enum"]
        if enums:
            members = [lenenc(len(c.members)) + b"".join(lenenc(len(m)) + m.encode() for m in c.members) for c in enums]
            fields.append((6, b"".join(members)))
        fields.append((8, lenenc(0)))
        if enums:
            fields.append((10, lenenc(_UTF8MB4)))
        fields.append((12, _high_bits([True] * len(table.columns))))
    return b"".join(bytes([kind]) + lenenc(len(data)) + data for kind, data in fields)


def _high_bits(bits: Sequence[bool]) -> bytes:
    return bytes(sum(0x80 >> i for i, bit in enumerate(bits[at : at + 8]) if bit) for at in range(0, len(bits), 8))
