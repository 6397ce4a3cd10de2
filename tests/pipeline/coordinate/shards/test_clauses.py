"""Statements cut into clauses, and written for another table."""

from dataclasses import replace

import pytest

from binlog_merge.pipeline.coordinate.shards.clauses import Naming, applied, routed, steps_of, with_charset
from snapshot_store import parse_table
from snapshot_store.ddl import DdlSession
from snapshot_store.ddl.apply.statement import apply_ddl
from snapshot_store.ddl.parse.statement import parse_statement
from snapshot_store.ddl.statements import AlterTable
from snapshot_store.errors import DdlNotUnderstood, SnapshotStoreError
from snapshot_store.model import Catalog
from snapshot_store.mysql.sql.session import ANSI_QUOTES
from tests.snapshot_store.ddl.ddl_corpus import FILES, statements

SESSION = DdlSession()
TABLE = parse_table("CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20), KEY k (a))", schema="shop")


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("ALTER TABLE t1 ADD c INT", "ALTER TABLE `x`.`y` ADD c INT"),
        ("alter table `s`.`t``1` ADD c INT", "alter table `x`.`y` ADD c INT"),
        ("ALTER TABLE s . t1 ADD c INT COMMENT 'TABLE t1'", "ALTER TABLE `x`.`y` ADD c INT COMMENT 'TABLE t1'"),
        ("ALTER /* TABLE z */ TABLE t1 ADD c INT", "ALTER /* TABLE z */ TABLE `x`.`y` ADD c INT"),
        ("/*!40000 ALTER TABLE t1 DISABLE KEYS */", "/*!40000 ALTER TABLE `x`.`y` DISABLE KEYS */"),
        ("CREATE UNIQUE INDEX `on` ON t1 (a)", "CREATE UNIQUE INDEX `on` ON `x`.`y` (a)"),
        (
            "CREATE INDEX i USING BTREE ON s.t1 (a) COMMENT 'ON z'",
            "CREATE INDEX i USING BTREE ON `x`.`y` (a) COMMENT 'ON z'",
        ),
        ("DROP INDEX i ON t1 ALGORITHM=INPLACE", "DROP INDEX i ON `x`.`y` ALGORITHM=INPLACE"),
        ("CREATE TABLE IF NOT EXISTS t1 (a INT)", "CREATE TABLE IF NOT EXISTS `x`.`y` (a INT)"),
        ("TRUNCATE t1", "TRUNCATE `x`.`y`"),
        ("TRUNCATE TABLE t1;", "TRUNCATE TABLE `x`.`y`;"),
        ("ALTER TABLE `table` ADD c INT", "ALTER TABLE `x`.`y` ADD c INT"),
    ],
)
def test_the_name_is_replaced_and_nothing_else(sql: str, wanted: str) -> None:
    assert routed(sql, "x", "y", SESSION) == wanted


def test_quotes_are_those_of_the_session() -> None:
    session = replace(SESSION, sql_mode=ANSI_QUOTES)
    assert routed('ALTER TABLE "t 1" ADD "c" INT', "x", "y", session) == 'ALTER TABLE `x`.`y` ADD "c" INT'


def test_a_statement_without_a_table_is_not_routed() -> None:
    with pytest.raises(DdlNotUnderstood, match="names no table"):
        routed("CREATE DATABASE x", "x", "y", SESSION)


@pytest.mark.parametrize(
    ("sql", "clauses"),
    [
        ("ADD c INT, DROP a", ["ADD c INT", "DROP a"]),
        ("ADD c ENUM('x,y','z'), ADD KEY l (id, b)", ["ADD c ENUM('x,y','z')", "ADD KEY l (id, b)"]),
        ("ADD (c INT, d INT), DROP KEY k", ["ADD (c INT, d INT)", "DROP KEY k"]),
        ("ADD c INT, ALGORITHM=INPLACE, LOCK=NONE", ["ADD c INT"]),
        ("ADD c INT /* , */ , -- ,\n DROP a", ["ADD c INT", "DROP a"]),
        ("RENAME COLUMN a TO b, RENAME COLUMN b TO a", ["RENAME COLUMN a TO b, RENAME COLUMN b TO a"]),
        ("ORDER BY a, b", ["ORDER BY a, b"]),
        ("ADD c INT;", ["ADD c INT;"]),
        ("ADD c INT, DROP a;", ["ADD c INT", "DROP a"]),
    ],
)
def test_clauses(sql: str, clauses: list[str]) -> None:
    steps = steps_of(f"ALTER TABLE t {sql}", TABLE, SESSION)
    assert [" ".join(step.sql.split()) for step in steps] == [f"ALTER TABLE t {clause}" for clause in clauses]
    assert steps[-1].after == applied(TABLE, f"ALTER TABLE t {sql}", SESSION)


def test_steps_name_the_columns() -> None:
    added, changed, dropped = steps_of("ALTER TABLE t ADD (c INT, d INT), CHANGE a z BIGINT, DROP b", TABLE, SESSION)
    assert (added.adds, changed.renames, dropped.drops) == (("c", "d"), (("a", "z"),), ("b",))
    (modified,) = steps_of("ALTER TABLE t CHANGE a A BIGINT", TABLE, SESSION)
    assert modified.renames == ()


@pytest.mark.parametrize("name", FILES)
def test_whatever_is_altered_is_the_same_in_clauses_and_under_another_name(name: str) -> None:
    catalog = Catalog()
    for statement in statements(name):
        if statement.refused or statement.not_followed or statement.is_session_setting:
            continue
        session = replace(statement.session, validate=False)
        try:
            effect = apply_ddl(catalog, statement.sql, statement.database, session)
            parsed = parse_statement(statement.sql, session)
        except SnapshotStoreError:
            continue
        altered = isinstance(parsed, AlterTable) and len(effect.tables) == 1  # RENAME TO names another
        before = catalog.get(*effect.tables[0]) if altered else None
        catalog = effect.catalog
        after = None if before is None else catalog.get(before.schema, before.name)
        if before is None or after is None:
            continue
        sql = routed(statement.sql, "x", "y", session)
        sql = with_charset(sql, session, effect.catalog.schemas.get(statement.database or ""))
        steps = steps_of(sql, before.renamed("x", "y"), session)
        expected = after.renamed("x", "y")
        assert replace(steps[-1].after, foreign_keys=(), checks=()) == replace(expected, foreign_keys=(), checks=())


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("ALTER TABLE t1 DROP CHECK t1_chk_2", "ALTER TABLE `shop`.`t` DROP CHECK `t_chk_2`"),
        ("ALTER TABLE t1 DROP CONSTRAINT `t1_chk_2`", "ALTER TABLE `shop`.`t` DROP CONSTRAINT `t_chk_2`"),
        ("ALTER TABLE t1 DROP FOREIGN KEY t1_ibfk_1", "ALTER TABLE `shop`.`t` DROP FOREIGN KEY `t_ibfk_1`"),
        ("ALTER TABLE t1 DROP CHECK small", "ALTER TABLE `shop`.`t` DROP CHECK small"),
        ("ALTER TABLE t1 DROP KEY t1_ibfk_1", "ALTER TABLE `shop`.`t` DROP KEY t1_ibfk_1"),
        (
            "ALTER TABLE shop_1.t1 ADD FOREIGN KEY (p) REFERENCES u1 (id), COMMENT 'REFERENCES u1'",
            "ALTER TABLE `shop`.`t` ADD FOREIGN KEY (p) REFERENCES `shop`.`u` (id), COMMENT 'REFERENCES u1'",
        ),
        (
            "CREATE TABLE t1 (p INT REFERENCES t1 (id), FOREIGN KEY (p) REFERENCES other.x (id))",
            "CREATE TABLE `shop`.`t` (p INT REFERENCES `shop`.`t` (id), FOREIGN KEY (p) REFERENCES `other`.`x` (id))",
        ),
    ],
)
def test_names_that_follow_from_the_tables_are_the_logical_ones(sql: str, expected: str) -> None:
    aims = {("shop_1", "t1"): ("shop", "t"), ("shop_1", "u1"): ("shop", "u")}
    names = Naming("shop_1", "t1", lambda name: aims.get(name, name))
    assert routed(sql, "shop", "t", SESSION, names) == expected
