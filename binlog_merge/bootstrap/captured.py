"""The nodes of a cluster as their captures know them: which server has a node, and what of it is captured."""

from dataclasses import dataclass
from pathlib import Path

from binlog_merge.bootstrap.nodes import NodeReader
from binlog_merge.bootstrap.values import End, Identity
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import ConfigError
from binlog_merge.node_capture.servers import NodeServers
from snapshot_store.server import ServerAddress


@dataclass(frozen=True)
class CapturedNode:
    """A node whose files a capture puts into `directory`."""

    name: str
    addresses: tuple[ServerAddress, ...]
    directory: Path
    ssl_ca: str | None = None

    def reader(self, identity: Identity | None) -> NodeReader:
        """Return a reader of the server that is captured now."""
        return NodeReader(self.name, self._now, self.ssl_ca, identity)

    def captured(self) -> str:
        """Return the GTIDs of all that is captured, or was executed before."""
        return str(self._servers().captured()[0])

    def place(self, end: tuple[str, int]) -> End:
        """Return a place of the server as the capture names it."""
        return End(self._servers().prefix + end[0], end[1])

    def _now(self) -> tuple[ServerAddress, str | None]:
        servers = self._servers()
        return servers.address, servers.server_uuid

    def _servers(self) -> NodeServers:
        return NodeServers(self.name, self.addresses, self.directory, self.ssl_ca)


def captured_nodes(config: MergeConfig, password: str | None, ssl_ca: str | None) -> list[CapturedNode]:
    """Return all nodes of a cluster. Raises ConfigError for one that is not captured."""
    folders = config.captured_folders()
    found = []
    for node in config.nodes:
        folder = folders.get(node.source_id)
        if folder is None or node.server is None:
            raise ConfigError(
                "its `files` are not those of a capture: which of its transactions the log has cannot be told",
                node=node.source_id,
                remedy="give it a `server` and no `files`, and let `binlog-merge capture` run",
            )
        addresses = tuple(ServerAddress.parse(url, password) for url in node.servers)
        found.append(CapturedNode(node.source_id, addresses, folder, ssl_ca))
    return found
