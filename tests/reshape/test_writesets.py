"""What transactions depend on where rows are not known, and by foreign keys between types that differ."""

import random
import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from binlog_merge.binlog.constants import ColumnType as T
from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.encode import encode_cell
from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.header import pack_event
from binlog_merge.binlog.kernels import writesets as w
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

Row = tuple[Table, bytes] | tuple[Table, bytes, bool]
"""A table, a row's cells; whether its moments are in the formats of before MySQL 5.6."""
OLD = {T.TIMESTAMP2: T.TIMESTAMP, T.DATETIME2: T.DATETIME, T.TIME2: T.TIME}


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
    for of, row, *is_old in rows:
        columns = [from_definition(column) for column in of.columns]
        types, metas = bytes(c.type for c in columns), tuple(c.meta for c in columns)
        if any(is_old):
            types = bytes(OLD.get(T(kind), kind) for kind in types)
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


def _moments(name: str) -> list[datetime | timedelta]:
    chance = random.Random(name)
    if name == "time":
        return [timedelta(seconds=chance.randint(-3020399, 3020399)) for _ in range(40)] + [timedelta()]
    last = 2**31 - 1 if name == "timestamp" else 2**35
    zone = UTC if name == "timestamp" else None
    return [datetime.fromtimestamp(chance.randint(1, last), UTC).replace(tzinfo=zone) for _ in range(40)]


@pytest.mark.parametrize("name", ["timestamp", "datetime", "time"])
def test_a_moment_is_the_same_in_the_format_of_before_5_6(name: str) -> None:
    """Two shards, of which one was upgraded in place, write into one table: its maps differ under one number."""
    new = {"timestamp": T.TIMESTAMP2, "datetime": T.DATETIME2, "time": T.TIME2}[name]
    events = table("events", Column("at", ColumnType(name), nullable=False))
    moments = _moments(name)
    rows: list[tuple[list[Row], bool]] = []
    for number, moment in enumerate(moments):
        cells = encode_cell(new, 0, moment), encode_cell(OLD[new], 0, moment)
        assert cells[0] != cells[1]
        is_old = number % 2 == 0
        rows += [([(events, cells[old], bool(old))], False) for old in (is_old, not is_old)]
    found = depends([events], *rows)
    assert found == [0 if number % 2 else number - 1 for number in range(1, 2 * len(moments) + 1)]


WIDE = table(
    "wide", Column("id", INT, nullable=False), Column("a", VARCHAR), *(Column(f"c{n}", INT) for n in range(9)),
    Column("b", ColumnType("blob")),
)  # fmt: skip


def _wide_row(chance: random.Random) -> bytes:
    """Return a row, its NULLs first, of which some have none."""
    cells = [number(chance.randrange(40)), text("x" * chance.randrange(60)), *(number(1) for _ in range(9))]
    cells.append(struct.pack("<H", n := chance.randrange(300)) + bytes(n))
    nulls = 0 if chance.random() < 0.4 else chance.randrange(1 << len(cells)) & ~1
    kept = b"".join(cell for place, cell in enumerate(cells) if not nulls >> place & 1)
    return nulls.to_bytes(2, "little") + kept


def _rows_events(seed: int, kind: EventType, damage: bool) -> list[tuple[int, bytes]]:
    chance = random.Random(seed)
    columns = [from_definition(column) for column in WIDE.columns]
    types, metas = bytes(c.type for c in columns), tuple(c.meta for c in columns)
    table_map = TableMap(7, 1, "d", "wide", types, metas, b"\xfe\x0f")
    both = b"\xff\x0f"
    images = {EventType.WRITE_ROWS_EVENT: (None, both), EventType.DELETE_ROWS_EVENT: (both, None)}
    rows = b"".join(_wide_row(chance) for _ in range(2 * chance.randrange(1, 5)))
    if damage:
        rows = rows[: -chance.randrange(1, 9)] if chance.random() < 0.5 else rows[:6] + b"\xff" * 9 + rows[15:]
    event = RowsEvent(kind, 7, 1, b"", len(columns), *images.get(kind, (both, both)), rows)
    begin = (EventType.QUERY_EVENT, bytes(14) + b"BEGIN")
    named = (EventType.ROWS_QUERY_LOG_EVENT, b"\x3d# CTS::" + KEY.text().encode())
    maps = (EventType.TABLE_MAP_EVENT, table_map.pack())
    return [begin, named, maps, (kind, event.pack()), (EventType.XID_EVENT, bytes(8))]


@pytest.mark.parametrize("damage", [False, True])
def test_rows_of_a_plain_key_are_taken_as_others_are(damage: bool) -> None:
    """A table whose only key is one column of a fixed length has a shorter way."""
    kinds = [EventType.WRITE_ROWS_EVENT, EventType.UPDATE_ROWS_EVENT, EventType.DELETE_ROWS_EVENT]
    found = []
    for is_plain in (True, False):
        taken = Writesets(lambda *_: TableVersion(ORIGIN, 1, "d", "wide", WIDE), lambda _: {})
        known, histories = taken.learn, []

        def learn(table_map: TableMap, key: OrderKey | None, known: Any = known, taken: Writesets = taken) -> int:
            of: int = known(table_map, key)
            assert taken.sets.tables[of, w.T_PLAIN]
            return of

        taken.learn = learn  # type: ignore[method-assign]
        for seed in range(300):
            gtid = bytes(25) + b"\2" + struct.pack("<qq", seed, seed + 1) + bytes(7) + b"\x80" + bytes(4)
            data = bytearray()
            for kind, body in [(EventType.GTID_LOG_EVENT, gtid), *_rows_events(seed, kinds[seed % 3], damage)]:
                data += pack_event(kind, body, timestamp=1, server_id=1, position=len(data))
            taken.sets.tables[:, w.T_PLAIN] *= is_plain
            try:
                taken.take(np.frombuffer(data, np.uint8), len(data), False)
                histories.append(taken.history())
            except BinlogFormatError:
                histories.append(None)
                taken.sets.reg[w.GROUP] = -1
        found.append(histories)
    assert found[0] == found[1] and (None in found[0]) is damage
