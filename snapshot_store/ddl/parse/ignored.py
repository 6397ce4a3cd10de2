"""Statements that change no table's definition: recognized by their first words, and skipped."""

from snapshot_store.ddl.statements import Ignored
from snapshot_store.mysql.sql.cursor import Cursor

_WITH_BODY = frozenset({"AGGREGATE", "EVENT", "FUNCTION", "LIBRARY", "PROCEDURE", "TRIGGER"})
INERT_VERBS = frozenset(
    {
        "ANALYZE",
        "BEGIN",
        "BINLOG",
        "CACHE",
        "CHANGE",
        "CHECK",
        "CHECKSUM",
        "COMMIT",
        "DEALLOCATE",
        "FLUSH",
        "GRANT",
        "INSTALL",
        "KILL",
        "LOCK",
        "OPTIMIZE",
        "PURGE",
        "RELEASE",
        "REPAIR",
        "RESET",
        "REVOKE",
        "ROLLBACK",
        "SAVEPOINT",
        "SET",
        "SHOW",
        "SHUTDOWN",
        "START",
        "STOP",
        "UNINSTALL",
        "UNLOCK",
        "XA",
    }
)
"""The first words of statements that change no table's definition."""

# Objects other than tables, by the words after CREATE, ALTER or DROP.
_INERT_OBJECTS = (
    ("USER",),
    ("ROLE",),
    ("TRIGGER",),
    ("PROCEDURE",),
    ("FUNCTION",),
    ("AGGREGATE", "FUNCTION"),
    ("EVENT",),
    ("LIBRARY",),
    ("SERVER",),
    ("INSTANCE",),
    ("LOGFILE", "GROUP"),
    ("TABLEGROUP",),
    ("TABLESPACE",),
    ("UNDO", "TABLESPACE"),
    ("RESOURCE", "GROUP"),
    ("SPATIAL", "REFERENCE", "SYSTEM"),
    ("JSON", "DUALITY", "VIEW"),
    ("JSON", "RELATIONAL", "DUALITY", "VIEW"),
    ("MATERIALIZED", "VIEW"),
    ("PREPARE",),
)


def ignored(cursor: Cursor, what: str) -> Ignored:
    """Skip the rest of a statement that changes no table."""
    if cursor.word() in _WITH_BODY:
        cursor.skip_all()
    cursor.skip_rest()
    return Ignored(what)


def at_inert_object(cursor: Cursor) -> bool:
    """Return whether the next words name an object other than a table; its modifiers must have been skipped."""
    return any(cursor.at(*words) for words in _INERT_OBJECTS)
