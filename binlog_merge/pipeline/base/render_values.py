"""Values that rendering needs besides rows: the head that a cluster's output files share, and logical DDL."""

from dataclasses import dataclass, field, replace
from typing import Literal

from binlog_merge.binlog.query_session import SessionVariables, ddl_session
from snapshot_store.ddl import ParsedDdl
from snapshot_store.ddl.effects import databases_listed
from snapshot_store.errors import SnapshotStoreError
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
    at its commit time. `parsed` is the parsed `sql`, if the code that made the DDL has parsed it; `databases` is what
    `listed` returns, where it is known already. `origin` is that of the versions that it makes: "marker", or "shards"
    where shards without markers have it in common.
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
    databases: frozenset[str] | None = field(default=None, compare=False, repr=False)

    def read(self, server_version: int) -> ParsedDdl:
        """Return the parsed statement, in the session that it has on a server of a version, unless it has its own."""
        session = ddl_session(self.session, self.session.server_version or server_version)
        known = self.parsed
        same = known is not None and (known.sql, known.session) == (self.sql, session)
        return known if known is not None and same else ParsedDdl.of(self.sql, session)

    def listed(self, server_version: int) -> frozenset[str]:
        """Return the databases that it changes, which its event lists; none if that is not known."""
        if self.databases is not None or not self.sql:
            return self.databases or frozenset()
        found = self.read(server_version).result
        return frozenset() if isinstance(found, SnapshotStoreError) else databases_listed(found, self.schema)

    def sent(self, server_version: int) -> "LogicalDdl":
        """Return the DDL for executors: with what rendering asks of the parsed statement, in place of it."""
        return replace(self, parsed=None, databases=self.listed(server_version))

    def saying(self, sql: str) -> "LogicalDdl":
        """Return the DDL with another text, which is that of its event."""
        return replace(self, sql=sql, text=None, parsed=None, databases=None)
