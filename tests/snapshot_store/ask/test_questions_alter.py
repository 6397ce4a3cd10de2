"""The ALTER that a diff prints: applied to the first table it makes the second, here and on a real server."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings

from snapshot_store.ask.alter import alter_sql, change_sql
from snapshot_store.ddl import apply_ddl, parse_dump
from snapshot_store.diff import diff_tables, equals, equivalent
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.model import Catalog, Schema, Table
from snapshot_store.render_sql import create_sql
from tests.effort import effort
from tests.mysql_server import MySqlServer
from tests.snapshot_store.strategies import tables


def made(sql: str, schema: str = "d") -> Table:
    (table,) = parse_dump(sql, schema).tables.values()
    return table


def applied(a: Table, statements: tuple[str, ...]) -> Table:
    catalog = Catalog({"d": Schema("d"), "e": Schema("e")}, {(a.schema, a.name): a})
    for statement in statements:
        catalog = apply_ddl(catalog, statement, None).catalog
    (table,) = catalog.tables.values()
    return table


PAIRS = [
    ("a INT, b INT", "a INT, b BIGINT NOT NULL DEFAULT 7 COMMENT 'x'"),
    ("a INT, b INT, c INT, d INT", "d INT, a INT, x INT, c INT, b INT"),
    ("a INT, b INT", "b INT, A INT"),
    ("a INT, b INT, KEY (b)", "a INT"),
    ("a INT PRIMARY KEY, b INT", "a INT, b INT, PRIMARY KEY (b, a), UNIQUE KEY u (b DESC)"),
    ("a INT PRIMARY KEY AUTO_INCREMENT, b INT", "x INT PRIMARY KEY AUTO_INCREMENT, b INT"),
    ("a INT, b INT, KEY k (a)", "a INT, b INT, KEY k (a) INVISIBLE"),
    ("a INT, b INT, KEY k (a)", "a INT, b INT, KEY k (b), FULLTEXT KEY f (c), c TEXT"),
    ("a INT, b INT AS (a + 1)", "a INT, b INT AS (a + 1) STORED"),
    ("a INT, b INT AS (a + 1) STORED", "a INT, b INT"),
    ("a INT, b INT", "a INT, b INT AS (a + 2)"),
    ("a INT, CHECK (a > 1)", "a INT, CONSTRAINT c CHECK (a > 2)"),
    ("a VARCHAR(9)", "a VARCHAR(9) CHARACTER SET latin1, b ENUM('x','y''') NOT NULL DEFAULT 'y'''"),
    ("a INT, b TIMESTAMP NULL", "a INT, b TIMESTAMP(3) NOT NULL DEFAULT NOW(3) ON UPDATE NOW(3)"),
    ("a INT", "a INT INVISIBLE, b INT DEFAULT (1 + 1), c JSON, d BIT(3) DEFAULT b'101', e POINT SRID 4326"),
    ("a INT KEY, p INT, CONSTRAINT f FOREIGN KEY (p) REFERENCES t (a)", "a INT KEY, p INT, KEY f (p)"),
    (
        "a INT KEY, p INT, CONSTRAINT f FOREIGN KEY (p) REFERENCES t (a)",
        "a INT KEY, p INT, CONSTRAINT f FOREIGN KEY (p) REFERENCES t (a) ON DELETE CASCADE",
    ),
]  # fmt: skip
OPTIONS = [
    ("", "COMMENT 'it''s'"),
    ("DEFAULT CHARSET utf8mb4", "DEFAULT CHARSET latin1"),
    ("ENGINE InnoDB", "ENGINE MyISAM"),
]


def cases() -> list[tuple[Table, Table]]:
    pairs = [(made(f"CREATE TABLE t ({a})"), made(f"CREATE TABLE t ({b})")) for a, b in PAIRS]
    pairs += [(b, a) for a, b in pairs]
    body = "(a INT, b VARCHAR(5))"
    pairs += [(made(f"CREATE TABLE t {body} {a}"), made(f"CREATE TABLE t {body} {b}")) for a, b in OPTIONS]
    return [*pairs, (made("CREATE TABLE t (a INT)"), made("CREATE TABLE u (b INT)", "e"))]


@pytest.mark.parametrize(("a", "b"), cases())
def test_the_alter_makes_the_other_table(a: Table, b: Table) -> None:
    assert equivalent(applied(a, alter_sql(a, b)), b), alter_sql(a, b)
    assert alter_sql(b, b) == ()


def possible(table: Table) -> bool:
    """Tell whether a server could have the table: that it can be made at all, and is then what was asked for."""
    try:
        return equivalent(made(create_sql(table)), table)
    except SnapshotStoreError:
        return False


@settings(
    max_examples=effort(75, 150),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(tables(), tables(name="u"))
def test_any_table_becomes_any_other(a: Table, b: Table) -> None:
    a, b = replace(a, checks=()), replace(b, checks=())  # theirs speak of a column that not every table has
    assume(possible(a) and possible(b))
    after = applied(a, alter_sql(a, b))
    assert equivalent(after, b), (alter_sql(a, b), diff_tables(after, b))


def test_tables_that_come_and_go() -> None:
    table = made("CREATE TABLE t (a INT)")
    assert change_sql(None, None) == ()
    assert change_sql(None, table) == (create_sql(table, qualified=True),)
    assert change_sql(table, None) == ("DROP TABLE `d`.`t`",)


def test_only_what_must_move_moves() -> None:
    a, b = made("CREATE TABLE t (a INT, b INT, c INT, d INT)"), made("CREATE TABLE t (d INT, a INT, b INT, c INT)")
    assert alter_sql(a, b) == ("ALTER TABLE `d`.`t`\n  MODIFY COLUMN `d` int DEFAULT NULL FIRST",)


@pytest.mark.mysql
def test_a_real_server_takes_the_alter_and_has_the_other_table(mysql_server: MySqlServer) -> None:
    mysql_server.execute("CREATE DATABASE d; CREATE DATABASE e")
    for number, (a, b) in enumerate(cases()):
        a, b = a.renamed("d", f"t{number}"), b.renamed("d", f"t{number}")
        connection = mysql_server.connect("d")
        try:
            with connection.cursor() as cursor:
                cursor.execute("CREATE TABLE IF NOT EXISTS t (a INT PRIMARY KEY)")
                for statement in (create_sql(a, qualified=True), *alter_sql(a, b)):
                    cursor.execute(statement)
                cursor.execute(f"SHOW CREATE TABLE {b.name}")
                ((_, text),) = cursor.fetchall()
                cursor.execute(f"DROP TABLE {b.name}")
        finally:
            connection.close()
        assert equivalent(made(text), b), (alter_sql(a, b), text)
    assert not equals(*cases()[0])
