"""Rows that are given as JSON become the events that a server writes for them; what is wrong with them is said."""

import json
from decimal import Decimal
from typing import Any

import pytest

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.rows import Cell, Row, RowsEvent, split_rows
from binlog_merge.binlog.table_map import TableMap
from binlog_merge.errors import ConfigError
from binlog_merge.reshape.given_rows import Logging, counted, events_of, read_rows
from binlog_merge.values.convert.text import text_of
from binlog_merge.values.value import decode_cell
from snapshot_store.model import Column, Table
from snapshot_store.mysql.column_type import Family
from tests.mysql_server import MySqlServer
from tests.reshape.test_reshape_mysql import created, events, tidy
from tests.reshape.test_witness import ALL_TYPES

VALUES = [
    """ti=-128, tiu=255, si=-32768, mi=16777215, i=12, bi=-9223372036854775808, b=1, de=-1234567.891,
    de2=99999999999999999999999999999999999.000000000000000000000000000001, f=1.1, d=-1.7976931348623157e308, f2=1.2346,
    r=5e-324, n=-99999, bit1=1, bit10=1023, bit64=18446744073709551615, y=2155, da='0000-00-00', t='-838:59:59',
    t3='12:34:56.789', dt='9999-12-31 23:59:59', dt6='2024-02-29 01:02:03.000004', ts='1970-01-01 00:00:01',
    ts2='2038-01-19 03:14:07.99', ch='é ', ch255=REPEAT('ü', 255), chl='ÿ', bin=x'00ff00', ch0='', vc='日本語',
    vc300=REPEAT('é', 300), vb=x'0001', ch85='€', u32='𝄞x', tt='t', tx='ü', mt=REPEAT('x', 300), lt='l', tb=x'00',
    bl=x'ff', mb='', lb=x'30', e='x ', s='p,r', e3='ü', sb='a', j='{"a": [1, -2.5, true, null, "é"], "b": {}}',
    g=ST_GeomFromText('POINT(1 2)'), p=ST_GeomFromText('POINT(3 4)', 4326), v=STRING_TO_VECTOR('[1.5,-2,0]'), nn=7,
    tx10='x', bl300=x'01', nc='n', nv='v'""",
    "j='18446744073709551615', d=-0.0, f=3.4028235e38, y=0, dt='2024-00-00', s='', e=NULL, sb='a,b', bit10=0, de=0, "
    "da='2024-02-30', t='00:00:00', ch='', vb='', tx='', v0=STRING_TO_VECTOR('[1]'), i=2147483647",
    "ti=1, j='\"text\"', u32='', ts2='1970-01-01 00:00:01.05', t3='-00:00:00.001', de=-0.001",
]


def shown(column: Column, cell: Cell) -> Any:
    """Return a cell as somebody would give it."""
    if cell is None:
        return None
    data = bytes(cell)  # type: ignore[arg-type]
    kind = column.type
    if kind.family is Family.GEOMETRY:
        return "0x" + data[4:].hex()
    value = decode_cell(kind, data)
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if kind.name in ("float", "double"):
        return Decimal(repr(value))
    if kind.name == "bit" or (isinstance(value, int) and kind.name not in ("enum", "set")):
        return value
    return text_of(kind, value)


def as_given(table: Table, table_map: TableMap, kind: int, body: bytes) -> list[dict[str, Any]]:
    op = {30: "insert", 31: "update", 32: "delete"}[kind]
    found = []
    for before, after in split_rows(RowsEvent.parse(kind, body), table_map):
        row: dict[str, Any] = {"table": "d.t", "op": op}
        for name, image in (("before", before), ("after", after)):
            if image is not None:
                row[name] = {c.name: shown(c, cell) for c, cell in zip(table.columns, image, strict=True)}
        found.append(row)
    return found


def differing(table: Table, ours: list[Row], theirs: list[Row]) -> list[Column]:
    """Return the columns of which a cell is another."""
    pairs = [pair for rows in zip(ours, theirs, strict=True) for pair in zip(*rows, strict=True) if pair[0] is not None]
    return [c for i, c in enumerate(table.columns) if any(a[i] != b[i] for a, b in pairs if a and b)]


def numbered(value: Any) -> float:
    assert isinstance(value, Decimal)
    return float(value)


@pytest.mark.mysql
@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
@pytest.mark.parametrize("key", ["id INT", "k1 VARCHAR(9), k2 INT, PRIMARY KEY (k2, k1(3))", "k INT, PRIMARY KEY (k)"])
def test_the_events_are_those_of_a_server(mysql_server: MySqlServer, metadata: str, key: str) -> None:
    sql = ALL_TYPES.replace("CREATE TABLE t (", f"CREATE TABLE t ({key},").replace("sm serial", "sm BIGINT UNSIGNED")
    mysql_server.execute("CREATE DATABASE d")
    before = len(mysql_server.binlog_files())
    mysql_server.execute(f"FLUSH BINARY LOGS; SET sql_mode='', GLOBAL binlog_row_metadata={metadata}; USE d; {sql}")
    try:
        mode = "SET sql_mode='ALLOW_INVALID_DATES', time_zone='+00:00'"
        for number, values in enumerate(VALUES):
            names = [part.split()[0] for part in key.partition(", PRIMARY")[0].split(", ")]
            own = values + "".join(f", {name}={number}" for name in names)
            mysql_server.execute(f"{mode}; USE d; INSERT INTO t SET {own}")
        mysql_server.execute(f"{mode}; UPDATE t SET i = i - 1, vc = CONCAT('b', vc); DELETE FROM t WHERE ti = 1", "d")
    finally:
        mysql_server.execute("SET GLOBAL binlog_row_metadata=FULL")
    assert len(mysql_server.binlog_files()) > before
    table = created(sql)
    seen = 0
    for table_map, kind, body in events(mysql_server.binlog_files()[-1]):
        rows = as_given(table, table_map, kind, body)
        given = read_rows("\n".join(json.dumps(row, default=numbered) for row in rows))
        (map_kind, map_body), (own_kind, own_body) = events_of(
            given, lambda name: table, Logging.like(table_map, RowsEvent.parse(kind, body).flags, "9.7.0")
        )
        ours = TableMap.parse(map_body)
        assert map_kind == EventType.TABLE_MAP_EVENT and own_kind == kind
        assert ours.optional == table_map.optional
        assert ours.pack()[6:] == table_map.pack()[6:]
        cells = [split_rows(RowsEvent.parse(kind, each), ours) for each in (own_body, body)]
        assert [column.name for column in differing(table, *cells)] == []
        assert tidy(kind, own_body, ours) == tidy(kind, body, table_map)
        seen += len(rows)
    assert seen == 2 * len(VALUES)  # the third row is not updated, but deleted


TABLE = created("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(3) NOT NULL, n INT, b BLOB, e ENUM('a'), d DATE)")
GOOD = {"id": 1, "v": "é", "n": None, "b": "0x00", "e": "a", "d": "2024-02-29"}


def insert(**changed: Any) -> dict[str, Any]:
    return {"table": "d.t", "op": "insert", "after": {**GOOD, **changed}}


WRONG: dict[str, tuple[Any, str]] = {
    "column": (insert(x=1), "row 1, insert of d.t: the table has no column x there; it has id, v, n"),
    "type": (insert(n="abc"), "column n, int: 'abc'"),
    "range": (insert(n=2147483648), "column n, int: 2147483648"),
    "longer": (insert(v="abcd"), "column v, varchar: 'abcd' is longer than 3 characters"),
    "null": (insert(v=None), "column v is NOT NULL"),
    "bytes": (insert(b="abc"), "column b, blob: 'abc' are no bytes: write 0x"),
    "member": (insert(e="b"), "column e, enum: 'b' is no member"),
    "date": (insert(d="2024-13-01"), "column d, date: '2024-13-01'"),
    "object": (insert(v=[1]), "column v, varchar: '[1]' is no value"),
    "key": (
        {**insert(), "after": {"v": "", "n": 1}},
        "no value of the column of the primary key id: an image",
    ),
    "missing": ({**insert(), "after": {"id": 1, "v": "", "n": 1, "b": None}}, "no value of the column e, d: an image"),
    "twice": (insert(ID=5), "a column stands twice"),
    "table": ({**insert(), "table": "d.u"}, "row 1, insert of d.u: the node has no such table there"),
    "name": ({**insert(), "table": "t"}, "row 1: `table` is SCHEMA.TABLE"),
    "op": ({**insert(), "op": "upsert"}, "row 1: `op` is insert, update or delete, not 'upsert'"),
    "before": ({**insert(), "before": GOOD}, "it has no `before`"),
    "after": ({"table": "d.t", "op": "update", "after": GOOD}, "`before` is an object with a value for every column"),
    "word": ({**insert(), "befor": 1}, "row 1 has befor, which means nothing here"),
    "absent": ({**insert(), "after_absent": ["n"]}, "an image has every column, and here some are absent"),
    "no object": (5, "row 1 is no object"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name: str) -> None:
    given, message = WRONG[name]
    with pytest.raises(ConfigError) as raised:
        list(events_of(read_rows(json.dumps([given])), lambda at: TABLE if at == ("d", "t") else None, Logging()))
    assert message in raised.value.message
    assert raised.value.remedy


@pytest.mark.parametrize("text", ["[1", "{}}", '{"a": 1, "a": 2}', "[] x", "{} {}", '{"a": NaN}'])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        read_rows(text)


def test_changes_of_a_kind_that_follow_each_other_are_a_statement() -> None:
    rows = [insert(id=n, v="x" * 3, b="0x" + "00" * 900) for n in range(30)] + [
        {"table": "d.t", "op": "delete", "before": {**GOOD, "id": 3}},
        insert(id=70),
    ]
    given = read_rows("".join(json.dumps(row) + "\n" for row in rows))
    assert counted(given) == ("d.t: 31 inserts, 1 delete",)
    made = list(events_of(given, lambda name: TABLE, Logging()))
    kinds = [kind for kind, _ in made]
    assert kinds == [19, 30, 30, 30, 30, 19, 32, 19, 30]
    ends = [RowsEvent.parse(kind, body).ends_statement for kind, body in made if kind != 19]
    assert ends == [False, False, False, True, True, True]
    assert {TableMap.parse(body).table_id for kind, body in made if kind == 19} == {1}
