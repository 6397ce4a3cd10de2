"""The rows of a cluster that is not merged are those of its merged log: values, types, order, GTIDs and positions."""

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import binlog_merge
from binlog_merge.ask.unmerged import Unmerged, files_of, plan, select_unmerged, unmerged_batches
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import ConfigError, MergeError, OutsideLog, UnknownTable
from binlog_merge.log.question import Question
from tests.effort import keeping
from tests.merge_e2e.cases import case_named, copy_case, max_size
from tests.merge_e2e.local import merge, written


def planned(path: Path, end_of_input: bool = True) -> Unmerged:
    """Return what is found, as another process gets it."""
    found: Unmerged = pickle.loads(pickle.dumps(plan(MergeConfig.load(path), end_of_input)))
    return found


def rows(unmerged: Unmerged, table: str | None, **options: Any) -> Any:
    selection = select_unmerged(unmerged, asked(table, **options))
    return pa.Table.from_batches(unmerged_batches(unmerged, selection), selection.schema)


def asked(table: str | None, op: Any = None, **options: Any) -> Question:
    """Return the question that `changes` asks with these arguments."""
    return Question(table, operations=op, **options)


@pytest.mark.parametrize(
    "name",
    keeping(
        ["reshape-others", "shards-optimistic", "compressed"],
        [
            *("three-nodes-online-ddl", "reshape-others", "shards-optimistic"),
            *("polardbx-repartition", "compressed", "gtid-off"),
        ],
    ),
)  # fmt: skip
def test_rows_are_those_of_the_merged_log(name: str, tmp_path: Path) -> None:
    path = copy_case(case_named(name), tmp_path / "case", max_size(40_000))
    try:
        merge(path, tmp_path / "merged")
    except MergeError as error:
        with pytest.raises(type(error)) as caught:
            planned(path)
        assert str(caught.value) == str(error)
        return
    unmerged = planned(path)
    assert len(unmerged.files) == len(written(tmp_path / "merged"))
    every = binlog_merge.changes(tmp_path / "merged").read_all()
    assert rows(unmerged, None).equals(every)
    for table in sorted(
        {f"`{row['schema']}`.`{row['table']}`" for row in every.select(["schema", "table"]).to_pylist()}
    ):
        expected = binlog_merge.changes(tmp_path / "merged", table).read_all()
        assert rows(unmerged, table).equals(expected) and len(expected), table


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Unmerged]:
    folder = tmp_path_factory.mktemp("unmerged")
    path = copy_case(case_named("three-nodes-online-ddl"), folder / "case", max_size(60_000))
    merge(path, folder / "merged")
    return path, folder / "merged", planned(path)


def test_a_part_of_what_is_asked_is_that_part(both: tuple[Path, Path, Unmerged]) -> None:
    _, merged, unmerged = both
    every = binlog_merge.changes(merged, "shop.orders").read_all().to_pylist()
    early, late = every[200], every[600]
    gtids = early["gtid"], late["gtid"]
    for start, stop in (
        gtids, (early["order_key"], late["order_key"]), (early["commit_tso"], late["commit_tso"]), (gtids[1], None),
        (early["commit_time"], late["commit_time"]), (None, "2000-01-01"), ("2099-01-01", None),
        (f"{unmerged.header.cluster_uuid}:91", f"{unmerged.header.cluster_uuid}:91"),
    ):  # fmt: skip
        expected = binlog_merge.changes(merged, "shop.orders", start=start, stop=stop, op=["update", "delete"])
        found = rows(unmerged, "shop.orders", start=start, stop=stop, op=["update", "delete"])
        assert found.equals(expected.read_all()), (start, stop)
    narrow = {"where": "price > 50000", "columns": ["price", "id"], "fields": ["after", "gtid"]}
    assert rows(unmerged, "shop.orders", **narrow).equals(
        binlog_merge.changes(merged, "shop.orders", **narrow).read_all()
    )
    selection = select_unmerged(unmerged, Question("shop.orders", gtids[0], gtids[0]))
    assert [file.name for file in files_of(unmerged, selection)] == [early["file"]]


def test_what_is_wrong_is_said(both: tuple[Path, Path, Unmerged], tmp_path: Path) -> None:
    unmerged = both[2]
    for table, options, kind, reason in (
        ("shop.nope", {}, UnknownTable, "the cluster has no table shop.nope; it has shop.orders"),
        ("nope.*", {}, UnknownTable, "no table nope"),
        ("shop.orders", {"start": "binlog.000001:4"}, ConfigError, "are of a merged log"),
        ("shop.orders", {"start": "2026-12-01", "stop": "2000-01-01"}, ConfigError, "is before"),
        ("shop.orders", {"start": f"{'1' * 8}-1111-1111-1111-{'1' * 12}:1"}, ConfigError, "is another cluster"),
        ("shop.orders", {"start": f"{unmerged.header.cluster_uuid}:9999"}, OutsideLog, "is after the end of the log"),
    ):
        with pytest.raises(kind, match=reason):
            select_unmerged(unmerged, asked(table, **options))
    other = copy_case(case_named("three-nodes-online-ddl"), tmp_path / "case")
    found = planned(other)
    selection = select_unmerged(found, Question("shop.orders"))
    file = next(other.parent.glob("nodes/dn-2/binlog.*"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(MergeError, match=r"checksum|changed"):
        list(unmerged_batches(found, selection))
    with pytest.raises(MergeError, match="checksum"):
        planned(other)


def test_what_is_held_back_is_no_row(tmp_path: Path) -> None:
    path = case_named("three-nodes-commit-order") / "cluster.yaml"
    whole, held = planned(path), planned(path, end_of_input=False)
    assert 0 < held.last_rank < whole.last_rank and held.result.held > 0 and held.result.held_back_by
    found = rows(held, None)
    assert found.equals(rows(whole, None).slice(0, len(found))) and len(found)
