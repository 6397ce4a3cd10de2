"""Opens a node's file again after it was discovered. Since then it may have grown, but not changed otherwise.

A file that is copied again, cut, purged or replaced between two reads would give bytes that were never written one
after the other. So every reader opens it here.
"""

import os
from dataclasses import dataclass

from binlog_merge.config.uri import local_path
from binlog_merge.errors import FileChanged, IoError
from binlog_merge.files.head import file_identity
from binlog_merge.files.read_ahead import ReadAhead
from binlog_merge.files.source import Closing, Source, open_source


@dataclass(frozen=True, slots=True)
class Instead:
    """What is read in place of the group at [start, end) of a file, as somebody decided.

    `group` has what begins the group, up to its GTID event, and a TRANSACTION_PAYLOAD_EVENT with all else; with
    checksums as in the file. `said` is what the result says of it, and `why`.
    """

    start: int
    end: int
    group: bytes
    said: str
    why: str


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A discovered file: its size at that time, and its identity (`head.file_identity`).

    Its bytes are what `KnownSource` reads; who reads a group takes what is decided in its place, `instead_of`.
    """

    node: str
    path: str
    size: int
    identity: str
    instead: tuple[Instead, ...] = ()

    def instead_of(self, start: int) -> Instead | None:
        """Return what is read in place of the group that begins at an offset, None if nothing is decided about it."""
        return next((each for each in self.instead if each.start == start), None)


class KnownSource(Closing):
    """The first `size` bytes of a file, read-only: a read that ends before them raises FileChanged."""

    def __init__(self, source: Source, file: KnownFile) -> None:
        self._source = source
        self._file = file
        self.size = file.size

    def expect(self, stop: int) -> None:
        """Say that what comes before `stop` is read next; it is read ahead, if the file was opened for that."""
        if isinstance(self._source, ReadAhead):
            self._source.stop = stop

    @property
    def held(self) -> int:
        """Return how many bytes are held that were read ahead."""
        return self._source.held if isinstance(self._source, ReadAhead) else 0

    def release(self) -> None:
        """Forget what was read ahead."""
        if isinstance(self._source, ReadAhead):
            self._source.release()

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill `buffer` from `offset` on, or to the known end."""
        wanted = buffer[: max(0, self.size - offset)]
        got = self._source.read_into(wanted, offset)
        if got != len(wanted):
            raise _shorter(self._file, offset + got)
        return got

    def close(self) -> None:
        """Close the file; closing twice is allowed."""
        self._source.close()


def open_known(file: KnownFile, block: int | None = None) -> KnownSource:
    """Open a discovered file. Raises FileChanged if it is another file or is shorter now, IoError if it cannot.

    `block`: where the file is remote, it is read ahead in blocks of this size, once the reader says how far (`expect`).
    """
    local = local_path(file.path)
    if local is not None and not os.path.lexists(local):
        raise FileChanged("the file was there when the merge began, and is gone", node=file.node, file=file.path)
    try:
        source = open_source(file.path)
    except IoError as error:
        raise error.located(node=file.node) from None
    try:
        if source.size < file.size:
            raise _shorter(file, source.size)
        if file_identity(source) != file.identity:
            what = "the file is not the one that was there when the merge began"
            raise FileChanged(what, node=file.node, file=file.path, position=4)
    except (FileChanged, IoError):
        source.close()
        raise
    return KnownSource(source if block is None or local is not None else ReadAhead(source, block), file)


def _shorter(file: KnownFile, now: int) -> FileChanged:
    what = f"the file has {now} bytes, and had {file.size} when the merge began"
    return FileChanged(what, node=file.node, file=file.path, position=now)
