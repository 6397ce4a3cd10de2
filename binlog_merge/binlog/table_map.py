"""The table map event: the table and columns of the rows events after it.

    | table_id 6 | flags 2 | schema: length, bytes, NUL | table: length, bytes, NUL | column count packed | types |
    | metadata: length packed, bytes | null bitmap | optional metadata: (type 1, length packed, value)* |

Names are text; the metadata of each column becomes an integer. The optional metadata is kept raw as well as parsed, so
that it is written back byte for byte unless it is changed.

Made of it: the steps by which the kernel `row_lengths` measures row images, and the names and character sets of
columns, for showing rows to people.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from itertools import chain
from typing import Final, NamedTuple, Self

from binlog_merge.binlog.cell_length import CELL_LENGTH, METADATA_LEN, real_type, string_max_length, type_name
from binlog_merge.binlog.constants import ColumnType
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.optional_metadata import OptionalMetadata
from binlog_merge.binlog.temporal import fraction_text, time_text
from binlog_merge.binlog.wire import Buffer, Reader, pack_packed, pack_packed_bytes, pack_uint
from snapshot_store.mysql.column_type import set_text
from snapshot_store.mysql.text.charsets import charset_of

MAX_COLUMNS: Final = 4096


@dataclass(frozen=True, slots=True)
class TableMap:
    """A table map event. `metas` are the columns' metadata bytes as little-endian integers, 0 for types without any.

    `optional` is the parsed form of `optional_raw`; only `optional_raw` is packed. Change both with `with_optional`.
    """

    table_id: int
    flags: int
    schema: str
    table: str
    types: bytes
    metas: tuple[int, ...]
    null_bitmap: bytes
    optional: OptionalMetadata | None = None
    optional_raw: bytes = b""

    @classmethod
    def parse(cls, body: Buffer, mariadb: bool = False) -> Self:
        """Parse the body of a TABLE_MAP_EVENT with a post-header of 8 bytes (every server since 5.1.4).

        `mariadb`: MariaDB wrote it; the optional metadata is then parsed as `OptionalMetadata.parse` says.
        """
        r = Reader(body, "table map")
        table_id, flags = r.u48("table id"), r.u16("flags")
        schema, table = _name(r, "schema"), _name(r, "table")
        count = r.packed("column count")
        if count > MAX_COLUMNS:
            raise r.fail(f"{count} columns, no table has more than {MAX_COLUMNS}")
        types = bytes(r.take(count, "column types"))
        metas = _parse_metas(types, r.packed_bytes("metadata"))
        null_bitmap = bytes(r.take((count + 7) // 8, "null bitmap"))
        raw = r.rest()
        optional = OptionalMetadata.parse(raw, types, metas, mariadb) if raw else None
        return cls(table_id, flags, schema, table, types, metas, null_bitmap, optional, raw)

    def pack(self) -> bytes:
        """Return the body."""
        metadata = b"".join(
            meta.to_bytes(METADATA_LEN[kind], "little") for kind, meta in zip(self.types, self.metas, strict=True)
        )
        return b"".join(
            (
                pack_uint(self.table_id, 6),
                pack_uint(self.flags, 2),
                _pack_name(self.schema),
                _pack_name(self.table),
                pack_packed(len(self.types)),
                self.types,
                pack_packed_bytes(metadata),
                self.null_bitmap,
                self.optional_raw,
            )
        )

    def with_optional(self, optional: OptionalMetadata | None) -> Self:
        """Return a copy of the table map with other optional metadata."""
        return replace(self, optional=optional, optional_raw=optional.pack() if optional else b"")

    @property
    def column_count(self) -> int:
        return len(self.types)

    def nullable(self, column: int) -> bool:
        """Return whether a column may be NULL."""
        return bool(self.null_bitmap[column >> 3] >> (column & 7) & 1)

    def real_types(self) -> tuple[int, ...]:
        """Return the type of each column, with ENUM and SET instead of the STRING in which they are logged."""
        return tuple(real_type(kind, meta) for kind, meta in zip(self.types, self.metas, strict=True))

    def unsigned(self) -> tuple[bool, ...]:
        """Return whether each column is UNSIGNED; all False if the metadata does not have it (5.7)."""
        if self.optional is None:
            return (False,) * len(self.types)
        return self.optional.unsigned(self.types)

    def collations(self) -> tuple[int | None, ...]:
        """Return the collation id of each character, ENUM or SET column; None for others, or if it is missing."""
        if self.optional is None:
            return (None,) * len(self.types)
        return self.optional.collations(self.types, self.metas)

    def members(self) -> tuple[tuple[bytes, ...] | None, ...]:
        """Return the members of each ENUM or SET column, as bytes in its character set; None if they are missing."""
        if self.optional is None:
            return (None,) * len(self.types)
        return self.optional.members(self.types, self.metas)


def _name(r: Reader, what: str) -> str:
    # MySQL reads a packed length here, but no name is longer than 64 characters (256 bytes at most).
    raw = r.packed_bytes(f"{what} name")
    if len(raw) > 256:
        raise r.fail(f"{what} name of {len(raw)} bytes")
    if r.u8(f"end of {what} name") != 0:
        raise r.fail(f"{what} name does not end with NUL")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise r.fail(f"{what} name {raw!r} is not utf8") from None


def _pack_name(name: str) -> bytes:
    return pack_packed_bytes(name.encode()) + b"\0"


def _parse_metas(types: bytes, metadata: bytes) -> tuple[int, ...]:
    metas: list[int] = []
    pos = 0
    for column, kind in enumerate(types):
        size = METADATA_LEN.get(kind)
        if size is None:
            hint = " (a multi-valued index)" if kind == ColumnType.TYPED_ARRAY else ""
            raise BinlogFormatError(
                f"table map: column {column + 1} has type {type_name(kind)}{hint}, which cannot be read"
            )
        if pos + size > len(metadata):
            raise BinlogFormatError(f"table map: the metadata ends before column {column + 1} of {len(types)}")
        metas.append(int.from_bytes(metadata[pos : pos + size], "little"))
        pos += size
    if pos != len(metadata):
        raise BinlogFormatError(f"table map: {len(metadata)} bytes of metadata, the column types take {pos}")
    return tuple(metas)


_BLOBS: Final = frozenset(
    {T.TINY_BLOB, T.BLOB, T.MEDIUM_BLOB, T.LONG_BLOB, T.GEOMETRY, T.JSON, T.VECTOR, T.BLOB_COMPRESSED}
)
_NOTHING: Final = bytes(16)  # where a cell of fixed length is measured, or one whose own length is 0


class CellSize(NamedTuple):
    """The size of a column's cells: `width` bytes, or at most `most` bytes after a length prefix of `prefix` bytes."""

    width: int
    prefix: int = 0
    most: int = 0


def cell_size(type_code: int, meta: int) -> CellSize:
    """Return the size of cells of a type. Raises BinlogFormatError for metadata that is invalid for the type."""
    measure = CELL_LENGTH.get(type_code)
    if measure is None:
        raise BinlogFormatError(f"column type {type_name(type_code)} in a row cannot be read")
    least = measure(meta, _NOTHING, 0)
    if type_code in _BLOBS:
        return CellSize(0, least, (1 << 8 * least) - 1)
    if type_code in (T.VARCHAR, T.VAR_STRING, T.VARCHAR_COMPRESSED):
        return CellSize(0, least, meta)
    if real_type(type_code, meta) == T.STRING:
        return CellSize(0, least, string_max_length(meta))
    return CellSize(least)


def row_steps(table_map: TableMap) -> list[int]:
    """Return the steps of a table's rows: see `kernels.row_lengths`."""
    sizes = [cell_size(kind, meta) for kind, meta in zip(table_map.types, table_map.metas, strict=True)]
    program = list(_program(sizes))
    json = table_map.types.count(T.JSON)
    columns = [(*size, int(table_map.nullable(i))) for i, size in enumerate(sizes)]
    return [len(sizes), json, len(program), *chain.from_iterable(columns), *chain.from_iterable(program)]


def _program(sizes: Sequence[CellSize]) -> Iterator[tuple[int, int, int]]:
    """Yield the steps of a row without NULLs; adjacent cells of fixed length are a single step."""
    before = 0
    for size in sizes:
        before += size.width
        if size.prefix:
            yield before, size.prefix, size.most
            before = 0
    yield before, 0, 0


def column_names(table_map: TableMap) -> tuple[str, ...]:
    """Return the names in the table map, else `@1`, `@2`... as mysqlbinlog prints them."""
    if table_map.optional is not None and table_map.optional.column_names is not None:
        return table_map.optional.column_names
    return tuple(f"@{i + 1}" for i in range(len(table_map.types)))


def column_charsets(table_map: TableMap) -> tuple[str, ...]:
    """Return the character set of each column, by its collation id; utf8mb4 if the table map has none (5.7)."""
    return tuple(
        "utf8mb4" if collation is None else charset_of(collation) or "binary" for collation in table_map.collations()
    )


def member_text(kind: int, value: int, members: Sequence[str]) -> str:
    """Return the text of an ENUM index or of SET bits; index 0 is the empty text of an invalid value."""
    if kind == T.ENUM:
        if value > len(members):
            raise BinlogFormatError(f"ENUM index {value} of {len(members)} members")
        return members[value - 1] if value else ""
    if value >> len(members):
        raise BinlogFormatError(f"SET bits {value:#x} of {len(members)} members")
    return set_text(name for i, name in enumerate(members) if value >> i & 1)


def temporal_as_text(value: date | datetime | timedelta | str, fsp: int) -> str:
    """Return MySQL's text of a decoded date or time, with `fsp` fraction digits."""
    if isinstance(value, str):
        return value
    if isinstance(value, timedelta):
        return time_text(value, fsp)
    if isinstance(value, datetime):
        return f"{value.year:04d}-{value:%m-%d %H:%M:%S}" + fraction_text(value.microsecond, fsp)
    return value.isoformat()
