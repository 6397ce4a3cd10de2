"""Rows of one shard of several that go without a row event: the target keeps them, and it is told, shard by shard."""

import pytest

from binlog_merge.pipeline.coordinate.shards.values import Doubt, Outcome
from tests.pipeline.coordinate.shards.scenario import ran, written

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, a INT)"
PARTITIONED = (
    f"{TABLE} PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (9), PARTITION q VALUES LESS THAN MAXVALUE)"
)
WAYS = ("pessimistic", "optimistic")


def told(outcome: Outcome) -> list[str]:
    """Return the shards whose rows stay; all that is told is about rows."""
    assert {finding.doubt for finding in outcome.findings} <= {Doubt.ROWS}
    assert all("shop.t keeps the rows" in f.detail and str(f.shard) in f.detail for f in outcome.findings)
    assert all("delete the rows of" in f.remedy for f in outcome.findings)
    return [finding.shard.table for finding in outcome.findings]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("statements", "shards"),
    [
        (["t1 TRUNCATE TABLE t1"], ["t1"]),
        (["t1 TRUNCATE TABLE t1", "t2 TRUNCATE TABLE t2"], ["t1", "t2"]),
        (["t2 DROP TABLE t2"], ["t2"]),
        (["t2 DROP TABLE t2", "t2 CREATE TABLE t2 (id INT PRIMARY KEY, a INT)"], ["t2"]),
        (["t2 DROP TABLE t2", "t1 TRUNCATE TABLE t1"], ["t2", "t1"]),
        (["t1 ADD COLUMN c INT", "t1 TRUNCATE TABLE t1", "t2 ADD COLUMN c INT"], ["t1"]),
    ],
)
def test_shards_of_several(way: str, statements: list[str], shards: list[str]) -> None:
    outcome = ran(TABLE, "t1 t2", *statements).outcome(way)
    assert told(outcome) == shards
    assert not [sql for sql in written(outcome) if "TRUNCATE" in sql or "DROP TABLE" in sql]


@pytest.mark.parametrize("way", WAYS)
def test_the_last_shard_takes_the_logical_table_along(way: str) -> None:
    outcome = ran(TABLE, "t1 t2", "t1 DROP TABLE t1", "t2 DROP TABLE t2").outcome(way)
    assert told(outcome) == ["t1"] and written(outcome) == ["DROP TABLE `shop`.`t`"]
    outcome = ran(TABLE, "t1", "t1 TRUNCATE TABLE t1", "t1 DROP TABLE t1").outcome(way)
    assert told(outcome) == [] and written(outcome) == ["TRUNCATE TABLE `shop`.`t`", "DROP TABLE `shop`.`t`"]


@pytest.mark.parametrize("way", WAYS)
def test_one_statement_that_drops_all_shards_is_no_doubt(way: str) -> None:
    made = ran(TABLE, "t1")
    made.run("n1", "CREATE TABLE t2 (id INT PRIMARY KEY, a INT)")
    made.run("n1", "DROP TABLE t1, t2")
    outcome = made.outcome(way)
    assert told(outcome) == [] and written(outcome) == ["DROP TABLE `shop`.`t`"]


@pytest.mark.parametrize("what", ["TRUNCATE PARTITION p", "DROP PARTITION p"])
def test_partitions(what: str) -> None:
    alone = ran(PARTITIONED, "t1", f"t1 {what}")
    both = ran(PARTITIONED, "t1 t2", f"t1 {what}", "t1 row", f"t2 {what}")
    for way in WAYS:
        assert told(alone.outcome(way)) == [] and len(written(alone.outcome(way))) == 1
    # Rows of the first wait for the second, and it is emptied once.
    assert told(both.outcome("pessimistic")) == [] and len(written(both.outcome("pessimistic"))) == 1
    assert told(both.outcome("optimistic")) == ["t1", "t2"] and written(both.outcome("optimistic")) == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "statements",
    [
        ["t1 TRUNCATE PARTITION p", "t1 TRUNCATE PARTITION p"],
        ["t1 TRUNCATE PARTITION p", "t1 RENAME TABLE t1 TO t3", "t3 TRUNCATE PARTITION p"],
        [
            "t1 TRUNCATE PARTITION p",
            "t1 DROP TABLE t1",
            f"t2 {PARTITIONED.replace(' t ', ' t2 ')}",
            "t2 TRUNCATE PARTITION p",
        ],
    ],
)
def test_a_shard_alone_empties_as_often_as_it_says(way: str, statements: list[str]) -> None:
    made = ran(PARTITIONED, "t1")
    for text in statements:
        table, _, what = text.partition(" ")
        made.run("n1", what if " TABLE " in what else f"ALTER TABLE {table} {what}")
    outcome = made.outcome(way)
    assert told(outcome) == []
    assert len([sql for sql in written(outcome) if "TRUNCATE PARTITION" in sql]) == 2


@pytest.mark.parametrize("way", WAYS)
def test_what_changes_no_shape_is_written_once_for_all_shards_also_under_their_new_names(way: str) -> None:
    made = ran(TABLE, "t1")
    made.run("n1", "CREATE TABLE t2 (id INT PRIMARY KEY, a INT)")
    for comment, tables in (("x", ("t1", "t2")), ("y", ("t1", "t2"))):
        for table in tables:
            made.run("n1", f"ALTER TABLE {table} COMMENT '{comment}'")
    made.run("n1", "RENAME TABLE t1 TO t3, t2 TO t4")
    for table in ("t3", "t4"):
        made.run("n1", f"ALTER TABLE {table} COMMENT 'x'")
    assert [sql.split()[-1] for sql in written(made.outcome(way)) if "COMMENT" in sql] == ["'x'", "'y'", "'x'"]
