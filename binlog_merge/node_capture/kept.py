"""Captured files that are kept in a store as well (`capture.archive`), for nodes that purge their binlogs early.

    PREFIX/dn-1/binlog.000007                           a file of the node's first server
    PREFIX/dn-1/000002-<server_uuid>.binlog.000003      one of a server that had the node later

A file is put when its server has closed it, whole, and never changed. One of other bytes under a name that is taken, as
after RESET BINARY LOGS, gets a name of its own. A host that begins in the middle of a node's log takes from there what
the log goes on with, and asks the server only for what follows.
"""

import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from binlog_merge.binlog.constants import EVENT_HEADER_LEN
from binlog_merge.binlog.header import EventHeader
from binlog_merge.config.uri import is_uri
from binlog_merge.errors import MergeError, io_error
from binlog_merge.files.captured import Hole, hole_of
from binlog_merge.files.disk import sync_directory, sync_file
from binlog_merge.files.head import file_identity
from binlog_merge.files.needed import Needed, file_number
from binlog_merge.files.objects import FolderObjects, Found, Objects, put_new
from binlog_merge.files.source import Bytes, LocalSource
from binlog_merge.node_capture.begin import BEGINNING, NEAR, begun
from binlog_merge.node_capture.files import NodeFiles
from binlog_merge.node_capture.stream import FIRST_POSITION, successor
from binlog_merge.redaction import Routine

_AGAIN_SECONDS: Final = 30.0
_PART: Final = 8 << 20
_OWN: Final = re.compile(r"(\.\d{6,})\.[0-9a-f]{12}$")
"""The end of a name of its own, behind the name that was taken."""


class KeptFiles:
    """The kept files of a node: `Keeper` puts them, a capture that begins takes them. Raises what a store raises."""

    def __init__(self, place: str, node: str) -> None:
        self._objects = Objects(place) if is_uri(place) else FolderObjects(Path(place))
        self._node = node

    def check(self) -> None:
        """Raise what is wrong with the store, within seconds."""
        self._objects.check()

    def there(self) -> dict[str, Found]:
        """Return what is kept of the node, by name."""
        return {name.partition("/")[2]: found for name, found in self._objects.below(self._node).items()}

    def put(self, path: Path, name: str, there: Mapping[str, Found] = MappingProxyType({})) -> bool:
        """Keep a file that is closed; return False if it is kept by what is `there`."""
        with LocalSource(str(path)) as source:
            own, size = (file_identity(source) or "")[:12], source.size
        if any(one in there and there[one].size == size for one in (name, f"{name}.{own}")):
            return False
        put_new(self._objects, f"{self._node}/{name}", path, own=own)
        return True

    def remove(self, needed: Needed, before: float) -> list[str]:
        """Remove the files that no run of a merge needs, and that were put before a moment; return their names."""
        place = (needed.oldest.folder, file_number(needed.oldest.file))
        old = [name for name in self.there() if _place(name) < place]
        gone = [name for name in old if self._objects.written_at(f"{self._node}/{name}") < before]
        self._objects.delete([f"{self._node}/{name}" for name in gone])
        return gone

    def take(self, directory: Path, needed: Needed) -> int:
        """Fetch what is kept of what is needed into a node's folder that has no files; return how many files.

        The caller holds the folder's lock.
        """
        there, folder, name = self.there(), needed.oldest.folder, needed.oldest.file
        first = self._first(there, needed)
        if first is None:
            return 0
        files = NodeFiles(directory / folder, self._node)
        files.record(needed.before.server_uuid)
        files.begin_with(begun(needed))
        parts: dict[str, Path] = {}
        last = first
        while (kept := self._following(there, kept_name(folder, name := successor(name)), last)) is not None:
            part = parts[name] = files.directory / f".{name}.part"
            part.unlink(missing_ok=True)
            self._objects.fetch(f"{self._node}/{kept}", part, there[kept].size)
            last = kept
        # Nothing appears before all is there: with some of it a capture would go on at the server.
        self._fetch_end(first, there[first].size, files, needed)
        for name, part in parts.items():
            _appears(part, files.directory / name)
        return 1 + len(parts)

    def _following(self, there: Mapping[str, Found], name: str, last: str) -> str | None:
        """Return the kept file of a name that follows the last one in a log; None if there is none.

        Files of a log that was reset are there under the same names. They were begun before those that came after.
        """
        same = [one for one in there if one == name or (one.startswith(f"{name}.") and _OWN.search(one))]
        begun_at = {one: int.from_bytes(self._read(one, 4, 8), "little") for one in (last, *same)}
        return min((one for one in same if begun_at[one] >= begun_at[last]), key=begun_at.__getitem__, default=None)

    def _first(self, there: Mapping[str, Found], needed: Needed) -> str | None:
        """Return the kept file that is the one needed first, None if it is not kept."""
        name = kept_name(needed.oldest.folder, needed.oldest.file)
        for one in (name, f"{name}.{needed.identity[:12]}"):
            if one in there:
                with Bytes(self._read(one, 0, min(BEGINNING, there[one].size))) as source:
                    if file_identity(source) == needed.identity:
                        return one
        return None

    def _read(self, name: str, start: int, stop: int) -> bytes:
        if isinstance(self._objects, FolderObjects):
            with Path(self._objects.place(f"{self._node}/{name}")).open("rb") as file:
                file.seek(start)
                return file.read(max(0, stop - start))
        data = bytearray(max(0, stop - start))
        if data:
            self._objects.read_into(f"{self._node}/{name}", memoryview(data), start)
        return bytes(data)

    def _fetch_end(self, name: str, size: int, files: NodeFiles, needed: Needed) -> None:
        """Fetch a file's beginning, and what is needed of it; `files` says what is left out before it is there."""
        beginning = self._read(name, 0, min(BEGINNING, size))
        end = _event_end(beginning)
        path = files.directory / needed.oldest.file
        part = files.directory / f".{needed.oldest.file}.part"
        try:
            with part.open("wb") as file:
                file.write(beginning)
                file.write(self._read(name, len(beginning), min(size, max(end, len(beginning)))))
                if needed.oldest.position - file.tell() > NEAR:
                    files.leave_out(Hole(path.name, end, needed.oldest.position, needed.merged))
                    file.truncate(needed.oldest.position)
                    file.seek(needed.oldest.position)
                while (at := file.tell()) < size:
                    file.write(self._read(name, at, min(size, at + _PART)))
        except OSError as error:
            raise io_error(error, str(part)) from error
        _appears(part, path)


def kept_name(folder: str, file: str) -> str:
    """Return the name under which a captured file is kept, below its node."""
    return f"{folder}.{file}" if folder else file


def _place(name: str) -> tuple[str, int]:
    """Return the folder of a kept file's server, and its number."""
    name = _OWN.sub(r"\1", name)
    folder, _, file = name.partition(".")
    numbered = folder[:6].isdecimal() and folder[6:7] == "-"
    return (folder, file_number(file)) if numbered else ("", file_number(name))


def _event_end(beginning: bytes) -> int:
    """Return where the event ends that is the last to begin in a file's beginning."""
    at = FIRST_POSITION
    while at + EVENT_HEADER_LEN <= len(beginning):
        size = EventHeader.parse(beginning, at).event_size
        if size < EVENT_HEADER_LEN:
            break
        at += size
    return at


def _appears(part: Path, path: Path) -> None:
    try:
        sync_file(part)
        part.replace(path)
    except OSError as error:
        raise io_error(error, str(path)) from error
    sync_directory(path.parent)


class Keeper(threading.Thread):
    """Keeps the closed files of one node as they come, beside the thread that captures.

    `files` returns the captured files of the server that has the node, and what their names begin with. `report` gets
    what is in the way, and that it goes on. `unneeded`, called after a file was kept, removes what nobody needs.
    """

    def __init__(
        self,
        kept: KeptFiles,
        files: Callable[[], tuple[NodeFiles, str]],
        report: Callable[[str], None],
        unneeded: Callable[[KeptFiles], None] = lambda kept: None,
    ) -> None:
        super().__init__(name="keep captured files", daemon=True)
        self._kept, self._files, self._report, self._unneeded = kept, files, report, unneeded
        self._known = set[str]()
        self._there: Mapping[str, Found] | None = None
        self._told = False
        self._news, self._stopped = threading.Event(), False

    def closed(self) -> None:
        """Say that a file was closed. Any thread may."""
        self._news.set()

    def stop(self, seconds: float | None) -> None:
        """Have it keep what is closed by now, and end; after so many seconds the rest is left to the next one."""
        self._stopped = True
        self._news.set()
        self.join(seconds)

    def run(self) -> None:
        """Keep files until `stop`; what cannot be kept is tried again."""
        last = False
        while not last:
            last = self._stopped
            self._news.clear()
            try:
                self.keep()
                if self._told:
                    self._told = False
                    self._report("captured files are kept again")
            except MergeError as error:
                if not self._told:
                    self._told = True
                    self._report(f"captured files are not kept, and tried again: {error.message}")
            if not last:
                self._news.wait(_AGAIN_SECONDS if self._told else None)

    def keep(self) -> None:
        """Keep the files that are closed, and not kept yet. Raises what a store raises, and IoError."""
        if self._there is None or self._told:
            self._kept.check()  # fails sooner than what follows would
        if self._there is None:
            self._there = self._kept.there()
        files, prefix = self._files()
        paths = files.paths() if files.directory.is_dir() else []
        news = False
        for path in paths[:-1]:
            name = kept_name(prefix.rstrip("/"), path.name)
            if name in self._known:
                continue
            if hole_of(str(path)) is None and self._kept.put(path, name, self._there):
                self._report(Routine(f"{path.name} is kept"))
                news = True
            self._known.add(name)
        if news:
            self._unneeded(self._kept)
