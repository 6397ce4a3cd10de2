"""Files of a log that are in an object store: brought into a local folder when they are read, as far as they are.

A copy has holes: of a file that is opened those blocks come that are read, and more of them at once to who reads on.
The folder holds the files read last, MOST_BYTES of them; what one that is open has read it can read again, even if the
copy has been removed from the folder since.
"""

import errno
import io
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final, TypeVar, cast

from binlog_merge.errors import IoError, ManifestError, io_error
from binlog_merge.files.manifest import OutputFile
from binlog_merge.files.object_manifest import Segment
from binlog_merge.files.object_output import PACKED, bring_bytes
from binlog_merge.files.objects import FolderObjects, Objects
from binlog_merge.files.scratch import remake
from binlog_merge.files.source import Closing, SourceFile

MOST_BYTES: Final = 4 << 30
BLOCK: Final = 256 << 10
"""So many bytes of a file come at least: a request costs more than they do."""
_MOST_AHEAD: Final = 64
"""So many blocks come at most to who reads on."""
_ATTEMPTS: Final = 5
Used = TypeVar("Used")


class _Copy:
    """What of a file is here: of each block the offset before which it is, if anything of it is; `bytes` in all.

    `inode` is that of the copy: somebody who tidies up temporary folders may remove it, and what is brought then would
    stand behind holes.
    """

    def __init__(self) -> None:
        self.blocks: dict[int, int] = {}
        self.bytes = 0
        self.inode = -1

    def missing(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges that are not here of the blocks between two offsets, as long as they can be."""
        begins: int | None = None
        for number in range(start // BLOCK, -(-end // BLOCK)):
            here = self.blocks.get(number, number * BLOCK)
            is_whole = here >= min(end, (number + 1) * BLOCK)
            if begins is not None and here > number * BLOCK:
                yield begins, number * BLOCK
                begins = None
            if begins is None and not is_whole:
                begins = here
        if begins is not None:
            yield begins, end

    def add(self, start: int, end: int) -> None:
        """Note that the bytes between two offsets are here, and those before them in the first block."""
        for number in range(start // BLOCK, -(-end // BLOCK)):
            here = self.blocks.get(number, number * BLOCK)
            self.blocks[number] = max(here, min(end, (number + 1) * BLOCK))
            self.bytes += self.blocks[number] - here


class Away:
    """The files of a log below a URI. `parts_of` says which objects a file is. For many threads.

    `looks_again` is called where an object of a file is not there (any more), with the objects that the file was: it
    returns whether the file is other objects by now.
    """

    def __init__(
        self,
        objects: Objects | FolderObjects,
        parts_of: Callable[[OutputFile], Sequence[Segment]],
        folder: Path,
        looks_again: Callable[[OutputFile, Sequence[Segment]], bool] = lambda file, parts: False,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.objects = objects
        self._parts_of = parts_of
        self._folder = folder
        self._looks_again = looks_again
        self._most_bytes = most_bytes
        self._lock = Lock()
        self._busy: dict[str, Lock] = {}
        self._here: OrderedDict[str, _Copy] = OrderedDict()

    def path(self, file: OutputFile) -> Path:
        """Return the path of a whole copy, which stays until others are read. Raises FileNotFoundError, MergeError."""
        return self.brought(file, 0, file.size, lambda path, copy, fd: path)

    def opened(self, file: OutputFile, buffering: int = -1) -> BinaryIO:
        """Open a file, whose bytes are brought as they are read.

        Raises FileNotFoundError, now or when it is read, if an object is not there, and MergeError.
        """
        raw = SourceFile(_Opened(self, file))
        if buffering == 0:
            return cast(BinaryIO, raw)
        return io.BufferedReader(raw, buffering if buffering > 0 else io.DEFAULT_BUFFER_SIZE)

    def brought(self, file: OutputFile, start: int, end: int, use: Callable[[Path, _Copy, int], Used]) -> Used:
        """Bring the bytes of a file between two offsets, and return what is made of its copy, which is open to read."""
        path = self._folder / file.name
        with self._lock:
            busy = self._busy.setdefault(file.name, Lock())
        with busy:
            with self._lock:  # nobody makes room in it meanwhile
                copy = self._here.pop(file.name, _Copy())
            try:
                try:
                    copy, fd = self._bring(file, path, copy, start, end)
                except BaseException:
                    with self._lock:
                        self._here[file.name] = copy
                    raise
                try:
                    with self._lock:
                        self._here[file.name] = copy
                        self._make_room()
                        return use(path, copy, fd)
                finally:
                    os.close(fd)
            except FileNotFoundError:
                raise
            except OSError as error:
                raise io_error(error, str(path)) from error

    def _bring(self, file: OutputFile, path: Path, copy: _Copy, start: int, end: int) -> tuple[_Copy, int]:
        """Bring bytes of a file; return its copy, which is another one if the first is not there any more, and a
        descriptor of it.

        It is open meanwhile: else a file that comes in its place could have the same inode.
        """
        while True:
            if copy.inode < 1 or _inode(path) != copy.inode:
                copy = _Copy()
                remake(self._folder)
                with suppress(FileNotFoundError):
                    path.unlink(missing_ok=True)
                    path.touch()
                copy.inode = _inode(path)
            with suppress(FileNotFoundError):
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    if os.fstat(fd).st_ino == copy.inode and self._bring_missing(file, path, copy, start, end):
                        return copy, os.dup(fd)
                finally:
                    os.close(fd)

    def _bring_missing(self, file: OutputFile, path: Path, copy: _Copy, start: int, end: int) -> bool:
        """Bring what is missing of a copy; return whether it is still there: what came is in another file otherwise,
        whose holes readers of the first would take for bytes.
        """
        for begins, ends in [*copy.missing(start, end)]:
            try:
                whole = self._bring_range(file, path, begins, ends)
            except (FileNotFoundError, IoError):
                if _inode(path) == copy.inode:
                    raise
                return False
            if _inode(path) != copy.inode:
                return False
            copy.add(0 if whole else begins, file.size if whole else ends)
            if whole:
                break
        return True

    def _bring_range(self, file: OutputFile, path: Path, start: int, end: int) -> bool:
        """Bring bytes of a file, or all of one that is compressed: return whether it is."""
        for attempt in range(_ATTEMPTS):
            parts = self._parts_of(file)
            packed = parts[0].name.endswith(PACKED)
            try:
                if packed:
                    self._unpack(parts[0].name, path, file)
                else:
                    bring_bytes(self.objects, parts, path, start, end)
            except FileNotFoundError:
                if attempt + 1 == _ATTEMPTS or not self._looks_again(file, parts):
                    raise
            else:
                return packed
        raise AssertionError

    def _unpack(self, name: str, part: Path, file: OutputFile) -> None:
        import zstandard

        packed = part.with_name(f".{part.name}{PACKED}")
        size = self.objects.size_of(name)
        if size is None or self.objects.fetch(name, packed, size) is None:
            raise _absent()
        try:
            with packed.open("rb") as source, part.open("wb") as target:
                _, written = zstandard.ZstdDecompressor().copy_stream(source, target)
        except zstandard.ZstdError as error:
            raise ManifestError(f"it cannot be unpacked: {error}", file=self.objects.place(name)) from None
        finally:
            packed.unlink(missing_ok=True)
        if written != file.size:
            raise ManifestError(
                f"{file.name} has {written} bytes there, not {file.size}", file=self.objects.place(name)
            )

    def _make_room(self) -> None:
        """Remove the files read longest ago, but for the last."""
        while len(self._here) > 1 and sum(copy.bytes for copy in self._here.values()) > self._most_bytes:
            name, _ = self._here.popitem(last=False)
            with suppress(OSError):
                (self._folder / name).unlink()


class _Opened(Closing):
    """A file of a log as one reader reads it: its published bytes, which are brought a few blocks at a time."""

    def __init__(self, away: Away, file: OutputFile) -> None:
        self._away = away
        self._file = file
        self._reads_on, self._ahead = -1, 1
        self._fd: int | None = None
        self._copy = _Copy()
        self._bring(0, min(file.size, 1))  # what is not there is said at once

    @property
    def size(self) -> int:
        """Return how many bytes are published."""
        return self._file.size

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill `buffer` from `offset` on; see Source. Raises as `Away.opened` says."""
        end = min(offset + len(buffer), self._file.size)
        if end <= offset:
            return 0
        while (missing := next(self._copy.missing(offset, end), None)) is not None:
            self._bring(missing[0], end)  # which may be into another copy, that lacks what the first one had
        assert self._fd is not None
        return os.preadv(self._fd, [buffer[: end - offset]], offset)

    def close(self) -> None:
        """Close the copy."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _bring(self, start: int, end: int) -> None:
        """Bring bytes, and to who reads on twice as many as the last time."""
        self._ahead = min(self._ahead * 2, _MOST_AHEAD) if start // BLOCK == self._reads_on else 1
        end = min(self._file.size, max(-(-end // BLOCK), start // BLOCK + self._ahead) * BLOCK)
        self._away.brought(self._file, start, end, self._take)
        self._reads_on = -(-end // BLOCK)

    def _take(self, path: Path, copy: _Copy, fd: int) -> None:
        if copy is not self._copy:
            opened = os.dup(fd)
            self.close()
            self._fd, self._copy = opened, copy


def _inode(path: Path) -> int:
    """Return the number of a file's inode, 0 if there is none."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0


def _absent() -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "the store does not have it (any more)")
