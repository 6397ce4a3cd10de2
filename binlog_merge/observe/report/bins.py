"""Histograms whose size does not depend on how much they count.

A bin holds the values v with the same v >> shift. When the range outgrows the bins, neighbours are joined and the shift
grows by one, so that no pass over the log is needed before the one that counts.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

MOST_CELLS: Final = 60_000
"""Series times bins: what bounds a page's size."""


def size_for(series: int, most: int) -> int:
    """Return how many bins each of so many series may have: a power of two from 64 to `most`."""
    size = most
    while size > 64 and size * max(series, 1) > MOST_CELLS:
        size >>= 1
    return size


class Bins:
    """Counts of several series over one axis of integers (µs since 1970, or ranks), in at most `size` bins."""

    def __init__(self, size: int, series: int = 0) -> None:
        self.size = size
        self.shift = 0
        self.first = 0
        self._end = 0
        self.counts: Numbers = np.zeros((series, size), np.int64)

    def add(self, series: Numbers, values: Numbers, amounts: Numbers | int = 1) -> None:
        """Add `amounts` to each series' bin of each value; the values are not negative."""
        if not len(values):
            return
        self._widen(int(values.min()), int(values.max()))
        self._grow(int(series.max()) + 1)
        np.add.at(self.counts, (series, (values >> self.shift) - self.first), amounts)

    def _grow(self, series: int) -> None:
        if series > len(self.counts):
            grown = np.zeros((max(series, 2 * len(self.counts)), self.size), np.int64)
            grown[: len(self.counts)] = self.counts
            self.counts = grown

    def _widen(self, least: int, most: int) -> None:
        low, high = least >> self.shift, most >> self.shift
        if self._end > self.first:
            low, high = min(low, self.first), max(high, self._end - 1)
        joined = 0
        while (high >> joined) - (low >> joined) >= self.size:
            joined += 1
        first = low >> joined
        if self._end > self.first and (joined or first != self.first):
            used = self._end - self.first
            places = ((self.first + np.arange(used)) >> joined) - first
            moved = np.zeros_like(self.counts.T)
            np.add.at(moved, places, self.counts.T[:used])
            self.counts = np.ascontiguousarray(moved.T)
        self.shift += joined
        self.first, self._end = first, (high >> joined) + 1

    def series(self, number: int) -> Numbers:
        """Return a series' bins, up to the last one in use."""
        used = self._end - self.first
        return self.counts[number, :used] if number < len(self.counts) else np.zeros(used, np.int64)

    def axis(self) -> dict[str, int]:
        """Return where the bins are: `start` and `width` in the axis' unit, and how many there are."""
        return {
            "start": self.first << self.shift,
            "width": 1 << self.shift,
            "bins": self._end - self.first,
        }


def sparse(counts: Numbers) -> list[int]:
    """Return the bins that are not empty as a flat list: number, count, number, count…"""
    places = np.flatnonzero(counts)
    found: list[Any] = np.stack([places, counts[places]], axis=1).reshape(-1).tolist()
    return found
