"""Rounds in one process, however they are cut and wherever the process begins anew: the files are those of one run."""

import random
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import NoFiles, OutputBusy, SchemaConflict, UnannouncedDdl
from binlog_merge.files import failpoint
from binlog_merge.files.directory import Glance, discover
from binlog_merge.files.publish import FAILPOINTS
from binlog_merge.pipeline.coordinate.stores import STORE_NAME
from binlog_merge.pipeline.rounds import IN_DRIVER, Rounds
from snapshot_store.ddl.public import parse_table
from snapshot_store.history import TableVersion
from snapshot_store.store import db
from snapshot_store.store.db import Store
from snapshot_store.tso import OrderKey
from tests.effort import effort, keeping
from tests.merge_e2e.cases import case_named, copy_case, max_size, other_inputs, whole
from tests.merge_e2e.editing import assert_prefix
from tests.merge_e2e.growth import GrowingNode, schedule
from tests.merge_e2e.local import HeldRunner, LocalRunner, merge, state_of, written


def _nodes(path: Path) -> dict[str, GrowingNode]:
    names = [node["source-id"] for node in yaml.safe_load(path.read_text())["nodes"]]
    return {name: GrowingNode.of(path.parent / "nodes" / name) for name in names}


def _rounds(config: MergeConfig, out: Path, rng: random.Random) -> Rounds:
    """Return rounds whose stages run in the driver, on the engine, or both, and whose tasks share files or not."""
    return Rounds(
        rng.choice([LocalRunner, HeldRunner])(),
        config,
        out,
        partitions=rng.choice([None, 5]),
        in_driver=rng.choice([0, 4000, IN_DRIVER]),
    )


def merge_in_rounds(path: Path, out: Path, good: dict[str, bytes], rng: random.Random, rounds: int) -> None:
    """Merge a growing case in rounds, in processes that end now and then, and remove files that nobody needs."""
    nodes, config = _nodes(path), MergeConfig.load(path)
    anywhere = rng.random() < 0.7
    with ExitStack() as stack:
        merging: Rounds | None = None
        for number, places in enumerate(schedule(nodes, rounds, anywhere, rng), 1):
            for name, place in places.items():
                nodes[name].grow(place, anywhere)
            if merging is None or rng.random() < 0.2:
                stack.close()
                merging = stack.enter_context(_rounds(config, out, rng))
            # Before a cluster's first marker nothing tells that there will be one.
            with suppress(*(() if number == rounds else (UnannouncedDdl,))):
                merging.merge(end_of_input=number == rounds)
            assert_prefix(written(out), good)
            last = state_of(out).last
            for name, state in last.nodes.items() if last is not None and rng.random() < 0.5 else ():
                nodes[name].remove_before(state.checkpoint["file"])
    assert written(out) == good
    assert not (out / ".work").exists()


@other_inputs
def test_rounds_in_one_process_give_the_same_files(case: Path, tmp_path: Path) -> None:
    rng = random.Random(f"{case.name} rounds")
    total = sum(map(len, whole(case / "cluster.yaml").values()))
    change = max_size(max(400, total // rng.choice([2, 5]))) if rng.random() < 0.5 else None
    path = copy_case(case, tmp_path / "case", change)
    merge_in_rounds(path, tmp_path / "out", whole(path), rng, rounds=6)


@pytest.mark.parametrize("seed", range(1))
def test_many_rounds(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    case = case_named(rng.choice(["three-nodes-online-ddl", "shards-optimistic", "shards-pessimistic", "in-doubt"]))
    path = copy_case(case, tmp_path / "case")
    merge_in_rounds(path, tmp_path / "out", whole(path), rng, rounds=effort(10, 40))


@pytest.mark.parametrize("name", keeping(["polardbx-rename"], ["three-nodes-online-ddl", "polardbx-rename"]))
def test_rounds_leave_the_state_of_one_merge(name: str, tmp_path: Path) -> None:
    """A state that grows with the rounds would slow down, and at last stop, what never stops."""
    path = copy_case(case_named(name), tmp_path / "case")
    one, out = tmp_path / "one", tmp_path / "out"
    merge(path, one)
    nodes, rng = _nodes(path), random.Random(name)
    with Rounds(LocalRunner(), MergeConfig.load(path), out) as merging:
        for places in schedule(nodes, effort(15, 60), True, rng):
            for node, place in places.items():
                nodes[node].grow(place, True)
            with suppress(UnannouncedDdl):
                merging.merge()
        merging.merge(end_of_input=True)
    assert _carried(out) == _carried(one)


def _carried(out: Path) -> dict[str, Any]:
    last = state_of(out).last
    assert last is not None
    return {
        name: (node.checkpoint["carry"]["commit_rows"], node.checkpoint["carry"]["open"])
        for name, node in last.nodes.items()
    }


def _halfway(
    tmp_path: Path, name: str = "three-nodes-online-ddl"
) -> tuple[Path, dict[str, bytes], dict[str, GrowingNode]]:
    """Return a case whose nodes have written half of their first file, its whole output, and the nodes."""
    path = copy_case(case_named(name), tmp_path / "case")
    good = whole(path)
    nodes = _nodes(path)
    for node in nodes.values():
        node.grow((0, len(node.files[0][1]) // 2), anywhere=True)
    return path, good, nodes


def _finish(nodes: dict[str, GrowingNode]) -> None:
    for node in nodes.values():
        node.grow((len(node.files) - 1, len(node.files[-1][1])), anywhere=False)


# In a stage, with the files of the round beside the output, with their names, and with the manifest half written.
KEPT = ("after-gather", "manifest-torn")


@pytest.mark.parametrize("place", keeping(KEPT, ["after-scan", "after-coordinate", "after-gather", *FAILPOINTS]))
def test_a_round_that_fails_leaves_nothing_behind(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, good, nodes = _halfway(tmp_path)
    out = tmp_path / "out"
    with Rounds(LocalRunner(), MergeConfig.load(path), out) as rounds:
        rounds.merge()
        _finish(nodes)
        with monkeypatch.context() as patch:
            patch.setenv(failpoint.VARIABLE, f"{place}:raise")
            with suppress(failpoint.FailpointReached):
                rounds.merge()
        assert_prefix({f.name: (out / f.name).read_bytes()[: f.size] for f in state_of(out).files}, good)
        rounds.merge(end_of_input=True)
    assert written(out) == good


def test_there_is_news_when_a_node_has_written(tmp_path: Path) -> None:
    path, _, nodes = _halfway(tmp_path)
    with Rounds(LocalRunner(), MergeConfig.load(path), tmp_path / "out") as rounds:
        assert rounds.has_news()
        rounds.merge()
        if rounds.has_news():  # the store was written
            rounds.merge()
        assert not rounds.has_news()
        runs = state_of(tmp_path / "out").run
        first = nodes["dn-1"]
        first.grow((0, first.at[1] + 1), anywhere=True)
        assert rounds.has_news()
        rounds.merge()
        assert not rounds.has_news()
        assert state_of(tmp_path / "out").run == runs, "less than a group is no run"


def test_a_glance_sees_what_a_node_writes(tmp_path: Path) -> None:
    path, _, nodes = _halfway(tmp_path)
    config = MergeConfig.load(path)
    found = discover(config)
    glance = Glance(config, [tmp_path / "schema.duckdb"])
    assert not glance.is_same(found)
    assert glance.is_same(found)
    assert not glance.is_same(discover(config)), "somebody has looked again"
    found = discover(config)
    assert not glance.is_same(found)
    node = nodes["dn-2"]
    node.grow((0, node.at[1] + 1), anywhere=True)
    assert not glance.is_same(found)
    (tmp_path / "schema.duckdb").touch()
    assert not glance.is_same(found)
    (node.folder / "binlog.000099").touch()
    assert not glance.is_same(found)
    several = config.nodes[0].model_copy(update={"files": (str(tmp_path / "*" / "binlog.*"),)})
    elsewhere = config.model_copy(update={"nodes": (several, *config.nodes[1:])})
    assert not any(Glance(elsewhere, []).is_same(found) for _ in range(2))


def test_a_round_without_ddl_opens_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = copy_case(case_named("three-nodes-commit-order"), tmp_path / "case")
    good = whole(path)
    nodes, config = _nodes(path), MergeConfig.load(path)
    opened, connect = list[int](), db._connect

    def counting(*given: Any) -> Any:
        opened[-1] += 1
        return connect(*given)

    monkeypatch.setattr(db, "_connect", counting)
    with Rounds(LocalRunner(), config, tmp_path / "out") as rounds:
        for places in schedule(nodes, 12, True, random.Random(5)):
            for name, at in places.items():
                nodes[name].grow(at, anywhere=True)
            opened.append(0)
            rounds.merge(end_of_input=len(opened) == 12)
    assert written(tmp_path / "out") == good
    assert opened[0] and not any(opened[-4:]), "what is published cannot change, and no table is new"


def test_what_somebody_writes_to_the_store_between_rounds_is_read(tmp_path: Path) -> None:
    path, _, nodes = _halfway(tmp_path, "three-nodes-commit-order")
    out = tmp_path / "out"
    with Rounds(LocalRunner(), MergeConfig.load(path), out) as rounds:
        rounds.merge()
        while rounds.has_news():
            rounds.merge()
        with Store.open(out / STORE_NAME) as store:
            published = OrderKey.parse(state_of(out).last.state["floor"])  # type: ignore[union-attr]
            below = published._replace(seq=0, node_seq=0, transaction_id=1, commit_tso=published.commit_tso - 1)
            store.append_versions(
                [TableVersion(below, 0, "d", "new", parse_table("CREATE TABLE new (a INT)"), origin="operator")]
            )
        assert rounds.has_news()
        _finish(nodes)
        with pytest.raises(SchemaConflict):
            rounds.merge()


def test_nodes_that_are_away_for_a_while(tmp_path: Path) -> None:
    path, good, nodes = _halfway(tmp_path)
    folder = nodes["dn-2"].folder
    with Rounds(LocalRunner(), MergeConfig.load(path), tmp_path / "out") as rounds:
        rounds.merge()
        folder.rename(tmp_path / "away")
        with pytest.raises(NoFiles):
            rounds.has_news()
        with pytest.raises(NoFiles):
            rounds.merge()
        (tmp_path / "away").rename(folder)
        _finish(nodes)
        rounds.merge(end_of_input=True)
    assert written(tmp_path / "out") == good


def test_one_process_at_a_time(tmp_path: Path) -> None:
    path, _, _ = _halfway(tmp_path)
    config = MergeConfig.load(path)
    with Rounds(LocalRunner(), config, tmp_path / "out"), pytest.raises(OutputBusy):
        Rounds(LocalRunner(), config, tmp_path / "out").__enter__()
