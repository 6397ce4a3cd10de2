"""The note beside a node's captured files: up to where they are whole, as of which moment of the server's clock.

    captured/dn-1/.as-of/note.json   {"version": 1, "server_uuid": …, "file": "binlog.000003", "identity": …,
                                      "position": 18211, "clock_us": 1790000000123456}

Everything that the node commits behind this place commits at that moment or later. So where the nodes' clocks give the
order, the note tells how far a node is that has nothing to write. `identity` is the file's (`head.file_identity`), so
that a note never counts for another file of the same name. It has a folder of its own: it is replaced all the time, and
the folder's time tells a merge that follows whether there are new files.
"""

import glob
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from binlog_merge.config.uri import local_path
from binlog_merge.errors import io_error
from binlog_merge.files.servers import servers_of
from binlog_merge.whole_files import NoteKind, write_note

AS_OF_NAME: Final = ".as-of/note.json"  # patterns with * do not match a hidden folder


@dataclass(frozen=True, slots=True)
class AsOf:
    """A node's files are whole up to `position` of `file` as of `clock_us`, in microseconds since 1970."""

    server_uuid: str
    file: str
    identity: str
    position: int
    clock_us: int

    def __post_init__(self) -> None:
        uuid.UUID(self.server_uuid)
        if min(self.position, self.clock_us) < 0:
            raise ValueError("there is no place or time below 0")


_KIND: Final = NoteKind(AsOf)


def write_as_of(directory: Path, note: AsOf) -> None:
    """Replace the note of a directory: readers see the old or the new one. Raises IoError.

    It is not synced: after a crash of the machine an older one serves as well, and a new one comes at once.
    """
    write_note(directory / AS_OF_NAME, _KIND, note)


def remove_as_of(directory: Path) -> None:
    """Remove the note of a directory, if there is one. Raises IoError."""
    path = directory / AS_OF_NAME
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise io_error(error, str(path)) from error


def read_as_of(patterns: Sequence[str]) -> tuple[list[AsOf], list[str]]:
    """Return the notes in the folders of a node's file patterns, and a warning for each that is damaged.

    The file in a note is named as discovery names it: with its folder, if that is of a server after the first one.
    """
    folders = dict.fromkeys(Path(local).parent for pattern in patterns if (local := local_path(pattern)) is not None)
    base, servers = servers_of(patterns)
    later = {str(base / server.folder / AS_OF_NAME): server.folder for server in servers}
    found = (path for folder in folders for path in sorted(glob.glob(str(folder / AS_OF_NAME))))  # noqa: PTH207
    paths = dict.fromkeys((*found, *later))
    notes, warnings = list[AsOf](), list[str]()
    for path in paths:
        try:
            note = _KIND.parse(Path(path).read_bytes())
            notes.append(replace(note, file=f"{later[path]}/{note.file}") if path in later else note)
        except FileNotFoundError:
            continue  # its server vouches for nothing any more
        except OSError as error:
            raise io_error(error, path) from error
        except ValueError as error:
            warnings.append(f"{path}: the note of the capture is damaged, and does not count: {error}")
    return notes, warnings
