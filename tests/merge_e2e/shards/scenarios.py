"""The scenarios: one of each kind of thing that DDL of shards can do to each other."""

from tests.merge_e2e.shards.scenario import Scenario

REPLACE = "REPLACE _t11_new (id, a, b) VALUES (NEW.id, NEW.a, NEW.b)"
PLAIN = "id INT PRIMARY KEY, a INT, b VARCHAR(20) NOT NULL DEFAULT 'b'"


def all_run(*clauses: str, shards: str = "t11 t12 t21") -> str:
    """Return the script in which the shards run some clauses one after the other, with rows between."""
    every, lines = shards.split(), []
    for clause in clauses:
        for number, shard in enumerate(every):
            lines += [f"{every[number - 1]} work", f"{shard} row", f"{shard} {clause}", f"{shard} touch"]
    return "\n".join([*lines, *(f"{shard} work" for shard in shards.split())])


def each_runs(*clauses: str, shards: str = "t11 t12 t21") -> str:
    """Return the script in which each shard runs all clauses before the next begins: several are in flight."""
    every, lines = shards.split(), []
    for number, shard in enumerate(every):
        for clause in clauses:
            lines += [f"{every[number - 1]} work", f"{shard} row", f"{shard} {clause}", f"{shard} touch"]
    return "\n".join([*lines, *(f"{shard} work" for shard in shards.split())])


BOTH = (
    Scenario("a column is added", PLAIN, all_run("ADD COLUMN c INT DEFAULT 7 AFTER id")),
    Scenario("a column is dropped", PLAIN, all_run("DROP COLUMN a")),
    Scenario("a column is renamed", PLAIN, all_run("RENAME COLUMN a TO c")),
    Scenario("a column is widened", PLAIN, all_run("MODIFY a BIGINT", "MODIFY b VARCHAR(300) NOT NULL DEFAULT 'b'")),
    Scenario("a column is narrowed", PLAIN, all_run("MODIFY a MEDIUMINT", "MODIFY b VARCHAR(15) NOT NULL DEFAULT 'b'")),
    Scenario("a number becomes a text", PLAIN, all_run("MODIFY a VARCHAR(20)")),
    Scenario("a sign goes", PLAIN, all_run("MODIFY a INT UNSIGNED")),
    Scenario("a precision changes", "id INT PRIMARY KEY, a DECIMAL(10,2)", all_run("MODIFY a DECIMAL(12,4)")),
    Scenario("NOT NULL without default", PLAIN, all_run("ADD COLUMN c INT NOT NULL", "ADD d CHAR(9) NOT NULL")),
    Scenario("NULL and NOT NULL", PLAIN, all_run("MODIFY a INT NOT NULL", "MODIFY a INT NULL")),
    Scenario("a default comes and goes", PLAIN, all_run("ALTER a SET DEFAULT 5", "ALTER a SET DEFAULT 6")),
    Scenario("keys", PLAIN, all_run("ADD INDEX k (a)", "ADD UNIQUE u (id, b)", "DROP INDEX k", "RENAME INDEX u TO v")),
    Scenario("the primary key changes", PLAIN, all_run("DROP PRIMARY KEY, ADD PRIMARY KEY (b, id)")),
    Scenario("several clauses", PLAIN, all_run("ADD COLUMN c INT, DROP COLUMN a, MODIFY b VARCHAR(30) NOT NULL")),
    Scenario(
        "columns are swapped",
        "id INT PRIMARY KEY, a INT, b INT",
        all_run("RENAME COLUMN a TO b, RENAME COLUMN b TO a"),
    ),
    Scenario("a column changes name and type", PLAIN, all_run("CHANGE a c BIGINT UNSIGNED NOT NULL")),
    Scenario(
        "several in flight",
        PLAIN,
        each_runs("ADD COLUMN c INT", "RENAME COLUMN c TO d", "MODIFY d VARCHAR(9)", "DROP COLUMN a"),
    ),
    Scenario(
        "renamed again and again",
        PLAIN,
        each_runs("RENAME COLUMN a TO c", "RENAME COLUMN c TO d", "CHANGE d a BIGINT", "RENAME COLUMN b TO d"),
    ),
    Scenario("comment and engine", PLAIN, all_run("COMMENT = 'x'", "ENGINE = InnoDB", "MODIFY a INT COMMENT 'y'")),
    Scenario(
        "character sets",
        "id INT PRIMARY KEY, a VARCHAR(20), b VARCHAR(20) CHARACTER SET latin1",
        all_run("MODIFY a VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "CONVERT TO CHARACTER SET utf8mb4"),
        options="DEFAULT CHARSET utf8mb3",
    ),
    Scenario(
        "types of all kinds",
        "id INT PRIMARY KEY, a ENUM('x', 'y'), b JSON, c DATETIME(3), d VARBINARY(9), e BIT(3), f POINT, g DOUBLE",
        all_run("MODIFY a ENUM('x', 'y', 'z'), ADD COLUMN i TIMESTAMP NULL", "RENAME COLUMN d TO j"),
    ),
    Scenario(
        "generated columns",
        PLAIN,
        all_run("ADD COLUMN c INT AS (a + 1) STORED AFTER a", "ADD COLUMN d VARCHAR(40) AS (concat(b, 'x')) VIRTUAL"),
    ),
    Scenario(
        "a shard joins as the others were, and follows",
        PLAIN,
        """
        t11 ADD COLUMN c INT
        t11 work
        n2 CREATE TABLE t22 LIKE t21
        t22 work
        t12 ADD COLUMN c INT
        t21 ADD COLUMN c INT
        t21 touch
        t22 row
        t22 ADD COLUMN c INT
        t22 touch
        t11 work
        """,
    ),
    Scenario(
        "a shard that is dropped is not waited for",
        PLAIN,
        """
        t21 work
        t11 RENAME COLUMN a TO c
        t11 work
        t12 RENAME COLUMN a TO c
        n2 DELETE FROM t21
        n2 DROP TABLE t21
        t12 work
        t11 touch
        """,
    ),
    Scenario(
        "a shard that waits is dropped",
        PLAIN,
        """
        t11 row
        t11 RENAME COLUMN a TO c
        t11 work
        n1 DELETE FROM t11
        n1 DROP TABLE t11
        t12 work
        t21 work
        t21 ADD COLUMN d INT
        t12 ADD COLUMN d INT
        t12 touch
        """,
    ),
    Scenario(
        "a shard that is emptied",
        PLAIN,
        """
        t11 work
        t21 work
        n1 DELETE FROM t11
        n1 TRUNCATE TABLE t11
        t11 row
        t11 ADD COLUMN c INT
        n1 TRUNCATE t12
        t21 ADD COLUMN c INT
        t12 ADD COLUMN c INT
        t12 work
        t21 work
        n2 TRUNCATE TABLE t21
        t21 row
        t11 touch
        """,
    ),
    Scenario(
        "the one shard is emptied",
        PLAIN,
        """
        t11 work
        n1 TRUNCATE TABLE t11
        t11 row
        t11 RENAME COLUMN a TO c
        t11 work
        n1 TRUNCATE t11
        """,
        shards="t11",
    ),
    Scenario(
        "a table is dropped with its last shard and made anew",
        PLAIN,
        """
        t11 work
        n1 DROP TABLE t11
        t12 work
        n1 DROP TABLE IF EXISTS t12, t99
        t21 work
        n2 DROP TABLE t21
        n2 CREATE TABLE t21 (id INT PRIMARY KEY, x TEXT)
        t21 work
        n1 CREATE TABLE IF NOT EXISTS t11 (id INT PRIMARY KEY, x TEXT)
        t11 work
        n1 CREATE TABLE IF NOT EXISTS t11 (id INT PRIMARY KEY)
        t11 ADD COLUMN y INT
        t11 work
        t21 ADD COLUMN y INT
        """,
    ),
    Scenario(
        "all shards go",
        PLAIN,
        """
        t11 work
        n1 DROP TABLE t11
        n1 DROP TABLE t12
        t21 work
        n2 DROP TABLE t21
        """,
    ),
    Scenario(
        "a shard gets another name",
        PLAIN,
        """
        t11 work
        n1 RENAME TABLE t11 TO t19
        t19 work
        t19 ADD COLUMN c INT
        t19 work
        t12 RENAME TO t18
        t18 ADD COLUMN c INT
        t21 ADD COLUMN c INT
        t18 work
        """,
    ),
    Scenario(
        "a table that was none becomes a shard",
        PLAIN,
        """
        t11 work
        n2 CREATE TABLE staging (id INT PRIMARY KEY, a INT, b VARCHAR(20) NOT NULL DEFAULT 'b')
        n2 RENAME TABLE staging TO t22
        t22 work
        t22 RENAME COLUMN a TO c
        t22 row
        t11 RENAME COLUMN a TO c
        t12 RENAME COLUMN a TO c
        t21 RENAME COLUMN a TO c
        t21 work
        """,
    ),
    Scenario(
        "gh-ost",
        PLAIN,
        """
        t11 work
        n1 CREATE /* gh-ost */ TABLE _t11_gho LIKE t11
        n1 ALTER /* gh-ost */ TABLE _t11_gho RENAME COLUMN a TO c, ADD COLUMN d INT
        n1 CREATE /* gh-ost */ TABLE _t11_ghc (id BIGINT PRIMARY KEY, hint VARCHAR(64))
        n1 INSERT INTO _t11_ghc VALUES (1, 'copying')
        n1 INSERT INTO _t11_gho (id, c, b) SELECT id, a, b FROM t11
        n1 RENAME TABLE t11 TO _t11_del, _t11_gho TO t11
        t11 work
        n1 DROP TABLE _t11_del
        n1 DROP TABLE _t11_ghc
        t12 work
        t12 RENAME COLUMN a TO c, ADD COLUMN d INT
        t21 work
        t21 RENAME COLUMN a TO c, ADD COLUMN d INT
        t21 work
        """,
    ),
    Scenario(
        "pt-online-schema-change",
        PLAIN,
        f"""
        t11 work
        n1 CREATE TABLE _t11_new (id INT PRIMARY KEY, a INT, b VARCHAR(20) NOT NULL DEFAULT 'b')
        n1 ALTER TABLE _t11_new MODIFY a BIGINT, ADD COLUMN d INT
        n1 CREATE TRIGGER pt_osc_x_t11_ins AFTER INSERT ON t11 FOR EACH ROW {REPLACE}
        n1 CREATE TRIGGER pt_osc_x_t11_upd AFTER UPDATE ON t11 FOR EACH ROW {REPLACE}
        n1 CREATE TRIGGER pt_osc_x_t11_del AFTER DELETE ON t11 FOR EACH ROW DELETE FROM _t11_new WHERE id = OLD.id
        t11 work
        n1 INSERT IGNORE INTO _t11_new (id, a, b) SELECT id, a, b FROM t11
        t11 touch
        n1 RENAME TABLE t11 TO _t11_old, _t11_new TO t11
        n1 DROP TABLE IF EXISTS _t11_old
        t11 work
        t12 MODIFY a BIGINT, ADD COLUMN d INT
        t12 work
        t21 MODIFY a BIGINT, ADD COLUMN d INT
        t21 work
        """,
    ),
    Scenario(
        "a transaction over two tables",
        PLAIN,
        """
        n1 CREATE TABLE u11 (id INT PRIMARY KEY, x INT)
        n2 CREATE TABLE u21 (id INT PRIMARY KEY, x INT)
        n1 CREATE TABLE other (id INT PRIMARY KEY, x INT)
        n1 INSERT INTO u11 VALUES (1, 1), (2, 2)
        t11 row
        t11 RENAME COLUMN a TO c
        n1 BEGIN
        n1 UPDATE u11 SET x = x + 10
        n1 INSERT INTO t11 (id, c) VALUES (901, 1)
        n1 COMMIT
        n1 UPDATE u11 SET x = x * 2
        n1 BEGIN
        n1 DELETE FROM u11 WHERE id = 1
        n1 INSERT INTO other VALUES (1, 1)
        n1 COMMIT
        n1 INSERT INTO other VALUES (2, 2)
        n2 INSERT INTO u21 VALUES (7, 7)
        t12 work
        t12 RENAME COLUMN a TO c
        t21 work
        t21 RENAME COLUMN a TO c
        n1 UPDATE other SET x = 9
        """,
        others=("u",),
    ),
    Scenario(
        "XA transactions",
        PLAIN,
        """
        t11 row
        t11 RENAME COLUMN a TO c
        n1 XA START 'x1'
        n1 INSERT INTO t11 (id, c) VALUES (901, 1), (902, 2)
        n1 XA END 'x1'
        n1 XA PREPARE 'x1'
        n2 XA START 'x2'
        n2 INSERT INTO t21 (id, a) VALUES (903, 1)
        n2 XA END 'x2'
        n2 XA PREPARE 'x2'
        n2 XA COMMIT 'x2'
        n1 XA COMMIT 'x1'
        t11 work
        t12 RENAME COLUMN a TO c
        n2 XA START 'x3'
        n2 DELETE FROM t21 WHERE id = 903
        n2 XA END 'x3'
        n2 XA COMMIT 'x3' ONE PHASE
        t21 RENAME COLUMN a TO c
        """,
    ),
    Scenario(
        "minimal row images",
        PLAIN,
        "n1 SET SESSION binlog_row_image = MINIMAL\nn2 SET SESSION binlog_row_image = NOBLOB\n"
        + all_run("RENAME COLUMN a TO c", "ADD COLUMN d INT FIRST", "DROP COLUMN c"),
    ),
    Scenario(
        "partial JSON and compressed transactions",
        "id INT PRIMARY KEY, a INT, j JSON",
        """
        n1 SET SESSION binlog_row_value_options = PARTIAL_JSON
        n2 SET SESSION binlog_transaction_compression = ON
        t11 row
        t21 row
        t11 RENAME COLUMN a TO c
        n1 UPDATE t11 SET j = JSON_SET(j, '$.n', 77, '$.m', 'more')
        t21 work
        t12 RENAME COLUMN a TO c
        n1 UPDATE t11 SET j = JSON_REMOVE(j, '$.text'), c = 5
        t21 RENAME COLUMN a TO c
        t21 work
        """,
    ),
    Scenario(
        "statements from elsewhere",
        PLAIN,
        """
        n1 CREATE DATABASE {db}x DEFAULT CHARACTER SET latin1
        n1 USE {db}x
        n1 ALTER TABLE {db}.t11 ADD COLUMN c VARCHAR(10)
        n1 INSERT INTO {db}.t11 (id, c) VALUES (901, 'x')
        n1 CREATE TABLE {db}.`t14` LIKE {db}.t12
        n1 INSERT INTO {db}.t14 (id) VALUES (902)
        n1 ALTER TABLE {db}.t14 /* a comment */ ADD c VARCHAR(10)
        n1 USE {db}
        n1 DROP DATABASE {db}x
        n1 alter table `t12` ADD COLUMN C VARCHAR(10); INSERT INTO t12 (id) VALUES (903)
        t21 ADD COLUMN c VARCHAR(10)
        t21 work
        """,
        alike=False,
    ),
    Scenario(
        "columns written in another case",
        PLAIN,
        """
        t11 RENAME COLUMN A TO C
        t11 work
        t12 rename column a to C
        t21 work
        t21 RENAME COLUMN `a` TO `C`
        t12 work
        """,
    ),
    Scenario(
        "where a row comes from",
        PLAIN,
        all_run("RENAME COLUMN a TO c", "ADD COLUMN d INT"),
        extract={
            "extract-table": {"table-regexp": "t(.*)", "target-column": "c_table"},
            "extract-schema": {"schema-regexp": "s[0-9]*_(n[0-9])", "target-column": "c_schema"},
            "extract-source": {"source-regexp": "(.*)", "target-column": "c_source"},
        },
    ),
    Scenario(
        "shards that swap their names",
        PLAIN,
        """
        t11 work
        t12 work
        n1 RENAME TABLE t11 TO aside, t12 TO t11, aside TO t12
        t11 work
        t11 RENAME COLUMN a TO c
        t12 work
        t12 RENAME COLUMN a TO c
        t21 RENAME COLUMN a TO c
        t11 touch
        """,
    ),
    Scenario(
        "a shard that waits is dropped and made anew",
        PLAIN,
        """
        t11 row
        t11 RENAME COLUMN a TO c
        t11 row
        n1 DELETE FROM t11
        n1 DROP TABLE t11
        n1 CREATE TABLE t11 LIKE t12
        t11 kept
        t12 RENAME COLUMN a TO c
        t21 work
        t21 RENAME COLUMN a TO c
        t11 RENAME COLUMN a TO c
        t11 kept
        """,
    ),
    Scenario(
        "a transaction over shards of one table",
        PLAIN,
        """
        t11 row
        t12 row
        t11 RENAME COLUMN a TO c
        n1 BEGIN
        n1 INSERT INTO t11 (id, c) VALUES (901, 1)
        n1 INSERT INTO t12 (id, a) VALUES (902, 1)
        n1 COMMIT
        n1 UPDATE t12 SET a = 5 WHERE id = 902
        t12 row
        t21 RENAME COLUMN a TO c
        n1 BEGIN
        n1 UPDATE t12 SET a = 6
        n1 UPDATE t11 SET c = 6
        n1 COMMIT
        t12 RENAME COLUMN a TO c
        n1 BEGIN
        n1 UPDATE t12 SET c = 7 WHERE id > 900
        n1 DELETE FROM t11 WHERE id = 901
        n1 COMMIT
        """,
    ),
    Scenario(
        "NOT NULL of all kinds",
        PLAIN,
        "n1 SET SESSION sql_mode = ''\nn2 SET SESSION sql_mode = ''\n"
        + all_run(
            "ADD COLUMN c ENUM('x', 'y') NOT NULL, ADD d DATE NOT NULL, ADD e TEXT NOT NULL, ADD f JSON NOT NULL,"
            " ADD g DECIMAL(5,2) NOT NULL, ADD h BINARY(3) NOT NULL, ADD i TIMESTAMP NOT NULL, ADD k YEAR NOT NULL"
        ),
    ),
    Scenario(
        "checks that a server names",
        "id INT PRIMARY KEY, a INT CHECK (a > 0), CHECK (a < 100000)",
        all_run("ADD CHECK (a < 90000)", "DROP CHECK {t}_chk_1", "ALTER CHECK {t}_chk_2 NOT ENFORCED"),
    ),
    Scenario(
        "foreign keys between shards",
        "",
        """
        n1 CREATE TABLE u11 (id INT PRIMARY KEY, x INT)
        n2 CREATE TABLE u21 (id INT PRIMARY KEY, x INT)
        n1 INSERT INTO u11 VALUES (901, 1)
        n2 INSERT INTO u21 VALUES (902, 1)
        n1 CREATE TABLE t11 (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES u11 (id))
        n2 CREATE TABLE t21 (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES u21 (id))
        n1 INSERT INTO t11 VALUES (5, 901)
        n2 INSERT INTO t21 VALUES (6, 902)
        t11 ADD COLUMN q INT, ADD CONSTRAINT to_u FOREIGN KEY (q) REFERENCES {db}.u11 (id)
        t21 ADD COLUMN q INT, ADD CONSTRAINT to_u FOREIGN KEY (q) REFERENCES {db}.u21 (id)
        n1 UPDATE t11 SET q = 901
        t21 DROP FOREIGN KEY t21_ibfk_1
        t11 DROP FOREIGN KEY t11_ibfk_1
        n2 INSERT INTO t21 (id, p) VALUES (7, 999)
        """,
        others=("u",),
    ),
    Scenario(
        "names that need quotes",
        "id INT PRIMARY KEY, `select` INT, `a``b` INT, `ключ` VARCHAR(10)",
        all_run("RENAME COLUMN `a``b` TO `b``c`, ADD COLUMN `t11` INT COMMENT 'the t11''s, ALTER TABLE t11'"),
    ),
    Scenario(
        "sessions of other kinds",
        PLAIN,
        """
        n1 SET SESSION sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')
        n1 ALTER TABLE "t11" ADD COLUMN "c d" INT
        n1 ALTER TABLE "t12" ADD COLUMN "c d" INT
        t21 ADD COLUMN `c d` INT
        t21 RENAME COLUMN `c d` TO e
        n1 ALTER TABLE "t12" RENAME COLUMN "c d" TO "e"
        n1 ALTER TABLE "t11" RENAME COLUMN "c d" TO "e"
        n1 SET NAMES latin1
        n2 SET NAMES latin1
        t11 ADD COLUMN f VARCHAR(10) DEFAULT 'é' COMMENT 'ü'
        t12 ADD COLUMN f VARCHAR(10) DEFAULT 'é' COMMENT 'ü'
        t21 ADD COLUMN f VARCHAR(10) DEFAULT 'é' COMMENT 'ü'
        n1 SET NAMES utf8mb4, time_zone = '+08:00'
        n2 SET NAMES utf8mb4, time_zone = '+08:00'
        t11 ADD COLUMN g TIMESTAMP NULL DEFAULT '2026-01-01 00:00:00'
        t21 ADD COLUMN g TIMESTAMP NULL DEFAULT '2026-01-01 00:00:00'
        t12 ADD COLUMN g TIMESTAMP NULL DEFAULT '2026-01-01 00:00:00'
        n1 SET time_zone = '+00:00'
        n2 SET time_zone = '+00:00'
        t12 work
        """,
    ),
    Scenario(
        "databases come and go",
        "",
        """
        n1 ALTER DATABASE {db} DEFAULT CHARACTER SET latin1
        n2 ALTER DATABASE {db} DEFAULT CHARACTER SET latin1
        n1 CREATE TABLE t11 (id INT PRIMARY KEY, a VARCHAR(10))
        n2 CREATE TABLE t21 (id INT PRIMARY KEY, a VARCHAR(10))
        t11 work
        t11 ADD COLUMN c VARCHAR(10)
        t21 ADD COLUMN c VARCHAR(10)
        n1 DELETE FROM t11
        n1 DROP DATABASE {db}
        n1 CREATE DATABASE {db} DEFAULT CHARACTER SET latin1
        n1 USE {db}
        n1 CREATE TABLE t11 (id INT PRIMARY KEY, a VARCHAR(10), c VARCHAR(10))
        t11 kept
        t21 work
        """,
    ),
    Scenario(
        "rows that are never let go",
        PLAIN,
        """
        t11 work
        t11 RENAME COLUMN a TO c
        t11 kept
        t12 work
        t21 work
        t12 RENAME COLUMN a TO c
        t12 kept
        t21 work
        """,
        alike=False,
        only=("id", "b"),
    ),
)  # fmt: skip

PESSIMISTIC = (
    Scenario(
        "a shard joins as the others are now",
        PLAIN,
        """
        t11 work
        t11 RENAME COLUMN a TO c
        t11 row
        n2 CREATE TABLE t22 (id INT PRIMARY KEY, c INT, b VARCHAR(20) NOT NULL DEFAULT 'b')
        t22 work
        t12 work
        t12 RENAME COLUMN a TO c
        t21 work
        t21 RENAME COLUMN a TO c
        t22 touch
        t21 work
        """,
    ),
    Scenario("the same in other words", PLAIN, """
        t11 ADD COLUMN c INT DEFAULT NULL, DROP COLUMN a
        t11 work
        t12 DROP a, ADD c int
        t12 work
        t21 DROP COLUMN `a`, ADD COLUMN `c` INT NULL
        """),
    Scenario("rows flow until the last", PLAIN, each_runs("ADD COLUMN c INT", "DROP COLUMN a", "ADD INDEX k (c)")),
)  # fmt: skip

OPTIMISTIC = (
    Scenario(
        "a shard that is made unlike the others is altered to fit",
        "",
        """
        n1 CREATE TABLE t11 (id INT PRIMARY KEY, b INT)
        n1 INSERT INTO t11 VALUES (901, 11)
        n2 CREATE TABLE t21 (id INT PRIMARY KEY, b VARCHAR(4))
        n2 INSERT INTO t21 VALUES (902, '12'), (903, '13')
        t11 row
        n2 UPDATE t21 SET b = '014' WHERE id = 903
        t21 MODIFY b INT
        t21 work
        t11 work
        """,
    ),
    Scenario(
        "the others are altered to fit a shard that was made unlike them",
        "",
        """
        n1 CREATE TABLE t11 (id INT PRIMARY KEY, b INT)
        n1 CREATE TABLE t12 (id INT PRIMARY KEY, b INT)
        n1 INSERT INTO t11 VALUES (901, 11)
        n2 CREATE TABLE t21 (id INT PRIMARY KEY, b VARCHAR(20))
        n2 INSERT INTO t21 VALUES (902, 'twelve')
        t12 row
        t11 MODIFY b VARCHAR(20)
        t11 work
        t21 work
        t12 row
        t12 MODIFY b VARCHAR(20)
        t12 work
        t21 row
        """,
    ),
    Scenario("a column is emptied by one alone", PLAIN, """
        t11 work
        t12 work
        t21 work
        n1 UPDATE t11 SET a = NULL
        t11 DROP COLUMN a, ADD COLUMN a INT AFTER id
        t11 work
        t12 touch
        """, alike=False),
    Scenario("a column is added by one alone", PLAIN, """
        t11 work
        t11 ADD COLUMN c INT DEFAULT 7
        t11 work
        t21 work
        t12 touch
        """, alike=False),
    Scenario("NOT NULL with and without default", PLAIN, """
        t11 ADD COLUMN c INT NOT NULL
        t11 work
        t12 ADD COLUMN c INT NOT NULL DEFAULT 0
        t12 work
        t21 work
        t21 ADD COLUMN c INT NOT NULL
        t21 work
        """, alike=False),
    Scenario("a rename is taken back", PLAIN, """
        t11 work
        t11 RENAME COLUMN a TO c
        t11 work
        t21 work
        t11 ADD COLUMN d INT
        t11 work
        t11 RENAME COLUMN c TO a
        t11 work
        t12 ADD COLUMN d INT
        t21 ADD COLUMN d INT
        t21 work
        """),
    Scenario("shards meet by different ways", PLAIN, """
        t11 RENAME COLUMN a TO c
        t11 work
        t12 RENAME COLUMN a TO d
        t12 work
        t21 RENAME COLUMN a TO d
        t21 work
        t11 RENAME COLUMN c TO d
        t11 work
        """),
    Scenario("a contradiction is taken back", PLAIN, """
        t11 ADD COLUMN c INT
        t12 ADD COLUMN c DATE
        t12 work
        t11 work
        t21 work
        t11 DROP COLUMN c
        t11 ADD COLUMN c DATE
        t21 ADD COLUMN c DATE
        t21 work
        """),
    Scenario("lengths differ for a while", PLAIN, """
        t11 ADD COLUMN c VARCHAR(4)
        t11 work
        t12 ADD COLUMN c VARCHAR(6)
        t12 work
        t21 ADD COLUMN c VARCHAR(6)
        t11 MODIFY c VARCHAR(6)
        t21 work
        """),
    Scenario("columns in other places", PLAIN, """
        t11 ADD COLUMN c INT FIRST
        t11 work
        t12 ADD COLUMN c INT AFTER a
        t12 work
        t21 ADD COLUMN d INT AFTER id
        t21 ADD COLUMN c INT
        t21 work
        t11 ADD COLUMN d INT
        t12 ADD COLUMN d INT
        t12 work
        """, alike=False),
    Scenario("shards begin apart", "", """
        n1 CREATE TABLE t11 (id INT PRIMARY KEY, a INT)
        t11 work
        n1 CREATE TABLE t12 (id INT PRIMARY KEY, b VARCHAR(10))
        t12 work
        n2 CREATE TABLE t21 (id BIGINT PRIMARY KEY, a INT, c TEXT)
        t21 work
        t11 work
        """, alike=False),
    Scenario("one after the other, none waits", PLAIN, each_runs(
        "ADD COLUMN c INT", "MODIFY a BIGINT", "DROP COLUMN a", "ADD COLUMN d INT NOT NULL DEFAULT 3 FIRST")),
    Scenario("partitions of one shard", PLAIN, """
        t11 PARTITION BY HASH (id) PARTITIONS 3
        t11 work
        t11 ADD PARTITION PARTITIONS 1
        t11 ADD COLUMN c INT
        t12 ADD COLUMN c INT
        t21 work
        t21 ADD COLUMN c INT
        """, alike=False),
)  # fmt: skip
