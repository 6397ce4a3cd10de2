"""Files of a log that are in an object store: brought into a local folder when they are read.

The folder holds the files read last, MOST_BYTES of them; one that has been opened can be read to its end, even if it
has been removed from the folder since.
"""

import errno
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final, TypeVar

from binlog_merge.errors import ManifestError, io_error
from binlog_merge.files.manifest import OutputFile
from binlog_merge.files.object_manifest import Segment
from binlog_merge.files.object_output import PACKED, bring_bytes
from binlog_merge.files.objects import FolderObjects, Objects

MOST_BYTES: Final = 4 << 30
Used = TypeVar("Used")


class Away:
    """The files of a log below a URI. `parts_of` says which objects a file is. For many threads."""

    def __init__(
        self,
        objects: Objects | FolderObjects,
        parts_of: Callable[[OutputFile], Sequence[Segment]],
        folder: Path,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.objects = objects
        self._parts_of = parts_of
        self._folder = folder
        self._most_bytes = most_bytes
        self._lock = Lock()
        self._busy: dict[str, Lock] = {}
        self._here: OrderedDict[str, int] = OrderedDict()

    def path(self, file: OutputFile) -> Path:
        """Return the path of a local copy, which stays until others are read. Raises FileNotFoundError, MergeError."""
        return self._brought(file, lambda path: path)

    def opened(self, file: OutputFile, buffering: int = -1) -> BinaryIO:
        """Open a local copy. Raises FileNotFoundError if the object is not there, MergeError."""
        return self._brought(file, lambda path: path.open("rb", buffering))

    def _brought(self, file: OutputFile, use: Callable[[Path], Used]) -> Used:
        path = self._folder / file.name
        with self._lock:
            busy = self._busy.setdefault(file.name, Lock())
        with busy:
            with self._lock:
                have = self._here.pop(file.name, 0)
            if not path.exists():  # somebody tidies up temporary folders: what follows would stand behind zeros
                have = 0
            try:
                if have < file.size:
                    self._bring(file, path, have)
                with self._lock:
                    self._here[file.name] = max(have, file.size)
                    self._make_room()
                    return use(path)
            except FileNotFoundError:
                raise
            except OSError as error:
                raise io_error(error, str(path)) from error

    def _bring(self, file: OutputFile, path: Path, have: int) -> None:
        """Bring a file, or what it has grown by."""
        part = path if have else path.with_name(f".{file.name}.part")
        parts = self._parts_of(file)
        if parts[0].name.endswith(PACKED):
            self._unpack(parts[0].name, part, file)
        else:
            bring_bytes(self.objects, parts, part, have, file.size)
        if not have:
            part.replace(path)

    def _unpack(self, name: str, part: Path, file: OutputFile) -> None:
        import zstandard

        packed = part.with_name(f"{part.name}{PACKED}")
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
        while len(self._here) > 1 and sum(self._here.values()) > self._most_bytes:
            name, _ = self._here.popitem(last=False)
            with suppress(OSError):
                (self._folder / name).unlink()


def _absent() -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "the store does not have it (any more)")
