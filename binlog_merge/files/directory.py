"""The input: which binlog files each node has, in order, and whether any can be missing.

Refused is what would lead to a wrong merge: a file missing in the middle, a file twice, a file of another node. Files
that are not read (an index, a file only just created) are reported as ignored, with the reason.

Where a node failed over (`files.servers`), the files of each of its servers are a series of their own, one behind the
other; the log of a server that the node has left ends where it was left.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.config.nodes import Node
from binlog_merge.errors import NoFiles
from binlog_merge.files.globs import why_nothing
from binlog_merge.files.listing import KnownHeads, paths_by_server, read_new
from binlog_merge.files.node_file import Discovery, FoundFile, IgnoredFile, NodeFile
from binlog_merge.files.node_log import UNBORN, log_of, with_ends
from binlog_merge.files.ownership import check_copies, check_server_ids, check_server_uuids
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
    return Discovery(nodes, tuple(ignored))


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
        earlier=servers[file.server - 1].captured if file.server else None,
    )
