"""What transactions depend on where rows are not known, and by foreign keys between types that differ."""

import struct
from collections.abc import Sequence

import numpy as np
import pytest

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.header import pack_event
from binlog_merge.binlog.rows import RowsEvent
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.reshape.metadata import from_definition
from binlog_merge.reshape.writesets import Writesets, references_of
from snapshot_store.history import TableVersion
from snapshot_store.model import Column, ForeignKey, Index, IndexPart, Table
from snapshot_store.mysql.column_type import ColumnType
from snapshot_store.tso import ORIGIN, OrderKey

INT = ColumnType("int")
SPANISH = ColumnType("varchar", 20, charset="utf8mb4", collation="utf8mb4_spanish_ci")
VARCHAR = ColumnType("varchar", 20, charset="utf8mb4", collation="utf8mb4_0900_ai_ci")
CHAR = ColumnType("char", 9, charset="utf8mb4", collation="utf8mb4_0900_ai_ci")
KEY = OrderKey(1 << 60, 1, 0, 0)

Row = tuple[Table, bytes]


def table(name: str, *columns: Column, parent: str | None = None) -> Table:
    """Return a table whose first column is the primary key; its second one refers to that of `parent`."""
    primary = Index("PRIMARY", (IndexPart(columns[0].name),), unique=True)
    keys = () if parent is None else (ForeignKey("f", (columns[1].name,), (None, parent), ("id",)),)
    return Table("d", name, columns, (primary,), foreign_keys=keys)


def _events(number: int, rows: Sequence[Row], deletes: bool) -> list[tuple[int, bytes]]:
    events = [
        (EventType.QUERY_EVENT, bytes(14) + b"BEGIN"),
        (EventType.ROWS_QUERY_LOG_EVENT, b"\x3d# CTS::" + KEY._replace(transaction_id=number).text().encode()),
    ]
    for of, row in rows:
        columns = [from_definition(column) for column in of.columns]
        types, metas = bytes(c.type for c in columns), tuple(c.meta for c in columns)
        table_map = TableMap(len(of.name), 1, "d", of.name, types, metas, b"\0")
        events.append((EventType.TABLE_MAP_EVENT, table_map.pack()))
        present = bytes([(1 << len(columns)) - 1])
        made = (None, present) if not deletes else (present, None)
        kind = EventType.DELETE_ROWS_EVENT if deletes else EventType.WRITE_ROWS_EVENT
        event = RowsEvent(kind, len(of.name), 1, b"", len(columns), *made, b"\0" + row)
        events.append((kind, event.pack()))
    return [*events, (EventType.XID_EVENT, bytes(8))]


def depends(known: Sequence[Table], *transactions: tuple[Sequence[Row], bool]) -> list[int]:
    """Return what each transaction depends on: rows of tables, and whether they are deleted."""
    versions = {of.name: TableVersion(ORIGIN, 1, "d", of.name, of) for of in known}
    found = Writesets(lambda schema, name, key: versions.get(name), lambda key: references_of(known))
    parents = np.zeros((len(transactions), 2), np.int64)
    for number, (rows, deletes) in enumerate(transactions, 1):
        gtid = bytes(25) + b"\2" + struct.pack("<qq", number - 1, number) + bytes(7) + b"\x80" + bytes(4)
        data = bytearray()
        for kind, body in [(EventType.GTID_LOG_EVENT, gtid), *_events(number, rows, deletes)]:
            data += pack_event(kind, body, timestamp=1, server_id=1, position=len(data))
        found.take(np.frombuffer(data, np.uint8), len(data), False, parents[number - 1 :])
    return [int(parent) for _, parent in parents]


def text(value: str, fill: bytes = b"") -> bytes:
    """Return the cell of a text of at most 255 bytes."""
    data = value.encode() + fill
    return bytes([len(data)]) + data


def number(value: int) -> bytes:
    return struct.pack("<i", value)


PARENT = table("parents", Column("id", INT, nullable=False))
CHILD = table("children", Column("id", INT, nullable=False), Column("parent", INT), parent="parents")
OTHER = table("others", Column("id", INT, nullable=False))


def test_all_wait_for_rows_of_a_table_that_is_not_known() -> None:
    """What refers to them is looked for by keys, and so are they when the table is known later on."""
    rows = [([(OTHER, number(1))], False), ([(PARENT, number(7))], False), ([(CHILD, number(1) + number(7))], False)]
    assert depends([PARENT, CHILD, OTHER], *rows, ([(OTHER, number(2))], False)) == [0, 0, 2, 0]
    assert depends([CHILD, OTHER], *rows, ([(OTHER, number(2))], False)) == [0, 1, 2, 2]


def test_rows_that_go_with_others_wait_where_values_are_not_known() -> None:
    """A delete of a row that others refer to may remove some, whatever is known of its key."""
    parent = table("parents", Column("id", SPANISH, nullable=False))
    child = table("children", Column("id", INT, nullable=False), Column("parent", SPANISH), parent="parents")
    rows = [([(OTHER, number(1))], False), ([(parent, text("a"))], True), ([(OTHER, number(2))], False)]
    assert depends([parent, child, OTHER], *rows) == [0, 1, 2]


@pytest.mark.parametrize(
    ("parent", "child", "of_parent", "of_child"),
    [
        (ColumnType("binary", 4), ColumnType("varbinary", 9), text("a"), text("a", bytes(3))),
        (ColumnType("varbinary", 300), ColumnType("binary", 4), b"\4\0a\0\0\0", text("a")),
        (VARCHAR, CHAR, text("a", b" "), text("a")),
    ],
)
def test_a_row_waits_for_that_which_it_refers_to_of_another_type(
    parent: ColumnType, child: ColumnType, of_parent: bytes, of_child: bytes
) -> None:
    """What fills up a BINARY or a CHAR is not in its cells."""
    parents = table("parents", Column("id", parent, nullable=False))
    children = table("children", Column("id", INT, nullable=False), Column("parent", child), parent="parents")
    first, second = ([(parents, of_parent)], False), ([(children, number(1) + of_child)], False)
    assert depends([parents, children, OTHER], ([(OTHER, number(1))], False), first, second) == [0, 0, 2]
