"""Which server each node is captured from, so that one server is never captured as two nodes."""

import threading

from binlog_merge.errors import WrongNode


class Claims:
    """The servers that a capture's nodes have, by UUID; for the threads of all nodes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, tuple[str, str]] = {}

    def claim(self, node: str, server_uuid: str, address: str) -> None:
        """Note the server of a node in place of the one that it had. Raises WrongNode if another node has it."""
        with self._lock:
            for other, (held, its_address) in self._held.items():
                if other != node and held == server_uuid:
                    raise WrongNode(
                        f"{address} is the server that node {other} has as {its_address} (server_uuid {server_uuid})",
                        node=node,
                        remedy="correct the `server` of one of the two nodes, or remove the node",
                    )
            self._held[node] = server_uuid, address
