"""Routes: which physical tables make a logical one."""

import itertools

import pytest

from snapshot_store.errors import AmbiguousRoute
from snapshot_store.store.settings import topology_from_json, topology_to_json
from snapshot_store.topology import SYSTEM_SCHEMAS, Copy, Route, Topology

SHARDS = Route("shop_*", "orders_[0-9]*", "shop", "orders")


@pytest.mark.parametrize(
    ("schema", "table", "expected"),
    [
        ("shop_0", "orders_12", ("shop", "orders")),
        ("shop_0", "orders_x", ("shop_0", "orders_x")),
        ("Shop_0", "orders_1", ("Shop_0", "orders_1")),
        ("other", "orders_1", ("other", "orders_1")),
        ("mysql", "user", None),
        ("__cdc__", "x", None),
    ],
)
def test_routes_send_shards_to_their_logical_table(schema: str, table: str, expected: tuple[str, str] | None) -> None:
    topology = Topology((SHARDS,), SYSTEM_SCHEMAS | {"__cdc__*"})
    assert topology.logical_name("n1", schema, table) == expected


def test_a_schema_route_renames_the_schema_and_a_table_route_beats_it() -> None:
    topology = Topology((Route("shop_*", "", "shop"), Route("shop_*", "o*", "shop", "orders")))
    assert topology.logical_name("n", "shop_1", "users") == ("shop", "users")
    assert topology.logical_name("n", "shop_1", "o_1") == ("shop", "orders")


def test_a_table_route_may_keep_the_table_s_name() -> None:
    assert Topology((Route("s_?", "t*", "s"),)).logical_name("n", "s_1", "t9") == ("s", "t9")


def test_plain_names_beat_wildcards() -> None:
    topology = Topology((SHARDS, Route("shop_1", "orders_0", "shop", "orders_special")))
    assert topology.logical_name("n", "shop_1", "orders_0") == ("shop", "orders_special")


def test_routes_that_disagree_are_an_error_and_routes_that_agree_are_none() -> None:
    topology = Topology((SHARDS, Route("*", "orders_1", "x", "y")))
    with pytest.raises(AmbiguousRoute, match=r"shop_1\.orders_1 of node n matches 2 routes .* shop\.orders, x\.y"):
        topology.logical_name("n", "shop_1", "orders_1")
    twice = Topology((SHARDS, Route("shop_1", "orders_*", "shop", "orders")))
    assert twice.logical_name("n", "shop_1", "orders_1") == ("shop", "orders")


def test_a_route_may_be_for_one_node() -> None:
    topology = Topology((Route("s", "t", "s", "t_archive", node="old-*"),))
    assert topology.logical_name("old-1", "s", "t") == ("s", "t_archive")
    assert topology.logical_name("new-1", "s", "t") == ("s", "t")


def test_a_route_for_some_nodes_beats_one_for_all_and_one_node_beats_a_pattern() -> None:
    routes = (
        Route("s", "t", "s", "all"),
        Route("s", "t", "s", "new", node="new-*"),
        Route("s", "t", "s", "second", node="new-2"),
    )
    for order in itertools.permutations(routes):
        topology = Topology(order)
        found = [topology.logical_name(node, "s", "t") for node in ("old-1", "new-1", "new-2", "NEW-1")]
        assert found == [("s", "all"), ("s", "new"), ("s", "second"), ("s", "all")]
    with pytest.raises(AmbiguousRoute, match="limit it to some nodes"):
        Topology((*routes, Route("s", "t", "s", "x", node="*w-1"))).logical_name("new-1", "s", "t")
    # Names come first: a table route beats a schema route, and plain names beat wildcards, whatever the nodes.
    assert Topology((routes[0], Route("s", "", "x", node="old-1"))).logical_name("old-1", "s", "t") == ("s", "all")
    assert Topology((routes[0], Route("s", "*", "x", node="old-1"))).logical_name("old-1", "s", "t") == ("s", "all")


def test_transactions_are_left_out_by_a_table_that_they_change() -> None:
    topology = Topology(fold=True, ignored_transactions=frozenset({"_vt*.Copy_State", "m.t"}))
    assert topology.ignores_transaction([("app", "t"), ("_vt_2", "copy_state")])
    assert topology.ignores_transaction([("m", "t")])
    assert not topology.ignores_transaction([("app", "t"), ("m", "u"), ("_vt", "vreplication")])
    assert not Topology().ignores_transaction([("m", "t")])
    assert topology_from_json(topology_to_json(topology)) == topology


def test_a_copy_comes_out_of_one_node() -> None:
    copies = (Copy("App*", "c_?", "b", fold=True),)
    topology = Topology((Route("app_?", "", "app"),), copies=copies)
    assert [topology.logical_name(node, "app_1", "c_1") for node in "abc"] == [None, ("app", "c_1"), None]
    assert [topology.referenced_name(node, "app_1", "c_1") for node in "ab"] == [("app", "c_1")] * 2
    assert topology.logical_name("a", "app_1", "t") == topology.referenced_name("a", "app_1", "t") == ("app", "t")
    assert topology_from_json(topology_to_json(topology)) == topology
    with pytest.raises(AmbiguousRoute, match=r"app_1\.c_1 is a copy from a, b"):
        Topology(copies=(*copies, Copy("*", "*_1", "a"))).logical_name("a", "app_1", "c_1")


def test_the_schema_of_a_route_for_some_nodes() -> None:
    topology = Topology((Route("s", "", "s"), Route("s", "", "x", node="b")))
    assert [topology.logical_schema(node, "s") for node in "ab"] == ["s", "x"]


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("a*", "a", True),
        ("*", "", True),
        ("[a-c]x", "bx", True),
        ("[!a-c]x", "bx", False),
        ("[!a-c]x", "dx", True),
        ("[^a]", "^", True),
        ("[^a]", "b", False),
        ("[a&&b]", "&", True),
        ("a.b", "axb", False),
        ("a[", "a[", True),
        ("数*", "数据", True),
        ("[]x]", "]", True),
        ("a\nb*", "a\nb\nc", True),
    ],
)
def test_wildcards(pattern: str, name: str, found: bool) -> None:
    assert (Topology((Route(pattern, "", "hit"),)).logical_schema("n", name) == "hit") is found


def test_an_impossible_pattern_is_told() -> None:
    with pytest.raises(ValueError, match="is not a pattern"):
        Topology((Route("[z-a]", "", "x"),)).logical_name("n", "b", "t")


def test_schemas_follow_schema_routes_then_table_routes() -> None:
    topology = Topology((SHARDS, Route("mix", "a", "x", "a"), Route("mix", "b", "y", "b"), Route("s_*", "", "s")))
    assert topology.logical_schema("n", "shop_3") == "shop"
    assert topology.logical_schema("n", "s_1") == "s"
    assert topology.logical_schema("n", "plain") == "plain"
    assert topology.logical_schema("n", "sys") is None
    with pytest.raises(AmbiguousRoute, match="add one schema route"):
        topology.logical_schema("n", "mix")


def test_physical_tables_are_grouped_by_what_they_make() -> None:
    tables = {"n2": [("shop_1", "orders_1")], "n1": [("shop_0", "orders_0"), ("sys", "x"), ("shop_0", "users")]}
    assert Topology((SHARDS,)).physical_tables(tables) == {
        ("shop", "orders"): (("n1", "shop_0", "orders_0"), ("n2", "shop_1", "orders_1")),
        ("shop_0", "users"): (("n1", "shop_0", "users"),),
    }


def test_case_is_no_difference_where_it_is_folded() -> None:
    route = Route("Shop_*", "[O-Q]rders_?", "shop", "orders", fold=True)
    topology = Topology((route,), SYSTEM_SCHEMAS | {"Scratch*"}, fold=True)
    assert topology.logical_name("n", "SHOP_1", "ORDERS_x") == ("shop", "orders")
    assert topology.logical_name("n", "shop_1", "orders_Y") == ("shop", "orders")
    assert topology.logical_schema("n", "sHOP_1") == "shop"
    assert topology.logical_name("n", "SCRATCH1", "t") is None
    assert topology.logical_name("n", "App", "T") == ("App", "T")  # what no route takes keeps its name
    assert topology.logical_name("n", "SYS", "t") == ("SYS", "t")  # not the server's own, where case counts
    told = Topology((Route("Shop_*", "t", "shop", "t"),))
    assert told.logical_name("n", "shop_1", "t") == ("shop_1", "t")
    assert topology_from_json(topology_to_json(topology)) == topology


def test_routes_that_differ_in_case_alone_are_ambiguous_where_it_is_folded() -> None:
    routes = (Route("a", "t", "x", "t", fold=True), Route("A", "T", "y", "t", fold=True))
    with pytest.raises(AmbiguousRoute):
        Topology(routes, fold=True).logical_name("n", "a", "t")
