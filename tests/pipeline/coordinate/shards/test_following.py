"""Which logical table is which, and where its renames stand: nodes that run statements, one after the other."""

from functools import partial

import pytest

from binlog_merge.pipeline.coordinate.shards.events import NodeDdl, shard_events
from binlog_merge.pipeline.coordinate.shards.following import Following, rename_sql
from binlog_merge.pipeline.coordinate.shards.together import _may_follow
from binlog_merge.pipeline.coordinate.shards.tools import ToolTables
from binlog_merge.pipeline.coordinate.shards.values import WRITTEN, Shard, Start
from snapshot_store.ddl import ParsedDdl, parse_dump
from snapshot_store.ddl.apply.statement import apply_ddl
from snapshot_store.topology import Route, Topology
from snapshot_store.tso import ORIGIN, OrderKey

ROUTES = (Route("a", "orders_*", "a", "orders"), Route("a", "sold_*", "a", "sold"))


def follow(begin: str, *statements: str) -> Following:
    """Return what comes of statements "n1 SQL"; `begin` are tables that nodes have, "n1 t, n2 t"."""
    topology, tools = Topology(ROUTES), ToolTables()
    tables: dict[str, list[str]] = {"n1": [], "n2": []}
    for node, name in (pair.split() for pair in begin.split(",")):
        tables[node].append(name)
    made = "CREATE DATABASE a; CREATE DATABASE b;"
    catalogs = {
        node: parse_dump(made + "".join(f"CREATE TABLE a.{name} (id INT);" for name in names), "a")
        for node, names in tables.items()
    }
    following = Following(partial(_may_follow, topology))
    for (schema, name), shards in topology.physical_tables({n: c.tables for n, c in catalogs.items()}).items():
        members = {Shard(*s): catalogs[s[0]].tables[s[1:]].renamed(schema, name) for s in shards}
        following.begin((schema, name), ORIGIN, Start(members))
    for moment, text in enumerate(statements, 1):
        node, _, sql = text.partition(" ")
        key, before = OrderKey(moment, 0, 0, int(node[1])), catalogs[node]
        effect = apply_ddl(before, sql, "a", WRITTEN)
        catalogs[node] = effect.catalog
        parsed = ParsedDdl.of(sql, WRITTEN)
        step = tools.step(node, key, parsed, before, effect, "a", lambda name: True)
        tools.add(step.events)
        ddl = NodeDdl(node, key, parsed, before, effect, step, "a")
        following.take(key, list(shard_events(ddl, topology)))
    return following


def renamed(following: Following) -> list[str]:
    """Return where tables were renamed, and how."""
    return [f"{r.key.commit_tso} {rename_sql(r, WRITTEN)}".replace("`", "") for r in following.renamings]


@pytest.mark.parametrize(
    ("begin", "statements", "wanted"),
    [
        ("n1 t", ["n1 RENAME TABLE t TO u"], ["1 RENAME TABLE a.t TO a.u"]),
        ("n1 t", ["n1 rename /* me */ table t to b.t;"], ["1 rename /* me */ table a.t to b.t;"]),
        ("n1 t", ["n1 ALTER TABLE t RENAME AS u"], ["1 RENAME TABLE a.t TO a.u"]),
        ("n1 t,n1 u", ["n1 RENAME TABLE t TO x, u TO t, x TO u"], [
            "1 RENAME TABLE a.t TO a.x, a.u TO a.t, a.x TO a.u",
        ]),
        ("n1 t,n1 u", ["n1 RENAME TABLE u TO v, t TO u"], ["1 RENAME TABLE a.u TO a.v, a.t TO a.u"]),
        # By way of a database that the target need not have, or a name that is another table's there: another way.
        ("n1 t,n1 u", ["n1 RENAME TABLE t TO b.x, u TO t, b.x TO u"], [
            "1 RENAME TABLE a.t TO a._t_aside, a.u TO a.t, a._t_aside TO a.u",
        ]),
        ("n1 t,n1 u,n2 x", ["n1 RENAME TABLE t TO x, u TO t, x TO u"], [
            "1 RENAME TABLE a.t TO a._t_aside, a.u TO a.t, a._t_aside TO a.u",
        ]),
        ("n1 t,n2 t", ["n1 RENAME TABLE t TO u"], []),
        ("n1 t,n2 t", ["n1 RENAME TABLE t TO u", "n2 RENAME TABLE t TO u"], ["2 RENAME TABLE a.t TO a.u"]),
        ("n1 t,n2 t", ["n1 RENAME TABLE t TO u", "n1 RENAME TABLE u TO t", "n2 RENAME TABLE t TO u"], []),
        ("n1 t,n2 t", ["n1 RENAME TABLE t TO u", "n1 RENAME TABLE u TO v", "n2 RENAME TABLE t TO v"], [
            "3 RENAME TABLE a.t TO a.v",
        ]),
        ("n1 t,n1 u,n2 t,n2 u", [
            "n1 RENAME TABLE t TO x", "n1 RENAME TABLE u TO t", "n1 RENAME TABLE x TO u",
            "n2 RENAME TABLE t TO x", "n2 RENAME TABLE u TO t", "n2 RENAME TABLE x TO u",
        ], ["6 RENAME TABLE a.t TO a._t_aside, a.u TO a.t, a._t_aside TO a.u"]),
        ("n1 t,n2 t", ["n1 RENAME TABLE t TO u", "n2 DROP TABLE t"], ["2 RENAME TABLE a.t TO a.u"]),
        ("n1 orders_1,n2 orders_2", ["n1 RENAME TABLE orders_1 TO sold_1", "n2 RENAME TABLE orders_2 TO sold_2"], [
            "2 RENAME TABLE a.orders TO a.sold",
        ]),
        ("n1 orders_1,n1 orders_2", ["n1 RENAME TABLE orders_1 TO sold_1, orders_2 TO sold_2"], [
            "1 RENAME TABLE a.orders TO a.sold",
        ]),
        ("n1 t,n1 u", [
            "n1 CREATE /* gh-ost */ TABLE _t_gho LIKE t", "n1 RENAME TABLE t TO _t_del, _t_gho TO t, u TO v",
        ], ["2 RENAME TABLE a.u TO a.v"]),
        # Without a tool's sign a table is a table, whatever it is called.
        ("n1 t,n1 _t_gho,n1 u", ["n1 RENAME TABLE t TO _t_del, _t_gho TO t, u TO v"], [
            "1 RENAME TABLE a.t TO a._t_del, a._t_gho TO a.t, a.u TO a.v",
        ]),
        ("n1 t", ["n1 RENAME TABLE t TO _t_old"], ["1 RENAME TABLE a.t TO a._t_old"]),
        ("n1 _t_new", ["n1 RENAME TABLE _t_new TO t"], ["1 RENAME TABLE a._t_new TO a.t"]),
        ("n1 t,n2 t", [
            "n1 CREATE TABLE t_new LIKE t", "n2 CREATE TABLE t_new LIKE t", "n1 RENAME TABLE t TO t_old, t_new TO t",
            "n2 RENAME TABLE t TO t_old, t_new TO t",
        ], ["4 RENAME TABLE a.t TO a.t_old, a.t_new TO a.t"]),
    ],
)  # fmt: skip
def test_where_a_logical_table_is_renamed(begin: str, statements: list[str], wanted: list[str]) -> None:
    following = follow(begin, *statements)
    assert renamed(following) == wanted
    assert following.findings == []


@pytest.mark.parametrize(
    ("begin", "statements", "told"),
    [
        ("n1 orders_1,n2 orders_2", ["n1 RENAME TABLE orders_1 TO old"], ["orders_1"]),
        ("n1 orders_1,n1 t", ["n1 RENAME TABLE t TO orders_2"], ["t"]),
        ("n1 t,n2 u", ["n1 RENAME TABLE t TO u"], ["t"]),
        ("n1 orders_1,n2 orders_2,n1 t", ["n1 RENAME TABLE orders_1 TO x, t TO orders_1"], ["orders_1", "t"]),
        ("n1 t", ["n1 CREATE /* gh-ost */ TABLE _t_gho LIKE t", "n1 RENAME TABLE t TO kept, _t_gho TO t"], ["t"]),
        ("n1 t", ["n1 CREATE /* gh-ost */ TABLE _t_gho LIKE t", "n1 RENAME TABLE _t_gho TO u"], ["_t_gho"]),
    ],
)
def test_what_no_statement_says(begin: str, statements: list[str], told: list[str]) -> None:
    following = follow(begin, *statements)
    assert [finding.shard.table for finding in following.findings] == told
    assert renamed(following) == []


def test_a_table_under_a_name_that_others_still_give_up_begins_when_they_have() -> None:
    begun = follow("n1 t,n2 t", "n1 RENAME TABLE t TO t_1", "n1 CREATE TABLE t LIKE t_1")
    assert [(table.called, table.name) for table in begun.tables] == [(("a", "t"), ("a", "t")), (("a", "t"), None)]
    done = follow("n1 t,n2 t", "n1 RENAME TABLE t TO t_1", "n1 CREATE TABLE t LIKE t_1", "n2 RENAME TABLE t TO t_1")
    assert [table.name for table in done.tables] == [("a", "t_1"), ("a", "t")]
    new = done.tables[1]
    assert new.begins is not None and new.begins.key.commit_tso == 3
    assert [hop.key.commit_tso for hop in new.hops] == [2]


def test_a_long_name_is_put_aside_under_one_that_servers_take() -> None:
    long = "t" * 64
    (sql,) = renamed(follow(f"n1 {long},n1 u", f"n1 RENAME TABLE {long} TO b.x, u TO {long}, b.x TO u"))
    assert all(len(name.rpartition(".")[2]) <= 64 for name in sql.replace(",", "").split() if "." in name)
