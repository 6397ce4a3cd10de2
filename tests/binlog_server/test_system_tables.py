"""information_schema table by table, against a server that holds the same databases: columns, types, rows."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from binlog_merge.binlog_server.answers import answer
from binlog_merge.binlog_server.recorded import system_tables
from binlog_merge.binlog_server.settings import Settings
from snapshot_store.ddl import parse_dump
from tests.binlog_server.test_definitions import TABLES, Server, _ours, _theirs
from tests.mysql_server import MySqlServer

MORE = r""";
USE shop;
CREATE TABLE two (
  a INT, b INT, c INT, PRIMARY KEY (a, b), UNIQUE KEY uc (c), KEY kb (b) COMMENT 'of b',
  CONSTRAINT pos CHECK (`c` > 0) NOT ENFORCED, CHECK (a <> _utf8mb4'x''y'));
CREATE TABLE kid (
  id INT PRIMARY KEY, a INT, b INT, c INT,
  CONSTRAINT f1 FOREIGN KEY (a, b) REFERENCES two (a, b) ON DELETE CASCADE,
  CONSTRAINT f2 FOREIGN KEY (c) REFERENCES two (c) ON DELETE SET NULL ON UPDATE RESTRICT);
CREATE TABLE by_columns (a INT, b VARCHAR(9), d DATE) PARTITION BY RANGE COLUMNS (a, b) (
  PARTITION p0 VALUES LESS THAN (1, 'x') COMMENT = 'the first', PARTITION pm VALUES LESS THAN (MAXVALUE, MAXVALUE));
CREATE TABLE by_list (a INT, d DATE) PARTITION BY LIST (a + 1) SUBPARTITION BY HASH (YEAR(d)) SUBPARTITIONS 2 (
  PARTITION p0 VALUES IN (1, 2, NULL), PARTITION p1 VALUES IN (5));
CREATE TABLE by_key (a INT, b INT, PRIMARY KEY (a)) PARTITION BY LINEAR KEY (a) PARTITIONS 2;
CREATE TABLE by_days (d DATE NOT NULL) PARTITION BY RANGE (TO_DAYS(d)) (
  PARTITION p0 VALUES LESS THAN (TO_DAYS('2020-01-01')), PARTITION p1 VALUES LESS THAN MAXVALUE);
CREATE TABLE by_lists (a INT, b INT) PARTITION BY LIST COLUMNS (a, b) (PARTITION p0 VALUES IN ((1, 2), (3, 4)));
CREATE TABLE options (a INT COMMENT 'c', KEY k (a) COMMENT 'of k', KEY h (a) USING HASH)
  ROW_FORMAT = COMPRESSED KEY_BLOCK_SIZE = 8 STATS_PERSISTENT = 1 MAX_ROWS = 7 COMMENT = 'o';
CREATE TABLE memory (a INT, KEY h (a), KEY b (a) USING BTREE) ENGINE = MEMORY;
CREATE TABLE myisam (a INT, b CHAR(3)) ENGINE = MyISAM CHECKSUM = 1;
CREATE TABLE texts (
  a VARCHAR(9) DEFAULT (CONCAT('x''z', "\\")), b VARCHAR(20) AS (CONCAT(a, 'it''s \n')), KEY e ((CONCAT(a, '\\y'))));
CREATE TABLE kept (a INT) STATS_PERSISTENT = 0 STATS_AUTO_RECALC = 1 STATS_SAMPLE_PAGES = 5 KEY_BLOCK_SIZE = 4
  MIN_ROWS = 3 ROW_FORMAT = COMPRESSED AVG_ROW_LENGTH = 7 CHECKSUM = 1 DELAY_KEY_WRITE = 1 PACK_KEYS = 0;
CREATE TABLE pressed (a INT) COMPRESSION = 'zlib';
CREATE TABLE subs (a INT, b INT, PRIMARY KEY (a, b)) PARTITION BY RANGE (a) SUBPARTITION BY KEY (b) SUBPARTITIONS 2 (
  PARTITION p0 VALUES LESS THAN (4));
CREATE TABLE attributes (b INT SECONDARY_ENGINE_ATTRIBUTE = '{"x": 1}')
  SECONDARY_ENGINE_ATTRIBUTE = '{"y": "z"}'
"""
OURS = "shop", "hr"
KEYS = {"TABLE_SCHEMA", "CONSTRAINT_SCHEMA", "SCHEMA_NAME"}
UNKNOWN = {
    "TABLES": {
        *("TABLE_ROWS", "AVG_ROW_LENGTH", "DATA_LENGTH", "MAX_DATA_LENGTH", "INDEX_LENGTH", "DATA_FREE"),
        *("AUTO_INCREMENT", "CREATE_TIME", "UPDATE_TIME", "CHECK_TIME", "CHECKSUM"),
    },
    "PARTITIONS": {
        *("TABLE_ROWS", "AVG_ROW_LENGTH", "DATA_LENGTH", "MAX_DATA_LENGTH", "INDEX_LENGTH", "DATA_FREE"),
        *("CREATE_TIME", "UPDATE_TIME", "CHECK_TIME", "CHECKSUM"),
    },
    "STATISTICS": {"CARDINALITY"},
    "COLUMNS": {"PRIVILEGES"},
    "ST_GEOMETRY_COLUMNS": {"SRS_NAME"},
}
"""What a log does not know: sizes, times, what a storage engine counts; the names of reference systems."""
EMPTY_HERE = {
    "FILES": "files of a storage engine",
    "INNODB_.*": "what is inside a storage engine",
    "OPTIMIZER_TRACE": "there is no optimizer",
    "PARAMETERS|ROUTINES|TRIGGERS|VIEWS|VIEW_.*": "those of the schema sys; users' own are not in a log's definitions",
    "RESOURCE_GROUPS": "threads of a server",
    "ROLE_.*|.*_ROLE.*|.*_PRIVILEGES|USER_ATTRIBUTES": "accounts: those of the server that is asked",
    "PROCESSLIST": "connections: those of the server that is asked",
    "ST_SPATIAL_REFERENCE_SYSTEMS": "5,000 definitions, of 3 MB, that no definition of a table refers to but by number",
    "TABLESPACES_EXTENSIONS": "files of a storage engine",
}
"""Tables that have rows on a server and none here, as patterns, with the reason."""


SCHEMAS = (*OURS, "information_schema")


@pytest.mark.mysql
def test_each_table_of_information_schema_is_as_on_a_server(mysql_server: MySqlServer) -> None:
    mysql_server.execute(TABLES.rstrip() + MORE)
    world: Any = Server(parse_dump(mysql_server.dump_schema(*OURS)))
    settings = Settings("rep", 1, schema="shop")
    different = {}
    with mysql_server.connect("shop") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'information_schema'")
        names = sorted(name for (name,) in cursor.fetchall())
        for name in names:
            for how in ("SQL_BUFFER_RESULT ", ""):
                sql = f"SELECT {how}* FROM information_schema.{name}"
                ours, theirs = _ours(answer(sql.encode(), settings, world)), _theirs(cursor, sql)
                assert not isinstance(ours, int), (name, ours)
                if ours[0] != theirs[0]:
                    different[name, f"columns {how}"] = ours[0], theirs[0]
            if any(re.fullmatch(pattern, name) for pattern in EMPTY_HERE):
                continue
            here, there = _rows(name, *ours), _rows(name, *theirs)
            if here != there:
                different[name, "rows"] = [row for row in here if row not in there], [r for r in there if r not in here]
    for what, found in different.items():
        print(what, *(found if isinstance(found, tuple) else (found,)), sep="\n   ")
    assert not different
    assert [name for _, name in system_tables() if _ == "information_schema"] == names


def _rows(table: str, head: Sequence[tuple[str, int]], rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Return the rows of databases that both have, without what is not known, in an order of ours."""
    of = next((number for number, (name, _) in enumerate(head) if name in KEYS), None)
    kept = [number for number, (name, _) in enumerate(head) if name not in UNKNOWN.get(table, ())]
    return sorted((tuple(_plain(row[n]) for n in kept) for row in rows if of is None or row[of] in SCHEMAS), key=repr)


def _plain(value: Any) -> Any:
    return str(value).removesuffix(".0") if isinstance(value, float) else value
