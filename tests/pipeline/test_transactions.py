"""Listed transactions are those of the merged log, one by one."""

from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import ChecksumMismatch, MissingFile, UnknownTableSchema
from binlog_merge.log.log import Log
from tests.effort import keeping
from tests.merge_e2e.cases import INPUTS, case_named, copy_case, oracle, other_cases, some_inputs, whole
from tests.merge_e2e.editing import GTIDS
from tests.merge_e2e.editing import Log as Edited
from tests.merge_e2e.local import merge
from tests.merge_e2e.test_filtered import filtered, told
from tests.merge_e2e.test_rows_checked import edited
from tests.pipeline.gather.test_giant import SIZES, shrink
from tests.pipeline.listed import Listed, in_log, transactions

ORIGIN = datetime(1970, 1, 1, tzinfo=UTC)


@some_inputs
def test_they_are_those_of_the_merged_log(case: Path) -> None:
    path = case / "cluster.yaml"
    found, _ = transactions(path, partitions=INPUTS.index(case) % 3 + 1)
    good = list(in_log(whole(path)))
    anonymous = MergeConfig.load(path).output.gtid == "anonymous"
    assert len(found) == len(good)
    for rank, (row, written) in enumerate(zip(found, good, strict=True), 1):
        assert row["rank"] == rank and written.key in ("", row["order_key"])  # a DDL has none there
        assert row["commit_tso"] == int(row["order_key"][:19])
        assert row["gtid"] == (None if anonymous else f"{MergeConfig.load(path).cluster_uuid()}:{written.number}")
        assert row["committed"] == ORIGIN + timedelta(microseconds=written.committed_us)
        assert row["statement"] == (None if row["kind"] == "heartbeat" else written.statement)
        assert row["tables"] == sorted(written.tables) and (row["rows"] > 0) == bool(written.tables)
        assert (row["kind"] == "rows") == (written.statement is None)
        assert row["bytes"] == sum(branch["end"] - branch["start"] for branch in row["branches"])


@other_cases
def test_they_have_the_rows_that_the_oracle_counts(case: Path) -> None:
    expected = oracle(case).transactions
    found, _ = transactions(case / "cluster.yaml")
    assert [(row["order_key"], row["kind"], row["rows"]) for row in found] == [
        (key, kind, sum(counts.values())) for key, kind, counts in expected
    ]
    assert [row["tables"] for row in found] == [sorted(name for name, n in c.items() if n) for _, _, c in expected]


@pytest.mark.parametrize("name", ["three-nodes-commit-order", "compressed", "shards-optimistic", "polardbx-rename"])
def test_branches_are_whole_groups_of_the_nodes_logs(name: str) -> None:
    path = case_named(name) / "cluster.yaml"
    found, _ = transactions(path, partitions=3)
    branches = [tuple(branch.values()) for row in found for branch in row["branches"]]
    assert len(set(branches)) == len(branches) > 0
    assert max(len({branch["node"] for branch in row["branches"]}) for row in found) > 1 or "shards" in name
    for node in MergeConfig.load(path).nodes:
        for file in sorted(Path(path.parent).glob(f"nodes/{node.source_id}/*.0*")):
            events = Edited.load(file).events
            begins = {event.at for event in events}
            of_gtids = {event.at for event in events if event.type in GTIDS}
            for source, log, start, end in branches:
                if (source, log) == (node.source_id, file.name):
                    assert any(start <= at < end for at in of_gtids) and start in begins
                    assert end in begins or end == file.stat().st_size


def without_counts(rows: Listed) -> Listed:
    return [{name: value for name, value in row.items() if name not in ("tables", "rows")} for row in rows]


@pytest.mark.parametrize("name", ["three-nodes-online-ddl", "shards-pessimistic"])
def test_without_rows_the_rest_is_the_same(name: str) -> None:
    path = case_named(name) / "cluster.yaml"
    assert transactions(path, counts=False)[0] == without_counts(transactions(path)[0])


@pytest.mark.heavy
@pytest.mark.parametrize("name", keeping(["three-nodes-online-ddl"], ["three-nodes-online-ddl", "statements"]))
def test_a_filter_leaves_the_rows_that_it_leaves_of_the_log(name: str, tmp_path: Path) -> None:
    config = filtered(name, tmp_path)
    merge(config, tmp_path / "out")
    said: list[Any] = []
    for item in told(Log(tmp_path / "out")):
        if item[0] == "begin":
            said.append((item[2], 0, set[str](), None))
        elif item[0] == "statement":
            said[-1] = (*said[-1][:3], item[1])
        else:
            said[-1] = (said[-1][0], said[-1][1] + 1, said[-1][2] | {".".join(item[:2])}, None)
    found, _ = transactions(config, partitions=2)
    plain = [
        (
            row["gtid"],
            row["rows"],
            set(row["tables"]),
            None if "LEFT OUT" in str(row["statement"]) else row["statement"],
        )
        for row in found
    ]
    assert plain == said


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "sizes"),
    keeping(
        [("large-blobs", SIZES[0]), ("compressed", SIZES[1])],
        product(["large-blobs", "three-nodes-commit-order", "compressed", "partial-json"], SIZES[:2]),
    ),
)
def test_large_transactions_are_counted_piece_by_piece(
    name: str, sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = case_named(name) / "cluster.yaml"
    good, _ = transactions(path)
    shrink(monkeypatch, *sizes)
    monkeypatch.setattr("binlog_merge.pipeline.gather.listing.BATCH_ROWS", 2)
    for most in ("_MOST_TRANSACTIONS", "_MOST_EVENTS", "_MOST_MAPS"):
        monkeypatch.setattr(f"binlog_merge.pipeline.gather.listing.{most}", 1)
    assert transactions(path)[0] == good


def test_rows_that_are_not_what_their_table_map_says_are_not_counted(tmp_path: Path) -> None:
    path = edited(tmp_path, lambda body: body[:-1])
    with pytest.raises(ChecksumMismatch, match="contradicts its table map") as caught:
        transactions(path)
    assert caught.value.node == "dn-1" and caught.value.position and caught.value.order_key


def test_heartbeats_are_listed_where_they_come_out(tmp_path: Path) -> None:
    path = copy_case(case_named("polardbx-scale-out"), tmp_path, lambda values: values["output"].update(heartbeat="1s"))
    found, _ = transactions(path)
    good = list(in_log(whole(path)))
    assert [row["order_key"] for row in found if row["kind"] == "heartbeat"] == [
        written.key for written in good if written.statement == "# TSO HEARTBEAT TXN"
    ]
    assert len(found) == len(good) and "heartbeat" in {row["kind"] for row in found}


@pytest.mark.parametrize("place", ["end", "both"])
def test_wherever_the_key_is_written(place: str, tmp_path: Path) -> None:
    path = copy_case(case_named("shards-optimistic"), tmp_path, lambda values: values["output"].update(cts=place))
    found, _ = transactions(path, partitions=2)
    good = list(in_log(whole(path)))
    assert [row["order_key"] for row in found] == [written.key for written in good]
    assert [row["tables"] for row in found] == [sorted(written.tables) for written in good]


def test_anonymous_transactions_have_no_gtid(tmp_path: Path) -> None:
    path = copy_case(case_named("two-nodes"), tmp_path, lambda values: values["output"].update(gtid="anonymous"))
    found, _ = transactions(path)
    assert {row["gtid"] for row in found} == {None} and [row["rank"] for row in found] == list(range(1, len(found) + 1))
    assert [row["rows"] for row in found] == [
        row["rows"] for row in transactions(case_named("two-nodes") / "cluster.yaml")[0]
    ]


def test_what_is_held_back_is_said_as_a_merge_says_it(tmp_path: Path) -> None:
    path = case_named("three-nodes-commit-order") / "cluster.yaml"
    found, listing = transactions(path, end_of_input=False)
    result = merge(path, tmp_path, end_of_input=False)
    assert len(found) == result.transactions == listing.result.transactions and result.held
    for name in ("held", "held_bytes", "held_back_by", "watermark", "nodes", "in_doubt", "ignored", "warnings", "ddl"):
        assert getattr(listing.result, name) == getattr(result, name), name
    assert listing.result.branches == result.branches and listing.result.input_bytes == result.input_bytes


def test_a_range_of_tso_begins_anew() -> None:
    path = case_named("three-nodes-commit-order") / "cluster.yaml"
    found, _ = transactions(path)
    start, stop = found[len(found) // 3]["commit_tso"], found[2 * len(found) // 3]["commit_tso"]
    between = [row["order_key"] for row in found if start <= row["commit_tso"] < stop]
    part, _ = transactions(path, start_tso=start, stop_tso=stop)
    assert [row["order_key"] for row in part] == between
    assert [row["rank"] for row in part] == list(range(1, len(between) + 1))


def test_a_file_that_is_missing_is_found_first(tmp_path: Path) -> None:
    path = copy_case(case_named("rotation"), tmp_path)
    next(path.parent.glob("nodes/*/*.000002")).unlink()
    with pytest.raises(MissingFile):
        transactions(path)


def test_what_stands_before_damage_is_listed(tmp_path: Path) -> None:
    path = copy_case(case_named("two-nodes"), tmp_path / "case")
    file = next(path.parent.glob("nodes/*/*.000001"))
    data = bytearray(file.read_bytes())
    data[len(data) * 3 // 4] ^= 1
    file.write_bytes(data)
    found, listing = transactions(path)
    with pytest.raises(ChecksumMismatch) as caught:
        merge(path, tmp_path / "out")
    assert listing.error is not None and str(listing.error) == str(caught.value)
    assert 0 < len(found) == caught.value.result.transactions


def test_rows_of_an_unknown_table_stop_who_reads_them(tmp_path: Path) -> None:
    path = copy_case(case_named("two-nodes"), tmp_path / "case", lambda values: values.pop("base"))
    with pytest.raises(UnknownTableSchema) as expected:
        merge(path, tmp_path / "out")
    with pytest.raises(UnknownTableSchema) as caught:
        transactions(path)
    assert caught.value.order_key == expected.value.order_key is not None
    assert len(transactions(path, counts=False)[0]) > 0
