"""Index blocks: named integer columns that one stage writes and later stages read, by a path.

In files: uncompressed Arrow, memory-mapped when read, where all that read a block share a file system. A file is
written under a temporary name and renamed, so a task that is retried or run twice leaves one whole block.

Carried (`held:` paths): nothing is shared. What a task writes goes with its result, in pieces, and the engine brings
those that it needs to each task that reads them; `Runner` says how. The driver asks a `Holder`.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from uuid import uuid4

import numpy as np
import pyarrow as pa

from binlog_merge.errors import IoError
from binlog_merge.pipeline.base.pieces import Column, Columns, Part, Whole, extent_of, in_pieces, joined, rows_of
from binlog_merge.pipeline.base.runner import Files

HELD: Final = "held:"
SMALL_BYTES: Final = 1 << 18
"""A file of this size is read faster than it is mapped: a round reads many that are smaller."""

Pieces = Sequence[bytes]


def write_block(path: str, columns: Columns, told: Sequence[str] = ()) -> None:
    """Write columns of equal length. `told` are those that the driver reads, by `read_told`.

    Carried, these are a block of their own as well: if it is small, it comes with the task's result. Raises IoError.
    """
    if path.startswith(HELD):
        holder = _HOLDER.get()
        if told:
            holder.put(_told(path), in_pieces({name: columns[name] for name in told}))
        holder.put(path, in_pieces(columns))
        return
    arrays = [pa.array(np.ascontiguousarray(values)) for values in columns.values()]
    batch = pa.RecordBatch.from_arrays(arrays, list(columns))
    temporary = f"{path}.{uuid4().hex}.tmp"
    try:
        with pa.OSFile(temporary, "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        Path(temporary).replace(path)
    except OSError as error:  # of Arrow's text the number alone is the system's
        with suppress(OSError):
            Path(temporary).unlink(missing_ok=True)
        raise IoError(os.strerror(error.errno) if error.errno else str(error), file=path) from error


def read_block(path: str, names: Sequence[str] | None = None) -> dict[str, Column]:
    """Return a block's columns, or those named. Pages of a file are read from disk when they are accessed.

    A task that says that it reads a part of a carried block may get more than that part, and less than the block.
    """
    if path.startswith(HELD):
        return joined(_HOLDER.get().get([path], names)[path], names)
    batch = _batch(path)
    return {name: batch.column(name).to_numpy() for name in names or batch.schema.names}


def read_told(path: str, names: Sequence[str]) -> dict[str, Column]:
    """Return the columns that a block tells the driver."""
    if path.startswith(HELD):
        return joined(_HOLDER.get().get([_told(path)], None)[_told(path)], names)
    return read_block(path, names)


def _told(path: str) -> str:
    return f"{path}.told"


def read_brought(path: str) -> tuple[int, dict[str, Column]]:
    """Return the columns of what a task has of a block that it reads in part, and the number of the first row."""
    if path.startswith(HELD):
        pieces = _HOLDER.get().get([path], None)[path]
        return extent_of(pieces[0]).first, joined(pieces)
    return 0, read_block(path)


def read_rows(path: str, start: int, stop: int) -> dict[str, Column]:
    """Return a block's rows from number `start` up to, without it, number `stop`."""
    if path.startswith(HELD):
        return rows_of(_HOLDER.get().get([path], None)[path], start, stop)
    return {name: values[start:stop] for name, values in read_block(path).items()}


def read_blocks(paths: Sequence[str], names: Sequence[str] | None = None) -> Iterator[dict[str, Column]]:
    """Yield the columns of several blocks; those that are carried are asked for at once."""
    held = [path for path in paths if path.startswith(HELD)]
    found = _HOLDER.get().get(held, names) if held else {}
    for path in paths:
        yield joined(found[path], names) if path in found else read_block(path, names)


def _batch(path: str) -> pa.RecordBatch:
    with Path(path).open("rb") as file:
        small = file.read(SMALL_BYTES) if os.fstat(file.fileno()).st_size <= SMALL_BYTES else None
    if small is not None:
        return pa.ipc.open_file(pa.py_buffer(small)).get_batch(0)
    with pa.memory_map(path) as source:
        return pa.ipc.open_file(source).get_batch(0)


class Read(NamedTuple):
    """What a task reads of a block. Tasks name it in `reads`."""

    path: str
    part: Part = Whole()


def reads_of(task: object) -> tuple[Read, ...]:
    """Return what a task reads of carried blocks; of files nobody needs to know."""
    reads: Sequence[Read] = getattr(task, "reads", ())
    return tuple(read for read in reads if read.path.startswith(HELD))


class Holder(Protocol):
    """Where a process has its carried blocks."""

    def put(self, path: str, block: Pieces) -> None:
        """Take a block."""

    def get(self, paths: Sequence[str], names: Sequence[str] | None) -> Mapping[str, Pieces]:
        """Return blocks; of those that are far away the columns `names` are enough. Raises KeyError."""


class Held:
    """Carried blocks in a dictionary: of a task, those that were brought and those that it writes."""

    def __init__(self, brought: Mapping[str, Pieces] | None = None) -> None:
        self._brought = dict(brought or {})
        self.written: dict[str, Pieces] = {}

    def put(self, path: str, block: Pieces) -> None:
        """Take a block."""
        self.written[path] = block

    def get(self, paths: Sequence[str], names: Sequence[str] | None = None) -> Mapping[str, Pieces]:
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


class InProcess(Held):
    """Blocks are where the driver is; its own tasks find them there, others get those that they name."""

    shared = False

    def prefix(self, work: Path) -> str:
        """Return what marks the path of a carried block."""
        return HELD

    def opened(self) -> AbstractContextManager[None]:
        """Let this process read and write the blocks."""
        return holding(self)

    def clear(self, work: Path, kept: frozenset[str]) -> None:
        """Forget all blocks but those whose paths up to the first dot are `kept`."""
        Files().clear(work, frozenset())
        self.written = {path: block for path, block in self.written.items() if path.partition(".")[0] in kept}
