"""How many shards stand where: all that thousands of shards come to, told from the few places where they stand."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from snapshot_store.model import Table


class Standing(NamedTuple):
    """A shard's table as far as coordinated, and the one that it waits with, if it does."""

    normal: Table
    waiting: Table | None = None

    @property
    def final(self) -> Table:
        """Return the shard's table as it is."""
        return self.normal if self.waiting is None else self.waiting


@dataclass(frozen=True, slots=True)
class Census:
    """Counts of standings, told apart by which objects their tables are (`shapes.one`)."""

    _counts: Mapping[tuple[int, int], tuple[Standing, int]] = field(default_factory=dict)

    @staticmethod
    def of(standings: Iterable[Standing]) -> "Census":
        """Count from the beginning."""
        counts: dict[tuple[int, int], tuple[Standing, int]] = {}
        for standing in standings:
            _count(counts, standing, 1)
        return Census(counts)

    def __iter__(self) -> Iterator[tuple[Standing, int]]:
        """Yield each standing once, and how many shards stand there."""
        return iter(self._counts.values())

    def moved(self, old: Standing | None, new: Standing | None) -> "Census":
        """Return the census after a shard has come, gone, or gone from one place to another."""
        counts = dict(self._counts)
        if old is not None:
            _count(counts, old, -1)
        if new is not None:
            _count(counts, new, 1)
        return Census(counts)


def _count(counts: dict[tuple[int, int], tuple[Standing, int]], standing: Standing, change: int) -> None:
    key = (id(standing.normal), id(standing.waiting))
    known, count = counts.get(key, (standing, 0))
    if count + change:
        counts[key] = (known, count + change)
    else:
        del counts[key]
