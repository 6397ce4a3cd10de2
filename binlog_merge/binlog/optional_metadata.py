"""The optional metadata of a table map: signedness and character sets always (since 8.0.1), names, members and keys
with `binlog_row_metadata=FULL`.

A sequence of (type, packed length, value). Values have entries for the columns of some types only: signedness for
numeric columns, charsets for character columns, members for ENUM or SET columns. The methods here return an entry for
each column of the table. Source: mysql-server `libs/mysql/binlog/event/rows_event.h` (Table_map_event),
`sql/log_event.cc` (init_metadata_fields).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from binlog_merge.binlog.cell_length import real_type
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.constants import MetadataType as M
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.wire import Reader, pack_packed, pack_packed_bytes

NUMERIC_TYPES: Final = frozenset(
    {T.TINY, T.SHORT, T.INT24, T.LONG, T.LONGLONG, T.NEWDECIMAL, T.FLOAT, T.DOUBLE, T.YEAR}
)
"""Columns that have a signedness bit. YEAR has one (always UNSIGNED), BIT has none."""

CHARACTER_TYPES: Final = frozenset(
    {
        T.STRING, T.VAR_STRING, T.VARCHAR, T.TINY_BLOB, T.BLOB, T.MEDIUM_BLOB, T.LONG_BLOB, T.VECTOR, T.BLOB_COMPRESSED,
        T.VARCHAR_COMPRESSED,
    }
)  # fmt: skip
"""Columns that DEFAULT_CHARSET and COLUMN_CHARSET count: text and binary strings and VECTOR (as binary), not ENUM, SET,
JSON or GEOMETRY."""


@dataclass(frozen=True, slots=True)
class DefaultCharset:
    """The collation id of most counted columns, and (index among the counted columns, collation id) of the others."""

    collation: int
    exceptions: tuple[tuple[int, int], ...] = ()

    def of(self, position: int) -> int:
        """Return the collation id of the counted column with this index."""
        return dict(self.exceptions).get(position, self.collation)


@dataclass(frozen=True, slots=True)
class OptionalMetadata:
    """Parsed optional metadata; a field is None if the table map lacks it. `order` is the order of the fields' types.

    `signedness` has an entry for each numeric column (True = UNSIGNED), `visibility` for each column; the key fields
    hold column indexes.
    """

    signedness: tuple[bool, ...] | None = None
    default_charset: DefaultCharset | None = None
    column_charset: tuple[int, ...] | None = None
    column_names: tuple[str, ...] | None = None
    set_values: tuple[tuple[bytes, ...], ...] | None = None
    enum_values: tuple[tuple[bytes, ...], ...] | None = None
    geometry_types: tuple[int, ...] | None = None
    simple_primary_key: tuple[int, ...] | None = None
    primary_key_with_prefix: tuple[tuple[int, int], ...] | None = None
    enum_and_set_default_charset: DefaultCharset | None = None
    enum_and_set_column_charset: tuple[int, ...] | None = None
    visibility: tuple[bool, ...] | None = None
    vector_dimensions: tuple[int, ...] | None = None
    unknown: tuple[tuple[int, bytes], ...] = ()
    order: tuple[int, ...] = ()

    @classmethod
    def parse(cls, raw: bytes, types: bytes, metas: Sequence[int], mariadb: bool = False) -> Self:
        """Parse the bytes after the null bitmap; `types` and `metas` are the table map's.

        `mariadb`: MariaDB wrote them, which counts GEOMETRY among the character columns.
        """
        r = Reader(raw, "optional metadata")
        found: dict[str, Any] = {}
        unknown: list[tuple[int, bytes]] = []
        order: list[int] = []
        while r.left():
            kind = r.u8("type")
            value = Reader(r.take(r.packed("length"), "value"), f"optional metadata of type {kind}")
            if kind in order:
                raise r.fail(f"type {kind} stands twice")
            order.append(kind)
            if kind not in _FIELDS:
                unknown.append((kind, value.rest()))
                continue
            name, read, _ = _FIELDS[kind]
            found[name] = _read_bits(value, kind, types) if read is None else read(value)
            value.done()
        metadata = cls(**found, unknown=tuple(unknown), order=tuple(order))
        if mariadb:
            metadata = metadata._without_geometries([real_type(*each) for each in zip(types, metas, strict=True)])
        metadata.check(types, metas)
        return metadata

    def _without_geometries(self, kinds: Sequence[int]) -> Self:
        """Return the metadata with character sets of the columns that MySQL counts."""
        counted = [kind for kind in kinds if kind in CHARACTER_TYPES or kind == T.GEOMETRY]
        places = [i for i, kind in enumerate(counted) if kind != T.GEOMETRY]
        charsets, default = self.column_charset, self.default_charset
        if charsets is not None:
            if len(charsets) != len(counted):
                raise BinlogFormatError(
                    f"table map: column charset has {len(charsets)} entries for {len(counted)} columns"
                )
            charsets = tuple(charsets[i] for i in places)
        if default is not None:
            moved = {place: i for i, place in enumerate(places)}
            default = DefaultCharset(
                default.collation, tuple((moved[i], number) for i, number in default.exceptions if i in moved)
            )
        return replace(self, column_charset=charsets, default_charset=default)

    def pack(self) -> bytes:
        """Return the bytes, with the fields in their original order; fields added since come last, by type."""
        rest = dict(self.unknown)
        kinds = [*self.order, *(kind for kind in (*_FIELDS, *rest) if kind not in self.order)]
        parts: list[bytes] = []
        for kind in kinds:
            if kind in _FIELDS:
                name, _, pack = _FIELDS[kind]
                value = getattr(self, name)
                if value is None:
                    continue
                packed = pack(value)
            elif kind in rest:
                packed = rest[kind]
            else:
                continue
            parts.append(bytes([kind]) + pack_packed_bytes(packed))
        return b"".join(parts)

    def check(self, types: bytes, metas: Sequence[int]) -> None:
        """Raise BinlogFormatError unless each field has as many entries as there are columns for it."""
        kinds = [real_type(kind, meta) for kind, meta in zip(types, metas, strict=True)]
        characters = sum(kind in CHARACTER_TYPES for kind in kinds)
        members = sum(kind in (T.ENUM, T.SET) for kind in kinds)
        expected: tuple[tuple[str, Sequence[Any] | None, int], ...] = (
            ("signedness", self.signedness, sum(kind in NUMERIC_TYPES for kind in kinds)),
            ("column charset", self.column_charset, characters),
            ("column name", self.column_names, len(kinds)),
            ("set values", self.set_values, kinds.count(T.SET)),
            ("enum values", self.enum_values, kinds.count(T.ENUM)),
            ("geometry type", self.geometry_types, kinds.count(T.GEOMETRY)),
            ("enum and set charset", self.enum_and_set_column_charset, members),
            ("visibility", self.visibility, len(kinds)),
            ("vector dimensionality", self.vector_dimensions, kinds.count(T.VECTOR)),
        )
        for name, value, count in expected:
            if value is not None and len(value) != count:
                raise BinlogFormatError(f"table map: {name} has {len(value)} entries for {count} columns")
        key = (*(self.simple_primary_key or ()), *(column for column, _ in self.primary_key_with_prefix or ()))
        if any(column >= len(kinds) for column in key):
            raise BinlogFormatError(f"table map: primary key names column {max(key) + 1} of {len(kinds)}")

    def unsigned(self, types: bytes) -> tuple[bool, ...]:
        """Return for each column whether it is UNSIGNED."""
        flags = iter(self.signedness or ())
        return tuple(kind in NUMERIC_TYPES and next(flags, False) for kind in types)

    def collations(self, types: bytes, metas: Sequence[int]) -> tuple[int | None, ...]:
        """Return the collation id of each character, ENUM or SET column; None for others, or if it is missing."""
        result: list[int | None] = []
        character = member = 0
        for kind in map(real_type, types, metas):
            if kind in CHARACTER_TYPES:
                result.append(_collation(self.default_charset, self.column_charset, character))
                character += 1
            elif kind in (T.ENUM, T.SET):
                result.append(_collation(self.enum_and_set_default_charset, self.enum_and_set_column_charset, member))
                member += 1
            else:
                result.append(None)
        return tuple(result)

    def members(self, types: bytes, metas: Sequence[int]) -> tuple[tuple[bytes, ...] | None, ...]:
        """Return the member texts of each ENUM or SET column; None for others, or if they are missing."""
        enums, sets = iter(self.enum_values or ()), iter(self.set_values or ())
        sources = {int(T.ENUM): enums, int(T.SET): sets}
        kinds = map(real_type, types, metas)
        return tuple(next(sources[kind], None) if kind in sources else None for kind in kinds)

    def primary_key(self) -> tuple[int, ...] | None:
        """Return the column indexes of the primary key; None if the metadata has none."""
        if self.simple_primary_key is not None:
            return self.simple_primary_key
        if self.primary_key_with_prefix is not None:
            return tuple(column for column, _ in self.primary_key_with_prefix)
        return None


def _collation(default: DefaultCharset | None, each: tuple[int, ...] | None, position: int) -> int | None:
    if each is not None:
        return each[position]
    return default.of(position) if default is not None else None


def _read_bits(r: Reader, kind: int, types: bytes) -> tuple[bool, ...]:
    count = len(types) if kind == M.COLUMN_VISIBILITY else sum(code in NUMERIC_TYPES for code in types)
    raw = r.take((count + 7) // 8, f"bits of {count} columns")
    bits = tuple(bool(raw[i >> 3] & 0x80 >> (i & 7)) for i in range(count))
    if _pack_bits(bits) != raw:
        raise r.fail("bits are set behind the last column")
    return bits


def _pack_bits(bits: tuple[bool, ...]) -> bytes:
    packed = bytearray((len(bits) + 7) // 8)
    for i, bit in enumerate(bits):
        if bit:
            packed[i >> 3] |= 0x80 >> (i & 7)
    return bytes(packed)


def _read_numbers(r: Reader) -> tuple[int, ...]:
    numbers: list[int] = []
    while r.left():
        numbers.append(r.packed("number"))
    return tuple(numbers)


def _pack_numbers(numbers: tuple[int, ...]) -> bytes:
    return b"".join(map(pack_packed, numbers))


def _read_pairs(r: Reader) -> tuple[tuple[int, int], ...]:
    pairs: list[tuple[int, int]] = []
    while r.left():
        pairs.append((r.packed("first of a pair"), r.packed("second of a pair")))
    return tuple(pairs)


def _pack_pairs(pairs: tuple[tuple[int, int], ...]) -> bytes:
    return b"".join(pack_packed(a) + pack_packed(b) for a, b in pairs)


def _read_default_charset(r: Reader) -> DefaultCharset:
    return DefaultCharset(r.packed("collation"), _read_pairs(r))


def _pack_default_charset(value: DefaultCharset) -> bytes:
    return pack_packed(value.collation) + _pack_pairs(value.exceptions)


def _read_names(r: Reader) -> tuple[str, ...]:
    names: list[str] = []
    while r.left():
        raw = r.packed_bytes("column name")
        try:
            names.append(raw.decode("utf-8"))
        except UnicodeDecodeError:
            raise r.fail(f"column name {raw!r} is not utf8") from None
    return tuple(names)


def _pack_names(names: tuple[str, ...]) -> bytes:
    return b"".join(pack_packed_bytes(name.encode()) for name in names)


def _read_member_lists(r: Reader) -> tuple[tuple[bytes, ...], ...]:
    lists: list[tuple[bytes, ...]] = []
    while r.left():
        count = r.packed("member count")
        if count > r.left():  # each member takes a byte at least
            raise r.fail(f"{count} members in {r.left()} bytes")
        lists.append(tuple(r.packed_bytes("member") for _ in range(count)))
    return tuple(lists)


def _pack_member_lists(lists: tuple[tuple[bytes, ...], ...]) -> bytes:
    return b"".join(pack_packed(len(members)) + b"".join(map(pack_packed_bytes, members)) for members in lists)


# type -> (field, reader, packer); a reader of None means bits, whose number depends on the column types.
_FIELDS: Final[dict[int, tuple[str, Callable[[Reader], Any] | None, Callable[[Any], bytes]]]] = {
    M.SIGNEDNESS: ("signedness", None, _pack_bits),
    M.DEFAULT_CHARSET: ("default_charset", _read_default_charset, _pack_default_charset),
    M.COLUMN_CHARSET: ("column_charset", _read_numbers, _pack_numbers),
    M.COLUMN_NAME: ("column_names", _read_names, _pack_names),
    M.SET_STR_VALUE: ("set_values", _read_member_lists, _pack_member_lists),
    M.ENUM_STR_VALUE: ("enum_values", _read_member_lists, _pack_member_lists),
    M.GEOMETRY_TYPE: ("geometry_types", _read_numbers, _pack_numbers),
    M.SIMPLE_PRIMARY_KEY: ("simple_primary_key", _read_numbers, _pack_numbers),
    M.PRIMARY_KEY_WITH_PREFIX: ("primary_key_with_prefix", _read_pairs, _pack_pairs),
    M.ENUM_AND_SET_DEFAULT_CHARSET: ("enum_and_set_default_charset", _read_default_charset, _pack_default_charset),
    M.ENUM_AND_SET_COLUMN_CHARSET: ("enum_and_set_column_charset", _read_numbers, _pack_numbers),
    M.COLUMN_VISIBILITY: ("visibility", None, _pack_bits),
    M.VECTOR_DIMENSIONALITY: ("vector_dimensions", _read_numbers, _pack_numbers),
}
