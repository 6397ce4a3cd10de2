"""The input and result of a gather task: frozen values, shared by the driver and the executors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from binlog_merge.files.known import KnownFile
from binlog_merge.files.parts import Sent
from binlog_merge.pipeline.base.blocks import Read
from binlog_merge.pipeline.base.pieces import Span
from binlog_merge.pipeline.base.render_values import FileHead, LogicalDdl
from binlog_merge.pipeline.gather.schemas import Schemas
from snapshot_store.tso import OrderKey


@dataclass(frozen=True, slots=True)
class InputFile:
    """A node's file that gather reads; `checksum`: its events have checksums."""

    known: KnownFile
    checksum: bool

    @property
    def path(self) -> str:
        """Return the file's path."""
        return self.known.path


@dataclass(frozen=True, slots=True)
class GatherTask:
    """One output file: its rows, and everything its bytes depend on.

    `runs` are (order file, from row, to row). `begins` is the published size of a file that is continued, of which only
    what follows is written; 0 for a new file, which gets a head. `rank` and `sequence` are those of the next
    transaction. `next_name` is the following file, with which a ROTATE closes this one. `ddl` are the logical DDL by
    the key of their rows.
    """

    name: str
    path: str
    begins: int
    head: FileHead
    runs: tuple[tuple[str, int, int], ...]
    rank: int
    sequence: int
    last_timestamp: int
    next_name: str | None
    nodes: Mapping[int, str]
    files: Mapping[tuple[int, int], InputFile]
    schemas: Schemas
    ddl: Mapping[OrderKey, LogicalDdl]
    hints: bool = False  # statements have trace hints: see `pipeline.gather.traces`
    check_rows: bool = False  # also walk the rows of events that have a checksum
    store: str | None = None  # the URI of the output to which a new file is sent, if the driver shares no folder
    part: str | None = None  # and the URI of the object in which the driver gets what an open file grows by

    @property
    def reads(self) -> tuple[Read, ...]:
        """Return the runs."""
        return tuple(Read(path, Span(start, stop)) for path, start, stop in self.runs)


@dataclass(frozen=True, slots=True)
class GatherResult:
    """What was written; after an error, the valid prefix. `rank` and `sequence` are those of the next transaction."""

    name: str
    path: str
    size: int
    rank: int
    sequence: int
    first_key: OrderKey | None
    last_key: OrderKey | None
    last_timestamp: int
    input_bytes: int
    transactions: int
    branches: int
    events: int
    row_events: int
    reshaped: int
    ddl: int
    closed: bool
    error: dict[str, Any] | None = None
    believed: tuple[str, ...] = ()  # warnings about table maps that contradict the schema history
    failed: OrderKey | None = None  # the key of the transaction that failed
    sent: Sent | None = None  # where the file is, if it is not at `path`
