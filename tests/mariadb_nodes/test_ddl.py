"""Statements of MariaDB as MySQL takes them."""

import pytest

from binlog_merge.mariadb_nodes.ddl import Meaning, mysql_ddl, with_comments_opened
from snapshot_store.mysql.sql.session import DdlSession

SESSION = DdlSession()
_TEXT = "LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
WRITTEN = {
    "CREATE OR REPLACE TABLE `d`.t (a INT)": ("DROP TABLE IF EXISTS `d`.t", "CREATE TABLE `d`.t (a INT)"),
    "CREATE TABLE t (j JSON, b INT)": (f"CREATE TABLE t (j {_TEXT}, b INT)",),
    "ALTER TABLE t ADD COLUMN json JSON": (f"ALTER TABLE t ADD COLUMN json {_TEXT}",),
    "CREATE TABLE t (a VARCHAR(9) COMPRESSED, b TEXT COMPRESSED=zlib NOT NULL) ROW_FORMAT=COMPRESSED": (
        "CREATE TABLE t (a VARCHAR(9) , b TEXT  NOT NULL) ROW_FORMAT=COMPRESSED",
    ),
    "CREATE TABLE t (v VECTOR(3) NOT NULL)": ("CREATE TABLE t (v VARBINARY(12) NOT NULL)",),
    "CREATE TABLE t (a INT, KEY k (a) IGNORED)": ("CREATE TABLE t (a INT, KEY k (a) INVISIBLE)",),
    "CREATE TABLE t (i INET6 NOT NULL DEFAULT '::1', f INET4 DEFAULT '10.0.0.1', inet6 INT)": (
        "CREATE TABLE t (i BINARY(16) NOT NULL DEFAULT x'00000000000000000000000000000001', "
        "f BINARY(4) DEFAULT x'0a000001', inet6 INT)",
    ),
    "ALTER TABLE t ADD COLUMN IF NOT EXISTS i INET6 DEFAULT '1.2.3.4', ADD COLUMN IF NOT EXISTS rank INT": (
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS i BINARY(16) DEFAULT x'00000000000000000000ffff01020304', "
        "ADD COLUMN IF NOT EXISTS `rank` INT",
    ),
    "ALTER TABLE t ADD COLUMN (i INET6, s VARCHAR(39) DEFAULT '::1')": (
        "ALTER TABLE t ADD COLUMN (i BINARY(16), s VARCHAR(39) DEFAULT '::1')",
    ),
    "ALTER TABLE t ADD (i INET6 DEFAULT '::', s VARCHAR(39) DEFAULT 'abc')": (
        f"ALTER TABLE t ADD (i BINARY(16) DEFAULT x'{16 * '00'}', s VARCHAR(39) DEFAULT 'abc')",
    ),
    "ALTER TABLE t ALTER INDEX k NOT IGNORED": ("ALTER TABLE t ALTER INDEX k VISIBLE",),
    "CREATE TABLE t (a INT AS (b) PERSISTENT, b INT)": ("CREATE TABLE t (a INT AS (b) STORED, b INT)",),
    "CREATE TABLE t (d DATE DEFAULT curdate(), u CHAR(36) DEFAULT uuid())": (
        "CREATE TABLE t (d DATE DEFAULT (curdate()), u CHAR(36) DEFAULT (uuid()))",
    ),
    "CREATE TABLE t (x TEXT DEFAULT 'a', y DATETIME DEFAULT current_timestamp() ON UPDATE current_timestamp())": (
        "CREATE TABLE t (x TEXT DEFAULT ('a'), y DATETIME DEFAULT current_timestamp() ON UPDATE current_timestamp())",
    ),
    "ALTER TABLE t ADD COLUMN b BLOB NOT NULL DEFAULT 'x', ADD c INT DEFAULT -1, ADD d DATE DEFAULT CURRENT_DATE": (
        "ALTER TABLE t ADD COLUMN b BLOB NOT NULL DEFAULT ('x'), ADD c INT DEFAULT -1, "
        "ADD d DATE DEFAULT (CURRENT_DATE)",
    ),
    "CREATE TABLE t (rank INT, groups INT, KEY (rank))": ("CREATE TABLE t (`rank` INT, `groups` INT, KEY (`rank`))",),
    "CREATE TABLE t (a INT) ENGINE=Aria PAGE_CHECKSUM=1 TRANSACTIONAL=1": ("CREATE TABLE t (a INT)",),
    "CREATE TABLE t (a CHAR(3) COLLATE utf8mb4_uca1400_ai_ci) COLLATE=utf8mb4_nopad_bin": (
        "CREATE TABLE t (a CHAR(3) COLLATE utf8mb4_0900_ai_ci) COLLATE=utf8mb4_0900_bin",
    ),
    "SET STATEMENT lock_wait_timeout=1 FOR ALTER TABLE t ADD a INT": ("ALTER TABLE t ADD a INT",),
    "ALTER ONLINE TABLE t ADD a INT": ("ALTER  TABLE t ADD a INT",),
    "CREATE TABLE t (a INT /*M!100301 INVISIBLE */, b INT)": ("CREATE TABLE t (a INT   INVISIBLE  , b INT)",),
    "CREATE TABLE t (a INT /*!80023 INVISIBLE */)": ("CREATE TABLE t (a INT   )",),
    "CREATE TABLE t (a INT) /*!50100 PARTITION BY HASH (a) */": ("CREATE TABLE t (a INT)   PARTITION BY HASH (a)",),
    "CREATE TABLE t (a VARCHAR(20) DEFAULT '/*M!50000 */')": ("CREATE TABLE t (a VARCHAR(20) DEFAULT '/*M!50000 */')",),
    **{
        sql: (sql,)
        for sql in (
            "ALTER TABLE t ADD COLUMN ignored TINYINT, ADD persistent INT AFTER ignored, DROP compressed",
            "ALTER TABLE t ADD COLUMN IF NOT EXISTS compressed INT, MODIFY ignored INT",
            "ALTER TABLE t CHANGE a ignored INT, CHANGE COLUMN ignored compressed INT, RENAME COLUMN a TO persistent",
            "ALTER TABLE t ALTER ignored SET DEFAULT 1, ADD c INT AS (a + ignored)",
            "CREATE TABLE t (a INT, ignored INT, KEY ignored (ignored), PRIMARY KEY (a, compressed))",
            "CREATE TABLE t (json TEXT, UNIQUE json (json), FOREIGN KEY (json) REFERENCES json (json))",
            "CREATE TABLE t (a INT, json INT, CHECK (a AND json), b INT AS (a DIV json))",
            "ALTER TABLE t ORDER BY json, ADD UNIQUE inet6 (inet6), DROP CHECK json",
            "CREATE TABLE t (a INT AS (CAST(b AS INET6)))",
        )
    },
    "ALTER TABLE t CHANGE a json JSON, ADD KEY k (ignored) IGNORED": (
        f"ALTER TABLE t CHANGE a json {_TEXT}, ADD KEY k (ignored) INVISIBLE",
    ),
    "CREATE TABLE t (a INT, FOREIGN KEY `f` (a) REFERENCES p (id), CONSTRAINT g FOREIGN KEY f (a) REFERENCES p (id))": (
        "CREATE TABLE t (a INT, CONSTRAINT `f` FOREIGN KEY `f` (a) REFERENCES p (id), "
        "CONSTRAINT g FOREIGN KEY f (a) REFERENCES p (id))",
    ),
    "ALTER TABLE t ADD FOREIGN KEY IF NOT EXISTS f (a) REFERENCES p (id), ADD FOREIGN KEY (a) REFERENCES p (id)": (
        "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY IF NOT EXISTS f (a) REFERENCES p (id), "
        "ADD FOREIGN KEY (a) REFERENCES p (id)",
    ),
    "ALTER TABLE t ADD CONSTRAINT FOREIGN KEY f (a) REFERENCES p (id), DROP FOREIGN KEY IF EXISTS g": (
        "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY f (a) REFERENCES p (id), DROP FOREIGN KEY IF EXISTS g",
    ),
    "CREATE TABLE t (a INT NOT NULL REFERENCES p (id) ON DELETE CASCADE, b INT)": (
        "CREATE TABLE t (a INT NOT NULL , FOREIGN KEY (a) REFERENCES p (id) ON DELETE CASCADE, b INT)",
    ),
    "ALTER TABLE t ADD COLUMN IF NOT EXISTS a INT REFERENCES p (id) AFTER b, ADD c INT REFERENCES p (id)": (
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS a INT AFTER b, ADD FOREIGN KEY (a) REFERENCES p (id), "
        "ADD c INT , ADD FOREIGN KEY (c) REFERENCES p (id)",
    ),
    "ALTER TABLE t ADD (a INT REFERENCES p (id), FOREIGN KEY (b) REFERENCES p (id))": (
        "ALTER TABLE t ADD (a INT , FOREIGN KEY (a) REFERENCES p (id), FOREIGN KEY (b) REFERENCES p (id))",
    ),
    "ALTER TABLE t CHANGE COLUMN IF EXISTS json json JSON, CHANGE IF EXISTS inet6 inet6 INET6": (
        f"ALTER TABLE t CHANGE COLUMN IF EXISTS json json {_TEXT}, CHANGE IF EXISTS inet6 inet6 BINARY(16)",
    ),
    "ALTER TABLE IF EXISTS t CHANGE json json JSON": (f"ALTER TABLE IF EXISTS t CHANGE json json {_TEXT}",),
    "ALTER IGNORE TABLE t ADD j JSON": (f"ALTER IGNORE TABLE t ADD j {_TEXT}",),
    "ALTER TABLE t CHANGE COLUMN IF EXISTS rank rank INT, CHANGE a groups INT": (
        "ALTER TABLE t CHANGE COLUMN IF EXISTS `rank` `rank` INT, CHANGE a `groups` INT",
    ),
    "ALTER TABLE t ALTER KEY IF EXISTS k NOT IGNORED": ("ALTER TABLE t ALTER INDEX IF EXISTS k VISIBLE",),
    "ALTER TABLE d.t WAIT 5 ADD wait INT, ADD j JSON": (f"ALTER TABLE d.t  ADD wait INT, ADD j {_TEXT}",),
    "ALTER TABLE IF EXISTS t NOWAIT DROP COLUMN nowait": ("ALTER TABLE IF EXISTS t  DROP COLUMN nowait",),
    "RENAME TABLE wait WAIT 5 TO nowait, b TO c": ("RENAME TABLE wait  TO nowait, b TO c",),
    "RENAME TABLE a NOWAIT TO b": ("RENAME TABLE a  TO b",),
    "DROP TABLE nowait": ("DROP TABLE nowait",),
    "DROP TABLE a NOWAIT": ("DROP TABLE a",),
    "DROP INDEX k ON nowait": ("DROP INDEX k ON nowait",),
    "DROP INDEX k ON t WAIT 5": ("DROP INDEX k ON t",),
    "CREATE INDEX k ON t (a) WAIT 5": ("CREATE INDEX k ON t (a)",),
    "CREATE OR REPLACE UNIQUE INDEX k USING BTREE ON d.t (a(3), b DESC) COMMENT 'x' ALGORITHM=INPLACE LOCK NONE": (
        "ALTER TABLE d.t DROP INDEX IF EXISTS k, ADD UNIQUE INDEX k USING BTREE (a(3), b DESC) COMMENT 'x'",
    ),
    "CREATE OR REPLACE INDEX `k` ON t (a) WAIT 5": ("ALTER TABLE t DROP INDEX IF EXISTS `k`, ADD INDEX `k` (a)",),
    "CREATE FULLTEXT INDEX IF NOT EXISTS rank ON groups (rank(9), `a`, ignored) IGNORED": (
        "CREATE FULLTEXT INDEX IF NOT EXISTS `rank` ON `groups` (`rank`(9), `a`, ignored) INVISIBLE",
    ),
    "CREATE OR REPLACE INDEX rank ON d.groups (rank(9))": (
        "ALTER TABLE d.`groups` DROP INDEX IF EXISTS `rank`, ADD INDEX `rank` (`rank`(9))",
    ),
    "CREATE TABLE t (rank TEXT, a INT, KEY rank (a), INDEX (rank(9)), CONSTRAINT of UNIQUE KEY lead (a))": (
        "CREATE TABLE t (`rank` TEXT, a INT, KEY `rank` (a), INDEX (`rank`(9)), "
        "CONSTRAINT `of` UNIQUE KEY `lead` (a))",
    ),
    "ALTER TABLE t ADD INDEX rank (a), ADD UNIQUE KEY IF NOT EXISTS groups (groups(3)), DROP KEY lag": (
        "ALTER TABLE t ADD INDEX `rank` (a), ADD UNIQUE KEY IF NOT EXISTS `groups` (`groups`(3)), DROP KEY `lag`",
    ),
    "CREATE TABLE t (a INT AS (function(b)), b INT, CHECK (lag(b) > 0))": (
        "CREATE TABLE t (a INT AS (function(b)), b INT, CHECK (lag(b) > 0))",
    ),
    "DROP INDEX IF EXISTS rank ON d.groups": ("DROP INDEX IF EXISTS `rank` ON d.`groups`",),
    "TRUNCATE TABLE t WAIT 5": ("TRUNCATE TABLE t",),
    "CREATE TABLE t (i INET6 DEFAULT ('::1'), j INET4 DEFAULT NULL)": (
        f"CREATE TABLE t (i BINARY(16) DEFAULT x'{30 * '0'}01', j BINARY(4) DEFAULT NULL)",
    ),
    "CREATE TABLE t (uuid UUID PRIMARY KEY DEFAULT UUID(), u UUID(16) DEFAULT (uuid()), UNIQUE uuid (uuid))": (
        "CREATE TABLE t (uuid BINARY(16) PRIMARY KEY DEFAULT (UUID_TO_BIN(UUID())), "
        "u BINARY(16) DEFAULT (UUID_TO_BIN(UUID())), UNIQUE uuid (uuid))",
    ),
    "ALTER TABLE t MODIFY u UUID NOT NULL DEFAULT '11111111-2222-1333-8444-555555555555', CHANGE a uuid UUID": (
        "ALTER TABLE t MODIFY u BINARY(16) NOT NULL DEFAULT x'11111111222213338444555555555555', "
        "CHANGE a uuid BINARY(16)",
    ),
    "ALTER TABLE t ADD (u uuid NULL DEFAULT NULL, c CHAR(36) DEFAULT uuid(), v UUID DEFAULT x'00')": (
        "ALTER TABLE t ADD (u BINARY(16) NULL DEFAULT NULL, c CHAR(36) DEFAULT (uuid()), v BINARY(16) DEFAULT x'00')",
    ),
    "DROP TABLE t": ("DROP TABLE t",),
    "CREATE USER u": (),
    "GRANT ALL ON *.* TO u": (),
    "CREATE OR REPLACE SEQUENCE s": (),
    "DROP SEQUENCE s": (),
    "SET DEFAULT ROLE r FOR u": (),
}  # fmt: skip


def _written(sql: str, meaning: Meaning) -> tuple[str, ...]:
    return mysql_ddl(sql, SESSION, meaning).statements


@pytest.mark.parametrize("sql", WRITTEN)
def test_what_mysql_writes_otherwise(sql: str) -> None:
    assert _written(sql, Meaning(101118, {})) == WRITTEN[sql]


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE t (u UUID DEFAULT (uuid_v7()))",
        "CREATE TABLE t (u UUID DEFAULT 'none')",
        "CREATE TABLE t (u UUID AS (CAST(a AS UUID)), a CHAR(36))",
        "CREATE TABLE t (u UUID CHECK (u <> '11111111-2222-1333-8444-555555555555'))",
        "CREATE TABLE t (i INET6 DEFAULT 'no address')",
        "CREATE TABLE t (i INET6 DEFAULT (INET6_ATON('::1')))",
        "CREATE TABLE t (i INET6 CHECK (i <> '::1'))",
        "CREATE TABLE t (i INET6, a INT, CONSTRAINT c CHECK (a > 0 OR `i` <> '::1'))",
        "CREATE TABLE t (i INET6, t VARCHAR(40) AS (CAST(i AS CHAR)))",
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS a INT",
        "CREATE TABLE t (a INT) WITH SYSTEM VERSIONING",
        "CREATE TABLE t (a INT DEFAULT 'unclosed",
    ],
)
def test_what_has_no_equal_passes_as_it_is(sql: str) -> None:
    assert _written(sql, Meaning(101118, {})) == (sql,)


def test_the_collation_that_a_character_set_meant_in_the_session_is_written() -> None:
    meaning = Meaning(110809, {"utf8mb4": "utf8mb4_uca1400_ai_ci"})
    assert _written("CREATE TABLE t (a CHAR(3) CHARACTER SET utf8mb4, b INT) CHARSET=utf8mb4", meaning) == (
        "CREATE TABLE t (a CHAR(3) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci, b INT) "
        "CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci",
    )
    named = "CREATE TABLE t (a INT) CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
    assert _written(named, meaning) == (named,)


def test_sql_if_exists_is_written() -> None:
    assert _written("DROP TABLE t", Meaning(101118, {}, if_exists=True)) == ("DROP TABLE IF EXISTS t",)
    assert _written("DROP TABLE IF EXISTS t", Meaning(101118, {}, if_exists=True)) == ("DROP TABLE IF EXISTS t",)


def test_what_is_left_out_or_changed_is_named() -> None:
    sql = "CREATE TABLE t (a CHAR(3) COLLATE utf8mb4_uca1400_ai_ci) ENGINE=Aria"
    notes = mysql_ddl(sql, SESSION, Meaning(1, {})).notes
    assert [note.split(":")[0] for note in notes] == [
        "collation utf8mb4_uca1400_ai_ci becomes utf8mb4_0900_ai_ci", "ENGINE=Aria is left out",
    ]  # fmt: skip


def test_a_comment_of_a_newer_server_is_left_out() -> None:
    assert with_comments_opened("A /*M!120000 B */ C /* x */", 101118) == "A    C /* x */"
    assert with_comments_opened("A /*!50001 /*M!120000 B */ C */ D", 101118).split() == ["A", "C", "D"]


def test_a_number_that_may_be_another_is_named() -> None:
    sql = "ALTER TABLE t DROP FOREIGN KEY {}, ADD FOREIGN KEY {}(a) REFERENCES p (id)"
    notes = [mysql_ddl(sql.format(*what), SESSION, Meaning(101118, {})).notes for what in
             (("t_ibfk_1", ""), ("t_ibfk_1", "f "), ("f", ""))]  # fmt: skip
    assert [len(found) for found in notes] == [1, 0, 0]


def test_sql_if_exists_is_about_the_table() -> None:
    meaning = Meaning(101118, {}, if_exists=True)
    assert _written("ALTER ONLINE TABLE t ADD a INT", meaning) == ("ALTER  TABLE IF EXISTS t ADD a INT",)
    assert _written("ALTER TABLE t DROP COLUMN IF EXISTS a", meaning) == (
        "ALTER TABLE IF EXISTS t DROP COLUMN IF EXISTS a",
    )
    assert _written("DROP TEMPORARY TABLE t", meaning) == ("DROP TEMPORARY TABLE IF EXISTS t",)
    assert _written("RENAME TABLES a TO b", meaning) == ("RENAME TABLES IF EXISTS a TO b",)
    for sql in ("DROP TABLE IF EXISTS t", "ALTER DATABASE d CHARACTER SET latin1", "RENAME TABLE IF EXISTS a TO b"):
        assert _written(sql, meaning) == (sql,)
