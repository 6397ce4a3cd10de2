"""The objects of an output in an object store: written only if absent or unchanged, so that no writer undoes another.

An object is there as a whole or not at all. A request whose answer is lost may have been carried out: then what is
there is compared with what was to be written.

A local folder is a store of objects, too: an archive on a mounted disk has the layout of one in an object store. A
file's object that is put for the first time overwrites nothing of unknown origin.
"""

import mmap
import os
import re
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
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC  # what is there stays, but for what is written
_NUMBERED: Final = re.compile(r"(.*\.jsonl?)~(\d{12})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Found:
    """An object that is there: its size, the tag that changes with its bytes, and when the store's clock says it was
    written, in seconds since 1970.
    """

    size: int
    tag: str
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Version:
    """The bytes of an object at a moment, its tag then, and when it was written, in seconds since 1970."""

    data: bytes
    tag: str
    at: float


class Objects:
    """The objects below a URI. All methods raise what `object_stores.refused` returns, or IoError.

    `puts` counts the requests that write: stores take most for them. `answer` is how long an answer may take at most,
    for who has no time to ask again; by default what is sent decides, and what may pass is tried several times.
    """

    def __init__(self, uri: str, answer: timedelta | None = None) -> None:
        self.uri = Uri.parse(uri)
        self.puts = 0
        self._limit = answer
        self._attempts = _READ_ATTEMPTS if answer is None else 1

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
            return {
                each["path"]: Found(each["size"], _quoted(each["e_tag"]), each["last_modified"].timestamp())
                for each in found
            }

    def changed(self, name: str, tag: str | None = None) -> Version | None:
        """Return an object unless it still has this tag; None if it has. Raises FileNotFoundError if there is none."""
        import obstore
        from obstore.exceptions import NotModifiedError

        options: Any = {} if tag is None else {"if_none_match": tag}
        for attempt in range(self._attempts):
            try:
                with self._explained("read", name):
                    try:
                        found = obstore.get(self._opened(_ANSWER), name, options=options)
                        written = found.meta["last_modified"].timestamp()
                        return Version(bytes(found.bytes()), _quoted(found.meta["e_tag"]), written)
                    except NotModifiedError:
                        return None
            except ObjectStoreUnreachable:
                if attempt + 1 == self._attempts:
                    raise
        raise AssertionError

    def read(self, name: str) -> bytes | None:
        """Return an object's bytes, None if there is none."""
        try:
            found = self.changed(name)
        except FileNotFoundError:
            return None
        return None if found is None else found.data

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

    def fetch(self, name: str, path: Path, size: int, start: int = 0, to: int = 0) -> str | None:
        """Copy the first `size` bytes of an object into a file from `to` on, and return its tag; None if there is none.

        What the file has from there on is overwritten, but for the first `start` bytes, which it has already. Raises
        ManifestError if the object is shorter.
        """
        for attempt in range(self._attempts):
            try:
                return self._fetch(name, path, size, start, to)
            except ObjectStoreUnreachable:
                if attempt + 1 == self._attempts:
                    raise
        raise AssertionError

    def create(self, name: str, data: bytes | Path) -> str | None:
        """Write an object that is not there yet, and return its tag.

        Returns None, and changes nothing, if there is another of the name.
        """
        return self._put(name, data, "create")

    def replace(self, name: str, data: bytes | Path, tag: str) -> str | None:
        """Write an object that still has this tag, and return its new one.

        Returns None, and changes nothing, if it has another tag now.
        """
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
        return self._tag_of_same(name, data) is not None

    def _tag_of_same(self, name: str, data: bytes | Path) -> str | None:
        """Return the tag of an object that has these bytes; None if there is none, or another."""
        import obstore

        try:
            with _bytes_of(data) as (view, size), self._explained("read", name):
                found = obstore.get(self._opened(_ANSWER), name)
                if found.meta["size"] != size:
                    return None
                at, whole = 0, memoryview(view)
                for part in found.stream(min_chunk_size=_CHUNK):
                    if whole[at : at + len(part)] != memoryview(part):
                        return None
                    at += len(part)
                return _quoted(found.meta["e_tag"])
        except FileNotFoundError:
            return None

    def _version(self, name: str, tag: str) -> Mapping[str, str]:
        """Return the version of an object with this tag: Google's conditions are about versions, not tags."""
        if self.uri.scheme != "gs":
            return {}
        found = self._head(name)
        same = found is not None and _quoted(found["e_tag"]) == tag and found["version"] is not None
        return {"version": str(found["version"])} if same else {"version": "1"}  # which no object has

    def _put(self, name: str, data: bytes | Path, mode: Any) -> str | None:
        """Write an object in one request, and return its tag. What was written before a lost answer is recognised by
        its bytes.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            with _bytes_of(data) as (view, size), self._explained("write to"):
                store = self._opened(_ANSWER + timedelta(seconds=size // _BYTES_A_SECOND))
                self.puts += 1
                try:
                    return _quoted(obstore.put(store, name, view, mode=mode, use_multipart=False)["e_tag"])
                except (AlreadyExistsError, PreconditionError, FileNotFoundError) as error:
                    if isinstance(error, FileNotFoundError) and not self._is_absent(error):
                        raise
                    return self._tag_of_same(name, data)
        except ObjectStoreUnreachable:
            if (tag := self._tag_of_same(name, data)) is not None:
                return tag
            raise

    def _fetch(self, name: str, path: Path, size: int, start: int, to: int) -> str | None:
        import obstore

        with self._explained("read", name):
            try:
                found = obstore.get(self._opened(_ANSWER), name, options={"range": (start, size)} if size else {})
            except FileNotFoundError as error:
                if not self._is_absent(error):
                    raise
                return None
            left = size - start
            try:
                with os.fdopen(os.open(path, _WRITE, 0o644), "wb") as file:
                    file.seek(to + start)
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
        if self._limit is not None:
            return opened_store(self.uri, self._limit, 0)
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
            size = os.fstat(file.fileno()).st_size
            view: Any = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)) if size else b""
    except OSError as error:
        raise io_error(error, str(data)) from error
    yield view, size  # the map is closed with its last view


def check_object_size(size: int) -> None:
    """Raise ConfigError if output files of such a size cannot be written as objects."""
    if size > MOST_BYTES // 2:
        raise ConfigError(
            f"output.max-size is {size:,} bytes: in an object store a file is written in one request, of at most 5 GiB",
            remedy="set output.max-size to 2500MiB or less",
        )


class FolderObjects:
    """The files below a folder, with the methods of `files.objects.Objects`. All of them raise IoError.

    A rename replaces whatever is there, and locks are not to be relied on where several machines share a folder; a link
    is only made if there is none of the name. So an object that is replaced becomes `NAME~000000000001`, and so on: the
    last one counts, and the one before it stays for who is reading it.
    """

    puts = 0

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
        found: dict[str, tuple[int, Path]] = {}
        with self._explained(folder):
            for path in root.rglob("*"):
                if path.is_file() and not path.name.endswith(".part"):
                    name, number = _numbered(str(path.relative_to(self._folder)))
                    found[name] = max(found.get(name, (-1, path)), (number, path))
            there: dict[str, Found] = {}
            for name, (number, path) in found.items():
                with suppress(FileNotFoundError):  # removed, or replaced, since
                    status = path.stat()
                    there[name] = Found(status.st_size, str(number), status.st_mtime)
        return there

    def changed(self, name: str, tag: str | None = None) -> Version | None:
        """Return an object unless it still has this tag; see Objects."""
        for _ in range(_READ_ATTEMPTS):
            path, number = self._last(name)
            if str(number) == tag:
                return None
            with self._explained(name):
                try:
                    return Version(path.read_bytes(), str(number), path.stat().st_mtime)
                except FileNotFoundError:
                    continue  # replaced twice since
        raise FileNotFoundError(name)

    def read(self, name: str) -> bytes | None:
        """Return an object's bytes, None if there is none."""
        try:
            found = self.changed(name)
        except FileNotFoundError:
            return None
        return None if found is None else found.data

    def written_at(self, name: str) -> float:
        """Return when an object was written, in seconds since 1970; 0.0 if there is none."""
        with self._explained(name):
            try:
                return self._last(name)[0].stat().st_mtime
            except FileNotFoundError:
                return 0.0

    def size_of(self, name: str) -> int | None:
        """Return an object's size, None if there is none."""
        with self._explained(name):
            try:
                return self._last(name)[0].stat().st_size
            except FileNotFoundError:
                return None

    def fetch(self, name: str, path: Path, size: int, start: int = 0, to: int = 0) -> str | None:
        """Copy the first `size` bytes of an object into a file; see Objects."""
        there, number = self._last(name)
        with self._explained(name):
            try:
                source = there.open("rb")
            except FileNotFoundError:
                return None
            with source, os.fdopen(os.open(path, _WRITE, 0o644), "wb") as target:
                if os.fstat(source.fileno()).st_size < size:
                    raise ManifestError(f"{name} is shorter than published", file=self.place(name))
                source.seek(start)
                target.seek(to + start)
                for length in (min(1 << 20, size - at) for at in range(start, size, 1 << 20)):
                    target.write(source.read(length))
        return str(number)

    def create(self, name: str, data: bytes | Path) -> str | None:
        """Write an object that is not there yet, and return its tag; None if another is there."""
        if self._last(name)[1]:
            return self._tag_of_same(name, data)
        made = self._link(name, self._folder / name, 0, data)
        if made is not None and self._last(name)[1]:  # it was made, and replaced twice, while this one was asleep
            with self._explained(name):
                (self._folder / name).unlink(missing_ok=True)
            return None
        return made

    def replace(self, name: str, data: bytes | Path, tag: str) -> str | None:
        """Write an object that still has this tag, and return its new one; None if it has another tag now."""
        number = int(tag) + 1
        path = self._folder / f"{name}~{number:012d}"
        made = self._link(name, path, number, data)
        with self._explained(name):
            if made is not None and self._last(name)[1] != number:  # who was asleep for long made one of long ago
                path.unlink(missing_ok=True)
                return None
            if made is not None:
                for old, each in self._versions(name).items():
                    if old < number - 1:
                        each.unlink(missing_ok=True)
        return made

    def overwrite(self, name: str, data: bytes | Path) -> None:
        """Write an object, whether it is there or not."""
        with self._explained(name):
            (self._folder / name).parent.mkdir(exist_ok=True)
        replace_file(self._last(name)[0], data if isinstance(data, bytes) else data.read_bytes())

    def delete(self, names: list[str]) -> None:
        """Remove objects that may be there."""
        for name in names:
            with self._explained(name):
                for path in (self._folder / name, *self._versions(name).values()):
                    path.unlink(missing_ok=True)

    def is_same(self, name: str, data: bytes | Path) -> bool:
        """Return whether an object is there with these bytes."""
        return self._tag_of_same(name, data) is not None

    def _tag_of_same(self, name: str, data: bytes | Path) -> str | None:
        path, number = self._last(name)
        with self._explained(name):
            if not path.exists():
                return None
            if isinstance(data, bytes):
                return str(number) if path.read_bytes() == data else None
            if path.stat().st_size != data.stat().st_size:
                return None
            with path.open("rb") as one, data.open("rb") as other:
                same = all(part == other.read(1 << 20) for part in iter(lambda: one.read(1 << 20), b""))
            return str(number) if same else None

    def _link(self, name: str, path: Path, number: int, data: bytes | Path) -> str | None:
        """Write a file under a name that no other has; None if one has it, with other bytes."""
        part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
        with self._explained(name):
            path.parent.mkdir(exist_ok=True)
            try:
                if isinstance(data, bytes):
                    part.write_bytes(data)
                else:
                    shutil.copyfile(data, part)
                sync_file(part)
                os.link(part, path)
            except FileExistsError:
                return self._tag_of_same(name, data)
            finally:
                part.unlink(missing_ok=True)
            sync_directory(path.parent)
        return str(number)

    def _last(self, name: str) -> tuple[Path, int]:
        """Return the path of the last version of an object, and its number: the plain name is version 0."""
        number, path = max(self._versions(name).items(), default=(0, self._folder / name))
        return path, number

    def _versions(self, name: str) -> dict[int, Path]:
        """Return the files of an object that there are, by number. Only notes and records are ever replaced."""
        path = self._folder / name
        if not name.endswith((".json", ".jsonl")):
            return {0: path}
        with self._explained(name):
            try:
                with os.scandir(path.parent) as entries:
                    numbers = [_numbered(each.name)[1] for each in entries if _numbered(each.name)[0] == path.name]
            except FileNotFoundError:
                return {}
        return {number: path.with_name(f"{path.name}~{number:012d}") if number else path for number in numbers}

    @contextmanager
    def _explained(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise io_error(error, self.place(name)) from error


def _numbered(name: str) -> tuple[str, int]:
    """Return the name of the object that a file of a folder is a version of, and the version's number."""
    found = _NUMBERED.fullmatch(name)
    return (name, 0) if found is None else (found[1], int(found[2]))


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
