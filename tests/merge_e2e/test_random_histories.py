"""Random histories against the oracle: as one run, in many runs, with any cuts; `make soak` plays them for longer."""

import os
import random
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.effort import keeping
from tests.merge_e2e.growth import merge_growing
from tests.merge_e2e.local import merge, written
from tests.merge_e2e.simulator import Simulator, Style
from tests.oracle import merge_case

STYLES = (
    Style(),
    Style(nodes=3, steps=400, rotate=0.03),
    Style(nodes=1, carrier="original-commit-timestamp"),
    Style(nodes=4, steps=300, carrier="gtid", max_size=3000),
    Style(nodes=3, steps=300, reshaped=True, max_size=9000, rotate=0.02),
    Style(nodes=2, steps=400, reshaped=True, large=0.1, rotate=0.05),
    Style(nodes=3, steps=300, carrier="gtid-time", rotate=0.03),
)


@pytest.mark.parametrize("style", keeping([4], range(len(STYLES))))  # reshaped
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
        style = rng.choice(STYLES)
        style = replace(style, steps=rng.choice([30, 100, 400, 1500]), nodes=rng.randint(1, 5))
        print(f"seed {seed}, {style}")  # shown when it fails
        play(seed, style, tmp_path / str(seed))
        shutil.rmtree(tmp_path / str(seed))


def play(seed: int, style: Style, folder: Path) -> None:
    """Make up a history and merge it in several ways."""
    rng = random.Random(seed)
    config = Simulator(seed, style).write(folder / "case")
    expected = merge_case(config)
    for number, partitions in enumerate((None, rng.randint(2, 9), rng.randint(10, 60))):
        merge(config, folder / f"out-{number}", partitions=partitions)
        assert written(folder / f"out-{number}") == expected.files
    held = merge_case(config, end_of_input=False)
    result = merge(config, folder / "held", end_of_input=False, partitions=rng.randint(1, 9))
    assert {source: node.watermark for source, node in result.nodes.items()} == held.nodes
    assert written(folder / "held") == held.files
    merge_growing(config, folder / "grown", expected.files, 5, rng)
