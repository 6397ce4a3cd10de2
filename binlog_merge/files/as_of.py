"""The note beside a node's captured files: up to where they are whole, as of which moment of the server's clock.

    captured/dn-1/.as-of/note.json   {"version": 1, "server_uuid": …, "file": "binlog.000003", "identity": …,
                                      "position": 18211, "clock_us": 1790000000123456}

Everything that the node commits behind this place commits at that moment or later. So where the nodes' clocks give the
order, the note tells how far a node is that has nothing to write. `identity` is the file's (`head.file_identity`), so
that a note never counts for another file of the same name. It has a folder of its own: it is replaced all the time, and
the folder's time tells a merge that follows whether there are new files.
"""

import glob
import json
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from binlog_merge.config.uri import local_path
from binlog_merge.errors import io_error
from binlog_merge.files.servers import servers_of

AS_OF_NAME: Final = ".as-of/note.json"  # patterns with * do not match a hidden folder
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class AsOf:
    """A node's files are whole up to `position` of `file` as of `clock_us`, in microseconds since 1970."""

    server_uuid: str
    file: str
    identity: str
    position: int
    clock_us: int

    @classmethod
    def parse(cls, data: bytes) -> "AsOf":
        """Read a note. Raises ValueError if it is damaged, or of a version that is not known."""
        try:
            values: dict[str, Any] = json.loads(data)
            if values["version"] != _VERSION:
                raise ValueError(f"version {values['version']} is not known")
            return cls(
                str(uuid.UUID(values["server_uuid"])),
                str(values["file"]),
                str(values["identity"]),
                _natural(values["position"]),
                _natural(values["clock_us"]),
            )
        except (KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None


def _natural(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is no place or time")
    return value


def write_as_of(directory: Path, note: AsOf) -> None:
    """Replace the note of a directory: readers see the old or the new one. Raises IoError.

    It is not synced: after a crash of the machine an older one serves as well, and a new one comes at once.
    """
    path = directory / AS_OF_NAME
    temporary = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(exist_ok=True)
        temporary.write_bytes(json.dumps({"version": _VERSION, **asdict(note)}).encode() + b"\n")
        temporary.replace(path)
    except OSError as error:
        raise io_error(error, str(path)) from error


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
            note = AsOf.parse(Path(path).read_bytes())
            notes.append(replace(note, file=f"{later[path]}/{note.file}") if path in later else note)
        except FileNotFoundError:
            continue  # its server vouches for nothing any more
        except OSError as error:
            raise io_error(error, path) from error
        except ValueError as error:
            warnings.append(f"{path}: the note of the capture is damaged, and does not count: {error}")
    return notes, warnings
