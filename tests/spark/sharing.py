"""A task for `test_exchange`: pickled, so not in a test module."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sharing:
    """A number of its own, and what all have."""

    number: int
    common: tuple[int, ...]
