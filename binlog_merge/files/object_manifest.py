"""The manifest of an output in an object store: its last records in one object, those before them in another.

    manifest/head.jsonl             {"kind":"head","base":…}, then for each record since the base two lines:
                                    the record, and where the files and the schema store are
    manifest/000000000064.jsonl     two lines that say all of what was published up to that record

A record is put by replacing the head that its writer knows: whoever finds another head is the loser of two writers, and
has changed nothing. So who has read one head needs one conditional request to learn whether there is a newer one. What
only the last record has to say, the ones before it in the head do not say any more.

Outputs of versions before this one have an object a record (`manifest/000000000001.jsonl` …), of which each LEGACY-th
says everything. The next record makes a head: under the name of what would be the next of those objects stands what
older versions refuse.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

from binlog_merge.errors import ManifestError, OutputBusy
from binlog_merge.files.failpoint import failpoint
from binlog_merge.files.hashed_lines import decode, encode
from binlog_merge.files.intact import PUT_BACK
from binlog_merge.files.manifest import (
    CLAIMED_VERSION,
    ManifestState,
    OutputFile,
    Publish,
    Record,
    decode_record,
    encode_record,
)
from binlog_merge.files.objects import FolderObjects, Objects, Version
from binlog_merge.files.parts import HEAD

FOLD: Final = 64
"""So many records are in the head at most."""
LEGACY: Final = 64
_HEAD_BYTES: Final = 256 << 10
_BASE_SHARE: Final = 32  # a base of many files is written again only after so many-th of its size
_READERS: Final = 16
_KIND: Final = "objects"
_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class Segment:
    """The bytes of a file from `start` to `end`: they are the first of an object."""

    start: int
    end: int
    name: str


@dataclass(frozen=True, slots=True)
class Remembered:
    """A note about an open file of some size: the name of its object."""

    file: str
    size: int
    name: str


@dataclass(frozen=True, slots=True)
class Names:
    """Where files are that are not under their own names, by these; where the schema store is.

    `segments` are those of files that are not one object (yet).
    """

    files: Mapping[str, str]
    schema: str | None = None
    segments: Mapping[str, tuple[Segment, ...]] = field(default_factory=dict)
    remembered: Remembered | None = None

    def of(self, file: str) -> str:
        """Return the name of a file's object."""
        return self.files.get(file, file)

    def parts(self, file: OutputFile) -> tuple[Segment, ...]:
        """Return the objects that make up a file, in order."""
        return self.segments.get(file.name) or (Segment(0, file.size, self.of(file.name)),)

    def objects(self) -> set[str]:
        """Return the names of all segments, of the note and of the schema store, which are needed.

        The first segment of a file may be the object that is to be all of it, and then is no segment any more.
        """
        found = {part.name for parts in self.segments.values() for part in parts}
        found |= set() if self.schema is None else {self.schema}
        return found | (set() if self.remembered is None else {self.remembered.name})

    def among(self, files: Iterable[OutputFile]) -> "Names":
        """Return what is said of these files."""
        kept = {file.name for file in files}
        return replace(
            self,
            files={name: place for name, place in self.files.items() if name in kept},
            segments={name: parts for name, parts in self.segments.items() if name in kept},
        )

    def since(self, earlier: "Names") -> dict[str, Any]:
        """Return what differs from earlier names, as a record has it: see `after`."""
        segments: dict[str, list[list[Any]] | None] = {
            name: None for name in earlier.segments if name not in self.segments
        }
        for name, parts in self.segments.items():
            known = earlier.segments.get(name, ())
            same = next(
                (i for i, (a, b) in enumerate(zip(known, parts, strict=False)) if a != b), min(len(known), len(parts))
            )
            if parts[same:]:
                segments[name] = [[part.start, part.end, part.name] for part in parts[same:]]
        files = {name: place for name, place in self.files.items() if earlier.files.get(name) != place}
        files |= {name: name for name in earlier.files if name not in self.files}
        note = self.remembered
        return {
            "files": files,
            "schema": self.schema,
            "segments": segments,
            "remembered": None if note is None else [note.file, note.size, note.name],
        }

    def after(self, values: Mapping[str, Any]) -> "Names":
        """Return the names after a record's. Segments of a file replace those from where they start on; None: all."""
        files = {name: place for name, place in {**self.files, **values["files"]}.items() if name != place}
        segments = dict(self.segments)
        for name, parts in values.get("segments", {}).items():
            if parts is None:
                segments.pop(name, None)
                continue
            new = tuple(Segment(int(start), int(end), str(place)) for start, end, place in parts)
            begins = new[0].start if new else 0
            joined = (*(part for part in segments.get(name, ()) if part.end <= begins), *new)
            if any(one.end != other.start for one, other in pairwise(joined)) or joined[0].start:
                raise ManifestError(f"segments of {name} do not follow each other")
            segments[name] = joined
        note = values.get("remembered")
        return Names(files, values["schema"], segments, None if note is None else Remembered(*note))


@dataclass(frozen=True, slots=True)
class Known:
    """What the records up to one say: its number, and its hash."""

    state: ManifestState = ManifestState()  # noqa: RUF009 - frozen
    names: Names = Names({})
    number: int = 0
    last_hash: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A record, and what else is said beside it: see `Names.since`."""

    record: Record
    values: Mapping[str, Any]

    def thin(self) -> "Entry":
        """Return what is still said of a record once another run has published."""
        if not isinstance(self.record, Publish):
            return self
        return replace(self, record=replace(self.record, nodes={}, state={}, totals={}))


class ObjectManifest:
    """The manifest below a URI, as of the last record that was read or written: first `load`."""

    def __init__(self, objects: Objects | FolderObjects) -> None:
        self._objects = objects
        self._writer = uuid.uuid4().hex
        self._known = self._root = Known()
        self._entries: tuple[Entry, ...] = ()
        self._head_size = self._base_size = 0
        self.base, self.at = "", 0.0
        self.tag: str | None = None

    @property
    def state(self) -> ManifestState:
        """Return what is published."""
        return self._known.state

    @property
    def names(self) -> Names:
        """Return where it is."""
        return self._known.names

    @property
    def number(self) -> int:
        """Return the number of the last record, 0 if there is none."""
        return self._known.number

    @property
    def folds(self) -> bool:
        """Return whether the next record goes into a new base, rather than into the head."""
        full = self._head_size > max(_HEAD_BYTES, self._base_size // _BASE_SHARE)
        return self.tag is None or full or len(self._entries) >= FOLD

    def load(self) -> None:
        """Read all records, once. Raises ManifestError, and what is wrong with the store."""
        if not self.advance():
            self._load_legacy()

    def advance(self) -> bool:
        """Read what was published since; return whether there is anything. Raises what `load` raises."""
        for _ in range(_ATTEMPTS):
            try:
                head = self._objects.changed(HEAD, self.tag)
            except FileNotFoundError:
                if self.tag is not None:
                    raise ManifestError("it is missing", file=self._objects.place(HEAD), remedy=PUT_BACK) from None
                return self._advance_legacy()
            if head is None:
                return False
            if self._take_head(head):
                return True
        raise ManifestError(
            "an object that the head refers to is missing", file=self._objects.place(HEAD), remedy=PUT_BACK
        )

    def _take_head(self, head: Version) -> bool:
        """Take a head; return False if the base that it refers to is gone, since it is an old one."""
        first, *lines = head.data.splitlines() or [b""]
        place = self._objects.place(HEAD)
        try:
            kind, values, _ = decode(first, "")
            base, number = str(values["base"]), int(values["number"])
            if kind != "head" or len(lines) % 2:
                raise ManifestError(f"a line of the kind {kind!r}, {len(lines)} lines")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _unreadable(error, place) from None
        except ManifestError as error:
            raise error.located(file=place) from None
        root, size = self._root, self._base_size
        if base != self.base:
            data = self._objects.read(base)
            if data is None:
                return False
            root, size = self._taken(Known(number=number - 1), data.splitlines(), base)[0], len(data)
        known, entries = root, []
        for at in range(0, len(lines), 2):
            known, entry = self._taken(known, lines[at : at + 2], HEAD)
            entries.append(entry)
        self._known, self._root, self._entries = known, root, tuple(entries)
        self.base, self._base_size, self._head_size = base, size, len(head.data)
        self.tag, self.at = head.tag, head.at
        return True

    def _taken(self, known: Known, lines: list[bytes], name: str) -> tuple[Known, Entry]:
        """Return what is known after another record, whose two lines are in an object of this name."""
        try:
            first, second = lines
            record, digest = decode_record(first, known.last_hash)
            kind, values, last_hash = decode(second, digest)
            if kind != _KIND:
                raise ManifestError(f"a line of the kind {kind!r}")
            state, names = known.state.after(record), known.names.after(values)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise _unreadable(error, self._objects.place(name)) from None
        except ManifestError as error:
            raise error.located(file=self._objects.place(name)) from None
        return Known(state, names, known.number + 1, last_hash), Entry(record, values)

    def append(self, record: Record, names: Names, allowed: Callable[[], None] | None = None) -> None:
        """Put a record whose objects are there, under these names. `allowed` is called before.

        Raises OutputBusy if another writer was first. After any error the record is not published.
        """
        known = Known(self.state.after(record), names, self.number + 1)
        entries, root, base, size = self._entries, self._root, self.base, self._base_size
        if self.folds:
            base, known, size = self._fold(known, allowed)
            entries, root = (), known
        else:
            values = names.since(self.names) | {"writer": self._writer}
            before = entries if not isinstance(record, Publish) else tuple(entry.thin() for entry in entries)
            entries = (*before, Entry(record, values))
        lines, last_hash = _lines(entries, root.last_hash)
        head = encode("head", {"base": base, "number": root.number}, "")[0] + lines
        failpoint("object-before-manifest")
        if allowed is not None:
            allowed()
        known_tag = self.tag
        put = self._objects.create(HEAD, head) if known_tag is None else self._objects.replace(HEAD, head, known_tag)
        if put is None:
            raise self._busy(known.number)
        failpoint("object-after-manifest")
        self._known, self._root, self._entries = replace(known, last_hash=last_hash), root, entries
        self.base, self._base_size, self._head_size, self.tag = base, size, len(head), put

    def _busy(self, number: int) -> OutputBusy:
        return OutputBusy(
            f"another merge has published record {number} of this output meanwhile",
            file=self._objects.place(),
            remedy="let one merge at a time write to an output; run it again, and it goes on from there",
        )

    def _fold(self, known: Known, allowed: Callable[[], None] | None) -> tuple[str, Known, int]:
        """Put all records as one; return the name of its object, what it says with its hash, and its size."""
        line, digest = encode_record(known.state.folded(CLAIMED_VERSION), "")
        second, last_hash = encode(_KIND, known.names.since(Names({})) | {"writer": self._writer}, digest)
        name, data = _object_of(known.number), line + second
        failpoint("object-before-fold")
        if allowed is not None:
            allowed()
        if not self._objects.create(name, data):
            if self.tag is None:  # an older version counts what is under this name
                raise self._busy(known.number)
            name = f"manifest/{known.number:012d}.{self._writer[:12]}.jsonl"
            self._objects.create(name, data)
        return name, replace(known, last_hash=last_hash), len(data)

    def _load_legacy(self) -> None:
        # A head that has come since is no such record: it is read by `advance`.
        numbers = sorted(number for name in self._objects.below("manifest") if (number := _number_of(name)))
        first = max((n for n in numbers if n % LEGACY == 0), default=1)
        numbers = [n for n in numbers if n >= first]
        if numbers != list(range(first, first + len(numbers))):
            raise ManifestError("a record of the manifest is missing", file=self._objects.place("manifest"))
        with ThreadPoolExecutor(_READERS) as readers:
            found = readers.map(lambda n: self._objects.read(_object_of(n)), numbers)
            for number, data in zip(numbers, found, strict=True):
                self._take_legacy(number, data or b"")

    def _advance_legacy(self) -> bool:
        news = False
        while self.number and (data := self._objects.read(_object_of(self.number + 1))) is not None:
            self._take_legacy(self.number + 1, data)
            news = True
        return news

    def _take_legacy(self, number: int, data: bytes) -> None:
        """Take the next record of those that are an object each."""
        says_all = number % LEGACY == 0 or b'"kind":"folded"' in data.partition(b"\n")[0]
        known = Known(number=number - 1) if says_all or not self.number else self._known
        self._known, _ = self._taken(known, data.splitlines(), _object_of(number))
        self.at = self._objects.written_at(_object_of(number))


def _lines(entries: Iterable[Entry], last_hash: str) -> tuple[bytes, str]:
    """Return the lines of records, of which the first follows a line with this hash, and the hash of the last."""
    lines = []
    for entry in entries:
        line, digest = encode_record(entry.record, last_hash)
        second, last_hash = encode(_KIND, entry.values, digest)
        lines += [line, second]
    return b"".join(lines), last_hash


def _unreadable(error: Exception, place: str) -> ManifestError:
    return ManifestError(f"a record of the manifest cannot be read: {error}", file=place)


def _object_of(number: int) -> str:
    return f"manifest/{number:012d}.jsonl"


def _number_of(name: str) -> int:
    text = name.rpartition("/")[2].removesuffix(".jsonl")
    return int(text) if text.isdecimal() else 0
