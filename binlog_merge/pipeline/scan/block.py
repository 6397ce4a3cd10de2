"""Index blocks: named int64 columns in uncompressed Arrow files, memory-mapped when read.

A block is written under a temporary name and renamed, so a task that is retried or run twice leaves one whole block.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Column = npt.NDArray[np.int64]

SMALL_BYTES = 1 << 18
"""A file of this size is read faster than it is mapped: a round reads many that are smaller."""


def view(buffer: npt.NDArray[Any]) -> memoryview:
    """Return the bytes of an array as a memoryview, to read into or write from."""
    return memoryview(buffer)  # type: ignore[arg-type]


def write_block(path: str, columns: Mapping[str, Column]) -> None:
    """Write columns of equal length as one Arrow file."""
    arrays = [pa.array(np.ascontiguousarray(values)) for values in columns.values()]
    batch = pa.RecordBatch.from_arrays(arrays, list(columns))
    temporary = f"{path}.{uuid4().hex}.tmp"
    with pa.OSFile(temporary, "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    Path(temporary).replace(path)


def read_block(path: str) -> dict[str, Column]:
    """Map a block's columns into memory; pages are read from disk when they are accessed. A small block is read."""
    with Path(path).open("rb") as file:
        small = file.read(SMALL_BYTES) if os.fstat(file.fileno()).st_size <= SMALL_BYTES else None
    if small is not None:
        batch = pa.ipc.open_file(pa.py_buffer(small)).get_batch(0)
    else:
        with pa.memory_map(path) as source:
            batch = pa.ipc.open_file(source).get_batch(0)
    return {name: column.to_numpy() for name, column in zip(batch.schema.names, batch.columns, strict=True)}


def from_rows(rows: npt.NDArray[np.int64], names: Sequence[str], where: Sequence[int]) -> dict[str, Column]:
    """Return the columns `where` of a row-wise array, named `names`."""
    return {name: rows[:, column] for name, column in zip(names, where, strict=True)}


@dataclass(frozen=True, slots=True)
class PieceBlock:
    """The block of a scanned piece: up to three files whose paths begin with `path`."""

    path: str

    def timed(self) -> dict[str, Column]:
        """Map the branches whose commit TSO is known, by TSO and transaction."""
        return read_block(self._file("timed"))

    def local(self) -> dict[str, Column]:
        """Map the transactions without a commit TSO and the DDL, in file order."""
        return read_block(self._file("local"))

    def used_rows(self) -> dict[str, Column]:
        """Map the commit rows that the piece's own branches used. The file exists only if there are any."""
        return read_block(self._file("rows"))

    def write(self, timed: Mapping[str, Column], local: Mapping[str, Column], used_rows: Mapping[str, Column]) -> None:
        """Write the files."""
        write_block(self._file("timed"), timed)
        write_block(self._file("local"), local)
        if any(len(column) for column in used_rows.values()):
            write_block(self._file("rows"), used_rows)

    def _file(self, name: str) -> str:
        return f"{self.path}.{name}.arrow"
