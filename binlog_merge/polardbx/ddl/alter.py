"""ALTER TABLE: a list of actions, some of which only PolarDB-X has; those on partitions change the placement of data,
which a MySQL copy does not have.

ALTER TABLE t ADD c int AS (a + b) LOGICAL, ALGORITHM = OMC   ->   ALTER TABLE t ADD c int
ALTER TABLE t PARTITION ALIGN TO tg1                          ->   ALTER TABLE t
ALTER TABLE t MOVE PARTITIONS p1 TO 'dn-1'                    ->   nothing for MySQL
"""

from collections.abc import Callable
from enum import Enum

from binlog_merge.polardbx.ddl.clauses import at_trailer, skip_table_clause, skip_table_group
from binlog_merge.polardbx.ddl.create import cut_from_list, skip_constraint
from binlog_merge.polardbx.ddl.items import (
    IMPLICIT_COLUMN,
    SHARD_KEY_PREFIX,
    at_index,
    is_online_change,
    read_column,
    read_index,
    skip_algorithm,
)
from binlog_merge.polardbx.ddl.text import Names, Source, Target
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


class Verdict(Enum):
    """What an action is for MySQL: an action of its own, nothing, or a change of partitions that a MySQL copy does not
    have.
    """

    PUBLIC = "public"
    VOID = "void"
    PRIVATE = "private"


def alter_table(source: Source, names: Names) -> bool:
    """Read ALTER TABLE from the word TABLE on. Returns False if nothing in it is for MySQL.

    A statement that only sets a table group, an ALGORITHM or a TTL becomes `ALTER TABLE t`, which does nothing. A
    statement that only moves data between partitions becomes nothing.
    """
    cursor = source.cursor
    cursor.expect("TABLE")
    names.plain(source)
    name_end = source.token(cursor.place - 1).end
    spans: list[tuple[int, int, bool]] = []
    private = False
    while not cursor.done:
        first = cursor.place
        if cursor.at("MOVE"):
            # The placement of data does not concern another cluster.
            source.cut_text(source.token(first - 1).end, len(source.sql), Target.ORIGIN)
        verdict = _action(source, names)
        private |= verdict == Verdict.PRIVATE
        if cursor.place > first:
            spans.append((first, cursor.place, verdict != Verdict.PUBLIC))
        private |= _read_trailers(source)
        if cursor.accept_symbol(",") or cursor.done:
            continue
        if cursor.word() in ("ALGORITHM", "LOCK") and cursor.place > first:
            # PolarDB-X accepts them without a comma.
            if not is_online_change(cursor):
                source.put(_spans_end(source, spans), _spans_end(source, spans), ",", Target.MYSQL)
        elif cursor.place == first:
            raise cursor.error("expected an action")
    kept = any(not cut for _, _, cut in spans) or (source.native and not source.edited and not private)
    if kept:
        cut_from_list(source, spans, Target.MYSQL)
    else:
        source.cut_text(name_end, len(source.sql))
    return kept or not private


def _spans_end(source: Source, spans: list[tuple[int, int, bool]]) -> int:
    """Return the offset in the text at which the last item of a list ends."""
    return source.token(spans[-1][1] - 1).end


def _read_trailers(source: Source) -> bool:
    """Cut the clauses that follow an action without a comma. Returns whether one of them partitions the table."""
    cursor = source.cursor
    private = False
    while at_trailer(cursor):
        place = cursor.place
        shared = cursor.at("PARTITION", "BY")
        partitions = _skip_trailer(cursor)
        private |= partitions and not (shared and source.native)
        (source.cut_shared if shared else source.cut)(place, cursor.place)
    return private


def _skip_trailer(cursor: Cursor) -> bool:
    if cursor.accept("PARTITION", "ALIGN"):
        cursor.expect("TO")
        cursor.name()
        return False
    if skip_table_group(cursor):
        return False
    partitions = cursor.word() in (*PARTITIONS, "LOCAL", "DBPARTITION", "TBPARTITION")
    if not skip_table_clause(cursor):
        cursor.skip_rest()
    return partitions


def _action(source: Source, names: Names) -> Verdict:
    """Read one action, cut the parts that MySQL does not know, and return what the action is for MySQL."""
    cursor = source.cursor
    if at_trailer(cursor):
        return Verdict.PUBLIC  # trailers follow immediately, without an action before them
    if moves_data(cursor):
        shared = is_mysqls_too(cursor)
        cursor.skip_rest()
        return Verdict.PUBLIC if shared and source.native else Verdict.PRIVATE
    reader = _READERS.get(cursor.word())
    if reader is not None:
        return reader(source, names)
    if cursor.word() in ("ALGORITHM", "LOCK"):
        verdict = Verdict.VOID if is_online_change(cursor) else Verdict.PUBLIC
        skip_algorithm(cursor)
        return verdict
    place = cursor.place
    if cursor.word() in ("TTL", "TTL_EXPR", "TTL_ENABLE", "TTL_JOB", "WITH", "TABLEGROUP") and skip_table_clause(
        cursor
    ):
        return Verdict.VOID
    cursor.place = place
    if skip_table_clause(cursor):
        return Verdict.PRIVATE
    _skip_action(cursor)
    return Verdict.PUBLIC


def _add(source: Source, names: Names) -> Verdict:
    cursor = source.cursor
    cursor.next()
    if at_index(cursor):
        read_index(source, altering=True)
    elif cursor.word() in ("CONSTRAINT", "FOREIGN", "CHECK"):
        skip_constraint(source, names)
    else:
        cursor.accept("COLUMN")
        _columns(source)
    return Verdict.PUBLIC


def _columns(source: Source) -> None:
    cursor = source.cursor
    if not cursor.accept_symbol("("):
        read_column(source, adding=True)
        return
    while True:
        if at_index(cursor):
            read_index(source, altering=True)
        else:
            read_column(source, adding=True)
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")


def _change(source: Source, names: Names) -> Verdict:
    cursor = source.cursor
    changes = cursor.at("CHANGE")
    cursor.next()
    # MODIFY ttl SET('a', 'b') is about a column.
    if cursor.at("TTL", "SET") and not changes and not cursor.at_symbol("(", 2):
        cursor.skip_rest()
        return Verdict.VOID
    cursor.accept("COLUMN")
    if changes:
        cursor.name()
    read_column(source)
    return Verdict.PUBLIC


def _drop(source: Source, names: Names) -> Verdict:
    cursor = source.cursor
    first = cursor.place
    cursor.next()
    if cursor.accept_one("INDEX", "KEY"):
        return Verdict.VOID if drops_unknown_shard_key(cursor.name(), names) else Verdict.PUBLIC
    if cursor.word() in ("PRIMARY", "FOREIGN", "CHECK", "CONSTRAINT"):
        _skip_action(cursor)
        return Verdict.PUBLIC
    cursor.accept("COLUMN")
    hidden = cursor.name().lower() == IMPLICIT_COLUMN
    cursor.accept_one("RESTRICT", "CASCADE")
    if hidden:
        _cut_from_origin(source, first)
    return Verdict.VOID if hidden else Verdict.PUBLIC


def _cut_from_origin(source: Source, first: int) -> None:
    """Cut the action from token `first` to the cursor, with one adjacent comma."""
    cursor = source.cursor
    if cursor.at_symbol(","):
        source.cut_text(source.token(first).start, source.token(cursor.place + 1).start, Target.ORIGIN)
    else:
        source.cut(first - 1 if source.token(first - 1).text == "," else first, cursor.place, Target.ORIGIN)


def drops_unknown_shard_key(name: str, names: Names) -> bool:
    """Return whether an index is one that the cluster made itself and that the logical table does not have."""
    known = names.indexes
    return known is not None and name.lower().startswith(SHARD_KEY_PREFIX) and name.lower() not in known


def _remove(source: Source, names: Names) -> Verdict:
    source.cursor.next()
    source.cursor.expect("TTL")
    return Verdict.VOID


def _set(source: Source, names: Names) -> Verdict:
    source.cursor.next()
    if not skip_table_group(source.cursor):
        raise source.cursor.error("expected TABLEGROUP")
    return Verdict.VOID


def _index_group(source: Source, names: Names) -> Verdict:
    """Read `INDEX i WITH TABLEGROUP = tg IMPLICIT`, which sets the table group of an index that another action adds."""
    cursor = source.cursor
    cursor.next()
    cursor.name()
    if not skip_table_group(cursor):
        raise cursor.error("expected WITH TABLEGROUP")
    return Verdict.VOID


def _rename(source: Source, names: Names) -> Verdict:
    cursor = source.cursor
    cursor.next()
    if cursor.accept_one("INDEX", "KEY", "COLUMN"):
        _skip_action(cursor)
    else:
        cursor.accept_one("TO", "AS")
        cursor.accept_symbol("=")
        names.plain(source)
    return Verdict.PUBLIC


def _skip_action(cursor: Cursor) -> None:
    """Skip to the comma after an action, or to a clause that follows it without a comma."""
    while not (cursor.done or cursor.at_symbol(",") or at_trailer(cursor)):
        if cursor.at_symbol("("):
            cursor.parenthesized()
        else:
            cursor.next()
        if cursor.word() in ("ALGORITHM", "LOCK"):
            return


_READERS: dict[str, Callable[[Source, Names], Verdict]] = {
    "ADD": _add,
    "CHANGE": _change,
    "DROP": _drop,
    "INDEX": _index_group,
    "MODIFY": _change,
    "REMOVE": _remove,
    "RENAME": _rename,
    "SET": _set,
}
