"""Rows that wait for DDL of shards: any effects, as one run, in many runs, with any cuts, are the oracle's bytes."""

import os
import random
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.merge_e2e.editing import assert_prefix
from tests.merge_e2e.growth import GrowingNode, schedule
from tests.merge_e2e.holding import coordinated, random_holding
from tests.merge_e2e.local import merge, state_of, written
from tests.merge_e2e.simulator import Simulator, Style
from tests.oracle import OracleResult, merge_case
from tests.oracle.config import load
from tests.oracle.holding import Holding
from tests.oracle.order import choose_carrier, order_node, read_node

STYLES = (
    Style(steps=150),
    Style(nodes=3, steps=300, rotate=0.05),
    Style(nodes=3, steps=200, carrier="gtid", max_size=3000),
    Style(nodes=2, steps=250, reshaped=True, max_size=5000, rotate=0.03),
)


@pytest.mark.parametrize("style", range(len(STYLES)))
@pytest.mark.parametrize("seed", range(3))
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


def made_up(config: Path, rng: random.Random) -> Holding:
    """Return effects of made-up DDL on the shards of a made-up cluster."""
    cluster = load(config)
    inputs = [(node, *read_node(node)) for node in cluster.nodes]
    carrier = choose_carrier(cluster, [g for _, _, groups in inputs for g in groups])
    orders = [order_node(cluster, node, version, groups, carrier) for node, version, groups in inputs]
    shards = [(node.source_id, (f"s_{s}", f"t_{t}")) for node in cluster.nodes for s in range(2) for t in range(2)]
    keys = [b.key for order in orders for b in order.branches]
    return random_holding(rng, keys, [b.key for order in orders for b in order.ddl], shards)


def play(seed: int, style: Style, folder: Path) -> None:
    """Make up a history and what its DDL come to, and merge it in several ways."""
    rng = random.Random(seed)
    config = Simulator(seed, style).write(folder / "case")
    holding = made_up(config, rng)
    expected = merge_case(config, holding=holding)
    with coordinated(holding):
        for number, partitions in enumerate((None, 2, rng.randint(3, 9), rng.randint(10, 60))):
            merge(config, folder / f"out-{number}", partitions=partitions)
            assert written(folder / f"out-{number}") == expected.files
        merge(config, folder / "unfinished", end_of_input=False, partitions=rng.randint(1, 9))
        assert written(folder / "unfinished") == merge_case(config, end_of_input=False, holding=holding).files
        _grow(config, folder / "grown", expected, rng)


def _grow(config: Path, out: Path, expected: OracleResult, rng: random.Random) -> None:
    """Merge while the nodes write; files that no run needs any more are removed."""
    homes = sorted((config.parent / "nodes").iterdir())
    nodes = {home.name: GrowingNode.of(home) for home in homes}
    anywhere = rng.random() < 0.3
    rounds = schedule(nodes, 6, anywhere, rng)
    for number, places in enumerate(rounds, 1):
        for name, place in places.items():
            nodes[name].grow(place, anywhere)
        merge(config, out, end_of_input=number == len(rounds), partitions=rng.choice([None, 2, 5, 20]))
        assert_prefix(written(out), expected.files)
        last = state_of(out).last
        if last is not None:
            for name, state in last.nodes.items():
                nodes[name].remove_before(state.checkpoint["file"])
    assert written(out) == expected.files
