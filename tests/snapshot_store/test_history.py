"""SchemaHistory: strict lookup, numbering that stays, conflicts that are told."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshot_store.errors import HistoryConflict
from snapshot_store.history import SchemaHistory, SchemaVersion, TableVersion, versions_of
from snapshot_store.model import Catalog, Column, Schema, Table
from snapshot_store.mysql.column_type import ColumnType
from snapshot_store.tso import ORIGIN, OrderKey
from tests.snapshot_store.strategies import KEYS, NODES, UNHURRIED, VERSIONS

OLD = Table("d", "t", (Column("a", ColumnType("int")),))
NEW = Table("d", "t", (Column("b", ColumnType("int")),))
K5, K6 = OrderKey(5, 1, 0, 0), OrderKey(6, 1, 0, 0)


def version(key: OrderKey, table: Table | None, node: str | None = None) -> TableVersion:
    return TableVersion(key, 0, "d", "t", table, node=node)


def test_a_row_with_the_key_of_a_change_sees_the_schema_before_it() -> None:
    history = SchemaHistory().with_versions([version(ORIGIN, OLD), version(K5, NEW)])
    assert history.at("d", "t", K5).table == OLD  # type: ignore[union-attr]
    assert history.at("d", "t", OrderKey(5, 1, 0, 1)).table == NEW  # type: ignore[union-attr]
    assert history.at("d", "t", ORIGIN) is None
    assert history.at("D", "t", K6) is None


def test_a_dropped_table_is_a_version_without_a_table() -> None:
    history = SchemaHistory().with_versions([version(ORIGIN, OLD), version(K5, None)])
    found = history.at("d", "t", K6)
    assert found is not None and found.table is None
    assert history.tables(K5) == [("d", "t")]
    assert history.tables(K6) == []
    assert history.catalog(K6).tables == {}


def test_nodes_and_the_logical_line_are_apart() -> None:
    history = SchemaHistory().with_versions([version(K5, OLD), version(ORIGIN, NEW, "n1"), version(K6, None, "n1")])
    assert history.at("d", "t", K5) is None
    assert history.at("d", "t", K5, "n1").table == NEW  # type: ignore[union-attr]
    assert history.nodes() == ("n1",)
    assert history.boundaries() == (K5, K6)
    assert history.boundaries(None) == (K5,)
    assert history.boundaries("n1") == (K6,)
    assert [v.version_id for v in history.versions] == [1, 1, 2]


def test_between_takes_the_lower_end_and_leaves_the_upper() -> None:
    history = SchemaHistory().with_versions([version(ORIGIN, OLD), version(K5, NEW), version(K6, None)])
    assert [v.key for v in history.between(K5, K6)] == [K5]
    assert [v.key for v in history.between(ORIGIN, OrderKey(9, 0, 0, 0))] == [ORIGIN, K5, K6]


def test_the_same_version_twice_is_one_and_another_content_is_a_conflict() -> None:
    history = SchemaHistory().with_versions([version(K5, OLD)])
    assert history.with_versions([version(K5, OLD)]) == history
    with pytest.raises(HistoryConflict, match=r"d\.t at order key 0+5"):
        history.with_versions([version(K5, NEW)])


def test_schemas_have_versions_too() -> None:
    schema = Schema("d", "gbk", "gbk_bin")
    made = Catalog({"d": schema}, {("d", "t"): OLD})
    tables, schemas = versions_of(made, [("d", "t"), ("d", "gone")], ["d", "e"], K5, ddl="x", origin="marker")
    history = SchemaHistory().with_versions(tables, [*schemas, SchemaVersion(ORIGIN, "e", Schema("e"))])
    assert history.schema_at("d", K5) is None
    assert history.catalog(K6) == made
    assert history.catalog(K5).schemas == {"e": Schema("e")}
    assert {v.origin for v in history.versions} == {"marker"}


@UNHURRIED
@given(VERSIONS, KEYS, NODES, st.sampled_from(["d", "D"]), st.sampled_from(["t", "u", "表"]))
def test_lookup_is_the_greatest_key_strictly_below(
    versions: list[TableVersion], key: OrderKey, node: str | None, schema: str, name: str
) -> None:
    history = SchemaHistory().with_versions(versions)
    below = [v for v in versions if (v.node, v.schema, v.name) == (node, schema, name) and v.key < key]
    found = history.at(schema, name, key, node)
    if not below:
        assert found is None
    else:
        last = max(below, key=lambda v: v.key)
        assert found is not None and (found.key, found.table) == (last.key, last.table)


@UNHURRIED
@given(VERSIONS, st.randoms(use_true_random=False))
def test_the_history_does_not_depend_on_the_order_of_appends(versions: list[TableVersion], random: object) -> None:
    at_once = SchemaHistory().with_versions(versions)
    shuffled = list(versions)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one_by_one = SchemaHistory()
    for one in shuffled:
        one_by_one = one_by_one.with_versions([one])
    assert one_by_one == at_once
    assert pickle.loads(pickle.dumps(at_once)) == at_once


@UNHURRIED
@given(VERSIONS)
def test_numbers_stay_when_later_versions_are_added(versions: list[TableVersion]) -> None:
    history = SchemaHistory().with_versions(versions)
    later = [version(OrderKey(9, 0, 0, 0), OLD, node) for node in (None, "n1")]
    longer = history.with_versions(later)
    numbers = {(v.node, v.key, v.schema, v.name): v.version_id for v in longer.versions}
    assert all(numbers[v.node, v.key, v.schema, v.name] == v.version_id for v in history.versions)
    logical = [v.version_id for v in longer.versions if v.node is None]
    assert logical == list(range(1, len(logical) + 1))
