"""Reads byte ranges of a file, local or remote, into reusable buffers.

Local files are read with `pread`: no seek, no mmap (its pages would count as our memory), no extra copy. Remote files
(s3://, hdfs://, …) are read through pyarrow's file systems (`files.remote`).

A remote file is read ahead of its reader, which asks for one small range after the other, mostly forward. A request to
a store takes a while to be answered, however little it asks for. So a file is asked for in blocks, and the next ones
while the reader works on what it has. A range that lies apart is read alone: it says nothing of what follows.
"""

import errno
import io
import os
import stat
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import lru_cache
from types import TracebackType
from typing import Any, Final, Protocol, Self

from binlog_merge.config.uri import local_path, scheme_of
from binlog_merge.errors import CHECK_PATH, IoError, ObjectStoreUnreachable, io_error
from binlog_merge.files.captured import Hole, hole_of
from binlog_merge.files.remote import OBJECT_SCHEMES, filesystem_of, remote_error, uri_of

READ_STEP = 1 << 30  # one preadv returns at most 2 GiB - 4 KiB
_READ_ATTEMPTS: Final = 6
_READ_SECONDS: Final = 30.0


class Source(Protocol):
    """An open file. Not thread-safe; every task opens its own."""

    @property
    def size(self) -> int:
        """Return the size in bytes at the time of opening."""

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill `buffer` from `offset` on and return how many bytes were read; fewer only at the end of the file."""

    def close(self) -> None:
        """Close the file; closing twice is allowed."""

    def __enter__(self) -> Self:
        """Return self."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the file."""


class Closing:
    """A context manager that calls `close` at the end of a `with` block."""

    def close(self) -> None:
        """Release the resource; closing twice is allowed."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class LocalSource(Closing):
    """A local file, read with preadv."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1
        try:
            self._fd = open_local(path)
            self.size = os.fstat(self._fd).st_size
        except OSError as error:
            raise io_error(error, path) from error

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill `buffer` from `offset` on; see Source."""
        done = 0
        while done < len(buffer):
            try:
                count = os.preadv(self._fd, [buffer[done : done + READ_STEP]], offset + done)
            except OSError as error:
                raise io_error(error, self._path, offset + done) from error
            if count == 0:
                break
            done += count
        return done

    def close(self) -> None:
        """Close the file."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class WithHole(Closing):
    """A captured file of which some bytes were not fetched: a read of these raises Purged."""

    def __init__(self, source: LocalSource, hole: Hole, path: str) -> None:
        self._source = source
        self._path = path
        self.hole = hole
        self.size = source.size

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill `buffer` from `offset` on, or to the file's end."""
        if offset < self.hole.end and offset + len(buffer) > self.hole.begin:
            raise self.hole.refusal(self._path, offset)
        return self._source.read_into(buffer, offset)

    def close(self) -> None:
        """Close the file; closing twice is allowed."""
        self._source.close()


class Bytes(Closing):
    """Bytes in memory, read like a file."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self.size = len(data)

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill `buffer` from `offset` on; see Source."""
        part = self._data[offset : offset + len(buffer)]
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        """Do nothing."""


class RemoteSource(Closing):
    """A file of a pyarrow file system. Several threads may read it at once."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        try:
            filesystem, path = filesystem_of(uri)
            self._file = filesystem.open_input_file(path)
            self.size = int(self._file.size())
        except OSError as error:
            raise remote_error(error, uri) from None

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill `buffer` from `offset` on; see Source.

        pyarrow itself does not ask again where a 500 or 503 says more than there are bytes to be read.
        """
        done, failures, begun = 0, 0, time.monotonic()
        while done < len(buffer):
            try:
                wanted = min(len(buffer) - done, READ_STEP)
                data = self._file.read_at(wanted, min(offset + done, self.size))
            except OSError as error:
                found = remote_error(error, self._uri, offset + done)
                failures += 1
                late = failures == _READ_ATTEMPTS or time.monotonic() - begun > _READ_SECONDS
                if late or not isinstance(found, ObjectStoreUnreachable):
                    raise found from None
                time.sleep(0.1 * 2**failures)
                continue
            if not data:
                break
            buffer[done : done + len(data)] = data
            done += len(data)
        return done

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class ObjectSource(Closing):
    """A file in a store that pyarrow does not read as others do: Azure's blobs (`files.objects`)."""

    def __init__(self, uri: str) -> None:
        from binlog_merge.files.objects import Objects

        folder, _, name = uri_of(uri).path.rpartition("/")
        self._objects, self._name = Objects(str(uri_of(uri).with_path(folder))), name
        size = self._objects.size_of(name)
        if size is None:
            raise IoError("there is no such file", file=uri, remedy=CHECK_PATH)
        self.size = size

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill `buffer` from `offset` on; see Source."""
        wanted = max(0, min(len(buffer), self.size - offset))
        for at in range(0, wanted, READ_STEP):
            self._objects.read_into(self._name, buffer[at : min(wanted, at + READ_STEP)], offset + at)
        return wanted

    def close(self) -> None:
        """Do nothing: each read is a request."""


class SourceFile(io.RawIOBase):
    """A source as a file."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.size = source.size
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go to an offset; see `io.IOBase.seek`."""
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` as far as there is something."""
        got = self._source.read_into(memoryview(buffer), self._at)
        self._at += got
        return got

    def close(self) -> None:
        """Close the source."""
        self._source.close()
        super().close()


_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def not_a_file(mode: int) -> str | None:
    """Return the kind of a path with this mode, in words, or None if it is a file."""
    return _KINDS.get(stat.S_IFMT(mode))


def open_local(path: str) -> int:
    """Return a descriptor that reads a local file. Raises IoError, also for a path that is not a file."""
    try:
        # Without O_NONBLOCK, opening a FIFO would wait for its writer.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise _not_opened(error, path) from error
    if kind := not_a_file(os.fstat(fd).st_mode):
        os.close(fd)
        raise IoError(f"is {kind}, not a file", file=path, remedy=CHECK_PATH)
    return fd


def _not_opened(error: OSError, path: str) -> IoError:
    if error.errno == errno.ENXIO:  # the error of opening a socket
        return IoError("is a socket, not a file", file=path, remedy=CHECK_PATH)
    if error.errno == errno.ENOENT and os.path.lexists(path):
        return IoError("is a symbolic link to nothing", file=path, remedy=CHECK_PATH)
    return io_error(error, path)


def open_source(path: str) -> Source:
    """Open a local path or a URI for reading; of a captured file what is not there is refused. Raises IoError."""
    local = local_path(path)
    if local is not None:
        source, hole = LocalSource(local), hole_of(local)
        return source if hole is None else WithHole(source, hole, path)
    return ObjectSource(path) if scheme_of(path) in OBJECT_SCHEMES else RemoteSource(path)


def is_text(path: str) -> bool:
    """Return whether a path is UTF-8; Python represents other bytes as surrogates."""
    return path.isascii() or not any("\ud800" <= c <= "\udfff" for c in path)


def directory_error(error: OSError, path: str) -> IoError:
    """Return why a directory cannot be made, or written to."""
    if isinstance(error, FileExistsError | NotADirectoryError):
        remedy = "give a directory, or a new name in one"
        return IoError("it is no directory, nor can one be made there", file=path, remedy=remedy)
    if isinstance(error, FileNotFoundError):  # as in /proc
        return IoError("no directory can be made there", file=path, remedy="choose another directory")
    return io_error(error, path)


BLOCK: Final = 8 << 20
LEAST_BLOCK: Final = 256 << 10
_ALL_BLOCKS: Final = 48 << 20
MOST_HELD: Final = 96 << 20
"""So much may the files of a reader hold before those are released that it does not read now."""
_AHEAD: Final = 2
_TURNS: Final = 3
"""So many ranges in a row that lie apart, but near each other, are where the reader goes on."""
_THREADS: Final = 8


def block_size(files: int) -> int:
    """Return the size of blocks, in bytes, for so many files that are read side by side: memory stays bounded."""
    return min(BLOCK, max(LEAST_BLOCK, _ALL_BLOCKS // max(files, 1)))


class ReadAhead(Closing):
    """A source that several threads may read at once, in blocks; what begins at `stop` or later is not read ahead."""

    def __init__(self, source: Source, block: int, stop: int = 0) -> None:
        self._source, self._block = source, block
        self.size, self.stop = source.size, stop
        self._blocks: dict[int, Future[bytearray]] = {}
        self._asked: list[Future[bytearray]] = []
        self._next: int | None = None  # the block that is read next if the reader goes on as before
        self._apart: list[int] = []  # the blocks of the last ranges, as long as they lay apart

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill `buffer` from `offset` on; see Source."""
        done, end = 0, max(offset, min(self.size, offset + len(buffer)))
        while offset + done < end:
            at = offset + done
            block = self._held(at // self._block)
            if block is None:
                return done + self._source.read_into(buffer[done : end - offset], at)
            begin = at % self._block
            part = memoryview(block)[begin : begin + end - at]
            if not part:  # the file is shorter than it was
                return done
            buffer[done : done + len(part)] = part
            done += len(part)
        return done

    @property
    def held(self) -> int:
        """Return how many bytes it holds, or has asked for."""
        return len(self._blocks) * self._block

    def release(self) -> None:
        """Forget what is held: the reader is elsewhere."""
        self._drop()
        self._asked = [asked for asked in self._asked if not asked.done()]

    def _held(self, number: int) -> bytearray | None:
        """Return a block, None if it lies apart from those that are read one after the other."""
        if number not in self._blocks and not self._goes_on(number):
            return None
        self._apart.clear()
        for wanted in range(number, number + 1 + _AHEAD):
            if wanted not in self._blocks and (wanted == number or wanted * self._block < min(self.size, self.stop)):
                self._blocks[wanted] = _threads(os.getpid()).submit(self._read, wanted)
                self._asked = [asked for asked in self._asked if not asked.done()] + [self._blocks[wanted]]
        self._next = max(self._next or 0, number + 1)
        for passed in [held for held in self._blocks if held < self._next - 2]:
            del self._blocks[passed]
        return self._blocks[number].result()

    def _goes_on(self, number: int) -> bool:
        """Return whether a block that is not held is the next one, or one where the reader goes on from now."""
        if number * self._block >= self.stop:
            return False
        if self._next is None or number == self._next:
            return True
        if self._apart and not 0 <= number - self._apart[-1] <= 1:
            self._apart.clear()
        self._apart.append(number)
        if len(self._apart) < _TURNS:
            return False
        self._drop()
        return True

    def _drop(self) -> None:
        for future in self._blocks.values():
            future.cancel()
        self._blocks, self._next = {}, None

    def _read(self, number: int) -> bytearray:
        begin = number * self._block
        block = bytearray(min(self._block, self.size - begin))
        with memoryview(block) as view:
            got = self._source.read_into(view, begin)
        del block[got:]
        return block

    def close(self) -> None:
        """Close the source, when no thread reads it any more."""
        self._drop()
        wait(self._asked)
        self._source.close()


@lru_cache(maxsize=1)
def _threads(process: int) -> ThreadPoolExecutor:
    """Return the threads of a process: those of its parent did not come along."""
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="read-ahead")
