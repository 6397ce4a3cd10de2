"""Whether there is a merged log, and whether it has all that a node had committed up to a place in its binlog."""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from binlog_merge.binlog.constants import BINLOG_MAGIC
from binlog_merge.bootstrap.nodes import NodeReader
from binlog_merge.bootstrap.values import End, Identity
from binlog_merge.config.merge_config import MergeConfig
from binlog_merge.errors import ConfigError, NotYet
from binlog_merge.files.log_folder import LogFolder, NothingWritten
from binlog_merge.files.manifest import ManifestState, NodeState
from binlog_merge.log.log import Log
from binlog_merge.node_capture.servers import NodeServers
from snapshot_store.server import ServerAddress

_LOOK_SECONDS: Final = 0.2
_NUMBER: Final = re.compile(r"(\d+)$")


def awaited(folder: LogFolder, seconds: float, report: Callable[[str], None]) -> Log:
    """Return the log in a folder, as soon as a merge has written there: it may only just have been started.

    `report` gets a line if there is a wait. Raises NotYet if it takes too long.
    """
    end, said = time.monotonic() + seconds, False
    while True:
        try:
            return Log(folder)
        except NothingWritten:
            if time.monotonic() > end:
                raise NotYet(f"no merge has written to {folder}") from None
        if not said:
            report(f"no merge has written to {folder} yet: waiting for the first that does")
        said = True
        time.sleep(_LOOK_SECONDS)


def unpublished(state: ManifestState, ends: Mapping[str, End]) -> dict[str, End | None]:
    """Return the nodes that are not published up to their ends, with the first position that is not; None: not known.

    All transactions that the node committed before such an end are in the log then, none is held back.
    """
    nodes = {} if state.last is None else state.last.nodes
    ends_by_node: dict[str, End | None] = {}
    for node, end in ends.items():
        known = nodes.get(node)
        place = None if known is None else published_to(known)
        if place is None or not _reaches(place, end):
            ends_by_node[node] = place
    return ends_by_node


def published_to(state: NodeState) -> End:
    """Return the place up to which everything that a node committed is published: the next run goes on there."""
    checkpoint = state.checkpoint
    resume = checkpoint.get("resume") or {"file": checkpoint["file"]}
    return End(str(resume["file"]), int(resume.get("position", len(BINLOG_MAGIC))))


def _reaches(place: End, end: End) -> bool:
    folder, _, name = place.file.rpartition("/")
    other, _, wanted = end.file.rpartition("/")
    if folder != other:
        return False  # of another server: which one is there now is asked elsewhere
    return (_number(name), place.position) >= (_number(wanted), end.position)


def _number(name: str) -> int:
    match = _NUMBER.search(name)
    return int(match[1]) if match else 0


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
    nodes = []
    for node in config.nodes:
        folder = folders.get(node.source_id)
        if folder is None or node.server is None:
            raise ConfigError(
                "its `files` are not those of a capture: which of its transactions the log has cannot be told",
                node=node.source_id,
                remedy="give it a `server` and no `files`, and let `binlog-merge capture` run",
            )
        addresses = tuple(ServerAddress.parse(url, password) for url in node.servers)
        nodes.append(CapturedNode(node.source_id, addresses, folder, ssl_ca))
    return nodes
