"""Definitions as a real server tells them: the same columns, types and values, statement by statement."""

from typing import Any

import pymysql
import pytest

from binlog_merge.binlog.constants import ColumnType
from binlog_merge.binlog_server import questions
from binlog_merge.binlog_server.answers import Rows, answer
from binlog_merge.binlog_server.definitions import Definitions
from binlog_merge.binlog_server.settings import Settings
from binlog_merge.protocol.packets import Column
from snapshot_store.ddl import parse_dump
from snapshot_store.history import TableVersion
from snapshot_store.model import Catalog
from snapshot_store.tso import ORIGIN
from tests.mysql_server import MySqlServer

TABLES = r"""
CREATE DATABASE shop; CREATE DATABASE hr CHARACTER SET latin1;
USE shop;
CREATE TABLE orders (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, cust INT NOT NULL, price DECIMAL(10,2) DEFAULT '0.00',
  note VARCHAR(40) COLLATE utf8mb4_bin DEFAULT 'a''b', at DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3),
  made TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (id), UNIQUE KEY u (note), KEY c (cust, price), KEY n (note(5), cust DESC)) COMMENT='the orders';
CREATE TABLE alltypes (
  a TINYINT, b SMALLINT UNSIGNED, c MEDIUMINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h DECIMAL(20,5),
  i BIT(7) DEFAULT b'101', j CHAR(3), k VARCHAR(200) CHARACTER SET latin1, l BINARY(4) DEFAULT 'ab',
  m VARBINARY(10) DEFAULT 0xff, n TINYTEXT, o TEXT, p MEDIUMTEXT CHARACTER SET latin1, q LONGTEXT, r TINYBLOB, s BLOB,
  t MEDIUMBLOB, u LONGBLOB, v ENUM('x','yy''z') DEFAULT 'x', w SET('a','bb') NOT NULL DEFAULT 'a,bb', x JSON, y DATE,
  z TIME(2), aa DATETIME, ab TIMESTAMP(6) NULL, ac YEAR, ad GEOMETRY, ae POINT NOT NULL SRID 4326, af VECTOR(3),
  ag BOOL DEFAULT TRUE, ah INT GENERATED ALWAYS AS (d + 1) VIRTUAL,
  ai INT GENERATED ALWAYS AS (d * 2) STORED COMMENT 'twice', aj INT INVISIBLE, ak VARCHAR(36) DEFAULT (uuid()),
  al INT UNSIGNED ZEROFILL, am BIGINT UNSIGNED);
CREATE TABLE comp (
  a INT, b VARCHAR(10), c DATE, d INT NOT NULL, PRIMARY KEY (a, b), UNIQUE KEY ub (b, c), UNIQUE KEY uc (c),
  KEY f ((a + 1)), KEY inv (d) INVISIBLE) DEFAULT CHARSET=latin1;
CREATE TABLE nokey (x INT, y INT NOT NULL, UNIQUE KEY k (y), CHECK (x > 1));
CREATE TABLE uniq2 (
  x INT NOT NULL, y INT NOT NULL, z INT, UNIQUE KEY zz (z), UNIQUE KEY k (x, y), w TEXT, FULLTEXT (w));
CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES nokey (y));
CREATE TABLE parts (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 3;
USE hr;
CREATE TABLE people (id INT PRIMARY KEY, name VARCHAR(20))
"""
OF_COLUMNS = (
    "column_name, ordinal_position, column_default, is_nullable, data_type, character_maximum_length, "
    "character_octet_length, numeric_precision, numeric_scale, datetime_precision, character_set_name, collation_name, "
    "column_type, column_key, extra, column_comment, generation_expression, srs_id"
)
STATEMENTS = [
    "SHOW DATABASES",
    "show schemas LIKE 'sh%'",
    "SHOW DATABASES WHERE `Database` = 'hr'",
    "SHOW FULL TABLES IN `shop` where Table_Type = 'BASE TABLE'",
    "SHOW FULL TABLES FROM shop WHERE Table_type <> 'VIEW' AND Tables_in_shop LIKE '%O%' AND Tables_in_shop != 'comp'",
    "SHOW TABLES FROM shop LIKE 'o%'",
    "show tables",
    *(
        f"{what} {table}"
        for table in ("`shop`.`orders`", "alltypes", "comp", "nokey", "uniq2", "child", "parts")
        for what in ("SHOW CREATE TABLE", "SHOW COLUMNS FROM")
    ),
    "SHOW CREATE TABLE hr.people;",
    "SHOW CREATE DATABASE shop",
    "SHOW CREATE DATABASE IF NOT EXISTS `hr`",
    "SHOW FULL FIELDS FROM alltypes FROM shop",
    "SHOW COLUMNS FROM orders LIKE 'c%'",
    "SHOW COLUMNS FROM orders WHERE Field = 'id' OR `Key` = 'MUL'",
    "DESCRIBE orders",
    "desc shop.orders id",
    *(f"SHOW INDEX FROM {table}" for table in ("orders", "comp", "nokey", "child")),
    "SHOW KEYS FROM uniq2 FROM shop WHERE Seq_in_index = 1",
    "SHOW TABLE STATUS LIKE 'orders'",
    "SHOW TABLE STATUS FROM hr",
    "SHOW TABLE STATUS LIKE 'part_'",
    "SHOW TRIGGERS LIKE 'x'",
    "show events",
    "SHOW EVENTS FROM hr LIKE 'x'",
    "SHOW FUNCTION STATUS WHERE Db = 'shop'",
    "SHOW PROCEDURE STATUS LIKE 'x'",
    *(
        f"SELECT * FROM information_schema.{table} WHERE 1 = 0"
        for table in ("triggers", "views", "routines", "events", "innodb_cmp", "innodb_cmpmem")
    ),
    "SELECT TRIGGER_NAME FROM INFORMATION_SCHEMA.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = DATABASE() AND "
    "EVENT_OBJECT_TABLE = 'orders'",
    "SELECT schema_name, default_character_set_name, default_collation_name FROM information_schema.schemata "
    "ORDER BY schema_name",
    "SELECT SCHEMA_NAME AS `a b`, 1 FROM INFORMATION_SCHEMA.SCHEMATA WHERE "
    "SCHEMA_NAME LIKE 's%' ORDER BY 1 DESC LIMIT 1",
    "SELECT table_name, table_type, engine, table_collation, table_comment, create_options "
    "FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY table_name",
    *(
        f"SELECT {OF_COLUMNS} FROM information_schema.columns WHERE table_schema='shop' AND table_name='{table}' "
        "ORDER BY ordinal_position"
        for table in ("alltypes", "orders", "comp")
    ),
    "SELECT COLUMN_NAME, COLLATION_NAME, CHARACTER_SET_NAME, COLUMN_COMMENT, COLUMN_TYPE FROM "
    "INFORMATION_SCHEMA.COLUMNS WHERE TABLE_SCHEMA='shop' AND TABLE_NAME='orders' ORDER BY ORDINAL_POSITION",
    "select COLUMN_NAME from information_schema.COLUMNS where TABLE_SCHEMA='shop' and TABLE_NAME='alltypes' and "
    "extra like '%GENERATED%' and extra not like '%default\\_%' order by 1",
    "SELECT count(*) FROM information_schema.columns WHERE table_schema='shop'",
    "SELECT c.column_name, t.engine FROM information_schema.columns c JOIN information_schema.tables t "
    "USING (table_schema, table_name) WHERE table_schema = 'hr' ORDER BY c.ordinal_position",
    "SELECT table_name, index_name, seq_in_index, column_name, non_unique, sub_part, nullable, index_type, is_visible, "
    "expression FROM information_schema.statistics WHERE table_schema='shop' ORDER BY table_name, index_name, 3",
    "SELECT * FROM information_schema.key_column_usage WHERE table_schema='shop' "
    "ORDER BY table_name, constraint_name, ordinal_position",
    "SELECT * FROM information_schema.table_constraints WHERE table_schema='shop' ORDER BY table_name, constraint_name",
    "SELECT column_name, LOCATE('UNSIGNED', UPPER(column_type)) AS u, LOCATE('int', column_type) AS i, "
    "UPPER(CASE WHEN numeric_scale IS NULL THEN 10 ELSE numeric_scale END) AS n FROM information_schema.columns "
    "WHERE table_schema = 'shop' AND table_name = 'orders' AND LOCATE('T', data_type) = 0 ORDER BY ordinal_position",
    "SELECT * FROM mysql.tables_priv WHERE Db = 'shop'",
    "SELECT Name FROM mysql.time_zone_name",
    "SHOW REPLICA STATUS",
    "SELECT * FROM information_schema.innodb_cmp WHERE page_size < 0",
    "SELECT page_size, relocation_ops FROM information_schema.innodb_cmpmem WHERE page_size < 0",
    "SHOW CREATE TABLE nope",
    "SHOW CREATE TABLE nodb.x",
    "SHOW TABLES FROM nodb",
    "SELECT * FROM information_schema.nope",
    "SELECT nope FROM information_schema.tables",
    "SELECT * FROM shop.nope",
    "USE nodb",
]
NOT_KNOWN = {
    *("Cardinality", "Rows", "Avg_row_length", "Data_length", "Max_data_length", "Index_length", "Data_free"),
    *("Auto_increment", "Create_time", "Update_time", "Check_time", "Privileges"),
}


class Server:
    """A server's world that has definitions alone."""

    def __init__(self, catalog: Catalog) -> None:
        tables = {name: TableVersion(ORIGIN, 1, *name, table) for name, table in catalog.tables.items()}
        self._definitions = Definitions(catalog.schemas, tables)

    def refresh(self) -> None:
        pass

    def facts(self) -> Any:
        class Facts:
            view = None

        return Facts()

    def definitions(self, view: Any) -> Definitions:
        return self._definitions

    def tables(self) -> None:
        return None

    def processes(self) -> list[Any]:
        return []

    def counts(self) -> dict[str, int]:
        return {}


@pytest.mark.mysql
def test_definitions_are_told_as_a_server_tells_them(mysql_server: MySqlServer) -> None:
    mysql_server.execute(TABLES)
    world: Any = Server(parse_dump(mysql_server.dump_schema("shop", "hr")))
    settings = Settings("rep", 1, schema="shop")
    connection = mysql_server.connect("shop")
    different = {}
    with connection, connection.cursor() as cursor:
        for sql in STATEMENTS:
            ours, theirs = _ours(answer(sql.encode(), settings, world)), _theirs(cursor, sql)
            if ours != theirs:
                different[sql] = (ours, theirs)
    for sql, (ours, theirs) in different.items():
        print(sql, "\n  ours  ", ours, "\n  theirs", theirs)
    assert not different


def _ours(answered: Any) -> Any:
    if not isinstance(answered, Rows):
        return answered.code
    head = [(column.name, _kind(column)) for column in answered.columns]
    return _comparable(head, answered.rows)


def _kind(column: Column) -> int:
    return int(column.kind or (ColumnType.LONGLONG if column.number else ColumnType.VAR_STRING))


def _theirs(cursor: Any, sql: str) -> Any:
    try:
        cursor.execute(sql)
    except pymysql.MySQLError as error:
        return error.args[0]
    return _comparable([(item[0], item[1]) for item in cursor.description or ()], cursor.fetchall())


def _comparable(head: list[tuple[str, int]], rows: Any) -> Any:
    left_out = {number for number, (name, _) in enumerate(head) if name in NOT_KNOWN}
    kept = [tuple(value for number, value in enumerate(row) if number not in left_out) for row in rows]
    if [name for name, _ in head] == ["Table", "Create Table"]:  # equal in meaning: ours spells some defaults otherwise
        return head, [(parse_dump(f"USE x; {text}").table("x", name), name) for name, text in kept]
    return head, kept


def test_tables_are_made_once_for_each_version_of_the_definitions() -> None:
    def asked(server: Server) -> Any:
        sql = b"SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = 'shop'"
        found = answer(sql, Settings("rep", 1), server)  # type: ignore[arg-type]
        assert isinstance(found, Rows)
        return list(found.rows)

    before, catalog = questions._database_of.cache_info().misses, parse_dump(TABLES)
    server, later = Server(catalog), Server(parse_dump(TABLES + ";CREATE TABLE shop.later (a INT, b INT);"))
    ((first,),) = asked(server)
    assert [asked(later), asked(server), asked(server)] == [[(first + 2,)], [(first,)], [(first,)]]
    assert questions._database_of.cache_info().misses == before + 2
    questions._database_of(server._definitions)._root.close()
    assert asked(server) == [(first,)], "what has made the engine useless is no concern of the next question"
