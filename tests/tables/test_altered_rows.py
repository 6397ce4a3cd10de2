"""What an ALTER does to rows that are there: named cases, and random stories of every pair of types and sql_mode."""

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from binlog_merge.errors import ReplayStopped
from tests.effort import effort, seed_of_search
from tests.mysql_server import MySqlServer
from tests.tables.alters import TYPES, Found, literals, played, stories_of
from tests.tables.test_duckdb import loaded, tables_at, tables_of
from tests.tables.test_duckdb_ddl import replayed
from tests.targets.as_merged import as_merged, run_session

pytestmark = pytest.mark.mysql


def right(found: Found, seed: object) -> None:
    assert not found.differences, (seed, len(found.differences), found.differences[:10])
    # A stop names what cannot be converted, and why; no other ALTER of the story was stopped by it.
    assert all("the values that are there cannot be converted: " in words for _, words in found.stops), found.stops


@pytest.mark.extended  # random ones; test_cases has each kind
def test_stories(mysql_server: MySqlServer, tmp_path: Path) -> None:
    seed = seed_of_search()
    random = Random(seed)
    old = random.choice(TYPES)
    right(played(mysql_server, random.sample(stories_of(old), effort(2, 12)), tmp_path, random), (seed, old))


@pytest.mark.soak
def test_all_stories(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """Each type becomes each other in each sql_mode; SOAK_PART=2/4 does the second of four parts of the types.

    What it prints says which types it came to: all but those for which SOAK_SECONDS were too few.
    """
    seed = seed_of_search()
    stop = time.monotonic() + float(os.environ.get("SOAK_SECONDS", "1e9"))
    part, parts = map(int, os.environ.get("SOAK_PART", "1/1").split("/"))
    assert 1 <= part <= parts
    total, wrong, left = Found(), [], list(TYPES[part - 1 :: parts])
    while left and time.monotonic() < stop:
        old = left.pop(0)
        folder = tmp_path / str(TYPES.index(old))
        folder.mkdir()
        found = played(mysql_server, stories_of(old), folder, Random(f"{seed} {old}"))
        shutil.rmtree(folder)
        print(f"{old}: {found.altered} ALTERs, {found.compared} values, {len(found.stops)} stops", flush=True)
        print(*map(str, found.differences[:50]), sep="\n", flush=True)
        wrong += found.differences[:50]
        total.altered, total.compared = total.altered + found.altered, total.compared + found.compared
        total.stops += found.stops
    print(f"seed {seed}: {total.altered} ALTERs, {total.compared} values, {len(total.stops)} stops; left: {left}")
    right(replace(total, differences=wrong), seed)


CASES = """
SET time_zone = '+02:00', timestamp = 1700000000.654321;
CREATE TABLE scalars (id INT PRIMARY KEY, j JSON, k JSON, l JSON);
INSERT INTO scalars SELECT i, v, v, v FROM (VALUES ROW(1,'1'), ROW(2,'1.0'), ROW(3,'true'), ROW(4,'0'), ROW(5,'false'),
  ROW(6,'-0.0'), ROW(7,'null'), ROW(8,'0.0'), ROW(10,'-3993669663256699.5'), ROW(11,'1e15')) d (i, v);
INSERT INTO scalars VALUES (9, NULL, NULL, NULL);
ALTER TABLE scalars MODIFY j LONGTEXT, MODIFY k VARCHAR(20);
ALTER TABLE scalars MODIFY l VARBINARY(20) NULL;
CREATE TABLE nows (id INT PRIMARY KEY, d DATETIME, e DATE, ts TIMESTAMP(3) NULL, v VARCHAR(30));
INSERT INTO nows VALUES (1, NULL, NULL, NULL, NULL), (2, '2024-06-01', '2024-06-01', '2024-06-01', '2024-06-01');
ALTER TABLE nows MODIFY d TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, MODIFY e TIMESTAMP(4) NOT NULL,
  MODIFY v TIMESTAMP(6) NOT NULL;
SET sql_mode = '';
ALTER TABLE nows MODIFY ts TIMESTAMP(2) NOT NULL, ADD y INT AS (YEAR(d));
CREATE TABLE cut (id INT PRIMARY KEY, v TINYTEXT, w TEXT, x TINYTEXT);
INSERT INTO cut VALUES (1, REPEAT('x', 250), REPEAT('y', 60000), REPEAT('ä', 100));
ALTER TABLE cut MODIFY v VARCHAR(100), MODIFY w VARCHAR(5000), MODIFY x VARCHAR(120);
CREATE TABLE digits (a DECIMAL(40,10), b DECIMAL(38,10), c DECIMAL(10,2), d DECIMAL(65,30), e DECIMAL(10,10));
INSERT INTO digits VALUES (1.5, 1.5, 1.5, 1.5, 0.5), (1.5, 1.5, 1.5, 1.5, 0.5), (-1, 0, NULL, 99999999999.1, -0.5);
ALTER TABLE digits MODIFY a DECIMAL(50,20), MODIFY b DECIMAL(42,14), MODIFY c DECIMAL(45,5), MODIFY d DECIMAL(65,10),
  MODIFY e DECIMAL(45,10);
INSERT INTO digits VALUES (1.5, 1.5, 1.5, 1.5, 0.5);
DELETE FROM digits WHERE a = 1.5 LIMIT 2;
UPDATE digits SET a = 7 WHERE a = 1.5;
CREATE TABLE zeros (a DOUBLE, f FLOAT, v INT);
INSERT INTO zeros VALUES (0e0, -0e0, 1), (-0e0, 0e0, 2);
UPDATE zeros SET v = v + 10 WHERE v = 2;
CREATE TABLE zeros_too LIKE zeros;
INSERT INTO zeros_too SELECT * FROM zeros;
ALTER TABLE zeros_too MODIFY a VARCHAR(20), MODIFY f DOUBLE;
DELETE FROM zeros WHERE LEFT(a, 1) = '-';
CREATE TABLE sets (id INT PRIMARY KEY, s SET('(','','\\\\','a'), t SET('','b'));
INSERT INTO sets VALUES (1, 3, 3), (2, 6, 1), (3, 7, 2), (4, 2, 0), (5, 15, NULL);
ALTER TABLE sets MODIFY s SET('','\\\\','a','('), MODIFY t VARCHAR(10);
CREATE TABLE names (id INT PRIMARY KEY, s VARCHAR(20), e VARCHAR(20), g VARCHAR(20) CHARACTER SET gbk);
INSERT INTO names VALUES (1, 'a ,b', 'a ', 'a ,b'), (2, 'b,a ', ' a', 'b,A  '), (3, 'b ,a  ', 'A  ', 'b ,a'),
  (4, ' ', ' ', ' ');
ALTER TABLE names MODIFY s SET('a','b'), MODIFY e ENUM('a','b'), MODIFY g SET('a','b');
CREATE TABLE days (id INT PRIMARY KEY, a TIME(2), b TIME);
INSERT INTO days VALUES (1, '-01:00:00.5', '838:59:59'), (2, '23:30:00', NULL);
ALTER TABLE days MODIFY a DATETIME(1), MODIFY b DATE;
CREATE TABLE powers (id INT PRIMARY KEY, a VARCHAR(40), b VARBINARY(40));
INSERT INTO powers VALUES (1, '1.5e3', '-1:2:3E+4'), (2, '2 3:4e5', 'e5'), (3, '5000000000', '1:5000000000:0');
ALTER TABLE powers MODIFY a TIME(3), MODIFY b TIME;
CREATE TABLE counted (id INT PRIMARY KEY, v DECIMAL(40,10), d DECIMAL(65,30));
INSERT INTO counted VALUES (1, REPEAT('9', 30), 18446744073709551615), (2, -1, -18446744073709551615);
ALTER TABLE counted MODIFY v DECIMAL(50,10), MODIFY d BIGINT UNSIGNED;
CREATE TABLE fixed (id INT PRIMARY KEY, a DOUBLE(20,4), b FLOAT(7,2), c DOUBLE(20,4));
INSERT INTO fixed VALUES (1, -38090545191728.234, 123.456, 0.30005), (2, -0e0, -0e0, 1e15),
  (3, 30467268513545.2188, 99, 1);
ALTER TABLE fixed MODIFY a VARCHAR(40), MODIFY b VARCHAR(40), MODIFY c VARBINARY(40);
CREATE TABLE offsets (id INT PRIMARY KEY);
INSERT INTO offsets VALUES (1);
SET time_zone = '-03:30';
CREATE TABLE displaced (id INT PRIMARY KEY, a VARCHAR(40), b VARBINARY(40), c TEXT CHARACTER SET utf16, d CHAR(40));
INSERT INTO displaced VALUES (1, '2020-01-02T03:04:05+01:00', '2020-07-02 23:04:05.6789-14:00', '20200102日',
   '- 481,11'),
  (2, '2020-01-02 03:04:05.6+00:00', '2020-01-02 03:04+01:00', '2020-01-02 03:04:05.67+01:00',
   '2020-01-02 03:04:05+1:00'),
  (3, '1970-01-01 00:00:01+00:00', '20200102030405.5+01:00', '2020-01-02 03:04:05.1234567x', '2020-01-02 03:04:05-');
CREATE TABLE displaced_too LIKE displaced;
INSERT INTO displaced_too SELECT * FROM displaced;
ALTER TABLE displaced MODIFY a DATETIME, MODIFY b TIMESTAMP(2) NULL, MODIFY c DATETIME(6);
ALTER TABLE displaced_too MODIFY a TIME(1), MODIFY b DATE, MODIFY c TIME(6), MODIFY d TIME;
SET time_zone = '+02:00';
ALTER TABLE offsets ADD a TIMESTAMP NULL DEFAULT '2020-01-02 03:04:05+05:30',
  ADD b DATETIME DEFAULT '2020-01-01 10:00:00.5-02:00',
  ADD c TIMESTAMP(3) NULL DEFAULT '2020-01-02 03:04:05.1234-14:00';
SET sql_mode = 'ALLOW_INVALID_DATES';
CREATE TABLE behind (id INT PRIMARY KEY, a VARCHAR(40), b VARCHAR(40));
INSERT INTO behind VALUES (1, '2020-02-30 01:02:03.7', '2021-04-31 23:59:59.999');
ALTER TABLE behind MODIFY a DATE, MODIFY b DATETIME(1);
"""
MODES = """
SET sql_mode = 'TIME_TRUNCATE_FRACTIONAL,NO_ZERO_IN_DATE,PAD_CHAR_TO_FULL_LENGTH';
CREATE TABLE modes (id INT PRIMARY KEY, a DATETIME(3), b VARCHAR(30), c CHAR(5), d TIME(3), e DATETIME(3),
  f TIMESTAMP(3) NULL, g TIME(3), h TIME(3), i DATETIME(3));
INSERT INTO modes VALUES (1, '2024-01-01 00:00:00.999', '2020-00-01', 'ab', '00:00:00.999', '2024-01-01 00:59:59.5',
  '2024-01-01 00:00:01.6', '-00:59:59.999', '00:00:12.6', '2024-01-01 00:00:00.999');
ALTER TABLE modes MODIFY a DATETIME, MODIFY b DATE, MODIFY c VARCHAR(10), MODIFY d TIME(1), MODIFY e BIGINT,
  MODIFY f BIT(60), MODIFY g INT, MODIFY h YEAR, MODIFY i DECIMAL(20,2);
SET sql_mode = '';
CREATE TABLE year_0 (id INT PRIMARY KEY, a VARCHAR(40), b VARCHAR(40), c VARCHAR(40));
INSERT INTO year_0 VALUES (1, '0000-02-28 23:59:59.9', '0000-12-31 23:59:59.96', '0000-02-29'),
  (2, '0000-05-06 23:59:59.5', '0000-01-01 23:59:59.9', '0000-01-00 23:59:59.9');
ALTER TABLE year_0 MODIFY a DATE, MODIFY b DATETIME(1), MODIFY c DATETIME;
SET sql_mode = 'ALLOW_INVALID_DATES';
CREATE TABLE in_calendar (id INT PRIMARY KEY, a VARCHAR(40), b VARBINARY(40));
INSERT INTO in_calendar VALUES (1, '2021-02-31 23:59:59.5', '2021-02-30 01:02:03'), (2, '2021-02-28', '2021-02-28');
ALTER TABLE in_calendar MODIFY a TIMESTAMP NULL, MODIFY b TIMESTAMP(2) NULL;
"""


NO_TYPED = ("modes", "year_0", "in_calendar")


def test_cases(mysql_server: MySqlServer, tmp_path: Path) -> None:
    run_session(mysql_server, CASES + MODES, "one")
    binlog = as_merged(mysql_server, tmp_path / "merged")
    for text, last in ((True, binlog.last_rank), (False, binlog.last_rank - 7)):  # whose zero dates no type has
        loaded(binlog, tmp_path / f"{text}.db", text=text, last_rank=last)
        expected, found = tables_at(mysql_server, text), tables_of(tmp_path / f"{text}.db")
        for table, rows in expected.items():
            assert (not text and table[1] in NO_TYPED) or repr(found[table]) == repr(rows), table


PARTED = """
CREATE TABLE hashed (id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 3;
CREATE TABLE in_line (id INT PRIMARY KEY, v INT) PARTITION BY LINEAR HASH (id) PARTITIONS 5;
CREATE TABLE listed (id INT PRIMARY KEY, v INT) PARTITION BY LIST (id) (PARTITION a VALUES IN (5, 6, 7, 8),
  PARTITION b VALUES IN (1, 2), PARTITION c VALUES IN (3, 4));
CREATE TABLE ranged (id INT, v INT, PRIMARY KEY (v, id)) PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (4),
  PARTITION b VALUES LESS THAN MAXVALUE);
CREATE TABLE within (id INT, v INT, PRIMARY KEY (v, id)) PARTITION BY RANGE (id) SUBPARTITION BY HASH (v) (
  PARTITION a VALUES LESS THAN (4) (SUBPARTITION x, SUBPARTITION y),
  PARTITION b VALUES LESS THAN MAXVALUE (SUBPARTITION z, SUBPARTITION u));
CREATE TABLE one_key (id INT PRIMARY KEY, v INT) PARTITION BY KEY (id) PARTITIONS 1;
CREATE TABLE keyed (id INT PRIMARY KEY, v INT) PARTITION BY KEY () PARTITIONS 3;
CREATE TABLE in_keys (id INT, v INT, PRIMARY KEY (v, id)) PARTITION BY LIST (id) SUBPARTITION BY LINEAR KEY (id)
  SUBPARTITIONS 3 (PARTITION a VALUES IN (5, 6, 7, 8), PARTITION b VALUES IN (1, 2, 3, 4));
"""
TABLES = ("hashed", "in_line", "listed", "ranged", "within", "one_key", "keyed", "in_keys")


def test_numbers_go_partition_by_partition(mysql_server: MySqlServer, tmp_path: Path) -> None:
    filled = [
        f"INSERT INTO {t} VALUES (1, 8), (2, 3), (3, 1), (4, 7), (5, 2), (6, 6), (7, 5), (8, 4);\n"
        f"ALTER TABLE {t} ADD n INT NOT NULL AUTO_INCREMENT, ADD KEY (n)"
        for t in TABLES
    ]
    replayed(mysql_server, tmp_path, PARTED + ";\n".join(filled))


KEY_TYPES = (
    *("tinyint", "smallint unsigned", "mediumint", "int", "bigint", "bigint unsigned", "decimal(10,3)"),
    *("float", "double", "bit(1)", "bit(10)", "bit(64)", "year", "date", "datetime", "datetime(6)", "timestamp(3)"),
    *("binary(4)", "varbinary(30)", "varchar(40) collate utf8mb4_bin", "char(20) collate utf8mb3_bin"),
    *("varchar(40) collate latin1_bin", "varchar(40) character set latin1"),
)


def test_numbers_of_rows_in_partitions_by_key(mysql_server: MySqlServer, tmp_path: Path) -> None:
    seed = seed_of_search()
    random = Random(seed)
    run_session(mysql_server, "SET sql_mode = ''", "one")
    with mysql_server.connect("one") as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = '', timestamp = 1700000000")
        for n in range(effort(12, 300)):
            kinds = random.choices(KEY_TYPES, k=random.choice((1, 1, 2, 3)))
            columns = ", ".join(f"c{i} {kind}" for i, kind in enumerate(kinds))
            by = [f"c{i}" for i in range(len(kinds))]
            random.shuffle(by)
            key = f"{random.choice(('', 'LINEAR '))}KEY ({', '.join(by)})"
            clause = f"PARTITION BY {key} PARTITIONS {random.randint(2, 9)}"
            cursor.execute(f"CREATE TABLE t{n} (v INT, {columns}, PRIMARY KEY (v, {', '.join(by)})) {clause}")
            drawn = [literals(kind, random) for kind in kinds]
            rows = [", ".join([str(v), *map(random.choice, drawn)]) for v in range(20)]
            cursor.execute(f"INSERT IGNORE INTO t{n} VALUES ({'), ('.join(rows)})")
            cursor.execute(f"ALTER TABLE t{n} ADD n INT NOT NULL AUTO_INCREMENT FIRST, ADD KEY (n)")
    binlog = as_merged(mysql_server, tmp_path / "merged")
    loaded(binlog, tmp_path / "file.db", text=True)
    assert tables_of(tmp_path / "file.db") == tables_at(mysql_server, text=True), seed


def test_partitions_by_key_take_their_rows_with_them(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """TRUNCATE and EXCHANGE PARTITION of random tables, with and without a key that has the columns, NULL included."""
    seed = seed_of_search()
    random = Random(seed)
    run_session(mysql_server, "SET sql_mode = ''", "one")
    removed = 0
    with mysql_server.connect("one") as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = '', timestamp = 1700000000")
        for n in range(effort(12, 300)):
            kinds = random.choices(KEY_TYPES, k=random.choice((1, 1, 2, 3)))
            # What is NULL of them in a DuckDB file may be a date that no calendar has, and stops it.
            dates = [kind.startswith(("date", "timestamp")) for kind in kinds]
            pairs = zip(kinds, dates, strict=True)
            columns = ", ".join(f"c{i} {kind}{' NOT NULL' if date else ''}" for i, (kind, date) in enumerate(pairs))
            by = ", ".join(random.sample([f"c{i}" for i in range(len(kinds))], len(kinds)))
            parts = [f"p{i}" for i in range(random.randint(2, 6))]
            key = random.choice(("", f", PRIMARY KEY (v, {by})"))
            kind = random.choice(("", "LINEAR "))
            cursor.execute(
                f"CREATE TABLE t{n} (v INT, {columns}{key}) PARTITION BY {kind}KEY ({by}) PARTITIONS {len(parts)}"
            )
            drawn = [
                [*literals(kind, random), *(() if key or date else ("NULL",))]
                for kind, date in zip(kinds, dates, strict=True)
            ]
            rows = [", ".join([str(v), *map(random.choice, drawn)]) for v in range(30)]
            cursor.execute(f"INSERT IGNORE INTO t{n} VALUES ({'), ('.join(rows)})")
            cursor.execute(f"CREATE TABLE x{n} LIKE t{n}")
            cursor.execute(f"ALTER TABLE x{n} REMOVE PARTITIONING")
            moved = random.choice(parts)
            for _ in range(2):
                cursor.execute(f"ALTER TABLE t{n} EXCHANGE PARTITION {moved} WITH TABLE x{n}")
                cursor.execute(f"UPDATE x{n} SET v = v + 100")
            cursor.execute(f"SELECT COUNT(*) FROM t{n}")
            ((before,),) = cursor.fetchall()
            cursor.execute(f"ALTER TABLE t{n} TRUNCATE PARTITION {', '.join(random.sample(parts, len(parts) // 2))}")
            cursor.execute(f"SELECT COUNT(*) FROM t{n}")
            removed += before - cursor.fetchall()[0][0]
    binlog = as_merged(mysql_server, tmp_path / "merged")
    loaded(binlog, tmp_path / "file.db", text=True)
    assert tables_of(tmp_path / "file.db") == tables_at(mysql_server, text=True), seed
    assert removed


NUMBERED = "INSERT INTO t VALUES (1), (2);\nALTER TABLE t ADD n INT NOT NULL AUTO_INCREMENT, ADD KEY (n)"
UNKNOWN = {
    "of which only a server knows the hash": "CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY KEY ALGORITHM = 1 () "
    f"PARTITIONS 3;\n{NUMBERED}",
    r"only a server knows the hash of column id \(utf8mb4_0900_ai_ci\)": "CREATE TABLE t (id VARCHAR(9) PRIMARY KEY) "
    f"PARTITION BY KEY () PARTITIONS 3;\n{NUMBERED}",
    "NULLs and zeros of column v become numbers": "CREATE TABLE t (id INT PRIMARY KEY, v INT);\n"
    "SET sql_mode = '';\nINSERT INTO t VALUES (1, NULL), (2, 5);\n"
    "ALTER TABLE t MODIFY v INT AUTO_INCREMENT, ADD KEY (v)",
    "one.t: the values .* the member '' of column v is not told": "CREATE TABLE t (v SET('','a'));\n"
    "INSERT INTO t VALUES (1);\nALTER TABLE t MODIFY v INT",
    "one.t: the values .* is a text, or a document's date": "CREATE TABLE t (v JSON);\n"
    "INSERT INTO t VALUES (CAST(CAST('2020-01-02' AS DATE) AS JSON));\nSET sql_mode = '';\n"
    "ALTER TABLE t MODIFY v BIT(64)",
    "one.t: the values .* depends on whether the server copied": "CREATE TABLE t (v DOUBLE, w INT);\n"
    "INSERT INTO t VALUES (0.126, 1);\nALTER TABLE t MODIFY v DOUBLE(10,2), MODIFY w BIGINT",
    "DuckDB has a schema pg_catalog of its own": "CREATE DATABASE pg_catalog;\nCREATE TABLE pg_catalog.t (a INT)",
}


@pytest.mark.parametrize("reason", UNKNOWN)
def test_what_is_not_known_stops_it(reason: str, mysql_server: MySqlServer, tmp_path: Path) -> None:
    with pytest.raises(ReplayStopped, match=reason) as caught:
        replayed(mysql_server, tmp_path, UNKNOWN[reason])
    assert caught.value.position and caught.value.remedy


def test_numbers_that_only_a_server_knows_are_given_by_hand(mysql_server: MySqlServer, tmp_path: Path) -> None:
    run_session(mysql_server, UNKNOWN["of which only a server knows the hash"], "one")
    numbers = mysql_server.query("SELECT n, id FROM one.t")
    mysql_server.execute("UPDATE one.t SET n = n + 100 WHERE id = 2")
    mysql_server.execute("INSERT INTO one.t (id) VALUES (3)")
    binlog, path = as_merged(mysql_server, tmp_path / "merged"), tmp_path / "file.db"
    with pytest.raises(ReplayStopped, match="only a server knows the hash") as caught:
        loaded(binlog, path)
    result: Any = caught.value.result
    assert "then go on with --skip" in caught.value.remedy
    with duckdb.connect(str(path)) as connection:
        connection.execute("ALTER TABLE one.t ADD COLUMN n INTEGER")
        connection.executemany("UPDATE one.t SET n = ? WHERE id = ?", numbers)
    loaded(binlog, path, skip=frozenset({result.last_rank + 1}))
    assert tables_of(path) == tables_at(mysql_server)


ZEROS = """
SET sql_mode = '';
CREATE TABLE t (d DATE, e DATETIME, v INT);
INSERT INTO t VALUES ('2020-01-00', '2020-01-01', 1), ('0000-00-00', NULL, 2);
SET sql_mode = 'NO_ZERO_IN_DATE';
ALTER TABLE t ADD w INT;
"""


def test_dates_with_a_zero_stop_what_may_have_copied_them(mysql_server: MySqlServer, tmp_path: Path) -> None:
    run_session(mysql_server, ZEROS, "one")
    binlog = as_merged(mysql_server, tmp_path / "before")
    loaded(binlog, tmp_path / "file.db", text=True)
    assert tables_of(tmp_path / "file.db") == tables_at(mysql_server, text=True)
    with mysql_server.connect("one") as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = 'NO_ZERO_IN_DATE'")
        cursor.execute("ALTER TABLE t MODIFY v VARCHAR(9)")
    assert mysql_server.query("SELECT CONCAT(MAX(d)) FROM one.t") == [("0000-00-00",)]
    with pytest.raises(ReplayStopped, match="dates with a zero in column d become"):
        loaded(as_merged(mysql_server, tmp_path / "after"), tmp_path / "other.db", text=True)


IN_PLACE = """
CREATE TABLE t (v DOUBLE, c CHAR(4) CHARACTER SET latin1);
INSERT INTO t VALUES (0.126, 'ab'), (1e9, 'abcd');
ALTER TABLE t MODIFY v DOUBLE(10,2);
ALTER TABLE t MODIFY c BINARY(4);
ALTER TABLE t MODIFY v DOUBLE
"""


def test_a_definition_that_is_changed_in_place_leaves_values(mysql_server: MySqlServer, tmp_path: Path) -> None:
    replayed(mysql_server, tmp_path, IN_PLACE)


NAMES = """
CREATE TABLE t (`replay n` INT, `replay sign` INT, `Replay Old` INT, v INT);
INSERT INTO t VALUES (3, 1, 1, 1), (3, 1, 1, 1), (2, 0, 5, 6), (2, 0, 5, 7);
DELETE FROM t WHERE v = 1 LIMIT 1;
UPDATE t SET `replay n` = 9 WHERE v = 6;
CREATE TABLE k (`replay n` INT PRIMARY KEY, `replay has 1` INT, j JSON);
SET binlog_row_image = MINIMAL, binlog_row_value_options = PARTIAL_JSON;
INSERT INTO k VALUES (5, 6, '{"a": 1, "b": "long long long long long long"}'), (6, 7, NULL);
UPDATE k SET j = JSON_SET(j, '$.a', 2);
UPDATE k SET `replay has 1` = 8;
ALTER TABLE k ADD g INT AS (`replay n` + 1);
CREATE TABLE `binlog_merge new` (`binlog_merge new 0` INT, `binlog_merge new 1` INT);
INSERT INTO `binlog_merge new` VALUES (1, 2);
ALTER TABLE `binlog_merge new` MODIFY `binlog_merge new 0` BIGINT, ADD x INT DEFAULT 5;
ALTER TABLE `binlog_merge new` RENAME COLUMN `binlog_merge new 0` TO a, RENAME COLUMN `binlog_merge new 1` TO b;
ALTER TABLE t MODIFY v BIGINT;
CREATE DATABASE pg_catalog
"""


def test_names_of_the_replays_own(mysql_server: MySqlServer, tmp_path: Path) -> None:
    run_session(mysql_server, NAMES, "one")
    binlog = as_merged(mysql_server, tmp_path / "merged")
    for rank in range(1, binlog.last_rank + 1):
        loaded(binlog, tmp_path / "file.db", last_rank=rank)
    assert tables_of(tmp_path / "file.db") == tables_at(mysql_server)


NULL_DOCUMENT = """
SET binlog_row_image = MINIMAL, binlog_row_value_options = PARTIAL_JSON;
CREATE TABLE j (id INT PRIMARY KEY, j JSON, k JSON);
INSERT INTO j VALUES (1, JSON_OBJECT('a', 1, 's', REPEAT('x', 99)), 'null');
UPDATE j SET j = JSON_SET(j, '$.a', 2);
"""


def test_a_document_null_beside_a_difference(mysql_server: MySqlServer, tmp_path: Path) -> None:
    run_session(mysql_server, NULL_DOCUMENT, "one")
    binlog, path = as_merged(mysql_server, tmp_path / "merged"), tmp_path / "file.db"
    loaded(binlog, path, last_rank=3)
    loaded(binlog, path)
    assert tables_of(path) == tables_at(mysql_server)
    with duckdb.connect(str(path)) as connection:
        assert connection.execute("SELECT k FROM one.j").fetchall() == [("null",)]
