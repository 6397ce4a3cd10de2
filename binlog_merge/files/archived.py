"""What of an output is archived, as noted beside its manifest: for readers, and for what removes files.

    OUT/archive.json     where the archive is, and what it holds; written by `files.archive`

Where it is stands there without keys: readers take those of their environment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Final

from binlog_merge.config.uri import Uri, is_uri
from binlog_merge.errors import ManifestError, io_error
from binlog_merge.files.disk import replace_file
from binlog_merge.files.hashed_lines import decode, encode
from binlog_merge.files.manifest import Folded, Header, ManifestState, OutputFile, decode_record, encode_record
from binlog_merge.whole_files import NoteKind

NOTE_NAME: Final = "archive.json"
_KIND: Final = "archive"
_DAMAGE: Final = (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, ManifestError)
_SECRETS: Final = ("access_key", "secret_key", "session_token")


@dataclass(frozen=True, slots=True)
class Archived:
    """What is archived of an output: at `to`, a path or a URI without keys; files by name, and their objects' names.

    `active`: files are sent there, so none may go before it is there.
    """

    to: str
    active: bool
    files: Mapping[str, OutputFile] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    header: Header | None = None

    def has(self, file: OutputFile) -> bool:
        """Return whether this very file is there."""
        return is_same_file(self.files.get(file.name), file)

    def object_of(self, name: str) -> str:
        """Return the name of a file's object."""
        return self.names.get(name, name)


@dataclass(frozen=True, slots=True)
class _Head:
    """The note's first line; the others are those of a manifest."""

    to: str
    active: bool
    names: dict[str, str]


_HEAD: Final = NoteKind(_Head)


def is_same_file(one: OutputFile | None, other: OutputFile) -> bool:
    """Return whether two records are about files with the same contents."""
    if one is None:
        return False
    same = (one.name, one.size, one.first_key, one.last_key, one.first_rank, one.last_rank, one.closed)
    return same == (
        other.name, other.size, other.first_key, other.last_key, other.first_rank, other.last_rank, other.closed
    )  # fmt: skip


def read_note(directory: Path) -> Archived | None:
    """Return what is archived of the output in a directory, None if it has no archive. Raises ManifestError."""
    path = directory / NOTE_NAME
    try:
        lines = path.read_bytes().splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise io_error(error, str(path)) from error
    try:
        kind, values, digest = decode(lines[0], "")
        if kind != _KIND:
            raise ValueError(f"it is of kind {kind!r}")
        head = _HEAD.read(values)
        state = ManifestState()
        for line in lines[1:]:
            state = state.after(decode_record(line, digest)[0])
        files = {file.name: file for file in state.files}
        return Archived(head.to, head.active, files, head.names, state.header)
    except _DAMAGE as error:
        raise ManifestError(
            f"the note of what is archived is damaged: {error}",
            file=str(path),
            remedy="remove it, and run the merge again: it makes it anew from the archive",
        ) from None


def write_note(directory: Path, archived: Archived) -> None:
    """Replace the note. Raises IoError."""
    head = _Head(archived.to, archived.active, dict(archived.names))
    data, digest = encode(_KIND, _HEAD.values(head), "")
    if archived.header is not None:
        data += encode_record(Folded(archived.header, None, tuple(archived.files.values())), digest)[0]
    replace_file(directory / NOTE_NAME, data)


def without_credentials(place: str) -> str:
    """Return a path, or a URI without its login and without options that are secrets."""
    if not is_uri(place):
        return place
    uri = Uri.parse(place)
    options = {name: value for name, value in uri.options.items() if name not in _SECRETS}
    return str(replace(uri, login="", options=options))


def object_uri(place: str, name: str) -> str:
    """Return the path or the URI of an object of an archive."""
    if not is_uri(place):
        return str(Path(place) / name)
    uri = Uri.parse(place)
    return str(uri.with_path(f"{uri.path.rstrip('/')}/{name}"))


def with_archived(state: ManifestState, archived: Archived | None) -> ManifestState:
    """Return the state with the removed files in front that are archived: those that lead up to the first one here."""
    gone, found = state.gone, list[OutputFile]()
    if archived is None or gone is None or not gone.files:
        return state
    by_last = {file.last_rank: file for file in archived.files.values() if file.last_rank >= file.first_rank}
    empty = {file.last_rank: file for file in archived.files.values() if file.last_rank < file.first_rank}
    rank, name = gone.last_rank, gone.last_name
    while name is not None and len(found) < gone.files:
        file = next((f for f in (by_last.get(rank), empty.get(rank)) if f is not None and f.name == name), None)
        if file is None:
            break
        found.insert(0, file)
        rank, name = file.first_rank - 1, _name_before(name)
    if not found:
        return state
    left = replace(
        gone,
        files=gone.files - len(found),
        bytes=gone.bytes - sum(file.size for file in found),
        last_name=name if gone.files > len(found) else None,
        last_key=None,
        last_rank=rank,
    )
    return replace(state, files=(*found, *state.files), gone=left)


def _name_before(name: str) -> str | None:
    base, _, number = name.rpartition(".")
    return f"{base}.{int(number) - 1:06d}" if number.isdecimal() and int(number) > 1 else None


def removable(directory: Path, chosen: Sequence[OutputFile]) -> list[OutputFile]:
    """Return the oldest of the files that may go: all that are archived, and all if the output has no archive."""
    archived = read_note(directory)
    if archived is None or not archived.active:
        return list(chosen)
    return list(takewhile(archived.has, chosen))
