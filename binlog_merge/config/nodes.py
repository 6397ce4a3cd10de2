"""The section of a node: where its binlog files and its servers are."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from binlog_merge.config.section import Section, ServerId, Uuid
from binlog_merge.config.values import Patterns, PlainName
from snapshot_store.server import ServerAddress

MAX_NODE_NUMBER = 999_999  # six digits of the order key's text

CaseOfNames = Literal[0, 1, 2]

NodeNumber = Annotated[int, Field(ge=1, le=MAX_NODE_NUMBER)]


def _servers(value: Any) -> Any:
    """Check the URL of a server, or a list of those that may have the node one after the other."""
    urls = value if isinstance(value, list | tuple) else [value]
    if not urls:
        raise ValueError("should not be empty")
    for url in urls:
        if not isinstance(url, str):
            raise ValueError(f"{url!r} is no server: write mysql://user@host:3306")
    addresses = [str(ServerAddress.parse(url)) for url in urls]
    if twice := {address for address in addresses if addresses.count(address) > 1}:
        raise ValueError(f"{', '.join(sorted(twice))} is there twice")
    return value if isinstance(value, str) else tuple(urls)


Servers = Annotated[str | tuple[str, ...], BeforeValidator(_servers)]


class Node(Section):
    """A storage node and where its binlog files are: without `files`, where a capture of its `server` puts them.

    A list of servers: each may take over from another (`capture.servers`).
    """

    source_id: PlainName = Field(description="The node's name, unique in the file.", examples=["dn-1"])
    storage_inst_id: PlainName | None = Field(
        default=None,
        description="PolarDB-X: the id by which markers call this node, if it is not the source-id.",
        examples=["polardbx-dn-0"],
    )
    files: Patterns = Field(
        default=(),
        min_length=1,
        description="Glob patterns of the node's binlog files. Without it, they are where `capture` puts them.",
        examples=["[dn-1/mysql-bin.*]"],
    )
    server: Servers | None = Field(
        default=None,
        description="The URL of the node's server, from which `capture` copies the binlogs; or a list of servers "
        "that may take over from one another.",
        examples=["mysql://capture@10.0.0.1:3306"],
    )
    node_number: NodeNumber | None = Field(
        default=None,
        description="The number that breaks ties in the order; by default nodes are numbered in the order of their "
        "source-ids.",
        examples=["3"],
    )
    server_id: ServerId | None = Field(
        default=None,
        description="The server id that the files must have.",
        examples=["102"],
    )
    server_uuid: Uuid | None = Field(
        default=None,
        description="The server's UUID, which the files must have.",
        examples=["3e11fa47-71ca-11e1-9e33-c80aa9429562"],
    )

    lower_case_table_names: CaseOfNames | None = Field(
        default=None,
        description="The server's `lower_case_table_names`: with 1 or 2, names of its tables and databases are "
        "compared, and written, in lower case. By default the cluster's, else what `capture` was told by the server.",
        examples=["1"],
    )

    @model_validator(mode="after")
    def _check_files(self) -> Self:
        if not self.files and self.server is None:
            raise ValueError("key 'files' is missing; or give the `server` whose files `binlog-merge capture` fetches")
        return self

    @property
    def servers(self) -> tuple[str, ...]:
        """Return the URLs of the node's servers."""
        return (self.server,) if isinstance(self.server, str) else self.server or ()

    @property
    def fails_over(self) -> bool:
        """Return whether another server may have the node by itself."""
        return isinstance(self.server, tuple)
