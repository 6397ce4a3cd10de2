"""Simulated histories against the oracle and against what they mean: a few seeds always, many by `make soak`.

A seed that fails is told in the test's name or message; `SOAK_SEED=n SOAK_SECONDS=1 make soak` begins with it.
"""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.effort import effort
from tests.soak.properties import PROPERTIES

SEEDS = {"whole": 2, "growth": 2, "killed": 2, "damage": 3, "stops": 2, "rounds": 2, "new-host": 2}
SEEDS |= {"polardbx-growth": 2, "polardbx-killed": 1, "polardbx-damage": 2, "polardbx-stops": 2, "polardbx-rounds": 1}
SEEDS |= {"polardbx-new-host": 1}


def _seeds() -> Iterator[object]:
    """Yield of each property all seeds; all but one, by turns short and long histories, are extended tests."""
    for number, (name, count) in enumerate(SEEDS.items()):
        for seed in range(effort(count, 2 * count)):
            yield pytest.param(name, seed, marks=() if seed == (number + 2) % count else pytest.mark.extended)


@pytest.mark.parametrize(("name", "seed"), [*_seeds()])
def test_property(name: str, seed: int, tmp_path: Path) -> None:
    PROPERTIES[name](seed, tmp_path, steps=(20, 60, 120)[seed % 3], large=(10, 300, 20_000)[seed % 3])


@pytest.mark.parametrize(
    ("seed", "steps", "large"),
    [
        pytest.param(1011, 15, 10, id="commit rows of a node that is read further than the one that needs them"),
        pytest.param(
            *(1006, 30, 300), id="pieces that were scanned before the carrier showed", marks=pytest.mark.extended
        ),
        pytest.param(
            *(1021, 30, 300), id="a node that joins, after something was published", marks=pytest.mark.extended
        ),
    ],
)
def test_rounds_that_went_wrong(seed: int, steps: int, large: int, tmp_path: Path) -> None:
    PROPERTIES["polardbx-rounds"](seed, tmp_path, steps=steps, large=large)


@pytest.mark.soak
def test_soak(tmp_path: Path) -> None:
    seed = int(os.environ.get("SOAK_SEED", time.time_ns() % 10**9 * 1000))
    stop = time.monotonic() + float(os.environ.get("SOAK_SECONDS", "600"))
    names = os.environ.get("SOAK_PROPERTIES", ",".join(PROPERTIES)).split(",")
    tried = 0
    while tried == 0 or time.monotonic() < stop:
        for name in names:
            folder = tmp_path / f"{seed}-{name}"
            try:
                PROPERTIES[name](seed, folder)
            except BaseException as error:
                error.add_note(f"property {name}, seed {seed}; {folder} is left as it was")
                raise
            shutil.rmtree(folder, ignore_errors=True)
        seed, tried = seed + 1, tried + 1
    print(f"{tried} seeds")
