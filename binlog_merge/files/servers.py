"""The servers whose files make a node's log, one after the other, where the node failed over between them.

    captured/dn-1/binlog.000001 …                       the first server's files
    captured/dn-1/servers.index                         a line for every server after it
    captured/dn-1/000002-<server_uuid>/binlog.000007 …  the second server's files

A line is a JSON object: the folder, the server, when it became the node's, where the log of the server before it ends
(`ended`), and which GTIDs were captured by then (`captured`). All files are as their servers wrote them, so the second
server's first file may begin with what the first one's last file ends with: what is in `captured` is read there only.
`ended` is where the last whole transaction of the earlier log ends, as a server that dies may have sent half of one.
"""

import glob
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from binlog_merge.binlog.errors import BinlogFormatError
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.config.uri import local_path
from binlog_merge.errors import ConfigError, ManifestError, io_error
from binlog_merge.files.disk import replace_file
from binlog_merge.files.globs import has_magic
from binlog_merge.whole_files import NoteKind

SERVERS_NAME: Final = "servers.index"


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where what was captured of a server ends; `folder` is "" for the first server's."""

    folder: str
    file: str
    position: int


@dataclass(frozen=True, slots=True)
class FollowingServer:
    """A server after the first one, and its folder beside the first one's files.

    `at` is when it became the node's server, in seconds since 1970. `ended` is where the log before it ends; None if
    nothing was captured of that. `captured` is the text of the GTIDs that were captured by then, or executed before the
    first file. `begins_in` is its first file.
    """

    folder: str
    server_uuid: str
    server: str
    at: float
    ended: LogEnd | None
    captured: str
    begins_in: str

    def __post_init__(self) -> None:
        uuid.UUID(self.server_uuid)
        try:
            GtidSet.parse_text(self.captured)
        except BinlogFormatError as error:
            raise ValueError(error.reason) from None
        if not self.folder or "/" in self.folder or self.folder.startswith("."):
            raise ValueError(f"{self.folder!r} is no folder beside the index")

    @property
    def gtids(self) -> GtidSet:
        """Return what was captured by then."""
        return GtidSet.parse_text(self.captured)


_LINE: Final = NoteKind(FollowingServer)


def values_of(server: FollowingServer) -> dict[str, Any]:
    """Return a line of the index as plain values."""
    found: dict[str, Any] = json.loads(_LINE.dump(server))
    return found


def server_of(values: Mapping[str, Any]) -> FollowingServer:
    """Return what `values_of` has made plain. Raises ValueError for anything else."""
    return _LINE.parse(json.dumps(values).encode())


def folder_name(number: int, server_uuid: str) -> str:
    """Return the name of the folder of a node's server by its number: it sorts by that, and looks like no binlog."""
    return f"{number:06d}-{server_uuid}"


def read_servers(directory: Path) -> tuple[FollowingServer, ...]:
    """Return the servers after the first one; none without an index. Raises IoError, ManifestError if it is damaged."""
    path = directory / SERVERS_NAME
    try:
        lines = path.read_bytes().splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise io_error(error, str(path)) from error
    found: list[FollowingServer] = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(_LINE.parse(line))
        except ValueError as error:
            raise ManifestError(
                f"line {number} is damaged: {error}",
                file=str(path),
                remedy="it says how the logs of a node's servers follow each other: put it back from a copy",
            ) from None
    return tuple(found)


def add_server(directory: Path, server: FollowingServer) -> None:
    """Add a server to the index: readers see it with it or without it. Returns when that is on disk. Raises IoError."""
    write_servers(directory, (*read_servers(directory), server))


def write_servers(directory: Path, servers: Sequence[FollowingServer]) -> None:
    """Write the index. Returns when that is on disk. Raises IoError."""
    replace_file(directory / SERVERS_NAME, b"".join(map(_LINE.dump, servers)))


def servers_of(patterns: Sequence[str]) -> tuple[Path, tuple[FollowingServer, ...]]:
    """Return the folder with an index among those of a node's file patterns, and its servers; none without one.

    A pattern without wildcards is a file, and nothing follows it. Raises ConfigError for more than one index, and what
    `read_servers` raises.
    """
    local = [path for pattern in patterns if (path := local_path(pattern)) is not None and has_magic(Path(path).name)]
    parents = dict.fromkeys(str(Path(path).parent) for path in local)
    folders = dict.fromkeys(
        Path(index).parent
        for parent in parents
        for index in sorted(glob.glob(f"{parent}/{SERVERS_NAME}"))  # noqa: PTH207
    )
    if len(folders) > 1:
        raise ConfigError(
            f"the node's files are of several captures: {', '.join(map(str, folders))} hold a {SERVERS_NAME} each",
            remedy="narrow the node's `files` pattern to one of them",
        )
    for folder in folders:
        return folder, read_servers(folder)
    return Path(), ()


def patterns_of(folder: Path, servers: Sequence[FollowingServer]) -> list[str]:
    """Return a pattern for the files of each of the servers after the first one."""
    return [f"{glob.escape(str(folder / server.folder))}/*" for server in servers]
