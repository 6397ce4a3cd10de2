"""What the soak has found, each as the smallest history that shows it."""

import random
from pathlib import Path

import pytest

from binlog_merge.errors import MergeError
from tests.merge_e2e.local import merge, written
from tests.oracle import merge_case
from tests.simulator.columns import Table
from tests.simulator.wire import query, xid
from tests.soak.by_hand import TABLE, Written


def assert_merged(config: Path, out: Path, partitions: int | None = None) -> None:
    """Check that the merge gives the oracle's files, and that there are any."""
    merge(config, out, partitions=partitions)
    assert written(out) == merge_case(config).files != {}


@pytest.mark.parametrize("partitions", [1, 3, 9])
def test_a_log_without_gtid_events_is_merged_whole(partitions: int, tmp_path: Path) -> None:
    # Its groups can only be found from the one before, so a piece in the middle found none of its own: they were lost.
    history = Written(2, gtids="none")
    for number in range(1, 20):
        history.local(history.nodes[0], number)
        history.distributed(1000 + number, 100 * number)
    assert_merged(history.save(tmp_path), tmp_path / "out", partitions)


@pytest.mark.parametrize("compression", [0.0, 1.0])
@pytest.mark.parametrize("partitions", [1, 8])
def test_a_branch_prepared_in_an_earlier_file_and_committed_without_a_tso_comes_out(
    partitions: int, compression: float, tmp_path: Path
) -> None:
    # The place of its commit knew neither its tables nor that it is compressed: it was taken for an empty transaction.
    history = Written(1, compression=compression)
    node = history.nodes[0]
    history.distributed(1000, 10)
    history.prepare(node, b"alone", history.insert(node, 1))
    history.local(node, 2)
    node.begin_file()
    history.commit(node, b"alone")
    history.local(node, 3)
    assert_merged(history.save(tmp_path), tmp_path / "out", partitions)


def test_a_ddl_comes_out_however_large_its_markers_are(tmp_path: Path) -> None:
    # More than 8 MiB of them, over all nodes, and it was streamed as if it had rows: an empty transaction came out.
    history = Written(3)
    history.distributed(1000, 10)
    history.marker(1100, "ALTER TABLE t ADD COLUMN extra INT", "x" * (3 << 20))
    history.distributed(1200, 20)
    assert_merged(history.save(tmp_path), tmp_path / "out")


def test_transactions_may_touch_tables_in_any_order_and_again(tmp_path: Path) -> None:
    # Every order of tables is a path through an automaton; coming back to a table filled its hash table, and the scan
    # never ended.
    history, rng = Written(1), random.Random(1)
    node = history.nodes[0]
    history.distributed(1000, 10)
    for number in range(150):
        tables = rng.sample(range(9), 6)
        rows = [e for n in range(1, 8) for t in tables[:n] for e in history.insert(node, number, name=f"t_{t}")]
        node.group([query("BEGIN"), *rows, xid(1)])
    assert_merged(history.save(tmp_path), tmp_path / "out", 1)


def test_the_rows_of_a_create_table_select_see_the_table_it_creates(tmp_path: Path) -> None:
    # A shard made of another, its columns in another order; its table map has no names, so the DDL must tell.
    history = Written(1, full_metadata=False)
    node, turned = history.nodes[0], Table(TABLE.columns[::-1])
    history.distributed(1000, 10)
    create = f"CREATE TABLE `t_1` ({', '.join(c.sql() for c in turned.columns)}) START TRANSACTION"
    rows = history.insert(node, 5, turned, "t_1")
    node.group([query("BEGIN"), query(create, "shop_0"), *rows, xid(3)], ddl=True)
    node.group([query("BEGIN"), *history.insert(node, 6, turned, "t_1"), xid(4)])
    history.local(node, 7)
    assert_merged(history.save(tmp_path), tmp_path / "out")


def test_the_carrier_may_show_only_in_a_later_file(tmp_path: Path) -> None:
    # Only the first file was asked; then a branch on one node was taken for a transaction without a TSO.
    history = Written(1)
    node = history.nodes[0]
    history.local(node, 1)
    node.begin_file()
    history.prepare(node, b"drds-7@one", history.insert(node, 2))
    history.commit(node, b"drds-7@one", (1_790_000_000_000 << 22) >> 9)
    assert_merged(history.save(tmp_path, carrier="auto"), tmp_path / "out")


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_an_event_whose_length_was_damaged_is_seen_however_the_file_is_cut(partitions: int, tmp_path: Path) -> None:
    # It seemed to go beyond the file, as a tail that is still being written does; pieces behind it went on as if whole.
    history = Written(1)
    node = history.nodes[0]
    history.distributed(1000, 10)
    for number in range(40):
        history.local(node, number)
    end = node.ends[10][1]
    node.files[0][end + 9 + 3] ^= 4
    config = history.save(tmp_path)
    with pytest.raises(MergeError, match="ends inside an event"):
        merge(config, tmp_path / "out", partitions=partitions)
