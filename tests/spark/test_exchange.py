"""Blocks that go through Spark, near and far, give the bytes that files give."""

import random
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
import yaml

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import CommitTsoConflict, ConfigError, UnannouncedDdl
from binlog_merge.pipeline.assemble import several_tsos
from binlog_merge.pipeline.base import blocks, pieces
from binlog_merge.pipeline.rounds import Rounds
from binlog_merge.spark import tasks
from binlog_merge.spark.exchange import OPTION, ShuffleExchange, carries_blocks
from binlog_merge.spark.job import merge
from binlog_merge.spark.runner import SparkRunner
from tests.effort import THOROUGH, effort
from tests.merge_e2e.cases import case_named, copy_case, max_size, whole
from tests.merge_e2e.editing import assert_prefix
from tests.merge_e2e.growth import GrowingNode, schedule
from tests.merge_e2e.local import written
from tests.merge_e2e.test_conflicts import Shard, save, tso
from tests.spark.sharing import Writing, WritingMany

pytestmark = [pytest.mark.spark]
ROUNDS = effort(4, 6)


@pytest.fixture
def carrying(spark: Any) -> Any:
    """The session, told to carry the blocks; a local one has them in files."""
    assert not carries_blocks(spark)
    spark.conf.set(OPTION, "spark")
    yield spark
    spark.conf.unset(OPTION)


@pytest.fixture(params=["near", "far", "pieces"])
def distance(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small blocks come to the driver; with `far` none does, and with `pieces` each has many pieces."""
    if request.param != "near":
        monkeypatch.setattr(tasks, "NEAR_BLOCK", 0)
    if request.param == "pieces":
        written = pieces.in_pieces

        def small(columns: pieces.Columns) -> list[bytes]:
            with mock.patch.object(pieces, "PIECE_ROWS", 3):
                return written(columns)

        monkeypatch.setattr(blocks, "in_pieces", small)


@pytest.mark.parametrize(
    ("name", "distance"),
    [
        ("shards-optimistic", "near"),
        # The rounds below have blocks that are far, in many pieces.
        pytest.param("shards-optimistic", "pieces", marks=pytest.mark.extended),
        pytest.param("three-nodes-online-ddl", "far", marks=pytest.mark.extended),
        pytest.param("in-doubt", "near", marks=pytest.mark.extended),
    ],
    indirect=["distance"],
)
@pytest.mark.usefixtures("distance")
def test_the_same_bytes(name: str, carrying: Any, tmp_path: Path) -> None:
    path = copy_case(case_named(name), tmp_path / "case", max_size(4000))
    merge(carrying, MergeConfig.load(path), tmp_path / "out", end_of_input=True, partitions=3)
    assert written(tmp_path / "out") == whole(path)
    assert not (tmp_path / "out" / ".work").exists()


@pytest.mark.parametrize("distance", ["near", "far", "pieces"] if THOROUGH else ["pieces"], indirect=True)
@pytest.mark.usefixtures("distance")
def test_rounds_here_and_there(carrying: Any, tmp_path: Path) -> None:
    """Blocks of rounds in the driver go to stages on Spark, and the other way round."""
    rng = random.Random(1)
    path = copy_case(case_named("three-nodes-online-ddl"), tmp_path / "case")
    good = whole(path)
    names = [node["source-id"] for node in yaml.safe_load(path.read_text())["nodes"]]
    nodes = {name: GrowingNode.of(path.parent / "nodes" / name) for name in names}
    with Rounds(SparkRunner(carrying), MergeConfig.load(path), tmp_path / "out", in_driver=4000) as rounds:
        for number, places in enumerate(schedule(nodes, ROUNDS, True, rng), 1):
            for name, place in places.items():
                nodes[name].grow(place, True)
            with suppress(*(() if number == ROUNDS else (UnannouncedDdl,))):
                rounds.merge(end_of_input=number == ROUNDS)
            assert_prefix(written(tmp_path / "out"), good)
    assert written(tmp_path / "out") == good


def test_torn_transactions_are_found_where_all_goes_through_spark(
    carrying: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "NEAR_BLOCK", 0)
    monkeypatch.setattr("binlog_merge.spark.exchange._TOLD_BYTES", 0)
    monkeypatch.setattr(several_tsos, "IN_DRIVER", -1)
    shards = [Shard(1, "polardbx"), Shard(2, "polardbx")]
    for number in range(1, 9):
        for shard in shards:
            shard.branch(number, tso(20 if (number, shard.number) == (5, 2) else number))
    config = save(shards, tmp_path, "polardbx")
    with pytest.raises(CommitTsoConflict, match=f"{tso(5)} on node dn-1, but {tso(20)} on node dn-2"):
        merge(carrying, MergeConfig.load(config), tmp_path / "out", partitions=3)


def test_an_exchange_that_is_none_is_refused(spark: Any) -> None:
    spark.conf.set(OPTION, "shuffel")
    try:
        with pytest.raises(ConfigError, match="'shuffel'"):
            carries_blocks(spark)
    finally:
        spark.conf.unset(OPTION)


def test_what_tasks_share_travels_once() -> None:
    from tests.spark.sharing import Sharing

    common = tuple(range(1000))
    shared, own = tasks.pickled([Sharing(number, common) for number in range(20)])
    assert len(shared) > 1000 and max(map(len, own)) < 200
    assert [tasks.task_of(data, shared) for data in own] == [Sharing(number, common) for number in range(20)]


def test_a_piece_that_is_not_brought_is_no_silent_loss() -> None:
    rows = [(0, "", 2, b"task"), (0, "held:a", 0, b"first"), (0, "held:a", 1, b"second")]
    columns = [list(column) for column in zip(*rows, strict=True)]
    batch = pa.RecordBatch.from_pydict(dict(zip(tasks.ROWS_IN.names, columns, strict=True)), schema=tasks.ROWS_IN)
    assert list(tasks.brought([batch])) == [(0, b"task", {"held:a": [b"first", b"second"]})]
    for left in (batch.slice(0, 2), pa.concat_batches([batch, batch.slice(2)])):
        with pytest.raises(RuntimeError, match="task 0 reads 2 pieces"):
            list(tasks.brought([left]))


def test_small_blocks_go_together() -> None:
    """What a row costs the JVM is more than a small block does, and thousands of small files have thousands of them."""
    common, own = tasks.pickled([WritingMany(300), WritingMany(1)])
    work = tasks.Work(WritingMany.write, common, 2, tasks.Numbered(own))
    batches = list(work([pa.RecordBatch.from_pydict({"id": [0, 1]})]))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [row["path"] for row in rows].count("") == 2 and len(rows) < 10
    assert all(len(row["near"]) < 2 * tasks.TOGETHER_BYTES for row in rows)
    found = tasks.blocks_of(
        tasks.apart((row["path"], row["piece"], row["near"]) for row in rows if row["path"] and not row["number"])
    )
    assert {path: pieces.joined(block)["row"].tolist() for path, block in found.items()} == {
        f"held:{number}": list(range(number)) for number in range(300)
    }
    sent = [(0, "", len(found), b"task"), *((0, tasks.TOGETHER, 0, data) for data in _all_together(found))]
    batch = pa.RecordBatch.from_arrays([pa.array(c) for c in zip(*sent, strict=True)], names=tasks.ROWS_IN.names)
    assert list(tasks.brought([batch])) == [(0, b"task", found)]


def _all_together(found: dict[str, Any]) -> list[bytes]:
    return list(tasks.together((path, 0, data) for path, (data,) in found.items()))


def test_what_is_asked_one_after_the_other_is_fetched_at_once(carrying: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster with thousands of pieces must not cost the driver a job for each."""
    monkeypatch.setattr(tasks, "NEAR_BLOCK", 0)
    exchange = ShuffleExchange(carrying)
    common, own = tasks.pickled([Writing(number, f"held:piece-{number:06d}") for number in range(40)])
    exchange.run(partial(tasks.Work, Writing.write, common, 40), own, [()] * 40)
    jobs = [0]
    fetch = exchange._fetch
    monkeypatch.setattr(exchange, "_fetch", lambda *values: jobs.append(1) or fetch(*values))
    with exchange.opened():
        for number in range(40):
            assert blocks.read_block(f"held:piece-{number:06d}.local")["row"].tolist() == [number] * 3
            if number % 5 == 0:
                assert blocks.read_block(f"held:piece-{number:06d}.timed", ("tso",))["tso"].tolist() == [number]
    assert sum(jobs) == 2
    exchange.clear(Path("nowhere"), frozenset())
    with exchange.opened(), pytest.raises(KeyError):
        blocks.read_block("held:piece-000003.local")
