"""The shapes that a replay holds: right at every key, and no more of them than lie ahead in tables in use."""

from pathlib import Path

import pytest

from binlog_merge.replay.shapes import Shapes
from snapshot_store import parse_table
from snapshot_store.history import TableVersion
from snapshot_store.store import Store
from snapshot_store.tso import OrderKey

TABLES, DDL = 1000, 10_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storm: ten thousand DDL on a thousand tables, one after the other."""
    path = tmp_path_factory.mktemp("storm") / "schema.duckdb"
    shapes = [parse_table(f"CREATE TABLE t (id INT, c{i} INT)") for i in range(DDL // TABLES)]
    versions = []
    for i in range(DDL):
        table, name = shapes[i // TABLES], f"t{i % TABLES}"
        versions.append(TableVersion(key(i), 0, "s", name, table.renamed("s", name)))
    with Store.open(path) as opened:
        opened.append_versions(versions)
    return path


def key(i: int) -> OrderKey:
    return OrderKey(1000 + 10 * i, 1, 0, 0)


def test_what_is_held_is_what_lies_ahead(store: Path) -> None:
    shapes, tables = Shapes(store, most_tables=30), 25
    with Store.open(store, True) as opened:
        history = opened.history_of((None, "s", f"t{i}") for i in range(tables))
    held = []
    for i in range(0, DDL, 97):
        for table in range(tables):
            for asked in (key(i), OrderKey(key(i).commit_tso + 5, 1, 0, 0)):
                assert shapes.at("s", f"t{table}", asked) == history.at("s", f"t{table}", asked)
        held.append(len(shapes))
    # Of ten versions each, those behind the walk go.
    assert held[0] > 10 * tables and held[-1] == tables and held == sorted(held, reverse=True)


def test_tables_that_are_not_in_use_are_forgotten(store: Path) -> None:
    shapes = Shapes(store, most_tables=5)
    for i in range(40):
        assert shapes.at("s", f"t{i}", key(0)) is None
        assert len(shapes) <= 5 * 11
    assert shapes.at("s", "unheard", key(DDL)) is None


def test_it_may_go_back(store: Path) -> None:
    shapes = Shapes(store)
    for i in (DDL, 1500, 9000, 1, 0, DDL):
        with Store.open(store, True) as opened:
            expected = opened.lookup([("s", "t0", key(i), None)])[0]
        assert shapes.at("s", "t0", key(i)) == expected
