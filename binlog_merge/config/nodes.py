"""The section of a node: where its binlog files and its servers are.

What the node's server said of itself stands beside its captured files.

    captured/dn-1/.server/note.json      {"version": 1, "lower_case_table_names": 1}

Files do not tell it: the setting decides how a server compares names, and no event has it. `capture` writes the note
before the first file, and a server that takes over must have the same setting.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, cast

from pydantic import BeforeValidator, Field, model_validator

from binlog_merge.config.values import Patterns, PlainName, Section, ServerId, Uuid
from binlog_merge.errors import ConfigError
from binlog_merge.whole_files import NoteKind, read_note, write_note
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


SERVER_NOTE: Final = ".server/note.json"  # patterns with * do not match a hidden folder
_REMEDY: Final = "remove it: `capture` writes it again; or say `lower-case-table-names` of the node"


@dataclass(frozen=True, slots=True)
class _Server:
    """What is noted of a node's server."""

    lower_case_table_names: CaseOfNames


_KIND: Final = NoteKind(_Server)


def read_server_note(directory: Path) -> CaseOfNames | None:
    """Return the `lower_case_table_names` that is noted beside captured files, None if none is.

    Raises ConfigError for a damaged note.
    """
    note = read_note(directory / SERVER_NOTE, _KIND, "the note of the capture", _REMEDY, ConfigError)
    return None if note is None else note.lower_case_table_names


def write_server_note(directory: Path, lower_case_table_names: int) -> None:
    """Replace the note beside captured files. Raises IoError."""
    write_note(directory / SERVER_NOTE, _KIND, _Server(cast(CaseOfNames, lower_case_table_names)))
