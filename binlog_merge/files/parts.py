"""What executors render, where they share an object store with the driver and nothing else.

A new file is put under its name (`sent`), and the driver never sees its bytes. What an open file grows by goes to the
driver, which puts the file anew:

    PREFIX/parts/RUN/binlog.000001.5e0c…    of an attempt of a run that goes on, or was killed: the next run removes it

No reader looks there. Two attempts of one task put the same bytes, under one name or, in `parts`, under two. One that
comes so late that a record was published meanwhile puts nothing: nobody waits for it, and nobody would remove it.
"""

import uuid
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from binlog_merge.errors import OutputBusy, RenderedDamaged, io_error
from binlog_merge.files.intact import tail_of
from binlog_merge.files.objects import Objects, put_new

_READ: Final = 1 << 20
_LARGE: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class Rendered:
    """A file that one attempt wrote, to a path of its own: its size, and the CRC-32 of all its bytes."""

    path: Path
    size: int
    crc: int

    def check(self, name: str) -> None:
        """Read the file and compare it. Raises RenderedDamaged, with the `name` that it is to get, and IoError."""
        size = crc = 0
        following = _following(self.size)
        buffer = bytearray(_READ)
        try:
            with self.path.open("rb", buffering=0) as file:
                while got := file.readinto(buffer):
                    size, crc = size + got, following(buffer, got, crc)
        except OSError as error:
            raise io_error(error, str(self.path)) from error
        self.compare(name, size, crc)

    def compare(self, name: str, size: int, crc: int) -> None:
        """Raise RenderedDamaged if what was read of the file has another size or CRC-32."""
        if size != self.size:
            raise RenderedDamaged(f"{name} has {size} bytes where {self.size} were written", file=str(self.path))
        if crc != self.crc:
            raise RenderedDamaged(f"{name} has other bytes than were written to it", file=str(self.path))


def _following(size: int) -> Callable[[bytearray, int, int], int]:
    """Return what finds the CRC-32 of what has one already, followed by bytes: for large files a kernel, which takes a
    fifth of zlib's time.
    """
    if size < _LARGE:
        return lambda buffer, got, crc: zlib.crc32(memoryview(buffer)[:got], crc)
    import numpy as np

    from binlog_merge.binlog.kernels.crc32 import crc32_after

    return lambda buffer, got, crc: int(crc32_after(np.frombuffer(buffer, np.uint8), 0, got, crc))


PARTS: Final = "parts"
HEAD: Final = "manifest/head.jsonl"
"""The object of an output that has its last records: see `object_output`."""


@dataclass(frozen=True, slots=True)
class Away:
    """Where a run's tasks put what they write: the URI of the output, a name of the run, and the tag of the manifest's
    head to which the run will add; None if there is none yet.
    """

    store: str
    run: str
    head: str | None

    def opened(self) -> Objects:
        """Return the store, for an attempt that is to write. Raises OutputBusy if the run is over."""
        objects = Objects(self.store)
        try:
            is_over = objects.changed(HEAD, self.head) is not None
        except FileNotFoundError:
            is_over = self.head is not None
        if is_over:
            raise OutputBusy(
                "this run, or another, has published while a task was still writing",
                file=objects.place(HEAD),
                remedy="run it again, and it goes on from there",
            )
        return objects


@dataclass(frozen=True, slots=True)
class Sent:
    """A new file whose bytes are in the store: the name of its object, its size, and what `intact.tail_of` says."""

    name: str
    size: int
    tail: str


def sent(away: Away, file: str, rendered: Rendered) -> Sent:
    """Put a new file of an output. Raises what `Objects` raises, OutputBusy and RenderedDamaged."""
    rendered.check(file)
    name = put_new(away.opened(), file, rendered.path, own=away.run)
    return Sent(name, rendered.size, tail_of(rendered.path, rendered.size))


def send_part(away: Away, file: str, path: Path) -> str:
    """Put what a file of an output grows by, and return the name of its object. Raises as `sent` does."""
    name = f"{PARTS}/{away.run}/{file}.{uuid.uuid4().hex}"
    away.opened().overwrite(name, path)
    return name


def take_part(away: Away, name: str, path: Path, size: int) -> None:
    """Fetch a part from its object, and remove all of this run.

    Raises OutputBusy if it is not there: another run has begun, and removed it.
    """
    objects = Objects(away.store)
    if objects.fetch(name, path, size) is None:
        raise OutputBusy(
            "another merge into this output has begun, and removed what this one has written",
            file=objects.place(name),
            remedy="let one merge at a time write to an output; run it again, and it goes on from there",
        )
    objects.delete(list(objects.below(f"{PARTS}/{away.run}")))
