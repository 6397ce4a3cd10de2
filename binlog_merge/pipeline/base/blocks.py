"""Index blocks: named integer columns that one stage writes and later stages read, by a path.

In files: uncompressed Arrow, memory-mapped when read, where all that read a block share a file system. A file is
written under a temporary name and renamed, so a task that is retried or run twice leaves one whole block.

Carried (`held:` paths): nothing is shared. What a task writes goes with its result, packed, and the engine brings it to
the tasks that read it; `Runner` says how. The driver asks a `Holder`.
"""

import os
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Column = npt.NDArray[np.int64]
Columns = Mapping[str, npt.NDArray[Any]]

HELD: Final = "held:"
SMALL_BYTES: Final = 1 << 18
"""A file of this size is read faster than it is mapped: a round reads many that are smaller."""


def view(buffer: npt.NDArray[Any]) -> memoryview:
    """Return the bytes of an array as a memoryview, to read into or write from."""
    return memoryview(buffer)  # type: ignore[arg-type]


def from_rows(rows: npt.NDArray[np.int64], names: Sequence[str], where: Sequence[int]) -> dict[str, Column]:
    """Return the columns `where` of a row-wise array, named `names`."""
    return {name: rows[:, column] for name, column in zip(names, where, strict=True)}


def write_block(path: str, columns: Columns) -> None:
    """Write columns of equal length."""
    if path.startswith(HELD):
        _HOLDER.get().put(path, packed(columns))
        return
    arrays = [pa.array(np.ascontiguousarray(values)) for values in columns.values()]
    batch = pa.RecordBatch.from_arrays(arrays, list(columns))
    temporary = f"{path}.{uuid4().hex}.tmp"
    with pa.OSFile(temporary, "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    Path(temporary).replace(path)


def read_block(path: str, names: Sequence[str] | None = None) -> dict[str, Column]:
    """Return a block's columns, or those named. Pages of a file are read from disk when they are accessed."""
    if path.startswith(HELD):
        return unpacked(_HOLDER.get().get([path], names)[path], names)
    with Path(path).open("rb") as file:
        small = file.read(SMALL_BYTES) if os.fstat(file.fileno()).st_size <= SMALL_BYTES else None
    if small is not None:
        batch = pa.ipc.open_file(pa.py_buffer(small)).get_batch(0)
    else:
        with pa.memory_map(path) as source:
            batch = pa.ipc.open_file(source).get_batch(0)
    return {name: batch.column(name).to_numpy() for name in names or batch.schema.names}


def read_blocks(paths: Sequence[str], names: Sequence[str] | None = None) -> Iterator[dict[str, Column]]:
    """Yield the columns of several blocks; those that are carried are asked for at once."""
    held = [path for path in paths if path.startswith(HELD)]
    found = _HOLDER.get().get(held, names) if held else {}
    for path in paths:
        yield unpacked(found[path], names) if path in found else read_block(path, names)


class Slice(Protocol):
    """The part of a block that a task reads, so that no more is carried to it."""

    def of(self, columns: Columns) -> Columns:
        """Return the part."""


@dataclass(frozen=True, slots=True)
class Whole:
    """All of a block."""

    def of(self, columns: Columns) -> Columns:
        """Return the columns as they are."""
        return columns


@dataclass(frozen=True, slots=True)
class Between:
    """The rows with low <= tso < high, of a block that is sorted by the column `tso`."""

    low: int
    high: int

    def of(self, columns: Columns) -> Columns:
        """Return these rows."""
        start, stop = np.searchsorted(columns["tso"], [self.low, self.high])
        return {name: values[start:stop] for name, values in columns.items()}


class Read(NamedTuple):
    """What a task reads of a block. Tasks name it in `reads`."""

    path: str
    part: Slice = Whole()


def reads_of(task: object) -> tuple[Read, ...]:
    """Return what a task reads of carried blocks; of files nobody needs to know."""
    reads: Sequence[Read] = getattr(task, "reads", ())
    return tuple(read for read in reads if read.path.startswith(HELD))


class Holder(Protocol):
    """Where a process has its carried blocks, packed."""

    def put(self, path: str, block: bytes) -> None:
        """Take a block."""

    def get(self, paths: Sequence[str], names: Sequence[str] | None) -> Mapping[str, bytes]:
        """Return blocks; of those that are far away the columns `names` are enough. Raises KeyError."""


class Held:
    """Carried blocks in a dictionary: of a task, those that were brought and those that it writes."""

    def __init__(self, brought: Mapping[str, bytes] | None = None) -> None:
        self._brought = dict(brought or {})
        self.written: dict[str, bytes] = {}

    def put(self, path: str, block: bytes) -> None:
        """Take a block."""
        self.written[path] = block

    def get(self, paths: Sequence[str], names: Sequence[str] | None = None) -> Mapping[str, bytes]:
        """Return blocks. Raises KeyError."""
        return {path: self.written[path] if path in self.written else self._brought[path] for path in paths}


_HOLDER: ContextVar[Holder] = ContextVar("holder")


@contextmanager
def holding(holder: Holder) -> Iterator[None]:
    """Let this process's carried blocks be those of `holder`."""
    token = _HOLDER.set(holder)
    try:
        yield
    finally:
        _HOLDER.reset(token)


def packed(columns: Columns) -> bytes:
    """Return columns as bytes: the values of each, or their steps where these are smaller, as narrow as they fit."""
    layout, parts = [], []
    for name, values in columns.items():
        wide = values.astype(np.int64, copy=False)
        coded = min(_narrow(wide, False), _narrow(np.diff(wide), True), key=lambda code: code.width)
        first = int(wide[0]) if len(wide) else 0
        layout.append((name, coded.base, coded.width, coded.steps, first, len(wide)))
        # Differences wrap: what is subtracted from int64 and read as unsigned is right modulo 2^64.
        parts.append((coded.values - np.int64(coded.base)).view(np.uint64).astype(f"<u{coded.width}").tobytes())
    head = pickle.dumps(layout)
    return b"".join([len(head).to_bytes(8, "little"), head, *parts])


class _Narrow(NamedTuple):
    values: Column
    base: int
    width: int
    steps: bool


def _narrow(values: Column, steps: bool) -> _Narrow:
    """Return how many bytes values need above the least of them."""
    least, most = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    width = next(width for width in (1, 2, 4, 8) if (most - least) % (1 << 64) < 1 << 8 * width)
    return _Narrow(values, least, width, steps)


def unpacked(data: bytes, names: Sequence[str] | None = None) -> dict[str, Column]:
    """Return the columns of `packed`, or those named."""
    length = int.from_bytes(data[:8], "little")
    at, found = 8 + length, dict[str, Column]()
    for name, base, width, steps, first, count in pickle.loads(data[8 : 8 + length]):
        stored = count - 1 if steps and count else count
        if names is None or name in names:
            values = np.frombuffer(data, f"<u{width}", stored, at).astype(np.uint64).view(np.int64)
            values += np.int64(base)
            found[name] = _summed(values, first) if steps and count else values
        at += stored * width
    return found


def _summed(steps: Column, first: int) -> Column:
    """Return the values whose steps these are."""
    values = np.empty(len(steps) + 1, np.int64)
    values[0] = first
    np.cumsum(steps, out=values[1:])
    values[1:] += np.int64(first)
    return values
