"""How far random searches go: as far as a change needs to be checked, and further with `make test THOROUGH=1`."""

import os
import random
from collections.abc import Collection, Iterable, Sequence
from itertools import cycle, product
from typing import Any, Final, TypeVar

import pytest

One = TypeVar("One")
Other = TypeVar("Other")

THOROUGH: Final = os.environ.get("THOROUGH") == "1"
_USUAL_SEED: Final = 20261120


def effort(usual: int, thorough: int) -> int:
    """Return how many seeds, rounds or places to try."""
    return thorough if THOROUGH else usual


def crossed(ones: Iterable[One], others: Sequence[Other]) -> list[tuple[One, Other]]:
    """Return every pair of a thorough search, else for each of the first one of the others, by turns."""
    if THOROUGH:
        return list(product(ones, others))
    return list(zip(ones, cycle(others), strict=False))


def keeping(kept: Collection[Any], values: Iterable[Any]) -> list[Any]:
    """Return values as parameters of a test, of which those that are not kept are extended.

    A value of several parameters is a tuple, which is kept if its first one is.
    """
    tuples = [value if isinstance(value, tuple) else (value,) for value in values]
    marks = [() if value in kept or value[0] in kept else pytest.mark.extended for value in tuples]
    return [pytest.param(*value, marks=mark) for value, mark in zip(tuples, marks, strict=True)]


def seed_of_search() -> int:
    """Return SOAK_SEED, else a new one if the search is thorough, else always the same: what fails is the change.

    It is printed, so that pytest shows it where a test fails.
    """
    seed = int(os.environ.get("SOAK_SEED", random.SystemRandom().randrange(1 << 32) if THOROUGH else _USUAL_SEED))
    print("seed", seed)
    return seed
