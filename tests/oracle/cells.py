"""Cells of row images: how long they are, what they say, and how another type says the same.

Types follow the table map: a type byte and its meta bytes. Values are plain Python: int, Decimal, float, str, bytes,
and tuples (date and time parts, set members).
"""

import calendar
import re
import struct
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal

from tests.oracle.binlog import OracleError
from tests.oracle.ddl import COLLATION_IDS, Column

Value = object

_EXACT = Context(prec=200)

_FIXED = {1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 7: 4, 8: 8, 9: 3, 10: 3, 11: 3, 12: 8, 13: 1}
META_LENGTH = {4: 1, 5: 1, 15: 2, 16: 2, 17: 1, 18: 1, 19: 1, 242: 1, 245: 1, 246: 2, 252: 1, 253: 2, 254: 2, 255: 1}
INT_TYPES = {"tinyint": (1, 1), "smallint": (2, 2), "mediumint": (9, 3), "int": (3, 4), "bigint": (8, 8)}
BLOBS = {f"{size}{kind}": i + 1 for kind in ("blob", "text") for i, size in enumerate(("tiny", "", "medium", "long"))}
GEOMETRY = (
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection",
)  # fmt: skip
_MAX_BYTES = {
    "utf8mb4": 4, "gb18030": 4, "utf16": 4, "utf16le": 4, "utf32": 4, "utf8mb3": 3, "ujis": 3, "eucjpms": 3, "ucs2": 2,
    "gbk": 2, "gb2312": 2, "big5": 2, "sjis": 2, "cp932": 2, "euckr": 2,
}  # fmt: skip
_CODECS = {
    "utf8mb4": "utf-8", "utf8mb3": "utf-8", "gbk": "gbk", "gb2312": "gb2312", "gb18030": "gb18030", "big5": "big5",
    "ascii": "ascii", "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be", "ucs2": "utf-16-be",
    "sjis": "shift_jis", "cp932": "cp932", "euckr": "euc_kr", "ujis": "euc_jp", "cp1251": "cp1251", "eucjpms": "euc_jp",
    "koi8r": "koi8_r", "greek": "iso8859_7", "hebrew": "iso8859_8", "tis620": "tis_620", "latin2": "iso8859_2",
    "latin5": "iso8859_9", "cp850": "cp850",
}  # fmt: skip
_DECIMAL_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_C1 = {0x81, 0x8D, 0x8F, 0x90, 0x9D}  # MySQL's latin1 is cp1252 with these five as C1 controls


def max_bytes(charset: str) -> int:
    """Return the bytes of a character set's longest character."""
    return _MAX_BYTES.get(charset, 1)


def decimal_size(precision: int, scale: int) -> int:
    whole = precision - scale
    return whole // 9 * 4 + _DECIMAL_BYTES[whole % 9] + scale // 9 * 4 + _DECIMAL_BYTES[scale % 9]


def string_meta(meta: bytes) -> tuple[int, int]:
    """Return the real type (247 ENUM, 248 SET, 254 STRING) and length that a STRING column's meta hides."""
    if meta[0] & 0x30 != 0x30:  # two bits of the length stand, inverted, in the type byte
        return meta[0] | 0x30, meta[1] | (((meta[0] & 0x30) ^ 0x30) << 4)
    return meta[0], meta[1]


def cell_length(kind: int, meta: bytes, data: bytes, at: int) -> int:
    """Return how many bytes a cell takes."""
    if kind in _FIXED:
        return _FIXED[kind]
    if kind in (15, 253):
        return _string_size(int.from_bytes(meta, "little"), data, at)
    if kind in (252, 245, 255, 242):
        return meta[0] + int.from_bytes(data[at : at + meta[0]], "little")
    if kind == 254:
        real, length = string_meta(meta)
        if real in (247, 248):
            return length
        return _string_size(length, data, at)
    if kind == 246:
        return decimal_size(meta[0], meta[1])
    if kind == 16:
        return meta[1] + (1 if meta[0] else 0)
    if kind in (17, 18, 19):
        return {17: 4, 18: 5, 19: 3}[kind] + (meta[0] + 1) // 2
    raise OracleError(f"column type {kind} is not known")


def _string_size(most: int, data: bytes, at: int) -> int:
    width = 2 if most > 255 else 1
    length = int.from_bytes(data[at : at + width], "little")
    if length > most:
        raise OracleError(f"a string of {length} bytes in a column of at most {most}")
    return width + length


def map_type(c: Column) -> tuple[int, bytes]:
    """Return the type byte and meta that MySQL 9.7 writes into a table map for this column."""
    if c.type in INT_TYPES:
        return INT_TYPES[c.type][0], b""
    if c.type in BLOBS:
        return 252, bytes([BLOBS[c.type]])
    if c.type in GEOMETRY:
        return 255, b"\x04"
    if c.type in ("varchar", "varbinary"):
        return 15, (c.length * max_bytes(c.charset)).to_bytes(2, "little")
    if c.type in ("char", "binary"):
        length = c.length * max_bytes(c.charset)
        return 254, bytes([254 ^ (length & 0x300) >> 4, length & 0xFF])
    if c.type == "enum":
        return 254, bytes([247, 1 if len(c.members) < 256 else 2])
    if c.type == "set":
        return 254, bytes([248, _set_size(c)])
    if c.type == "bit":
        return 16, bytes([c.length % 8, c.length // 8])
    if c.type == "decimal":
        return 246, bytes([c.length, c.decimals])
    if c.type in ("time", "datetime", "timestamp"):
        return {"time": 19, "datetime": 18, "timestamp": 17}[c.type], bytes([c.decimals])
    return {
        "float": (4, b"\4"), "double": (5, b"\x08"), "date": (10, b""), "year": (13, b""), "json": (245, b"\4"),
        "vector": (242, b"\4"),
    }[c.type]  # fmt: skip


def _set_size(c: Column) -> int:
    size = (len(c.members) + 7) // 8
    return 8 if size > 4 else size


# -- characters


def to_text(data: bytes, charset: str) -> str:
    if charset == "latin1":
        return "".join(chr(b) if b in _C1 else bytes([b]).decode("cp1252") for b in data)
    if charset not in _CODECS:
        raise OracleError(f"character set {charset} is not modelled")
    return data.decode(_CODECS[charset])


def to_bytes(text: str, charset: str) -> bytes:
    """Encode text; raises OracleError where the character set lacks a character."""
    try:
        if charset == "latin1":
            return b"".join(bytes([ord(ch)]) if ord(ch) in _C1 else ch.encode("cp1252") for ch in text)
        if charset in ("utf8mb3", "ucs2") and any(ord(ch) > 0xFFFF for ch in text):
            raise OracleError(f"{text!r} has no form in {charset}")
        return text.encode(_CODECS[charset])
    except UnicodeEncodeError as error:
        raise OracleError(f"{text!r} has no form in {charset}") from error


# -- decode


def _whole_and_fraction(precision: int, scale: int) -> list[tuple[int, int]]:
    """Return (digits, bytes) of a DECIMAL's groups, in order."""
    whole, groups = precision - scale, list[tuple[int, int]]()
    if whole % 9:
        groups.append((whole % 9, _DECIMAL_BYTES[whole % 9]))
    groups += [(9, 4)] * (whole // 9 + scale // 9)
    if scale % 9:
        groups.append((scale % 9, _DECIMAL_BYTES[scale % 9]))
    return groups


def _decode_decimal(data: bytes, precision: int, scale: int) -> Decimal:
    negative = not data[0] & 0x80
    raw = bytes([data[0] ^ 0x80, *data[1:]])
    if negative:
        raw = bytes(b ^ 0xFF for b in raw)
    digits, at = "", 0
    for count, size in _whole_and_fraction(precision, scale):
        digits += str(int.from_bytes(raw[at : at + size])).zfill(count)
        at += size
    return Decimal((int(negative), tuple(int(d) for d in digits), -scale))


def _scale(size: int) -> int:
    """Return how many microseconds one unit of a fraction of `size` bytes is."""
    return (1_000_000, 10_000, 100, 1)[size]


def _fraction(data: bytes, fsp: int) -> int:
    """Return microseconds from the fraction bytes of a temporal cell."""
    return int.from_bytes(data) * _scale((fsp + 1) // 2)


def _decode_time(data: bytes, fsp: int) -> int:
    """Return a TIME as microseconds."""
    size = (fsp + 1) // 2
    packed = int.from_bytes(data) - (0x800000 << (8 * size))
    sign, packed = (-1 if packed < 0 else 1), abs(packed)
    whole, fraction = packed >> (8 * size), packed & ((1 << (8 * size)) - 1)
    seconds = (whole >> 12 & 0x3FF) * 3600 + (whole >> 6 & 0x3F) * 60 + (whole & 0x3F)
    return sign * (seconds * 1_000_000 + fraction * _scale(size))


def decode(c: Column, cell: bytes) -> Value:
    """Return what a cell says."""
    if c.type in INT_TYPES:
        return int.from_bytes(cell, "little", signed=not c.unsigned)
    if c.type in BLOBS or c.type in ("char", "varchar", "binary", "varbinary"):
        data = cell[_prefix(c) :]
        return to_text(data, c.charset) if c.collation else data
    if c.type == "decimal":
        return _decode_decimal(cell, c.length, c.decimals)
    if c.type == "float":
        return struct.unpack("<f", cell)[0]
    if c.type == "double":
        return struct.unpack("<d", cell)[0]
    if c.type == "year":
        return cell[0] + 1900 if cell[0] else 0
    if c.type == "bit":
        return int.from_bytes(cell)
    if c.type == "enum":
        number = int.from_bytes(cell, "little")
        return c.members[number - 1] if number else ""
    if c.type == "set":
        bits = int.from_bytes(cell, "little")
        return tuple(m for i, m in enumerate(c.members) if bits >> i & 1)
    if c.type == "date":
        packed = int.from_bytes(cell, "little")
        return (packed >> 9, packed >> 5 & 15, packed & 31, 0, 0, 0, 0)
    if c.type == "datetime":
        packed = int.from_bytes(cell[:5]) - (1 << 39)
        month = packed >> 22
        clock = (packed >> 17 & 31, packed >> 12 & 31, packed >> 6 & 63, packed & 63)
        return (month // 13, month % 13, *clock, _fraction(cell[5:], c.decimals))
    if c.type == "timestamp":
        if not int.from_bytes(cell[:4]):
            return (0, 0, 0, 0, 0, 0, 0)
        return utc_parts(int.from_bytes(cell[:4]) * 1_000_000 + _fraction(cell[4:], c.decimals))
    if c.type == "time":
        return _decode_time(cell, c.decimals)
    raise OracleError(f"{c.name}: values of type {c.type} cannot be converted")


def utc_parts(us: int) -> tuple[int, ...]:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)
    return (at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond)


def _prefix(c: Column) -> int:
    """Return the bytes of the length prefix of a string cell."""
    if c.type in BLOBS:
        return BLOBS[c.type]
    return 2 if c.length * max_bytes(c.charset) > 255 else 1


# -- encode


def encode(c: Column, value: Value) -> bytes:
    """Write a value as a cell of this column; raises OracleError where it does not fit."""
    if c.type in INT_TYPES:
        size = INT_TYPES[c.type][1]
        try:
            return _integer(c, value).to_bytes(size, "little", signed=not c.unsigned)
        except OverflowError as error:
            raise OracleError(f"{c.name}: {value!r} is out of the range of {c.type}") from error
    if c.type in BLOBS or c.type in ("char", "varchar", "binary", "varbinary"):
        return _encode_string(c, value)
    if c.type == "decimal":
        return _encode_decimal(c, Decimal(str(value)))
    if c.type in ("float", "double") and isinstance(value, int | float | Decimal | str):
        return struct.pack("<f" if c.type == "float" else "<d", float(value))
    if c.type == "year":
        number = _integer(c, value)
        return bytes([number - 1900 if number else 0])
    if c.type == "bit":
        return _integer(c, value).to_bytes((c.length + 7) // 8)
    if c.type == "enum" and isinstance(value, str):
        return _member(c, value).to_bytes(1 if len(c.members) < 256 else 2, "little")
    if c.type == "set" and isinstance(value, tuple | str):
        names = value if isinstance(value, tuple) else tuple(v for v in value.split(",") if v)
        return sum({1 << (_member(c, str(n)) - 1) for n in names}).to_bytes(_set_size(c), "little")
    if c.type == "time" and isinstance(value, int):
        return _encode_time(value, c.decimals)
    if c.type in ("date", "datetime", "timestamp") and isinstance(value, tuple):
        return _encode_moment(c, value)
    raise OracleError(f"{c.name}: {value!r} has no form as {c.type}")


def _integer(c: Column, value: Value) -> int:
    if isinstance(value, int):
        return value
    try:
        return int(Decimal(str(value)).to_integral_value(ROUND_HALF_UP))
    except ArithmeticError as error:
        raise OracleError(f"{c.name}: {value!r} has no form as {c.type}") from error


def _member(c: Column, name: str) -> int:
    if name == "" and name not in c.members:
        return 0
    for i, member in enumerate(c.members):
        if member == name:
            return i + 1
    raise OracleError(f"{c.name}: {name!r} is not a member of the {c.type}")


def _encode_string(c: Column, value: Value) -> bytes:
    if isinstance(value, int | float | Decimal):
        value = format(value, "f") if isinstance(value, Decimal) else str(value)
    if isinstance(value, tuple):
        raise OracleError(f"{c.name}: {value!r} has no form as {c.type}")
    if isinstance(value, str) and c.collation:
        if c.type == "char":
            value = value.rstrip(" ")
        if c.length and len(value) > c.length:
            raise OracleError(f"{c.name}: {value!r} is longer than {c.length} characters")
        data = to_bytes(value, c.charset)
    elif isinstance(value, bytes):
        data = value.rstrip(b"\0") if c.type == "binary" else value
        if c.collation:
            to_text(data, c.charset)
        if c.type in ("binary", "varbinary") and len(data) > c.length:
            raise OracleError(f"{c.name}: {data!r} is longer than {c.length} bytes")
    else:
        raise OracleError(f"{c.name}: {value!r} has no form as {c.type}")
    width = _prefix(c)
    if len(data) >= 256**width:
        raise OracleError(f"{c.name}: {len(data)} bytes are too many for {c.type}")
    return len(data).to_bytes(width, "little") + data


def _encode_decimal(c: Column, value: Decimal) -> bytes:
    scaled = int(_EXACT.scaleb(value, c.decimals).to_integral_value(ROUND_HALF_UP))
    digits = str(abs(scaled)).zfill(c.length)
    if len(digits) > c.length:
        raise OracleError(f"{c.name}: {value} does not fit decimal({c.length},{c.decimals})")
    raw, at = b"", 0
    for count, size in _whole_and_fraction(c.length, c.decimals):
        raw += int(digits[at : at + count]).to_bytes(size)
        at += count
    if scaled < 0:
        raw = bytes(b ^ 0xFF for b in raw)
    return bytes([raw[0] ^ 0x80, *raw[1:]])


def _rounded(us: int, fsp: int) -> int:
    """Round microseconds to `fsp` digits, half away from zero, as MySQL does."""
    unit = int(10 ** (6 - fsp))
    return (abs(us) + unit // 2) // unit * unit * (-1 if us < 0 else 1)


def _encode_time(us: int, fsp: int) -> bytes:
    us, size = _rounded(us, fsp), (fsp + 1) // 2
    seconds, fraction = divmod(abs(us), 1_000_000)
    whole = seconds // 3600 << 12 | seconds // 60 % 60 << 6 | seconds % 60
    packed = whole << (8 * size) | fraction // _scale(size)
    return ((0x800000 << (8 * size)) + (-packed if us < 0 else packed)).to_bytes(3 + size)


def _encode_moment(c: Column, parts: tuple[int, ...]) -> bytes:
    if c.type == "date":
        return (parts[0] << 9 | parts[1] << 5 | parts[2]).to_bytes(3, "little")
    size, us = (c.decimals + 1) // 2, _rounded(parts[6], c.decimals)
    if us == 1_000_000:  # only a real date can carry into the next second
        at = datetime(*parts[:6]) + timedelta(seconds=1)  # type: ignore[arg-type]
        parts, us = (at.year, at.month, at.day, at.hour, at.minute, at.second), 0
    fraction = (us // _scale(size)).to_bytes(size) if size else b""
    year, month, day, hour, minute, second = parts[:6]
    if c.type == "datetime":
        packed = (year * 13 + month) << 22 | day << 17 | hour << 12 | minute << 6 | second
        return (packed + (1 << 39)).to_bytes(5) + fraction
    if not any(parts):
        return b"\0\0\0\0" + fraction
    return calendar.timegm((year, month, day, hour, minute, second, 0, 0, 0)).to_bytes(4) + fraction


# -- the value of a column that the physical table lacks


def pad(c: Column, commit_us: int) -> bytes | None:
    """Return the cell of a padded column: its DEFAULT, else NULL, else MySQL's implicit default."""
    kind, text = c.default or ("", "")
    if kind == "now":
        unit = int(10 ** (6 - c.decimals))
        return encode(c, utc_parts(commit_us // unit * unit))
    if kind == "expression":
        raise OracleError(f"{c.name}: an expression default cannot be computed for a padded column")
    if kind in ("", "null"):
        return None if c.nullable else _implicit(c)
    if kind in ("bits", "hex"):
        digits = text.strip("-")[1:].strip("'") if "'" in text else text[2:]
        number = int(digits or "0", 2 if kind == "bits" else 16)
        if c.type in INT_TYPES or c.type == "bit":
            return encode(c, number)
        return encode(c, number.to_bytes((len(digits) + 1) // 2 if kind == "hex" else (len(digits) + 7) // 8))
    return encode(c, _literal(c, text))


def _literal(c: Column, text: str) -> Value:
    if c.type in ("binary", "varbinary"):
        return text.encode()
    if c.type in ("date", "datetime", "timestamp"):
        text = "0-0-0" if text == "0" else text
        match = re.fullmatch(r"(\d+)-(\d+)-(\d+)(?:[ T](\d+):(\d+):(\d+)(?:\.(\d+))?)?", text)
        if match is None:
            raise OracleError(f"{c.name}: default {text!r} is not understood")
        return (*(int(g or 0) for g in match.groups()[:6]), int((match[7] or "0").ljust(6, "0")))
    if c.type == "time":
        match = re.fullmatch(r"(-?)(\d+):(\d+)(?::(\d+)(?:\.(\d+))?)?", text)
        if match is None:
            raise OracleError(f"{c.name}: default {text!r} is not understood")
        seconds = int(match[2]) * 3600 + int(match[3]) * 60 + int(match[4] or 0)
        return (-1 if match[1] else 1) * (seconds * 1_000_000 + int((match[5] or "0").ljust(6, "0")))
    return text


def _implicit(c: Column) -> bytes:
    if c.type in INT_TYPES or c.type in ("decimal", "float", "double", "bit", "year", "time"):
        return encode(c, 0)
    if c.type in ("date", "datetime", "timestamp"):
        return encode(c, (0, 0, 0, 0, 0, 0, 0))
    if c.type == "enum":
        return encode(c, c.members[0])
    if c.type == "set":
        return encode(c, ())
    if c.type == "json":
        return b"\x02\0\0\0\x04\0"  # the JSON document null
    if c.type == "vector" or c.type in GEOMETRY:
        return b"\0\0\0\0"
    return encode(c, "" if c.collation else b"")


def collation_id(c: Column) -> int:
    """Return the collation number a table map gives a character, ENUM or SET column."""
    if not c.collation:
        return 63
    if c.collation not in COLLATION_IDS:
        raise OracleError(f"collation {c.collation} has no number here")
    return COLLATION_IDS[c.collation]
