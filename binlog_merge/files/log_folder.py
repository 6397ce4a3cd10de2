"""A merged log as its readers see it: a local folder with a manifest, and the files that it names.

Files that were removed are still there for readers if they are archived (`files.archive`): they are brought when read.
Of an output in an object store the folder is a copy that keeps up with it (`files.remote_log`): it has the manifest,
and the files that are being read.
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO

from binlog_merge.errors import ManifestError
from binlog_merge.files.archived import NOTE_NAME, Archived, object_uri, read_note, with_archived
from binlog_merge.files.manifest import Manifest, ManifestState, OutputFile
from binlog_merge.redaction import redacted

if TYPE_CHECKING:
    from binlog_merge.files.away import Away
    from binlog_merge.files.objects import FolderObjects, Objects

STORE_NAME = "schema.duckdb"


class NothingWritten(ManifestError):  # noqa: N818 (named after what is the case, like the errors of the project)
    """No merge has written to the directory yet."""

    def __init__(self, message: str = "no merge has written here", **where: Any) -> None:
        super().__init__(message, **{"remedy": "give the directory of a merged log", **where})


class LogFolder:
    """The folder of a log whose files are in it, or archived. Raises nothing before it is read.

    `indexes` is what readers remember of its files, by name.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.indexes: dict[str, Any] = {}
        self._known: tuple[tuple[int, int, int] | None, Archived | None] = (None, None)
        self._away: tuple[str, Away] | None = None
        self._scratch = ExitStack()
        self._lock = Lock()
        weakref.finalize(self, self._scratch.close)

    def __str__(self) -> str:
        return self.place()

    def place(self, name: str = "") -> str:
        """Return where the log, or a file of it, is, for people."""
        if name and not (self.directory / name).exists():
            archived = self._archived()
            if archived is not None and name in archived.files:
                return redacted(object_uri(archived.to, archived.object_of(name)))
        return str(self.directory / name if name else self.directory)

    @property
    def is_remote(self) -> bool:
        """Return whether the log is in an object store, of which the folder is a copy."""
        return False

    def beside(self) -> "Objects | FolderObjects":
        """Return what is beside the log's files, where that is: for who has no time to ask again and again."""
        from binlog_merge.files.objects import FolderObjects

        return FolderObjects(self.directory)

    @property
    def sidecars(self) -> Path | None:
        """Return the folder in which sidecars of the log's files are (`files.sidecar`), None if none are kept."""
        return self.directory

    @cached_property
    def cluster_uuid(self) -> str:
        """Return the UUID of the cluster's GTIDs, which a log keeps. Raises what `state` does."""
        header = self.state().header
        return "" if header is None else header.cluster_uuid

    def refresh(self) -> None:
        """Bring the manifest up to date. Raises ManifestError, and what is wrong with a store."""

    @contextmanager
    def following(self, report: Callable[[str], None]) -> Iterator[None]:
        """Keep the manifest up to date meanwhile. `report` gets what is in the way, and that it goes on."""
        yield

    def check(self) -> None:
        """Raise the ManifestError that has ended `following`, if one has."""

    def state(self) -> ManifestState:
        """Return what is published. Raises NothingWritten, and ManifestError if the manifest is damaged."""
        found = self.manifest().state
        if found.header is None:
            raise self.nothing()
        return self.seen(found)

    def manifest(self, known: Manifest | None = None) -> Manifest:
        """Return the manifest, as `Manifest.load` does."""
        return Manifest.load(self.directory, known)

    def nothing(self) -> NothingWritten:
        """Return the error for a folder without a manifest."""
        if not self.directory.exists():
            return NothingWritten("there is no such directory", file=self.place(), remedy="check the merged log's path")
        return NothingWritten(file=self.place())

    def seen(self, state: ManifestState) -> ManifestState:
        """Return a manifest's state as readers see it: with the files in front that were removed, and are archived."""
        gone = state.gone is not None and state.gone.files > 0
        return with_archived(state, self._archived()) if gone else state

    def is_there(self, file: OutputFile) -> bool:
        """Return whether a file can be read, as far as that is known without asking a store."""
        if (self.directory / file.name).exists():
            return True
        archived = self._archived()
        return archived is not None and archived.has(file)

    def path(self, file: OutputFile) -> Path:
        """Return the local path of a file. Raises FileNotFoundError and MergeError if it cannot be brought."""
        path = self.directory / file.name
        if path.exists() or (away := self._brings(file)) is None:
            return path
        return away.path(file)

    def begins(self, file: OutputFile) -> tuple[int, ...]:
        """Return offsets of a file where a transaction begins, or will, as far as they are known without reading it.

        They are for who would else bring what he does not need.
        """
        return ()

    def opened(self, file: OutputFile, buffering: int = -1) -> BinaryIO:
        """Open a file. Raises OSError, and what is wrong with a store."""
        try:
            return (self.directory / file.name).open("rb", buffering)
        except FileNotFoundError:
            if (away := self._brings(file)) is None:
                raise
        return away.opened(file, buffering)

    def _brings(self, file: OutputFile) -> "Away | None":
        """Return what brings a file that is not here, None if it is not archived."""
        archived = self._archived()
        if archived is None or not archived.has(file):
            return None
        from binlog_merge.files.away import Away
        from binlog_merge.files.object_manifest import Segment
        from binlog_merge.files.object_output import ObjectOutput
        from binlog_merge.files.scratch import reading_folder

        with self._lock:
            if self._away is None or self._away[0] != archived.to:
                folder = self._scratch.enter_context(reading_folder())
                objects = ObjectOutput(archived.to).objects
                self._away = (
                    archived.to,
                    Away(objects, lambda file: (Segment(0, file.size, self._object_of(file.name)),), folder),
                )
            return self._away[1]

    def _object_of(self, name: str) -> str:
        archived = self._archived()
        return name if archived is None else archived.object_of(name)

    def _archived(self) -> Archived | None:
        path = self.directory / NOTE_NAME
        try:
            found = path.stat()
        except OSError:
            return None
        stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
        known, archived = self._known
        if known != stamp:
            archived = read_note(self.directory)
            self._known = stamp, archived
        return archived

    @contextmanager
    def schema_store(self) -> Iterator[tuple[Path, str]]:
        """Yield the local path of the log's schema store, and its name for people.

        Raises what is wrong with an object store.
        """
        yield self.directory / STORE_NAME, self.place(STORE_NAME)

    def index(self) -> list[str] | None:
        """Return the names in the index, None if there is no index to compare with the manifest."""
        path = self.directory / "binlog.index"
        try:
            here = [Path(line).name for line in path.read_text().split()]
        except OSError:
            return ["nothing"]
        away = (file.name for file in self.state().files if not (self.directory / file.name).exists())
        return [*(name for name in away if name not in here), *here]


def folder_of(place: "Path | LogFolder") -> LogFolder:
    """Return the log in a local folder."""
    return LogFolder(place) if isinstance(place, Path) else place
