"""A node's captured files: `DIR/binlog.000001` … as on the server, and `DIR/.capture.json`, the record of the server.

The position of a capture is the end of the last complete event in the last file. What a crash left after it is cut off,
and fetched again. A file is on disk, complete and with its in-use flag cleared, before the next one begins. The record
also has a position up to which everything was synced at some time. So a long file need not be read from its beginning;
and in a file without checksums, where a crash of the machine may leave anything after that position, the bytes after it
are compared with what the server sends.
"""

import errno
import io
import mmap
import os
import re
import struct
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from binlog_merge.binlog.constants import CHECKSUM_LEN, EVENT_HEADER_LEN, ChecksumAlg, EventFlag
from binlog_merge.binlog.header import EventHeader
from binlog_merge.errors import ChecksumMismatch, ConfigError, WrongNode, io_error
from binlog_merge.files.captured import RECORD_NAME, Begun, Hole
from binlog_merge.files.disk import replace_file, sync_directory
from binlog_merge.files.failpoint import failpoint
from binlog_merge.files.head import file_identity, read_head
from binlog_merge.files.source import LocalSource
from binlog_merge.node_capture.server_kind import MYSQL, ServerKind
from binlog_merge.node_capture.stream import (
    FILE_ENDS,
    FIRST_POSITION,
    FLAGS_POSITION,
    Action,
    Append,
    Begin,
    CapturedEnd,
    Expect,
    other_file,
    sound,
)
from binlog_merge.node_capture.traced import ReadSpans
from binlog_merge.tracing import tracer
from binlog_merge.whole_files import NoteKind, read_note

_NUMBERED: Final = re.compile(r"(.+)\.(\d{6,18})")
_SIZE_AND_POSITION: Final = struct.Struct("<II")
_BUFFER: Final = 1 << 20
_FLUSH_SECONDS, _SYNC_SECONDS = 0.2, 1.0
_SYNC_BYTES: Final = 16 << 20
_RECORD_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Record:
    """The server whose files these are, our UUID as its replica, and the position up to which they were synced.

    `begun`: the capture began in the middle of the node's log; `hole` is what it has not of its first file then.
    """

    server_uuid: str
    replica_uuid: str
    synced: CapturedEnd | None = None
    hole: Hole | None = None
    begun: Begun | None = None


class NodeFiles:
    """The captured files of a server of a node, for one writer, which holds the directory's lock.

    Counts what is new, from what was new of the server `before` on.
    """

    def __init__(self, directory: Path, node: str, before: "NodeFiles | None" = None, kind: ServerKind = MYSQL) -> None:
        self.directory = directory
        self.kind = kind
        self.node = node
        self.bytes: int = before.bytes if before else 0
        self.events: int = before.events if before else 0
        self.files: int = before.files if before else 0
        self._file: io.BufferedWriter | None = None
        self._name, self._last, self._end = "", 0, 0
        self._record: Record | None = None
        self._unsynced = self._unrecorded = 0
        self._flushed = self._synced = time.monotonic()
        self._spans = None if (asked := tracer()) is None else ReadSpans(asked, directory, node)

    def record(self, server_uuid: str, expected: str | None = None) -> Record:
        """Return the directory's record; a new directory is assigned to this server, which must be the expected one.

        Raises WrongNode if the files are of another server.
        """
        record = recorded(self.directory)
        known = expected if record is None else record.server_uuid
        if known not in (None, server_uuid):
            raise WrongNode(
                f"the server's server_uuid is {server_uuid}, the files captured so far are of {known}",
                node=self.node,
                file=str(self.directory),
                remedy="another server answers under the node's address: correct `server`. If it took over from that "
                "one, let it: with `--switch`, or by itself if `server` is a list (`server: [mysql://a, mysql://b]`). "
                "Else capture it into a new directory",
            )
        if record is None:
            record = Record(server_uuid, str(uuid.uuid4()))
            self._save(record)
        self._record = record
        return record

    def resume(self) -> CapturedEnd | None:
        """Open the last file, cut off an incomplete event, and return the position; None if there is no file."""
        self.close()
        paths = self.paths()
        if not paths:
            return None
        last = paths[-1]
        synced = None if self._record is None else self._record.synced
        hole = None if self._record is None else self._record.hole
        hole = hole if hole is not None and hole.file == last.name else None
        try:
            self._file = io.BufferedWriter(io.FileIO(last, "r+"), _BUFFER)
            if hole is not None and last.stat().st_size < hole.end:
                os.truncate(self._file.fileno(), hole.end)
            begins = FIRST_POSITION if hole is None else hole.end
            place, self._last = _walk(last, self._file.fileno(), self, synced, begins)
            self._name, self._end = place.name, place.end
            os.truncate(self._file.fileno(), place.end)
            self._file.seek(place.end)
        except OSError as error:
            raise io_error(error, str(last)) from error
        return place

    @property
    def place(self) -> CapturedEnd | None:
        """Return the position in the last file; None if there is no file."""
        return CapturedEnd(self._name, self._last, self._end) if self._name else None

    @property
    def ended(self) -> bool:
        """Return whether the last file ends with the event with which a server ends a file."""
        if self._file is None or self._end <= FIRST_POSITION or self._last == self._end:
            return False
        header = os.pread(self._file.fileno(), EVENT_HEADER_LEN, self._last)
        return EventHeader.parse(header).type_code in FILE_ENDS

    def apply(self, action: Action) -> None:
        """Carry out an action. Raises IoError, and WrongNode if a file does not have the bytes expected."""
        try:
            if isinstance(action, Append):
                self._append(action.data)
            elif isinstance(action, Begin):
                self._begin(action.name)
            elif isinstance(action, Expect):
                self._expect(action)
            else:
                self.finish()
        except OSError as error:
            raise io_error(error, str(self.directory / self._name), self._end) from error

    def flush(self) -> None:
        """Let readers see all that was appended. Raises IoError."""
        self._flush()
        self._flushed = time.monotonic()

    def tick(self) -> None:
        """Flush to readers after a moment, and sync to disk after a second or 16 MiB."""
        if self._file is None or not self._unsynced:
            return
        now = time.monotonic()
        if self._unsynced >= _SYNC_BYTES or now - self._synced >= _SYNC_SECONDS:
            self.sync()
        elif now - self._flushed >= _FLUSH_SECONDS:
            self.flush()

    def sync(self) -> None:
        """Sync the file; return once everything is on disk."""
        self._flush()
        if self._file is not None and self._unsynced:
            try:
                os.fsync(self._file.fileno())
            except OSError as error:
                raise io_error(error, str(self.directory / self._name)) from error
        self._unsynced, self._synced = 0, time.monotonic()
        self._flushed = self._synced
        if self._unrecorded >= _RECORD_BYTES:
            self._note_synced()

    def close(self) -> None:
        """Sync and close the file. Closing twice is allowed."""
        file = self._file
        if file is None:
            return
        try:
            self.sync()
            if self._unrecorded:
                self._note_synced()
        finally:
            self._file = None
            file.raw.close()  # what its buffer could not write must not be tried again

    def begin_with(self, begun: Begun) -> None:
        """Note that the capture begins in the middle of the node's log."""
        assert self._record is not None
        self._save(replace(self._record, begun=begun))

    def leave_out(self, hole: Hole) -> None:
        """Note what is left out of a file that is to be there next."""
        assert self._record is not None
        self._save(replace(self._record, hole=hole))

    def skip(self, position: int, merged: str) -> None:
        """Leave out what follows of the last file up to a position, and close it: `resume` goes on there.

        Raises IoError.
        """
        self.sync()
        assert self._file is not None and self._record is not None
        hole = Hole(self._name, self._end, position, merged)
        self._save(replace(self._record, hole=hole, synced=CapturedEnd(self._name, position, position)))
        failpoint("capture-before-hole")
        try:
            os.truncate(self._file.fileno(), position)
            os.fsync(self._file.fileno())
        except OSError as error:
            raise io_error(error, str(self.directory / self._name)) from error
        self._unrecorded = 0
        self.close()
        failpoint("capture-after-hole")

    def identity(self) -> str | None:
        """Return the identity of the last file (`files.head`), None if it has no first event yet."""
        self._flush()
        with LocalSource(str(self.directory / self._name)) as source:
            return file_identity(source)

    def finish(self) -> None:
        """Clear the in-use flag of a complete file."""
        self.sync()
        assert self._file is not None
        fd = self._file.fileno()
        failpoint("capture-before-finish")
        flags = os.pread(fd, 1, FLAGS_POSITION)
        if flags and flags[0] & EventFlag.LOG_EVENT_BINLOG_IN_USE_F:
            os.pwrite(fd, bytes([flags[0] & ~EventFlag.LOG_EVENT_BINLOG_IN_USE_F]), FLAGS_POSITION)
            os.fsync(fd)
        failpoint("capture-finished")

    def _begin(self, name: str) -> None:
        self.close()
        path = self.directory / name
        self._file = io.BufferedWriter(io.FileIO(path, "w+"), _BUFFER)
        sync_directory(self.directory)
        failpoint("capture-begun")
        self._name, self._last, self._end = name, 0, 0
        self.files += 1

    def _append(self, data: bytes | memoryview) -> None:
        assert self._file is not None
        self._file.write(data)
        if self._spans is not None:
            self._spans.came(self._end)
        size = len(data)
        # The first write is the magic and the first event.
        self._last, self._end = self._end or FIRST_POSITION, self._end + size
        self._unsynced += size
        self._unrecorded += size
        self.bytes += size
        self.events += 1

    def _expect(self, expected: Expect) -> None:
        assert self._file is not None
        self._flush()
        if os.pread(self._file.fileno(), len(expected.data), expected.position) != expected.data:
            raise other_file("it has other bytes there", self.node, self._name, expected.position)

    def _flush(self) -> None:
        if self._file is not None:
            try:
                self._file.flush()
            except OSError as error:
                raise io_error(error, str(self.directory / self._name)) from error
            if self._spans is not None:
                self._spans.shown(self._name, self._end)

    def paths(self) -> list[Path]:
        """Return the captured files, in order. Raises ConfigError if they are of several series."""
        try:
            found = [(_NUMBERED.fullmatch(entry.name), entry) for entry in self.directory.iterdir()]
        except OSError as error:
            raise io_error(error, str(self.directory)) from error
        files = [(match[1], int(match[2]), entry) for match, entry in found if match is not None]
        if len(series := sorted({name for name, _, _ in files})) > 1:
            raise ConfigError(
                f"the directory holds files of {len(series)} series: {', '.join(f'{name}.*' for name in series)}",
                node=self.node,
                file=str(self.directory),
                remedy="a node has one series of binlog files; capture into a new directory",
            )
        return [entry for _, _, entry in sorted(files)]

    def _note_synced(self) -> None:
        if self._record is not None:
            self._save(replace(self._record, synced=self.place))
        self._unrecorded = 0

    def _save(self, record: Record) -> None:
        place = record.synced
        synced = None if place is None else _Synced(place.name, place.last, place.end)
        noted = _Recorded(record.server_uuid, record.replica_uuid, synced, record.hole, record.begun)
        replace_file(self.directory / RECORD_NAME, _KIND.dump(noted))
        self._record = record


def recorded(directory: Path) -> Record | None:
    """Return the record of a directory, None for a new one. Raises ManifestError if it is damaged."""
    path = directory / RECORD_NAME
    return _read_record(path) if path.exists() else None


def recorded_server(directory: Path) -> str | None:
    """Return the server whose files a directory has, None for a new one. Raises ManifestError if that is damaged."""
    record = recorded(directory)
    return None if record is None else record.server_uuid


def remove_record(directory: Path) -> None:
    """Make a directory without files a new one, for any server."""
    (directory / RECORD_NAME).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class _Synced:
    """A place in the record."""

    file: str
    last: int
    end: int


@dataclass(frozen=True, slots=True)
class _Recorded:
    """The record as it is noted."""

    server_uuid: str
    replica_uuid: str
    synced: _Synced | None = None
    hole: Hole | None = None
    begun: Begun | None = None

    def __post_init__(self) -> None:
        uuid.UUID(self.server_uuid), uuid.UUID(self.replica_uuid)


_KIND: Final = NoteKind(_Recorded)
_TYPE_AT: Final = 4


def _read_record(path: Path) -> Record:
    remedy = "if the files beside it are the node's, remove it: it is made anew"
    found = read_note(path, _KIND, "the record of the capture", remedy)
    if found is None:
        raise io_error(FileNotFoundError(errno.ENOENT, "it is gone"), str(path))
    at = found.synced
    synced = None if at is None else CapturedEnd(at.file, at.last, at.end)
    return Record(found.server_uuid, found.replica_uuid, synced, found.hole, found.begun)


def _walk(path: Path, fd: int, files: NodeFiles, synced: CapturedEnd | None, begins: int) -> tuple[CapturedEnd, int]:
    """Return the position after a file's last complete (and, with checksums, sound) event, and where it begins.

    The file is whole from `begins` on.
    """
    with LocalSource(str(path)) as source:
        try:
            head = read_head(source, files.node, str(path), files.kind.is_translated)
        except ChecksumMismatch:
            head = None  # a crash of the machine may leave anything after what was synced
    if head is None:
        return CapturedEnd(path.name), 0
    checksum = head.checksum_alg == ChecksumAlg.CRC32
    certain = begins
    with mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
        if synced is not None and synced.name == path.name and synced.end <= len(view):
            certain = max(begins, synced.last)
        last, end = _whole_events(view, certain, checksum, files.kind)
        if certain > begins and end <= certain:  # the record does not fit these bytes
            certain = begins
            last, end = _whole_events(view, certain, checksum, files.kind)
        again = last if checksum else certain
        if end > again and view[again + _TYPE_AT] in files.kind.sent_again:
            again = FIRST_POSITION
    return CapturedEnd(path.name, again, end), last


def _whole_events(view: memoryview, at: int, checksum: bool, kind: ServerKind) -> tuple[int, int]:
    """Return where the last complete event from `at` on begins, and where it ends."""
    last, rest = at, len(view) - at
    least = EVENT_HEADER_LEN + (CHECKSUM_LEN if checksum else 0)
    while rest >= least:
        size, log_pos = _SIZE_AND_POSITION.unpack_from(view, at + 9)
        end = at + size
        if not least <= size <= rest or not kind.ends_at(log_pos, end):
            break
        # The first event's sum is verified with the head: its flag may be set.
        if checksum and at > FIRST_POSITION and not sound(view[at:end]):
            break
        last, at, rest = at, end, rest - size
    return last, at
