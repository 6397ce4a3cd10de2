"""The oracle's reshaping against MySQL itself: INSERT INTO logical SELECT … FROM physical must log the same bytes.

The server fills in the defaults, converts the values and describes the logical table; the oracle gets only the physical
table's events and both CREATE TABLEs. Bitmap bits that stand for no column are left out of the comparison.
"""

import pytest

from tests.mysql_server import MySqlServer
from tests.oracle.binlog import ROWS, TABLE_MAP, Event, read_file
from tests.oracle.ddl import Table, parse_dump
from tests.oracle.reshape import Reshape, parse_table_map

pytestmark = pytest.mark.mysql

PADDED = """id int unsigned not null primary key, y year default 2001, de decimal(9,3) default -1234.5,
 f float default 1.5, d double not null, b bit(12) default b'100000000001', t time(3) default '-12:34:56.789',
 t1 time(1) default '-00:00:00.1', dd date default '2021-02-03', nn datetime(3) not null default 0,
 dt datetime(6) default '2021-02-03 04:05:06.123456', ts timestamp(2) null default '2021-02-03 04:05:06.12',
 e enum('a','b') default 'b', s set('a','b','c') default 'a,c', vc varchar(300) charset gbk default '漢字',
 c char(5) default 'x  ', bn binary(4) default 'ab', vb varbinary(9) default 0x4100, m mediumint default -5,
 u bigint unsigned default 18446744073709551615, j json, g geometry, p point, v vector(3), tx text charset latin1,
 de2 decimal(30,10) default '12345678901234567890.0123456789', big enum('q') not null default 'q',
 en enum('x','é') charset latin1 default 'é', inv int invisible default 3"""

CASES = {
    "pad": ("id int unsigned not null primary key", PADDED, "(1),(2)"),
    "reorder-and-trim": (
        "a int, gone varchar(9), b char(3) charset latin1, e enum('x','y'), k int, primary key (k, a)",
        "e enum('x','y'), k int, b char(3) charset latin1, a int, primary key (k, a)",
        "(1,'x','y','y',2),(2,null,null,null,3)",
    ),
    "prefix-key": (
        "x int, a varchar(20) not null, b int not null, primary key (a(5), b)",
        "b int not null, a varchar(20) not null, primary key (a(5), b)",
        "(1,'abcdefgh',2)",
    ),
    "integers": (
        "a tinyint, b bigint unsigned, c int, d smallint, e mediumint unsigned, f int",
        "a bigint, b bigint unsigned, c mediumint, d int, e int unsigned, f decimal(12,2)",
        "(-128,18446744073709551615,-8388608,-5,16777215,-77),(127,0,8388607,null,0,2147483647)",
    ),
    "characters": (
        "a varchar(20), b char(10), c varchar(60) charset latin1, d varchar(10) charset gbk, e tinytext, f varchar(99)",
        "a varchar(200), b varchar(10), c varchar(64) charset utf8mb4, d text charset utf8mb4, "
        "e mediumtext charset gbk, f char(60) charset latin1",
        "('é漢😀','ab ','é€','漢','漢字','é'),('','','','','',''),(null,null,null,null,null,null)",
    ),
    "binary": (
        "a varbinary(20), b binary(3), c blob",
        "a varbinary(400), b binary(6), c longblob",
        "('ab','a','zz'),('','','')",
    ),
    "numbers": (
        "a decimal(10,4), b decimal(10,2), c float, d decimal(5,1)",
        "a decimal(10,2), b decimal(65,20), c double, d int",
        "(1.2350,-99999999.99,1.5,-2.5),(-1.2350,0.01,-0.25,2.5),(123456.7849,0,1e10,0)",
    ),
    "moments": (
        "a datetime(6), b datetime, c time(6), d timestamp(6) null, e date, f year",
        "a datetime(2), b datetime(4), c time, d timestamp null, e datetime, f int",
        "('2021-12-31 23:59:59.999999','2021-01-02 03:04:05','-01:02:03.5','2021-02-03 04:05:06.5','2020-02-29',1999),"
        "('2021-01-01 00:00:00.004999','0000-00-00 00:00:00','838:59:58.4','1970-01-01 00:00:01.2','0000-00-00',0)",
    ),
    "members": (
        "a enum('x','y'), b set('p','q'), c enum('m','n') charset latin1, d bit(3)",
        "a enum('z','y','x'), b set('q','r','p'), c varchar(9), d bit(20)",
        "('x','p,q','n',b'101'),('y','','m',b'0'),(null,null,null,null)",
    ),
}


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
@pytest.mark.parametrize("case", CASES)
def test_reshape_writes_what_the_server_writes(case: str, metadata: str, mysql_server: MySqlServer) -> None:
    physical, logical, rows = CASES[case]
    shared = [c.name for c in _table(logical).columns if _table(physical).index(c.name) is not None]
    names = ",".join(shared)
    mysql_server.execute(
        f"SET GLOBAL binlog_row_metadata = {metadata}; SET SESSION sql_mode = ''; CREATE DATABASE d; USE d;"
        f"CREATE TABLE p ({physical}); CREATE TABLE l ({logical}); FLUSH BINARY LOGS;"
        f"INSERT INTO p VALUES {rows}; INSERT INTO l ({names}) SELECT {names} FROM p;"
        "SET GLOBAL binlog_row_metadata = FULL"
    )
    _version, events = read_file(mysql_server.binlog_files()[-1])
    source, wanted = (e for e in events if e.type == TABLE_MAP)
    source_rows, wanted_rows = (e for e in events if e.type in ROWS)
    target = parse_table_map(wanted)
    reshape = Reshape(parse_table_map(source), _table(physical), _table(logical), 0)

    body = reshape.map_body(target.table_id, "d", "l")
    made = parse_table_map(Event(TABLE_MAP, 0, body, 0, 0))
    assert [(c.type, c.meta) for c in made.columns] == [(c.type, c.meta) for c in target.columns]
    assert [c.nullable for c in target.columns] == [c.nullable for c in _table(logical).columns]
    if parse_table_map(source).fields:  # a map without optional metadata gets none
        assert made.columns == target.columns
        assert dict(made.fields).keys() - {2, 3, 10, 11} == dict(target.fields).keys() - {2, 3, 10, 11}

    new, changes = reshape.rows(source_rows, target.table_id, "", "")
    identical = Reshape(target, _table(logical), _table(logical), 0)
    assert changes == identical.rows(wanted_rows, 0, "", "")[1]
    again = identical.rows(Event(wanted_rows.type, 0, bytes(new), 0, 0), target.table_id, "", "")[1]
    assert again == changes


def _table(columns: str) -> Table:
    return parse_dump(f"USE d; CREATE TABLE t ({columns})").tables["d", "t"]
