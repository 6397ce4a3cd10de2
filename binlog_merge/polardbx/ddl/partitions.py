"""Partition actions of ALTER TABLE: they change the placement of data, which a MySQL copy does not have."""

from snapshot_store.mysql.sql.cursor import Cursor

PARTITIONS = ("PARTITION", "PARTITIONS", "SUBPARTITION", "SUBPARTITIONS")


def moves_data(cursor: Cursor) -> bool:
    """Return whether the cursor is at an action on partitions or placement; it is the only one of its statement."""
    verb, what = cursor.word(), cursor.word(1)
    if what in PARTITIONS and verb in _PARTITION_VERBS:
        return what == "PARTITION" or not _names_column(cursor)
    if verb in ("EXPIRE", "ALLOCATE", "DROP", "REMOVE") and what == "LOCAL":
        return cursor.word(2) in (*PARTITIONS, "PARTITIONING")
    if verb in ("ADD", "DROP") and what in ("EXTPARTITION", "EXPARTITION", "ROUTE"):
        return cursor.at_symbol("(", 2) or cursor.word(2) == "SCATTERED_ID"
    return (
        cursor.at("REMOVE", "PARTITIONING")
        or cursor.at("CLEANUP", "EXPIRED")
        or cursor.at("PURGE", "BEFORE")
        or cursor.at("SPLIT", "INTO")
        or cursor.at("EXTRACT", "TO")
        or cursor.at("AS", "OF")
        or (verb == "SET" and what != "TABLEGROUP")
        or verb == "UNARCHIVE"
    )


def _names_column(cursor: Cursor) -> bool:
    """Return whether `partitions` or `subpartition` after a verb is a column's name: only PARTITION is reserved."""
    verb = cursor.word()
    if verb == "ADD":
        return not cursor.at_symbol("(", 2)
    if verb == "DROP":
        return cursor.peek(2).kind not in ("word", "name") or cursor.word(2) in ("RESTRICT", "CASCADE")
    if verb == "MODIFY":
        return cursor.word(3) not in ("ADD", "DROP")
    return verb == "RENAME" and cursor.word(3) != "TO"


def is_mysqls_too(cursor: Cursor) -> bool:
    """Return whether the partition action at the cursor exists in MySQL as well."""
    return cursor.word() in _NATIVE and cursor.word(1) in ("PARTITION", "PARTITIONING")


# The verbs of partition actions that MySQL has too.
_NATIVE = frozenset(
    {
        "ADD",
        "ANALYZE",
        "CHECK",
        "COALESCE",
        "DISCARD",
        "DROP",
        "EXCHANGE",
        "IMPORT",
        "OPTIMIZE",
        "REBUILD",
        "REMOVE",
        "REORGANIZE",
        "REPAIR",
        "TRUNCATE",
    }
)
_PARTITION_VERBS = frozenset(
    {
        "ADD",
        "ANALYZE",
        "ARCHIVE",
        "CHECK",
        "COALESCE",
        "DISCARD",
        "DROP",
        "EXCHANGE",
        "EXTRACT",
        "IMPORT",
        "MERGE",
        "MODIFY",
        "MOVE",
        "OPTIMIZE",
        "REBUILD",
        "RENAME",
        "REORGANIZE",
        "REPAIR",
        "SET",
        "SPLIT",
        "TRUNCATE",
    }
)
