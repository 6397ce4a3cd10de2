"""What statements are about: kinds, tables, parts."""

from contextlib import suppress
from typing import Any

import pytest

from binlog_merge.filters import BlockAllowList
from binlog_merge.filters.ddl import ASKED, ddl_events, events_of, is_global, split_alter
from binlog_merge.filters.incompatible import event_type
from binlog_merge.filters.kinds import ACTIONS
from snapshot_store import Catalog, SnapshotStoreError, apply_ddl, parse_table
from snapshot_store.ddl import DdlSession, ParsedDdl
from snapshot_store.errors import DdlNotUnderstood
from tests.filters.dm_words import is_builtin_skipped, is_ddl
from tests.filters.vectors import DIFFERENCES, vectors

CASES = vectors("ddl_classify.json")


def of_kind(kind: str) -> Any:
    found = [pytest.param(case, id=case["id"]) for case in CASES if case["kind"] == kind]
    skipped = [pytest.param({}, marks=pytest.mark.skip("no ddl_classify.json beside the repository"))]
    return pytest.mark.parametrize("case", found or skipped)


def asked(sql: str) -> ParsedDdl:
    return ParsedDdl.of(sql, ASKED)


def parts(sql: str, schema: str) -> list[list[list[str]]]:
    """Return the tables of each part, an ALTER TABLE taken apart as DM does."""
    events = [event for part in split_alter(asked(sql)) for event in events_of(part, schema)]
    return [[list(table) for table in event.tables] for event in events]


@of_kind("split_and_route")
def test_parts_and_tables_as_in_dm(case: dict[str, Any]) -> None:
    if case["id"] in DIFFERENCES:
        with pytest.raises(DdlNotUnderstood):
            ddl_events(case["sql"], case["default_schema"])
        return
    assert parts(case["sql"], case["default_schema"]) == case["tables"]


@of_kind("split_allow_route")
def test_parts_let_through_as_in_dm(case: dict[str, Any]) -> None:
    rules = {key.replace("-", "_"): value for key, value in case["block_allow_list"].items()}
    allowed = BlockAllowList(**rules)
    found = parts(case["sql"], case["default_schema"])
    assert len([p for p in found if all(allowed.matches(*table) for table in p)]) == len(case["applied"])


@of_kind("is_ddl")
def test_what_is_ddl_as_in_dm(case: dict[str, Any]) -> None:
    assert is_ddl(case["sql"]) is case["is_ddl"]


@of_kind("parse_error")
def test_what_cannot_be_parsed(case: dict[str, Any]) -> None:
    if case["id"] in DIFFERENCES:
        assert is_ddl(case["sql"])
        return
    with pytest.raises(DdlNotUnderstood):
        ddl_events(case["sql"])


@of_kind("builtin_skip")
def test_what_dm_never_carries_over(case: dict[str, Any]) -> None:
    assert is_builtin_skipped(case["sql"]) is case["skipped"]


@of_kind("action")
def test_actions_as_in_ticdc(case: dict[str, Any]) -> None:
    assert (case["action"] in ACTIONS) is case["allowed"]
    assert is_global(case["action"]) is case["global_barrier"]


# The statements of DM's test form one story; these are the chapters that are not among the cases.
MISSING_BEFORE = {
    "incompatible/5": "alter table t1 modify column c_mediumint mediumint(7)",
    "incompatible/9": "alter table t1 modify id int not null",
}


def test_what_statements_take_away_as_in_dm() -> None:
    cases = [case for case in CASES if case["kind"] == "incompatible_ddl_type"]
    if not cases:
        pytest.skip("no ddl_classify.json beside the repository")
    create = cases[0]["prepare_sql"].partition("-- https")[2].partition("\n")[2]
    catalog = Catalog().with_table(parse_table(create, schema="incompatible_ddl_changes"))
    found = {}
    for case in cases:
        for sql in (MISSING_BEFORE.get(case["id"]), case["sql"]):
            if sql is None:
                continue
            (event,) = ddl_events(sql, "incompatible_ddl_changes")
            kind = event_type(asked(sql), catalog.get(event.schema, event.table))
            if sql is case["sql"]:
                found[case["id"]] = kind
            with suppress(SnapshotStoreError):  # some of them no server would carry out
                catalog = apply_ddl(catalog, sql, schema="incompatible_ddl_changes")
    assert found == {case["id"]: case["event_type"] for case in cases}


# Our own cases.

LOSSES = [
    ("a INT", "MODIFY a BIGINT", "alter table"),
    ("a BIGINT", "MODIFY a INT", "value range decrease"),
    ("a INT", "MODIFY a INT UNSIGNED", "precision decrease"),
    ("a INT", "MODIFY a BIGINT UNSIGNED", "value range decrease"),
    ("a DECIMAL(7,2)", "MODIFY a DECIMAL(9,2)", "precision decrease"),
    ("a VARCHAR(9)", "MODIFY a VARCHAR(10)", "alter table"),
    ("a VARCHAR(9)", "MODIFY a VARCHAR(8)", "value range decrease"),
    ("a VARCHAR(9)", "MODIFY a CHAR(9)", "modify column"),
    ("a VARCHAR(9)", "MODIFY a TEXT", "alter table"),
    ("a TEXT", "MODIFY a VARCHAR(9)", "modify column"),
    ("a LONGTEXT", "MODIFY a TINYTEXT", "modify column"),
    ("a BINARY(3)", "MODIFY a BINARY(4)", "precision decrease"),
    ("a DATETIME(6)", "MODIFY a DATETIME(3)", "value range decrease"),
    ("a DATETIME", "MODIFY a TIMESTAMP NULL", "modify column"),
    ("a INT", "MODIFY a VARCHAR(20)", "modify column"),
    ("a ENUM('x','y')", "MODIFY a ENUM('x','y','z')", "alter table"),
    ("a ENUM('x','y')", "MODIFY a ENUM('y','x')", "value range decrease"),
    ("a INT AUTO_INCREMENT UNIQUE", "MODIFY a INT UNIQUE", "remove auto increment"),
    ("a INT PRIMARY KEY", "MODIFY a INT NOT NULL", "drop primary key"),
    ("a INT UNIQUE", "MODIFY a INT", "drop unique key"),
    ("a INT UNIQUE", "MODIFY a INT UNIQUE", "alter table"),
    ("a INT DEFAULT 1", "MODIFY a INT DEFAULT 2", "modify default value"),
    ("a CHAR(3)", "MODIFY a CHAR(3) CHARACTER SET latin1", "modify charset"),
    ("a CHAR(3)", "MODIFY a CHAR(3) COLLATE utf8mb4_bin", "modify collation"),
    ("a INT", "MODIFY a INT FIRST", "modify columns order"),
    ("a INT", "CHANGE a b INT", "rename column"),
    ("a INT", "RENAME COLUMN a TO b", "rename column"),
    ("a INT", "MODIFY nope INT", "alter table"),
    ("a INT", "ADD c INT, DROP a", "drop column"),
    ("a INT", "ADD c INT", "alter table"),
    ("a INT", "ADD INDEX (a)", "modify constraint"),
    ("a INT", "RENAME u", "rename table"),
    ("a INT", "RENAME KEY x TO y", "rename index"),
    ("a INT", "ALTER a SET DEFAULT 1", "modify default value"),
    ("a INT", "CHARACTER SET latin1", "modify charset"),
    ("a INT", "COLLATE utf8mb4_bin", "modify collation"),
    ("a INT", "ENGINE = MyISAM", "modify storage engine"),
    ("a INT", "COMMENT 'x'", "alter table"),
    ("a INT", "DROP PRIMARY KEY", "drop primary key"),
    ("a INT", "DROP KEY k", "drop index"),
    ("a INT", "EXCHANGE PARTITION p WITH TABLE u", "exchange table partition"),
]


@pytest.mark.parametrize(("column", "change", "kind"), LOSSES)
def test_what_statements_take_away(column: str, change: str, kind: str) -> None:
    table = parse_table(f"CREATE TABLE t ({column}, z INT)", schema="d")
    assert event_type(asked(f"ALTER TABLE t {change}"), table, "d") == kind


def test_other_statements_have_their_kind_as_dm_calls_it() -> None:
    assert event_type(asked("ALTER DATABASE d CHARACTER SET utf8mb4"), None) == "alter database"
    assert event_type(asked("CREATE INDEX i ON t (a)"), None) == "create index"
    assert event_type(asked("DROP TABLE t"), None) == "drop table"
    assert event_type(asked("ALTER TABLE t MODIFY a INT"), None) == "alter table"
    assert event_type(asked("FLUSH TABLES"), None) == ""


KINDS = [
    ("CREATE DATABASE d", "create database", True),
    ("DROP SCHEMA d", "drop database", True),
    ("ALTER DATABASE d CHARACTER SET utf8mb4", "modify schema charset and collate", True),
    ("CREATE TABLE t (a INT)", "create table", True),
    ("CREATE TABLE t LIKE u", "create table", True),
    ("CREATE VIEW v AS SELECT 1", "create view", False),
    ("DROP VIEW v", "drop view", False),
    ("DROP TABLE t", "drop table", False),
    ("TRUNCATE t", "truncate table", False),
    ("RENAME TABLE t TO u", "rename table", True),
    ("ALTER TABLE t RENAME u", "rename table", True),
    ("ALTER TABLE t RENAME u, ADD x INT", "multi schema change", True),
    ("CREATE UNIQUE INDEX i ON t (a)", "create index", False),
    ("DROP INDEX i ON t", "drop index", False),
    ("ALTER TABLE t ADD x INT", "add column", False),
    ("ALTER TABLE t ADD (x INT, y INT)", "multi schema change", False),
    ("ALTER TABLE t DROP x", "drop column", False),
    ("ALTER TABLE t MODIFY x BIGINT", "modify column", False),
    ("ALTER TABLE t CHANGE x y BIGINT", "modify column", False),
    ("ALTER TABLE t RENAME COLUMN x TO y", "modify column", False),
    ("ALTER TABLE t ALTER x SET DEFAULT 1", "set default value", False),
    ("ALTER TABLE t ADD PRIMARY KEY (a)", "add primary key", False),
    ("ALTER TABLE t DROP PRIMARY KEY", "drop primary key", False),
    ("ALTER TABLE t ADD INDEX (a)", "create index", False),
    ("ALTER TABLE t DROP KEY k", "drop index", False),
    ("ALTER TABLE t RENAME INDEX k TO l", "rename index", False),
    ("ALTER TABLE t ALTER INDEX k INVISIBLE", "alter index visibility", False),
    ("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES u (a)", "add foreign key", True),
    ("ALTER TABLE t DROP FOREIGN KEY f", "drop foreign key", True),
    ("ALTER TABLE t ADD x INT, ADD FOREIGN KEY (x) REFERENCES u (a)", "multi schema change", True),
    ("ALTER TABLE t ADD CHECK (a > 0)", "alter table", False),
    ("ALTER TABLE t AUTO_INCREMENT = 7", "rebase auto id", False),
    ("ALTER TABLE t COMMENT 'c'", "modify table comment", False),
    ("ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4", "modify table charset and collate", False),
    ("ALTER TABLE t COLLATE utf8mb4_bin", "modify table charset and collate", False),
    ("ALTER TABLE t ENGINE = InnoDB", "alter table", False),
    ("ALTER TABLE t FORCE", "alter table", False),
    ("ALTER TABLE t ADD PARTITION (PARTITION p VALUES LESS THAN (9))", "add table partition", False),
    ("ALTER TABLE t DROP PARTITION p", "drop table partition", False),
    ("ALTER TABLE t TRUNCATE PARTITION p", "truncate table partition", False),
    ("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u", "exchange table partition", True),
    ("ALTER TABLE t REMOVE PARTITIONING", "remove table partitioning", False),
    ("ALTER TABLE t PARTITION BY HASH (a) PARTITIONS 4", "alter table partitioning", False),
]


@pytest.mark.parametrize(("sql", "kind", "everything_waits"), KINDS)
def test_kinds(sql: str, kind: str, everything_waits: bool) -> None:
    (event,) = ddl_events(sql, "d")
    assert (event.kind, event.is_global, event.allowed) == (kind, everything_waits, True)


@pytest.mark.parametrize(
    "sql", ["BEGIN", "SET x = 1", "CREATE USER u", "FLUSH TABLES", "CREATE TEMPORARY TABLE t (a INT)"]
)
def test_what_changes_no_table_is_no_event(sql: str) -> None:
    assert ddl_events(sql, "d") == ()
    assert not is_ddl(sql)


def test_lists_of_tables_are_parts_in_the_users_own_words() -> None:
    events = ddl_events("drop /* all */ table if exists a, `b`.`c,d` ; ", "s")
    assert [event.tables for event in events] == [(("s", "a"),), (("b", "c,d"),)]
    assert [event.text for event in events] == [
        "drop /* all */ table if exists a",
        "drop /* all */ table if exists `b`.`c,d`",
    ]
    first, second = ddl_events("RENAME TABLE a TO b, x.b TO c", "s")
    assert (first.action, first.tables) == ("ActionRenameTables", (("s", "a"), ("s", "b")))
    assert (second.text, second.tables) == ("RENAME TABLE x.b TO c", (("x", "b"), ("s", "c")))
    assert first.query == second.query == "RENAME TABLE a TO b, x.b TO c"


def test_an_alter_of_several_actions_is_cut_between_them() -> None:
    sql = "ALTER TABLE `a,b`.t ADD x DECIMAL(10,2) DEFAULT (1 + f(2, 3)), DROP y , COMMENT 'u, v'"
    assert tuple(part.sql for part in split_alter(asked(sql))) == (
        "ALTER TABLE `a,b`.t ADD x DECIMAL(10,2) DEFAULT (1 + f(2, 3))",
        "ALTER TABLE `a,b`.t DROP y",
        "ALTER TABLE `a,b`.t COMMENT 'u, v'",
    )
    assert [part.sql for part in split_alter(asked("DROP TABLE a, b"))] == ["DROP TABLE a, b"]


def test_a_rename_is_chosen_by_its_old_name() -> None:
    (event,) = ddl_events("ALTER TABLE shop.a RENAME TO live.b", "s")
    assert (event.schema, event.table) == ("shop", "a")
    assert event.tables[-1] == ("live", "b")


def test_a_part_of_an_executable_comment_stands_bare() -> None:
    parts = ddl_events("/*!50000 DROP TABLE IF EXISTS a, b */")
    assert [part.text for part in parts] == ["DROP TABLE IF EXISTS a", "/*!50000 DROP TABLE IF EXISTS b */"]
    assert [len(part.own.statement.tables) for part in parts] == [1, 1]  # type: ignore[union-attr]
    ddl = ParsedDdl.of("ALTER TABLE t /*!50100 ADD a INT, DROP b */, DROP c", DdlSession())
    texts = [" ".join(each.sql.split()) for each in split_alter(ddl)]
    assert texts == ["ALTER TABLE t ADD a INT", "ALTER TABLE t /*!50100 DROP b */", "ALTER TABLE t DROP c"]
