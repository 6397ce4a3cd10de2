"""A key has one hash, whatever its column has become."""

import struct
from decimal import Decimal

from binlog_merge.binlog.constants import ColumnType, EventType
from binlog_merge.binlog.decimals import encode_decimal
from binlog_merge.binlog.optional_metadata import OptionalMetadata
from binlog_merge.binlog.rows import RowsEvent
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.streams.hashing import Hashing


def part_of(kind: int, meta: int, cell: bytes) -> int:
    """Return which of many streams has a row whose key is this cell."""
    by_first = OptionalMetadata(simple_primary_key=(0,), order=(8,))
    table = TableMap(1, 0, "s", "t", bytes([kind]), (meta,), b"\0").with_optional(by_first)
    event = RowsEvent.parse(EventType.WRITE_ROWS_EVENT, b"\1\0\0\0\0\0\1\0\2\0\1\xff\0" + cell)
    ((_, before, now),) = Hashing("key", 1, 1000, None).routed(event, table, None)
    assert before == now
    return now


def test_a_wider_column_and_zeros_change_no_hash() -> None:
    for text in ("0", "50", "-50", "1.5", "-1234567.89", "0.01", "100.10"):
        cells = {(p, s): encode_decimal(Decimal(text), p, s) for p, s in ((9, 2), (12, 2), (12, 3), (40, 30))}
        kind = int(ColumnType.NEWDECIMAL)
        assert len({part_of(kind, p | s << 8, cell) for (p, s), cell in cells.items()}) == 1, text
    zeros = {part_of(int(ColumnType.DOUBLE), 8, struct.pack("<d", zero)) for zero in (0.0, -0.0)}
    single = {part_of(int(ColumnType.FLOAT), 4, struct.pack("<f", number)) for number in (0.0, 0.5)}
    assert len(zeros) == 1 and zeros < single
