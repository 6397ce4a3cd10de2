"""A node's binlog files as values: what is known of each before its events are read."""

from collections.abc import Mapping
from dataclasses import dataclass

from binlog_merge.binlog.gtid_set import GtidSet
from binlog_merge.files.head import Head
from binlog_merge.files.known import Instead, KnownFile


@dataclass(frozen=True, slots=True)
class NodeFile:
    """A binlog file of a node. `path` is a local path or a URI, `number` its numeric suffix.

    `name` is unique among the node's files: with the folder in it if a server after the first one wrote it; then
    `earlier` are the GTIDs that the logs of the servers before it have, else None. `size` is up to where it is read.
    `identity` distinguishes this file from another of the same name (after RESET BINARY LOGS, say); it stays the same
    while the file grows. `instead` are the groups in whose place others are read.
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
    instead: tuple[Instead, ...] = ()

    @property
    def known(self) -> KnownFile:
        """Return the facts with which later readers open the file again (`files.known`)."""
        return KnownFile(self.node, self.path, self.size, self.identity, self.instead)


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
class FoundFile:
    """A numbered file as it was found. `server` counts the node's servers from 0.

    `head` is None while the file does not have its first event.
    """

    node: str
    server: int
    path: str
    name: str
    series: str
    number: int
    size: int
    head: Head | None
