"""A merged log as its readers see it: a local folder with a manifest, and the files that it names.

Of an output in an object store the folder is a copy that keeps up with it (`files.remote_log`): it has the manifest,
and the files that are being read.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from binlog_merge.errors import ManifestError
from binlog_merge.files.manifest import Manifest, ManifestState, OutputFile

NOTHING = "no merge has written here"


class LogFolder:
    """The folder of a log whose files are in it. Raises nothing before it is read."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __str__(self) -> str:
        return self.place()

    def place(self, name: str = "") -> str:
        """Return where the log, or a file of it, is, for people."""
        return str(self.directory / name if name else self.directory)

    def refresh(self) -> None:
        """Bring the manifest up to date. Raises ManifestError, and what is wrong with a store."""

    @contextmanager
    def following(self, report: Callable[[str], None]) -> Iterator[None]:
        """Keep the manifest up to date meanwhile. `report` gets what is in the way, and that it goes on."""
        yield

    def check(self) -> None:
        """Raise the ManifestError that has ended `following`, if one has."""

    def state(self) -> ManifestState:
        """Return what is published. Raises ManifestError if nothing is, or the manifest is damaged."""
        found = Manifest.load(self.directory).state
        if found.header is None:
            raise ManifestError(NOTHING, file=self.place(), remedy="give a merge's --out directory")
        return found

    def is_there(self, file: OutputFile) -> bool:
        """Return whether a file can be read, as far as that is known without asking a store."""
        return (self.directory / file.name).exists()

    def path(self, file: OutputFile) -> Path:
        """Return the local path of a file. Raises FileNotFoundError and MergeError if it cannot be brought."""
        return self.directory / file.name

    def opened(self, file: OutputFile, buffering: int = -1) -> BinaryIO:
        """Open a file. Raises OSError, and what is wrong with a store."""
        return self.path(file).open("rb", buffering)

    def index(self) -> list[str] | None:
        """Return the names in the index, None if there is no index to compare with the manifest."""
        path = self.directory / "binlog.index"
        try:
            return [Path(line).name for line in path.read_text().split()]
        except OSError:
            return ["nothing"]


def folder_of(place: "Path | LogFolder") -> LogFolder:
    """Return the log in a local folder."""
    return LogFolder(place) if isinstance(place, Path) else place
