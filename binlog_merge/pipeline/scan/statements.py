"""Statements in statement format that write only what is left out of the output, whatever they read.

pt-table-checksum is the usual one: it sets binlog_format=STATEMENT, and writes checksums of the user's tables into a
schema of its own. A server lists the databases of all tables that a statement opens, those of its functions and
triggers included (Q_UPDATED_DB_NAMES): if all are left out, nothing else was written. Otherwise the text decides.
"""

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.query import Query, StatusVar
from binlog_merge.binlog.query_session import session_of
from snapshot_store.mysql.sql.writes import Writes, written_by
from snapshot_store.surrogates import is_text
from snapshot_store.topology import Topology

STATEMENT_FORMAT = "in statement format: writes only databases that do not come out"
DECIDED = "left out, as `ddl resolve --skip` says"
"""Why a statement or a transaction is left out."""

CONTEXT = frozenset(
    (
        *(EventType.INTVAR_EVENT, EventType.RAND_EVENT, EventType.USER_VAR_EVENT),
        *(EventType.BEGIN_LOAD_QUERY_EVENT, EventType.APPEND_BLOCK_EVENT, EventType.DELETE_FILE_EVENT),
    )
)
"""Events in front of a statement that it takes values from: by themselves they change nothing."""

_POST_HEADER = 13
_LOAD_HEADER = 13
"""What EXECUTE_LOAD_QUERY_EVENT has behind the post-header of a QUERY_EVENT: where the file's name is in the text."""


def query_of(kind: int, body: bytes) -> Query:
    """Return the statement of a QUERY_EVENT or an EXECUTE_LOAD_QUERY_EVENT."""
    if kind == EventType.EXECUTE_LOAD_QUERY_EVENT:
        body = body[:_POST_HEADER] + body[_POST_HEADER + _LOAD_HEADER :]
    return Query.parse(body)


def left_out(query: Query, topology: Topology) -> str | None:
    """Return the kind of a statement that surely writes only what is left out of the output, None for all others."""
    text, database = query.text, _text(query.schema)
    if database is None or not is_text(text):
        return None
    found = written_by(text, session_of(query))
    opened = query.status_vars.get(StatusVar.Q_UPDATED_DB_NAMES)
    opened = None if opened is None else [_text(name) for name in opened]
    if opened and all(name and topology.is_ignored(name) for name in opened):
        return text.split()[0].upper() if found is None else found.kind
    if found is None or not all(topology.is_ignored(schema or database) for schema, _ in found.tables):
        return None
    return found.kind if opened is None or _reads_the_rest(found, opened, database, topology) else None


def _reads_the_rest(found: Writes, opened: list[str | None], database: str, topology: Topology) -> bool:
    """Return whether the text names all databases that are opened: what it does not name is opened by a trigger."""
    own = (database,) if found.unqualified else ()
    named = {name.lower() for name in (*found.qualifiers, *own)}
    return all(name is not None and (topology.is_ignored(name) or name.lower() in named) for name in opened)


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None
