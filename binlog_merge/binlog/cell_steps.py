"""Translates a table map to the steps by which the kernel `row_lengths` measures row images."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from binlog_merge.binlog.cell_length import CELL_LENGTH, real_type, string_max_length, type_name
from binlog_merge.binlog.constants import ColumnType
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.table_map import TableMap

T = ColumnType
_BLOBS: Final = frozenset({T.TINY_BLOB, T.BLOB, T.MEDIUM_BLOB, T.LONG_BLOB, T.GEOMETRY, T.JSON, T.VECTOR})
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
    if type_code in (T.VARCHAR, T.VAR_STRING):
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
