"""Table maps and rows of MariaDB as MySQL writes them.

    types 140, 141       BLOB and VARCHAR that are stored compressed: 252 and 15, the values as they were given
    collation ids        MySQL's
    flags                those that MySQL knows: not that the table has triggers, nor that checks were off

A compressed value is empty, or begins with a byte: 0, then the value; else 0x80 | n | 8 if what follows is a deflate
stream without a header, the length of the value in n bytes (big-endian), and the stream (MariaDB `sql/field_comp.cc`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from binlog_merge.binlog.constants import ROWS_V1_TYPES, EventType, MetadataType, RowsFlag
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.mariadb import inflated
from binlog_merge.binlog.optional_metadata import DefaultCharset, OptionalMetadata
from binlog_merge.binlog.rows import ABSENT, PartialJson, RowImage, RowsEvent, iter_rows, join_rows, row_padding
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.binlog.wire import Buffer
from binlog_merge.errors import UnsupportedInput
from binlog_merge.mariadb_nodes.collations import mysql_id

_V2: Final = {
    EventType.WRITE_ROWS_EVENT_V1: EventType.WRITE_ROWS_EVENT,
    EventType.UPDATE_ROWS_EVENT_V1: EventType.UPDATE_ROWS_EVENT,
    EventType.DELETE_ROWS_EVENT_V1: EventType.DELETE_ROWS_EVENT,
}
_TABLE_FLAGS: Final = 0x0001
_ROWS_FLAGS: Final = int(
    RowsFlag.STMT_END_F | RowsFlag.NO_FOREIGN_KEY_CHECKS_F | RowsFlag.RELAXED_UNIQUE_CHECKS_F | RowsFlag.COMPLETE_ROWS_F
)
_NO_EXTRA: Final = b"\x02\x00"
_FLAGS_AT: Final = 6
_HEAD: Final = 8


@dataclass(frozen=True, slots=True)
class TranslatedMap:
    """A table map for MySQL, and by column what makes a cell of it; `body` is the packed map."""

    source: TableMap
    target: TableMap
    body: bytes
    cells: dict[int, Callable[[bytes], bytes]]


def translated_map(body: bytes) -> TranslatedMap:
    """Return the table map that MySQL takes for one of MariaDB. Raises BinlogFormatError, UnsupportedInput."""
    table = TableMap.parse(body, mariadb=True)
    types, metas = bytearray(table.types), list(table.metas)
    cells: dict[int, Callable[[bytes], bytes]] = {}
    for i, kind in enumerate(table.types):
        if kind == T.BLOB_COMPRESSED:
            types[i] = T.BLOB
            cells[i] = _cell(table.metas[i], table.metas[i])
        elif kind == T.VARCHAR_COMPRESSED:
            # The stored value has a byte more, which says whether it is compressed.
            types[i], metas[i] = T.VARCHAR, table.metas[i] - 1
            cells[i] = _cell(*(1 if most < 256 else 2 for most in (table.metas[i], metas[i])))
    target = replace(table, types=bytes(types), metas=tuple(metas), flags=table.flags & _TABLE_FLAGS)
    target = target.with_optional(_metadata(table.optional, f"{table.schema}.{table.table}"))
    return TranslatedMap(table, target, target.pack(), cells)


def translated_rows(type_code: int, body: bytes, table: TranslatedMap | None) -> tuple[int, bytes]:
    """Return the type and body of a rows event for MySQL."""
    if table is not None and table.cells:
        event = RowsEvent.parse(type_code, body)
        rows = [(_image(before, table), _image(after, table)) for before, after in iter_rows(event, table.source)]
        body = join_rows(event, rows, table.target, row_padding(event)).pack()
    flags = (body[_FLAGS_AT] & _ROWS_FLAGS).to_bytes(1, "little") + b"\0"
    if type_code in ROWS_V1_TYPES:
        return _V2[EventType(type_code)], b"".join((body[:_FLAGS_AT], flags, _NO_EXTRA, body[_HEAD:]))
    return type_code, b"".join((body[:_FLAGS_AT], flags, body[_HEAD:]))


def _image(image: RowImage | None, table: TranslatedMap) -> RowImage | None:
    if image is None:
        return None
    cells = list(image)
    for i, changed in table.cells.items():
        cell = cells[i]
        if cell is not None and cell is not ABSENT and not isinstance(cell, PartialJson):
            cells[i] = changed(bytes(cell))
    return tuple(cells)


def _cell(before: int, after: int) -> Callable[[bytes], bytes]:
    """Return what makes a plain cell of a compressed one; the lengths of their length prefixes are given."""

    def plain(cell: bytes) -> bytes:
        value = uncompressed_value(cell[before:])
        return len(value).to_bytes(after, "little") + value

    return plain


def uncompressed_value(stored: Buffer) -> bytes:
    """Return the value of a compressed column. Raises BinlogFormatError."""
    if not len(stored) or not stored[0]:
        return bytes(stored[1:])
    head = stored[0]
    size = head & 0x07
    if head & 0xF0 != 0x80 or not size:
        raise BinlogFormatError(f"a compressed column's value begins with {head:#x}, which is not known")
    length = int.from_bytes(stored[1 : 1 + size], "big")
    return inflated(bytes(stored[1 + size :]), length, raw=bool(head & 0x08))


def _metadata(known: OptionalMetadata | None, table: str) -> OptionalMetadata | None:
    if known is None:
        return None
    own = known.unknown or known.visibility is not None or known.vector_dimensions is not None
    if own:
        kinds = [kind for kind in known.order if kind <= MetadataType.ENUM_AND_SET_COLUMN_CHARSET]
        known = replace(known, unknown=(), visibility=None, vector_dimensions=None, order=tuple(kinds))
    return replace(
        known,
        default_charset=_mapped(known.default_charset, table),
        column_charset=_each(known.column_charset, table),
        enum_and_set_default_charset=_mapped(known.enum_and_set_default_charset, table),
        enum_and_set_column_charset=_each(known.enum_and_set_column_charset, table),
    )


def _mapped(value: DefaultCharset | None, table: str) -> DefaultCharset | None:
    if value is None:
        return None
    exceptions = tuple((i, _id(number, table)) for i, number in value.exceptions)
    return DefaultCharset(_id(value.collation, table), exceptions)


def _each(value: tuple[int, ...] | None, table: str) -> tuple[int, ...] | None:
    return None if value is None else tuple(_id(number, table) for number in value)


def _id(number: int, table: str) -> int:
    found = mysql_id(number)
    if found is None:
        raise UnsupportedInput(
            f"the collation {number} of a column of {table} is not known",
            remedy="give the column another collation on the node, and begin with the files behind that",
        )
    return found
