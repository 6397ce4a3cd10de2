"""The manifest: the single source of truth about what has been published in an output directory.

    manifest.jsonl    {"kind":"header",  …, "previous":"",          "sha256":"9f…"}
                      {"kind":"publish", …, "previous":"9f…",       "sha256":"41…"}

One JSON object a line, append-only, each with its own hash and that of the line before. A line counts once it is on
disk with its newline: a torn last line (the process or the machine died while writing it) is ignored, damage anywhere
else is an error. Files that no line names are not part of the output.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from binlog_merge.errors import ManifestError
from binlog_merge.files.durable import sync_directory
from binlog_merge.files.failpoint import failpoint
from binlog_merge.files.source import io_error

MANIFEST_NAME = "manifest.jsonl"
FORMAT_VERSION = 1


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


Record = Header | Publish
_KINDS: dict[str, type[Header] | type[Publish]] = {"header": Header, "publish": Publish}


@dataclass(frozen=True, slots=True)
class ManifestState:
    """The state after all records: what exists now. `files` are all published files, in order."""

    header: Header | None = None
    last: Publish | None = None
    files: tuple[OutputFile, ...] = ()

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

    def after(self, record: Record) -> "ManifestState":
        """Return the state after another record. Raises ManifestError if the record does not follow this state."""
        if isinstance(record, Header):
            return ManifestState(record, self.last, self.files)
        if self.header is None:
            raise ManifestError("a publish record before any header")
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
        return ManifestState(self.header, record, tuple(files))


class Manifest:
    """The manifest of one directory: `Manifest.load(dir)`, then `state` and `append`. Append only under OutputLock."""

    def __init__(self, path: Path, state: ManifestState, length: int, last_hash: str) -> None:
        self._path = path
        self._state = state
        self._length = length
        self._last_hash = last_hash

    @property
    def state(self) -> ManifestState:
        """Return what exists now."""
        return self._state

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Self:
        """Read the manifest of a directory; an empty one if there is none. Raises ManifestError."""
        path = Path(directory) / MANIFEST_NAME
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            data = b""
        except OSError as error:
            raise io_error(error, str(path)) from error
        state, last_hash, length = ManifestState(), "", 0
        for line in _whole_lines(data):
            try:
                record, last_hash = _decode(line, last_hash)
                state = state.after(record)
            except ManifestError as error:
                raise error.located(file=str(path), position=length) from None
            length += len(line) + 1
        return cls(path, state, length, last_hash)

    def append(self, record: Record) -> ManifestState:
        """Append a record and return the new state once it is on disk. The rest of a torn write is cut off first."""
        line, last_hash = _encode(record, self._last_hash)
        try:
            # Decoded again, so that the state is what the next run will read (tuples become lists, keys text).
            state = self._state.after(_decode(line, self._last_hash)[0])
        except ManifestError as error:
            raise error.located(file=str(self._path)) from None
        try:
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                os.ftruncate(fd, self._length)
                _write(fd, line, self._length)
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise io_error(error, str(self._path)) from error
        sync_directory(self._path.parent)
        self._state, self._length, self._last_hash = state, self._length + len(line), last_hash
        return state


def _write(fd: int, line: bytes, offset: int) -> None:
    half = len(line) // 2
    for part in (line[:half], line[half:]):
        while part:
            count = os.pwrite(fd, part, offset)
            part, offset = part[count:], offset + count
        failpoint("manifest-torn")


def _whole_lines(data: bytes) -> list[bytes]:
    """Return the complete lines: not a last one without a newline, nor one of zeros after a power cut."""
    lines = data.split(b"\n")[:-1]
    if lines and b"\0" in lines[-1]:
        lines.pop()
    return lines


def _encode(record: Record, previous: str) -> tuple[bytes, str]:
    kind = next(name for name, cls in _KINDS.items() if isinstance(record, cls))
    values = {"kind": kind, **asdict(record), "previous": previous}
    digest = _digest(values)
    return _canonical({**values, "sha256": digest}) + b"\n", digest


def _decode(line: bytes, previous: str) -> tuple[Record, str]:
    try:
        values = json.loads(line)
        digest = values.pop("sha256")
        if digest != _digest(values):
            raise ManifestError("a record of the manifest is damaged (its hash differs)")
        if values.pop("previous") != previous:
            raise ManifestError("a record of the manifest is missing, or stands in the wrong place")
        cls = _KINDS[values.pop("kind")]
        if values.get("format_version", FORMAT_VERSION) > FORMAT_VERSION:
            raise ManifestError("the manifest was written by a newer version", remedy="upgrade binlog-merge")
        if cls is Publish:
            values["files"] = tuple(OutputFile(**_known(OutputFile, f)) for f in values["files"])
            values["nodes"] = {node: NodeState(**_known(NodeState, s)) for node, s in values["nodes"].items()}
        return cls(**_known(cls, values)), digest
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ManifestError(f"a record of the manifest cannot be read: {error}") from None


def _known(cls: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Check that a record has only fields of this version; silently dropping a field could change the output."""
    names = {f.name for f in fields(cls)}
    if unknown := set(values) - names:
        raise ManifestError(f"the manifest has unknown fields: {', '.join(sorted(unknown))}")
    return dict(values)


def _canonical(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _digest(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(_canonical(values)).hexdigest()
