"""An output in an object store: what is there, and how a run adds to it.

    PREFIX/manifest/head.jsonl             the last records of the manifest, and which object has those before them
    PREFIX/manifest/000000000064.jsonl …   all records up to one, as one
    PREFIX/binlog.000001 …                 the files, under their final names
    PREFIX/open/binlog.000007/…            segments: bytes of a file that grows, until it is an object of its own
    PREFIX/binlog.index                    the files' names, for readers of nothing else
    PREFIX/schema/000000000002-4f1a….duckdb  the schema store as of a record
    PREFIX/parts/RUN/binlog.000001.5e0c…   while a merge runs on executors that share no folder: see `files.parts`

A store has no rename, append or lock. So a run works in a local folder, a cache that is made anew from the store when
it begins, and what it publishes goes there in an order that is the guarantee:

    1  new files and segments, put only if absent; an open file that is one object, anew, only if it is as published
    2  the schema store, if it has changed, under a name that is used once
    3  every FOLD-th record: all that is published, put only if absent
    4  the head with the record, put only if it is still the head that this writer knows   <- from here on they exist

Whoever finds another head is the loser of two writers, and has changed nothing that is published. What a crash, or a
loser, has left under a file's name is taken if it has the bytes that are to be written; else the file gets a name of
its own beside it (`binlog.000003.7c0e…`), which the record says. Nothing of unknown origin is overwritten.

A merge that ends puts the open file as one object. One that goes on (`follows`) puts a segment a record, joins small
ones when it folds, and makes one object of a file that is closed, beside its rounds. What no record names any more, and
was written a minute before the head, is removed: no writer whose record can still come has put it.
"""

import errno
import hashlib
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from typing import Final

from binlog_merge.config.uri import is_uri
from binlog_merge.errors import (
    InternalError,
    IoError,
    ManifestError,
    MergeError,
    ObjectStoreRefused,
    ObjectStoreUnreachable,
    io_error,
)
from binlog_merge.files.failpoint import failpoint
from binlog_merge.files.intact import PUT_BACK, TAIL, read_note, stamp_of, write_note
from binlog_merge.files.manifest import (
    MANIFEST_NAME,
    ManifestState,
    OutputFile,
    Publish,
    Record,
    Removed,
    encode_record,
)
from binlog_merge.files.object_manifest import Names, ObjectManifest, Remembered, Segment
from binlog_merge.files.objects import FolderObjects, Found, Objects, put_new
from binlog_merge.files.parts import HEAD, PARTS
from binlog_merge.files.publish import basename_of
from binlog_merge.whole_files import write_whole

SEGMENT: Final = 8 << 20
"""Segments are joined until they are so long."""
SCHEMA_NAME: Final = "schema.duckdb"
PACKED: Final = ".zst"
"""The end of the names of objects that are compressed: those of an archive (`files.archive`)."""
OPEN: Final = "open"
_CLOSED: Final = ".closed"
_REMEMBERED: Final = 16 << 20  # an open file's bytes after which its note is put again
_CLOCKS: Final = 60.0
"""So many seconds may the clocks of a store's machines go apart, which say when an object was written."""
_KNOWN_AFTER: Final = 30.0
_READERS: Final = 16
_WRITERS: Final = 4
"""A store that is far takes less of one request than a network carries."""
_ATTEMPTS: Final = 5

FAILPOINTS: Final = (
    "object-before-file",  # once per file: `object-before-file:kill:2`
    "object-before-schema",
    "object-before-fold",
    "object-before-manifest",
    "object-after-manifest",
)


@dataclass(slots=True)
class _Aside:
    """Closed files that are made one object each, beside what goes on, while a folder is the local form of an output.

    They are in a folder of their own, which is gone with that form: then nothing of it is put, or counts, any more.
    `holes` says how many bytes at the beginning of a file are not there yet, `composed` what objects files have become.
    """

    folder: Path
    holes: dict[Path, int] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)
    composed: dict[str, str] = field(default_factory=dict)


class ObjectOutput:
    """An output below a URI, as of the last record that was read or written: `ObjectOutput(uri)`, then `load`.

    `follows`: what is published grows by segments. `allowed` is called before a record is put.
    """

    def __init__(self, uri: str, follows: bool = False) -> None:
        self.objects: Objects | FolderObjects = Objects(uri) if is_uri(uri) else FolderObjects(Path(uri))
        self.manifest = ObjectManifest(self.objects)
        self.follows = follows
        self.allowed: Callable[[], None] | None = None
        self._tags: dict[str, str] = {}
        self._folder: Path | None = None
        self._brought: str | None = None
        self._schema: str | None = None
        self._holes: dict[str, int] = {}
        self._note: tuple[str, int, bytes] | None = None
        self._aside = _Aside(Path())
        self._old: list[str] = []
        self._shown: object = None
        self._since = time.monotonic()

    @property
    def state(self) -> ManifestState:
        """Return what is published."""
        return self.manifest.state

    @property
    def names(self) -> Names:
        """Return where it is."""
        return self.manifest.names

    def load(self) -> None:
        """Read the manifest. Raises ManifestError if it is damaged, and what is wrong with the store within seconds."""
        self.objects.check()
        self.manifest = ObjectManifest(self.objects)
        self.manifest.load()

    def check_conditions(self) -> None:
        """Raise ObjectStoreRefused if the store does not heed the conditions of requests, on which all rests."""
        name = f"{OPEN}/probe-{uuid.uuid4().hex}"
        try:
            self.objects.create(name, b"1")
            ignored = ["If-None-Match"] if self.objects.create(name, b"2") is not None else []
            if self.objects.replace(name, b"3", f'"{uuid.uuid4().hex}"') is not None:
                ignored.append("If-Match")
        finally:
            with suppress(MergeError):
                self.objects.delete([name])
        if ignored:
            raise ObjectStoreRefused(
                f"the store ignores conditions of requests ({' and '.join(ignored)}): of two merges one could "
                "overwrite what the other has published",
                file=self.objects.place(),
                remedy="use a store that heeds them, as AWS S3, MinIO, Ceph, R2, Azure and Google do, or a newer "
                "version of this one; a proxy before it must pass these headers on",
            )

    def advance(self) -> bool:
        """Read what was published since; return whether there is anything. Raises what `load` raises."""
        return self.manifest.advance()

    def bring(self, folder: Path) -> None:
        """Make an empty folder the local form of the output, without its closed files: what a run needs to go on.

        Of the open file it has the end. Raises ManifestError if published objects are missing or have other sizes.
        """
        self._folder = folder
        there = self.objects.below()
        self.objects.delete([name for name in there if name.startswith(f"{PARTS}/")])  # of runs that were killed
        self._holes, self._note = {}, None
        self._aside = _Aside(folder / _CLOSED / uuid.uuid4().hex)
        self._brought = None
        if self.state.header is None:
            self.bring_state(folder)
            return
        self._check_there(there)
        self.objects.delete(self._left(there))
        open_file = self.state.open_file
        if open_file is not None:
            self._bring_end(open_file, folder / open_file.name)
        self.bring_state(folder)
        self._schema = _digest(folder / SCHEMA_NAME)
        for file in self.state.files:
            if self.follows and file.closed and file.name in self.names.segments:
                self._compose(file)

    def _left(self, there: Mapping[str, Found]) -> list[str]:
        """Return the objects that no record needs, and that were written before the head: no record to come does."""
        needed = {*self.names.objects(), self.manifest.base, HEAD}
        ours = (f"{OPEN}/", "schema/", "manifest/")
        before = self.manifest.at - _CLOCKS if self.head is not None else 0.0
        return [
            name for name, found in there.items() if name.startswith(ours) and name not in needed and found.at < before
        ]

    def _bring_end(self, file: OutputFile, path: Path) -> None:
        """Make a file whose end alone is there, so that it can grow: most of it is never read again."""
        start = max(0, file.size - TAIL)
        try:
            with path.open("wb") as made:
                made.truncate(file.size)
        except OSError as error:
            raise io_error(error, str(path)) from error
        bring_bytes(self.objects, self.names.parts(file), path, start, file.size)
        self._holes[file.name] = start
        stamp = stamp_of(path)
        assert self._folder is not None
        if stamp is not None:
            write_note(self._folder, {file.name: stamp})

    def fill(self, file: OutputFile, start: int) -> None:
        """Bring the bytes of the local form of a file from `start` on; see Elsewhere."""
        assert self._folder is not None
        end = self._holes.get(file.name, 0)
        if start >= end:
            return
        path, noted = self._folder / file.name, read_note(self._folder)
        known = noted.get(file.name) == stamp_of(path)
        bring_bytes(self.objects, self.names.parts(file), path, start, end)
        self._holes[file.name] = start
        stamp = stamp_of(path)
        if known and stamp is not None:
            write_note(self._folder, noted | {file.name: stamp})

    def remembered(self, file: OutputFile) -> tuple[int, bytes] | None:
        """Return the note about an open file that `remember` was given; see Elsewhere."""
        if self._note is not None and self._note[0] == file.name:
            return self._note[1:]
        found = self.names.remembered
        if found is None or found.file != file.name or found.size > file.size:
            return None
        data = self.objects.read(found.name)
        return None if data is None else (found.size, data)

    def remember(self, file: str, size: int, data: bytes) -> None:
        """Take a note about an open file; it is put with a record now and then. See Elsewhere."""
        self._note = (file, size, data)

    def bring_state(self, folder: Path, schema: bool = True) -> None:
        """Write manifest and schema store into a folder, as the local form has them; those there are replaced."""
        if not (folder / SCHEMA_NAME).exists():
            self._brought = None
        while schema and self.names.schema is not None and self.names.schema != self._brought:
            name, data = self.names.schema, self.objects.read(self.names.schema)
            if data is not None:
                write_whole(folder / SCHEMA_NAME, data)
                self._brought = name
            elif not self.advance():  # else a later record has replaced it
                raise self._missing(name)
        if self.state.header is None and self.state.claim is None:
            return
        line, _ = encode_record(self.state.folded(), "")
        write_whole(folder / MANIFEST_NAME, line)

    def check_copy(self, directory: Path, state: ManifestState | None = None) -> None:
        """Raise IoError if manifest or schema store are gone from the local form; see Elsewhere."""
        published = self.state
        known = published.header is not None or published.claim is not None
        gone = [
            name
            for name, there in ((MANIFEST_NAME, known), (SCHEMA_NAME, self.names.schema is not None))
            if there and not (directory / name).exists()
        ]
        if state is not None and _published(state) != _published(published):
            gone.append(MANIFEST_NAME)
        if gone:
            raise IoError(
                "the local copy of the output is gone, or a part of it",
                file=str(directory / gone[0]),
                remedy="nothing, it is made anew; but let nobody remove the work folder while a merge runs",
            )

    def published_at(self) -> float:
        """Return when the last record was put, in seconds since 1970."""
        return self.manifest.at

    def removed_by_hand(self) -> frozenset[str]:
        """Return the names of the oldest files whose objects the user has removed. Raises ManifestError for others."""
        for _ in range(_ATTEMPTS):
            try:
                return frozenset(file.name for file in self._check_there(self.objects.below()))
            except ManifestError:
                if not self.advance():
                    raise
        return frozenset(file.name for file in self._check_there(self.objects.below()))

    def _check_there(self, there: Mapping[str, Found]) -> list[OutputFile]:
        """Check the published objects' sizes; return the oldest, which the user may have removed. Notes tags."""
        files = list(self.state.files)
        removed: list[OutputFile] = []
        while len(files) > 1 and all(part.name not in there for part in self.names.parts(files[0])):
            removed.append(files.pop(0))
        for file in files:
            parts = self.names.parts(file)
            if parts[-1].end != file.size:
                raise ManifestError(f"{file.name} has {parts[-1].end} bytes in segments, not {file.size}")
            for part in parts:
                self._check_object(file, part, there.get(part.name), len(parts) == 1)
        return removed

    def _check_object(self, file: OutputFile, part: Segment, found: Found | None, whole: bool) -> None:
        if found is None:
            raise self._missing(part.name)
        if part.name.endswith(PACKED):
            return
        size = part.end - part.start
        if found.size < size or (file.closed and whole and found.size > size):
            raise ManifestError(
                f"{part.name} was changed after it was published: it has {found.size} bytes, not {size}",
                file=self.objects.place(part.name),
                remedy=PUT_BACK,
            )
        if found.size == size:
            self._tags[part.name] = found.tag

    def _missing(self, name: str) -> ManifestError:
        return ManifestError(f"{name} is missing", file=self.objects.place(name), remedy=PUT_BACK)

    @property
    def puts_an_hour(self) -> int | None:
        """Return how many requests that write an hour takes, by those so far; None while that is hardly known."""
        seconds = time.monotonic() - self._since
        return None if seconds < _KNOWN_AFTER else round(self.objects.puts * 3600 / seconds)

    @property
    def head(self) -> str | None:
        """Return the tag of the head to which the next record will be added, None if there is none yet."""
        return self.manifest.tag

    def append(self, record: Record, sent: Mapping[str, str]) -> None:
        """Publish a record, with the files that it names: from the folder, or `sent`, by their objects' names.

        Raises OutputBusy if another writer was first. After any error nothing of the record is published.
        """
        assert self._folder is not None
        self.state.after(record)  # raises what is wrong with it
        names = self.names
        if isinstance(record, Publish):
            if self.allowed is not None:
                self.allowed()
            names = self._put_all(record, sent, names)
            failpoint("object-before-schema")
            names = replace(names, schema=self._put_schema(self.manifest.number + 1))
        self.record(record, self._with_composed(names))
        for file in record.files if isinstance(record, Publish) and self.follows else ():
            if file.closed and file.name in self.names.segments:
                self._compose(file)
            elif not file.closed and file.name in sent:
                self._bring_end(file, self._folder / file.name)

    def record(self, record: Record, names: Names) -> None:
        """Put a record whose objects are there, under these names; see `append`."""
        state = self.state.after(record)
        folds = self.manifest.folds
        names = self._with_note(names.among(state.files), state, folds)
        put = names.objects()
        if folds:
            names = self._joined(names, state)
        old, old_base = self.names, self.manifest.base
        self.manifest.append(record, names, self.allowed)
        self._clear(record, old, old_base, put)

    def _put_all(self, record: Publish, sent: Mapping[str, str], names: Names) -> Names:
        """Put a record's files that are in the folder, several at once; return where they are."""
        here = [file for file in record.files if file.name not in sent]
        with ThreadPoolExecutor(_WRITERS) as writers:
            puts = list(writers.map(self._put, here))
        files, segments = dict(names.files), dict(names.segments)
        for file, put in zip(here, puts, strict=True):
            if isinstance(put, str):
                files[file.name] = put
                segments.pop(file.name, None)
            else:
                segments[file.name] = put
        files |= sent
        return replace(names, files={n: place for n, place in files.items() if n != place}, segments=segments)

    def _put(self, file: OutputFile) -> str | tuple[Segment, ...]:
        """Put a file, or what it has grown by; return the name of its object, or its segments."""
        assert self._folder is not None
        failpoint("object-before-file")
        path = self._folder / file.name
        known = next((each for each in self.state.files if each.name == file.name), None)
        if self.follows and (known is not None or not file.closed):
            before = () if known is None else self.names.parts(known)
            start = 0 if known is None else known.size
            return before if start == file.size else (*before, self._put_segment(file.name, path, start, file.size))
        if known is None:
            return put_new(self.objects, file.name, path)
        self.fill(known, 0)
        return self._replaced(file, path)

    def _replaced(self, file: OutputFile, path: Path) -> str:
        """Put a file that has grown as one object, and return its name."""
        name = self.names.of(file.name)
        tag = self._tags.pop(name, None)
        if tag is not None:
            tag = self.objects.replace(name, path, tag)
            if tag is not None:
                self._tags[name] = tag
                return name
        return name if self.objects.is_same(name, path) else put_new(self.objects, file.name, path)

    def _put_segment(self, file: str, path: Path, start: int, end: int) -> Segment:
        """Put some bytes of a file, under a name that says which they are."""
        try:
            with path.open("rb") as source:
                source.seek(start)
                data = source.read(end - start)
        except OSError as error:
            raise io_error(error, str(path)) from error
        # What another writer has left is not taken: it may be older than the head, and being removed.
        name = f"{OPEN}/{file}/{start:012d}-{end:012d}-{uuid.uuid4().hex[:16]}"
        if len(data) != end - start or not self.objects.create(name, data):
            raise InternalError(f"a segment of {file} could not be put: {name}")
        return Segment(start, end, name)

    def _joined(self, names: Names, state: ManifestState) -> Names:
        """Put small segments at the end of the open file as one."""
        file = state.open_file
        parts = () if file is None else names.segments.get(file.name, ())
        large = [
            i for i, part in enumerate(parts) if part.end - part.start >= SEGMENT or not part.name.startswith(OPEN)
        ]
        small = parts[large[-1] + 1 if large else 0 :]
        if file is None or self._folder is None or len(small) < 2:
            return names
        self.fill(file, small[0].start)
        one = self._put_segment(file.name, self._folder / file.name, small[0].start, small[-1].end)
        return replace(names, segments={**names.segments, file.name: (*parts[: -len(small)], one)})

    def _with_note(self, names: Names, state: ManifestState, folds: bool) -> Names:
        """Put the note about the open file, if it is time to: whoever goes on need not read all of it."""
        known, file = names.remembered, state.open_file
        if file is None or (known is not None and known.file != file.name):
            names, known = replace(names, remembered=None), None
        if self._note is None or file is None or self._note[:2] != (file.name, file.size):
            return names
        size, before = file.size, 0 if known is None else known.size
        if size == before or (self.follows and not folds and size < before + _REMEMBERED):
            return names
        data = self._note[2]
        name = f"{OPEN}/{file.name}/note-{size:012d}-{hashlib.sha256(data).hexdigest()[:16]}"
        self.objects.create(name, data)
        return replace(names, remembered=Remembered(file.name, size, name))

    def compose(self) -> None:
        """Make one object of each file that is not yet, for who reads no manifest, and remove what is not needed then.

        Raises as `append` does.
        """
        assert self._folder is not None
        files = [file for file in self.state.files if file.name in self.names.segments]
        for file in files:
            self._holes.setdefault(file.name, file.size if file.closed else 0)
            self.fill(file, 0)
            self._aside.composed[file.name] = self._whole(file, self._folder / file.name, self.names)
        if files and self.state.header is not None:
            self.record(self.state.header, self._with_composed(self.names))
        self.objects.delete(self._old)
        self._old = []

    def _whole(self, file: OutputFile, path: Path, names: Names) -> str:
        """Put a file whose local form is whole as one object, and return its name."""
        first = names.parts(file)[0].name
        if first == names.of(file.name):
            return self._replaced(file, path)
        return put_new(self.objects, file.name, path)

    def _compose(self, file: OutputFile) -> None:
        """Make one object of a file that is closed, beside what goes on; the next record names it."""
        aside = self._aside
        if file.name in aside.busy or file.name in aside.composed:
            return
        aside.busy.add(file.name)
        assert self._folder is not None
        path, here = aside.folder / file.name, self._folder / file.name
        if path not in aside.holes:
            try:
                aside.folder.mkdir(parents=True, exist_ok=True)
                hole = file.size
                if here.exists():
                    hole = self._holes.get(file.name, 0)
                    here.rename(path)
                aside.holes[path] = hole
            except OSError:
                aside.busy.discard(file.name)  # the next record tries it again
                return
        args = (file, path, self.names, aside)
        Thread(target=self._compose_now, args=args, daemon=True, name=f"put {file.name}").start()

    def _compose_now(self, file: OutputFile, path: Path, names: Names, aside: "_Aside") -> None:
        """Bring what a file put aside lacks, and put it. All of that is of no use once the folder was made anew: then
        its place is gone, and what has it now is another's.
        """
        try:
            bring_bytes(self.objects, self.names.parts(file), path, 0, aside.holes[path])
            aside.holes[path] = 0
            if path.stat().st_size == file.size:
                aside.composed[file.name] = self._whole(file, path, names)
        except (MergeError, OSError):
            pass  # the next record tries it again
        finally:
            aside.busy.discard(file.name)

    def _with_composed(self, names: Names) -> Names:
        """Return the names with files that have become one object meanwhile."""
        composed = self._aside.composed.copy()
        composed = {name: place for name, place in composed.items() if name in names.segments}
        if self.follows:
            for file in self.state.files:
                if file.closed and file.name in names.segments and file.name not in composed:
                    self._compose(file)  # what went wrong
        files = {name: place for name, place in {**names.files, **composed}.items() if name != place}
        segments = {name: parts for name, parts in names.segments.items() if name not in composed}
        return replace(names, files=files, segments=segments)

    def _put_schema(self, number: int) -> str | None:
        """Put the schema store if there is one that has changed, under a name that is never used again."""
        assert self._folder is not None
        path = self._folder / SCHEMA_NAME
        digest = _digest(path)
        if digest is None:
            self.check_copy(self._folder)  # without it in the record, it would be removed from the store, too
        if digest is None or (digest == self._schema and self.names.schema is not None):
            return self.names.schema
        name = f"schema/{number:012d}-{uuid.uuid4().hex[:12]}.duckdb"
        self.objects.create(name, path)
        self._schema = digest
        return name

    def _clear(self, record: Record, old: Names, old_base: str, put: set[str]) -> None:
        """Write the index if files have come or gone, and remove what no record needs any more, also of what was `put`
        for this one, and joined. All of that may fail, and be missing. Who reads by an older head still finds segments
        for a while.
        """
        gone = [old.of(name) for name in record.files] if isinstance(record, Removed) else []
        if old.schema is not None and old.schema != self.names.schema:
            gone.append(old.schema)
        if self.manifest.base != old_base:
            gone += self._old
            self._old = [old_base] if old_base else []
        whole = {self.names.of(file) for file in old.segments}
        self._old += (old.objects() | put) - self.names.objects() - whole - set(gone)
        gone += self._forget_composed()
        try:
            self._write_index()
            self.objects.delete(gone)
        except ObjectStoreUnreachable:
            pass

    def _write_index(self) -> None:
        """Write the names of the objects that are whole files, if others are now."""
        files, names = self.state.files, self.names
        if not files:
            return
        shown = (len(files), files[0].name, files[-1].name, dict(names.files), set(names.segments))
        if shown != self._shown and self._may_still_write():
            index = "".join(f"./{names.of(file.name)}\n" for file in files if file.name not in names.segments)
            self.objects.overwrite(f"{basename_of(self.state)}.index", index.encode())
            self._shown = shown

    def _may_still_write(self) -> bool:
        """Return whether another may not have taken over since the last record was put: its index is the newer one."""
        try:
            if self.allowed is not None:
                self.allowed()
        except MergeError:
            return False
        return True

    def _forget_composed(self) -> list[str]:
        """Remove the local form of files that are one object now; return the objects of those that are removed since:
        no record has ever named them.
        """
        aside, left, there = self._aside, [], {file.name for file in self.state.files}
        for name in [name for name in aside.composed.copy() if name not in self.names.segments]:
            made = aside.composed.pop(name)
            if name not in there:
                left.append(made)
            (aside.folder / name).unlink(missing_ok=True)
            aside.holes.pop(aside.folder / name, None)
        return left


def bring_bytes(objects: Objects | FolderObjects, parts: Sequence[Segment], path: Path, start: int, end: int) -> None:
    """Copy a file's bytes from `start` to `end` into its local form. Raises FileNotFoundError if an object is gone."""

    def bring(part: Segment) -> None:
        begins, size = max(start, part.start) - part.start, min(end, part.end) - part.start
        if begins < size and objects.fetch(part.name, path, size, begins, part.start) is None:
            raise FileNotFoundError(errno.ENOENT, "the store does not have it (any more)", part.name)

    with ThreadPoolExecutor(min(_READERS, max(1, len(parts)))) as readers:
        list(readers.map(bring, parts))


def _published(state: ManifestState) -> tuple[object, ...]:
    """Return by what a copy's manifest is known to be that of what is published."""
    return state.run, state.rank, state.epoch, state.header is None


def _digest(path: Path) -> str | None:
    """Return a hash of a file, None if there is none. Raises IoError."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise io_error(error, str(path)) from error


def loaded(uri: str, awaited: bool = False) -> "ObjectOutput":
    """Return the output below a URI. Raises ManifestError if there is none, unless it is `awaited`."""
    output = ObjectOutput(uri)
    output.load()
    if output.state.header is None and not awaited:
        raise ManifestError("no merge has written here", file=output.objects.place(), remedy="give a merged log")
    return output
