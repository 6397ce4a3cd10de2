"""A node's binlog files as they are on disk: how many, where the last one ends, and what follows a position.

Where a node failed over (`files.servers`), the files of a later server are in a folder whose name sorts by its number,
and are named with it, as a merge names them.

A capture has recorded beside the files which servers a node has had: the first one, and each switch.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from binlog_merge.config.nodes import Node
from binlog_merge.config.uri import local_path
from binlog_merge.errors import io_error
from binlog_merge.files.captured import recorded_server_uuid
from binlog_merge.files.globs import check_readable, expand
from binlog_merge.files.remote import name_of
from binlog_merge.files.servers import patterns_of, servers_of
from binlog_merge.files.source import open_source
from binlog_merge.observe.status.values import FilePosition, ServerStatus

_Order = tuple[str, int]
"""The folder of a server after the first one, else "", and the file's number."""
_NUMBERED: Final = re.compile(r".+\.(\d{6,18})")


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """The numbered files that match a node's patterns, as (place, path), in order."""

    found: tuple[tuple[_Order, str], ...]

    @classmethod
    def of(cls, node: Node) -> "NodeFiles":
        """List a node's files. Raises IoError for a folder that cannot be listed."""
        paths: set[str] = set()
        for pattern in node.files:
            check_readable(pattern)
            paths.update(expand(pattern))
        folder, servers = servers_of(node.files)
        later = {path: server.folder for server in servers for path in expand(patterns_of(folder, [server])[0])}
        names = {path: f"{later[path]}/{_name(path)}" if path in later else _name(path) for path in {*paths, *later}}
        return cls(tuple(sorted((order, path) for path in names if (order := _order(names[path])) is not None)))

    def captured(self) -> tuple[FilePosition | None, float | None]:
        """Return where the last file ends and when it grew last; (None, None) without a file. Raises IoError."""
        if not self.found:
            return None, None
        (folder, _), path = self.found[-1]
        size, changed = _size_and_time(path)
        return FilePosition(_named(folder, path), size), changed

    def unread(self, read: FilePosition | None) -> int:
        """Return how many bytes follow a position, in its file and later ones; all if it is None. Raises IoError."""
        begin = ("", -1) if read is None else _order(read.file)
        total = 0
        for order, path in self.found:
            if begin is None or order < begin:
                continue
            size = _size_and_time(path)[0]
            total += size if read is None or _named(order[0], path) != read.file else max(0, size - read.position)
        return total


def further(one: FilePosition | None, other: FilePosition | None) -> FilePosition | None:
    """Return the later of two positions in a node's log."""
    known = [place for place in (one, other) if place is not None]
    return max(known, key=lambda place: (_order(place.file) or ("", 0), place.position), default=None)


def parse_position(text: object) -> FilePosition | None:
    """Return the position that a text like binlog.000001:4 names, None if it names none."""
    name, colon, position = str(text).rpartition(":")
    return FilePosition(name, int(position)) if colon and name and position.isascii() and position.isdigit() else None


def _order(name: str) -> _Order | None:
    """Return where a file stands in its node's log, by its name with its folder; None if it is no binlog file's."""
    folder, _, own = name.rpartition("/")
    match = _NUMBERED.fullmatch(own)
    return None if match is None else (folder, int(match[1]))


def _named(folder: str, path: str) -> str:
    return f"{folder}/{_name(path)}" if folder else _name(path)


def _name(path: str) -> str:
    return name_of(path)


def _size_and_time(path: str) -> tuple[int, float | None]:
    """Return a file's size and when it changed; (0, None) for one that has just been removed. Raises IoError."""
    local = local_path(path)
    if local is None:
        with open_source(path) as source:
            return source.size, None
    try:
        status = Path(local).stat()
    except FileNotFoundError:
        return 0, None
    except OSError as error:
        raise io_error(error, path) from error
    return status.st_size, status.st_mtime


def servers_of_node(node: Node) -> tuple[ServerStatus, ...]:
    """Return a node's servers, the first one first; none for a node whose files nothing captures.

    Raises IoError, ManifestError and ConfigError for an index that cannot be read.
    """
    _, following = servers_of(node.files)
    first = _first(node)
    if first is None and not following:
        return ()
    servers = [ServerStatus(first, None, None, "")]
    for server in following:
        if server.ended is not None:
            end = server.ended
            ends = FilePosition(f"{end.folder}/{end.file}" if end.folder else end.file, end.position)
            # The one that has the log before it: a server that was never captured from has none.
            at = next(i for i, known in reversed(list(enumerate(servers))) if known.folder == end.folder)
            servers[at] = servers[at].left(ends)
        servers.append(ServerStatus(server.server_uuid, server.server, server.at, server.folder))
    return tuple(servers)


def _first(node: Node) -> str | None:
    """Return the UUID of the server that was captured first, None if no capture has recorded it."""
    for pattern in node.files:
        if (server_uuid := recorded_server_uuid(pattern)) is not None:
            return server_uuid
    return None
