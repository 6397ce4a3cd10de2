"""What rendering is given besides rows: the head that a cluster's output files have in common, and logical DDL."""

from dataclasses import dataclass, field
from typing import Literal

from binlog_merge.binlog.session_variables import SessionVariables
from snapshot_store.ddl import ParsedDdl
from snapshot_store.tso import OrderKey

CtsPlace = Literal["begin", "end", "both"]


@dataclass(frozen=True, slots=True)
class FileHead:
    """What every output file of a cluster has in common. `sid` is the cluster's UUID, 16 bytes.

    `cts` is where a transaction's order key stands: behind BEGIN, or behind XID and DDL as in PolarDB-X's global
    binlog, or both.
    """

    server_id: int
    server_version: str
    server_version_number: int
    sid: bytes
    anonymous: bool
    cts: CtsPlace = "begin"


@dataclass(frozen=True, slots=True)
class LogicalDdl:
    """A DDL as it comes out: at its key, in its default schema, in the session that its effects depend on.

    `suppress_use` is for statements about a database, which must not be entered first (LOG_EVENT_SUPPRESS_USE_F).
    `sql` is what the logical schemas follow, "" for a statement that only PolarDB-X knows; `text` the event's text
    where that is more. `rows_query` puts the text of one without `sql` into a ROWS_QUERY event. `server_id` is the
    server's that ran it, where the cluster says so. A session without a time runs it when it commits. `parsed` is what
    `sql` says, where whoever made the DDL has read it.
    """

    key: OrderKey
    schema: str
    sql: str
    session: SessionVariables = field(default_factory=SessionVariables)
    suppress_use: bool = False
    text: str | None = None
    server_id: int | None = None
    rows_query: bool = False
    parsed: ParsedDdl | None = field(default=None, compare=False, repr=False)
