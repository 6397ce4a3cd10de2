"""Faults of a PolarDB-X cluster: each has its exit code, says where and what to do, and leaves a valid prefix."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from binlog_merge.errors import ERRORS, MergeError
from fixtures.polardbx import FIXTURES
from tests.command_line import command_line
from tests.merge_e2e.cases import copy_case, whole
from tests.merge_e2e.editing import GTIDS, QUERY, ROTATE, STOP, WRITE_ROWS, XA_PREPARE, Log, assert_prefix
from tests.merge_e2e.local import merge, written
from tests.polardbx.announce import PRIVATE
from tests.polardbx.cluster import Group, Logical, Shard, db_meta
from tests.polardbx.read import read_merged
from tests.polardbx.script import Script, meta_of
from tests.polardbx.simulate import cluster_yaml
from tests.polardbx.splice import CONSENSUS, GCN, Dialect
from tests.polardbx.steps import Prepare, Step
from tests.polardbx.truth import expected
from tests.polardbx.write import ends, write_nodes
from tests.simulator.columns import Column, Table, Value

ROOT = Path(__file__).resolve().parents[2]
ARTICLE = FIXTURES / "polardbx-seed-article"
ITEMS = Table((Column("id", "bigint", nullable=False), Column("name", "varchar", 40)))


class Damaged:
    """The article's case, damaged: what is published before the stop is a prefix of what it would have been."""

    def __init__(self, folder: Path) -> None:
        self.config, self.out = copy_case(ARTICLE, folder / "case"), folder / "out"

    def path(self, node: str) -> Path:
        return self.config.parent / "nodes" / node / "binlog.000001"

    def edit(self, node: str, change: Callable[[Log], Log]) -> None:
        change(Log.load(self.path(node))).save(self.path(node))

    def refused(self, code: str, **options: Any) -> MergeError:
        with pytest.raises(MergeError) as raised:
            merge(self.config, self.out, **options)
        error = raised.value
        assert error.code == code, error
        assert error.exit_code == ERRORS[code].exit_code != 70
        assert error.message and error.remedy
        assert_prefix(written(self.out), whole(ARTICLE / "cluster.yaml"))
        return error

    def published(self) -> int:
        return len(read_merged(written(self.out), self.out))


@pytest.fixture
def damaged(tmp_path: Path) -> Damaged:
    return Damaged(tmp_path)


def _without(log: Log, hit: Callable[[list[Any]], bool]) -> Log:
    """Return the log without the groups that `hit` takes; the events around them stay."""
    gone = {id(event) for group in _groups(log) if hit(group) for event in group}
    return log.with_events([e for e in log.events if id(e) not in gone]).renumbered()


def _groups(log: Log) -> list[list[Any]]:
    """Return the groups of a data node's file, each with what stands before its GTID event."""
    found: list[list[Any]] = []
    for before, event in zip((None, *log.events), log.events, strict=False):
        opens = event.type in (*GTIDS, GCN, CONSENSUS)
        if opens and (before is None or before.type not in (GCN, CONSENSUS)):
            found.append([])
        if found and event.type not in (ROTATE, STOP):
            found[-1].append(event)
    return found


def _branch_of(kind: int, text: str, nth: int) -> Callable[[list[Any]], bool]:
    """Return what takes the nth group with an event of this type, and of a QUERY's text."""
    seen = iter(range(10**6))
    return lambda group: (
        any(e.type == kind and (kind != QUERY or e.text.startswith(text)) for e in group) and next(seen) == nth
    )


def _marker(log: Log, nth: int) -> Callable[[list[Any]], bool]:
    """Return what takes the nth marker of a log: its rows, and its commit."""
    rows = [g for g in _groups(log) if any(b"__cdc_ddl_record__" in e.body for e in g if e.type == 19)]
    xid = next(e.text for e in rows[nth] if e.type == QUERY).removeprefix("XA START ")
    return lambda group: any(e.type == QUERY and e.text.endswith(xid) for e in group)


def test_a_lost_branch_whose_commit_is_there(damaged: Damaged) -> None:
    damaged.edit("dn-2", lambda log: _without(log, _branch_of(XA_PREPARE, "", 9)))
    error = damaged.refused("unsupported-input")
    assert (error.node, error.file) == ("dn-2", str(damaged.path("dn-2")))
    assert error.position and "XA PREPARE" in error.message
    assert error.order_key and damaged.published() > 5


def test_a_marker_missing_on_a_node(damaged: Damaged) -> None:
    damaged.edit("dn-2", lambda log: _without(log, _marker(log, 1)))
    error = damaged.refused("marker-incomplete")
    assert error.node == "dn-1" and error.order_key and int(error.order_key[:19]) == 300
    assert "dn-2" in error.message and "ADD COLUMN" in error.message
    assert damaged.published() == 19  # everything below the marker


def test_markers_that_differ(damaged: Damaged) -> None:
    def another_name(log: Log) -> Log:
        rows = [i for i, e in enumerate(log.events) if e.type == WRITE_ROWS and b"ADD COLUMN `addr`" in e.body]
        event = log.events[rows[0]]
        body = event.body.replace(b"ADD COLUMN `addr`", b"ADD COLUMN `adds`")
        return log.changed(rows[0], replace(event, body=body))

    damaged.edit("dn-2", another_name)
    error = damaged.refused("marker-disagreement")
    assert error.order_key and int(error.order_key[:19]) == 300
    assert "adds" in error.message and "addr" in error.message


@pytest.mark.parametrize("end_of_input", [False, True])
def test_a_node_that_stops(end_of_input: bool, damaged: Damaged) -> None:
    """One node's log ends in the middle: what may lie behind its end waits, and a marker that it lacks is an error."""
    path = damaged.path("dn-2")
    data = path.read_bytes()
    path.write_bytes(data[: ends(data)[len(ends(data)) // 2]])
    if end_of_input:
        with pytest.raises(MergeError, match="dn-2") as raised:
            merge(damaged.config, damaged.out)
        assert raised.value.code == "marker-incomplete"
        assert 0 < damaged.published() < 19  # what both have committed, and what dn-1 alone has
        return
    result = merge(damaged.config, damaged.out, end_of_input=False)
    assert result.held_back_by == "dn-2"
    assert_prefix(written(damaged.out), whole(ARTICLE / "cluster.yaml"))
    assert 0 < damaged.published() < 19


# -- histories of their own


def row(number: int, name: str) -> dict[str, Value]:
    return {"id": number, "name": name}


def small() -> tuple[Script, Logical]:
    cluster = Script("dn-1", "dn-2")
    pair = [cluster.group("shop", f"dn-{i + 1}", f"shop_{i:06d}") for i in range(2)]
    items = cluster.table("shop", "items", ITEMS, [(group, f"items_{i}") for i, group in enumerate(pair)])
    cluster.begin_at(1000)
    cluster.distributed(1010, *((items, i, row(i, "first")) for i in range(1, 5)))
    return cluster, items


def _written(cluster: Script, folder: Path, steps: list[Step] | None = None) -> Path:
    files = write_nodes(steps or cluster.steps, cluster.stamps, cluster.numbers, random.Random(1), [Dialect()])
    for node, named in files.items():
        (folder / "nodes" / node).mkdir(parents=True)
        for name, data in named.items():
            (folder / "nodes" / node / name).write_bytes(data)
    values = cluster_yaml(cluster, random.Random(1))
    values["output"] = {"max-size": 2**29}
    (folder / "cluster.yaml").write_text(yaml.safe_dump(values))
    return folder / "cluster.yaml"


def _refused(cluster: Script, folder: Path, code: str, good: int, steps: list[Step] | None = None) -> MergeError:
    """Merge; the first `good` transactions that the history means are published, and no more."""
    with pytest.raises(MergeError) as raised:
        merge(_written(cluster, folder / "case", steps), folder / "out")
    error = raised.value
    assert error.code == code, error
    assert error.exit_code == ERRORS[code].exit_code and error.remedy
    got = [e.key for e in read_merged(written(folder / "out"), folder)]
    assert got == [e.key for e in expected(cluster)][:good]
    return error


def test_two_markers_with_one_key(tmp_path: Path) -> None:
    cluster, items = small()
    sql = "ALTER TABLE `items` COMMENT = 'one'"
    key = cluster.marker(1020, "ALTER_TABLE", "shop", "items", sql)
    steps: list[Step] = []
    for step in cluster.steps:
        marks = isinstance(step, Prepare) and "ddl_record" in step.writes[0].name
        if isinstance(step, Prepare) and marks:
            assert step.writes[0].after is not None
            values = {**step.writes[0].after, "ID": 999, "JOB_ID": 998, "DDL_SQL": sql.replace("one", "another")}
            step = replace(step, writes=(*step.writes, replace(step.writes[0], after=values)))
        steps.append(step)
    cluster.distributed(1030, (items, 9, row(9, "behind")))
    steps += cluster.steps[len(steps) :]
    error = _refused(cluster, tmp_path, "marker-disagreement", 1, steps)
    assert error.order_key and int(error.order_key[:19]) == key[0]


def test_a_topology_on_a_storage_instance_nobody_knows(tmp_path: Path) -> None:
    cluster, items = small()
    nowhere = Group("SHOP_000009_GROUP", "dn-9", "shop_000009")
    shards = [*items.shards, Shard(nowhere, "items_9", ITEMS)]
    sql = "ALTER TABLE `items` PARTITION BY KEY(`id`) PARTITIONS 3"
    cluster.marker(1020, "ALTER_TABLE", "shop", "items", sql, meta_of(items, shards))
    cluster.distributed(1030, (items, 9, row(9, "behind")))
    error = _refused(cluster, tmp_path, "cluster-topology", 1)
    assert error.order_key and int(error.order_key[:19]) == 1020
    assert "SHOP_000009_GROUP" in error.message.upper() and "PARTITIONS 3" in error.message


def test_a_topology_that_names_a_group_nobody_knows(tmp_path: Path) -> None:
    cluster, items = small()
    stray = Group("SHOP_000007_GROUP", "dn-2", "shop_000007")
    shards = [*items.shards, Shard(stray, "items_7", ITEMS)]
    sql = "ALTER TABLE `items` PARTITION BY KEY(`id`) PARTITIONS 3"
    cluster.marker(1020, "ALTER_TABLE", "shop", "items", sql, meta_of(items, shards))
    error = _refused(cluster, tmp_path, "cluster-topology", 1)
    assert "SHOP_000007_GROUP" in error.message.upper()


@pytest.mark.parametrize("text", ["{", '{"logicTableMeta": 3}', '{"logicTableMeta": {"tableName": "items"}}', "[]"])
def test_a_topology_that_cannot_be_read(text: str, tmp_path: Path) -> None:
    cluster, items = small()
    cluster.marker(1020, "ALTER_TABLE", "shop", "items", "ALTER TABLE `items` COMMENT = 'x'", meta_of(items))
    steps = [_with_meta(step, text) for step in cluster.steps]
    error = _refused(cluster, tmp_path, "cluster-topology", 1, steps)
    assert error.order_key and int(error.order_key[:19]) == 1020


def _with_meta(step: Step, text: str) -> Step:
    if not isinstance(step, Prepare) or "ddl_record" not in step.writes[0].name:
        return step
    assert step.writes[0].after is not None
    return replace(step, writes=(replace(step.writes[0], after={**step.writes[0].after, "META_INFO": text}),))


def test_a_node_that_joins_and_is_not_configured(tmp_path: Path) -> None:
    cluster, items = small()
    cluster.storage(1020, ["dn-1", "dn-2", "dn-3"])
    cluster.distributed(1030, (items, 9, row(9, "behind")))
    error = _refused(cluster, tmp_path, "cluster-topology", 1)
    assert "dn-3" in error.message


def test_a_group_that_moves_to_a_node_nobody_knows(tmp_path: Path) -> None:
    cluster, items = small()
    there = [replace(group, node="dn-8") for group in cluster.schemas["shop"]]
    meta = {"logicDbMeta": db_meta("shop", there)}
    cluster.marker(1020, "MOVE_DATABASE", "shop", None, "MOVE DATABASE (SHOP_000000_GROUP) TO 'dn-8'", meta, PRIVATE)
    cluster.distributed(1030, (items, 9, row(9, "behind")))
    error = _refused(cluster, tmp_path, "cluster-topology", 1)
    assert "dn-8" in error.message


@pytest.mark.spark
@pytest.mark.usefixtures("commands_share_spark")
def test_on_the_command_line(damaged: Damaged) -> None:
    damaged.edit("dn-2", lambda log: _without(log, _marker(log, 1)))
    done = command_line(["merge", "-c", damaged.config, "--out", damaged.out, "--end-of-input", "-o", "json"])
    assert done.returncode == 22, done.stderr
    document = json.loads(done.stdout)
    assert document["error"]["code"] == "marker-incomplete" and document["transactions"] == damaged.published() == 19
    assert "marker-incomplete:" in done.stderr and "dn-2" in done.stderr and "what to do:" in done.stderr
    assert "Traceback" not in done.stderr
    assert_prefix(written(damaged.out), whole(ARTICLE / "cluster.yaml"))
