"""The manifest: the single source of truth about what has been published in an output directory.

    manifest.jsonl    {"kind":"header",  …}
                      {"kind":"publish", …}           one a run
                      {"kind":"removed", …}           before files are removed
                      {"kind":"claim",   …}           who writes from here on, where several might

One JSON object a line, append-only, each with its own hash and that of the line before (`hashed_lines`). A line counts
once it is on disk with its newline: a torn last line (the process or the machine died while writing it) is ignored,
damage anywhere else is an error. Files that no line names are not part of the output.

A merge that runs for weeks publishes several times a second. When the lines have grown beyond FOLD_BYTES, they are
replaced, by rename, by one line of the kind "folded" that says the same: what exists now.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Protocol, Self

from binlog_merge.errors import IoError, ManifestError, io_error
from binlog_merge.files.disk import replace_file, sync_directory
from binlog_merge.files.failpoint import failpoint
from binlog_merge.files.hashed_lines import decode, encode, whole_lines

MANIFEST_NAME = "manifest.jsonl"
FORMAT_VERSION = 3
CLAIMED_VERSION = 4
"""The format of what older versions do not know: who writes, and outputs in object stores that grow by segments."""
FOLD_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Header:
    """The first record: which cluster and configuration an output belongs to. A later one replaces it if a node joins.

    `fingerprint` is the hash of `settings`, which are kept so that a difference can be named. `carrier` is the carrier
    of commit TSOs in use, never "auto"; None while no commit TSO has been seen.
    """

    cluster_uuid: str
    name: str
    node_numbers: Mapping[str, int]
    server_version: str
    fingerprint: str
    settings: Mapping[str, Any]
    carrier: str | None = None
    format_version: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A published file of the merged binlog. A file that is not closed may be published again, longer.

    Keys are 54-digit texts. `input_bytes` is the size by which files are cut; `sequence_number` is that of the last
    transaction; `tail` is the SHA-256 of the last 64 KiB, None in older manifests.
    """

    name: str
    size: int
    closed: bool
    first_key: str
    last_key: str
    first_rank: int
    last_rank: int
    input_bytes: int
    transactions: int
    sequence_number: int
    sha256: str | None = None
    tail: str | None = None
    state: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeState:
    """How far a node's log has been read. `checkpoint` belongs to the scan and is opaque here."""

    scan_end_file: str
    scan_end_position: int
    checkpoint: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Publish:
    """The result of a run. `files` are those that are new or have grown, in order.

    `rank` and `totals` count from the beginning of the output. `last_key` is None while nothing has been published,
    `watermark` while none is known. `state` belongs to the job.
    """

    run: int
    files: tuple[OutputFile, ...]
    last_key: str | None
    watermark: str | None
    rank: int
    totals: Mapping[str, int]
    nodes: Mapping[str, NodeState]
    end_of_input: bool = False
    state: Mapping[str, Any] = field(default_factory=dict)
    format_version: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True)
class CapturedFile:
    """A captured file that is removed. `identity` tells it from a later one of the same name (`files.head`)."""

    name: str
    identity: str
    size: int


@dataclass(frozen=True, slots=True)
class Removed:
    """Files that are removed once this record is on disk. `at` is in seconds since 1970.

    `files` are the names of the output's oldest closed files, `captured` by node those that no run needs any more.
    """

    at: float
    files: tuple[str, ...] = ()
    captured: Mapping[str, tuple[CapturedFile, ...]] = field(default_factory=dict)
    format_version: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True)
class Gone:
    """What all removals have taken away, and up to where: counts, bytes, and the last one.

    `last_name`, `last_key` and `last_rank` are those of the last removed output file, None and 0 if only captured
    files were removed. `captured` are the captured files of the last record for each node: a crash may have left them.
    """

    at: float
    files: int = 0
    bytes: int = 0
    last_name: str | None = None
    last_key: str | None = None
    last_rank: int = 0
    captured_files: int = 0
    captured_bytes: int = 0
    captured: Mapping[str, tuple[CapturedFile, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Claim:
    """Who writes from here on, as the holder of a lease: each epoch is claimed once, and none before it writes again.

    `at` is when, in seconds since 1970 by the holder's clock, for people.
    """

    epoch: int
    holder: str
    at: float
    format_version: int = CLAIMED_VERSION


@dataclass(frozen=True, slots=True)
class Folded:
    """All records up to some run in one: what existed then. `header` is None if all that there is is a claim."""

    header: Header | None
    last: Publish | None
    files: tuple[OutputFile, ...]
    gone: Gone | None = None
    claim: Claim | None = None
    format_version: int = FORMAT_VERSION


Record = Header | Publish | Removed | Claim | Folded
_KINDS: dict[str, type[Header] | type[Publish] | type[Removed] | type[Claim] | type[Folded]] = {
    "header": Header,
    "publish": Publish,
    "removed": Removed,
    "claim": Claim,
    "folded": Folded,
}


@dataclass(frozen=True, slots=True)
class ManifestState:
    """The state after all records: what exists now. `files` are the published files in order, without removed ones."""

    header: Header | None = None
    last: Publish | None = None
    files: tuple[OutputFile, ...] = ()
    gone: Gone | None = None
    claim: Claim | None = None

    @property
    def epoch(self) -> int:
        """Return the epoch of whoever writes, 0 if nobody has claimed one."""
        return 0 if self.claim is None else self.claim.epoch

    def folded(self, format_version: int = FORMAT_VERSION) -> Folded:
        """Return all records so far as one."""
        version = format_version if self.claim is None else CLAIMED_VERSION
        return Folded(self.header, self.last, self.files, self.gone, self.claim, version)

    @property
    def run(self) -> int:
        """Return the number of the last run, 0 before the first."""
        return 0 if self.last is None else self.last.run

    @property
    def rank(self) -> int:
        """Return the rank of the last published transaction, 0 before the first."""
        return 0 if self.last is None else self.last.rank

    @property
    def open_file(self) -> OutputFile | None:
        """Return the last file if it may still grow."""
        return self.files[-1] if self.files and not self.files[-1].closed else None

    @property
    def next_number(self) -> int:
        """Return the number of the file after the last one, from 1 on."""
        return int(self.files[-1].name.rpartition(".")[2]) + 1 if self.files else 1

    @property
    def first_rank(self) -> int:
        """Return the rank of the first transaction that no removal has taken away, 1 if none has."""
        return 1 if self.gone is None else self.gone.last_rank + 1

    def after(self, record: Record) -> "ManifestState":
        """Return the state after another record. Raises ManifestError if the record does not follow this state."""
        if isinstance(record, Header):
            return replace(self, header=record)
        if isinstance(record, Folded):
            if self.header is not None or self.claim is not None:
                raise ManifestError("a folded record after others")
            return ManifestState(record.header, record.last, record.files, record.gone, record.claim)
        if isinstance(record, Claim):
            if record.epoch <= self.epoch:
                raise ManifestError(f"epoch {record.epoch} does not follow epoch {self.epoch}")
            return replace(self, claim=record)
        if self.header is None:
            raise ManifestError("a publish record before any header")
        if isinstance(record, Removed):
            return self._without(record)
        if record.run != self.run + 1 or record.rank < self.rank:
            raise ManifestError(
                f"run {record.run} with rank {record.rank} does not follow run {self.run} with rank {self.rank}"
            )
        files = list(self.files)
        for new in record.files:
            if files and files[-1].name == new.name:
                if files[-1].closed or new.size < files[-1].size:
                    raise ManifestError(f"{new.name} is published again, but it was closed or longer")
                files.pop()
            elif files and (not files[-1].closed or new.name in {f.name for f in files}):
                raise ManifestError(f"{new.name} is published after {files[-1].name}, which is not its predecessor")
            files.append(new)
        return replace(self, last=record, files=tuple(files))

    def _without(self, record: Removed) -> "ManifestState":
        count = len(record.files)
        removed, left = self.files[:count], self.files[count:]
        if tuple(file.name for file in removed) != record.files or (removed and not left):
            raise ManifestError(f"{', '.join(record.files)} are removed, but are not the output's oldest files")
        before = self.gone or Gone(record.at)
        captured = [file for files in record.captured.values() for file in files]
        last = removed[-1] if removed else None
        gone = Gone(
            at=record.at,
            files=before.files + count,
            bytes=before.bytes + sum(file.size for file in removed),
            last_name=before.last_name if last is None else last.name,
            last_key=before.last_key if last is None else last.last_key,
            last_rank=before.last_rank if last is None else last.last_rank,
            captured_files=before.captured_files + len(captured),
            captured_bytes=before.captured_bytes + sum(file.size for file in captured),
            captured={**before.captured, **record.captured},
        )
        return replace(self, files=left, gone=gone)


class Elsewhere(Protocol):
    """Where a record counts before it counts here: an output in an object store, of which the directory is a copy."""

    allowed: Callable[[], None] | None
    """Is called before a record is put: see Manifest."""

    @property
    def state(self) -> ManifestState:
        """Return what is published there."""

    def check_copy(self, directory: Path, state: ManifestState | None = None) -> None:
        """Raise IoError if something of what the directory is to have of it is gone, or its manifest says something
        else (`state`). It guards each step that would make anew, or publish anew, what is gone.
        """

    @property
    def head(self) -> str | None:
        """Return the tag of the manifest's head to which the next record will be added, None if there is none yet."""

    def append(self, record: Record, sent: Mapping[str, str]) -> None:
        """Publish a record, some of whose files are `sent`: objects by the files' names.

        Raises MergeError; then it is not published.
        """

    @property
    def puts_an_hour(self) -> int | None:
        """Return how many requests that write an hour takes; None while that is not known."""

    def fill(self, file: OutputFile, start: int) -> None:
        """Bring the bytes of the open file from `start` on, as far as they are not in the directory.

        Raises MergeError.
        """

    def remembered(self, file: OutputFile) -> tuple[int, bytes] | None:
        """Return what `remember` was given last of the open file, and the size that the file had then; None if nothing
        was. Raises MergeError.
        """

    def remember(self, file: str, size: int, data: bytes) -> None:
        """Take what makes it needless to read an open file of this size again. It is kept now and then."""


class Manifest:
    """The manifest of one directory: `Manifest.load(dir)`, then `state` and `append`. Append only under OutputLock.

    `elsewhere` gets each record first. `allowed` is called before anything of a record can be seen; it raises what is
    in the way of writing.
    """

    elsewhere: Elsewhere | None = None
    allowed: Callable[[], None] | None = None

    def __init__(self, path: Path, state: ManifestState, length: int, last_hash: str, inode: int, folded: int) -> None:
        self._path = path
        self._state = state
        self._length = length
        self._last_hash = last_hash
        self._inode = inode
        self._folded = folded  # length of a folded first line

    @property
    def state(self) -> ManifestState:
        """Return what exists now."""
        return self._state

    def copies(self, elsewhere: Elsewhere | None) -> None:
        """Have each record go to `elsewhere` first. Raises IoError if this is not what is published there: somebody has
        removed the copy, and what is not there would be published anew.
        """
        if elsewhere is not None:
            elsewhere.check_copy(self._path.parent, self._state)
        self.elsewhere = elsewhere

    @classmethod
    def load(cls, directory: str | os.PathLike[str], known: "Manifest | None" = None) -> Self:
        """Read the manifest of a directory; an empty one if there is none. Raises ManifestError.

        Of a manifest that is `known` only what was appended since is read: of one whose lines were all replaced by one
        meanwhile, everything, though a file system may have given that file the number of the one before.
        """
        path = Path(directory) / MANIFEST_NAME
        found = cls(path, ManifestState(), 0, "", 0, 0)
        try:
            with path.open("rb") as file:
                status = os.fstat(file.fileno())
                found._inode = status.st_ino
                if known is not None and known._path == path and known._is_beginning_of(status):
                    found._state, found._length = known._state, known._length
                    found._last_hash, found._folded = known._last_hash, known._folded
                    file.seek(found._length)
                data = file.read()
        except FileNotFoundError:
            data = b""
        except NotADirectoryError:
            raise ManifestError(
                "it is no directory", file=str(directory), remedy="give the directory of a merged log"
            ) from None
        except OSError as error:
            raise io_error(error, str(path)) from error
        continued = found._length > 0
        try:
            for line in whole_lines(data):
                found._take(line)
        except ManifestError:
            if continued:
                return cls.load(directory)
            raise
        return found

    def _is_beginning_of(self, status: os.stat_result) -> bool:
        appended = self._length > self._folded  # of a line alone, another one of its length may be in its place
        return appended and self._inode == status.st_ino and self._length <= status.st_size

    def _take(self, line: bytes) -> None:
        try:
            record, self._last_hash = decode_record(line, self._last_hash)
            self._state = self._state.after(record)
        except ManifestError as error:
            raise error.located(file=str(self._path), position=self._length) from None
        self._length += len(line) + 1
        if isinstance(record, Folded):
            self._folded = self._length

    def append(self, record: Record, sent: Mapping[str, str] | None = None) -> ManifestState:
        """Append a record and return the new state once it is on disk. The rest of a torn write is cut off first.

        `sent` is for `elsewhere`.
        """
        line, last_hash = encode_record(record, self._last_hash)
        try:
            # Decoded again, so that the state is what the next run will read (tuples become lists, keys text).
            state = self._state.after(decode_record(line, self._last_hash)[0])
        except ManifestError as error:
            raise error.located(file=str(self._path)) from None
        if self.elsewhere is not None:
            self.elsewhere.append(record, sent or {})
        elif self.allowed is not None:
            self.allowed()
        try:
            made = 0 if self._length else os.O_CREAT  # else a removed one would come back without its beginning
            fd = os.open(self._path, os.O_WRONLY | made | os.O_CLOEXEC, 0o644)
            try:
                os.ftruncate(fd, self._length)
                _write(fd, line, self._length)
                os.fsync(fd)
                self._inode = os.fstat(fd).st_ino
            finally:
                os.close(fd)
        except OSError as error:
            raise io_error(error, str(self._path)) from error
        if not self._length:
            sync_directory(self._path.parent)
        self._state, self._length, self._last_hash = state, self._length + len(line), last_hash
        if self._length - self._folded > max(FOLD_BYTES, self._folded):
            self._fold()
        return state

    def _fold(self) -> None:
        """Replace all lines by one that says the same. A failure leaves the lines, for the next record to fold."""
        line, digest = encode_record(self._state.folded(), "")
        failpoint("manifest-before-fold")
        with suppress(IoError):
            replace_file(self._path, line)
            self._length = self._folded = len(line)
            self._last_hash, self._inode = digest, self._path.stat().st_ino
        failpoint("manifest-after-fold")


def _write(fd: int, line: bytes, offset: int) -> None:
    half = len(line) // 2
    for part in (line[:half], line[half:]):
        while part:
            count = os.pwrite(fd, part, offset)
            part, offset = part[count:], offset + count
        failpoint("manifest-torn")


def encode_record(record: Record, previous: str) -> tuple[bytes, str]:
    """Return a record's line and its hash; `previous` is the hash of the line before."""
    kind = next(name for name, cls in _KINDS.items() if isinstance(record, cls))
    values = asdict(record)
    if isinstance(record, Folded) and record.claim is None:
        del values["claim"]  # older versions know a manifest without claims
    return encode(kind, values, previous)


def decode_record(line: bytes, previous: str) -> tuple[Record, str]:
    """Return the record in a line, and its hash. Raises ManifestError."""
    try:
        kind, values, digest = decode(line, previous)
        if values.get("format_version", FORMAT_VERSION) > CLAIMED_VERSION:
            raise ManifestError("the manifest was written by a newer version", remedy="upgrade binlog-merge")
        cls = _KINDS[kind]
        if cls is Folded:
            values = _folded_values(values)
        elif cls is Removed:
            values = {**values, "files": tuple(values["files"]), "captured": _captured(values)}
        return cls(**_publish_values(values) if cls is Publish else _known(cls, values)), digest
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ManifestError(f"a record of the manifest cannot be read: {error}") from None


def _publish_values(values: Mapping[str, Any]) -> dict[str, Any]:
    files = tuple(OutputFile(**_known(OutputFile, f)) for f in values["files"])
    nodes = {node: NodeState(**_known(NodeState, s)) for node, s in values["nodes"].items()}
    return _known(Publish, {**values, "files": files, "nodes": nodes})


def _folded_values(values: Mapping[str, Any]) -> dict[str, Any]:
    last = None if values["last"] is None else Publish(**_publish_values(values["last"]))
    files = tuple(OutputFile(**_known(OutputFile, f)) for f in values["files"])
    gone = values.get("gone")  # manifests of format 2 have none
    if gone is not None:
        gone = Gone(**_known(Gone, {**gone, "captured": _captured(gone)}))
    header = None if values["header"] is None else Header(**_known(Header, values["header"]))
    claim = None if values.get("claim") is None else Claim(**_known(Claim, values["claim"]))
    return _known(Folded, {**values, "header": header, "last": last, "files": files, "gone": gone, "claim": claim})


def _captured(values: Mapping[str, Any]) -> dict[str, tuple[CapturedFile, ...]]:
    found = values["captured"].items()
    return {node: tuple(CapturedFile(**_known(CapturedFile, f)) for f in files) for node, files in found}


def _known(cls: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Check that a record has only fields of this version; silently dropping a field could change the output."""
    names = {f.name for f in fields(cls)}
    if unknown := set(values) - names:
        raise ManifestError(f"the manifest has unknown fields: {', '.join(sorted(unknown))}")
    return dict(values)
