"""The published log as a replica's source presents it: files, positions, GTID sets, all taken from the manifest.

A view is a value: the manifest's state and the first existing file at one moment. Files that the manifest says are
removed are purged, and those that the owner has removed. A file's index counts all that were ever published,
from 0, so that it stays the same in every view.
"""

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final, Self
from uuid import UUID

from binlog_merge.binlog.constants import BINLOG_MAGIC
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.errors import InternalError, ManifestError, io_error
from binlog_merge.files.log_folder import LogFolder, NothingWritten, folder_of
from binlog_merge.files.manifest import MANIFEST_NAME, Header, ManifestState, OutputFile
from binlog_merge.files.publish import basename_of, file_name
from binlog_merge.log.rank_set import RankSet

_PAUSE: Final = 0.2


@dataclass(frozen=True, slots=True)
class LogView:
    """The published log at one moment. `first` is the index of the first file there; those before are purged."""

    folder: LogFolder
    header: Header
    state: ManifestState
    first: int

    @property
    def files(self) -> tuple[OutputFile, ...]:
        """Return the files that the manifest lists."""
        return self.state.files

    @property
    def count(self) -> int:
        """Return how many files were ever published: the index of the file after the last."""
        return _removed(self.state) + len(self.state.files)

    def file(self, number: int) -> OutputFile:
        """Return the file with this index. Raises InternalError for one that a removal has taken away."""
        if number < _removed(self.state):
            raise InternalError(f"the file with index {number} was removed")  # a negative index would be another file's
        return self.state.files[number - _removed(self.state)]

    @property
    def there(self) -> tuple[OutputFile, ...]:
        """Return the files that can be sent, in order."""
        return self.state.files[self.first - _removed(self.state) :]

    @property
    def server_id(self) -> int:
        return int(self.header.settings["output.server-id"])

    @property
    def with_gtids(self) -> bool:
        """Return whether transactions have GTIDs rather than being anonymous."""
        return bool(self.header.settings["output.gtid"] == "on")

    @property
    def key_ends_transaction(self) -> bool:
        """Return whether order keys follow XID events (`output.cts`), which makes a MySQL replica fail."""
        return bool(self.header.settings.get("output.cts", "begin") != "begin")

    @property
    def executed(self) -> GtidSet:
        """Return the GTIDs of everything published."""
        return self._upto(self.state.rank)

    @property
    def purged(self) -> GtidSet:
        """Return the GTIDs of transactions in purged files."""
        return self._upto(self.purged_rank)

    @property
    def purged_rank(self) -> int:
        """Return the rank of the last transaction in purged files."""
        gone = self.state.first_rank - 1
        return self.file(self.first - 1).last_rank if self.first > _removed(self.state) else gone

    @property
    def end(self) -> tuple[str, int]:
        """Return the file and position of the end of the log, where the next transaction will begin."""
        number = self.count - (0 if self.state.open_file is None else 1)
        return self.name(number), self.size(number)

    def opened(self, number: int) -> BinaryIO:
        """Open a file. Raises OSError, and what is wrong with a store."""
        return self.folder.opened(self.file(number))

    def name(self, number: int) -> str:
        """Return the name of the file with this index; the file after the last has a name, too."""
        if number < self.count:
            return self.file(number).name
        return file_name(basename_of(self.state), self.state.next_number)

    def size(self, number: int) -> int:
        """Return the published size of a file; for the file after the last, the position of its first event (4)."""
        return self.file(number).size if number < self.count else 4

    def number(self, name: str) -> int | None:
        """Return the index of an existing file, or of the file after the last; None for any other name."""
        for number in range(self.first, self.count + 1):
            if self.name(number) == name:
                return number
        return None

    def size_behind(self, name: str, position: int) -> int:
        """Return how many bytes of the log stand behind a place; an unknown file is taken for the first one there."""
        number = self.number(name)
        if number is None:
            number, position = self.first, 0
        return max(0, self.size(number) - position) + sum(self.size(n) for n in range(number + 1, self.count))

    def ranks_of(self, gtids: GtidSet) -> RankSet:
        """Return the ranks of the cluster's transactions in a GTID set."""
        return RankSet.of_gtids(gtids, self.header.cluster_uuid)

    def file_of(self, ranks: RankSet) -> int:
        """Return the index of the first file with transactions that are not in `ranks`; else of the last."""
        for number in range(self.first, self.count):
            file = self.file(number)
            if file.last_rank >= file.first_rank and RankSet(((file.first_rank, file.last_rank),)) - ranks:
                return number
        return max(self.first, self.count - 1)

    def gtids_of(self, ranks: RankSet) -> GtidSet:
        """Return the GTIDs of the cluster's transactions with these ranks."""
        return GtidSet.of((self.sid, "", first, last + 1) for first, last in ranks.intervals)

    @property
    def sid(self) -> bytes:
        """Return the UUID of the cluster's GTIDs, which is also the binlog server's."""
        return UUID(self.header.cluster_uuid).bytes

    def _upto(self, rank: int) -> GtidSet:
        return self.gtids_of(RankSet.upto(rank)) if self.with_gtids else GtidSet()


class PublishedLog:
    """An output directory to which merges keep publishing. For any thread.

    Raises NothingWritten if no merge has written there.
    """

    def __init__(self, place: Path | LogFolder) -> None:
        self.folder = folder_of(place)
        self._stamp = self._stamp_now()
        self._manifest = self.folder.manifest()
        self._view = self._last = _view_of(self.folder, self.folder.seen(self._manifest.state))
        self._lock = Lock()
        self._refreshing = Lock()
        self._bells: set[socket.socket] = set()

    @classmethod
    def awaited(cls, place: Path | LogFolder, report: Callable[[str], None]) -> Self:
        """Wait until a merge has written to an existing directory, and return its log.

        `report` gets a line if there is a wait. Raises NothingWritten if the directory does not exist.
        """
        reported, folder = False, folder_of(place)
        while True:
            try:
                return cls(folder)
            except NothingWritten:
                if not folder.directory.is_dir():
                    raise
            if not reported:
                report(f"no merge has written to {folder} yet: nobody can connect until the first one does")
                reported = True
            time.sleep(_PAUSE)

    def view(self) -> LogView:
        """Return the log as of the last `refresh`, without files that have been purged since.

        Files are purged from the first one on, so while that is there, no other is looked for: each file that is sent
        asks for a view, and so does each statement.
        """
        view, last = self._view, self._last
        if last.state is not view.state:
            last = view
        if last.there and not self.folder.is_there(last.there[0]):
            last = LogView(view.folder, view.header, view.state, _first_there(self.folder, view.state))
        self._last = last
        return last

    def made(self) -> Callable[[], bool]:
        """Return a function that says whether all is there that is to be there by now: only a stream is still made."""
        return lambda: True

    def refresh(self) -> None:
        """Read the manifest if it has changed, and wake the waiting threads.

        Raises ManifestError if the manifest is damaged, or belongs to another output now.
        """
        with self._refreshing:
            self._refresh()

    def _refresh(self) -> None:
        self.folder.check()
        stamp = self._stamp_now()
        if stamp == self._stamp:
            return
        manifest = self.folder.manifest(self._manifest)
        state = self.folder.seen(manifest.state)
        if not _continues(self._view.state, state):
            raise ManifestError(
                "the directory holds another output than before, or less of it",
                file=self.folder.place(),
                remedy="serve it anew; replicas of the output before must be made anew, too",
            )
        self._view, self._stamp, self._manifest = _view_of(self.folder, state), stamp, manifest
        with self._lock:
            for bell in self._bells:
                with contextlib.suppress(OSError):  # a full one has rung
                    bell.send(b"!")

    @contextlib.contextmanager
    def bell(self) -> Iterator[socket.socket]:
        """Yield a socket that becomes readable when more is published."""
        listener, bell = socket.socketpair()
        with listener, bell:
            listener.setblocking(False)
            bell.setblocking(False)
            with self._lock:
                self._bells.add(bell)
            try:
                yield listener
            finally:
                with self._lock:
                    self._bells.discard(bell)

    def _stamp_now(self) -> tuple[int, int, int]:
        path = self.folder.directory / MANIFEST_NAME
        try:
            status = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return 0, 0, 0
        except OSError as error:
            raise io_error(error, str(path)) from error
        return status.st_ino, status.st_size, status.st_mtime_ns


def _view_of(folder: LogFolder, state: ManifestState) -> LogView:
    if state.header is None:
        raise folder.nothing()
    return LogView(folder, state.header, state, _first_there(folder, state))


def _first_there(folder: LogFolder, state: ManifestState) -> int:
    for number in reversed(range(len(state.files))):
        if not folder.is_there(state.files[number]):
            return _removed(state) + number + 1
    return _removed(state)


def _removed(state: ManifestState) -> int:
    return 0 if state.gone is None else state.gone.files


def _continues(before: ManifestState, now: ManifestState) -> bool:
    """Return whether a manifest's state can follow another: nothing that was published has changed."""
    if now.header is None or before.header is None or now.header.cluster_uuid != before.header.cluster_uuid:
        return False
    removed = _removed(now) - _removed(before)
    left = before.files[max(0, removed) :]
    if now.rank < before.rank or removed < 0 or len(now.files) < len(left):
        return False
    return all(
        new == old if old.closed else (new.name == old.name and new.size >= old.size)
        for old, new in zip(left, now.files, strict=False)
    )


class NotServed(Exception):  # noqa: N818 (named after what is the case, like the errors of the project)
    """A request that cannot be served; the text is sent to the replica as error 1236."""


@dataclass(frozen=True, slots=True)
class DumpRequest:
    """A request: a file (the first if "") and position and, with auto-position, the GTIDs that the reader has."""

    file: str
    position: int
    has: GtidSet | None = None


@dataclass(frozen=True, slots=True)
class DumpStart:
    """Where a dump begins: a file's index, and a position; `resumes`: the reader has the file's beginning."""

    number: int
    position: int
    has: RankSet
    resumes: bool


def dump_start_of(view: LogView, start: DumpRequest) -> DumpStart:
    """Return where the dump for a request begins. Raises NotServed."""
    has = RankSet() if start.has is None else view.ranks_of(start.has)
    if start.has is not None:
        _check_gtids(view, start.has, by_file=bool(start.file))
    if start.position < len(BINLOG_MAGIC):
        raise NotServed("Client requested source to start replication from position < 4")
    if start.has is not None and not start.file:
        first = view.file_of(has)
        resumes = first < view.count and view.file(first).first_rank in has
        return DumpStart(first, len(BINLOG_MAGIC), has, resumes)
    number = view.number(start.file) if start.file else view.first
    if number is None:
        raise NotServed("Could not find first log file name in binary log index file")
    if start.position > view.size(number):
        raise NotServed("Client requested source to start replication from position > file size")
    return DumpStart(number, start.position, has, start.position > len(BINLOG_MAGIC))


def _check_gtids(view: LogView, has: GtidSet, by_file: bool) -> None:
    if not view.with_gtids:
        raise NotServed(
            "The replication sender thread cannot start in AUTO_POSITION mode: this server has GTID_MODE = OFF instead "
            "of ON: the merged binlog was made with output.gtid: anonymous."
        )
    ours = GtidSet.of(item for item in has.items() if item[0] == view.sid)
    if not view.executed.contains_set(ours):
        raise NotServed(
            "Replica has more GTIDs than the source has, using the source's SERVER_UUID. This may indicate that the "
            f"merged binlog was made anew, or that another one is served. The replica has '{ours}', the source "
            f"'{view.executed}'."
        )
    if not by_file and not has.contains_set(view.purged):
        missing = RankSet.upto(view.purged_rank) - view.ranks_of(has)
        raise NotServed(
            "Cannot replicate because the source purged required binary logs. Replicate the missing transactions from "
            "elsewhere, or provision a new replica from backup. The GTID set sent by the replica is "
            f"'{has}', and the missing transactions are '{view.gtids_of(missing)}'."
        )
