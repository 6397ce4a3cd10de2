"""DDL applied to a catalog: the rules that need no server to be told, and the refusal of everything else.

What the server itself decides (types, defaults, names, positions) is compared with one in test_ddl_mysql.py.
"""

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from snapshot_store.ddl import DdlEffect, DdlSession, apply_ddl, parse_dump, split_statements
from snapshot_store.ddl.public import parse_table
from snapshot_store.errors import (
    AlreadyExists,
    DdlNotUnderstood,
    SnapshotStoreError,
    UnknownColumn,
    UnknownIndex,
    UnknownSchema,
    UnknownTable,
)
from snapshot_store.model import Catalog, Default, Schema, Table
from snapshot_store.mysql.expr.read import read_expression
from snapshot_store.mysql.sql.session import (
    ANSI_QUOTES,
    DEFAULT_SQL_MODE,
    HIGH_NOT_PRECEDENCE,
    NO_BACKSLASH_ESCAPES,
    PIPES_AS_CONCAT,
    REAL_AS_FLOAT,
)
from snapshot_store.render_sql import create_sql
from tests.effort import effort
from tests.snapshot_store.ddl.ddl_corpus import FILES, statements

EMPTY = Catalog({"d": Schema("d"), "e": Schema("e", "latin1", "latin1_swedish_ci")})


def after(*statements: str, session: DdlSession | None = None) -> Catalog:
    catalog = EMPTY
    for sql in statements:
        catalog = apply_ddl(catalog, sql, "d", session).catalog
    return catalog


def table(*statements: str, session: DdlSession | None = None) -> Table:
    return after(*statements, session=session).tables["d", "t"]


def names(found: Table) -> list[str]:
    return [column.name for column in found.columns]


def effect(sql: str, *before: str) -> DdlEffect:
    return apply_ddl(after(*before), sql, "d")


T = "CREATE TABLE t (a INT, b INT)"


@pytest.mark.parametrize(
    ("sql", "kind", "changed", "named"),
    [
        ("CREATE TABLE u (a INT)", "CREATE TABLE", [("d", "u")], [("d", "u")]),
        ("CREATE TABLE IF NOT EXISTS t (z INT)", "CREATE TABLE", [], [("d", "t")]),
        ("CREATE TABLE e.u LIKE t", "CREATE TABLE", [("e", "u")], [("e", "u"), ("d", "t")]),
        ("ALTER TABLE t ADD c INT", "ALTER TABLE", [("d", "t")], [("d", "t")]),
        ("ALTER TABLE t ENGINE=InnoDB", "ALTER TABLE", [], [("d", "t")]),
        ("ALTER TABLE t RENAME e.x", "ALTER TABLE", [("d", "t"), ("e", "x")], [("d", "t"), ("e", "x")]),
        ("DROP TABLE t", "DROP TABLE", [("d", "t")], [("d", "t")]),
        ("DROP TABLE IF EXISTS t, nothing", "DROP TABLE", [("d", "t")], [("d", "t"), ("d", "nothing")]),
        ("RENAME TABLE t TO x", "RENAME TABLE", [("d", "t"), ("d", "x")], [("d", "t"), ("d", "x")]),
        ("TRUNCATE t", "TRUNCATE TABLE", [], [("d", "t")]),
        ("CREATE INDEX i ON t (a)", "CREATE INDEX", [("d", "t")], [("d", "t")]),
        ("DROP INDEX k ON s", "DROP INDEX", [("d", "s")], [("d", "s")]),
        ("DROP DATABASE d", "DROP DATABASE", [("d", "s"), ("d", "t")], []),
        ("GRANT ALL ON *.* TO x", "IGNORED", [], []),
    ],
)
def test_an_effect_tells_kind_changes_and_names(
    sql: str, kind: str, changed: list[tuple[str, str]], named: list[tuple[str, str]]
) -> None:
    found = effect(sql, T, "CREATE TABLE s (a INT, KEY k (a))")
    assert (found.kind, list(found.changed), list(found.tables)) == (kind, changed, named)


def test_a_swap_of_names_changes_both_tables() -> None:
    found = effect("RENAME TABLE t TO tmp, u TO t, tmp TO u", T, "CREATE TABLE u (c INT)")
    assert found.changed == (("d", "t"), ("d", "u"))
    assert names(found.catalog.tables["d", "t"]) == ["c"]


def test_databases_change_schemas() -> None:
    found = effect("CREATE DATABASE x CHARACTER SET gbk")
    assert (found.kind, found.changed_schemas, found.catalog.schemas["x"].collation) == (
        "CREATE DATABASE",
        ("x",),
        "gbk_chinese_ci",
    )
    assert effect("ALTER DATABASE COLLATE latin1_bin").catalog.schemas["d"] == Schema("d", "latin1", "latin1_bin")
    assert effect("ALTER SCHEMA e READ ONLY = 1 DEFAULT ENCRYPTION 'N'").changed_schemas == ()
    assert effect("DROP SCHEMA IF EXISTS nothing").changed_schemas == ()
    assert effect("DROP SCHEMA e").changed_schemas == ("e",)


def test_tables_take_the_schema_s_character_set() -> None:
    made = after("CREATE TABLE e.t (a VARCHAR(3), b TEXT CHARSET utf8mb4)").tables["e", "t"]
    assert (made.charset, made.columns[0].type.charset, made.columns[1].type.collation) == (
        "latin1",
        "latin1",
        "utf8mb4_0900_ai_ci",
    )


def test_an_old_server_s_settings_are_followed() -> None:
    session = DdlSession(
        charset_server="latin1",
        collation_server="latin1_swedish_ci",
        default_collation_for_utf8mb4="utf8mb4_general_ci",
        explicit_defaults_for_timestamp=False,
        server_version=50744,
    )
    made = table(
        "CREATE TABLE t (a TIMESTAMP, b TIMESTAMP, c TIMESTAMP NULL, d CHAR(1) CHARSET utf8mb4)", session=session
    )
    assert [c.default for c in made.columns[:3]] == [
        Default("now"),
        Default("literal", "0000-00-00 00:00:00"),
        Default("null"),
    ]
    assert [c.on_update_now for c in made.columns[:3]] == [True, False, False]
    assert [c.nullable for c in made.columns[:3]] == [False, False, True]
    assert made.columns[3].type.collation == "utf8mb4_general_ci"
    newer = table("CREATE TABLE t (a INT /*!80023 INVISIBLE */, b INT REFERENCES p (x))", session=session)
    assert not newer.columns[0].invisible and newer.foreign_keys == ()


def test_sql_modes_change_what_quotes_and_words_mean() -> None:
    ansi = DdlSession(sql_mode=ANSI_QUOTES)
    made = table('CREATE TABLE "t" ("a""b\\" INT COMMENT \'it\\\'s "so"\')', session=ansi)
    assert (names(made), made.columns[0].comment) == (['a"b\\'], 'it\'s "so"')
    plain = table("""CREATE TABLE t (a INT COMMENT "x'y\\n")""")
    assert plain.columns[0].comment == "x'y\n"
    raw = table("CREATE TABLE t (a INT COMMENT 'c:\\dir\\')", session=DdlSession(sql_mode=NO_BACKSLASH_ESCAPES))
    assert raw.columns[0].comment == "c:\\dir\\"
    both = DdlSession(sql_mode=NO_BACKSLASH_ESCAPES | ANSI_QUOTES)
    assert table("CREATE TABLE t (\"x\\\" INT COMMENT '\\')", session=both).columns[0].name == "x\\"
    assert table("CREATE TABLE t (a REAL)", session=DdlSession(sql_mode=REAL_AS_FLOAT)).columns[0].type.name == "float"


def test_defaults_are_kept_in_one_spelling() -> None:
    made = table(
        "CREATE TABLE t (a BIT(8) DEFAULT 0x05, b BIT DEFAULT 1, c INT DEFAULT b'11', d VARCHAR(3) DEFAULT 0x4142, "
        "e BINARY(2) DEFAULT x'41ff', f INT, g INT NOT NULL, h JSON DEFAULT ( json_array( 1 ) ), "
        "i DATETIME DEFAULT now(), j VARCHAR(9) DEFAULT '0x41', k BINARY(4) DEFAULT '0x41', l BINARY(2) DEFAULT 0x4100)"
    )
    assert [c.default for c in made.columns] == [
        Default("literal", "b'101'"),
        Default("literal", "b'1'"),
        Default("literal", "3"),
        Default("literal", "AB"),
        Default("literal", "0x41ff"),
        Default("null"),
        None,
        Default("expression", "json_array(1)"),
        Default("now"),
        Default("literal", "0x41"),
        Default("literal", "0x30783431"),
        Default("literal", "A\0"),
    ]
    assert parse_dump(create_sql(made), "d").tables["d", "t"] == made


def test_primary_key_columns_are_not_null() -> None:
    made = table("CREATE TABLE t (a INT, b INT, PRIMARY KEY (B))")
    assert [(c.nullable, c.default) for c in made.columns] == [(True, Default("null")), (False, None)]
    dropped = table("CREATE TABLE t (a INT PRIMARY KEY)", "ALTER TABLE t DROP PRIMARY KEY")
    assert (dropped.columns[0].nullable, dropped.primary_key) == (False, None)


def test_partition_and_placement_tails_are_not_read() -> None:
    for tail in (
        "PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (1) ENGINE = InnoDB, PARTITION p1 VALUES LESS THAN (9))",
        "/*!50500 PARTITION BY LIST COLUMNS(a) (PARTITION p VALUES IN (1,2)) */",
        "dbpartition by hash(a) tbpartition by hash(a) tbpartitions 4",
        "BROADCAST",
        "SINGLE",
        "LOCALITY = 'dn=x'",
    ):
        assert names(table(f"{T} ENGINE=InnoDB {tail}")) == ["a", "b"]


REFUSED = [
    "",
    ";",
    "SELECT 1",
    "INSERT INTO t VALUES (1)",
    "CREATE TABLE t2 AS SELECT 1",
    "CREATE TABLE t2 (a INT) SELECT 1",
    "CREATE TABLE t2 (a INT) PARTITION BY HASH (a) AS SELECT 1",
    "CREATE TABLE t2 (a)",
    "CREATE TABLE t2 (a NOTATYPE)",
    "CREATE TABLE t2 (a INT,)",
    "CREATE TABLE t2 ()",
    "CREATE TABLE t2 (KEY (a))",
    "CREATE TABLE t2 (a VARCHAR)",
    "CREATE TABLE t2 (a INT SOMETHING)",
    "CREATE TABLE t2 (a CHAR(3) CHARSET klingon)",
    "CREATE TABLE t2 (a CHAR(3) CHARSET latin1 COLLATE utf8mb4_bin)",
    "CREATE TABLE t2 (a CHAR(3)) COLLATE nothing",
    "CREATE TABLE t2 (a INT) UNHEARD_OF = 1",
    "CREATE TABLE t2 (a INT",
    "CREATE TABLE t2 (a INT COMMENT 'open)",
    "CREATE TABLE `t2 (a INT)",
    "CREATE TABLE t2 (a INT) /* open",
    "CREATE TABLE t2 (a INT /*!50100 , b INT)",
    "CREATE TABLE t2 (a\u3000INT)",
    "CREATE TABLE t2 (a INT); DROP TABLE t",
    "GRANT ALL ON *.* TO x; DROP TABLE t",
    "ALTER TABLE t ADD PARTITION (PARTITION p VALUES IN (1)); DROP TABLE t",
    "ALTER TABLE t FROBNICATE",
    "ALTER TABLE t ADD COLUMN c INT,",
    "ALTER SOMETHING x",
    "DROP SOMETHING x",
    "CREATE SOMETHING x",
    "CREATE OR REPLACE TABLE x (a INT)",
    "CREATE DATABASE x NONSENSE = 'auto'",
    "RENAME SOMETHING a TO b",
    "CREATE TABLE t2 (a BIT DEFAULT b'12')",
    "CREATE TABLE t2 (a VARCHAR(3) DEFAULT x' 4142')",
    "CREATE TABLE t2 (a BIT DEFAULT " + "9" * 5000 + ")",
    "CREATE TABLE t2 (a INT DEFAULT (" + "(" * 5000,
    "CREATE TABLE t2 (a INT DEFAULT " + "-" * 5000 + "1)",
]


@pytest.mark.parametrize("sql", REFUSED, ids=range(len(REFUSED)))
def test_what_is_not_understood_is_refused(sql: str) -> None:
    with pytest.raises(DdlNotUnderstood) as error:
        effect(sql, T)
    assert error.value.sql == sql and error.value.reason
    assert len(str(error.value)) < 600


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("CREATE TABLE t (a INT)", AlreadyExists),
        ("CREATE TABLE u (a INT, A INT)", AlreadyExists),
        ("CREATE TABLE u (a INT, KEY k (a), KEY K (a))", AlreadyExists),
        ("CREATE TABLE nowhere.u (a INT)", UnknownSchema),
        ("CREATE TABLE u LIKE nothing", UnknownTable),
        ("CREATE TABLE u (a INT, KEY (b))", UnknownColumn),
        ("CREATE DATABASE d", AlreadyExists),
        ("DROP DATABASE nothing", UnknownSchema),
        ("ALTER DATABASE nothing CHARSET gbk", UnknownSchema),
        ("ALTER TABLE nothing ADD a INT", UnknownTable),
        ("ALTER TABLE T ADD c INT", UnknownTable),
        ("ALTER TABLE t ADD A INT", AlreadyExists),
        ("ALTER TABLE t DROP c", UnknownColumn),
        ("ALTER TABLE t MODIFY c INT", UnknownColumn),
        ("ALTER TABLE t CHANGE c d INT", UnknownColumn),
        ("ALTER TABLE t DROP b, MODIFY b INT FIRST", UnknownColumn),
        ("ALTER TABLE t CHANGE b x INT FIRST, CHANGE b y INT FIRST", UnknownColumn),
        ("ALTER TABLE t RENAME COLUMN c TO d", UnknownColumn),
        ("ALTER TABLE t RENAME COLUMN a TO b", AlreadyExists),
        ("ALTER TABLE t ALTER c DROP DEFAULT", UnknownColumn),
        ("ALTER TABLE t ADD c INT AFTER d", UnknownColumn),
        ("ALTER TABLE t DROP INDEX i", UnknownIndex),
        ("ALTER TABLE t DROP PRIMARY KEY", UnknownIndex),
        ("ALTER TABLE t DROP FOREIGN KEY i", UnknownIndex),
        ("ALTER TABLE t DROP CHECK i", UnknownIndex),
        ("ALTER TABLE t RENAME INDEX i TO j", UnknownIndex),
        ("ALTER TABLE t ALTER INDEX i VISIBLE", UnknownIndex),
        ("ALTER TABLE t RENAME u.t", UnknownSchema),
        ("RENAME TABLE t TO v", AlreadyExists),
        ("RENAME TABLE nothing TO v2", UnknownTable),
        ("DROP TABLE nothing", UnknownTable),
        ("TRUNCATE nothing", UnknownTable),
    ],
)
def test_what_contradicts_the_catalog_is_refused(sql: str, kind: type[SnapshotStoreError]) -> None:
    with pytest.raises(kind):
        effect(sql, T, "CREATE TABLE v (a INT)")


def test_a_name_without_a_database_needs_a_default_one() -> None:
    with pytest.raises(DdlNotUnderstood, match="no default database"):
        apply_ddl(EMPTY, T, None)
    with pytest.raises(DdlNotUnderstood, match="no default database"):
        apply_ddl(EMPTY, "ALTER DATABASE CHARSET gbk", None)
    assert ("e", "t") in apply_ddl(EMPTY, "CREATE TABLE e.t (a INT)", None).catalog.tables


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE PROCEDURE p() BEGIN SELECT 1; DROP TABLE t; END",
        "CREATE DEFINER=`a`@`%` TRIGGER tr AFTER INSERT ON t FOR EACH ROW BEGIN SET @a = 1; END",
        "CREATE FUNCTION f() RETURNS INT LANGUAGE JAVASCRIPT AS $$ let it's = `${1}`; /* $$",
        "CREATE LIBRARY l LANGUAGE JAVASCRIPT AS $x$ export const a = 'b; $x$",
        "CREATE TEMPORARY TABLE t (a INT)",
        "DROP TEMPORARY TABLE IF EXISTS t",
        "CREATE OR REPLACE SQL SECURITY DEFINER VIEW v AS SELECT 1",
        "DROP USER IF EXISTS 'a'@'b'",
        "RENAME USER a TO b",
        "ALTER INSTANCE ROTATE INNODB MASTER KEY",
        "CREATE SPATIAL REFERENCE SYSTEM 4120 NAME 'x'",
        "BEGIN",
        "SAVEPOINT `x`",
        "XA START X'00'",
        "/*!40101 SET NAMES utf8mb4 */;",
        "INSTALL PLUGIN a SONAME 'b'",
    ],
)
def test_what_changes_no_shape_is_ignored(sql: str) -> None:
    found = effect(sql, T)
    assert found == DdlEffect(found.catalog, (), "IGNORED", effects=found.effects)
    assert found.catalog.tables == after(T).tables


DUMP = """-- MySQL dump 10.13
/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
CREATE DATABASE /*!32312 IF NOT EXISTS*/ `d` /*!40100 DEFAULT CHARACTER SET gbk */ /*!80016 DEFAULT ENCRYPTION='N' */;
USE `d`;
DROP TABLE IF EXISTS `t`;
/*!50503 SET character_set_client = utf8mb4 */;
CREATE TABLE `t` (
  `a` int NOT NULL COMMENT ';',
  `b` varchar(3) DEFAULT NULL,
  PRIMARY KEY (`a`)
) ENGINE=InnoDB DEFAULT CHARSET=gbk
/*!50100 PARTITION BY HASH (`a`)
PARTITIONS 2 */;
LOCK TABLES `t` WRITE;
INSERT INTO `t` VALUES (1,'x;y');
UNLOCK TABLES;
DELIMITER ;;
/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 TRIGGER tr BEFORE INSERT ON t
FOR EACH ROW BEGIN SET @a = 1; END */;;
DELIMITER ;
/*!50001 CREATE VIEW `v` AS SELECT 1 AS `a`*/;
"""


def test_a_dump_makes_its_catalog() -> None:
    catalog = parse_dump(DUMP)
    assert catalog.schemas == {"d": Schema("d", "gbk", "gbk_chinese_ci")}
    assert names(catalog.tables["d", "t"]) == ["a", "b"]
    assert len(list(split_statements(DUMP, DdlSession()))) == 11


def test_a_lone_create_table_makes_its_schema() -> None:
    catalog = parse_dump("CREATE TABLE `t` (a INT); CREATE TABLE e.u (a INT)", "x")
    assert sorted(catalog.tables) == [("e", "u"), ("x", "t")]
    with pytest.raises(DdlNotUnderstood):
        parse_dump("CREATE TABLE `t` (a INT)")


CORPUS = [statement.sql for name in FILES for statement in statements(name)]
STATEMENTS = st.sampled_from([*CORPUS, *REFUSED[:-2], DUMP])
SCRAPS = st.sampled_from(
    [*"()`'\";,.@$\\/*#-=:", "/*!", "*/", "--", "0x", "b'", "KEY", "AS", "PARTITION", "DEFAULT", "\0", "é"]
)


_WORDS = """
    a b ( ) , + - * / % ^ & | ~ ! = <=> != < >= << AND OR XOR NOT IS NULL TRUE IN BETWEEN LIKE CASE WHEN THEN ELSE END
    INTERVAL DAY 1 2.5 .5 1e9 0x41 b'1' 'x' "y" _utf8mb4 N'z' `q` . -> ->> CAST( AS SIGNED CHAR DATE CONVERT( USING
    CONCAT( TRIM( FROM LEADING SUBSTRING( JSON_VALUE( RETURNING EXTRACT( NOW() CURRENT_DATE COLLATE @v ? { } SELECT ROW(
    MATCH MATCH( AGAINST( DEFAULT( WEIGHT_STRING( TIMESTAMPADD( ESCAPE BINARY MEMBER OF ARRAY
"""
WORDS = st.sampled_from(_WORDS.split())
CROWDED = after(
    "CREATE TABLE t (a INT PRIMARY KEY, b INT, c VARCHAR(9) AS (CONCAT(b, 'x')), CHECK (b), KEY ((a + b)), KEY i (b))",
    "CREATE TABLE p (a INT, b INT DEFAULT (1 + 1), FOREIGN KEY (a) REFERENCES t (a))",
    "CREATE TABLE q (a INT, b DATE) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (5))",
    "CREATE VIEW v AS SELECT 1",
)
MODES = st.sampled_from([0, ANSI_QUOTES, NO_BACKSLASH_ESCAPES, PIPES_AS_CONCAT | HIGH_NOT_PRECEDENCE, DEFAULT_SQL_MODE])


@settings(max_examples=effort(300, 600), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STATEMENTS, st.data())
def test_any_text_is_applied_or_refused(sql: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(sql)))
        end = data.draw(st.integers(start, min(len(sql), start + 12)))
        sql = sql[:start] + data.draw(SCRAPS | st.text(max_size=3)) + sql[end:]
    session = DdlSession(sql_mode=data.draw(MODES), validate=data.draw(st.booleans()))
    with contextlib.suppress(SnapshotStoreError):
        apply_ddl(CROWDED, sql, "d", session)
    with contextlib.suppress(SnapshotStoreError):
        parse_table(sql)


@settings(max_examples=effort(750, 1500), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(WORDS, min_size=1, max_size=12), MODES)
def test_any_words_are_an_expression_or_none(words: list[str], mode: int) -> None:
    with contextlib.suppress(SnapshotStoreError):
        read_expression(" ".join(words), DdlSession(sql_mode=mode))
