"""Topology from markers: what each record does to where physical tables belong, and from which key on."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_merge.polardbx.meta import (
    MetaError,
    TableMeta,
    TableType,
    parse_meta_info,
    parse_snapshot,
    parse_storage_list,
)
from binlog_merge.polardbx.table_mapping import Places, PlacesBuilder
from binlog_merge.polardbx.topology import ClusterState, PlacementError
from snapshot_store.topology import Route, Topology
from snapshot_store.tso import ORIGIN, OrderKey

NODES = {"dn-1": "a", "dn-2": "b", "dn-3": "c"}


def _key(tso: int) -> OrderKey:
    return OrderKey(tso, 1, 0, 0)


def _database(**groups: str) -> dict[str, Any]:
    """Return the record of database d: groups and the storage instances they lie on."""
    return {
        "logicDbMeta": {
            "schema": "D",
            "charset": "utf8mb4",
            "phySchemas": [{"storageInstId": s, "group": g.upper(), "schema": f"d_{g}"} for g, s in groups.items()],
        }
    }


def _table(name: str, kind: int = 1, collation: str | None = None, **groups: tuple[str, list[str]]) -> dict[str, Any]:
    """Return the record of a table: for each group its storage instance and physical tables."""
    return {
        "logicTableMeta": {
            "tableName": name,
            "tableType": kind,
            "tableCollation": collation,
            "phySchemas": [
                {"storageInstId": s, "group": g.upper(), "schema": f"d_{g}", "phyTables": tables}
                for g, (s, tables) in groups.items()
            ],
        }
    }


def _meta(values: dict[str, Any]) -> TableMeta:
    table = parse_meta_info(json.dumps(values)).table
    assert table is not None
    return table


def _builder(*records: dict[str, Any], routes: Topology | None = None) -> PlacesBuilder:
    """Return a builder that has taken database and table records at TSO 10, 20, 30 …"""
    builder = PlacesBuilder(NODES, routes or Topology())
    for number, values in enumerate(records, 1):
        info = parse_meta_info(json.dumps(values))
        if info.database is not None:
            builder.advance(_key(10 * number), builder.state.with_database(info.database))
        if info.table is not None:
            builder.advance(_key(10 * number), builder.state.with_table("d", info.table))
    return builder


def _named(places: Places, tso: int, *tables: str) -> list[str | None]:
    found = [places.logical_name(*table.split("."), _key(tso)) for table in tables]
    return [None if name is None else ".".join(name) for name in found]


def test_a_table_comes_out_behind_its_marker_and_under_its_logical_name() -> None:
    places = _builder(
        _database(g0="dn-1", g1="dn-2"),
        _table("Orders", g0=("dn-1", ["Orders_0", "orders_1"]), g1=("dn-2", ["orders_2"])),
    ).places()
    tables = ("a.d_g0.orders_0", "a.D_G0.ORDERS_1", "b.d_g1.orders_2", "b.d_g0.orders_0", "a.d_g0.other")
    assert _named(places, 20, *tables) == [None] * 5  # a row with the marker's own key: there is none
    assert _named(places, 21, *tables) == ["d.orders", "d.orders", "d.orders", None, None]
    assert places.boundaries() == (_key(20),)


def test_repartition_changes_names_and_counts() -> None:
    places = _builder(
        _database(g0="dn-1", g1="dn-2"),
        _table("t", g0=("dn-1", ["t_0"]), g1=("dn-2", ["t_1"])),
        _table("t", g0=("dn-1", ["t_x0", "t_x1"]), g1=("dn-2", ["t_1"])),
    ).places()
    old, new = ("a.d_g0.t_0", "b.d_g1.t_1"), ("a.d_g0.t_x0", "a.d_g0.t_x1", "b.d_g1.t_1")
    assert (_named(places, 30, *old), _named(places, 30, *new)) == (["d.t", "d.t"], [None, None, "d.t"])
    assert (_named(places, 31, *old), _named(places, 31, *new)) == ([None, "d.t"], ["d.t"] * 3)


def test_groups_that_move_take_their_tables_along() -> None:
    places = _builder(
        _database(g0="dn-1", g1="dn-1"),
        _table("t", g0=("dn-1", ["t_0"]), g1=("dn-1", ["t_1"])),
        _database(g1="dn-3"),
    ).places()
    assert _named(places, 30, "a.d_g0.t_0", "a.d_g1.t_1", "c.d_g1.t_1") == ["d.t", "d.t", None]
    assert _named(places, 31, "a.d_g0.t_0", "a.d_g1.t_1", "c.d_g1.t_1") == ["d.t", None, "d.t"]


def test_of_a_broadcast_table_one_copy_comes_out_and_of_an_index_table_none() -> None:
    places = _builder(
        _database(g0="dn-1", g1="dn-2"),
        _table("b", TableType.BROADCAST, g1=("dn-2", ["b"]), g0=("dn-1", ["b"])),
        _table("i", TableType.GSI, g0=("dn-1", ["i_0"])),
        _table("s", TableType.SINGLE, g1=("dn-2", ["s"])),
    ).places()
    assert _named(places, 99, "a.d_g0.b", "b.d_g1.b", "a.d_g0.i_0", "b.d_g1.s") == ["d.b", None, None, "d.s"]


def test_rename_and_drop() -> None:
    builder = _builder(_database(g0="dn-1"), _table("t", g0=("dn-1", ["t_0"])))
    builder.advance(_key(30), builder.state.with_table("d", _meta(_table("u", g0=("dn-1", ["t_0"]))), "t"))
    builder.advance(_key(40), builder.state.without_table("d", "u"))
    places = builder.places()
    assert [_named(places, tso, "a.d_g0.t_0")[0] for tso in (30, 31, 40, 41)] == ["d.t", "d.u", "d.u", None]
    builder.advance(_key(50), builder.state.without_database("d"))
    assert (builder.state.tables, builder.state.databases) == ({}, {})


def test_a_snapshot_is_everything_there_is() -> None:
    database = _database(g0="dn-1")["logicDbMeta"] | {
        "logicTableMetas": [_table("t", g0=("dn-1", ["t_0"]))["logicTableMeta"]]
    }
    own = {"schema": "__cdc__", "phySchemas": [{"storageInstId": "gms", "group": "x", "schema": "y"}]}
    builder = _builder(_database(g0="dn-1"), _table("old", g0=("dn-1", ["old_0"])))
    snapshot = parse_snapshot(json.dumps({"logicDbMetas": [database, own]}))
    builder.advance(_key(30), builder.state.with_snapshot(snapshot))
    assert _named(builder.places(), 31, "a.d_g0.t_0", "a.d_g0.old_0") == ["d.t", None]
    assert set(builder.state.databases) == {"d"}


def test_routes_speak_for_schemas_of_which_no_record_does() -> None:
    routes = Topology((Route("app_*", "*", "app", "t"),), frozenset({"mysql"}))
    places = _builder(_database(g0="dn-1"), _table("t", g0=("dn-1", ["t_0"])), routes=routes).places()
    assert _named(places, 99, "a.app_1.x", "a.d_g0.x", "a.mysql.x", "a.other.x") == ["app.t", None, None, None]


def test_what_places_tables_nowhere() -> None:
    database, builder = _database(g0="dn-1"), _builder(_database(g0="dn-1"))
    with pytest.raises(PlacementError, match=r"group g7, not one of d"):
        builder.state.with_table("d", _meta(_table("t", g7=("dn-1", ["t"]))))
    with pytest.raises(PlacementError, match=r"storage instance dn-9 \(group g0\)"):
        builder.advance(_key(9), builder.state.with_table("d", _meta(_table("t", g0=("dn-9", ["t"])))))
    builder.advance(_key(9), builder.state.with_table("d", _meta(_table("t", g0=("dn-1", ["t"])))))
    with pytest.raises(PlacementError, match=r"d_g0.t on a is said to belong to d.t and to d.u"):
        builder.advance(_key(10), builder.state.with_table("d", _meta(_table("u", g0=("dn-1", ["t"])))))
    assert _named(builder.places(), 99, "a.d_g0.t") == ["d.t"]  # nothing was taken
    assert database


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", '{"logicDbMeta": 1}', '{"logicDbMeta": {"schema": ""}}', '{"logicTableMeta": {"tableName": null}}',
        '{"logicTableMeta": {"tableName": "t", "tableType": 4}}',
        '{"logicTableMeta": {"tableName": "t", "phySchemas": 3}}',
        '{"logicTableMeta": {"tableName": "t", "phySchemas": [{"storageInstId": "x"}]}}',
    ],
)  # fmt: skip
def test_what_is_no_record(text: str) -> None:
    with pytest.raises(MetaError):
        parse_meta_info(text)


def test_records_that_say_nothing() -> None:
    assert [parse_meta_info(text).table for text in (None, "", " ", "null", "{}")] == [None] * 5


def test_lists_of_storage_instances() -> None:
    assert parse_storage_list('{"storageInstList": ["dn-2", "dn-1"]}') == ("dn-1", "dn-2")
    assert parse_storage_list('["dn-1"]') == ("dn-1",)
    for text in ("", "{}", "[]", '[""]', "3", '{"storageInstList": []}'):
        with pytest.raises(MetaError):
            parse_storage_list(text)


_records = st.lists(
    st.tuples(st.sampled_from("tuv"), st.sets(st.tuples(st.sampled_from(["g0", "g1"]), st.integers(0, 3)), min_size=1)),
    max_size=8,
)


@given(_records)
def test_at_every_key_places_are_those_of_the_state_then(records: list[tuple[str, set[tuple[str, int]]]]) -> None:
    builder = _builder(_database(g0="dn-1", g1="dn-2"))
    states: list[tuple[int, ClusterState]] = []
    for number, (name, parts) in enumerate(records):
        groups = {
            g: ({"g0": "dn-1", "g1": "dn-2"}[g], [f"{name}_{n}" for h, n in sorted(parts) if h == g])
            for g in sorted({g for g, _ in parts})
        }
        tso = 100 + 10 * number
        state = builder.state.with_table(
            "d", _meta(_table(name, g0=groups.get("g0", ("dn-1", [])), g1=groups.get("g1", ("dn-2", []))))
        )
        builder.advance(_key(tso), state)
        states.append((tso, state))
    places = builder.places()
    for tso, state in states:
        here = {
            ({"dn-1": "a", "dn-2": "b"}[p.storage], p.schema, t): ("d", name)
            for (_, name), table in state.tables.items()
            for p in table.placements
            for t in p.tables
        }
        for physical, _ in places.spans:
            assert places.logical_name(*physical, _key(tso + 1)) == here.get(physical)
    assert ClusterState.from_dict(json.loads(json.dumps(builder.state.to_dict()))) == builder.state
    assert all(after > ORIGIN for after in places.boundaries())
