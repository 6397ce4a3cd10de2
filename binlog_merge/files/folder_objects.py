"""A local folder as a store of objects: an archive on a mounted disk has the layout of one in an object store."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from binlog_merge.errors import IoError, ManifestError, io_error
from binlog_merge.files.durable import replace_file, sync_directory, sync_file
from binlog_merge.files.objects import Found


class FolderObjects:
    """The files below a folder, with the methods of `files.objects.Objects`. All of them raise IoError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def place(self, name: str = "") -> str:
        """Return the path of an object."""
        return str(self._folder / name if name else self._folder)

    def check(self) -> None:
        """Raise IoError if the folder is not there: it is not made, since a disk may only not be mounted."""
        if not self._folder.is_dir():
            raise IoError("there is no such folder", file=str(self._folder), remedy="make it, or mount it")

    def below(self, folder: str = "") -> dict[str, Found]:
        """Return the objects in a folder and below it, by name."""
        root = self._folder / folder
        with self._explained(folder):
            found = [path for path in root.rglob("*") if path.is_file() and not path.name.endswith(".part")]
            return {str(path.relative_to(self._folder)): Found(path.stat().st_size, "") for path in found}

    def read(self, name: str) -> bytes | None:
        """Return an object's bytes, None if there is none."""
        with self._explained(name):
            try:
                return (self._folder / name).read_bytes()
            except FileNotFoundError:
                return None

    def written_at(self, name: str) -> float:
        """Return when an object was written, in seconds since 1970; 0.0 if there is none."""
        with self._explained(name):
            try:
                return (self._folder / name).stat().st_mtime
            except FileNotFoundError:
                return 0.0

    def size_of(self, name: str) -> int | None:
        """Return an object's size, None if there is none."""
        with self._explained(name):
            try:
                return (self._folder / name).stat().st_size
            except FileNotFoundError:
                return None

    def fetch(self, name: str, path: Path, size: int, start: int = 0) -> str | None:
        """Copy the first `size` bytes of an object into a file; see Objects."""
        with self._explained(name):
            try:
                source = (self._folder / name).open("rb")
            except FileNotFoundError:
                return None
            with source, path.open("r+b" if start else "wb") as target:
                if os.fstat(source.fileno()).st_size < size:
                    raise ManifestError(f"{name} is shorter than published", file=self.place(name))
                source.seek(start)
                target.seek(start)
                shutil.copyfileobj(source, target, 1 << 20)
                target.truncate(size)
        return ""

    def create(self, name: str, data: bytes | Path) -> bool:
        """Write an object that is not there yet; return False, and change nothing, if another is there."""
        path = self._folder / name
        part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
        with self._explained(name):
            path.parent.mkdir(exist_ok=True)
            try:
                if isinstance(data, bytes):
                    part.write_bytes(data)
                else:
                    shutil.copyfile(data, part)
                sync_file(part)
                os.link(part, path)  # unlike a rename, it replaces nothing
            except FileExistsError:
                return self.is_same(name, data)
            finally:
                part.unlink(missing_ok=True)
            sync_directory(path.parent)
        return True

    def replace(self, name: str, data: bytes | Path, tag: str) -> bool:
        """Refuse to write an object again: in an archive none is."""
        return False

    def overwrite(self, name: str, data: bytes | Path) -> None:
        """Write an object, whether it is there or not."""
        replace_file(self._folder / name, data if isinstance(data, bytes) else data.read_bytes())

    def delete(self, names: list[str]) -> None:
        """Remove objects that may be there."""
        for name in names:
            with self._explained(name):
                (self._folder / name).unlink(missing_ok=True)

    def is_same(self, name: str, data: bytes | Path) -> bool:
        """Return whether an object is there with these bytes."""
        path = self._folder / name
        with self._explained(name):
            if isinstance(data, bytes):
                return path.exists() and path.read_bytes() == data
            if not path.exists() or path.stat().st_size != data.stat().st_size:
                return False
            with path.open("rb") as one, data.open("rb") as other:
                return all(part == other.read(1 << 20) for part in iter(lambda: one.read(1 << 20), b""))

    @contextmanager
    def _explained(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise io_error(error, self.place(name)) from error
