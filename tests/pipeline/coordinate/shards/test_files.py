"""Clauses about files are cut, and nothing else is."""

import pytest

from binlog_merge.pipeline.coordinate.shards.clauses import without_files
from snapshot_store.ddl.parse.statement import parse_statement
from snapshot_store.mysql.sql.session import DdlSession

SESSION = DdlSession()


@pytest.mark.parametrize(
    ("sql", "left", "cut"),
    [
        ("CREATE TABLE t (a INT) TABLESPACE ts", "CREATE TABLE t (a INT)", ["TABLESPACE ts"]),
        ("CREATE TABLE t (a INT) TABLESPACE = `t s` COMMENT 'x'", "CREATE TABLE t (a INT) COMMENT 'x'",
         ["TABLESPACE = `t s`"]),
        ("CREATE TABLE t (a INT) ENGINE InnoDB, TABLESPACE ts", "CREATE TABLE t (a INT) ENGINE InnoDB",
         ["TABLESPACE ts"]),
        ("CREATE TABLE t (a INT) TABLESPACE ts, COMMENT 'x'", "CREATE TABLE t (a INT) COMMENT 'x'", ["TABLESPACE ts"]),
        ("CREATE TABLE t (tablespace INT, data INT) COMMENT 'TABLESPACE ts'", None, []),
        ("CREATE TABLE t (a INT) TABLESPACE innodb_file_per_table", None, []),
        ("CREATE TABLE t (a INT) DATA DIRECTORY='/d' INDEX DIRECTORY '/i' COMMENT 'x'",
         "CREATE TABLE t (a INT) COMMENT 'x'", ["DATA DIRECTORY='/d'", "INDEX DIRECTORY '/i'"]),
        ("CREATE TABLE t (a INT) PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (1) TABLESPACE ts, "
         "PARTITION q VALUES LESS THAN (2) DATA DIRECTORY '/d')",
         "CREATE TABLE t (a INT) PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (1) , "
         "PARTITION q VALUES LESS THAN (2) )", ["TABLESPACE ts", "DATA DIRECTORY '/d'"]),
        ("ALTER TABLE t TABLESPACE ts", "ALTER TABLE t", ["TABLESPACE ts"]),
        ("ALTER TABLE d.t TABLESPACE ts, ADD b INT", "ALTER TABLE d.t ADD b INT", ["TABLESPACE ts"]),
        ("ALTER TABLE t ADD b INT, TABLESPACE ts", "ALTER TABLE t ADD b INT", ["TABLESPACE ts"]),
        ("ALTER TABLE t ADD b INT, TABLESPACE ts, ADD c INT", "ALTER TABLE t ADD b INT, ADD c INT", ["TABLESPACE ts"]),
        ("ALTER TABLE t COMMENT 'x' TABLESPACE ts, ADD b INT", "ALTER TABLE t COMMENT 'x' , ADD b INT",
         ["TABLESPACE ts"]),
        ("ALTER TABLE t CHANGE a tablespace INT", None, []),
        ("ALTER TABLE t DISCARD TABLESPACE", None, []),
        ("/* c */ CREATE /* TABLESPACE x */ TABLE t (a INT) /*!50100 TABLESPACE ts */ COMMENT 'x'",
         "/* c */ CREATE /* TABLESPACE x */ TABLE t (a INT) /*!50100 */ COMMENT 'x'", ["TABLESPACE ts"]),
    ],
)  # fmt: skip
def test_clauses_about_files(sql: str, left: str | None, cut: list[str]) -> None:
    found = without_files(sql, SESSION)
    assert found == (sql if left is None else left, tuple(cut))
    assert parse_statement(found[0], SESSION)
    assert without_files(found[0], SESSION) == (found[0], ())
