"""The names that other programs use: what they give, what they refuse, and that they cost nothing until used."""

import subprocess
import sys

import pytest

import snapshot_store
from snapshot_store import (
    AlreadyExists,
    Catalog,
    DdlNotUnderstood,
    DdlRejected,
    DdlSession,
    SnapshotStoreError,
    UnknownSchema,
    UnknownTable,
    apply_ddl,
    parse_table,
)
from snapshot_store.model import Schema
from snapshot_store.mysql.sql.session import DEFAULT_SQL_MODE


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, snapshot_store; print(sorted({'sqlglot', 'duckdb', 'pyspark', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_every_public_name_is_there() -> None:
    for name in snapshot_store.__all__:
        assert getattr(snapshot_store, name) is not None and name in dir(snapshot_store)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = snapshot_store.nothing


def test_a_table_is_parsed_from_its_create_table() -> None:
    table = parse_table("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(9) DEFAULT 'x') CHARSET latin1")
    assert (table.schema, table.name, [c.name for c in table.columns], table.charset) == ("", "t", ["a", "b"], "latin1")
    assert parse_table("CREATE TABLE d.t (a INT)").schema == "d"
    assert parse_table("CREATE TABLE t (a INT)", schema="e").schema == "e"
    assert parse_table("CREATE TABLE t (a INT, FOREIGN KEY (a) REFERENCES elsewhere (a))").foreign_keys


@pytest.mark.parametrize(
    "sql", ["", "SELECT 1", "DROP TABLE t", "CREATE TABLE t LIKE u", "CREATE TABLE t SELECT 1", "CREATE TABLE t (a INT"]
)
def test_what_is_no_create_table_is_refused(sql: str) -> None:
    with pytest.raises(DdlNotUnderstood):
        parse_table(sql)


def test_a_table_no_server_makes_is_refused() -> None:
    with pytest.raises(DdlRejected, match="longer than 255"):
        parse_table("CREATE TABLE t (a CHAR(256))")
    with pytest.raises(DdlRejected, match="AUTO_INCREMENT"):
        parse_table("CREATE TABLE t (a INT AUTO_INCREMENT)")


def test_a_table_may_have_the_zero_dates_it_was_made_with() -> None:
    sql = "CREATE TABLE t (a DATETIME(3) NOT NULL DEFAULT '0000-00-00 00:00:00', b DATE DEFAULT '2020-00-01')"
    assert [c.default and c.default.text for c in parse_table(sql).columns] == ["0000-00-00 00:00:00.000", "2020-00-01"]
    with pytest.raises(DdlRejected, match="NO_ZERO_DATE"):
        parse_table(sql, session=DdlSession(sql_mode=DEFAULT_SQL_MODE))
    with pytest.raises(DdlRejected, match="NO_ZERO_DATE"):
        apply_ddl(Catalog(), sql, schema="d")


def test_statements_make_catalogs() -> None:
    catalog = apply_ddl(Catalog(), "CREATE TABLE t (a INT)", schema="d")
    after = apply_ddl(catalog, "ALTER TABLE t ADD b INT FIRST", schema="d")
    assert [c.name for c in after.table("d", "t").columns] == ["b", "a"]
    assert [c.name for c in catalog.table("d", "t").columns] == ["a"]
    assert apply_ddl(after, "ALTER TABLE d.t RENAME d.u").get("d", "t") is None
    assert apply_ddl(after, "GRANT ALL ON *.* TO x") == after
    with pytest.raises(UnknownTable):
        after.table("d", "u")


def test_a_catalog_refuses_what_contradicts_it() -> None:
    catalog = apply_ddl(Catalog(), "CREATE TABLE t (a INT)", schema="d")
    for sql, error in (
        ("CREATE TABLE t (a INT)", AlreadyExists),
        ("CREATE TABLE nowhere.t (a INT)", UnknownSchema),
        ("DROP TABLE u", UnknownTable),
        ("ALTER TABLE t ADD b CHAR(300)", DdlRejected),
        ("ALTER TABLE t FROBNICATE", DdlNotUnderstood),
    ):
        with pytest.raises(error):
            apply_ddl(catalog, sql, schema="d")
    with pytest.raises(DdlNotUnderstood, match="no default database"):
        apply_ddl(catalog, "CREATE TABLE u (a INT)")


def test_a_statement_not_understood_names_itself_and_three_remedies() -> None:
    with pytest.raises(SnapshotStoreError) as error:
        apply_ddl(Catalog(), "ALTER TABLE t FROBNICATE x", schema="d")
    text = str(error.value)
    assert "ALTER TABLE t FROBNICATE x" in text
    for remedy in ("schema set", "introspected", "opaque"):
        assert remedy in text


def test_a_session_decides_what_a_statement_means() -> None:
    made = apply_ddl(
        Catalog({"d": Schema("d")}),
        'CREATE TABLE "t" (a VARCHAR(70000))',
        schema="d",
        session=DdlSession(sql_mode=1 << 2),
    )
    assert made.table("d", "t").columns[0].type.name == "mediumtext"
