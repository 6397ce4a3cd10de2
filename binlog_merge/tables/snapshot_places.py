"""Where snapshots of a kept DuckDB file are: in a folder, or in an object store.

20260921T125800Z-92.db    the file behind transaction 92, which had committed at 12:58:00
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from binlog_merge.config.uri import is_uri
from binlog_merge.errors import IoError
from binlog_merge.files.disk import sync_directory, sync_file
from binlog_merge.files.failpoint import failpoint
from binlog_merge.files.lock import OutputLock
from binlog_merge.files.objects import Objects
from binlog_merge.files.source import directory_error

_NAME: Final = re.compile(r"\d{8}T\d{6}Z-(\d{1,18})\.db", re.ASCII)
_PART: Final = ".part"
_MILLION: Final = 1_000_000


def snapshot_name(rank: int, micros: int) -> str:
    """Return the name of a snapshot behind a transaction that committed at a time, in µs since 1970."""
    return f"{datetime.fromtimestamp(micros // _MILLION, UTC):%Y%m%dT%H%M%SZ}-{rank}.db"


def rank_in(name: str) -> int | None:
    """Return the rank in a snapshot's name, None if it is no such name."""
    match = _NAME.fullmatch(name)
    return None if match is None else int(match[1])


class SnapshotPlace(Protocol):
    """Where snapshots are kept."""

    def held(self) -> AbstractContextManager[object]:
        """Return what holds the place for one writer."""

    def names(self) -> list[str]:
        """Return the names of the snapshots, the earliest first."""

    def brought(self, name: str, folder: Path) -> Path:
        """Return the local path of a snapshot; `folder` is for one that is elsewhere."""

    def part(self, kept: Path, name: str) -> Path:
        """Return where a snapshot of the file `kept` is made."""

    def publish(self, part: Path, name: str) -> None:
        """Give a snapshot that is whole its name."""

    def remove(self, names: Sequence[str]) -> None:
        """Remove snapshots."""


@dataclass(frozen=True)
class SnapshotFolder:
    """A local folder of snapshots. Methods raise IoError."""

    path: Path

    def held(self) -> OutputLock:
        """Return a lock of the folder, which is made if it is not there."""
        return OutputLock(self.path, "replay")

    def names(self) -> list[str]:
        """Return the names of the snapshots, the earliest first."""
        try:
            return _ordered(entry.name for entry in self.path.iterdir())
        except OSError as error:
            raise directory_error(error, str(self.path)) from error

    def brought(self, name: str, folder: Path) -> Path:
        """Return the path of a snapshot."""
        return self.path / name

    def part(self, kept: Path, name: str) -> Path:
        """Return where a snapshot is made; what is left of others is removed."""
        for left in self.path.glob(f".*{_PART}"):
            left.unlink(missing_ok=True)
        return self.path / f".{name}{_PART}"

    def publish(self, part: Path, name: str) -> None:
        """Give a snapshot that is whole its name."""
        sync_file(part)
        failpoint("snapshot-whole")
        part.chmod(0o444)
        part.replace(self.path / name)
        sync_directory(self.path)

    def remove(self, names: Sequence[str]) -> None:
        """Remove snapshots."""
        for name in names:
            (self.path / name).unlink(missing_ok=True)


@dataclass(frozen=True)
class SnapshotStore:
    """Snapshots in an object store. Methods raise what `Objects` does."""

    objects: Objects

    def held(self) -> AbstractContextManager[object]:
        """Return nothing: an object is there whole or not at all, and is not written twice."""
        return nullcontext()

    def names(self) -> list[str]:
        """Return the names of the snapshots, the earliest first."""
        return _ordered(self.objects.below())

    def brought(self, name: str, folder: Path) -> Path:
        """Return the path of a copy in the folder. Raises IoError if the object has gone."""
        path, size = folder / name, self.objects.size_of(name)
        if size is None or self.objects.fetch(name, path, size) is None:
            raise IoError("it has been removed meanwhile", file=self.objects.place(name))
        return path

    def part(self, kept: Path, name: str) -> Path:
        """Return where a snapshot is made: beside the file."""
        return kept.with_name(f"{kept.name}.snapshot{_PART}")

    def publish(self, part: Path, name: str) -> None:
        """Send a snapshot that is whole."""
        failpoint("snapshot-whole")
        self.objects.create(name, part)

    def remove(self, names: Sequence[str]) -> None:
        """Remove snapshots."""
        self.objects.delete(list(names))


def place_of(text: str) -> "SnapshotFolder | SnapshotStore":
    """Return the place of a path or a URI of an object store."""
    return SnapshotStore(Objects(text)) if is_uri(text) else SnapshotFolder(Path(text))


def _ordered(names: Iterable[str]) -> list[str]:
    found = [(rank, name) for name in names if (rank := rank_in(name)) is not None]
    return [name for _, name in sorted(found)]
