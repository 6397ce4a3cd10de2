"""Values that rendering needs besides rows: the head that a cluster's output files share, and logical DDL."""

from dataclasses import dataclass, field
from typing import Literal

from binlog_merge.binlog.query_session import SessionVariables
from snapshot_store.ddl import ParsedDdl
from snapshot_store.tso import OrderKey

CtsPlace = Literal["begin", "end", "both"]


@dataclass(frozen=True, slots=True)
class FileHead:
    """What every output file of a cluster has in common. `sid` is the cluster's UUID, 16 bytes.

    `cts` is where the text with a transaction's order key is written: "begin" after BEGIN, "end" after XID or the DDL
    as in PolarDB-X's global binlog, or "both".
    """

    server_id: int
    server_version: str
    server_version_number: int
    sid: bytes
    anonymous: bool
    cts: CtsPlace = "begin"


@dataclass(frozen=True, slots=True)
class LogicalDdl:
    """A DDL as it is written to the output: its key, default schema and session variables.

    `sql` is what the logical schemas apply, "" for a statement that only PolarDB-X understands; `text` is the event's
    text if that differs. `suppress_use` is set for statements about a database, for which the replica must not USE it
    first (LOG_EVENT_SUPPRESS_USE_F). `rows_query` writes the text of a DDL without `sql` as a ROWS_QUERY event.
    `server_id` is that of the server that ran it, if the cluster records it. A session without a timestamp runs the DDL
    at its commit time. `parsed` is the parsed `sql`, if the code that made the DDL has parsed it. `origin` is that of
    the versions that it makes: "marker", or "shards" where shards without markers have it in common.
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
    origin: str = field(default="marker", compare=False)
