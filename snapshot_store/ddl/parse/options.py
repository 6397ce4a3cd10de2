"""Parsing table and schema options, and skipping clauses that do not affect a table's definition: MySQL's own, and
PolarDB-X's additions, which concern the placement of rows and sequences.

    GLOBAL INDEX g (b) COVERING (c) PARTITION BY KEY (b) PARTITIONS 4      an ordinary index
    AUTO_INCREMENT BY GROUP                                                AUTO_INCREMENT
    ALTER TABLE t SPLIT PARTITION p0 INTO …                                nothing

Sessions with `validate` accept them too: PolarDB-X accepts or refuses such a statement, and MySQL never sees it.
Source: the PolarDB-X documentation, "CREATE TABLE", "CREATE INDEX", "ALTER TABLE" and "Table groups".
"""

from dataclasses import replace

from snapshot_store.ddl.specs import Options
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.names import quote_string
from snapshot_store.mysql.sql.types import accept_charset, charset_name

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


# Partitioning, and PolarDB-X's placement clauses: everything that follows is placement too, and is skipped.
_PLACEMENT = frozenset(
    {
        "BROADCAST",
        "DBPARTITION",
        "DBPARTITIONS",
        "LOCAL",
        "LOCALITY",
        "PARTITION",
        "SINGLE",
        "TBPARTITION",
        "TABLEGROUP",
        "TBPARTITIONS",
    }
)
# Options that say how a table is stored (refman, "CREATE TABLE Statement").
_INERT = frozenset(
    {
        "AUTOEXTEND_SIZE",
        "AUTO_INCREMENT",
        "AVG_ROW_LENGTH",
        "CHECKSUM",
        "COMPRESSION",
        "CONNECTION",
        "DELAY_KEY_WRITE",
        "ENCRYPTION",
        "ENGINE_ATTRIBUTE",
        "INSERT_METHOD",
        "KEY_BLOCK_SIZE",
        "MAX_ROWS",
        "MIN_ROWS",
        "PACK_KEYS",
        "PASSWORD",
        "ROW_FORMAT",
        "SECONDARY_ENGINE",
        "SECONDARY_ENGINE_ATTRIBUTE",
        "STATS_AUTO_RECALC",
        "STATS_PERSISTENT",
        "STATS_SAMPLE_PAGES",
        "STORAGE",
        "TABLESPACE",
        "TABLE_CHECKSUM",
        "UNION",
    }
)


def at_placement(cursor: Cursor) -> bool:
    """Return whether a partitioning or placement clause comes next."""
    return cursor.word() in _PLACEMENT or cursor.at("LOCAL", "PARTITION")


def skip_placement(cursor: Cursor) -> None:
    """Skip placement to the end; raise if a SELECT follows, since that would add columns."""
    while not cursor.done:
        if cursor.word() in ("SELECT", "AS", "TABLE", "IGNORE", "REPLACE"):
            raise cursor.error("CREATE TABLE … SELECT takes its columns from a query")
        if cursor.at_symbol("("):
            cursor.parenthesized()
        else:
            cursor.next()


def at_table_option(cursor: Cursor) -> bool:
    """Return whether a table option comes next."""
    start = cursor.place
    try:
        return parse_table_option(cursor, Options()) is not None
    finally:
        cursor.place = start


def parse_table_options(cursor: Cursor) -> Options:
    """Parse table options until something else comes."""
    options = Options()
    while (extended := parse_table_option(cursor, options)) is not None:
        options = extended
        cursor.accept_symbol(",")
    return options


def parse_table_option(cursor: Cursor, options: Options) -> Options | None:
    """Parse one table option into `options`; None if something else comes next."""
    extended = _charset_option(cursor, options)
    if extended is not None:
        return extended
    if cursor.accept("ENGINE"):
        cursor.accept_symbol("=")
        return replace(options, engine=charset_name(cursor))
    if cursor.accept("COMMENT"):
        cursor.accept_symbol("=")
        return replace(options, comment=cursor.string())
    if cursor.accept("START", "TRANSACTION"):
        # A row-based binlog has this instead of the query of CREATE TABLE … SELECT, since 8.0.21; before all options.
        return replace(options, with_rows=True)
    start = cursor.peek().start
    if cursor.at("DATA", "DIRECTORY") or cursor.at("INDEX", "DIRECTORY"):
        cursor.next()
    elif cursor.word() not in _INERT:
        return None
    option = cursor.next().text.upper()
    value, written = _value(cursor, option)
    if option == "DIRECTORY" or (option == "TABLESPACE" and not value.lower().startswith("innodb_")):
        cursor.files.add((start, cursor.peek(-1).end))
    if option == "AUTO_INCREMENT" and value.isdecimal():
        return replace(options, auto_increment=int(value))
    if option in _NOT_KEPT:
        return options
    name = _SYNONYMS.get(option, option)
    return replace(options, attributes=(*options.attributes, (name, written)))


def parse_schema_options(cursor: Cursor) -> Options:
    """Parse the options of CREATE and ALTER DATABASE, to the end."""
    options = Options()
    while not cursor.done:
        extended = _charset_option(cursor, options)
        if extended is not None:
            options = extended
        elif cursor.accept("READ", "ONLY") or cursor.accept("ENCRYPTION") or cursor.accept("DEFAULT", "ENCRYPTION"):
            _value(cursor, "")
        elif not accept_schema_option(cursor):
            raise cursor.error("expected a database option")
    return options


def _charset_option(cursor: Cursor, options: Options) -> Options | None:
    given = cursor.at("DEFAULT") and cursor.word(1) in ("CHARACTER", "CHARSET", "CHAR", "COLLATE")
    if given:
        cursor.next()
    if cursor.accept("COLLATE"):
        cursor.accept_symbol("=")
        return replace(options, collation=charset_name(cursor))
    charset = accept_charset(cursor)
    if charset is None:
        return None
    known = options.charset
    if known is not None and "DEFAULT" not in (known.upper(), charset.upper()):
        cursor.limit(known.lower() == charset.lower(), f"two character sets, {known} and {charset}")
    return replace(options, charset=charset)


_LOCKS = {
    "ALGORITHM": ("DEFAULT", "INPLACE", "COPY", "INSTANT"),
    "LOCK": ("DEFAULT", "NONE", "SHARED", "EXCLUSIVE"),
}


def skip_lock_option(cursor: Cursor, option: str) -> str:
    """Skip the value of ALGORITHM or LOCK and return it."""
    cursor.accept_symbol("=")
    value = cursor.word_or_name().upper()
    cursor.limit(value in _LOCKS[option], f"unknown {option} {value}")
    return value


_NUMBERS = frozenset(
    {
        "AUTO_INCREMENT",
        "AVG_ROW_LENGTH",
        "CHECKSUM",
        "DELAY_KEY_WRITE",
        "KEY_BLOCK_SIZE",
        "MAX_ROWS",
        "MIN_ROWS",
        "TABLE_CHECKSUM",
    }
)
_CHOICES = {
    "COMPRESSION": ("", "NONE", "ZLIB", "LZ4"),
    "INSERT_METHOD": ("NO", "FIRST", "LAST"),
    "ROW_FORMAT": ("DEFAULT", "DYNAMIC", "FIXED", "COMPRESSED", "REDUNDANT", "COMPACT"),
}


# What CREATE TABLE … LIKE does not take over either, what no table remembers, and where a server keeps its files.
_NOT_KEPT = frozenset({"AUTO_INCREMENT", "DIRECTORY", "PASSWORD", "STORAGE", "TABLESPACE"})
_SYNONYMS = {"TABLE_CHECKSUM": "CHECKSUM"}


def _value(cursor: Cursor, option: str) -> tuple[str, str]:
    """Parse the value of an option; return its text ("" for a list), and the value in SQL."""
    cursor.accept_symbol("=")
    token = cursor.peek()
    if cursor.at_symbol("("):
        return "", f"({cursor.parenthesized()})"
    if token.kind not in ("word", "name", "string", "number", "bits"):
        raise cursor.error("expected a value")
    cursor.limit(option not in _NUMBERS or token.kind in ("number", "bits"), f"{option} takes a number")
    choices = _CHOICES.get(option)
    cursor.limit(choices is None or token.text.upper() in choices, f"{option} = {token.text} is unknown")
    cursor.next()
    return token.text, quote_string(token.text) if token.kind == "string" else token.text
