"""The objects of an output in an object store: written only if absent or unchanged, so that no writer undoes another.

An object is there as a whole or not at all. A request whose answer is lost may have been carried out: then what is
there is compared with what was to be written.

A local folder is a store of objects, too: an archive on a mounted disk has the layout of one in an object store. A
file's object that is put for the first time overwrites nothing of unknown origin.
"""

import mmap
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from binlog_merge.config.uri import Uri
from binlog_merge.errors import (
    ConfigError,
    IoError,
    ManifestError,
    ObjectStoreRefused,
    ObjectStoreUnreachable,
    OutputBusy,
    io_error,
)
from binlog_merge.files.disk import replace_file, sync_directory, sync_file
from binlog_merge.files.object_stores import opened_store, refused

MOST_BYTES: Final = 5 << 30
"""The largest object that S3 takes in one request, as conditions need it."""
_FIRST_ANSWER: Final = timedelta(seconds=4)
_ANSWER: Final = timedelta(seconds=60)
_BYTES_A_SECOND: Final = 1 << 20  # slower than this counts as not answering
_READ_ATTEMPTS: Final = 5
_CHUNK: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class Found:
    """An object that is there: its size, and the tag that changes with its bytes."""

    size: int
    tag: str


class Objects:
    """The objects below a URI. All methods raise what `object_stores.refused` returns, or IoError."""

    def __init__(self, uri: str) -> None:
        self.uri = Uri.parse(uri)

    def place(self, name: str = "") -> str:
        """Return the URI of an object."""
        return str(self.uri.with_path(f"{self.uri.path.rstrip('/')}/{name}" if name else self.uri.path))

    def check(self) -> None:
        """Raise within seconds what is wrong with the store, if anything is."""
        import obstore

        with self._explained("read"):
            for _ in obstore.list(self._opened(_FIRST_ANSWER, retries=2), chunk_size=1):
                return

    def below(self, folder: str = "") -> dict[str, Found]:
        """Return the objects in a folder and below it, by name."""
        import obstore

        with self._explained("read"):
            found = obstore.list(self._opened(_ANSWER), folder or None).collect()
            return {each["path"]: Found(each["size"], _quoted(each["e_tag"])) for each in found}

    def read(self, name: str) -> bytes | None:
        """Return an object's bytes, None if there is none."""
        for attempt in range(_READ_ATTEMPTS):
            try:
                return b"".join(self._parts(name))
            except FileNotFoundError:
                return None
            except ObjectStoreUnreachable:
                if attempt + 1 == _READ_ATTEMPTS:
                    raise
        raise AssertionError

    def written_at(self, name: str) -> float:
        """Return when an object was written, in seconds since 1970; 0.0 if there is none."""
        found = self._head(name)
        return 0.0 if found is None else float(found["last_modified"].timestamp())

    def size_of(self, name: str) -> int | None:
        """Return an object's size, None if there is none."""
        found = self._head(name)
        return None if found is None else int(found["size"])

    def _head(self, name: str) -> Any:
        import obstore

        try:
            with self._explained("read", name):
                return obstore.head(self._opened(_ANSWER), name)
        except FileNotFoundError:
            return None

    def read_into(self, name: str, buffer: memoryview, offset: int) -> None:
        """Fill `buffer` with an object's bytes from `offset` on, all of which must be there."""
        import obstore

        with self._explained("read", name):
            buffer[:] = memoryview(obstore.get_range(self._opened(_ANSWER), name, start=offset, length=len(buffer)))

    def fetch(self, name: str, path: Path, size: int, start: int = 0) -> str | None:
        """Copy the first `size` bytes of an object into a new file, and return its tag; None if there is none.

        With `start` the file has so many of them already. Raises ManifestError if the object is shorter.
        """
        for attempt in range(_READ_ATTEMPTS):
            try:
                return self._fetch(name, path, size, start)
            except ObjectStoreUnreachable:
                if attempt + 1 == _READ_ATTEMPTS:
                    raise
        raise AssertionError

    def create(self, name: str, data: bytes | Path) -> bool:
        """Write an object that is not there yet; return False, and change nothing, if there is another of the name."""
        return self._put(name, data, "create")

    def replace(self, name: str, data: bytes | Path, tag: str) -> bool:
        """Write an object that still has this tag; return False, and change nothing, if it has another one now."""
        return self._put(name, data, {"e_tag": tag, **self._version(name, tag)})

    def overwrite(self, name: str, data: bytes | Path) -> None:
        """Write an object, whether it is there or not: for what can be made again."""
        self._put(name, data, "overwrite")

    def delete(self, names: list[str]) -> None:
        """Remove objects that may be there."""
        import obstore

        # Azure and Google complain of those that are not there.
        for some in [names] if self.uri.scheme == "s3" else [[name] for name in names]:
            with suppress(FileNotFoundError), self._explained("write to"):
                if some:
                    obstore.delete(self._opened(_ANSWER), some)

    def is_same(self, name: str, data: bytes | Path) -> bool:
        """Return whether an object is there with these bytes."""
        if isinstance(data, bytes):
            return self.read(name) == data
        try:
            with data.open("rb") as file:
                return all(part == file.read(len(part)) for part in self._parts(name)) and not file.read(1)
        except FileNotFoundError:
            return False

    def _version(self, name: str, tag: str) -> Mapping[str, str]:
        """Return the version of an object with this tag: Google's conditions are about versions, not tags."""
        if self.uri.scheme != "gs":
            return {}
        found = self._head(name)
        same = found is not None and _quoted(found["e_tag"]) == tag and found["version"] is not None
        return {"version": str(found["version"])} if same else {"version": "1"}  # which no object has

    def _put(self, name: str, data: bytes | Path, mode: Any) -> bool:
        """Write an object in one request. Whoever was written to before a lost answer is recognised by its bytes."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            with _bytes_of(data) as (view, size), self._explained("write to"):
                store = self._opened(_ANSWER + timedelta(seconds=size // _BYTES_A_SECOND))
                try:
                    obstore.put(store, name, view, mode=mode, use_multipart=False)
                except (AlreadyExistsError, PreconditionError, FileNotFoundError) as error:
                    if isinstance(error, FileNotFoundError) and not self._is_absent(error):
                        raise
                    return self.is_same(name, data)
        except ObjectStoreUnreachable:
            if self.is_same(name, data):
                return True
            raise
        return True

    def _parts(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of an object. Raises FileNotFoundError if there is none."""
        import obstore

        with self._explained("read", name):
            for part in obstore.get(self._opened(_ANSWER), name).stream(min_chunk_size=_CHUNK):
                yield bytes(part)

    def _fetch(self, name: str, path: Path, size: int, start: int) -> str | None:
        import obstore

        with self._explained("read", name):
            try:
                found = obstore.get(self._opened(_ANSWER), name, options={"range": {"offset": start}} if start else {})
            except FileNotFoundError as error:
                if not self._is_absent(error):
                    raise
                return None
            left = size - start
            try:
                with path.open("r+b" if start else "wb") as file:
                    file.truncate(start)  # an attempt that failed may have left bytes
                    file.seek(start)
                    for part in found.stream(min_chunk_size=_CHUNK):
                        file.write(memoryview(part)[:left])
                        left -= min(left, len(part))
                        if not left:
                            break
            except OSError as error:
                raise io_error(error, str(path)) from error
        if left:
            raise ManifestError(f"{name} is shorter than published", file=self.place(name))
        return str(found.meta["e_tag"])

    def _opened(self, answer: timedelta, retries: int = 8) -> Any:
        return opened_store(self.uri, answer, retries)

    def _is_absent(self, error: FileNotFoundError) -> bool:
        """Return whether an object is not there, rather than the bucket."""
        return not isinstance(refused(str(error), self.uri), ObjectStoreRefused)

    @contextmanager
    def _explained(self, what: str, name: str = "") -> Iterator[None]:
        """Turn obstore's errors into ours; FileNotFoundError of an object passes."""
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            if isinstance(error, FileNotFoundError) and self._is_absent(error):
                raise
            known = refused(str(error), self.uri, what)
            raise known or IoError(str(error).partition("\n\nDebug source")[0], file=self.place(name)) from None


def _quoted(tag: str | None) -> str:
    """Return a tag as conditions have it: in Azure's and Google's lists it has no quotes."""
    return str(tag) if tag is None or tag.startswith(('"', "W/")) else f'"{tag}"'


@contextmanager
def _bytes_of(data: bytes | Path) -> Iterator[tuple[Any, int]]:
    """Yield what to send and its size: of a file a view, so that it is not read into memory."""
    if isinstance(data, bytes):
        yield data, len(data)
        return
    try:
        with data.open("rb") as file:
            size = data.stat().st_size
            if not size:
                yield b"", 0
                return
            yield memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)), size  # closed with its last view
    except OSError as error:
        raise io_error(error, str(data)) from error


def check_object_size(size: int) -> None:
    """Raise ConfigError if output files of such a size cannot be written as objects."""
    if size > MOST_BYTES // 2:
        raise ConfigError(
            f"output.max-size is {size:,} bytes: in an object store a file is written in one request, of at most 5 GiB",
            remedy="set output.max-size to 2500MiB or less",
        )


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


def put_new(objects: Objects | FolderObjects, file: str, data: Path, suffix: str = "", own: str | None = None) -> str:
    """Put a file that no record has yet, and return the name of its object.

    What is there under the file's name is taken if it has the same bytes; else the file gets a name of its own beside
    it, with `own` in it, or with what no other has. Raises OutputBusy, and what `Objects` raises.
    """
    name = f"{file}{suffix}"
    if not objects.create(name, data):
        name = f"{file}.{own or uuid.uuid4().hex[:12]}{suffix}"
        if not objects.create(name, data):
            raise OutputBusy("another merge writes under the same names", file=objects.place(name))
    return name
