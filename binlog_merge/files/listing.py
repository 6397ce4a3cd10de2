"""Lists the numbered files that a node's patterns match, and reads their heads.

What has no number is ignored, with the reason, or refused if it may hold transactions.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from binlog_merge.binlog.constants import BINLOG_MAGIC, ENCRYPTED_MAGIC
from binlog_merge.config.nodes import Node
from binlog_merge.config.uri import local_path
from binlog_merge.errors import IoError, MergeError, UnsupportedInput
from binlog_merge.files.globs import FOLDER, GONE, check_readable, expand, kind_of
from binlog_merge.files.head import read_head
from binlog_merge.files.intact import Stamp, stamp_of
from binlog_merge.files.node_file import FoundFile, IgnoredFile
from binlog_merge.files.remote import folder_name_of, name_of
from binlog_merge.files.servers import SERVERS_NAME, FollowingServer, patterns_of, servers_of
from binlog_merge.files.source import Source, is_text, open_source

_Value = TypeVar("_Value")

_NUMBERED = re.compile(r"(.+)\.(\d{6,18})")  # a server writes six digits, and more when it needs them
_COMPRESSED = (".gz", ".zst", ".bz2", ".xz", ".lz4", ".zip")
LIST_OF_FILES = "the server's list of files"
LIST_OF_SERVERS = "the list of the node's servers"

KnownHeads = dict[str, tuple[Stamp, FoundFile]]
"""Files by path, as they were read when they had some size, time and inode."""


def paths_by_server(node: Node, ignored: list[IgnoredFile]) -> tuple[dict[str, int], tuple[FollowingServer, ...]]:
    """Return the paths of a node's numbered files, each with the number of its server, and the servers after the first.

    A pattern with `**` also finds what is in the folders of later servers.
    """
    folder, servers = _located(node, lambda: servers_of(node.files))
    later = [_numbered_paths(node, [pattern], ignored) for pattern in patterns_of(folder, servers)]
    paths = dict.fromkeys(_numbered_paths(node, node.files, ignored), 0)
    for number, found in enumerate(later, 1):
        paths |= dict.fromkeys(found, number)
    return paths, servers


def _located(node: Node, work: Callable[[], _Value]) -> _Value:
    try:
        return work()
    except MergeError as error:
        raise error.located(node=node.source_id) from None


def _numbered_paths(node: Node, patterns: Sequence[str], ignored: list[IgnoredFile]) -> list[str]:
    paths: dict[str, None] = {}
    for pattern in patterns:
        try:
            check_readable(pattern)
        except IoError as error:
            raise error.located(node=node.source_id) from None
        paths.update(dict.fromkeys(expand(pattern)))
    numbered = []
    for path in paths:
        name = name_of(path)
        if _NUMBERED.fullmatch(name):
            if not is_text(path):
                raise UnsupportedInput(
                    "the file's path is not UTF-8", node=node.source_id, file=path, remedy="rename it, or link to it"
                )
            numbered.append(path)
        elif (reason := _reason_to_ignore(node.source_id, path, name)) is not None:
            ignored.append(IgnoredFile(node.source_id, path, reason))
    return numbered


def _reason_to_ignore(node: str, path: str, name: str) -> str | None:
    """Return why a file without a number is ignored; None if it no longer exists.

    Raises UnsupportedInput if it may hold transactions: a compressed file, or a binlog under another name.
    """
    if name == SERVERS_NAME:
        return LIST_OF_SERVERS
    if name.endswith(".index"):
        return LIST_OF_FILES
    if name.endswith("~"):
        return "a backup copy (its name ends in ~)"
    if name.endswith(_COMPRESSED):
        raise UnsupportedInput(
            "the file is compressed", node=node, file=path, remedy="decompress it, or narrow the node's `files` pattern"
        )
    if (kind := kind_of(path)) is not None:
        return None if kind == GONE else f"{kind}, not a file"
    with _opened(node, path) as source:
        head = bytearray(4)
        source.read_into(memoryview(head), 0)
    if bytes(head) in (BINLOG_MAGIC, ENCRYPTED_MAGIC):
        raise UnsupportedInput(
            "the file is a binlog, but its name has no number, so its place is not known",
            node=node,
            file=path,
            remedy="give it its name back (mysql-bin.NNNNNN), or narrow the node's `files` pattern",
        )
    return "not a binlog (its name has no number)"


def _opened(node: str, path: str) -> Source:
    try:
        return open_source(path)
    except IoError as error:
        raise error.located(node=node) from None


def read_new(node: str, known: KnownHeads | None, server: int, path: str) -> FoundFile | IgnoredFile:
    """Read the head of a numbered file, unless it is known and has not changed."""
    local = local_path(path)
    if known is None or local is None:
        return _read(node, server, path)
    stamp = stamp_of(Path(local))
    before = known.get(path)
    if before is not None and before[0] == stamp and (before[1].node, before[1].server) == (node, server):
        return before[1]
    found = _read(node, server, path)
    if isinstance(found, FoundFile) and stamp is not None and stamp == stamp_of(Path(local)):
        known[path] = stamp, found
    return found


def _read(node: str, server: int, path: str) -> FoundFile | IgnoredFile:
    """Read the head of a numbered file; a file that was purged after it was listed is ignored."""
    name = name_of(path)
    match = _NUMBERED.fullmatch(name)
    assert match is not None
    if (kind := kind_of(path)) == GONE:
        return IgnoredFile(node, path, "it went away while the folder was read")
    if kind == FOLDER:
        return IgnoredFile(node, path, f"{kind}, not a file")
    if kind is not None:
        raise UnsupportedInput(
            f"{kind} has the name of a binlog file",
            node=node,
            file=path,
            remedy="copy what it gives into a file, or narrow the node's `files` pattern",
        )
    with _opened(node, path) as source:
        own = f"{folder_name_of(path)}/{name}" if server else name
        return FoundFile(node, server, path, own, match[1], int(match[2]), source.size, read_head(source, node, path))
