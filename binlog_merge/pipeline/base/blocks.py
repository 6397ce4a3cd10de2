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
        return unpacked(_HOLDER.get().get(path, names), names)
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
    found = _HOLDER.get().get_all(held, names) if held else {}
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

    def get(self, path: str, names: Sequence[str] | None) -> bytes:
        """Return a block; of one that is far away the columns `names` are enough. Raises KeyError."""

    def get_all(self, paths: Sequence[str], names: Sequence[str] | None) -> Mapping[str, bytes]:
        """Return several blocks."""


class Held:
    """Carried blocks in a dictionary: of a task, those that were brought and those that it writes."""

    def __init__(self, brought: Mapping[str, bytes] | None = None) -> None:
        self._brought = dict(brought or {})
        self.written: dict[str, bytes] = {}

    def put(self, path: str, block: bytes) -> None:
        """Take a block."""
        self.written[path] = block

    def get(self, path: str, names: Sequence[str] | None = None) -> bytes:
        """Return a block. Raises KeyError."""
        found = self.written.get(path)
        return self._brought[path] if found is None else found

    def get_all(self, paths: Sequence[str], names: Sequence[str] | None = None) -> Mapping[str, bytes]:
        """Return several blocks."""
        return {path: self.get(path) for path in paths}


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
    """Return columns as bytes: of each column its least value, and how far above it the others are, as few bytes wide
    as all of them need.
    """
    layout, parts = [], []
    for name, values in columns.items():
        base = int(values.min()) if len(values) else 0
        span = int(values.max()) - base if len(values) else 0
        kind = next(kind for kind in ("u1", "u2", "u4", "u8") if span < 1 << 8 * int(kind[1]))
        # Differences wrap: what is subtracted from int64 and read as unsigned is right modulo 2^64.
        parts.append((values.astype(np.int64) - np.int64(base)).view(np.uint64).astype(f"<{kind}").tobytes())
        layout.append((name, base, kind, len(values)))
    head = pickle.dumps(layout)
    return b"".join([len(head).to_bytes(8, "little"), head, *parts])


def unpacked(data: bytes, names: Sequence[str] | None = None) -> dict[str, Column]:
    """Return the columns of `packed`, or those named."""
    length = int.from_bytes(data[:8], "little")
    at, found = 8 + length, dict[str, Column]()
    for name, base, kind, count in pickle.loads(data[8 : 8 + length]):
        if names is None or name in names:
            narrow = np.frombuffer(data, f"<{kind}", count, at)
            found[name] = narrow.astype(np.uint64).view(np.int64) + np.int64(base)
        at += count * int(kind[1])
    return found
