"""What PolarDB-X adds to MySQL's DDL: it says where rows lie, and how numbers are given out, so it is passed over.

    GLOBAL INDEX g (b) COVERING (c) PARTITION BY KEY (b) PARTITIONS 4      an index like any other
    AUTO_INCREMENT BY GROUP                                                AUTO_INCREMENT
    ALTER TABLE t SPLIT PARTITION p0 INTO …                                nothing

Sessions that validate take it too: it is PolarDB-X that refuses or takes such a statement, and MySQL never sees it.
Source: the PolarDB-X documentation, "CREATE TABLE", "CREATE INDEX", "ALTER TABLE" and "Table groups".
"""

from snapshot_store.mysql.sql.cursor import Cursor

_PLACES = ("GLOBAL", "CLUSTERED", "LOCAL")
_TAILS = ("COVERING", "DBPARTITION", "TBPARTITION", "TBPARTITIONS", "PARTITION")
_MOVES = ("ALLOCATE", "EXPIRE", "EXTRACT", "MERGE", "MOVE", "SPLIT")
_MOVED = ("HOT", "LOCAL", "PARTITION", "PARTITIONS", "SUBPARTITION", "SUBPARTITIONS", "TO")
_SCHEMA_OPTIONS = ("DEFAULT_SINGLE", "LOCALITY", "MODE", "PARTITION_MODE")


def at_private_index(cursor: Cursor) -> bool:
    """Tell whether GLOBAL, CLUSTERED or LOCAL stands here before an index, not as a column's name."""
    return cursor.word() in _PLACES and cursor.word(1) in ("INDEX", "KEY", "UNIQUE", *_PLACES)


def skip_index_place(cursor: Cursor) -> None:
    """Move past GLOBAL, CLUSTERED and LOCAL before INDEX."""
    while at_private_index(cursor):
        cursor.next()


def skip_index_tail(cursor: Cursor) -> None:
    """Move past COVERING and partitioning behind the parts of an index."""
    if cursor.word() not in _TAILS:
        return
    while not (cursor.done or cursor.at_symbol(",") or cursor.at_symbol(")")):
        if cursor.at_symbol("("):
            cursor.parenthesized()
        else:
            cursor.next()


def skip_sequence(cursor: Cursor) -> None:
    """Move past BY GROUP, BY SIMPLE, BY TIME or BY NEW behind AUTO_INCREMENT, and the unit of a group."""
    if not cursor.accept("BY"):
        return
    if cursor.accept_one("GROUP", "SIMPLE", "TIME", "NEW") is None:
        raise cursor.error("expected GROUP, SIMPLE, TIME or NEW")
    if cursor.accept("WITH"):
        cursor.expect("CACHE")
    if cursor.accept("UNIT"):
        cursor.expect("COUNT")
        cursor.integer()
        cursor.expect("INDEX")
        cursor.integer()


def skip_move(cursor: Cursor) -> bool:
    """Move to the end past an action that moves partitions about, if one stands here."""
    found = cursor.word() in _MOVES and cursor.word(1) in _MOVED
    if found:
        cursor.skip_rest()
    return found


def accept_schema_option(cursor: Cursor) -> bool:
    """Move past an option of a database, if one stands here."""
    if not cursor.accept_one(*_SCHEMA_OPTIONS):
        return False
    cursor.accept_symbol("=")
    cursor.next()
    return True
