"""What statements are about: kinds, tables, parts."""

from typing import Any

import pytest

from binlog_merge.filters import BlockAllowList
from binlog_merge.filters.ddl import ddl_events, is_builtin_skipped, is_ddl, is_global, split_alter
from binlog_merge.filters.kinds import ACTIONS, REDO_BARRIER_ACTIONS
from snapshot_store.errors import DdlNotUnderstood
from tests.filters.vectors import DIFFERENCES, vectors

CASES = vectors("ddl_classify.json")


def of_kind(kind: str) -> Any:
    found = [pytest.param(case, id=case["id"]) for case in CASES if case["kind"] == kind]
    skipped = [pytest.param({}, marks=pytest.mark.skip("no ddl_classify.json beside the repository"))]
    return pytest.mark.parametrize("case", found or skipped)


def parts(sql: str, schema: str) -> list[list[list[str]]]:
    """Return the tables of each part, an ALTER TABLE taken apart as DM does."""
    events = [event for text in split_alter(sql) for event in ddl_events(text, schema)]
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


# Our own cases.

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
    assert event.makes_tables is (event.action in REDO_BARRIER_ACTIONS)


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
    assert split_alter(sql) == (
        "ALTER TABLE `a,b`.t ADD x DECIMAL(10,2) DEFAULT (1 + f(2, 3))",
        "ALTER TABLE `a,b`.t DROP y",
        "ALTER TABLE `a,b`.t COMMENT 'u, v'",
    )
    assert split_alter("DROP TABLE a, b") == ("DROP TABLE a, b",)


def test_a_rename_is_chosen_by_its_old_name() -> None:
    (event,) = ddl_events("ALTER TABLE shop.a RENAME TO live.b", "s")
    assert (event.schema, event.table) == ("shop", "a")
    assert event.tables[-1] == ("live", "b")
