"""Removes what nobody needs any more: the output's oldest closed files, and captured files.

    1  append the record to the manifest              <- from here on they are gone
    2  replace binlog.index                           (whole, by rename)
    3  remove the output's files, the oldest first, and what is kept beside them (`files.sidecar`)
    4  note beside a node's captured files up to where they are removed
    5  remove them, the oldest first

A crash after 1 leaves files that the manifest does not list. `recover` and `finish` remove them at the next start. The
last file of the output always stays: numbers, GTIDs and positions go on from it.

The age of a file is the time since it was last written, as with MySQL's binlog_expire_logs_seconds and PURGE BINARY
LOGS BEFORE.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Final

from binlog_merge.config.uri import local_path
from binlog_merge.errors import ConfigError, IoError, ManifestError, MergeError, io_error
from binlog_merge.files.disk import replace_file, sync_directory
from binlog_merge.files.failpoint import failpoint
from binlog_merge.files.head import read_head
from binlog_merge.files.manifest import CapturedFile, Manifest, ManifestState, OutputFile, Removed
from binlog_merge.files.publish import basename_of
from binlog_merge.files.sidecar import remove_sidecars
from binlog_merge.files.source import open_source
from binlog_merge.files.state_notes import NOTES_FOLDER, SERVE_NOTES, read_state_note
from binlog_merge.whole_files import NoteKind, read_note

FAILPOINTS: Final = (
    "manifest-torn",
    "removal-after-manifest",
    "removal-after-index",
    "removal-after-note",
    "removal-after-file",  # once per file: `removal-after-file:kill:2`
)

LAST_SEEN_SECONDS: Final = 3600.0
"""How long a reader counts as attached after the last note: on a full disk a serve cannot note what it does."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader that is attached to a serve. It still has to get `file` and what follows; "": everything."""

    peer: str
    file: str

    def __str__(self) -> str:
        return f"{self.peer} at {self.file or 'the beginning'}"


@dataclass(frozen=True, slots=True)
class Choice:
    """The output files to remove, the oldest first, and those that only `readers` keep."""

    files: tuple[OutputFile, ...]
    kept: tuple[OutputFile, ...] = ()
    readers: tuple[Reader, ...] = ()


def older_than(directory: Path, state: ManifestState, moment: float) -> list[OutputFile]:
    """Return the oldest files that were written last before a moment, in seconds since 1970; never the last file."""
    return list(takewhile(lambda file: _written_at(directory / file.name) < moment, _removable(state)))


def over(state: ManifestState, size: int) -> list[OutputFile]:
    """Return the oldest files without which the output has at most `size` bytes; never the last file."""
    total, chosen = sum(file.size for file in state.files), list[OutputFile]()
    for file in _removable(state):
        if total <= size:
            break
        total -= file.size
        chosen.append(file)
    return chosen


def before_file(state: ManifestState, name: str) -> list[OutputFile]:
    """Return the files before the one with this name. Raises ConfigError if the output has no such file."""
    names = [file.name for file in state.files]
    if name not in names:
        there = f"its files are {names[0]} to {names[-1]}" if names else "it has none"
        raise ConfigError(f"the output has no file {name}: {there}", remedy="name the first file to keep")
    return list(state.files[: names.index(name)])


def for_readers(chosen: Sequence[OutputFile], readers: Sequence[Reader]) -> Choice:
    """Return the choice without the files that attached readers still have to get."""
    needed = [_number(reader.file) for reader in readers]
    least = min(needed, default=None)
    free = [file for file in chosen if least is None or _number(file.name) < least]
    kept = chosen[len(free) :]
    waiting = tuple(r for r in readers if kept and _number(r.file) <= _number(kept[-1].name))
    return Choice(tuple(free), tuple(kept), waiting)


def attached_readers(directory: Path, now: float | None = None) -> tuple[Reader, ...]:
    """Return the readers of all serves of an output directory, as the serves have noted within the last second.

    A serve that ends removes its note. One that has not refreshed it may be killed, or only held up: its readers count
    for another LAST_SEEN_SECONDS. Of a damaged note nothing is known: its reader may need everything.
    """
    now = time.time() if now is None else now
    found: list[Reader] = []
    for path in sorted((directory / NOTES_FOLDER).glob(SERVE_NOTES)):
        try:
            note = read_state_note(path)
            if note is not None and now - note["at"] <= LAST_SEEN_SECONDS:
                found += [Reader(str(reader["peer"]), str(reader["file"])) for reader in note["readers"]]
        except (IoError, ManifestError, KeyError, TypeError, AttributeError):
            found.append(Reader(f"a reader that {path.name} does not name, since it is damaged", ""))
    return tuple(found)


def remove(
    directory: Path, manifest: Manifest, files: Sequence[OutputFile], captured: Mapping[Path, Sequence[CapturedFile]]
) -> None:
    """Remove output files, and captured ones by their folder, which is named like the node.

    The caller holds the output's lock. Raises IoError; what is in the manifest then is removed at the next start.
    """
    if not files and not any(captured.values()):
        return
    gone = {folder.name: tuple(found) for folder, found in captured.items() if found}
    manifest.append(Removed(time.time(), tuple(file.name for file in files), gone))
    failpoint("removal-after-manifest")
    if files:
        there = [file.name for file in manifest.state.files if (directory / file.name).exists()]
        index = "".join(f"./{name}\n" for name in there).encode()
        replace_file(directory / f"{basename_of(manifest.state)}.index", index)
        failpoint("removal-after-index")
    _unlink(directory, [file.name for file in files])
    remove_sidecars(directory, [file.name for file in files])
    for folder, found in captured.items():
        _remove_captured(folder, found, manifest.state, directory)


def finish(directory: Path, manifest: Manifest, folders: Mapping[str, Path]) -> None:
    """Remove captured files that the manifest says are removed, and that a crash has left. `folders` are by node.

    Output files are `recover`'s.
    """
    gone = manifest.state.gone
    for node, found in ({} if gone is None else gone.captured).items():
        if (folder := folders.get(node)) is not None:
            _remove_captured(folder, found, manifest.state, directory)


def _remove_captured(folder: Path, files: Sequence[CapturedFile], state: ManifestState, directory: Path) -> None:
    there = [file.name for file in _still_there(folder, files)]
    if not there or state.last is None:
        return
    note_removed(folder, there, state.last.state["floor"], directory)
    failpoint("removal-after-note")
    _unlink(folder, there)


def _still_there(folder: Path, files: Sequence[CapturedFile]) -> Iterator[CapturedFile]:
    """Yield the files that are there and are the same: a server that was reset uses its names again."""
    for file in files:
        path, head = folder / file.name, None
        with suppress(MergeError):  # what cannot be read is not known to be the same
            if path.exists():
                with open_source(str(path)) as source:
                    head = read_head(source, folder.name, str(path))
        if head is not None and head.identity == file.identity:
            yield file


def _unlink(folder: Path, names: Sequence[str]) -> None:
    for name in names:
        try:
            (folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise io_error(error, str(folder / name)) from error
        failpoint("removal-after-file")
    for parent in {(folder / name).parent for name in names}:
        sync_directory(parent)


def _removable(state: ManifestState) -> Iterator[OutputFile]:
    return takewhile(lambda file: file.closed, state.files[:-1])


def _written_at(path: Path) -> float:
    """Return when a file was written last; 0.0 for one that its owner has removed already."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
    except OSError as error:
        raise io_error(error, str(path)) from error


def _number(name: str) -> int:
    number = name.rpartition(".")[2]
    return int(number) if number.isdecimal() else 0


REMOVED_NAME: Final = ".removed.json"  # patterns with * do not match a hidden file


@dataclass(frozen=True, slots=True)
class RemovedBefore:
    """The captured files `first` to `last` of a node were removed; `out` is the output for which that was done.

    Everything in them has an order key less than `below`, a 54-digit text. `at` is in seconds since 1970.
    """

    first: str
    last: str
    below: str
    out: str
    at: float

    def __post_init__(self) -> None:
        if len(self.below) != 54 or not self.below.isdecimal():
            raise ValueError(f"{self.below[:60]!r} is no order key")


_KIND: Final = NoteKind(RemovedBefore)


def note_removed(folder: Path, names: Sequence[str], below: str, out: Path) -> None:
    """Note that a node's captured files are removed, the oldest first. Raises IoError, ManifestError if it is damaged.

    Returns when that is on disk.
    """
    before = _read(folder / REMOVED_NAME)
    first = names[0] if before is None else before.first
    below = below if before is None else max(below, before.below)
    found = RemovedBefore(first, names[-1], below, str(out), time.time())
    replace_file(folder / REMOVED_NAME, _KIND.dump(found))


def read_removed(patterns: Sequence[str]) -> RemovedBefore | None:
    """Return the note in the folders of a node's file patterns. Raises IoError, ManifestError if it is damaged."""
    local = [path for pattern in patterns if (path := local_path(pattern)) is not None]
    found = (_read(Path(path).parent / REMOVED_NAME) for path in local)
    return next((note for note in found if note is not None), None)


def _read(path: Path) -> RemovedBefore | None:
    remedy = "if no captured file of the node was removed, or none is needed any more, remove the note"
    return read_note(path, _KIND, "the note of what was removed", remedy)
