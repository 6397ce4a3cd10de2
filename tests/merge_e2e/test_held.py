"""Rows that wait for DDL of shards: any effects, as one run, in many runs, with any cuts, are the oracle's bytes."""

import os
import random
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from binlog_merge.errors import SchemaMismatch
from binlog_merge.moved_keys import is_moved
from binlog_merge.pipeline.gather.plans import PlanTable
from snapshot_store.tso import OrderKey
from tests.effort import keeping
from tests.merge_e2e.editing import assert_prefix
from tests.merge_e2e.growth import merge_growing
from tests.merge_e2e.holding import ShardStatement, coordinated, random_holding
from tests.merge_e2e.local import HeldRunner, LocalRunner, merge, state_of, written
from tests.merge_e2e.simulator import FIRST_TSO, Alteration, Simulator, Style
from tests.oracle import merge_case
from tests.oracle.config import load
from tests.oracle.holding import Effect, Holding, PlacedDdl
from tests.oracle.order import choose_carrier, order_node, read_node

STYLES = (
    Style(steps=150),
    Style(nodes=3, steps=300, rotate=0.05),
    Style(nodes=3, steps=200, carrier="gtid", max_size=3000),
    Style(nodes=2, steps=250, reshaped=True, max_size=5000, rotate=0.03),
    Style(nodes=2, steps=250, altering=True, rotate=0.03),
    Style(nodes=3, steps=500, altering=True, reshaped=True, max_size=4000, carrier="gtid"),
)


@pytest.mark.parametrize("style", keeping([4], range(len(STYLES))))  # with ALTERs
@pytest.mark.parametrize("seed", range(1))
def test_one_run_and_many(seed: int, style: int, tmp_path: Path) -> None:
    play(1000 * style + seed, STYLES[style], tmp_path)


@pytest.mark.soak
def test_for_as_long_as_wanted(tmp_path: Path) -> None:
    end = time.monotonic() + float(os.environ.get("SOAK_SECONDS", "600"))
    seed = int(time.time())
    while time.monotonic() < end:
        seed += 1
        rng = random.Random(seed)
        style = replace(rng.choice(STYLES), steps=rng.choice([30, 100, 400, 1500]), nodes=rng.randint(1, 5))
        print(f"seed {seed}, {style}")  # shown when it fails
        play(seed, style, tmp_path / str(seed))
        shutil.rmtree(tmp_path / str(seed))


def made_up(config: Path, alterations: Sequence[Alteration], rng: random.Random) -> Holding:
    """Return what the DDL of a made-up cluster's shards may come to."""
    cluster = load(config)
    inputs = [(node, *read_node(node)) for node in cluster.nodes]
    carrier = choose_carrier(cluster, [g for _, _, groups in inputs for g in groups])
    orders = [order_node(cluster, node, version, groups, carrier) for node, version, groups in inputs]
    shards = [(node.source_id, (f"s_{s}", f"t_{t}")) for node in cluster.nodes for s in range(2) for t in range(2)]
    keys = [b.key for order in orders for b in order.branches]
    known = {(a.node, a.gno): a for a in alterations}
    ran = []
    for order in orders:
        for ddl in order.ddl:
            assert ddl.rows.gtid is not None
            run = known.get((order.node.number, ddl.rows.gtid.gno))
            if run is not None:
                ran.append(ShardStatement(order.node.source_id, run.table, ddl.key, run.renames))
            else:
                ran.append(ShardStatement(order.node.source_id, rng.choice(shards)[1], ddl.key))
    return random_holding(rng, keys, ran, shards)


def play(seed: int, style: Style, folder: Path) -> None:
    """Make up a history and what its DDL come to, and merge it in several ways."""
    rng = random.Random(seed)
    history = Simulator(seed, style)
    config = history.write(folder / "case")
    holding = made_up(config, history.alterations, rng)
    expected = merge_case(config, holding=holding)
    with coordinated(holding):
        for number, partitions in enumerate((None, 2, rng.randint(3, 9), rng.randint(10, 60))):
            runner = rng.choice([LocalRunner, HeldRunner])()
            merge(config, folder / f"out-{number}", partitions=partitions, runner=runner)
            assert written(folder / f"out-{number}") == expected.files
        merge(config, folder / "unfinished", end_of_input=False, partitions=rng.randint(1, 9))
        assert written(folder / "unfinished") == merge_case(config, end_of_input=False, holding=holding).files
        merge_growing(config, folder / "grown", expected.files, 6, rng)


def _held_for_good(config: Path) -> Holding:
    """Return a history in which one shard waits for good from early on, and another for a while."""
    cluster = load(config)
    order = order_node(cluster, cluster.nodes[0], *read_node(cluster.nodes[0]), "commit-table")
    keys = sorted(b.key for b in order.branches)
    early, late = (*keys[len(keys) // 6][:3], 500), (*keys[len(keys) // 2][:3], 500)
    effects = (
        Effect("dn-1", ("s_0", "t_0"), early, None),
        Effect("dn-2", ("s_1", "t_1"), early, (late, 0)),
    )
    return Holding(effects, (PlacedDdl((late, 0), "s", "ALTER TABLE `t` ADD COLUMN `c` int NOT NULL DEFAULT '7'"),))


def test_what_waits_at_the_end_is_named_and_comes_out_when_it_may(tmp_path: Path) -> None:
    config = Simulator(5, Style(nodes=3, steps=400, rotate=0.05)).write(tmp_path / "case")
    forever = _held_for_good(config)
    with coordinated(forever):
        result = merge(config, tmp_path / "out")
    [held, *_] = [
        one for one in result.waiting_shards if (one["node"], one["schema"], one["table"]) == ("dn-1", "s_0", "t_0")
    ]
    assert held["transactions"] > 0 and held["bytes"] > 0
    assert OrderKey.parse(held["since"]) > OrderKey(*forever.effects[0].key)
    assert result.end_of_input
    state = state_of(tmp_path / "out").last
    assert state is not None and state.nodes["dn-1"].checkpoint["file"] < state.nodes["dn-1"].scan_end_file
    assert written(tmp_path / "out") == merge_case(config, holding=forever).files
    # A later run learns that it took effect at a place behind everything.
    place = ((FIRST_TSO + (1 << 50), 0, 0, 1), 0)
    released = replace(forever, effects=(replace(forever.effects[0], place=place), forever.effects[1]))
    with coordinated(released):
        again = merge(config, tmp_path / "out", partitions=3)
    assert not again.waiting
    assert written(tmp_path / "out") == merge_case(config, holding=released).files


def test_a_place_at_which_something_fails_comes_out_whole_or_not_at_all(tmp_path: Path) -> None:
    config = Simulator(7, Style(nodes=2, steps=300)).write(tmp_path / "case")
    holding = _held_for_good(config)
    early, place = holding.effects[1].key, holding.effects[1].place
    shards = [(n, (f"s_{s}", f"t_{t}")) for n in ("dn-1", "dn-2") for s in range(2) for t in range(2)]
    holding = replace(holding, effects=tuple(Effect(*shard, early, place) for shard in shards))
    good = merge_case(config, holding=holding)
    real, learnt = PlanTable.learn, list[OrderKey]()

    def learn(self: PlanTable, node: int, body: bytes, key: OrderKey, own: bool, moved_to: OrderKey | None) -> int:
        if moved_to is not None:
            if key in fails:
                raise SchemaMismatch("made up")
            learnt.append(key)
        return real(self, node, body, key, own, moved_to)

    fails: list[OrderKey] = []
    with coordinated(holding), pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlanTable, "learn", learn)
        merge(config, tmp_path / "good")
        assert written(tmp_path / "good") == good.files
        assert len(set(learnt)) > 1
        fails.append(learnt[-1])  # behind others that were moved to the same place
        with pytest.raises(SchemaMismatch):
            merge(config, tmp_path / "out")
        assert_prefix(written(tmp_path / "out"), good.files)
        first = next(i for i, (key, _, _) in enumerate(good.transactions) if is_moved(OrderKey.parse(key)))
        assert state_of(tmp_path / "out").rank == first - 1  # without the DDL there
        fails.clear()
        merge(config, tmp_path / "out")
    assert written(tmp_path / "out") == good.files
