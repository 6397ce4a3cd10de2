"""The servers that a node has had, as a capture has recorded them beside its files: the first one, and each switch."""

from binlog_merge.config.nodes import Node
from binlog_merge.files.servers import recorded_server_uuid, servers_of
from binlog_merge.observe.status.values import FilePosition, ServerStatus


def servers_of_node(node: Node) -> tuple[ServerStatus, ...]:
    """Return a node's servers, the first one first; none for a node whose files nothing captures.

    Raises IoError, ManifestError and ConfigError for an index that cannot be read.
    """
    _, following = servers_of(node.files)
    first = _first(node)
    if first is None and not following:
        return ()
    found = [ServerStatus(first, None, None, "")]
    for server in following:
        if server.ended is not None:
            folder, file, position = server.ended
            ends = FilePosition(f"{folder}/{file}" if folder else file, position)
            # The one that has the log before it: a server that was never captured from has none.
            at = next(i for i, known in reversed(list(enumerate(found))) if known.folder == folder)
            found[at] = found[at].left(ends)
        found.append(ServerStatus(server.server_uuid, server.server, server.at, server.folder))
    return tuple(found)


def _first(node: Node) -> str | None:
    """Return the UUID of the server that was captured first, None if no capture has recorded it."""
    for pattern in node.files:
        if (found := recorded_server_uuid(pattern)) is not None:
            return found
    return None
