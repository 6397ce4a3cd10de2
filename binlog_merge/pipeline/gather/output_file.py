"""The output file that a gather task writes, with its buffer.

Of a file that is continued only what is new is written, to a temporary file; publish appends it to the published part.
"""

import os
import zlib
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from binlog_merge.binlog.kernels.crc32 import crc32_after
from binlog_merge.errors import io_error
from binlog_merge.files.disk import WriteBehind
from binlog_merge.pipeline.base.pieces import view

_READ = 1 << 20
OUT_BUFFER = 20 << 20  # more than 2**24, so that a transaction that does not fit has a nine-byte length


class Sink(Protocol):
    """Where rendered events go: `buffer` has those that follow `position`."""

    position: int
    buffer: npt.NDArray[np.uint8]

    def write(self, count: int) -> None:
        """Take the first `count` bytes of the buffer."""

    def truncate(self, position: int) -> None:
        """Forget what follows `position`."""

    def overwrite(self, position: int, data: bytes) -> None:
        """Replace bytes that were taken."""

    def read_back(self, position: int) -> bytes:
        """Return the bytes that were taken from `position` on."""


@dataclass
class OutputFile:
    """The file being written, and a buffer with the bytes that follow its end.

    `begins` is the position in the output file at which what is written begins. One that is not `durable` is read once
    more and then gone: nothing makes it come to disk. `crc` is the CRC-32 of all that is written.
    """

    fd: int
    path: str
    begins: int = 0
    durable: bool = True
    position: int = field(init=False)  # in the output file, of the buffer's first byte
    crc: int = field(init=False, default=0)
    buffer: npt.NDArray[np.uint8] = field(default_factory=lambda: np.empty(OUT_BUFFER, np.uint8))

    def __post_init__(self) -> None:
        self.position = self.begins
        self._crc_before = dict[int, int]()  # by the position at which a write began
        self._behind = WriteBehind(self.fd) if self.durable else None

    def write(self, count: int) -> None:
        """Append the first `count` bytes of the buffer to the file."""
        part = view(self.buffer)[:count]
        self._crc_before[self.position] = self.crc
        self.crc = int(crc32_after(self.buffer, 0, count, self.crc))
        try:
            while part:
                part = part[os.write(self.fd, part) :]
        except OSError as error:
            raise io_error(error, self.path) from error
        self.position += count
        if self._behind is not None:
            self._behind.wrote(self.position - self.begins)

    def append(self, data: bytes) -> None:
        """Append bytes to the file, through the buffer, which must be empty."""
        self.buffer[: len(data)] = np.frombuffer(data, np.uint8)
        self.write(len(data))

    def truncate(self, position: int) -> None:
        """Truncate the file at `position`, where a write began, and continue there."""
        if position != self.position:
            self.crc = self._crc_before[position]
        os.ftruncate(self.fd, position - self.begins)
        os.lseek(self.fd, position - self.begins, os.SEEK_SET)
        self.position = position
        if self._behind is not None:
            self._behind.truncated(position - self.begins)

    def overwrite(self, position: int, data: bytes) -> None:
        """Replace bytes that are written already, from `position` on, where a write began."""
        os.pwrite(self.fd, data, position - self.begins)
        self.crc, at = self._crc_before[position], position
        while part := os.pread(self.fd, min(_READ, self.position - at), at - self.begins):
            self.crc = zlib.crc32(part, self.crc)
            at += len(part)

    def read_back(self, position: int) -> bytes:
        """Return the bytes that are written from `position` on. Raises IoError."""
        try:
            return os.pread(self.fd, self.position - position, position - self.begins)
        except OSError as error:
            raise io_error(error, self.path) from error

    def sync(self) -> None:
        """Flush everything to disk, if it is to be durable. Raises IoError."""
        if self._behind is None:
            return
        try:
            self._behind.finish()
            os.fsync(self.fd)
        except OSError as error:
            raise io_error(error, self.path) from error

    def close(self) -> None:
        """Close the file, whether or not it was flushed."""
        with suppress(OSError):
            if self._behind is not None:
                self._behind.finish()
        os.close(self.fd)
