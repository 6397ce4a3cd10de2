"""Whether each file is its node's own: no copy of another's, and of no server that is not the node's."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, groupby

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import DuplicateFile, WrongNode
from binlog_merge.files.node_file import FoundFile
from binlog_merge.files.node_log import same_beginning
from binlog_merge.files.servers import recorded_server_uuid


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
