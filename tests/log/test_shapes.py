"""The shapes that a replay holds: right at every key, and no more of them than there are tables, and a few ahead."""

import random
from pathlib import Path

import pytest

from binlog_merge.errors import BeforeBase
from binlog_merge.log.shapes import Shapes
from snapshot_store import parse_table
from snapshot_store.history import TableVersion
from snapshot_store.store.db import Store
from snapshot_store.tso import OrderKey

TABLES, DDL, AHEAD = 1000, 10_000, 100
GONE = [f"gone{i}" for i in range(500)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storm: ten thousand DDL on a thousand tables in random order, and many more tables that come and go."""
    path = tmp_path_factory.mktemp("storm") / "schema.duckdb"
    shapes = [parse_table(f"CREATE TABLE t (id INT, c{i} INT)") for i in range(10)]
    r = random.Random(7)
    names = [f"t{i}" for i in range(TABLES)] + r.choices([f"t{i}" for i in range(TABLES)], k=DDL - TABLES)
    versions = [TableVersion(key(i), 0, "s", name, r.choice(shapes).renamed("s", name)) for i, name in enumerate(names)]
    for i, name in enumerate(GONE):
        made = key(10 * i + 5)
        versions += [
            TableVersion(made, 0, "s", name, shapes[0].renamed("s", name)),
            TableVersion(OrderKey(made.commit_tso + 1, 1, 0, 0), 0, "s", name, None),
        ]
    with Store.open(path) as opened:
        opened.append_versions(versions)
        opened.append_versions([TableVersion(key(3), 0, "p", f"t{i}", shapes[0], node="dn-1") for i in range(500)])
    return path


def key(i: int) -> OrderKey:
    return OrderKey(1000 + 10 * i, 1, 0, 0)


@pytest.mark.heavy
def test_what_is_held_is_the_tables_and_what_comes_next(store: Path) -> None:
    shapes = Shapes(store, AHEAD)
    with Store.open(store, True) as opened:
        history = opened.load_history()
    r, held = random.Random(3), []
    for i in range(0, DDL + 200, 97):
        for asked in (key(i), OrderKey(key(i).commit_tso + 6, 1, 0, 0)):
            for name in (*(f"t{r.randrange(TABLES)}" for _ in range(20)), r.choice(GONE), "unheard"):
                expected = history.at("s", name, asked)
                found = shapes.at("s", name, asked)
                assert found == (expected if expected is None or expected.table is not None else None)
        held.append(len(shapes))
    # What the walk has left behind goes, and so do tables that were dropped.
    assert max(held) <= TABLES + AHEAD + 3 and held[-1] == TABLES


@pytest.mark.heavy
def test_it_may_go_back(store: Path) -> None:
    shapes = Shapes(store, AHEAD)
    for i in (DDL, 1500, 9000, 1, 0, DDL, 40, 41, 40, 42):
        with Store.open(store, True) as opened:
            expected = opened.lookup([("s", "t40", key(i), None)])[0]
        assert shapes.at("s", "t40", key(i)) == expected


def test_what_was_folded_away_is_not_guessed(tmp_path: Path) -> None:
    store = tmp_path / "schema.duckdb"
    table = parse_table("CREATE TABLE s.t (id INT)")
    with Store.open(store) as opened:
        opened.append_versions(
            [
                *(TableVersion(key(i), 0, "s", "changed", table.renamed("s", "changed")) for i in range(5)),
                TableVersion(key(0), 0, "s", "t", table),
                TableVersion(key(3), 0, "s", "strange", None, origin="opaque"),
            ]
        )
        opened.fold(key(4))
    shapes = Shapes(store)
    assert shapes.at("s", "t", key(2)) is not None
    with pytest.raises(BeforeBase, match="folded"):
        shapes.at("s", "changed", key(2))
    with pytest.raises(BeforeBase, match="folded"):
        shapes.catalog(key(1))
    found = shapes.at("s", "strange", key(7))
    assert found is not None and found.opaque
    assert sorted(name for _, name in shapes.catalog(key(7)).tables) == ["changed", "t"]
