"""Rows that wait for a DDL, and rows of other tables that refer to them: the target takes them in their order."""

from pathlib import Path

import pytest

from tests.effort import keeping
from tests.merge_e2e.local import merge
from tests.merge_e2e.shards.stage import Stage

pytestmark = [pytest.mark.mysql]

TABLES = """
CREATE DATABASE f;
CREATE TABLE f.parent (id INT PRIMARY KEY, v INT);
CREATE TABLE f.child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES f.parent (id));
CREATE TABLE f.grandchild (id INT PRIMARY KEY, c INT, FOREIGN KEY (c) REFERENCES f.child (id));
INSERT INTO f.parent VALUES (1{n}, 1), (2{n}, 1);
INSERT INTO f.child VALUES (1{n}, 1{n})
"""
ROWS = """
INSERT INTO f.parent (id, v) VALUES (3{n}, 3);
INSERT INTO f.child (id, p) VALUES (3{n}, 3{n});
INSERT INTO f.grandchild (id, c) VALUES (3{n}, 3{n});
DELETE FROM f.child WHERE id = 1{n};
DELETE FROM f.parent WHERE id = 1{n}
"""


@pytest.mark.parametrize(
    ("table", "mode"),
    keeping(
        [("parent", "optimistic")],
        [(table, mode) for table in ("parent", "child", "grandchild") for mode in ("pessimistic", "optimistic")],
    ),
)
def test_a_row_never_comes_out_before_the_one_that_it_refers_to(table: str, mode: str, stage: Stage) -> None:
    """Whichever of the tables waits; the last shard changes it when the others have gone on."""
    change = "ADD COLUMN w INT NOT NULL DEFAULT 7"
    if mode == "optimistic" and table == "parent":
        change = "RENAME COLUMN v TO u"  # for which the others are awaited
    stage.clear()
    with stage.scene(f"foreign keys {table}", ()) as (nodes, played):
        for number, node in enumerate(nodes):
            for sql in TABLES.format(n=number).split(";"):
                nodes[node].run(sql)
        for number, node in enumerate(nodes):
            nodes[node].run(f"ALTER TABLE f.{table} {change}")
            for sql in ROWS.format(n=number).split(";"):
                nodes[node].run(sql.replace("v)", "u)") if "RENAME" in change else sql)
    path = stage.configuration(f"foreign-keys-{table}-{mode}", played, mode, sections={"shard-doubts": "error"})
    result = merge(path, Path(path.parent / "out"))
    assert not result.waiting_shards
    stage.target.drop_databases()
    stage.carry_out(path.parent / "out")
    for name in ("parent", "child", "grandchild"):
        held = sorted(row for node in stage.nodes.values() for row in node.query(f"SELECT * FROM f.{name}"))
        assert sorted(stage.target.query(f"SELECT * FROM f.{name}")) == held
