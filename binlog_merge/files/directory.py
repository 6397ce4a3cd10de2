"""The input: which binlog files each node has, in order, and whether any can be missing.

Refused is what would lead to a wrong merge: a file missing in the middle, a file twice, a file of another node. Files
that are not read (an index, a file only just created) are reported as ignored, with the reason.

Where a node failed over (`files.servers`), the files of each of its servers are a series of their own, one behind the
other; the log of a server that the node has left ends where it was left.

A `Glance` at the nodes' folders says in a few microseconds whether anything may have changed.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import combinations, groupby, pairwise
from pathlib import Path, PurePosixPath

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.nodes import Node
from binlog_merge.config.uri import local_path
from binlog_merge.errors import ConfigError, DuplicateFile, MissingFile, NoFiles, TruncatedEvent, WrongNode
from binlog_merge.files.captured import recorded_server_uuid
from binlog_merge.files.globs import has_magic, why_nothing
from binlog_merge.files.intact import Stamp, stamp_of
from binlog_merge.files.listing import KnownHeads, paths_by_server, read_new
from binlog_merge.files.node_file import Discovery, FoundFile, IgnoredFile, NodeFile
from binlog_merge.files.servers import FollowingServer

_READERS = 16


def discover(config: MergeConfig, known: KnownHeads | None = None) -> Discovery:
    """Find and check the binlog files of all nodes. Raises a MergeError that names what is wrong with them.

    Of files in `known` that have not changed since the heads are not read again; it gets those that are.
    """
    ignored: list[IgnoredFile] = []
    by_node: dict[str, list[FoundFile]] = {}
    servers: dict[str, tuple[FollowingServer, ...]] = {}
    with ThreadPoolExecutor(_READERS) as readers:
        for node in config.nodes:
            paths, servers[node.source_id] = paths_by_server(node, ignored)
            read = list(readers.map(partial(read_new, node.source_id, known), paths.values(), paths))
            by_node[node.source_id] = sorted((file for file in read if isinstance(file, FoundFile)), key=_order)
            ignored += [file for file in read if isinstance(file, IgnoredFile)]
    by_node = {node: log_of(files, servers[node], ignored) for node, files in by_node.items()}
    for node in config.nodes:
        if not by_node[node.source_id]:
            raise _no_files(node, ignored)
    check_copies([file for files in by_node.values() for file in files])
    check_server_ids(config, by_node)
    check_server_uuids(config, by_node)
    nodes = {
        node: tuple(_node_file(file, servers[node], last) for file, last in with_ends(files, servers[node]))
        for node, files in by_node.items()
    }
    return Discovery(nodes, tuple(ignored), servers)


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


def _order(file: FoundFile) -> tuple[int, int, str]:
    return file.server, file.number, file.path


def _node_file(file: FoundFile, servers: Sequence[FollowingServer], end: tuple[str, int] | None) -> NodeFile:
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
        earlier=servers[file.server - 1].gtids if file.server else None,
    )


def check_copies(files: list[FoundFile]) -> None:
    """Refuse the same content under two names, in one node or in different nodes.

    A node that fails over and back has files of its first server twice, and each GTID is read once.
    """
    by_identity = sorted(files, key=lambda f: "" if f.head is None else f.head.identity)
    for _, alike in groupby(by_identity, key=lambda f: "" if f.head is None else f.head.identity):
        for a, b in combinations(alike, 2):
            if (a.node != b.node or a.server == b.server) and same_beginning(a, b):
                of = f" of node {a.node}" if a.node != b.node else ""
                raise DuplicateFile(f"the file begins exactly as {a.path}{of}", node=b.node, file=b.path)


def check_server_ids(config: MergeConfig, by_node: Mapping[str, list[FoundFile]]) -> None:
    """Refuse a file of another server id than configured, or than the server's other files.

    Nor may two nodes have one, unless their servers are known to be different ones: 1 is what MySQL gives each server.
    """
    owners: dict[int, dict[str, FoundFile]] = {}
    for node in config.nodes:
        first: dict[int, FoundFile] = {}
        for file, server_id in _server_ids(by_node[node.source_id]):
            own = first.setdefault(file.server, file)
            if node.server_id is not None and not file.server and server_id != node.server_id:
                raise WrongNode(
                    f"the file was written by server id {server_id}, the configuration expects {node.server_id}",
                    node=file.node,
                    file=file.path,
                )
            known = owners.setdefault(server_id, {})
            if file.node not in known:
                for owner in known.values():
                    if not _different(by_node, owner, file):
                        raise WrongNode(
                            f"server id {server_id} also wrote {owner.path} of node {owner.node}",
                            node=file.node,
                            file=file.path,
                        )
                known[file.node] = file
            if own.head is not None and server_id != own.head.server_id:
                raise WrongNode(
                    f"the file was written by server id {server_id}, but {own.name} by {own.head.server_id}",
                    node=file.node,
                    file=file.path,
                )


def _different(by_node: Mapping[str, list[FoundFile]], one: FoundFile, other: FoundFile) -> bool:
    """Return whether two files are known to be of different servers: by captures' records, or by their GTIDs."""
    a, b = (_uuids([f for f in by_node[file.node] if f.server == file.server]) for file in (one, other))
    return bool(a and b) and a.isdisjoint(b)


def _uuids(files: Sequence[FoundFile]) -> frozenset[str]:
    """Return the UUID of the server from which a server's files were captured, else of all that wrote their GTIDs."""
    recorded = [recorded_server_uuid(file.path) for file in files]
    if recorded and None not in recorded:
        return frozenset(uuid for uuid in recorded if uuid is not None)
    return frozenset().union(*(file.head.server_uuids for file in files if file.head is not None))


def check_server_uuids(config: MergeConfig, by_node: Mapping[str, list[FoundFile]]) -> None:
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


def _server_ids(files: Iterable[FoundFile]) -> Iterable[tuple[FoundFile, int]]:
    return ((file, file.head.server_id) for file in files if file.head is not None)


LEFT = "the node had failed over to another server, whose files have what follows"
UNBORN = "the last file, and it has no complete event yet"


def log_of(files: list[FoundFile], servers: Sequence[FollowingServer], ignored: list[IgnoredFile]) -> list[FoundFile]:
    """Return the files of a node that make its log, checked; `files` are in order."""
    log: list[FoundFile] = []
    for number, of_server in groupby(files, key=lambda file: file.server):
        own = list(of_server)
        _check_numbers(own)
        own = _without_unborn(own, ignored)
        log += _up_to_the_next(own, number, servers, ignored)
    return log


def with_ends(
    files: Sequence[FoundFile], servers: Sequence[FollowingServer]
) -> Iterator[tuple[FoundFile, tuple[str, int] | None]]:
    """Yield each file, with the end of its server's log if that is in it."""
    for file in files:
        end = _end_of(file.server, servers)
        yield file, end if end is not None and end[0] == PurePosixPath(file.name).name else None


def _end_of(number: int, servers: Sequence[FollowingServer]) -> tuple[str, int] | None:
    """Return (file, position) where the log of a server ends that the node has left; None for the one that it has."""
    folder = servers[number - 1].folder if number else ""
    ends = (server.ended for server in servers[number:] if server.ended is not None)
    return next(((end.file, end.position) for end in ends if end.folder == folder), None)


def _up_to_the_next(
    files: list[FoundFile], number: int, servers: Sequence[FollowingServer], ignored: list[IgnoredFile]
) -> list[FoundFile]:
    """Leave out the files behind the one in which the node left a server. Raises MissingFile if that is missing."""
    end = _end_of(number, servers)
    if end is None or not files:
        return files
    at = next((index for index, file in enumerate(files) if PurePosixPath(file.name).name == end[0]), None)
    if at is None or files[at].size < end[1]:
        what = f"{end[0]} is missing" if at is None else f"{end[0]} has {files[at].size} bytes only"
        raise MissingFile(
            f"{what}: the node failed over to another server after {end[0]}:{end[1]}",
            node=files[0].node,
            file=files[-1 if at is None else at].path,
            remedy="copy the captured files of all the node's servers",
        )
    ignored += [IgnoredFile(file.node, file.path, LEFT) for file in files[at + 1 :]]
    return files[: at + 1]


def _check_numbers(files: list[FoundFile]) -> None:
    """Refuse duplicate numbers, more than one series, and gaps in the numbers of a node's files."""
    for before, after in pairwise(files):
        if before.number == after.number and before.series == after.series:
            alike = "identical beginnings" if same_beginning(before, after) else "different contents"
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


def _without_unborn(files: list[FoundFile], ignored: list[IgnoredFile]) -> list[FoundFile]:
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


def same_beginning(a: FoundFile, b: FoundFile) -> bool:
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


LOOK_EVERY = 1.0
"""Seconds after which folders are looked through even if nothing seems to have changed: times of files are coarse."""


class Glance:
    """Compares the stamps of folders, of each node's last file and of some other files with those of the last look.

    Knows nothing of remote folders, and of patterns that may match in several folders: there it says so each time.
    """

    def __init__(self, config: MergeConfig, others: Sequence[Path]) -> None:
        self._others = tuple(f"{path}{suffix}" for path in others for suffix in ("", ".wal"))
        self._folders = _folders(config)
        self._found: Discovery | None = None
        self._stamps: tuple[Stamp | None, ...] = ()
        self._looked = 0.0

    def forget(self) -> None:
        """Say at the next look that something may have changed."""
        self._found = None

    def folders(self, found: Discovery | None) -> tuple[str, ...]:
        """Return the folders in which nodes write; none if they are remote, or several for one pattern."""
        if self._folders is None or found is None:
            return ()
        last = (str(Path(files[-1].path).parent) for files in found.nodes.values())
        return tuple(dict.fromkeys((*self._folders, *last)))

    def is_same(self, found: Discovery) -> bool:
        """Return whether nothing has changed since the last call that returned False, when `found` was there."""
        if self._folders is None:
            return False
        last = (local_path(files[-1].path) or "." for files in found.nodes.values())
        stamps = tuple(map(stamp_of, (*self._folders, *last, *self._others)))
        now = time.monotonic()
        if found is self._found and stamps == self._stamps and now - self._looked < LOOK_EVERY:
            return True
        self._found, self._stamps, self._looked = found, stamps, now
        return False


def _folders(config: MergeConfig) -> tuple[str, ...] | None:
    """Return the folders of the nodes' files; None if they are remote or may be several for one pattern."""
    found: dict[Path, None] = {}
    for node in config.nodes:
        for pattern in node.files:
            local = local_path(pattern)
            if local is None or has_magic(str(Path(local).parent)):
                return None
            found[Path(local).parent] = None
    return tuple(map(str, found))
