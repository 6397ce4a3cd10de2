"""An output in an object store as readers see it: a local folder that keeps up with it, and files as they are read."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from threading import Event, Lock, Thread
from typing import BinaryIO, Final

from binlog_merge.config.uri import is_uri
from binlog_merge.errors import IoError, ManifestError, MergeError
from binlog_merge.files.away import Away
from binlog_merge.files.log_folder import STORE_NAME, LogFolder
from binlog_merge.files.manifest import MANIFEST_NAME, Manifest, OutputFile
from binlog_merge.files.object_manifest import Segment
from binlog_merge.files.object_output import ObjectOutput, loaded
from binlog_merge.files.objects import FolderObjects, Objects
from binlog_merge.files.scratch import reading_folder, remake
from binlog_merge.redaction import redacted

_EVERY: Final = 1.0
"""Seconds between two looks at the manifest: each is a request, which a store answers in short if there is no news."""
_EVERY_WHILE_IT_GROWS: Final = 0.2
_GROWS_FOR: Final = 10.0
_AFTER_FAILURE: Final = 5.0
_ATTEMPTS: Final = 5
_BESIDE: Final = timedelta(seconds=2)


class RemoteLog(LogFolder):
    """An output in an object store, with a folder for what of it is read. `schema`: the schema store, too."""

    def __init__(self, output: ObjectOutput, folder: Path, schema: bool = True) -> None:
        super().__init__(folder)
        self._output = output
        self._schema = schema
        self._missing = output.removed_by_hand()
        self._store = Away(output.objects, lambda file: output.names.parts(file), folder, self._looks_again)
        self._looked = self._changed = time.monotonic()
        self._lock = Lock()
        self._problem: ManifestError | None = None
        self._bring()

    def place(self, name: str = "") -> str:
        """Return the URI of the log, or of a file of it, for people."""
        return redacted(self._output.objects.place(self._output.names.of(name) if name else ""))

    @property
    def is_remote(self) -> bool:
        """Return whether the log is in an object store, rather than an archive in a folder."""
        return isinstance(self._output.objects, Objects)

    def beside(self) -> Objects | FolderObjects:
        """Return what is beside the log's files; see LogFolder."""
        objects = self._output.objects
        return Objects(str(objects.uri), _BESIDE) if isinstance(objects, Objects) else objects

    @property
    def sidecars(self) -> Path | None:
        """Return None: the folder is gone with its reader."""
        return None

    def manifest(self, known: Manifest | None = None) -> Manifest:
        """Return the manifest; see LogFolder. A folder that somebody has removed meanwhile is made anew."""
        for _ in range(_ATTEMPTS):
            self._stay()
            found = super().manifest(known)
            if found.state.header is not None or self._output.state.header is None:
                break
        return found

    def _stay(self) -> None:
        if self._output.state.header is not None and not (self.directory / MANIFEST_NAME).exists():
            with self._lock:
                self._bring()

    def refresh(self) -> None:
        """Bring the manifest up to date, at most once in a while. Raises ManifestError, ObjectStoreUnreachable."""
        with self._lock:
            if time.monotonic() - self._looked >= self._pause():
                self._advance()

    def _advance(self) -> bool:
        """Look at the manifest; return whether there was news. Under the lock."""
        news = self._output.advance()
        self._looked = time.monotonic()
        if news:
            self._changed = self._looked
            self._bring()
        return news

    def _pause(self) -> float:
        """Return how long to wait between two looks: a log that grows is looked at more often."""
        grows = time.monotonic() - self._changed < _GROWS_FOR
        return _EVERY_WHILE_IT_GROWS if grows else _EVERY

    def _bring(self, schema: bool = False) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                remake(self.directory)
                self._output.bring_state(self.directory, schema or self._schema)
                break
            except IoError:  # somebody who tidies up may have removed the folder just then
                if attempt + 1 == _ATTEMPTS:
                    raise
        at = self._output.published_at()
        with suppress(FileNotFoundError):  # nobody has written yet
            os.utime(self.directory / MANIFEST_NAME, (at, at))

    @contextmanager
    def following(self, report: Callable[[str], None]) -> Iterator[None]:
        """Keep the manifest up to date meanwhile; see LogFolder."""
        stop = Event()
        thread = Thread(target=self._follow, args=(stop, report), daemon=True, name="manifest")
        thread.start()
        try:
            yield
        finally:
            stop.set()

    def _follow(self, stop: Event, report: Callable[[str], None]) -> None:
        failing = False
        while not stop.wait(_AFTER_FAILURE if failing else self._pause()):
            try:
                self.refresh()
            except ManifestError as error:
                self._problem = error
                return
            except MergeError as error:
                if not failing:
                    report(f"{error.message}; what is published meanwhile comes later, it is tried again")
                failing = True
            else:
                if failing:
                    report(f"{self.place()} answers again")
                failing = False

    def check(self) -> None:
        """Raise the ManifestError that has ended `following`, if one has."""
        if self._problem is not None:
            raise self._problem
        self._stay()

    def is_there(self, file: OutputFile) -> bool:
        """Return whether a file was there when the output was opened, or was published since."""
        return file.name not in self._missing

    def begins(self, file: OutputFile) -> tuple[int, ...]:
        """Return where segments of a file begin, and the end of one that is open; see LogFolder."""
        starts = (part.start for part in self._output.names.parts(file) if 0 < part.start < file.size)
        return (*starts, *(() if file.closed else (file.size,)))

    def path(self, file: OutputFile) -> Path:
        """Return the local path of a file, which is brought if necessary; see LogFolder."""
        return self._store.path(file)

    def opened(self, file: OutputFile, buffering: int = -1) -> BinaryIO:
        """Open a file, of which is brought what is read."""
        return self._store.opened(file, buffering)

    def _looks_again(self, file: OutputFile, parts: Sequence[Segment]) -> bool:
        """Return whether a file is other objects than it was: its segments may have been joined."""
        with self._lock:  # another thread may have looked meanwhile
            return self._advance() or self._output.names.parts(file) != parts

    @contextmanager
    def schema_store(self) -> Iterator[tuple[Path, str]]:
        """Yield a copy of the schema store, which is brought if it is new; see LogFolder."""
        with self._lock:
            self._bring(schema=True)
        yield self.directory / STORE_NAME, self.place(STORE_NAME)

    def index(self) -> list[str] | None:
        """Return None: the index in a store is for readers of nothing else, and may be behind."""
        return None


@contextmanager
def opened_log(place: str | Path, schema: bool = True, awaited: bool = False) -> Iterator[LogFolder]:
    """Yield the log at a local path or a URI. Without `schema` no schema store is brought from a URI.

    `awaited`: nobody need have written there yet.

    Raises ManifestError if there is no output at the URI, and within seconds what is wrong with the store.
    """
    if not is_uri(str(place)) and not _is_archive(Path(place)):
        yield LogFolder(Path(place))
        return
    output = loaded(str(place), awaited)
    with reading_folder() as folder:
        yield RemoteLog(output, folder, schema)


def _is_archive(folder: Path) -> bool:
    """Return whether a local folder has the layout of an object store: an archive is read as an output, too."""
    return (folder / "manifest").is_dir() and not (folder / MANIFEST_NAME).exists()


@contextmanager
def schema_folder(uri: str) -> Iterator[Path]:
    """Yield a local folder with a copy of the schema store of an output at a URI."""
    output = loaded(uri)
    with reading_folder() as folder:
        output.bring_state(folder)
        yield folder
