"""The table map as witness: types and metadata as a real MySQL 9.7.4 wrote them (`types` column by column)."""

from dataclasses import replace
from pathlib import Path

import pytest

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.header import walk
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.errors import UnsupportedInput
from binlog_merge.reshape.witness import check_witness
from binlog_merge.values.from_table_map import table_from_table_map
from binlog_merge.values.types import binlog_column
from snapshot_store.ddl.apply.statement import apply_ddl
from snapshot_store.model import Catalog, Column, Index, IndexPart, Schema, Table
from snapshot_store.mysql.column_type import ColumnType
from tests.mysql_server import MySqlServer

UTF8 = {"charset": "utf8mb4", "collation": "utf8mb4_0900_ai_ci"}


@pytest.mark.parametrize(
    ("kind", "code", "meta"),
    [
        (ColumnType("tinyint"), 1, ""),
        (ColumnType("smallint"), 2, ""),
        (ColumnType("mediumint"), 9, ""),
        (ColumnType("int"), 3, ""),
        (ColumnType("bigint", unsigned=True), 8, ""),
        (ColumnType("decimal", 10, 3), 246, "0a03"),
        (ColumnType("decimal"), 246, "0a00"),
        (ColumnType("decimal", 65, 30), 246, "411e"),
        (ColumnType("float", 7, 4), 4, "04"),
        (ColumnType("double"), 5, "08"),
        (ColumnType("bit", 1), 16, "0100"),
        (ColumnType("bit", 10), 16, "0201"),
        (ColumnType("bit", 16), 16, "0002"),
        (ColumnType("bit", 64), 16, "0008"),
        (ColumnType("year"), 13, ""),
        (ColumnType("date"), 10, ""),
        (ColumnType("time", fsp=3), 19, "03"),
        (ColumnType("datetime", fsp=6), 18, "06"),
        (ColumnType("timestamp"), 17, "00"),
        (ColumnType("char", 10, **UTF8), 254, "fe28"),
        (ColumnType("char", 255, **UTF8), 254, "cefc"),
        (ColumnType("char", 10, charset="latin1"), 254, "fe0a"),
        (ColumnType("char", 85, charset="utf8mb3"), 254, "feff"),
        (ColumnType("char", 100, charset="utf32"), 254, "ee90"),
        (ColumnType("char", 0, **UTF8), 254, "fe00"),
        (ColumnType("binary", 200), 254, "fec8"),
        (ColumnType("varchar", 10, **UTF8), 15, "2800"),
        (ColumnType("varchar", 300, charset="latin1"), 15, "2c01"),
        (ColumnType("varbinary", 10), 15, "0a00"),
        (ColumnType("tinytext", **UTF8), 252, "01"),
        (ColumnType("text", **UTF8), 252, "02"),
        (ColumnType("mediumblob"), 252, "03"),
        (ColumnType("longblob"), 252, "04"),
        (ColumnType("enum", members=("a",)), 254, "f701"),
        (ColumnType("enum", members=tuple(map(str, range(256)))), 254, "f702"),
        (ColumnType("set", members=tuple(map(str, range(8)))), 254, "f801"),
        (ColumnType("set", members=tuple(map(str, range(25)))), 254, "f804"),
        (ColumnType("set", members=tuple(map(str, range(33)))), 254, "f808"),
        (ColumnType("json"), 245, "04"),
        (ColumnType("geometry"), 255, "04"),
        (ColumnType("geomcollection"), 255, "04"),
        (ColumnType("vector", 3), 242, "04"),
    ],
)
def test_binlog_column(kind: ColumnType, code: int, meta: str) -> None:
    assert binlog_column(Column("c", kind)) == (code, int.from_bytes(bytes.fromhex(meta), "little"))


@pytest.mark.parametrize("kind", [ColumnType("uuid"), ColumnType("char", 3, charset="klingon")])
def test_what_mysql_has_not(kind: ColumnType) -> None:
    with pytest.raises(UnsupportedInput):
        binlog_column(Column("c", kind))


# create table v1 (a vector(2), b varchar(3), j json, g geometry, c text, e enum('a'), bt bit(3), y year, d date,
# i int unsigned), as 9.7.4 wrote its table map with binlog_row_metadata=FULL
V1 = bytes.fromhex(
    "750000000000 0100 01 64 00 02 7631 00 0a f20ff5fffcfe100d0a03 0a 04 0c00 04 04 02 f701 0300 ff03"
    "0101c0 0205fcff00003f 070100 0d0102 0415 0161 0162 016a 0167 0163 0165 026274 0179 0164 0169"
    "0a03fcff00 0603010161 0c02ffc0"
)
TABLE_V1 = Table(
    "d",
    "v1",
    (
        Column("a", ColumnType("vector", 2)),
        Column("b", ColumnType("varchar", 3, **UTF8)),
        Column("j", ColumnType("json")),
        Column("g", ColumnType("geometry")),
        Column("c", ColumnType("text", **UTF8)),
        Column("e", ColumnType("enum", members=("a",), **UTF8)),
        Column("bt", ColumnType("bit", 3)),
        Column("y", ColumnType("year")),
        Column("d", ColumnType("date")),
        Column("i", ColumnType("int", unsigned=True)),
    ),
)


def with_column(at: int, **changes: object) -> Table:
    columns = list(TABLE_V1.columns)
    name = changes.pop("rename", columns[at].name)
    columns[at] = replace(columns[at], name=name, type=replace(columns[at].type, **changes))
    return replace(TABLE_V1, columns=tuple(columns))


class TestCheck:
    table_map = TableMap.parse(V1)

    def test_agrees(self) -> None:
        assert check_witness(TABLE_V1, self.table_map) is None

    @pytest.mark.parametrize(
        ("table", "said"),
        [
            (replace(TABLE_V1, columns=TABLE_V1.columns[:-1]), "10 columns against 9"),
            (with_column(1, length=4), "column 2, b: VARCHAR of 12 bytes against VARCHAR of 16 bytes"),
            (with_column(9, name="bigint"), "column 10, i: INT against BIGINT"),
            (with_column(9, unsigned=False), "column 10, i: UNSIGNED against int"),
            (with_column(8, rename="day"), "column 9, day: is named d"),
            (with_column(4, charset="latin1"), "character set utf8mb4 against latin1"),
            (with_column(5, members=("b",)), "members ('a',) against ('b',)"),
        ],
    )
    def test_disagrees(self, table: Table, said: str) -> None:
        found = check_witness(table, self.table_map)
        assert found is not None and said in found
        assert "table map of d.v1 has 10 columns (a VECTOR, b VARCHAR of 12 bytes" in found
        assert f"schema history of d.v1 has {len(table.columns)} columns (a VECTOR" in found

    def test_case_and_collation_do_not_matter(self) -> None:
        assert check_witness(with_column(1, rename="B", collation="utf8mb4_bin"), self.table_map) is None

    def test_without_metadata_only_types_count(self) -> None:
        assert check_witness(with_column(9, unsigned=False, rename="x"), self.table_map.with_optional(None)) is None

    def test_temporal_columns_of_old_servers(self) -> None:
        table = Table("d", "t", (Column("at", ColumnType("datetime")), Column("t", ColumnType("time"))))
        old = TableMap(1, 0, "d", "t", bytes([12, 11]), (0, 0), b"\x03")
        assert check_witness(table, old) is None
        assert check_witness(replace(table, columns=(table.columns[0], table.columns[0])), old) is not None


class TestTableFromTableMap:
    def test_full_metadata(self) -> None:
        assert table_from_table_map(TableMap.parse(V1)) == TABLE_V1

    def test_less_is_not_enough(self) -> None:
        assert table_from_table_map(TableMap.parse(V1).with_optional(None)) is None

    def test_primary_key_with_prefix(self) -> None:
        # create table t3 (a varchar(20), b int, c varchar(30) character set latin1, primary key (b, a(3)))
        body = bytes.fromhex(
            "730000000000 0100 01 64 00 02 7433 00 03 0f030f 04 5000 1e00 04 010100 0304fcff0008 0406016101620163"
            "090401000003 0c01e0"
        )
        table = table_from_table_map(TableMap.parse(body))
        assert table is not None
        assert table.indexes == (Index("PRIMARY", (IndexPart("b"), IndexPart("a", 3)), unique=True),)
        assert [column.nullable for column in table.columns] == [False, False, True]


ALL_TYPES = """
CREATE TABLE t (
  ti tinyint, tiu tinyint unsigned, si smallint, mi mediumint unsigned, i int(6) zerofill, bi bigint, b bool,
  de decimal(10,3), de2 decimal(65,30) unsigned, f float, d double, f2 float(7,4), r real, n numeric(5),
  bit1 bit, bit10 bit(10), bit64 bit(64), y year, da date, t time, t3 time(3), dt datetime, dt6 datetime(6),
  ts timestamp null, ts2 timestamp(2) null, ch char(10), ch255 char(255), chl char(10) character set latin1,
  bin binary(200), ch0 char(0), vc varchar(10), vc300 varchar(300) character set latin1, vb varbinary(10),
  ch85 char(85) character set utf8mb3, u32 char(100) character set utf32, tt tinytext, tx text character set latin1,
  mt mediumtext, lt longtext, tb tinyblob, bl blob, mb mediumblob, lb longblob, e enum('a','b','x '),
  s set('p','q','r'), e3 enum('é','ü') character set latin1, sb set('a','b') character set binary, j json,
  g geometry, p point srid 4326, mp multipolygon, gc geometrycollection, v vector(3), v0 vector,
  gv int as (i+1) virtual, gs int as (i+2) stored, inv int invisible, nn int not null default 5,
  sm serial, tx10 text(10), bl300 blob(300), nc nchar(3), nv nvarchar(3),
  KEY kf ((i+7)), KEY kf2 ((concat(vc,'x')))
)
"""


@pytest.mark.mysql
@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
def test_every_type_as_a_server_writes_it(mysql_server: MySqlServer, metadata: str) -> None:
    mysql_server.execute("CREATE DATABASE d")
    mysql_server.execute(f"SET sql_mode='', GLOBAL binlog_row_metadata={metadata}; USE d; {ALL_TYPES}")
    try:
        mysql_server.execute("INSERT INTO t (ti) VALUES (1)", "d")
    finally:
        mysql_server.execute("SET GLOBAL binlog_row_metadata=FULL")
    (table_map,) = table_maps(mysql_server.binlog_files()[-1])
    catalog = Catalog({"d": Schema("d")})
    table = apply_ddl(catalog, ALL_TYPES, "d").catalog.tables["d", "t"]
    assert check_witness(table, table_map) is None
    described = table_from_table_map(table_map)
    if metadata == "MINIMAL":
        assert described is None
        return
    assert described is not None and check_witness(described, table_map) is None
    for known, seen in zip(table.columns, described.columns, strict=True):
        assert binlog_column(known) == binlog_column(seen)
        assert (known.name, known.nullable, known.invisible) == (seen.name, seen.nullable, seen.invisible)
        assert (known.type.name, known.type.charset, known.type.collation) == (
            seen.type.name,
            seen.type.charset,
            seen.type.collation,
        )


def table_maps(path: Path) -> list[TableMap]:
    events = walk(path.read_bytes(), path.name)
    return [TableMap.parse(e.body) for e in events if e.type_code == EventType.TABLE_MAP_EVENT]
