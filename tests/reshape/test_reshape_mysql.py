"""Reshape against a real MySQL 9.7: what it writes for the logical table is what we make of the physical one's rows."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from binlog_merge.binlog.constants import ROWS_TYPES, EventType
from binlog_merge.binlog.header import walk
from binlog_merge.binlog.rows import RowsEvent, join_rows, present_columns, split_rows
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.reshape.pads import pad_cell
from binlog_merge.reshape.plan_of import make_plan, rewrite_rows
from snapshot_store.ddl.apply.statement import apply_ddl
from snapshot_store.model import Catalog, Schema, Table
from tests.binlog.written_rows import rows_of
from tests.mysql_server import MySqlServer

pytestmark = pytest.mark.mysql


def created(sql: str) -> Table:
    return next(iter(apply_ddl(Catalog({"d": Schema("d")}), sql, "d").catalog.tables.values()))


def events(path: Path) -> Iterator[tuple[TableMap, int, bytes]]:
    """Yield (table map, type, body) of every rows event."""
    maps: dict[int, TableMap] = {}
    for event in walk(path.read_bytes(), path.name):
        if event.type_code == EventType.TABLE_MAP_EVENT:
            table_map = TableMap.parse(event.body)
            maps[table_map.table_id] = table_map
        elif event.type_code in ROWS_TYPES:
            body = bytes(event.body)
            yield maps[int.from_bytes(body[:6], "little")], event.type_code, body


def tidy(type_code: int, body: bytes, table_map: TableMap) -> bytes:
    """Return a rows event with table id 9 and its unused bits 0, which servers set as they like."""
    event = RowsEvent.parse(type_code, body)

    def clean(bitmap: bytes | None) -> bytes | None:
        if bitmap is None:
            return None
        return sum(1 << i for i in present_columns(bitmap, event.column_count)).to_bytes(len(bitmap), "little")

    rows = split_rows(event, table_map)
    out = replace(
        event, table_id=9, present_before=clean(event.present_before), present_after=clean(event.present_after)
    )
    return join_rows(out, rows, table_map).pack()


COLUMNS = {
    "id": "int not null",
    "name": "varchar(20)",
    "flag": "tinyint unsigned not null",
    "note": "text character set latin1",
    "doc": "json",
    "big": "bigint unsigned",
    "kind": "enum('a','b') character set ascii",
    "tags": "set('x','y')",
    "price": "decimal(12,4)",
    "at": "datetime(3)",
    "place": "point",
    "bits": "bit(12)",
    "vec": "vector(2)",
    "made": "year",
}
PHYSICAL = list(COLUMNS)
LOGICAL = ["made", "doc", "tags", "at", "note", "id", "big", "place", "flag", "name", "vec", "price", "kind", "bits"]

DML = """
INSERT INTO {t} (id, name, flag, note, doc, big, kind, tags, price, `at`, place, bits, vec, made) VALUES
 (1, 'é', 1, 'n', '{{"a": [1, 2, 3], "b": "some text that is long enough to be worth a partial update"}}',
  18446744073709551615, 'a', 'x,y', -1.5, '2020-01-02 03:04:05.678', point(1, 2), b'101', to_vector('[1,2]'), 2024),
 (2, NULL, 2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO {t} (id, flag) VALUES (3, 3);
UPDATE {t} SET doc = JSON_SET(doc, '$.a[0]', 9), name = 'z' WHERE id = 1;
UPDATE {t} SET note = 'changed', flag = flag + 1 WHERE id > 0;
DELETE FROM {t} WHERE id > 1;
"""


@pytest.mark.parametrize(
    ("row_image", "partial"),
    [("FULL", ""), ("MINIMAL", ""), ("NOBLOB", ""), ("FULL", "PARTIAL_JSON"), ("MINIMAL", "PARTIAL_JSON")],
)
def test_the_same_changes_in_another_order_of_columns(mysql_server: MySqlServer, row_image: str, partial: str) -> None:
    shapes = {
        name: f"CREATE TABLE {name} ({', '.join(f'`{c}` {COLUMNS[c]}' for c in order)}, PRIMARY KEY (id, flag))"
        for name, order in (("p", PHYSICAL), ("l", LOGICAL))
    }
    mysql_server.execute("CREATE DATABASE d CHARACTER SET utf8mb4")
    session = f"SET binlog_row_image={row_image}, binlog_row_value_options='{partial}';"
    for name, sql in shapes.items():
        mysql_server.execute(f"{session} {sql}; {DML.format(t=name)}", "d")
    found = list(events(mysql_server.binlog_files()[-1]))
    physical = [event for event in found if event[0].table == "p"]
    logical = [event for event in found if event[0].table == "l"]
    assert len(physical) == len(logical) == 5
    if partial:
        assert EventType.PARTIAL_UPDATE_ROWS_EVENT in [type_code for _, type_code, _ in physical]
    tables = {name: created(sql) for name, sql in shapes.items()}
    for (source, type_code, body), (target, expected_type, expected) in zip(physical, logical, strict=True):
        plan = make_plan(source, tables["p"], tables["l"], 9)
        assert plan.out_table_map_body == replace(target, table_id=9).pack()
        assert type_code == expected_type
        assert rewrite_rows(plan, type_code, body, 0) == tidy(type_code, expected, target)


PADS = [
    "int",
    "int not null",
    "int default -7",
    "int unsigned default 0x41",
    "bigint default '12'",
    "tinyint(1) default true",
    "decimal(10,2) default 1.005",
    "decimal(10,2) not null",
    "float default 1e10",
    "double not null",
    "bit(9) default b'100000001'",
    "bit(9) not null",
    "year default 24",
    "year not null",
    "date default '2024-02-29'",
    "date not null",
    "datetime(3) default '2024-02-29 10:11:12.3456'",
    "datetime not null",
    "timestamp default '2024-02-29 10:11:12'",
    "timestamp(6) not null default '2024-02-29 10:11:12.123456'",
    "time(2) default '-10:11:12.345'",
    "time not null",
    "char(5) default 'ab '",
    "char(5) character set utf16 default 'é'",
    "char(5) not null",
    "varchar(5) default 'é '",
    "varchar(300) default ''",
    "varchar(5) character set gbk default '中'",
    "varchar(5) not null",
    "varchar(8) default '0x41'",
    "binary(4) default 'ab'",
    "binary(4) not null",
    "varbinary(4) default 0x4100",
    "varbinary(4) not null",
    "text not null",
    "text default ('it''s')",
    "blob not null",
    "enum('a','b') default 'B'",
    "enum('a','b') not null",
    "set('a','b','c') default 'c,a'",
    "set('a','b','c') not null",
    "json",
    "json default (json_array())",
    "json default (json_object())",
    "json default ('[]')",
    """json default ('{"b": 1, "aa": [1.5, "x", null, true, -70000, 18446744073709551615], "a": {"c": "é"}}')""",
    "json default (cast('{}' as json))",
    "int default (40)",
    "int default (null)",
    "varchar(9) default (_utf8mb4'a\\'b')",
    "point",
    "vector(3)",
    "vector(3) not null",
]


def test_pads_are_what_alter_table_gives_old_rows(mysql_server: MySqlServer) -> None:
    mysql_server.execute("CREATE DATABASE d CHARACTER SET utf8mb4")
    sql = "SET sql_mode='ALLOW_INVALID_DATES';"
    for i, definition in enumerate(PADS):
        sql += f"CREATE TABLE t{i} (id int primary key); INSERT INTO t{i} VALUES (1);"
        sql += f"ALTER TABLE t{i} ADD c {definition}; DELETE FROM t{i};"
    mysql_server.execute(sql, "d")
    rows = rows_of(mysql_server.binlog_files()[-1])
    padded = {
        definition: pad_cell(created(f"CREATE TABLE t (id int primary key, c {definition})").columns[1])
        for definition in PADS
    }
    assert padded == {definition: rows[f"t{i}"][1][1] for i, definition in enumerate(PADS)}
