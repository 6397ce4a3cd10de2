"""DM's own questions about a statement, which its test cases ask."""

from binlog_merge.filters.ddl import ASKED, events_of
from snapshot_store.ddl import DdlSession, ParsedDdl
from snapshot_store.ddl import statements as st
from snapshot_store.ddl.parse.statement import parse_statement
from snapshot_store.errors import DdlNotUnderstood


def is_ddl(sql: str, session: DdlSession | None = None) -> bool:
    """Tell whether a text is a statement that changes tables, views or databases."""
    try:
        return bool(events_of(ParsedDdl.of(sql, session or ASKED)))
    except DdlNotUnderstood:
        return False


_NEVER_SKIPPED = frozenset({"BEGIN", "COMMIT", "ROLLBACK", "START", "XA", "USE"})


def is_builtin_skipped(sql: str, session: DdlSession | None = None) -> bool:
    """Tell whether DM never carries a statement over: users, routines, views, FLUSH, temporary tables and the like."""
    try:
        statement = parse_statement(sql, session or DdlSession())
    except DdlNotUnderstood:
        return False
    if isinstance(statement, st.Ignored):
        return statement.what not in _NEVER_SKIPPED
    return isinstance(statement, st.CreateView | st.DropViews)
