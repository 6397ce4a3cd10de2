"""Any bytes as a node's file: right bytes, a documented error, or named by `verify`; with bounds checks in the kernels.

The attacks run in a process of their own, which a watchdog kills when it hangs: see `attack`.
"""

import os
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.effort import effort
from tests.merge_e2e.attack import attacks

ATTACKS, MANY = effort(12, 500), effort(40, 500)


def test_mutated_files(tmp_path: Path) -> None:
    _attack(tmp_path, ATTACKS, bounds=False)


@pytest.mark.extended
def test_mutated_files_with_bounds_checks(tmp_path: Path) -> None:
    """In one test: two side by side would both compile the kernels with bounds checks."""
    _attack(tmp_path, MANY, bounds=True)


def _attack(folder: Path, count: int, bounds: bool) -> None:
    seeds = list(range(count))
    outcomes = list(attacks(seeds, folder, bounds))
    wrong = [f"seed {one['seed']}: {one['wrong']}" for one in outcomes if "wrong" in one]
    assert not wrong, "\n".join(wrong)
    assert [one["seed"] for one in outcomes] == seeds
    # An attack that changes nothing proves nothing.
    kinds = Counter(one["outcome"].split()[0] for one in outcomes)
    assert kinds["error"] > len(seeds) // 3 and kinds["other"] > len(seeds) // 100, kinds


@pytest.mark.soak
def test_soak_of_mutated_files(tmp_path: Path) -> None:
    seed = int(os.environ.get("SOAK_SEED", time.time_ns() % 10**9 * 1000))
    stop = time.monotonic() + float(os.environ.get("SOAK_SECONDS", "600"))
    tried = 0
    while tried == 0 or time.monotonic() < stop:
        for one in attacks(range(seed + tried, seed + tried + 1000), tmp_path):
            assert "wrong" not in one, one
        tried += 1000
    print(f"{tried} mutated files")


@pytest.mark.extended  # it is about the attack itself
@pytest.mark.parametrize(("how", "patience", "told"), [("dies", 240, "ended with -9"), ("hangs", 3, "hangs")])
def test_a_process_that_fails_is_told_of_its_seed(
    how: str, patience: float, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTACK_FAULT", f"0:{how}")
    said = attacks(range(2), tmp_path, bounds=False, patience=patience)
    assert next(said) == {"seed": 0, "wrong": f"the process {told}"}
