"""Every case, against the oracle's bytes: however many partitions, in whatever order the nodes are listed."""

from pathlib import Path
from typing import Any

import pytest

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.spark.job import merge as merge_on_spark
from tests.effort import effort, keeping
from tests.merge_e2e.cases import (
    CASES,
    case_named,
    copy_case,
    every_case,
    max_size,
    oracle,
    other_cases,
    some_cases,
)
from tests.merge_e2e.editing import assert_prefix, transactions
from tests.merge_e2e.local import HeldRunner, LocalRunner, merge, with_nodes_reversed, written
from tests.oracle import merge_case


@every_case
def test_files_are_the_oracles(case: Path, tmp_path: Path) -> None:
    result = merge(case / "cluster.yaml", tmp_path)
    assert transactions(written(tmp_path))  # also where the oracle does not judge
    assert written(tmp_path) == oracle(case).files
    assert (tmp_path / "binlog.index").read_bytes() == oracle(case).index
    assert result.transactions == len(oracle(case).transactions)


# Each way once, and those of which parts depend on each other: several nodes, branches in doubt, values that change.
KEPT = [
    (case_named(name), *way)
    for name, way in (
        ("administration", (1, False)),
        ("carrier-original-commit-timestamp", (2, True)),
        ("create-table-select", (7, False)),
        ("idle-node", (2, True)),
        ("three-nodes-online-ddl", (1, False)),
    )
]


@pytest.mark.parametrize(
    ("case", "partitions", "as_listed"),
    keeping(
        KEPT,
        [(case, *((1, False), (2, True), (7, False))[i % 3]) for i, case in enumerate(CASES[:: effort(3, 1)])],
    ),
    ids=lambda value: str(getattr(value, "name", value)),
)
def test_partitions_and_order_of_nodes_do_not_show(
    case: Path, partitions: int, as_listed: bool, tmp_path: Path
) -> None:
    config = MergeConfig.load(case / "cluster.yaml")
    runner = HeldRunner() if partitions == 7 else LocalRunner()
    merge(config if as_listed else with_nodes_reversed(config), tmp_path, partitions=partitions, runner=runner)
    assert written(tmp_path) == oracle(case).files


@some_cases
def test_small_files_are_cut_as_the_oracle_cuts_them(case: Path, tmp_path: Path) -> None:
    total = sum(map(len, oracle(case).files.values()))
    path = copy_case(case, tmp_path / "case", max_size(max(500, total // 7)))
    expected = merge_case(path)
    for partitions in (1, 5):
        merge(path, tmp_path / f"out-{partitions}", partitions=partitions)
        assert written(tmp_path / f"out-{partitions}") == expected.files


@other_cases
def test_what_is_not_final_is_held(case: Path, tmp_path: Path) -> None:
    expected = oracle(case, False)
    result = merge(case / "cluster.yaml", tmp_path, end_of_input=False)
    assert {source: node.watermark for source, node in result.nodes.items()} == expected.nodes
    assert written(tmp_path) == expected.files
    assert result.held_back_by == expected.held_by or not expected.held
    assert_prefix(written(tmp_path), oracle(case).files)


@some_cases
def test_ranges_of_tso(case: Path, tmp_path: Path) -> None:
    tsos = sorted({int(key[:19]) for key, _, _ in oracle(case).transactions})
    start, stop = tsos[len(tsos) // 3], tsos[2 * len(tsos) // 3]
    merge(case / "cluster.yaml", tmp_path / "to", stop_tso=stop)
    assert written(tmp_path / "to") == merge_case(case / "cluster.yaml", stop_tso=stop).files
    merge(case / "cluster.yaml", tmp_path / "from", start_tso=start)
    assert written(tmp_path / "from") == merge_case(case / "cluster.yaml", start_tso=start).files
    merge(case / "cluster.yaml", tmp_path / "between", start_tso=start, stop_tso=stop, partitions=3)
    assert written(tmp_path / "between") == merge_case(case / "cluster.yaml", True, start, stop).files


@other_cases
def test_stopping_at_a_tso_and_going_on_is_one_run(case: Path, tmp_path: Path) -> None:
    tsos = sorted({int(key[:19]) for key, _, _ in oracle(case).transactions})
    for stop in (tsos[len(tsos) // 4], tsos[len(tsos) // 2], tsos[len(tsos) // 2] + 1):
        merge(case / "cluster.yaml", tmp_path, stop_tso=stop)
        assert_prefix(written(tmp_path), oracle(case).files)
    merge(case / "cluster.yaml", tmp_path)
    assert written(tmp_path) == oracle(case).files


@pytest.mark.spark
@pytest.mark.parametrize(
    "name",
    keeping(
        ["ddl-by-markers"],
        ["three-nodes-online-ddl", "compressed", "ddl-by-markers", "half-committed"],
    ),
)
def test_on_spark(name: str, spark: Any, tmp_path: Path) -> None:
    case = case_named(name)
    config = MergeConfig.load(case / "cluster.yaml")
    merge_on_spark(spark, config, tmp_path / "out", end_of_input=True)
    assert written(tmp_path / "out") == oracle(case).files
    merge_on_spark(spark, with_nodes_reversed(config), tmp_path / "cut", partitions=3)
    assert written(tmp_path / "cut") == oracle(case, False).files
    merge_on_spark(spark, config, tmp_path / "cut", end_of_input=True, partitions=2)
    assert written(tmp_path / "cut") == oracle(case).files
