"""IF EXISTS and IF NOT EXISTS of columns, keys and partitions: what a statement with them does."""

import pytest

from snapshot_store.ddl import DdlSession, ParsedDdl, apply_ddl
from snapshot_store.ddl.conditions import settled
from snapshot_store.errors import DdlNotUnderstood, DdlRejected, UnknownIndex
from snapshot_store.model import Catalog

SESSION = DdlSession(server_version=80400)
BEFORE = (
    "CREATE DATABASE d",
    "CREATE TABLE d.t (id INT PRIMARY KEY, a INT, b INT, KEY k (a), CONSTRAINT c1 CHECK (a > 0))",
    "CREATE TABLE d.f (a INT, CONSTRAINT f1 FOREIGN KEY f1 (a) REFERENCES t (id))",
    "CREATE TABLE d.p (a INT) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (1), PARTITION p1 VALUES LESS "
    "THAN (2))",
)
DONE = {
    "ALTER TABLE t ADD COLUMN IF NOT EXISTS A INT, DROP COLUMN IF EXISTS z, ADD c INT": "ALTER TABLE t ADD c INT",
    "ALTER TABLE t DROP COLUMN IF EXISTS x, DROP COLUMN IF EXISTS y, ADD z INT /* c */, DROP IF EXISTS x;": (
        "ALTER TABLE t ADD z INT /* c */;"
    ),
    "ALTER TABLE t ADD COLUMN IF NOT EXISTS n INT, ADD COLUMN IF NOT EXISTS n DATE": "ALTER TABLE t ADD COLUMN n INT",
    "ALTER TABLE t DROP IF EXISTS a, DROP COLUMN IF EXISTS a, ADD IF NOT EXISTS a INT": "ALTER TABLE t DROP a",
    "ALTER TABLE t ADD COLUMN IF NOT EXISTS (a INT, n INT, m INT)": "ALTER TABLE t ADD COLUMN (n INT, m INT)",
    "ALTER TABLE IF EXISTS t ADD IF NOT EXISTS n INT AFTER a": "ALTER TABLE t ADD n INT AFTER a",
    "ALTER TABLE t ADD INDEX IF NOT EXISTS k (b), ADD UNIQUE KEY IF NOT EXISTS u (b), ADD INDEX IF NOT EXISTS (b)": (
        "ALTER TABLE t ADD UNIQUE KEY u (b), ADD INDEX (b)"
    ),
    "ALTER TABLE t DROP INDEX IF EXISTS k, DROP KEY IF EXISTS z, DROP CONSTRAINT IF EXISTS c1, "
    "DROP FOREIGN KEY IF EXISTS f": "ALTER TABLE t DROP INDEX k, DROP CONSTRAINT c1",
    "ALTER TABLE t MODIFY COLUMN IF EXISTS a BIGINT, CHANGE COLUMN IF EXISTS z n INT, CHANGE IF EXISTS b c INT": (
        "ALTER TABLE t MODIFY COLUMN a BIGINT, CHANGE b c INT"
    ),
    "ALTER TABLE t ADD CONSTRAINT IF NOT EXISTS c1 CHECK (b > 0), RENAME COLUMN IF EXISTS a TO aa, "
    "RENAME INDEX IF EXISTS k TO kk": "ALTER TABLE t RENAME COLUMN a TO aa, RENAME INDEX k TO kk",
    "ALTER TABLE t ALTER COLUMN IF EXISTS a SET DEFAULT 3, ALTER IF EXISTS z DROP DEFAULT": (
        "ALTER TABLE t ALTER COLUMN a SET DEFAULT 3"
    ),
    "ALTER TABLE f ADD CONSTRAINT n FOREIGN KEY IF NOT EXISTS f1 (a) REFERENCES t (id), DROP FOREIGN KEY IF EXISTS f2, "
    "ADD CONSTRAINT n FOREIGN KEY IF NOT EXISTS f2 (a) REFERENCES t (id)": (
        "ALTER TABLE f ADD CONSTRAINT n FOREIGN KEY f2 (a) REFERENCES t (id)"
    ),
    "ALTER TABLE t ALTER INDEX IF EXISTS k INVISIBLE, ALTER INDEX IF EXISTS z VISIBLE": (
        "ALTER TABLE t ALTER INDEX k INVISIBLE"
    ),
    "ALTER TABLE t CHANGE a c INT, ADD COLUMN IF NOT EXISTS c INT": "ALTER TABLE t CHANGE a c INT",
    "ALTER TABLE t DROP CONSTRAINT IF EXISTS k, ADD c INT": "ALTER TABLE t ADD c INT",
    "ALTER TABLE p DROP COLUMN IF EXISTS q REMOVE PARTITIONING": "ALTER TABLE p  REMOVE PARTITIONING",
    "ALTER TABLE p ADD b INT, ADD COLUMN IF NOT EXISTS a INT PARTITION BY HASH (a)": (
        "ALTER TABLE p ADD b INT PARTITION BY HASH (a)"
    ),
    "CREATE UNIQUE INDEX IF NOT EXISTS u ON t (b)": "CREATE UNIQUE INDEX u ON t (b)",
    "DROP INDEX IF EXISTS k ON t": "DROP INDEX k ON t",
    "ALTER TABLE p DROP PARTITION IF EXISTS p0, p9": "ALTER TABLE p DROP PARTITION p0",
    "ALTER TABLE p ADD PARTITION IF NOT EXISTS (PARTITION p2 VALUES LESS THAN (3))": (
        "ALTER TABLE p ADD PARTITION (PARTITION p2 VALUES LESS THAN (3))"
    ),
    "RENAME TABLE IF EXISTS z TO y, t TO x, t TO w": "RENAME TABLE t TO x",
    "ALTER TABLE t ADD PRIMARY KEY IF NOT EXISTS (id), COMMENT 'x' ENGINE=InnoDB": (
        "ALTER TABLE t COMMENT 'x' ENGINE=InnoDB"
    ),
    **dict.fromkeys(
        (
            "ALTER TABLE t ADD COLUMN IF NOT EXISTS a INT",
            "ALTER TABLE IF EXISTS z ADD COLUMN a INT",
            "ALTER TABLE t ADD COLUMN IF NOT EXISTS (a INT, b INT)",
            "CREATE INDEX IF NOT EXISTS k ON t (b)",
            "DROP INDEX IF EXISTS z ON t",
            "ALTER TABLE p DROP PARTITION IF EXISTS p8, p9",
            "ALTER TABLE p ADD PARTITION IF NOT EXISTS (PARTITION p1 VALUES LESS THAN (3))",
            "RENAME TABLE IF EXISTS z TO y",
        )
    ),
}


def _catalog() -> Catalog:
    catalog = Catalog({}, {})
    for sql in BEFORE:
        catalog = apply_ddl(catalog, sql, "d", SESSION).catalog
    return catalog


def test_what_is_done_is_a_statement_without_conditions() -> None:
    catalog = _catalog()
    for sql, expected in DONE.items():
        done = settled(ParsedDdl.of(sql, SESSION), catalog, "d")
        assert (None if done is None else done.sql) == expected, sql
        after = catalog if done is None else apply_ddl(catalog, done.sql, "d", SESSION).catalog
        found = apply_ddl(catalog, sql, "d", SESSION).catalog
        assert {name: table.whole for name, table in found.tables.items()} == {
            name: table.whole for name, table in after.tables.items()
        }, sql


def test_a_statement_without_conditions_stays_and_one_on_an_unknown_table_does() -> None:
    for sql in ("ALTER TABLE t ADD x INT", "ALTER TABLE z ADD COLUMN IF NOT EXISTS a INT", "DROP TABLE IF EXISTS t"):
        ddl = ParsedDdl.of(sql, SESSION)
        assert settled(ddl, _catalog(), "d") is ddl


def test_where_mysql_decides_what_is_understood_they_are_refused() -> None:
    for sql in (*DONE, "CREATE TABLE x (a INT, KEY IF NOT EXISTS k (a))"):
        with pytest.raises((DdlNotUnderstood, DdlRejected)):
            apply_ddl(_catalog(), sql, "d", DdlSession(validate=True))


def test_a_key_of_a_new_table_has_no_condition() -> None:
    with pytest.raises(DdlNotUnderstood, match="IF NOT EXISTS of a key"):
        apply_ddl(_catalog(), "CREATE TABLE x (a INT, KEY IF NOT EXISTS k (a))", "d", SESSION)


@pytest.mark.parametrize(
    "action",
    [
        "DROP CONSTRAINT IF EXISTS CONSTRAINT_1",
        "DROP CONSTRAINT IF EXISTS n_chk_1",
        "DROP CONSTRAINT IF EXISTS other_chk_1",
        "DROP CONSTRAINT constraint_1",
        "ADD CONSTRAINT IF NOT EXISTS CONSTRAINT_2 CHECK (a < 9)",
        "ADD CONSTRAINT IF NOT EXISTS n_chk_1 CHECK (a < 9)",
    ],
)
def test_the_name_of_a_check_that_the_servers_call_otherwise_is_refused(action: str) -> None:
    """MariaDB calls the check CONSTRAINT_1, or has no name for it if a column has it; MySQL calls it n_chk_1."""
    catalog = apply_ddl(_catalog(), "CREATE TABLE d.n (a INT CHECK (a > 0))", "d", SESSION).catalog
    sql = f"ALTER TABLE n {action}"
    with pytest.raises(UnknownIndex, match="n_chk_1 in MySQL"):
        ddl = settled(ParsedDdl.of(sql, SESSION), catalog, "d")
        assert ddl is not None
        apply_ddl(catalog, ddl.sql, "d", SESSION)
    with pytest.raises(UnknownIndex, match="n_chk_1 in MySQL"):
        apply_ddl(catalog, sql, "d", SESSION)


def test_such_a_name_is_certain_where_all_checks_have_their_own() -> None:
    """The check that an unknown name could be is not there; a MySQL drops what it has called n_chk_1."""
    drop = "ALTER TABLE {} DROP CONSTRAINT IF EXISTS CONSTRAINT_1"
    assert settled(ParsedDdl.of(drop.format("t"), SESSION), _catalog(), "d") is None
    catalog = _catalog()
    for sql in (
        "CREATE TABLE d.n (a INT CHECK (a > 0), CONSTRAINT CONSTRAINT_1 CHECK (a > 1))",
        drop.format("d.n"),
        "ALTER TABLE d.n DROP CHECK n_chk_1",
    ):
        catalog = apply_ddl(catalog, sql, "d", SESSION).catalog
    assert catalog.tables["d", "n"].checks == ()


@pytest.mark.parametrize(
    "action",
    [
        "ALTER COLUMN i SET DEFAULT '::1'",
        "ALTER COLUMN i SET DEFAULT ('::1')",
        "ADD CONSTRAINT c CHECK (i <> '::1')",
        "ADD COLUMN b INT CHECK (`i` <> '10.0.0.1')",
        "ADD COLUMN b INT AS (i = '::')",
        "ALTER COLUMN i SET DEFAULT '11111111-2222-1333-8444-555555555555'",
        "ALTER COLUMN i SET DEFAULT (uuid())",
    ],
)
def test_the_text_of_an_address_is_refused_where_the_column_has_its_bytes(action: str) -> None:
    """A translation made a BINARY(16) of an INET6; elsewhere, and on other servers, a text is a text."""
    session = DdlSession(server_version=80400, default_collation_for_utf8mb4="utf8mb4_general_ci")
    catalog = apply_ddl(_catalog(), "CREATE TABLE d.n (i BINARY(16), s VARCHAR(39))", "d", session).catalog
    ddl = ParsedDdl.of(f"ALTER TABLE n {action}", session)
    with pytest.raises(DdlNotUnderstood, match="give the statement with "):
        settled(ddl, catalog, "d")
    other = ParsedDdl.of(ddl.sql, SESSION)
    assert settled(other, catalog, "d") is other
    of_text = ParsedDdl.of(
        f"ALTER TABLE n {action.replace('i ', 's ', 1).replace('`i`', 's').replace('(i', '(s')}", session
    )
    assert settled(of_text, catalog, "d") is of_text


@pytest.mark.parametrize(
    "action",
    [
        "ADD COLUMN b INT AS (LENGTH(i)) STORED",
        "ADD COLUMN b VARCHAR(36) DEFAULT (i)",
        "ADD COLUMN b INT CHECK (LENGTH(i) > 2)",
        "ADD CHECK (LENGTH(`I`) > 2)",
    ],
)
def test_an_expression_that_takes_an_address_is_refused(action: str) -> None:
    """MariaDB computes with its text, and MySQL would with the bytes: LENGTH(UUID) is 36 there, and 16 here."""
    session = DdlSession(server_version=80400, default_collation_for_utf8mb4="utf8mb4_general_ci")
    catalog = apply_ddl(_catalog(), "CREATE TABLE d.n (i BINARY(16), s VARCHAR(39))", "d", session).catalog
    with pytest.raises(DdlNotUnderstood, match="MariaDB has its text in an expression"):
        settled(ParsedDdl.of(f"ALTER TABLE n {action}", session), catalog, "d")
    of_text = ParsedDdl.of(f"ALTER TABLE n {action.replace('(i', '(s').replace('`I`', 's')}", session)
    assert settled(of_text, catalog, "d") is of_text


@pytest.mark.parametrize("default", ["(UUID_TO_BIN(UUID()))", "(RAND())"])
def test_values_that_the_log_does_not_have_are_refused(default: str) -> None:
    """MariaDB gives each row another value, and logs the statement alone; MySQL refuses to run it."""
    session = DdlSession(server_version=80400, default_collation_for_utf8mb4="utf8mb4_general_ci")
    refused = ParsedDdl.of(f"ALTER TABLE t ADD COLUMN u BINARY(16) DEFAULT {default}", session)
    with pytest.raises(DdlNotUnderstood, match="which the log does not have"):
        settled(refused, _catalog(), "d")
    for action in (f"ALTER a SET DEFAULT {default}", "ADD COLUMN u DATE DEFAULT (CURDATE())"):
        passes = ParsedDdl.of(f"ALTER TABLE t {action}", session)
        assert settled(passes, _catalog(), "d") is passes


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        ("CHAR(36)", "BINARY(16)", True),
        ("BINARY(16)", "VARCHAR(39)", True),
        ("BINARY(4)", "TEXT", True),
        ("BINARY(16)", "VARCHAR(20)", True),  # '::1' of an INET6
        ("BINARY(4)", "VARCHAR(8)", True),
        ("CHAR(16)", "BINARY(16)", False),
        ("BINARY(16)", "VARBINARY(36)", False),
        ("BINARY(16)", "BINARY(16) NOT NULL", False),
    ],
)
def test_what_was_a_text_on_the_node_is_no_text_of_the_same_bytes(before: str, after: str, refused: bool) -> None:
    """`MODIFY c UUID` of a CHAR(36) reads the texts; the same statement with BINARY(16) would store them."""
    session = DdlSession(server_version=80400, default_collation_for_utf8mb4="utf8mb4_general_ci")
    catalog = apply_ddl(_catalog(), f"CREATE TABLE d.n (i {before})", "d", session).catalog
    for action in (f"MODIFY i {after}", f"CHANGE i n {after}"):
        ddl = ParsedDdl.of(f"ALTER TABLE n {action}", session)
        if refused:
            with pytest.raises(DdlNotUnderstood, match="give the statements that do it there"):
                settled(ddl, catalog, "d")
        else:
            assert settled(ddl, catalog, "d") is ddl
        other = ParsedDdl.of(ddl.sql, SESSION)
        assert settled(other, catalog, "d") is other
