"""Any bytes as a node's file: a merge or a MergeError, and what is published is whole; no other exception, no hang."""

import random
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import pytest

from binlog_merge.errors import MergeError
from tests.merge_e2e.cases import INPUTS, copy_case
from tests.merge_e2e.editing import transactions
from tests.merge_e2e.local import merge, written
from tests.merge_e2e.mutation import mutated

SECONDS = 120  # with the kernels still to be compiled
ROUNDS = 3


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Raise TimeoutError when the block takes longer: seconds of work, not of a busy machine."""

    def late(number: int, frame: FrameType | None) -> NoReturn:
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@pytest.mark.parametrize("case", INPUTS, ids=lambda case: str(case.name))
def test_mutated_files(case: Path, tmp_path: Path) -> None:
    rng = random.Random(case.name)
    for number in range(ROUNDS):
        attack(case, tmp_path / str(number), rng)


def attack(case: Path, folder: Path, rng: random.Random) -> None:
    """Merge a case with one file mutated."""
    config = copy_case(case, folder / "case", _any_carrier if rng.random() < 0.3 else None)
    files = sorted(p for p in (folder / "case" / "nodes").glob("*/binlog.*") if p.suffix != ".index")
    path = rng.choice(files)
    path.write_bytes(mutated(path.read_bytes(), rng))
    try:
        with within(SECONDS):
            merge(config, folder / "out", end_of_input=rng.random() < 0.7, partitions=rng.choice([None, 2, 7]))
    except MergeError as error:
        assert error.exit_code != 70, error
        assert error.remedy, error
    transactions(written(folder / "out"))
    shutil.rmtree(folder)


def _any_carrier(values: dict[str, Any]) -> None:
    values["commit-tso"] = {"carrier": "auto"}
