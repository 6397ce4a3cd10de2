"""What statements of a node mean to logical tables."""

import pytest

from binlog_merge.pipeline.coordinate.shards.events import NodeDdl, appeared, shard_events
from binlog_merge.pipeline.coordinate.shards.tools import ToolStep
from binlog_merge.pipeline.coordinate.shards.values import (
    Empties,
    Joins,
    Leaves,
    Moves,
    Renamed,
    Shard,
    ShardDdl,
    ShardEvent,
)
from snapshot_store.ddl import DdlSession, ParsedDdl, parse_dump
from snapshot_store.ddl.apply.statement import apply_ddl
from snapshot_store.errors import AmbiguousRoute
from snapshot_store.mysql.sql.session import NO_BACKSLASH_ESCAPES
from snapshot_store.topology import Route, Topology
from snapshot_store.tso import OrderKey

SESSION = DdlSession()
KEY = OrderKey(7, 0, 0, 1)
ROUTES = Topology((Route("s*", "t*", "shop", "t"), Route("s*", "u*", "shop", "u")))
BASE = """
CREATE DATABASE s1; CREATE DATABASE other; CREATE TABLE s1.t1 (a INT); CREATE TABLE s1.t2 (a INT);
CREATE TABLE s1.u1 (a INT); CREATE TABLE other.x (a INT); CREATE TABLE s1._t1_gho (a INT, b INT);
"""


def events(sql: str, routes: Topology = ROUTES) -> list[tuple[str, ShardEvent]]:
    before = parse_dump(BASE, "s1")
    effect = apply_ddl(before, sql, "s1", SESSION)
    ddl = NodeDdl("n", KEY, ParsedDdl.of(sql, SESSION), before, effect, database="s1")
    return [(".".join(name), event) for name, event in shard_events(ddl, routes)]


def told(sql: str) -> list[tuple[str, str, str]]:
    return [(name, type(event).__name__, event.shard.table) for name, event in events(sql)]


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("ALTER TABLE t1 ADD b INT", [("shop.t", "ShardDdl", "t1")]),
        ("CREATE INDEX i ON t1 (a)", [("shop.t", "ShardDdl", "t1")]),
        ("DROP TABLE t1, u1, other.x", [
            ("other.x", "Leaves", "x"), ("shop.t", "Leaves", "t1"), ("shop.u", "Leaves", "u1"),
        ]),
        ("DROP DATABASE s1", [
            ("s1._t1_gho", "Leaves", "_t1_gho"), ("shop.t", "Leaves", "t1"), ("shop.t", "Leaves", "t2"),
            ("shop.u", "Leaves", "u1"),
        ]),
        ("CREATE TABLE t3 (a INT)", [("shop.t", "Joins", "t3")]),
        ("CREATE TABLE IF NOT EXISTS t1 (z INT)", []),
        ("CREATE TABLE t3 LIKE t1", [("shop.t", "Joins", "t3")]),
        ("TRUNCATE t1", [("shop.t", "Empties", "t1")]),
        ("RENAME TABLE t1 TO t9", [("shop.t", "Moves", "t1")]),
        ("ALTER TABLE t1 RENAME TO t9", [("shop.t", "Moves", "t1")]),
        ("RENAME TABLE t1 TO u9", [("shop.t", "Renamed", "t1")]),
        ("RENAME TABLE t1 TO other.y", [("shop.t", "Renamed", "t1")]),
        ("ALTER TABLE t1 RENAME u9", [("shop.t", "Renamed", "t1")]),
        ("ALTER TABLE t1 ADD b INT, RENAME TO t9, DROP a", [("shop.t", "ShardDdl", "t1"), ("shop.t", "Moves", "t1")]),
        ("ALTER TABLE t1 RENAME AS u9, ADD b INT", [("shop.t", "ShardDdl", "t1"), ("shop.t", "Renamed", "t1")]),
        ("ALTER TABLE t1 RENAME COLUMN a TO b, RENAME u9", [("shop.t", "ShardDdl", "t1"), ("shop.t", "Renamed", "t1")]),
        ("RENAME TABLE t1 TO t9, t2 TO t1", [("shop.t", "Moves", "t1"), ("shop.t", "Moves", "t2")]),
        ("RENAME TABLE t1 TO u9, u1 TO t1", [("shop.t", "Renamed", "t1"), ("shop.u", "Renamed", "u1")]),
        ("RENAME TABLE other.x TO s1.x, s1.x TO other.x", []),
        ("RENAME TABLE t1 TO tmp, tmp TO t9", [("shop.t", "Moves", "t1")]),
        ("RENAME TABLE t1 TO x1, t2 TO t1, x1 TO t2", []),  # two shards swapped that are alike
        # Without a tool's sign it is a table of its own.
        ("RENAME TABLE t1 TO _t1_del, _t1_gho TO t1", [
            ("s1._t1_gho", "Renamed", "_t1_gho"), ("shop.t", "Renamed", "t1"),
        ]),
        ("ALTER DATABASE s1 CHARACTER SET latin1", []),
        ("CREATE VIEW v AS SELECT 1", []),
        ("ANALYZE TABLE t1", []),
    ],
)  # fmt: skip
def test_what_a_statement_means(sql: str, wanted: list[tuple[str, str, str]]) -> None:
    assert told(sql) == wanted


def test_a_change_is_written_for_the_logical_table() -> None:
    ((_, event),) = events("ALTER TABLE s1.t1 ADD b INT, DROP a")
    assert isinstance(event, ShardDdl)
    assert event.sql == "ALTER TABLE `shop`.`t` ADD b INT, DROP a"
    assert [step.sql for step in event.steps] == ["ALTER TABLE `shop`.`t` ADD b INT", "ALTER TABLE `shop`.`t` DROP a"]
    assert (event.key, event.shard) == (KEY, Shard("n", "s1", "t1"))
    assert (event.before.schema, event.after.name) == ("shop", "t")
    ((_, event),) = events("DROP TABLE t1")
    assert isinstance(event, Leaves)
    assert event.sql == "DROP TABLE `shop`.`t`"
    ((_, event),) = events("TRUNCATE TABLE t2")
    assert isinstance(event, Empties)
    assert event.sql == "TRUNCATE TABLE `shop`.`t`"


@pytest.mark.parametrize(
    ("sql", "written"),
    [
        ("DROP TABLE IF EXISTS t1", "DROP TABLE IF EXISTS `shop`.`t`"),
        ("TRUNCATE t1", "TRUNCATE TABLE `shop`.`t`"),
        ("CREATE TABLE IF NOT EXISTS t3 (b INT)", "CREATE TABLE IF NOT EXISTS `shop`.`t` (b INT)"),
        ("CREATE TABLE IF NOT EXISTS t3 LIKE t1", "CREATE TABLE IF NOT EXISTS `shop`.`t` (\n  `a` int DEFAULT NULL\n)"),
    ],
)
def test_what_is_only_done_if_need_be_is_so_on_the_target(sql: str, written: str) -> None:
    ((_, event),) = events(sql)
    assert isinstance(event, Leaves | Empties | Joins) and event.sql.partition(" ENGINE")[0] == written


def test_a_table_made_of_others_is_written_out() -> None:
    ((_, event),) = events("CREATE TABLE t3 LIKE u1")
    assert isinstance(event, Joins)
    assert event.sql.startswith("CREATE TABLE `shop`.`t` (\n  `a` int DEFAULT NULL\n)")
    ((_, event),) = events("CREATE TABLE t3 (a INT, KEY (a)) COMMENT 'CREATE TABLE t3'")
    assert isinstance(event, Joins)
    assert event.sql == "CREATE TABLE `shop`.`t` (a INT, KEY (a)) COMMENT 'CREATE TABLE t3'"


def test_a_table_that_is_written_out_has_strings_as_its_session_writes_them() -> None:
    session = DdlSession(sql_mode=NO_BACKSLASH_ESCAPES)
    made = r"CREATE TABLE u2 (a INT COMMENT 'c:\dir')"
    before = apply_ddl(parse_dump(BASE, "s1"), made, "s1", session).catalog
    sql = "CREATE TABLE t3 LIKE u2"
    ddl = NodeDdl("n", KEY, ParsedDdl.of(sql, session), before, apply_ddl(before, sql, "s1", session), database="s1")
    ((_, event),) = shard_events(ddl, ROUTES)
    known_later = appeared("n", KEY, ROUTES, before.tables["s1", "u2"], ("shop", "u"), session)
    assert isinstance(event, Joins)
    assert all(r"COMMENT 'c:\dir'" in joins.sql for joins in (event, known_later))


def test_a_copy_in_a_shards_place_without_known_changes_is_the_difference() -> None:
    before, sql = parse_dump(BASE, "s1"), "RENAME TABLE t1 TO _t1_del, _t1_gho TO t1"
    name, copy = ("s1", "t1"), ("s1", "_t1_gho")
    step = ToolStep(
        frozenset({copy}), frozenset({("s1", "_t1_del")}), swapped={name: copy}, replaced={name: before.tables[name]}
    )
    effect = apply_ddl(before, sql, "s1", SESSION)
    ddl = NodeDdl("n", KEY, ParsedDdl.of(sql, SESSION), before, effect, step, "s1")
    ((_, event),) = shard_events(ddl, ROUTES)
    assert isinstance(event, ShardDdl)
    assert (event.shard, event.sql) == (
        Shard("n", *name),
        "ALTER TABLE `shop`.`t`   ADD COLUMN `b` int DEFAULT NULL AFTER `a`",
    )


def test_a_table_that_gets_another_logical_name() -> None:
    ((_, event),) = events("RENAME /* x */ TABLE t1 TO other.tmp, `other`.tmp TO `u9`")
    assert isinstance(event, Renamed)
    assert (event.old, event.new) == (("shop", "t"), ("shop", "u"))
    assert event.table is not None and (event.table.schema, event.table.name) == ("shop", "u")
    assert event.sql == "RENAME /* x */ TABLE `shop`.`t` TO `other`.`tmp`, `other`.`tmp` TO `shop`.`u`"
    (_, alter), (_, event) = events("ALTER TABLE t1 ADD b INT, RENAME TO u9 /* why */, ALGORITHM=COPY")
    assert isinstance(alter, ShardDdl) and isinstance(event, Renamed)
    assert " ".join(alter.sql.split()) == "ALTER TABLE `shop`.`t` ADD b INT, ALGORITHM=COPY"
    assert event.table is not None and [column.name for column in event.table.columns] == ["a", "b"]


def test_a_shard_that_moves_says_where_to() -> None:
    ((_, event),) = events("RENAME TABLE t1 TO t9")
    assert isinstance(event, Moves)
    assert event.to == Shard("n", "s1", "t9")


def test_routes_that_disagree_are_an_error() -> None:
    with pytest.raises(AmbiguousRoute):
        events("TRUNCATE t1", Topology((Route("s*", "t*", "shop", "t"), Route("s*", "*1", "shop", "v"))))
