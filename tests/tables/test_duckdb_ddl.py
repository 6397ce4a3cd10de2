"""DDL in a DuckDB file does to rows that are there what a server does: the same statements, compared cell by cell."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.cli.main import run
from binlog_merge.errors import ReplayStopped
from tests.mysql_server import MySqlServer
from tests.tables.test_duckdb import differences, loaded, tables_at, tables_of
from tests.targets.as_merged import as_merged, run_session

# What mysql_tzinfo_to_sql would say of 2024: forward at 1711846800, back at 1729990800.
BERLIN = """
INSERT INTO mysql.time_zone VALUES (1, 'N'); INSERT INTO mysql.time_zone_name VALUES ('Europe/Berlin', 1);
INSERT INTO mysql.time_zone_transition_type VALUES (1, 0, 3600, 0, 'CET'), (1, 1, 7200, 1, 'CEST');
INSERT INTO mysql.time_zone_transition VALUES (1, -2147483648, 0), (1, 1711846800, 1), (1, 1729990800, 0)
"""
NO_ZONES = """
DELETE FROM mysql.time_zone; DELETE FROM mysql.time_zone_name; DELETE FROM mysql.time_zone_transition_type;
DELETE FROM mysql.time_zone_transition
"""


@pytest.fixture
def berlin(mysql_server: MySqlServer) -> Iterator[MySqlServer]:
    """The run's server with a zone, and afterwards without: what other tests ask of its zones is not ours to change."""
    mysql_server.execute(BERLIN)
    yield mysql_server
    mysql_server.execute(NO_ZONES)


def replayed(server: MySqlServer, folder: Path, statements: str, **options: Any) -> None:
    """Run statements on a server, replay its binlog into a file, and compare all tables."""
    server.execute("SET GLOBAL time_zone = '+00:00'")
    run_session(server, statements, "one")
    binlog = as_merged(server, folder / "merged")
    loaded(binlog, folder / "file.db", **options)
    expected, found = tables_at(server), tables_of(folder / "file.db")
    assert found.keys() == expected.keys()
    for table in expected:
        assert differences(found[table], expected[table]) == [], table


CLOCKS = """
SET time_zone = '+05:30', timestamp = 1700000000.123456;
CREATE TABLE t (id INT PRIMARY KEY, d DATETIME(2), ts TIMESTAMP(4) NULL, v VARCHAR(30),
  given TIMESTAMP DEFAULT '2001-01-01 00:00:00');
INSERT INTO t VALUES (1, '2024-01-01 00:00:00.55', '2024-01-01 00:00:00.1234', '2024-01-01', '2024-01-01'),
  (2, NULL, NULL, NULL, NULL);
ALTER TABLE t ADD a DATETIME DEFAULT CURRENT_TIMESTAMP, ADD b TIMESTAMP(3) DEFAULT CURRENT_TIMESTAMP(3),
  ADD c TIMESTAMP DEFAULT '2020-01-01 00:00:00', ADD e DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6);
ALTER TABLE t ADD f DATETIME(6) DEFAULT (NOW(3)), ADD g DATETIME(6) DEFAULT (UTC_TIMESTAMP(6)),
  ADD h DATE DEFAULT (NOW()), ADD i TIME(3) DEFAULT (CURTIME()), ADD j TIMESTAMP(6) NULL DEFAULT (NOW(6)),
  ADD k INT DEFAULT (UNIX_TIMESTAMP());
ALTER TABLE t MODIFY d TIMESTAMP(1), MODIFY ts DATETIME(3), MODIFY v TIMESTAMP NULL, MODIFY b VARCHAR(30);
CREATE TABLE u SELECT id, d FROM t;
ALTER TABLE u ADD l INT AS (HOUR(d)) STORED, ADD m CHAR(3) AS (IF(d > '2024-01-01' AND 'L' = 'l', 'L', 'l')) STORED;
SET binlog_row_image = MINIMAL;
INSERT INTO t (id) VALUES (3);
SET time_zone = 'Europe/Berlin';
ALTER TABLE t ADD m DATETIME DEFAULT NOW(), ADD n TIMESTAMP DEFAULT '2024-10-27 02:30:00',
  ADD o DATETIME DEFAULT '2024-10-27 02:30:00';
ALTER TABLE t MODIFY n DATETIME, MODIFY o TIMESTAMP;
SET sql_mode = '';
ALTER TABLE t ADD p TIMESTAMP DEFAULT '2024-03-31 02:30:00', ADD q DATETIME DEFAULT '2024-03-31 02:30:15.5';
ALTER TABLE t MODIFY q TIMESTAMP;
"""


@pytest.mark.mysql
def test_times_are_those_of_the_statements_session(berlin: MySqlServer, tmp_path: Path) -> None:
    replayed(berlin, tmp_path, CLOCKS)


SYSTEM = """
SET time_zone = 'SYSTEM', timestamp = 1700000000;
CREATE TABLE t (id INT PRIMARY KEY);
INSERT INTO t VALUES (1);
ALTER TABLE t ADD a TIMESTAMP DEFAULT CURRENT_TIMESTAMP, ADD b DATETIME DEFAULT '2001-01-01';
ALTER TABLE t ADD c DATETIME DEFAULT CURRENT_TIMESTAMP;
"""


@pytest.mark.mysql
def test_what_system_was_must_be_said(
    mysql_server: MySqlServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ReplayStopped, match="time zone of the statement's session is SYSTEM") as caught:
        replayed(mysql_server, tmp_path, SYSTEM)
    assert "--time-zone" in (caught.value.remedy or "") and caught.value.position
    command = ["replay", "--from", str(tmp_path / "merged"), "--to", f"duckdb://{tmp_path / 'file.db'}", "--time-zone"]
    assert run([*command, "Nowhere/Land"]) == 2 and "'Nowhere/Land' is not known" in capsys.readouterr().err
    assert run([*command, "+08:00"]) == 0
    (row,) = tables_of(tmp_path / "file.db")["one", "t"][1]
    assert [str(value) for value in row[1:]] == ["2023-11-14 22:13:20", "2001-01-01 00:00:00", "2023-11-15 06:13:20"]


CHANGES = """
CREATE TABLE g (id INT PRIMARY KEY, a INT, g INT AS (a * 2) STORED, h INT AS (g + 1) VIRTUAL);
INSERT INTO g (id, a) VALUES (1, 5), (2, 6), (3, NULL);
ALTER TABLE g MODIFY g INT AS (a * 3) STORED;
ALTER TABLE g ADD b INT DEFAULT 4, ADD c INT AS (b + a) STORED, ADD d INT DEFAULT (a + 1);
ALTER TABLE g CHANGE h hh BIGINT AS (g + 2) VIRTUAL, MODIFY d VARCHAR(10);
ALTER TABLE g MODIFY c VARCHAR(9) AS (b + a) STORED, ADD k INT AS (a + 1), ADD l INT AS (k * 2) STORED;
ALTER TABLE g MODIFY g INT;
UPDATE g SET a = 7 WHERE id = 1;
SET sql_mode = '';
CREATE TABLE z (id INT PRIMARY KEY, v VARCHAR(20), n INT, d DATE, x DOUBLE, dc DECIMAL(10,4), e ENUM('a','b','c'),
  s SET('x','y','z'));
INSERT INTO z VALUES (1, 'hello world', 300, '2024-02-28', 1.5e10, 123.4567, 'b', 'x,y'), (2, '12abc', -5, '2024-02-28',
  -1.5, -0.5555, 'c', 'z'), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
ALTER TABLE z MODIFY v VARCHAR(5), MODIFY n TINYINT UNSIGNED, MODIFY x INT, MODIFY dc DECIMAL(4,1),
  MODIFY e ENUM('a','c'), MODIFY s SET('y','z');
ALTER TABLE z MODIFY v INT, MODIFY d VARCHAR(4), MODIFY n TINYINT UNSIGNED NOT NULL, MODIFY e ENUM('q') NOT NULL;
CREATE TABLE k (a VARCHAR(10) NOT NULL UNIQUE, b INT);
INSERT INTO k VALUES ('b', 1), ('A', 2), ('c', 3), ('Ä2', 4);
ALTER TABLE k ADD id INT AUTO_INCREMENT PRIMARY KEY FIRST;
CREATE TABLE l (a INT, b INT, PRIMARY KEY (b DESC, a));
INSERT INTO l VALUES (1, 1), (1, 2), (2, 2), (0, 7);
SET auto_increment_increment = 5, auto_increment_offset = 3;
ALTER TABLE l ADD n BIGINT UNSIGNED AUTO_INCREMENT, ADD UNIQUE (n), AUTO_INCREMENT = 100;
ALTER TABLE l DROP n, ADD o INT AUTO_INCREMENT, ADD UNIQUE (o);
SET auto_increment_offset = 7;
ALTER TABLE l DROP o, ADD p INT AUTO_INCREMENT, ADD UNIQUE (p);
"""


@pytest.mark.mysql
def test_values_that_an_alter_computes_converts_and_counts(mysql_server: MySqlServer, tmp_path: Path) -> None:
    replayed(mysql_server, tmp_path, CHANGES)


KEYLESS = """
CREATE TABLE one_row (a INT);
INSERT INTO one_row VALUES (7);
ALTER TABLE one_row ADD id INT AUTO_INCREMENT PRIMARY KEY;
CREATE TABLE t (a INT);
INSERT INTO t VALUES (7), (8);
ALTER TABLE t ADD id INT AUTO_INCREMENT PRIMARY KEY;
"""


@pytest.mark.mysql
def test_numbers_that_only_the_server_knows_stop_it(mysql_server: MySqlServer, tmp_path: Path) -> None:
    with pytest.raises(ReplayStopped, match=r"one\.t has no key: in which order its rows are numbered"):
        replayed(mysql_server, tmp_path, KEYLESS)
    assert tables_of(tmp_path / "file.db")["one", "one_row"][1] == [(7, 1)]


PARTITIONS = """
SET time_zone = '+03:00';
CREATE TABLE r (id INT, at DATETIME(3)) PARTITION BY RANGE (TO_DAYS(at)) (
  PARTITION p0 VALUES LESS THAN (TO_DAYS('2020-01-01')), PARTITION p1 VALUES LESS THAN (TO_DAYS('2021-01-01')),
  PARTITION p2 VALUES LESS THAN (TO_DAYS('2022-01-01')), PARTITION pm VALUES LESS THAN MAXVALUE);
INSERT INTO r VALUES (1, '2019-12-31 23:59:59.999'), (2, '2020-01-01'), (3, '2020-12-31 23:59:59'), (4, '2021-01-01'),
  (5, NULL), (6, '2022-01-01'), (7, '9999-12-31 23:59:59');
ALTER TABLE r TRUNCATE PARTITION p1;
ALTER TABLE r DROP PARTITION p0;
INSERT INTO r VALUES (8, '2018-01-01'), (9, NULL);
ALTER TABLE r REORGANIZE PARTITION pm INTO (PARTITION p3 VALUES LESS THAN (TO_DAYS('2023-01-01')),
  PARTITION `P M` VALUES LESS THAN MAXVALUE);
INSERT INTO r VALUES (10, '2022-06-01'), (11, '2024-01-01');
ALTER TABLE r TRUNCATE PARTITION `p m`, P2;
CREATE TABLE ts (id INT, at TIMESTAMP NOT NULL) PARTITION BY RANGE (UNIX_TIMESTAMP(at)) (
  PARTITION a VALUES LESS THAN (UNIX_TIMESTAMP('2020-01-01 00:00:00')),
  PARTITION b VALUES LESS THAN (UNIX_TIMESTAMP('2021-01-01 00:00:00')), PARTITION c VALUES LESS THAN MAXVALUE);
INSERT INTO ts VALUES (1, '2019-12-31 23:59:59'), (2, '2020-01-01'), (3, '2020-12-31 23:59:59'), (4, '2021-01-01');
SET time_zone = '+00:00';
ALTER TABLE ts DROP PARTITION b;
CREATE TABLE l (id INT) PARTITION BY LIST (id) (PARTITION a VALUES IN (1, 2, -3), PARTITION b VALUES IN (NULL, 5));
INSERT INTO l VALUES (1), (2), (-3), (NULL), (5);
ALTER TABLE l TRUNCATE PARTITION b;
ALTER TABLE l ADD PARTITION (PARTITION d VALUES IN (8, 9));
INSERT INTO l VALUES (8), (NULL);
ALTER TABLE l DROP PARTITION a, d;
CREATE TABLE rc (a INT, b VARCHAR(10), d DATE) PARTITION BY RANGE COLUMNS (a, b, d) (
  PARTITION p0 VALUES LESS THAN (1, 'm', '2020-01-01'), PARTITION p1 VALUES LESS THAN (1, 'm', MAXVALUE),
  PARTITION p2 VALUES LESS THAN (2, MAXVALUE, '2020-01-01'),
  PARTITION p3 VALUES LESS THAN (MAXVALUE, MAXVALUE, MAXVALUE));
INSERT INTO rc VALUES (NULL, 'z', '2021-01-01'), (1, NULL, '2021-01-01'), (1, 'M', NULL), (1, 'M', '2019-01-01'),
  (1, 'm', '2020-01-01'), (1, 'n', '2001-01-01'), (2, 'zzz', '2030-01-01'), (3, 'a', '2001-01-01');
CREATE TABLE rc2 LIKE rc;
INSERT INTO rc2 SELECT * FROM rc;
ALTER TABLE rc TRUNCATE PARTITION p0;
ALTER TABLE rc2 TRUNCATE PARTITION p1;
CREATE TABLE lc (a INT, b VARCHAR(10) COLLATE utf8mb4_general_ci) PARTITION BY LIST COLUMNS (a, b) (
  PARTITION p0 VALUES IN ((1, 'a'), (NULL, 'b'), (2, NULL)), PARTITION p1 VALUES IN ((1, 'b'), (3, 'c, d')));
INSERT INTO lc VALUES (1, 'A'), (NULL, 'b'), (2, NULL), (1, 'b'), (3, 'c, d');
ALTER TABLE lc TRUNCATE PARTITION p0;
CREATE TABLE h (id BIGINT UNSIGNED) PARTITION BY HASH (id DIV 2 + 1) PARTITIONS 3;
INSERT INTO h VALUES (1), (2), (3), (4), (5), (6), (NULL), (18446744073709551611), (18446744073709551613);
CREATE TABLE h2 LIKE h;
INSERT INTO h2 SELECT * FROM h;
ALTER TABLE h TRUNCATE PARTITION p0;
ALTER TABLE h2 ADD PARTITION PARTITIONS 2;
ALTER TABLE h2 TRUNCATE PARTITION p4, p2;
CREATE TABLE lh (id INT) PARTITION BY LINEAR HASH (id) PARTITIONS 6;
INSERT INTO lh VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (-1), (-2), (-3), (-4), (-5), (NULL);
ALTER TABLE lh COALESCE PARTITION 1;
ALTER TABLE lh TRUNCATE PARTITION p1, p4;
CREATE TABLE dates (d DATETIME(2), t TIME(3), y YEAR) PARTITION BY HASH (
  WEEKDAY(d) + DAYOFWEEK(d) * 2 + DAYOFYEAR(d) * 3 + QUARTER(d) * 5 + TO_SECONDS(d) * 7 + MICROSECOND(d)) PARTITIONS 3;
CREATE TABLE weeks LIKE dates;
INSERT INTO dates VALUES ('2024-01-01', '10:00:00', 2024), ('2024-05-04 10:00:00.55', '-11:11:11.5', 2001),
  (NULL, NULL, NULL), ('2023-12-31 23:59:59.99', '800:00:00', 1999), ('2023-10-30', '00:00:00', 0);
CREATE TABLE times LIKE dates;
INSERT INTO times SELECT * FROM dates;
INSERT INTO weeks SELECT * FROM dates;
ALTER TABLE weeks PARTITION BY RANGE (YEARWEEK(d)) (PARTITION p0 VALUES LESS THAN (202353),
  PARTITION p1 VALUES LESS THAN (202401), PARTITION p2 VALUES LESS THAN MAXVALUE);
ALTER TABLE weeks TRUNCATE PARTITION p1;
ALTER TABLE times PARTITION BY HASH (TIME_TO_SEC(t) + HOUR(t) * 2 + EXTRACT(MONTH FROM d)) PARTITIONS 3;
ALTER TABLE dates TRUNCATE PARTITION p0;
ALTER TABLE times TRUNCATE PARTITION p1, p2;
CREATE TABLE sp (id INT, d DATE) PARTITION BY RANGE (id) SUBPARTITION BY HASH (YEAR(d)) SUBPARTITIONS 2 (
  PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE);
INSERT INTO sp VALUES (1, '2020-01-01'), (2, '2021-01-01'), (11, '2020-01-01'), (12, '2021-01-01'), (3, NULL);
ALTER TABLE sp TRUNCATE PARTITION p0sp0, p1sp1;
CREATE TABLE ex (id INT PRIMARY KEY, v VARCHAR(5)) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10),
  PARTITION p1 VALUES LESS THAN (20));
CREATE TABLE ex2 (id INT PRIMARY KEY, v VARCHAR(5));
INSERT INTO ex VALUES (1, 'a'), (2, 'b'), (11, 'c');
INSERT INTO ex2 VALUES (3, 'x');
ALTER TABLE ex EXCHANGE PARTITION p0 WITH TABLE ex2;
UPDATE ex SET v = 'q' WHERE id = 3;
CREATE TABLE ky (id INT) PARTITION BY KEY (id) PARTITIONS 3;
INSERT INTO ky VALUES (1), (2);
ALTER TABLE ky ADD PARTITION PARTITIONS 2;
INSERT INTO ky VALUES (NULL), (3), (4), (5), (6), (7), (8), (9);
ALTER TABLE ky TRUNCATE PARTITION p1, p3;
ALTER TABLE ky REMOVE PARTITIONING;
CREATE TABLE kx (id INT PRIMARY KEY, v VARCHAR(5)) PARTITION BY LINEAR KEY () PARTITIONS 3;
CREATE TABLE kx2 (id INT PRIMARY KEY, v VARCHAR(5));
INSERT INTO kx VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e'), (6, 'f'), (7, 'g'), (8, 'h'), (9, 'i');
ALTER TABLE kx EXCHANGE PARTITION p1 WITH TABLE kx2;
UPDATE kx2 SET v = CONCAT(v, 2);
ALTER TABLE kx EXCHANGE PARTITION p1 WITH TABLE kx2;
ALTER TABLE kx EXCHANGE PARTITION p0 WITH TABLE kx2;
CREATE TABLE ks (id INT, d INT) PARTITION BY RANGE (id) SUBPARTITION BY KEY (d) SUBPARTITIONS 3 (
  PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN MAXVALUE);
INSERT INTO ks VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8), (9, NULL), (1, NULL);
ALTER TABLE ks TRUNCATE PARTITION p0sp1, p1sp0, p1sp2;
ALTER TABLE ks DROP PARTITION p0;
"""


@pytest.mark.mysql
def test_partitions_take_their_rows_with_them(mysql_server: MySqlServer, tmp_path: Path) -> None:
    replayed(mysql_server, tmp_path, PARTITIONS)


MADE = "CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY "
RANGES = f"{MADE} RANGE (id) (PARTITION p0 VALUES LESS THAN (10));\nCREATE TABLE o (id INT PRIMARY KEY)"
SUBS = (
    f"{MADE} RANGE (id) SUBPARTITION BY HASH (id) (PARTITION p0 VALUES LESS THAN (10) (SUBPARTITION a, SUBPARTITION b))"
)
UNKNOWN = {
    "of which only a server knows the hash": f"{MADE} KEY ALGORITHM = 1 () PARTITIONS 3;\n"
    "ALTER TABLE t TRUNCATE PARTITION p0",
    r"only a server knows the hash of column v \(utf8mb4_0900_ai_ci\)": "CREATE TABLE t (v VARCHAR(9)) "
    "PARTITION BY KEY (v) PARTITIONS 2;\nALTER TABLE t TRUNCATE PARTITION p0",
    "may be a date that no calendar has": "CREATE TABLE t (d DATE) PARTITION BY KEY (d) PARTITIONS 2;\n"
    "INSERT INTO t VALUES (NULL);\nALTER TABLE t TRUNCATE PARTITION p0",
    "a column of it is called rowid": "CREATE TABLE t (id INT PRIMARY KEY, rowid INT) PARTITION BY KEY (id) "
    "PARTITIONS 2;\nALTER TABLE t TRUNCATE PARTITION p0",
    "that are not of it": f"{RANGES};\nINSERT INTO o VALUES (33);\n"
    "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE o WITHOUT VALIDATION",
    "a subpartition with a name of its own": f"{SUBS};\nALTER TABLE t TRUNCATE PARTITION a",
    "has rows that the log does not name": "CREATE TABLE t (id INT);\nALTER TABLE t DISCARD TABLESPACE",
}


@pytest.mark.mysql
@pytest.mark.parametrize("reason", UNKNOWN)
def test_rows_of_partitions_that_only_the_server_knows_stop_it(
    reason: str, mysql_server: MySqlServer, tmp_path: Path
) -> None:
    with pytest.raises(ReplayStopped, match=reason) as caught:
        replayed(mysql_server, tmp_path, UNKNOWN[reason])
    assert "by hand" in (caught.value.remedy or "") and caught.value.position


COMPUTED = """
CREATE TABLE n (id INT PRIMARY KEY, a INT, s VARCHAR(20), dt DATETIME, j JSON, e ENUM('x','y'), t TEXT, d DECIMAL(9,2));
INSERT INTO n VALUES (1, NULL, 'Abc', '2024-01-01', '{"x": {"y": "v"}, "n": 3.5, "z": null}', 'x', '{"x": "q"}', 1.5),
  (2, 5, 'déf', '2023-12-31 10:00:05', '{"n": 2.5, "x": {"y": {"k": [1, "b"]}}}', 'y', '{"x": [1,2]}', -2.25),
  (3, 3, NULL, NULL, '[1,2]', NULL, NULL, NULL), (4, 4, 'zz', NULL, NULL, 'x', '5', 0);
ALTER TABLE n ADD c1 VARCHAR(64) AS (LOWER(s)), ADD c2 VARCHAR(64) AS (j->>'$.x.y'), ADD c3 INT AS (j->'$.n') STORED;
ALTER TABLE n ADD c4 JSON AS (j->'$.x') STORED, ADD c5 VARCHAR(20) AS (DATE_FORMAT(dt, '%Y-%m %T')),
  ADD c6 TINYINT AS (s = 'ABC'), ADD c7 DATE AS (DATE(dt)) STORED, ADD c8 VARCHAR(9) AS (IF(s = 'abc', e, NULL)) STORED;
ALTER TABLE n ADD c9 INT AS (TO_DAYS(dt)) STORED, ADD c10 VARCHAR(9) AS (j->'$[1]'), ADD c11 VARCHAR(20) AS (t->>'$.x'),
  ADD c12 BIGINT AS (CAST(j->'$.n' AS SIGNED)), ADD c13 CHAR(2) DEFAULT (LEFT(s, 2)), ADD c14 VARCHAR(9) AS (j->>'$.z');
ALTER TABLE n ADD c15 VARCHAR(20) AS (CASE e WHEN 'x' THEN 'one' WHEN 'y' THEN s ELSE 'none' END),
  ADD c16 INT AS (s LIKE 'D%' OR a BETWEEN 3 AND 4), ADD c17 DATETIME(3) AS (dt + INTERVAL 1 DAY),
  ADD c18 DECIMAL(12,3) AS (IF(s > 'b', d, -d));
ALTER TABLE n MODIFY s VARCHAR(30), MODIFY c1 VARCHAR(64) AS (UPPER(s));
UPDATE n SET s = 'New' WHERE id = 3;
ALTER TABLE n DROP COLUMN a, ADD COLUMN A VARCHAR(5) DEFAULT 'new', DROP c16;
CREATE DATABASE main;
CREATE TABLE main.t (id INT PRIMARY KEY);
INSERT INTO main.t VALUES (1);
DROP DATABASE main;
"""


@pytest.mark.mysql
def test_expressions_are_computed_for_rows_that_are_there(mysql_server: MySqlServer, tmp_path: Path) -> None:
    replayed(mysql_server, tmp_path, COMPUTED)


@pytest.mark.mysql
def test_an_expression_with_other_digits_here_stops_it(mysql_server: MySqlServer, tmp_path: Path) -> None:
    statements = "CREATE TABLE t (a INT);\nINSERT INTO t VALUES (5);\nALTER TABLE t ADD b DOUBLE AS (a / 3)"
    with pytest.raises(ReplayStopped, match=r"column b cannot be computed .* / of a value of kind int"):
        replayed(mysql_server, tmp_path, statements)


NAMES = """
CREATE TABLE t (s INT, n INT, k INT, t INT, r INT, i INT);
INSERT INTO t VALUES (1, 1, 1, 1, 1, 1), (2, 2, 2, 2, 2, 2);
DELETE FROM t WHERE s = 2;
CREATE VIEW v AS SELECT * FROM t;
RENAME TABLE v TO w, t TO v, w TO t;
INSERT INTO v VALUES (3, 3, 3, 3, 3, 3);
"""


@pytest.mark.mysql
def test_views_and_columns_of_any_name(mysql_server: MySqlServer, tmp_path: Path) -> None:
    run_session(mysql_server, NAMES, "one")
    binlog = as_merged(mysql_server, tmp_path / "merged")
    for rank in range(1, binlog.last_rank + 1):
        loaded(binlog, tmp_path / "file.db", last_rank=rank)
    assert tables_of(tmp_path / "file.db") == {("one", "v"): [list("snktri"), [(1,) * 6, (3,) * 6]]}
