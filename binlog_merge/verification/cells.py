"""Checks that the cells of row images are valid: digits of decimals, dates, JSON, members, NULL.

Lengths are right already, as rows were cut by their table map. Integers and texts may have any bytes.
"""

import math
from collections.abc import Callable, Iterator
from typing import Final

from binlog_merge.binlog.cell_length import real_type, type_name
from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.decode import decode_cell
from binlog_merge.binlog.errors import BinlogFormatError, CellValueError
from binlog_merge.binlog.json_diff import parse_diffs
from binlog_merge.binlog.rows import ABSENT, PartialJson, Row, RowImage
from binlog_merge.binlog.table_map import TableMap

_DECODED: Final = frozenset(
    {T.NEWDECIMAL, T.DATE, T.NEWDATE, T.TIME, T.TIME2, T.DATETIME, T.DATETIME2, T.TIMESTAMP, T.TIMESTAMP2, T.JSON}
    | {T.VECTOR, T.ENUM, T.SET, T.BIT, T.FLOAT, T.DOUBLE}
)
"""Types for which some bytes of the right length are invalid."""
_Check = Callable[[memoryview | bytes], None]


class CellChecks:
    """Checks the rows of a table map. Raises BinlogFormatError with the column."""

    def __init__(self, table: TableMap) -> None:
        self._name = f"{table.schema}.{table.table}"
        self._required = [i for i in range(table.column_count) if not table.nullable(i)]
        members = table.members()
        self._checks = [
            (i, _check(kind, meta, None if members[i] is None else len(members[i] or ())))
            for i, (kind, meta) in enumerate(zip(table.types, table.metas, strict=True))
            if real_type(kind, meta) in _DECODED
        ]

    def check(self, row: Row) -> None:
        """Check a row's images."""
        for image in row:
            if image is not None:
                for column, wrong in self._wrong(image):
                    raise BinlogFormatError(f"rows event of {self._name}, column {column + 1}: {wrong}")

    def _wrong(self, image: RowImage) -> Iterator[tuple[int, str]]:
        for i in self._required:
            if image[i] is None:
                yield i, "NULL, where the table map has NOT NULL"
        for i, check in self._checks:
            cell = image[i]
            try:
                if isinstance(cell, PartialJson):
                    parse_diffs(bytes(cell.cell)[4:])
                elif cell is not None and cell is not ABSENT:
                    check(cell)
            except (BinlogFormatError, CellValueError) as error:
                yield i, getattr(error, "reason", None) or str(error)


def _check(code: int, meta: int, members: int | None) -> _Check:
    kind = real_type(code, meta)

    def check(cell: memoryview | bytes) -> None:
        if kind == T.JSON and len(cell) == meta:
            return  # of no bytes: the NULL of a JSON column that is NOT NULL
        value = decode_cell(code, meta, cell)
        beyond = members is not None and (
            (kind == T.ENUM and value > members) or (kind == T.SET and value >> members != 0)
        )
        if beyond:
            raise BinlogFormatError(f"{type_name(kind)} value {value} of {members} members")
        if isinstance(value, float) and not math.isfinite(value):
            raise BinlogFormatError(f"{type_name(kind)} value {value}")
        if kind == T.BIT and value >> _bits(meta):
            raise BinlogFormatError(f"BIT({_bits(meta)}) value {value}")

    return check


def _bits(meta: int) -> int:
    return (meta & 0xFF) + (meta >> 8) * 8
