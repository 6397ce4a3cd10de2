"""The render kernel against its twin in plain Python, `reshape.rows.reshape_rows`, over made-up tables and rows."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.kernels import render
from binlog_merge.binlog.kernels import render_layout as k
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.pipeline.gather.plans import PlanTable
from binlog_merge.pipeline.gather.values import Schemas
from binlog_merge.reshape.metadata import from_definition
from binlog_merge.reshape.plan_of import make_plan, rewrite_rows
from binlog_merge.reshape.writesets import OFF
from binlog_merge.values.convert.cells import ConversionError
from snapshot_store.history import SchemaHistory, TableVersion
from snapshot_store.model import Column, Default, Index, IndexPart, Table
from snapshot_store.mysql.column_type import ColumnType
from snapshot_store.topology import Route, Topology
from snapshot_store.tso import ORIGIN, OrderKey
from tests.effort import effort
from tests.merge_e2e.editing import Log, Piece, pack

KEY = OrderKey(1 << 60, 1, 0, 0)
UTF8 = {"charset": "utf8mb4", "collation": "utf8mb4_0900_ai_ci"}
TYPES = (
    ColumnType("int"),
    ColumnType("tinyint"),
    ColumnType("bigint", unsigned=True),
    ColumnType("varchar", 10, **UTF8),
    ColumnType("varchar", 300, **UTF8),
    ColumnType("char", 5, **UTF8),
    ColumnType("text", **UTF8),
    ColumnType("longblob"),
    ColumnType("decimal", 20, 6),
    ColumnType("datetime", fsp=3),
    ColumnType("bit", 11),
    ColumnType("double"),
    ColumnType("varbinary", 255),
)


def _cell(kind: ColumnType, size: int, fill: int) -> bytes:
    """Return a cell of a type; only its length means anything."""
    fixed = {"int": 4, "tinyint": 1, "bigint": 8, "decimal": 10, "datetime": 7, "bit": 2, "double": 8}
    data = bytes([fill]) * fixed.get(kind.name, size)
    if kind.name in fixed:
        return data
    width = {"char": 1, "text": 2, "longblob": 4, "varbinary": 1}.get(kind.name, 2 if kind.length == 300 else 1)
    return len(data).to_bytes(width, "little") + data


@dataclass(frozen=True)
class Shapes:
    """A physical table and the logical one."""

    physical: Table
    logical: Table

    def table_map(self, table_id: int = 9) -> bytes:
        columns = [from_definition(c) for c in self.physical.columns]
        nulls = ((1 << len(columns)) - 1).to_bytes((len(columns) + 7) // 8, "little")
        types, metas = bytes(c.type for c in columns), tuple(c.meta for c in columns)
        return TableMap(table_id, 1, self.physical.schema, self.physical.name, types, metas, nulls).pack()

    def plans(self) -> PlanTable:
        versions = [
            TableVersion(ORIGIN, 0, t.schema, t.name, t, node=node, origin="base")
            for node, t in (("n", self.physical), (None, self.logical))
        ]
        topology = Topology((Route("p", "t_0", "l", "t"),), frozenset({"hidden"}))
        return PlanTable(Schemas(SchemaHistory().with_versions(versions), topology), {1: "n"})


@st.composite
def shapes(draw: st.DrawFn, least: int = 1, most: int = 9) -> Shapes:
    """Make up a table, and a logical one with columns moved, left out and added, also to its key."""
    count = draw(st.integers(least, most))
    kinds = draw(st.lists(st.sampled_from(TYPES), min_size=count, max_size=count)) if count < 20 else None
    columns = [Column(f"c{i}", kinds[i] if kinds else TYPES[i % 3]) for i in range(count)]
    left = draw(st.permutations(columns)) if count < 20 else columns[::-1]
    left = list(left[: draw(st.integers(1, count))])
    for i in range(draw(st.integers(0, 3))):
        default = draw(st.sampled_from([None, Default("literal", "7")]))
        left.insert(draw(st.integers(0, len(left))), Column(f"new{i}", ColumnType("int"), default is None, default))
    key = tuple(IndexPart(column.name) for column in left if not column.nullable and draw(st.booleans()))
    indexes = (Index("PRIMARY", key, unique=True),) if key else ()
    return Shapes(Table("p", "t_0", tuple(columns)), Table("l", "t", tuple(left), indexes))


@st.composite
def rows_body(draw: st.DrawFn, of: Table, kind: int, flags: int = 1, table_id: int = 9) -> bytes:
    """Make up a rows event: any columns present, any of them NULL, one or more rows."""
    count = len(of.columns)
    width = (count + 7) // 8
    every = (1 << count) - 1
    images = 2 if kind in (24, 31) else 1
    some = st.one_of(st.just(every), st.integers(0, every))
    present = [draw(some) for _ in range(images)]
    head = table_id.to_bytes(6, "little") + struct.pack("<H", flags)
    if kind >= 30:
        extra = draw(st.sampled_from([b"", b"\x00\x03abc"]))
        head += struct.pack("<H", 2 + len(extra)) + extra
    head += bytes([count]) if count < 251 else b"\xfc" + count.to_bytes(2, "little")
    body = head + b"".join(p.to_bytes(width, "little") for p in present)
    seed = draw(st.randoms(use_true_random=False))
    for _ in range(draw(st.integers(1, 3))):
        for bitmap in present:
            here = [c for i, c in enumerate(of.columns) if bitmap >> i & 1]
            nulls = sum(1 << i for i in range(len(here)) if seed.random() < 0.3)
            unused = (1 << (8 * ((len(here) + 7) // 8))) - (1 << len(here))  # MySQL sets the bits that mean nothing
            body += (nulls | unused).to_bytes((len(here) + 7) // 8, "little")
            for i, column in enumerate(here):
                if not nulls >> i & 1:
                    size = seed.choice([0, 1, 5, 9])
                    body += _cell(column.type, size, seed.randrange(256))
    return body


def rendered(
    plans: PlanTable, events: Sequence[tuple[int, bytes]], room: int = 1 << 20
) -> list[tuple[int, bytes]] | int:
    """Return what the kernel writes for the events of one branch; or why it stopped."""
    data = bytearray(b"\xfebin")
    for kind, body in events:
        data += pack(Piece(1, kind, 1, 0, body), len(data), True)
    source, out = np.frombuffer(bytes(data), np.uint8)[4:].copy(), np.zeros(room, np.uint8)
    reg = np.zeros(k.REGISTERS, np.int64)
    reg[k.LAST_ROWS], reg[k.FILE_BASE], reg[k.TIMESTAMP], reg[k.SERVER_ID] = -1, 4, 77, 5
    inject = np.zeros(16, np.uint8)
    while True:
        reason = int(render.render_events(reg, plans.arrays, source, len(source), 4, 1, out, inject, OFF))
        if reason != k.NEW_PLAN:
            break
        at = int(reg[k.IN])
        size = int.from_bytes(source[at + 9 : at + 13].tobytes(), "little")
        plans.learn(1, source[at + 19 : at + size - 4].tobytes(), KEY)
    if reason != k.FINISHED:
        return reason
    log = Log.load(b"\xfebin" + out[: reg[k.OUT]].tobytes())
    assert log.pack() == b"\xfebin" + out[: reg[k.OUT]].tobytes()  # lengths, positions and checksums are right
    assert all((e.timestamp, e.server_id, e.flags) == (77, 5, 0) for e in log.events)
    return [(e.type, e.body) for e in log.events]


KINDS = st.sampled_from([23, 24, 25, 30, 31, 32])


def _compare(data: st.DataObject, shape: Shapes) -> None:
    kind = data.draw(KINDS)
    body = data.draw(rows_body(shape.physical, kind))
    plan = make_plan(TableMap.parse(shape.table_map()), shape.physical, shape.logical, 2)
    found = rendered(shape.plans(), [(19, shape.table_map()), (kind, body)])
    if plan.identity:
        assert isinstance(found, list) and found[1][1][6:] == body[6:]
        return
    try:
        wanted = rewrite_rows(plan, kind, body, 0)
    except ConversionError:
        assert found == k.SLOW
        return
    assert isinstance(found, list)
    assert found[0][0] == 19 and found[0][1][6:] == plan.out_table_map_body[6:]
    assert found[1][0] == kind and found[1][1][6:] == wanted[6:]


@given(st.data(), shapes())
@settings(max_examples=effort(125, 250), deadline=None)
def test_rows_are_rewritten_as_the_twin_does(data: st.DataObject, shape: Shapes) -> None:
    _compare(data, shape)


@given(st.data(), st.sampled_from([62, 64, 66, 249, 251, 254, 257, 300, 1200]))
@settings(max_examples=40, deadline=None)
def test_tables_of_many_columns(data: st.DataObject, count: int) -> None:
    _compare(data, data.draw(shapes(count, count)))


@given(st.data(), shapes(), st.binary(max_size=12), st.integers(0, 60))
@settings(max_examples=effort(100, 200), deadline=None)
def test_any_bytes_of_rows_are_taken_or_refused(data: st.DataObject, shape: Shapes, noise: bytes, at: int) -> None:
    kind = data.draw(KINDS)
    body = data.draw(rows_body(shape.physical, kind))
    body = body[:6] + body[6 : 6 + at] + noise + body[6 + at + len(noise) // 2 :]
    found = rendered(shape.plans(), [(19, shape.table_map()), (kind, body)], room=4096)
    assert isinstance(found, list) or found in (k.BAD_ROWS, k.SLOW, k.FULL, k.NO_TABLE_MAP)


MINE, ELSE = 9, 10


@given(st.lists(st.tuples(st.sampled_from([MINE, ELSE, 0xFFFFFF]), st.booleans()), max_size=12))
@settings(max_examples=effort(150, 300), deadline=None)
def test_the_end_of_a_statement_moves_to_the_last_rows_that_stay(events: list[tuple[int, bool]]) -> None:
    columns = (Column("a", ColumnType("int")),)
    shape = Shapes(Table("p", "t_0", columns), Table("l", "t", columns))
    hidden = Shapes(Table("hidden", "h", columns), shape.logical)
    row = b"\x01\xff\xfe\x2a\x00\x00\x00"
    stream = [(19, shape.table_map(MINE)), (19, hidden.table_map(ELSE))]
    kept: list[bool] = []
    last: int | None = None
    for table_id, ends in events:
        stream.append((30, table_id.to_bytes(6, "little") + struct.pack("<HH", ends, 2) + row))
        if table_id == MINE:
            last = len(kept)
            kept.append(ends)
        if ends:
            if last is not None:
                kept[last] = True
            last = None
    found = rendered(shape.plans(), stream)
    assert isinstance(found, list)
    assert [body[6] & 1 == 1 for kind, body in found if kind == 30] == kept


@pytest.mark.parametrize("kind", [23, 24, 25, 30, 31, 32])
def test_rows_of_no_columns_take_no_bytes(kind: int) -> None:
    # Each such row would be empty, so the kernel would never get to the end of them.
    shape = Shapes(
        Table("p", "t_0", (Column("a", ColumnType("int")), Column("b", ColumnType("int")))),
        Table("l", "t", (Column("b", ColumnType("int")), Column("c", ColumnType("int")))),
    )
    head = (9).to_bytes(6, "little") + b"\x01\x00" + (b"\x02\x00" if kind >= 30 else b"") + b"\x02"
    body = head + (b"\0\0" if kind in (24, 31) else b"\0") + b"left over"
    assert rendered(shape.plans(), [(19, shape.table_map()), (kind, body)]) == k.BAD_ROWS
    plan = make_plan(TableMap.parse(shape.table_map()), shape.physical, shape.logical, 2)
    with pytest.raises(BinlogFormatError):
        rewrite_rows(plan, kind, body, 0)
