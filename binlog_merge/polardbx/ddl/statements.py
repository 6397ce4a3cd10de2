"""Reads statements by kind: decides which have anything for MySQL, and calls their readers."""

from binlog_merge.polardbx.ddl.alter import alter_table, drops_unknown_shard_key
from binlog_merge.polardbx.ddl.create import at_create_table, create_database, create_index, create_table
from binlog_merge.polardbx.ddl.items import at_index, is_online_change, skip_algorithm
from binlog_merge.polardbx.ddl.names import Names, quote_new_words
from binlog_merge.polardbx.ddl.origin import has_body
from binlog_merge.polardbx.ddl.text import Source, Target
from snapshot_store.mysql.sql.cursor import Cursor


def read_statement(source: Source, names: Names) -> bool:
    """Read a statement. Returns False if nothing in it is for MySQL."""
    cursor = source.cursor
    reader = {"CREATE": _create, "ALTER": _alter, "DROP": _drop, "TRUNCATE": _truncate, "RENAME": _rename}.get(
        cursor.word()
    )
    if reader is None:
        return not _is_private_verb(cursor)
    cursor.next()
    public = reader(source, names)
    about_table = any(t.text.upper() in ("TABLE", "TABLES", "INDEX", "TRUNCATE") for t in source.tokens()[:6])
    if public and about_table and not source.native and not has_body(cursor):
        quote_new_words(source)
    return public


def _create(source: Source, names: Names) -> bool:
    cursor = source.cursor
    if at_create_table(source):
        create_table(source, names)
    elif cursor.accept_one("DATABASE", "SCHEMA"):
        create_database(source, names)
    elif at_index(cursor) and not cursor.at("SPATIAL", "REFERENCE"):
        create_index(source, names)
    else:
        return not _at_private_object(cursor)
    return True


def _alter(source: Source, names: Names) -> bool:
    cursor = source.cursor
    place = cursor.place
    while cursor.accept_one("IGNORE", "ONLINE", "OFFLINE"):
        pass
    source.cut(place, cursor.place)
    if cursor.at("TABLE"):
        return alter_table(source, names)
    if cursor.at("INDEX") or cursor.at("GLOBAL", "INDEX"):
        return False
    if cursor.at("DATABASE") or cursor.at("SCHEMA"):
        return not _sets_private_option(cursor)
    return not _at_private_object(cursor)


def _sets_private_option(cursor: Cursor) -> bool:
    """Return whether ALTER DATABASE sets an option that MySQL does not have: `SET name = value`, LOCALITY."""
    unnamed = cursor.word(1) in ("CHARACTER", "CHAR", "DEFAULT")
    return not unnamed and cursor.word(2) in ("SET", "KILL", "LOCALITY", "MODE", "PARTITION_MODE")


def _drop(source: Source, names: Names) -> bool:
    cursor = source.cursor
    if cursor.accept_one("TABLE", "TABLES"):
        _drop_tables(source, names)
    elif cursor.accept_one("DATABASE", "SCHEMA"):
        cursor.accept("IF", "EXISTS")
        names.schema(source)
    elif cursor.accept("INDEX"):
        if drops_unknown_shard_key(cursor.name(), names):
            return False
        cursor.expect("ON")
        names.plain(source)
    else:
        return not _at_private_object(cursor)
    _cut_tail(source)
    return True


def _drop_tables(source: Source, names: Names) -> None:
    """Keep only the marker's own table of several: each of the others has a marker of its own."""
    cursor = source.cursor
    cursor.accept("IF", "EXISTS")
    start = cursor.place
    found: list[tuple[int, int, str]] = []
    while True:
        place = cursor.place
        name = cursor.table_name()
        found.append((place, cursor.place, _full_name(name, names)))
        if not cursor.accept_symbol(","):
            break
    stop = cursor.place
    own = [span for span in found if span[2] == _full_name((None, names.table or ""), names)]
    kept = own[0] if own else found[0]
    if len(found) == 1 or names.table is None:
        cursor.place = start
        while cursor.place < stop:
            names.marked(source) if names.table is not None else names.plain(source)
            cursor.accept_symbol(",")
        return
    if kept[0] > start:
        source.cut_text(source.token(start).start, source.token(kept[0]).start, Target.BOTH)
    if kept[1] < stop:
        source.cut_text(source.token(kept[1] - 1).end, source.token(stop - 1).end, Target.BOTH)
    cursor.place = kept[0]
    names.marked(source)
    cursor.place = stop


def _full_name(name: tuple[str | None, str], names: Names) -> str:
    schema = name[0] if name[0] is not None else names.schema_name or ""
    return f"{schema.lower()}\0{name[1].lower()}"


def _truncate(source: Source, names: Names) -> bool:
    source.cursor.accept("TABLE")
    names.marked(source)
    _cut_tail(source)
    return True


def _rename(source: Source, names: Names) -> bool:
    cursor = source.cursor
    if cursor.at("USER"):
        return True
    if not cursor.accept_one("TABLE", "TABLES"):
        return False
    while True:
        names.plain(source)
        cursor.expect("TO")
        names.plain(source)
        if not cursor.accept_symbol(","):
            break
    place = cursor.place
    cursor.skip_rest()
    source.cut(place, cursor.place)
    return True


def _cut_tail(source: Source) -> None:
    """Cut PURGE, which bypasses PolarDB-X's recycle bin, and PolarDB-X's ALGORITHM from the end of a statement."""
    cursor = source.cursor
    while not cursor.done:
        place = cursor.place
        if is_online_change(cursor):
            skip_algorithm(cursor)
        elif not cursor.accept("PURGE"):
            cursor.next()
            continue
        source.cut(place, cursor.place)


# What follows CREATE, ALTER or DROP in statements that only PolarDB-X has.
_PRIVATE_OBJECTS = frozenset(
    {
        "CCL_RULE",
        "CCL_TRIGGER",
        "EXTERNAL",
        "FILESTORAGE",
        "JAVA",
        "JOINGROUP",
        "MATERIALIZED",
        "OUTLINE",
        "SCHEDULE",
        "SECURITY",
        "SEQUENCE",
        "STORAGE",
        "SYSTEM",
        "TABLEGROUP",
        "TENANT",
    }
)
_SEQUENCE_KINDS = frozenset({"GROUP", "NEW", "SIMPLE", "TIME"})
# The first words of statements that only PolarDB-X has.
_PRIVATE_VERBS = frozenset(
    {
        "ARCHIVE",
        "CALL",
        "CANCEL",
        "CLEAR",
        "COLLECT",
        "CONTINUE",
        "CONVERT",
        "EXPIRE",
        "FLASHBACK",
        "INSPECT",
        "MERGE",
        "MOVE",
        "PAUSE",
        "PURGE",
        "REBALANCE",
        "RECOVER",
        "REFRESH",
        "RELOAD",
        "REMOVE",
        "RESIZE",
        "RESTORE",
        "SLOW",
        "TRACE",
        "UNARCHIVE",
    }
)


def _at_private_object(cursor: Cursor) -> bool:
    ahead = 0
    while cursor.word(ahead) in _SEQUENCE_KINDS or (cursor.word(ahead) in ("WITH", "CACHE") and ahead):
        ahead += 1
    if cursor.word(ahead) == "SEQUENCE":
        return True
    ahead = 2 if cursor.at("OR", "REPLACE") else 0
    return cursor.word(ahead) in _PRIVATE_OBJECTS


def _is_private_verb(cursor: Cursor) -> bool:
    return cursor.word() in _PRIVATE_VERBS
