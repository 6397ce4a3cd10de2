"""Columns as bytes that travel: a block is cut into pieces, so that no engine needs to hold a large value.

A piece has a part of the block's rows, each column as narrow as it fits. It says itself which rows these are: a reader
may get some of a block's pieces, as long as those are there whose rows it reads (`Part`).

`Columns`, named integer columns of equal length, are how rows are held in memory.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.kernels.packed_columns import L_FIELDS, L_LEAST, L_MOST, pack, unpack

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


_HEAD: Final = struct.Struct("<I4qH")
"""Of a piece: the length of its head, its extent, and the number of its columns. Their names follow, and their
layouts.
"""
_LAYOUT: Final = 8 * L_FIELDS


class _Head(NamedTuple):
    extent: Extent
    names: tuple[str, ...]
    layout: npt.NDArray[np.int64]
    end: int


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
    _, *extent, _ = _HEAD.unpack_from(piece)
    return Extent(*extent)


def _head(piece: bytes) -> _Head:
    end, *extent, count = _HEAD.unpack_from(piece)
    begins = end - count * _LAYOUT
    names = tuple(piece[_HEAD.size : begins].decode().split("\0")) if count else ()
    layout = np.frombuffer(piece, np.int64, count * L_FIELDS, begins).reshape(count, L_FIELDS).copy()
    return _Head(Extent(*extent), names, layout, end)


def _packed(first: int, columns: Columns) -> bytes:
    """Return a piece: of each column the values, or their steps where these are smaller, as narrow as they fit."""
    names, rows = tuple(columns), len(next(iter(columns.values()))) if columns else 0
    wide = np.empty((len(names), rows), np.int64)
    for place, values in zip(wide, columns.values(), strict=True):
        place[:] = values
    layout, data = np.zeros((len(names), L_FIELDS), np.int64), np.empty(wide.nbytes, np.uint8)
    size = int(pack(wide, layout, data))
    tso = next((names.index(name) for name in ("tso", "max_tso") if name in columns), None)
    low, high = (0, 0) if tso is None else layout[tso, [L_LEAST, L_MOST]].tolist()
    text = "\0".join(names).encode()
    head = _HEAD.pack(_HEAD.size + len(text) + layout.nbytes, first, rows, low, high, len(names))
    return b"".join([head, text, layout.tobytes(), view(data)[:size]])


def _unpacked(piece: bytes, names: Sequence[str] | None) -> dict[str, Column]:
    """Return the columns of a piece, or those named."""
    head = _head(piece)
    wanted = [number for number, name in enumerate(head.names) if names is None or name in names]
    found = np.empty((len(wanted), head.extent.rows), np.int64)
    data = np.frombuffer(bytearray(piece), np.uint8)
    if not unpack(data, head.end, head.layout, np.array(wanted, np.int64), found):
        raise ValueError("a piece of a block is not whole")
    return {head.names[number]: values for number, values in zip(wanted, found, strict=True)}
