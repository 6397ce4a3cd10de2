"""PolarDB-X's additions to MySQL's DDL, which are skipped: they concern the placement of rows and sequences.

    GLOBAL INDEX g (b) COVERING (c) PARTITION BY KEY (b) PARTITIONS 4      an ordinary index
    AUTO_INCREMENT BY GROUP                                                AUTO_INCREMENT
    ALTER TABLE t SPLIT PARTITION p0 INTO …                                nothing

Sessions with `validate` accept them too: PolarDB-X accepts or refuses such a statement, and MySQL never sees it.
Source: the PolarDB-X documentation, "CREATE TABLE", "CREATE INDEX", "ALTER TABLE" and "Table groups".
"""

from snapshot_store.mysql.sql.cursor import Cursor

_PLACES = ("GLOBAL", "CLUSTERED", "LOCAL")
_TAILS = ("COVERING", "DBPARTITION", "TBPARTITION", "TBPARTITIONS", "PARTITION")
_MOVES = ("ALLOCATE", "EXPIRE", "EXTRACT", "MERGE", "MOVE", "SPLIT")
_MOVED = ("HOT", "LOCAL", "PARTITION", "PARTITIONS", "SUBPARTITION", "SUBPARTITIONS", "TO")
_SCHEMA_OPTIONS = ("DEFAULT_SINGLE", "LOCALITY", "MODE", "PARTITION_MODE")


def at_private_index(cursor: Cursor) -> bool:
    """Return whether GLOBAL, CLUSTERED or LOCAL comes next, before an index and not as a column's name."""
    return cursor.word() in _PLACES and cursor.word(1) in ("INDEX", "KEY", "UNIQUE", *_PLACES)


def skip_index_place(cursor: Cursor) -> None:
    """Skip GLOBAL, CLUSTERED and LOCAL before INDEX."""
    while at_private_index(cursor):
        cursor.next()


def skip_index_tail(cursor: Cursor) -> None:
    """Skip COVERING and partitioning after the parts of an index."""
    if cursor.word() not in _TAILS:
        return
    while not (cursor.done or cursor.at_symbol(",") or cursor.at_symbol(")")):
        if cursor.at_symbol("("):
            cursor.parenthesized()
        else:
            cursor.next()


def skip_sequence(cursor: Cursor) -> None:
    """Skip BY GROUP, BY SIMPLE, BY TIME or BY NEW after AUTO_INCREMENT, and the unit of a group."""
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
    """Skip an action that moves partitions, to the end of the statement; return whether there was one."""
    found = cursor.word() in _MOVES and cursor.word(1) in _MOVED
    if found:
        cursor.skip_rest()
    return found


def accept_schema_option(cursor: Cursor) -> bool:
    """Skip an option of a database; return whether there was one."""
    if not cursor.accept_one(*_SCHEMA_OPTIONS):
        return False
    cursor.accept_symbol("=")
    cursor.next()
    return True
