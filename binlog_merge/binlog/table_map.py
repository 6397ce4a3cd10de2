"""The table map event: the table and columns of the rows events after it.

    | table_id 6 | flags 2 | schema: length, bytes, NUL | table: length, bytes, NUL | column count packed | types |
    | metadata: length packed, bytes | null bitmap | optional metadata: (type 1, length packed, value)* |

Names are text; the metadata of each column becomes an integer. The optional metadata is kept raw as well as parsed, so
that it is written back byte for byte unless it is changed.
"""

from dataclasses import dataclass, replace
from typing import Final, Self

from binlog_merge.binlog.cell_length import METADATA_LEN, real_type, type_name
from binlog_merge.binlog.constants import ColumnType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.optional_metadata import OptionalMetadata
from binlog_merge.binlog.wire import Buffer, Reader, pack_packed, pack_packed_bytes, pack_uint

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
    def parse(cls, body: Buffer) -> Self:
        """Parse the body of a TABLE_MAP_EVENT with a post-header of 8 bytes (every server since 5.1.4)."""
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
        optional = OptionalMetadata.parse(raw, types, metas) if raw else None
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
