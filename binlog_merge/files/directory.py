"""The input: which binlog files each node has, in order, and whether any can be missing.

Refused is what would lead to a wrong merge: a file missing in the middle, a file twice, a file of another node. Files
that are not read (an index, a file only just created) are reported as ignored, with the reason.

Where a node failed over (`files.servers`), the files of each of its servers are a series of their own, one behind the
other; the log of a server that the node has left ends where it was left.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import combinations, groupby, pairwise
from pathlib import Path, PurePosixPath
from typing import TypeVar

from binlog_merge.binlog.constants import BINLOG_MAGIC, ENCRYPTED_MAGIC
from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.sections import Node
from binlog_merge.errors import (
    ConfigError,
    DuplicateFile,
    IoError,
    MergeError,
    MissingFile,
    NoFiles,
    TruncatedEvent,
    UnsupportedInput,
    WrongNode,
)
from binlog_merge.files.globs import FOLDER, GONE, check_readable, expand, kind_of, why_nothing
from binlog_merge.files.head import Head, read_head
from binlog_merge.files.intact import Stamp, stamp_of
from binlog_merge.files.known import KnownFile
from binlog_merge.files.servers import SERVERS_NAME, FollowingServer, patterns_of, servers_of
from binlog_merge.files.source import Source, is_text, local_path, open_source

_Value = TypeVar("_Value")

_NUMBERED = re.compile(r"(.+)\.(\d{6,18})")  # a server writes six digits, and more when it needs them
_COMPRESSED = (".gz", ".zst", ".bz2", ".xz", ".lz4", ".zip")
_READERS = 16
LIST_OF_FILES = "the server's list of files"
LIST_OF_SERVERS = "the list of the node's servers"
LEFT = "the node had failed over to another server, whose files have what follows"
UNBORN = "the last file, and it has no complete event yet"


@dataclass(frozen=True, slots=True)
class NodeFile:
    """A binlog file of a node. `path` is a local path or a URI, `number` its numeric suffix.

    `name` is unique among the node's files: with the folder in it if a server after the first one wrote it; then
    `earlier` are the GTIDs that the logs of the servers before it have, else None. `size` is up to where it is read.
    `identity` distinguishes this file from another of the same name (after RESET BINARY LOGS, say); it stays the same
    while the file grows.
    """

    node: str
    path: str
    name: str
    number: int
    size: int
    in_use: bool
    server_version: str
    server_id: int
    checksum_alg: int
    created: int
    first_timestamp: int
    previous_gtids: bytes | None
    identity: str
    earlier: GtidSet | None = None

    @property
    def known(self) -> KnownFile:
        """Return the facts with which later readers open the file again (`files.known`)."""
        return KnownFile(self.node, self.path, self.size, self.identity)


@dataclass(frozen=True, slots=True)
class IgnoredFile:
    """A file that matches a node's pattern but is not read; `reason` says why."""

    node: str
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Discovery:
    """The files of every node, in order of its log; nodes in the order of the configuration."""

    nodes: Mapping[str, tuple[NodeFile, ...]]
    ignored: tuple[IgnoredFile, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    node: str
    server: int  # among the node's servers, the first one 0
    path: str
    name: str
    series: str
    number: int
    size: int
    head: Head | None


KnownHeads = dict[str, tuple[Stamp, _Found]]
"""Files by path, as they were read when they had some size, time and inode."""


def discover(config: MergeConfig, known: KnownHeads | None = None) -> Discovery:
    """Find and check the binlog files of all nodes. Raises a MergeError that names what is wrong with them.

    Of files in `known` that have not changed since the heads are not read again; it gets those that are.
    """
    ignored: list[IgnoredFile] = []
    by_node: dict[str, list[_Found]] = {}
    servers: dict[str, tuple[FollowingServer, ...]] = {}
    with ThreadPoolExecutor(_READERS) as readers:
        for node in config.nodes:
            paths, servers[node.source_id] = _paths_by_server(node, ignored)
            read = list(readers.map(partial(_read_new, node.source_id, known), paths.values(), paths))
            by_node[node.source_id] = sorted((file for file in read if isinstance(file, _Found)), key=_order)
            ignored += [file for file in read if isinstance(file, IgnoredFile)]
    by_node = {node: _log_of(files, servers[node], ignored) for node, files in by_node.items()}
    for node in config.nodes:
        if not by_node[node.source_id]:
            raise _no_files(node, ignored)
    _check_copies([file for files in by_node.values() for file in files])
    _check_server_ids(config, by_node)
    _check_server_uuids(config, by_node)
    nodes = {
        node: tuple(_node_file(file, servers[node], last) for file, last in _with_ends(files, servers[node]))
        for node, files in by_node.items()
    }
    return Discovery(nodes, tuple(ignored))


def _paths_by_server(node: Node, ignored: list[IgnoredFile]) -> tuple[dict[str, int], tuple[FollowingServer, ...]]:
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


def _log_of(files: list[_Found], servers: Sequence[FollowingServer], ignored: list[IgnoredFile]) -> list[_Found]:
    """Return the files of a node that make its log, checked; `files` are in order."""
    log: list[_Found] = []
    for number, of_server in groupby(files, key=lambda file: file.server):
        own = list(of_server)
        _check_numbers(own)
        own = _without_unborn(own, ignored)
        log += _up_to_the_next(own, number, servers, ignored)
    return log


def _end_of(number: int, servers: Sequence[FollowingServer]) -> tuple[str, int] | None:
    """Return (file, position) where the log of a server ends that the node has left; None for the one that it has."""
    folder = servers[number - 1].folder if number else ""
    ends = (server.ended for server in servers[number:] if server.ended is not None)
    return next((end[1:] for end in ends if end[0] == folder), None)


def _up_to_the_next(
    files: list[_Found], number: int, servers: Sequence[FollowingServer], ignored: list[IgnoredFile]
) -> list[_Found]:
    """Leave out the files behind the one in which the node left a server. Raises MissingFile if that is missing."""
    end = _end_of(number, servers)
    if end is None or not files:
        return files
    at = next((index for index, file in enumerate(files) if PurePosixPath(file.name).name == end[0]), None)
    if at is None or files[at].size < end[1]:
        what = f"{end[0]} is missing" if at is None else f"{end[0]} has {files[at].size} bytes only"
        raise MissingFile(
            f"{what}: the node failed over to another server behind {end[0]}:{end[1]}",
            node=files[0].node,
            file=files[-1 if at is None else at].path,
            remedy="copy the captured files of all the node's servers",
        )
    ignored += [IgnoredFile(file.node, file.path, LEFT) for file in files[at + 1 :]]
    return files[: at + 1]


def _with_ends(
    files: Sequence[_Found], servers: Sequence[FollowingServer]
) -> Iterator[tuple[_Found, tuple[str, int] | None]]:
    """Yield each file, with the end of its server's log if that is in it."""
    for file in files:
        end = _end_of(file.server, servers)
        yield file, end if end is not None and end[0] == PurePosixPath(file.name).name else None


def _no_files(node: Node, ignored: Iterable[IgnoredFile]) -> NoFiles:
    """Return the error for a node without files, which says what was found instead."""
    unborn = next((f.path for f in ignored if f.node == node.source_id and f.reason == UNBORN), None)
    if unborn is not None:
        return NoFiles(
            "the node's only file has no complete event yet",
            node=node.source_id,
            file=unborn,
            remedy="run it again when the server has begun it; if the server has, copy the file again",
        )
    remedy = None if node.server is None else "`binlog-merge capture` fetches the files from the node's server"
    what = "; ".join(dict.fromkeys(map(why_nothing, node.files)))
    return NoFiles(what, node=node.source_id, remedy=remedy)


def _order(file: _Found) -> tuple[int, int, str]:
    return file.server, file.number, file.path


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
        name = PurePosixPath(path).name
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


def _read_new(node: str, known: KnownHeads | None, server: int, path: str) -> _Found | IgnoredFile:
    """Read the head of a numbered file, unless it is known and has not changed."""
    local = local_path(path)
    if known is None or local is None:
        return _read(node, server, path)
    stamp = stamp_of(Path(local))
    before = known.get(path)
    if before is not None and before[0] == stamp and (before[1].node, before[1].server) == (node, server):
        return before[1]
    found = _read(node, server, path)
    if isinstance(found, _Found) and stamp is not None and stamp == stamp_of(Path(local)):
        known[path] = stamp, found
    return found


def _read(node: str, server: int, path: str) -> _Found | IgnoredFile:
    """Read the head of a numbered file; a file that was purged after it was listed is ignored."""
    name = PurePosixPath(path).name
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
        own = f"{PurePosixPath(path).parent.name}/{name}" if server else name
        return _Found(node, server, path, own, match[1], int(match[2]), source.size, read_head(source, node, path))


def _check_numbers(files: list[_Found]) -> None:
    """Refuse duplicate numbers, more than one series, and gaps in the numbers of a node's files."""
    for before, after in pairwise(files):
        if before.number == after.number and before.series == after.series:
            alike = "identical beginnings" if _same_beginning(before, after) else "different contents"
            raise DuplicateFile(
                f"two files have the number of {after.name}: {before.path} and {after.path} ({alike})",
                node=after.node,
                file=after.path,
            )
    series = {file.series: file for file in files}
    if len(series) > 1:
        names = ", ".join(f"{name}.*" for name in sorted(series))
        raise ConfigError(
            f"the node's files belong to {len(series)} series: {names}",
            node=files[0].node,
            remedy="a node has one series of binlog files; narrow its `files` pattern",
        )
    for before, after in pairwise(files):
        if after.number - before.number > 1:
            digits = len(PurePosixPath(before.name).name) - len(before.series) - 1
            first, last = (f"{before.series}.{n:0{digits}d}" for n in (before.number + 1, after.number - 1))
            missing = f"{first} is" if first == last else f"{first} to {last} are"
            raise MissingFile(
                f"{missing} missing between {before.name} and {after.name}", node=after.node, file=after.path
            )


def _without_unborn(files: list[_Found], ignored: list[IgnoredFile]) -> list[_Found]:
    """Leave out the last file if it does not have its first event yet; any other file without one is damaged."""
    for file in files[:-1]:
        if file.head is None:
            raise TruncatedEvent(
                "the file ends inside its first event, and a later file exists",
                node=file.node,
                file=file.path,
                position=file.size,
            )
    if files and files[-1].head is None:
        ignored.append(IgnoredFile(files[-1].node, files[-1].path, UNBORN))
        return files[:-1]
    return files


def _same_beginning(a: _Found, b: _Found) -> bool:
    """Return whether two files are copies of the same file.

    A shorter file may be an older copy, so only the bytes that both have are compared. Two files without events after
    their head are not called copies: there is nothing in them to duplicate.
    """
    if a.head is None or b.head is None:
        return False
    if (a.head.identity, a.head.previous_gtids) != (b.head.identity, b.head.previous_gtids):
        return False
    shorter, longer = sorted((a.head.first_events, b.head.first_events), key=len)
    return bool(shorter) and longer.startswith(shorter)


def _check_copies(files: list[_Found]) -> None:
    """Refuse the same content under two names, in one node or in different nodes.

    A node that fails over and back has files of its first server twice, and each GTID is read once.
    """
    by_identity = sorted(files, key=lambda f: "" if f.head is None else f.head.identity)
    for _, alike in groupby(by_identity, key=lambda f: "" if f.head is None else f.head.identity):
        for a, b in combinations(alike, 2):
            if (a.node != b.node or a.server == b.server) and _same_beginning(a, b):
                of = f" of node {a.node}" if a.node != b.node else ""
                raise DuplicateFile(f"the file begins exactly as {a.path}{of}", node=b.node, file=b.path)


def _check_server_ids(config: MergeConfig, by_node: Mapping[str, list[_Found]]) -> None:
    owners: dict[int, _Found] = {}
    for node in config.nodes:
        first: dict[int, _Found] = {}
        for file, server_id in _server_ids(by_node[node.source_id]):
            own = first.setdefault(file.server, file)
            if node.server_id is not None and not file.server and server_id != node.server_id:
                raise WrongNode(
                    f"the file was written by server id {server_id}, the configuration expects {node.server_id}",
                    node=file.node,
                    file=file.path,
                )
            owner = owners.setdefault(server_id, file)
            if owner.node != file.node:
                raise WrongNode(
                    f"server id {server_id} also wrote {owner.path} of node {owner.node}",
                    node=file.node,
                    file=file.path,
                )
            if own.head is not None and server_id != own.head.server_id:
                raise WrongNode(
                    f"the file was written by server id {server_id}, but {own.name} by {own.head.server_id}",
                    node=file.node,
                    file=file.path,
                )


def _check_server_uuids(config: MergeConfig, by_node: Mapping[str, list[_Found]]) -> None:
    """Refuse a file whose GTIDs are all of servers other than the configured one; a file without GTIDs passes."""
    for node in config.nodes:
        for file in by_node[node.source_id] if node.server_uuid is not None else ():
            seen = file.head.server_uuids if file.head is not None else frozenset()
            if seen and node.server_uuid not in seen:
                others = ", ".join(sorted(seen))
                raise WrongNode(
                    f"the file has GTIDs of {others} only, the configuration expects {node.server_uuid}",
                    node=file.node,
                    file=file.path,
                )


def _server_ids(files: Iterable[_Found]) -> Iterable[tuple[_Found, int]]:
    return ((file, file.head.server_id) for file in files if file.head is not None)


def _node_file(file: _Found, servers: Sequence[FollowingServer], end: tuple[str, int] | None) -> NodeFile:
    head = file.head
    assert head is not None
    return NodeFile(
        node=file.node,
        path=file.path,
        name=file.name,
        number=file.number,
        size=file.size if end is None else end[1],
        in_use=head.in_use or end is not None,  # its server never came to end it there
        server_version=head.server_version,
        server_id=head.server_id,
        checksum_alg=head.checksum_alg,
        created=head.created,
        first_timestamp=head.first_timestamp,
        previous_gtids=head.previous_gtids,
        identity=head.identity,
        earlier=servers[file.server - 1].captured if file.server else None,
    )
