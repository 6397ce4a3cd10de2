"""Columns as bytes that travel: a block is cut into pieces, so that no engine needs to hold a large value.

A piece has a part of the block's rows, each column as narrow as it fits. It says itself which rows these are: a reader
may get some of a block's pieces, as long as those are there whose rows it reads (`Part`).

`Columns`, named integer columns of equal length, are how rows are held in memory.
"""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[np.int64]
Columns = Mapping[str, npt.NDArray[Any]]


def view(buffer: npt.NDArray[Any]) -> memoryview:
    """Return the bytes of an array as a memoryview, to read into or write from."""
    return memoryview(buffer)  # type: ignore[arg-type]


def from_rows(rows: npt.NDArray[np.int64], names: Sequence[str], where: Sequence[int]) -> dict[str, Column]:
    """Return the columns `where` of a row-wise array, named `names`."""
    return {name: rows[:, column] for name, column in zip(names, where, strict=True)}


PIECE_ROWS = 1 << 15


class Extent(NamedTuple):
    """The rows of a piece: the first one's number in the block, how many, and their least and greatest `tso`, or
    `max_tso`.

    Without rows or without such a column both are 0.
    """

    first: int
    rows: int
    low: int
    high: int


class Part(Protocol):
    """The part of a block that a task reads, so that no more is carried to it."""

    def meets(self, piece: Extent) -> bool:
        """Return whether a piece has rows of the part."""


@dataclass(frozen=True, slots=True)
class Whole:
    """All of a block."""

    def meets(self, piece: Extent) -> bool:
        """Return True."""
        return True


@dataclass(frozen=True, slots=True)
class Between:
    """The rows with low <= tso < high, of a block that is sorted by the column `tso`."""

    low: int
    high: int

    def meets(self, piece: Extent) -> bool:
        """Return whether a piece has rows of the part."""
        return bool(piece.rows) and piece.low < self.high and self.low <= piece.high


@dataclass(frozen=True, slots=True)
class BetweenRaised:
    """The rows with low <= tso < high, where a row's tso is the greatest of its `max_tso`, which does not fall from row
    to row, and of `raised`: pairs of a row's number and the tso that it and all rows after it have at least.
    """

    low: int
    high: int
    raised: tuple[tuple[int, int], ...]

    def meets(self, piece: Extent) -> bool:
        """Return whether a piece has rows of the part."""
        last = piece.first + piece.rows - 1
        least = max((piece.low, *(tso for row, tso in self.raised if row <= piece.first)))
        most = max((piece.high, *(tso for row, tso in self.raised if row <= last)))
        return bool(piece.rows) and least < self.high and self.low <= most


@dataclass(frozen=True, slots=True)
class Span:
    """The rows from number `start` up to, without it, number `stop`."""

    start: int
    stop: int

    def meets(self, piece: Extent) -> bool:
        """Return whether a piece has rows of the part."""
        return piece.first < self.stop and self.start < piece.first + piece.rows


def needed(pieces: Sequence[Extent], part: Part) -> list[int]:
    """Return the numbers of the pieces that a reader of `part` needs: at least one, which names the columns."""
    return [number for number, piece in enumerate(pieces) if part.meets(piece)] or [0]


class _Layout(NamedTuple):
    """How a column lies in a piece: values, or with `steps` the steps from `first` on, less `base`, in `width` bytes
    each.
    """

    name: str
    base: int
    width: int
    steps: bool
    first: int


class _Head(NamedTuple):
    extent: Extent
    columns: tuple[_Layout, ...]


def in_pieces(columns: Columns) -> list[bytes]:
    """Return the pieces of a block, in order; one without rows if it has none."""
    rows = len(next(iter(columns.values()))) if columns else 0
    return [
        _packed(start, {name: values[start : start + PIECE_ROWS] for name, values in columns.items()})
        for start in range(0, max(rows, 1), PIECE_ROWS)
    ]


def joined(pieces: Sequence[bytes], names: Sequence[str] | None = None) -> dict[str, Column]:
    """Return the columns of pieces, or those named, one piece after the other."""
    found = [_unpacked(piece, names) for piece in pieces]
    return found[0] if len(found) == 1 else {name: np.concatenate([part[name] for part in found]) for name in found[0]}


def rows_of(pieces: Sequence[bytes], start: int, stop: int) -> dict[str, Column]:
    """Return the rows from number `start` to `stop` of a block, of which at least the pieces with these are there."""
    span = Span(start, stop)
    inside = [piece for piece in pieces if span.meets(extent_of(piece))] or pieces[:1]
    first = extent_of(inside[0]).first
    return {name: values[max(0, start - first) : max(0, stop - first)] for name, values in joined(inside).items()}


def only(piece: bytes, names: Sequence[str]) -> bytes:
    """Return a piece without its other columns."""
    return _packed(extent_of(piece).first, _unpacked(piece, names))


def extent_of(piece: bytes) -> Extent:
    """Return which rows a piece has."""
    return _head(piece)[0].extent


def _head(piece: bytes) -> tuple[_Head, int]:
    length = int.from_bytes(piece[:4], "little")
    extent, *columns = pickle.loads(piece[4 : 4 + length])
    return _Head(Extent(*extent), tuple(_Layout(*column) for column in columns)), 4 + length


def _packed(first: int, columns: Columns) -> bytes:
    """Return a piece: of each column the values, or their steps where these are smaller, as narrow as they fit."""
    layout, parts = [], []
    for name, values in columns.items():
        wide = values.astype(np.int64, copy=False)
        coded = min(_narrow(wide, False), _narrow(np.diff(wide), True), key=lambda code: code.width)
        layout.append((name, coded.base, coded.width, coded.steps, int(wide[0]) if len(wide) else 0))
        # Differences wrap: what is subtracted from int64 and read as unsigned is right modulo 2^64.
        above = (coded.values - np.int64(coded.base)).view(np.uint64)
        parts.append(above.astype(f"<u{coded.width}").tobytes() if coded.width else b"")
    rows, tso = len(wide) if columns else 0, columns.get("tso", columns.get("max_tso"))
    low, high = (int(tso.min()), int(tso.max())) if tso is not None and rows else (0, 0)
    head = pickle.dumps(((first, rows, low, high), *layout))
    return b"".join([len(head).to_bytes(4, "little"), head, *parts])


class _Narrow(NamedTuple):
    values: Column
    base: int
    width: int
    steps: bool


def _narrow(values: Column, steps: bool) -> _Narrow:
    """Return how many bytes values need above the least of them."""
    least, most = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    width = next(width for width in (0, 1, 2, 4, 8) if (most - least) % (1 << 64) < 1 << 8 * width)
    return _Narrow(values, least, width, steps)


def _unpacked(piece: bytes, names: Sequence[str] | None) -> dict[str, Column]:
    """Return the columns of a piece, or those named."""
    head, at = _head(piece)
    rows, found = head.extent.rows, dict[str, Column]()
    for column in head.columns:
        steps = column.steps and bool(rows)
        stored = rows - 1 if steps else rows
        if names is None or column.name in names:
            if column.width:
                values = np.frombuffer(piece, f"<u{column.width}", stored, at).astype(np.uint64).view(np.int64)
                values += np.int64(column.base)
            else:
                values = np.full(stored, column.base, np.int64)
            found[column.name] = _summed(values, column.first) if steps else values
        at += stored * column.width
    return found


def _summed(steps: Column, first: int) -> Column:
    """Return the values whose steps these are."""
    values = np.empty(len(steps) + 1, np.int64)
    values[0] = first
    np.cumsum(steps, out=values[1:])
    values[1:] += np.int64(first)
    return values
