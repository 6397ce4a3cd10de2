"""An output in an object store: what is there, and how a run adds to it.

    PREFIX/binlog.000001 …                 the files, under their final names
    PREFIX/binlog.index                    their names, for readers of nothing else
    PREFIX/manifest/000000000001.jsonl …   the manifest, an object a record, each put only if it is absent
    PREFIX/schema/000000000002-4f1a….duckdb  the schema store as of a record
    PREFIX/parts/RUN/binlog.000001.5e0c…   while a merge runs on executors that share no folder: see `files.parts`

A store has no rename, append or lock. So a run works in a local folder, which is made anew from the store when it
begins, and what it publishes goes there in an order that is the guarantee:

    1  new files, put only if absent; the open one anew, put only if it is still as published
    2  the schema store, under a name that is used once
    3  the manifest's next record, put only if absent   <- from here on they exist

Whoever finds the record's number taken is the loser of two writers, and has changed nothing that is published. What a
crash, or a loser, has left under a file's name is taken if it has the bytes that are to be written; else the file gets
a name of its own beside it (`binlog.000003.7c0e…`), which the record says. Nothing of unknown origin is overwritten.

Each object of the manifest has two lines: the record, and where the files and the schema store are. Each FOLD-th says
everything that the ones before it say, so no more than so many are read.
"""

import uuid
from collections.abc import Container, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from binlog_merge.config.uri import is_uri
from binlog_merge.errors import ManifestError, ObjectStoreUnreachable, OutputBusy
from binlog_merge.files.failpoint import failpoint
from binlog_merge.files.hashed_lines import decode, encode
from binlog_merge.files.intact import PUT_BACK
from binlog_merge.files.manifest import (
    MANIFEST_NAME,
    Folded,
    ManifestState,
    OutputFile,
    Publish,
    Record,
    Removed,
    decode_record,
    encode_record,
)
from binlog_merge.files.objects import FolderObjects, Objects, put_new
from binlog_merge.files.parts import PARTS
from binlog_merge.files.publish import basename_of
from binlog_merge.whole_files import write_whole

FOLD: Final = 64
SCHEMA_NAME: Final = "schema.duckdb"
PACKED: Final = ".zst"
"""The end of the names of objects that are compressed: those of an archive (`files.archive`)."""
_READERS: Final = 16
_WRITERS: Final = 4
"""A store that is far takes less of one request than a network carries."""
_KIND: Final = "objects"

FAILPOINTS: Final = (
    "object-before-file",  # once per file: `object-before-file:kill:2`
    "object-before-schema",
    "object-before-manifest",
    "object-after-manifest",
)


@dataclass(frozen=True, slots=True)
class Names:
    """Where files are that are not under their own names, by these; and where the schema store is."""

    files: Mapping[str, str]
    schema: str | None = None

    def of(self, file: str) -> str:
        """Return the name of a file's object."""
        return self.files.get(file, file)


class ObjectOutput:
    """An output below a URI, as of the last record that was read or written: `ObjectOutput(uri)`, then `load`."""

    def __init__(self, uri: str) -> None:
        self.objects: Objects | FolderObjects = Objects(uri) if is_uri(uri) else FolderObjects(Path(uri))
        self.state = ManifestState()
        self.names = Names({})
        self._writer = uuid.uuid4().hex
        self._number = 0
        self._last_hash = ""
        self._tags: dict[str, str] = {}
        self._folder: Path | None = None
        self._brought: str | None = None

    def load(self) -> None:
        """Read the manifest. Raises ManifestError if it is damaged, and what is wrong with the store within seconds."""
        self.objects.check()
        numbers = sorted(_number_of(name) for name in self.objects.below("manifest"))
        first = max((n for n in numbers if n % FOLD == 0), default=1)
        numbers = [n for n in numbers if n >= first]
        if numbers != list(range(first, first + len(numbers))):
            raise ManifestError("a record of the manifest is missing", file=self.objects.place("manifest"))
        self.state, self.names, self._number, self._last_hash = ManifestState(), Names({}), first - 1, ""
        with ThreadPoolExecutor(_READERS) as readers:
            for data in readers.map(lambda n: self.objects.read(_object_of(n)), numbers):
                self._take(data or b"")

    def advance(self) -> bool:
        """Read what was published since; return whether there is anything. Raises what `load` raises."""
        found = False
        while (data := self.objects.read(_object_of(self._number + 1))) is not None:
            if (self._number + 1) % FOLD == 0:
                self.state = ManifestState()  # this record says everything
            self._take(data)
            found = True
        return found

    def _take(self, data: bytes) -> None:
        number = self._number + 1
        try:
            first, second = data.splitlines()
            record, digest = decode_record(first, "" if number % FOLD == 0 else self._last_hash)
            kind, values, self._last_hash = decode(second, digest)
            if kind != _KIND:
                raise ManifestError(f"a line of the kind {kind!r}")
            self.state = self.state.after(record)
            files = dict(values["files"]) if isinstance(record, Folded) else {**self.names.files, **values["files"]}
            self.names = Names(files, values["schema"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ManifestError(
                f"a record of the manifest cannot be read: {error}", file=self.objects.place(_object_of(number))
            ) from None
        except ManifestError as error:
            raise error.located(file=self.objects.place(_object_of(number))) from None
        self._number = number

    def bring(self, folder: Path) -> None:
        """Make an empty folder the local form of the output, without its closed files: what a run needs to go on.

        Raises ManifestError if published objects are missing or have other sizes.
        """
        self._folder = folder
        self.objects.delete(list(self.objects.below(PARTS)))  # of runs that were killed
        if self.state.header is None:
            return
        self._check_there()
        open_file = self.state.open_file
        if open_file is not None:
            self._fetch(open_file, folder)
        self.bring_state(folder)

    def bring_state(self, folder: Path, schema: bool = True) -> None:
        """Write manifest and schema store into a folder, as the local form has them; those there are replaced."""
        while schema and self.names.schema is not None and self.names.schema != self._brought:
            name, data = self.names.schema, self.objects.read(self.names.schema)
            if data is not None:
                write_whole(folder / SCHEMA_NAME, data)
                self._brought = name
            elif not self.advance():  # else a later record has replaced it
                raise self._missing(name)
        state = self.state
        if state.header is None:
            return
        line, _ = encode_record(Folded(state.header, state.last, state.files, state.gone), "")
        write_whole(folder / MANIFEST_NAME, line)

    def published_at(self) -> float:
        """Return when the last record was put, in seconds since 1970."""
        return self.objects.written_at(_object_of(self._number))

    def removed_by_hand(self) -> frozenset[str]:
        """Return the names of the oldest files whose objects the user has removed. Raises ManifestError for others."""
        return frozenset(file.name for file in self._check_there())

    def _fetch(self, file: OutputFile, folder: Path) -> None:
        name = self.names.of(file.name)
        if self.objects.fetch(name, folder / file.name, file.size) is None:
            raise self._missing(name)

    def _check_there(self) -> list[OutputFile]:
        """Check the published objects' sizes; return the oldest, which the user may have removed. Notes tags."""
        there = self.objects.below()
        files = [(file, there.get(self.names.of(file.name))) for file in self.state.files]
        removed: list[OutputFile] = []
        while len(files) > 1 and files[0][1] is None:
            removed.append(files.pop(0)[0])
        for file, found in files:
            name = self.names.of(file.name)
            if found is None:
                raise self._missing(name)
            if name.endswith(PACKED):
                continue
            if found.size < file.size or (file.closed and found.size > file.size):
                raise ManifestError(
                    f"{name} was changed after it was published: it has {found.size} bytes, not {file.size}",
                    file=self.objects.place(name),
                    remedy=PUT_BACK,
                )
            if found.size == file.size:
                self._tags[name] = found.tag
        return removed

    def _missing(self, name: str) -> ManifestError:
        return ManifestError(f"{name} is missing", file=self.objects.place(name), remedy=PUT_BACK)

    @property
    def next_record(self) -> str:
        """Return the name of the object in which the next record will be."""
        return _object_of(self._number + 1)

    def append(self, record: Record, sent: Mapping[str, str]) -> None:
        """Publish a record, with the files that it names: from the folder, or `sent`, by their objects' names.

        Raises OutputBusy if another writer was first. After any error nothing of the record is published.
        """
        assert self._folder is not None
        self.state.after(record)  # raises what is wrong with it
        names, number = self.names, self._number + 1
        if isinstance(record, Publish):
            files = {**names.files, **self._put_all(record, sent), **sent}
            files = {name: place for name, place in files.items() if place != name}
            failpoint("object-before-schema")
            names = Names(files, self._put_schema(number))
        self.record(record, names)

    def record(self, record: Record, names: Names) -> None:
        """Put a record whose objects are there, under these names; see `append`."""
        state, number = self.state.after(record), self._number + 1
        folds = number % FOLD == 0 and state.header is not None
        if folds and state.header is not None:
            kept = {file.name for file in state.files}
            names = replace(names, files={name: place for name, place in names.files.items() if name in kept})
            record = Folded(state.header, state.last, state.files, state.gone)
        line, digest = encode_record(record, "" if folds else self._last_hash)
        values = {"files": dict(names.files), "schema": names.schema, "writer": self._writer}
        second, last_hash = encode(_KIND, values, digest)
        failpoint("object-before-manifest")
        if not self.objects.create(_object_of(number), line + second):
            raise OutputBusy(
                f"another merge has published record {number} of this output meanwhile",
                file=self.objects.place(),
                remedy="let one merge at a time write to an output; run it again, and it goes on from there",
            )
        failpoint("object-after-manifest")
        old = self.names
        self.state, self.names, self._number, self._last_hash = state, names, number, last_hash
        self._clear(record, old)

    def _put_all(self, record: Publish, sent: Container[str]) -> dict[str, str]:
        """Put a record's files that are in the folder, several at once; return the names of their objects."""
        assert self._folder is not None
        folder, here = self._folder, [file for file in record.files if file.name not in sent]
        with ThreadPoolExecutor(_WRITERS) as writers:
            places = writers.map(lambda file: self._put(file, folder / file.name), here)
            return {file.name: place for file, place in zip(here, places, strict=True)}

    def _put(self, file: OutputFile, path: Path) -> str:
        """Put a file, and return the name of its object."""
        failpoint("object-before-file")
        if all(file.name != known.name for known in self.state.files):
            return put_new(self.objects, file.name, path)
        name = self.names.of(file.name)
        tag = self._tags.pop(name, None)
        if (tag is not None and self.objects.replace(name, path, tag)) or self.objects.is_same(name, path):
            return name
        return put_new(self.objects, file.name, path)

    def _put_schema(self, number: int) -> str | None:
        """Put the schema store if there is one, under a name that is never used again."""
        assert self._folder is not None
        path = self._folder / SCHEMA_NAME
        if not path.exists():
            return None
        name = f"schema/{number:012d}-{uuid.uuid4().hex[:12]}.duckdb"
        self.objects.create(name, path)
        return name

    def _clear(self, record: Record, old: Names) -> None:
        """Write the index, and remove what no record needs any more. All of that may fail, and be missing."""
        gone = [old.of(name) for name in record.files] if isinstance(record, Removed) else []
        if old.schema is not None and old.schema != self.names.schema:
            gone.append(old.schema)
        try:
            if isinstance(record, Publish | Removed | Folded) and self.state.files:
                names = (self.names.of(file.name) for file in self.state.files)
                index = "".join(f"./{name}\n" for name in names).encode()
                self.objects.overwrite(f"{basename_of(self.state)}.index", index)
            self.objects.delete(gone)
        except ObjectStoreUnreachable:
            pass


def _object_of(number: int) -> str:
    return f"manifest/{number:012d}.jsonl"


def _number_of(name: str) -> int:
    text = name.rpartition("/")[2].removesuffix(".jsonl")
    return int(text) if text.isdecimal() else 0


def loaded(uri: str) -> "ObjectOutput":
    """Return the output below a URI. Raises ManifestError if there is none."""
    output = ObjectOutput(uri)
    output.load()
    if output.state.header is None:
        raise ManifestError("no merge has written here", file=output.objects.place(), remedy="give a merged log")
    return output
