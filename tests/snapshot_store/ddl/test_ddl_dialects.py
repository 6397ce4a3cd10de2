"""Statements of other servers than 9.7: MySQL 5.7, PolarDB-X, MariaDB. What is not understood says so."""

import pytest

from snapshot_store.ddl import DdlSession, apply_ddl
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.model import Catalog, Column, Default, Index, IndexPart, Schema, Table

MYSQL_57 = DdlSession(
    charset_server="latin1",
    collation_server="latin1_swedish_ci",
    default_collation_for_utf8mb4="utf8mb4_general_ci",
    explicit_defaults_for_timestamp=False,
    server_version=50744,
)


def applied(*statements: str, session: DdlSession | None = None) -> Catalog:
    catalog = Catalog({"d": Schema("d")})
    for sql in statements:
        catalog = apply_ddl(catalog, sql, "d", session).catalog
    return catalog


def made(*statements: str, session: DdlSession | None = None) -> Table:
    return applied(*statements, session=session).tables["d", "t"]


def test_display_widths_of_an_old_server_change_nothing() -> None:
    old = "CREATE TABLE t (a int(11) unsigned NOT NULL, b tinyint(4) DEFAULT '0', c bigint(20), y year(4), e bool)"
    new = "CREATE TABLE t (a int unsigned NOT NULL, b tinyint DEFAULT '0', c bigint, y year, e tinyint(1))"
    assert made(old, session=MYSQL_57) == made(new)
    assert [column.type.display_width for column in made(old).columns] == [11, 4, 20, None, None]


def test_an_old_server_s_options_and_names() -> None:
    table = made(
        "CREATE TABLE t (a VARCHAR(255) CHARACTER SET utf8 COLLATE utf8_bin, rank INT, groups INT, KEY (a(191))) "
        "ENGINE=InnoDB DEFAULT CHARSET=utf8 ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8 PACK_KEYS=1 CHECKSUM=1",
        session=MYSQL_57,
    )
    assert (table.charset, table.collation) == ("utf8mb3", "utf8mb3_general_ci")
    assert table.columns[0].type.collation == "utf8mb3_bin"
    assert [column.name for column in table.columns] == ["a", "rank", "groups"]


def test_an_old_server_s_first_timestamp_follows_the_clock() -> None:
    first, second = made("CREATE TABLE t (a TIMESTAMP, b TIMESTAMP)", session=MYSQL_57).columns
    assert (first.default, first.on_update_now, first.nullable) == (Default("now"), True, False)
    assert second.default == Default("literal", "0000-00-00 00:00:00")


def test_old_statements_are_followed() -> None:
    table = made(
        "CREATE TABLE t (a INT, b INT)",
        "ALTER IGNORE TABLE t ADD UNIQUE (b)",
        "ALTER TABLE t UPGRADE PARTITIONING",
        session=MYSQL_57,
    )
    assert table.indexes == (Index("b", (IndexPart("b"),), unique=True),)


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE t (a INT, b INT, GLOBAL INDEX g (b) dbpartition by hash(b))",
        "CREATE TABLE t (a INT, b INT, LOCAL KEY g (b)) PARTITION BY HASH (a) PARTITIONS 4 LOCALITY='dn=dn1'",
        "CREATE TABLE t (a INT, b INT, CLUSTERED INDEX g (b) PARTITION BY KEY (b) PARTITIONS 4) BROADCAST",
        "CREATE TABLE t (a INT, b INT, KEY g (b)) dbpartition by hash(a) tbpartition by hash(b) tbpartitions 4",
        "CREATE TABLE t (a INT, b INT, KEY g (b)) PARTITION BY CO_HASH (RIGHT(a, 4), RIGHT(b, 4)) PARTITIONS 4",
        "CREATE TABLE t (a INT, b INT, KEY g (b)) PARTITION BY HASH (a) LOCAL PARTITION BY RANGE (b) INTERVAL 1 MONTH",
        "CREATE TABLE t (a INT, b INT, KEY g (b)) SINGLE",
        "CREATE TABLE t (a INT, b INT, KEY g (b)) TABLEGROUP = tg",
    ],
)
def test_where_polardbx_keeps_rows_says_nothing_about_the_table(sql: str) -> None:
    assert made(sql) == made("CREATE TABLE t (a INT, b INT, KEY g (b))")


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE t ADD GLOBAL INDEX g (b) COVERING (c) PARTITION BY KEY (b) PARTITIONS 4",
        "CREATE GLOBAL INDEX g ON t (b) COVERING (c) PARTITION BY KEY (b) PARTITIONS 4",
        "CREATE CLUSTERED INDEX g ON t (b)",
    ],
)
def test_a_global_index_is_an_index(sql: str) -> None:
    table = made("CREATE TABLE t (a INT, b INT, c INT)", sql)
    assert table.indexes == (Index("g", (IndexPart("b"),)),)
    unique = made("CREATE TABLE t (a INT, b INT, c INT, UNIQUE GLOBAL INDEX g (b) COVERING (a))")
    assert unique.indexes == (Index("g", (IndexPart("b"),), unique=True),)


@pytest.mark.parametrize("unit", ["GROUP", "SIMPLE", "TIME", "NEW", "GROUP UNIT COUNT 2 INDEX 0"])
def test_a_sequence_of_polardbx_counts(unit: str) -> None:
    (column,) = made(f"CREATE TABLE t (a BIGINT AUTO_INCREMENT BY {unit} PRIMARY KEY)").columns
    assert column.auto_increment and not column.nullable


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE t SPLIT PARTITION p0 INTO (PARTITION p1 VALUES LESS THAN (5))",
        "ALTER TABLE t MOVE PARTITIONS p0 TO 'dn1'",
        "ALTER TABLE t MERGE PARTITIONS p0, p1 TO p2",
        "ALTER TABLE t BROADCAST",
        "ALTER TABLE t dbpartition by hash(a)",
        "CREATE TABLEGROUP tg",
        "DROP TABLEGROUP tg",
    ],
)
def test_moving_rows_about_changes_no_shape(sql: str) -> None:
    table = "CREATE TABLE t (a INT, b INT)"
    assert applied(table, sql).tables == applied(table).tables


def test_a_column_may_be_called_like_a_place() -> None:
    columns = made("CREATE TABLE t (global INT, `local` INT, clustered INT)").columns
    assert columns == made("CREATE TABLE t (`global` INT, `local` INT, `clustered` INT)").columns
    assert isinstance(columns[0], Column)


def test_a_database_s_mode_is_polardbx_s_own() -> None:
    assert applied("CREATE DATABASE x MODE = 'auto' CHARSET gbk").schemas["x"] == Schema("x", "gbk", "gbk_chinese_ci")


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE OR REPLACE TABLE t (a INT)",
        "CREATE TABLE u (a UUID)",
        "CREATE TABLE u (a INT DEFAULT nextval(s))",
        "CREATE SEQUENCE s",
        "CREATE TABLE u (a INT) WITH SYSTEM VERSIONING",
        "CREATE TABLE u (a INT, PERIOD FOR SYSTEM_TIME (x, y))",
        "CREATE TABLE u (a VARCHAR(10) COMPRESSED)",
        "CREATE TABLE u (a INT, KEY (a) IGNORED)",
        "CREATE TABLE u (a INT, KEY IF NOT EXISTS k (a))",
        "CREATE OR REPLACE INDEX i ON t (a)",
        "ALTER TABLE t NOWAIT ADD b INT",
    ],
)
def test_mariadb_s_own_words_are_not_understood(sql: str) -> None:
    with pytest.raises(DdlNotUnderstood, match="schema set") as raised:
        applied("CREATE TABLE t (a INT)", sql)
    assert sql in str(raised.value)
