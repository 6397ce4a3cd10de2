"""Transactions as a DataFrame, on a session that is the user's."""

import logging
import tempfile
from pathlib import Path
from typing import Any

import pytest

from binlog_merge import MergeConfig, errors, transactions
from binlog_merge.spark import tasks
from tests.effort import keeping
from tests.merge_e2e.cases import case_named, copy_case, oracle, whole
from tests.merge_e2e.local import merge
from tests.mysql_server import mysqlbinlog
from tests.pipeline.listed import transactions as listed

pytestmark = [pytest.mark.spark]


def config(name: str) -> MergeConfig:
    return MergeConfig.load(case_named(name) / "cluster.yaml")


def kept(spark: Any) -> int:
    """Return how many things Spark has kept at somebody's request."""
    return int(spark.sparkContext._jsc.getPersistentRDDs().size())


@pytest.mark.parametrize(
    ("name", "far"),
    keeping(
        ["three-nodes-online-ddl"],
        [("three-nodes-online-ddl", True), ("shards-optimistic", True), ("polardbx-rename", False)],
    ),
)
def test_the_partitions_follow_on_each_other(
    name: str, far: bool, spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Wherever the index is, and whatever has to be made again."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if far:
        monkeypatch.setattr(tasks, "NEAR_BLOCK", 0)
    before = kept(spark)
    frame = transactions(spark, config(name), end_of_input=True, partitions=3)
    good, _ = listed(case_named(name) / "cluster.yaml")
    found = [row.asDict(recursive=True) for row in frame.drop("committed").collect()]
    assert found == [{key: value for key, value in row.items() if key != "committed"} for row in good]
    assert list(tmp_path.iterdir()) == []
    assert (kept(spark) > before) == far
    frame.unpersist()
    assert kept(spark) == before
    assert [row.rank for row in frame.select("rank").collect()] == [row["rank"] for row in good]
    assert frame.merge_result.transactions == len(good) and frame.merge_result.files == ()
    assert spark.range(3).count() == 3


def test_what_sql_says_is_what_the_oracle_counts(spark: Any) -> None:
    case = case_named("three-nodes-online-ddl")
    expected = oracle(case).transactions
    transactions(spark, config(case.name), end_of_input=True).createOrReplaceTempView("transactions")
    told = spark.sql(
        "SELECT kind, count(*), sum(rows), min(order_key), max(gtid) FROM transactions GROUP BY kind ORDER BY kind"
    ).collect()
    rows = [(key, counts) for key, kind, counts in expected if kind == "rows"]
    assert [tuple(row)[:3] for row in told] == [
        ("ddl", 2, 0), ("rows", len(rows), sum(sum(counts.values()) for _, counts in rows))
    ]  # fmt: skip
    assert told[1][3] == rows[0][0]
    of_table = spark.sql("SELECT sum(rows) FROM transactions WHERE array_contains(tables, 'shop.orders')").first()[0]
    assert of_table == sum(counts.get("shop.orders", 0) for _, counts in rows)
    by_node = spark.sql(
        "SELECT b.node, sum(b.end - b.start) FROM transactions LATERAL VIEW explode(branches) AS b "
        "GROUP BY b.node ORDER BY b.node"
    ).collect()
    assert [row[0] for row in by_node] == ["dn-1", "dn-2", "dn-3"]
    assert sum(row[1] for row in by_node) == spark.sql("SELECT sum(bytes) FROM transactions").first()[0]
    assert spark.sql("SELECT max(size(array_distinct(branches.node))) FROM transactions").first()[0] == 3
    assert spark.sql("SELECT statement FROM transactions WHERE kind = 'ddl'").first()[0].startswith("ALTER TABLE")


@pytest.mark.mysql
def test_mysqlbinlog_sees_the_same_gtids(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "binlog.000001").write_bytes(whole(case_named("two-nodes") / "cluster.yaml")["binlog.000001"])
    said = mysqlbinlog([tmp_path / "binlog.000001"]).decode()
    gtids = [line.split("'")[1] for line in said.splitlines() if "GTID_NEXT= '" in line and "AUTOMATIC" not in line]
    frame = transactions(spark, config("two-nodes"), end_of_input=True, rows=False)
    assert [row.gtid for row in frame.collect()] == gtids and len(gtids) > 3


def test_rows_are_read_when_they_are_asked_for(spark: Any, tmp_path: Path) -> None:
    path = copy_case(case_named("two-nodes"), tmp_path)
    frame = transactions(spark, MergeConfig.load(path), end_of_input=True)
    index = transactions(spark, MergeConfig.load(path), end_of_input=True, rows=False)
    for file in path.parent.glob("nodes/*/*"):
        file.unlink()
    assert "rows" not in index.columns and index.count() == index.merge_result.transactions
    with pytest.raises(Exception, match=r"changed-file|missing-file|No such file|is gone"):
        frame.collect()


def test_what_is_wrong_with_the_files_is_said_before_a_job_runs(spark: Any, tmp_path: Path) -> None:
    path = copy_case(case_named("rotation"), tmp_path)
    next(path.parent.glob("nodes/*/*.000002")).unlink()
    before = spark.sparkContext.statusTracker().getJobIdsForGroup()
    with pytest.raises(errors.MissingFile) as caught:
        transactions(spark, MergeConfig.load(path))
    assert caught.value.exit_code == 13 and caught.value.result is None
    assert spark.sparkContext.statusTracker().getJobIdsForGroup() == before


def test_an_error_has_what_stands_before_it(spark: Any, tmp_path: Path) -> None:
    path = copy_case(case_named("two-nodes"), tmp_path / "case")
    file = next(path.parent.glob("nodes/*/*.000001"))
    data = bytearray(file.read_bytes())
    data[len(data) * 3 // 4] ^= 1
    file.write_bytes(data)
    with pytest.raises(errors.MergeError) as caught:
        transactions(spark, MergeConfig.load(path), end_of_input=True)
    with pytest.raises(type(caught.value)) as expected:
        merge(path, tmp_path / "out")
    assert str(caught.value) == str(expected.value)
    assert 0 < caught.value.result.count() == expected.value.result.transactions


def test_a_call_that_fails_leaves_nothing(spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = copy_case(
        case_named("two-nodes"),
        tmp_path / "case",
        lambda values: values.update({"commit-tso": {"carrier": "original-commit-timestamp"}}),
    )
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    monkeypatch.setattr(tasks, "NEAR_BLOCK", 0)
    before = kept(spark)
    with pytest.raises(errors.MissingCommitTso) as caught:
        transactions(spark, MergeConfig.load(path), end_of_input=True)
    assert caught.value.exit_code == 27 and caught.value.result is None
    assert kept(spark) == before and list((tmp_path / "scratch").iterdir()) == []


def test_rows_of_an_unknown_table_are_the_actions_error(spark: Any, tmp_path: Path) -> None:
    path = copy_case(case_named("two-nodes"), tmp_path, lambda values: values.pop("base"))
    frame = transactions(spark, MergeConfig.load(path), end_of_input=True)
    with pytest.raises(Exception, match=r"unknown-table-schema: [\s\S]*what to do:"):
        frame.collect()
    assert spark.range(3).count() == 3


def test_what_is_held_back_is_logged(spark: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "binlog_merge"):
        frame = transactions(spark, config("three-nodes-commit-order"), rows=False)
    result = frame.merge_result
    assert f"{result.held} branches are held back by node {result.held_back_by}" in caplog.text
    assert frame.count() == result.transactions
    assert result.watermark is not None and frame.where(f"order_key >= '{result.watermark}'").count() == 0


@pytest.mark.extended  # without Spark: pipeline/test_transactions
def test_nothing_to_list_is_no_rows(spark: Any) -> None:
    frame = transactions(spark, config("two-nodes"), start_tso=(1 << 63) - 1, end_of_input=True)
    assert frame.count() == 0
    assert frame.schema == transactions(spark, config("two-nodes"), end_of_input=True).schema


def test_spark_connect_is_refused() -> None:
    session = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(errors.ConfigError, match="Spark Connect"):
        transactions(session, config("two-nodes"))
