"""Converts CREATE TABLE, CREATE INDEX and CREATE DATABASE to what MySQL executes.

CREATE PARTITION TABLE t (id int, GLOBAL INDEX g (id) COVERING (a)) dbpartition by hash(id)
CREATE TABLE t (id int, INDEX g (id))
"""

from binlog_merge.polardbx.ddl.clauses import skip_table_clause, skip_unit
from binlog_merge.polardbx.ddl.items import (
    IMPLICIT_COLUMN,
    Column,
    Index,
    at_index,
    cut_modifiers,
    cut_ordered_hash,
    is_online_change,
    read_column,
    read_index,
    read_index_options,
    read_key_parts,
    skip_algorithm,
)
from binlog_merge.polardbx.ddl.text import Names, Source, Target, is_newly_reserved
from snapshot_store.ddl.parse.options import parse_table_option
from snapshot_store.ddl.parse.query import at_query
from snapshot_store.ddl.specs import Options
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.names import quote_name

_TABLE_WORDS = ("SHADOW", "PARTITION", "BROADCAST", "SINGLE", "DIMENSION")
# Engines of PolarDB-X's storage; a server without them would refuse the table.
_ENGINES = frozenset({"COLUMNAR", "EXTERNAL_DISK", "LOCAL_DISK", "NFS", "OSS", "S3", "X-ENGINE", "XENGINE"})
_DATABASE_OPTIONS = frozenset(
    {
        "CREATE_TABLES",
        "DATA_REPLICATION",
        "DEFAULT_SINGLE",
        "DRY_RUN",
        "EXCLUDE",
        "INCLUDE",
        "LOCALITY",
        "LOCK",
        "MODE",
        "PARTITION_MODE",
        "REPLICATION",
        "REPLICA_TYPE",
        "SHARDS",
        "SHARD_ID",
        "STORAGE_DEPENDENCY",
        "WITH",
    }
)


def at_create_table(source: Source) -> bool:
    """Return whether the cursor is at TABLE, after cutting PolarDB-X's words before it."""
    cursor, ahead = source.cursor, 0
    while cursor.word(ahead) in _TABLE_WORDS:
        ahead += 1
    if cursor.word(ahead) != "TABLE":
        return False
    source.cut(cursor.place, cursor.place + ahead)
    cursor.place += ahead
    return True


def create_table(source: Source, names: Names) -> None:
    """Read CREATE TABLE from the word TABLE on."""
    cursor = source.cursor
    cursor.expect("TABLE")
    cursor.accept("IF", "NOT", "EXISTS")
    names.marked(source)
    in_parentheses = cursor.at_symbol("(") and cursor.word(1) == "LIKE"
    if in_parentheses:
        cursor.next()
    if cursor.accept("LIKE"):
        names.plain(source)
        if in_parentheses:
            cursor.expect_symbol(")")
        # PolarDB-X allows options here, ENGINE = COLUMNAR ARCHIVE_MODE = 'TTL'; MySQL does not.
        place = cursor.place
        cursor.skip_rest()
        source.cut(place, cursor.place)
        return
    if cursor.at_symbol("(") and not at_query(cursor):
        _read_items(source, names)
    _read_table_options(source, names)


def _read_items(source: Source, names: Names) -> None:
    """Read the columns, indexes and constraints in parentheses."""
    cursor = source.cursor
    cursor.expect_symbol("(")
    spans: list[tuple[int, int, bool]] = []
    columns: list[Column] = []
    indexes: list[Index] = []
    while True:
        start = cursor.place
        hidden = False
        if at_index(cursor):
            index = read_index(source)
            hidden = index.kind == "PRIMARY" and _is_implicit(index.first)
            indexes += [] if hidden else [index]
        elif cursor.word() in ("CONSTRAINT", "FOREIGN", "CHECK"):
            skip_constraint(source, names)
        else:
            column = read_column(source)
            hidden = _is_implicit(column.name)
            columns += [] if hidden else [column]
        spans.append((start, cursor.place, hidden))
        if not cursor.accept_symbol(","):
            break
    items_end = source.token(cursor.place - 1).end
    cursor.expect_symbol(")")
    cut_from_list(source, spans, Target.BOTH)
    _name_global_indexes(source, indexes)
    for text in _missing_keys(source, columns, indexes, names):
        source.put(items_end, items_end, f", {text}", Target.MYSQL)


def _name_global_indexes(source: Source, indexes: list[Index]) -> None:
    """Name unnamed global indexes after their first column, as MySQL does: later statements drop them by that name."""
    taken = [(index.name or index.first or "").lower() for index in indexes]
    for index in indexes:
        if index.place is not None and index.first is not None and taken.count(index.first.lower()) == 1:
            plain = index.first.isidentifier() and index.first.isascii() and not is_newly_reserved(index.first)
            name = index.first if plain else quote_name(index.first)
            source.put(index.place, index.place, f" {name}", Target.MYSQL)


def _missing_keys(source: Source, columns: list[Column], indexes: list[Index], names: Names) -> list[str]:
    """Return the keys to add: the cluster's own on its sharding columns, and the key that AUTO_INCREMENT requires."""
    present = {index.name.lower() for index in indexes if index.name}
    added = [key for key in names.shard_keys if key.name.lower() not in present]
    led = {index.first.lower() for index in indexes if index.first} | {k.first.lower() for k in added if k.first}
    texts = [key.text for key in added]
    for column in columns if not source.native else ():
        if column.auto_increment and not column.keyed and column.name.lower() not in led:
            texts.append(f"KEY ({quote_name(column.name)})")
    return texts


def skip_constraint(source: Source, names: Names) -> None:
    """Skip a foreign key or a check, reading the name of the table that a foreign key references."""
    cursor = source.cursor
    while not (cursor.done or cursor.at_symbol(",") or cursor.at_symbol(")")):
        if cursor.accept("REFERENCES"):
            names.plain(source)
        elif cursor.at_symbol("("):
            cursor.parenthesized()
        else:
            cursor.next()


def cut_from_list(source: Source, spans: list[tuple[int, int, bool]], target: Target) -> None:
    """Cut the marked items of a list, given as (first, stop, cut), with the commas that become superfluous."""
    kept = [i for i, span in enumerate(spans) if not span[2]]
    for i, (first, stop, cut) in enumerate(spans):
        if not cut:
            continue
        if kept and i < kept[0]:
            source.cut_text(source.token(first).start, source.token(spans[i + 1][0]).start, target)
        elif i:
            source.cut_text(source.token(spans[i - 1][1] - 1).end, source.token(stop - 1).end, target)
        else:
            source.cut(first, stop, target)


def _read_table_options(source: Source, names: Names) -> None:
    """Read what follows the columns, cut PolarDB-X's clauses, and add the table's collation if it is not given."""
    cursor = source.cursor
    options = Options()
    begin = cursor.place
    options_end = source.token(cursor.place - 1).end
    while not cursor.done:
        place = cursor.place
        if cursor.accept_symbol(","):
            # A comma stays only between two options of MySQL.
            if place == begin or cursor.done or _clause_follows(cursor):
                source.cut(place, cursor.place)
            continue
        if skip_table_clause(cursor):
            shared = source.token(place).text.upper() == "PARTITION"
            (source.cut_shared if shared else source.cut)(place, cursor.place)
            if place == begin:
                begin = cursor.place
            continue
        if at_query(cursor):
            break
        found = parse_table_option(cursor, options)
        if found is None:
            raise cursor.error("a table option that is neither MySQL's nor known of PolarDB-X")
        if source.token(place).text.upper() == "ENGINE" and source.token(cursor.place - 1).text.upper() in _ENGINES:
            source.cut(place, cursor.place)
            continue
        options = found
        options_end = source.token(cursor.place - 1).end
        if source.token(place).text.upper() == "AUTO_INCREMENT":
            after = cursor.place
            skip_unit(cursor)
            source.cut(after, cursor.place)
    if names.collation and (text := _collation(options, names.collation)):
        source.put(options_end, options_end, text)
    cursor.skip_rest()


def _clause_follows(cursor: Cursor) -> bool:
    place = cursor.place
    try:
        return skip_table_clause(cursor)
    finally:
        cursor.place = place


def _collation(options: Options, collation: str) -> str:
    """Return the options, of those not given, that set a table's collation; "" if the given options contradict it."""
    charset = collation.split("_")[0]
    missing = ""
    if options.charset is None:
        missing += f" DEFAULT CHARACTER SET = {charset}"
    elif _same_charset(options.charset) != _same_charset(charset):
        return ""
    if options.collation is None:
        missing += f" DEFAULT COLLATE = {collation}"
    elif _same_charset(options.collation.split("_")[0]) != _same_charset(charset):
        return ""
    return missing


def _same_charset(charset: str) -> str:
    return "utf8mb3" if charset.lower() == "utf8" else charset.lower()


def create_index(source: Source, names: Names) -> None:
    """Read CREATE INDEX from after the word CREATE on."""
    cursor = source.cursor
    cut_modifiers(source)
    cursor.name()
    begin = cursor.place
    if cursor.accept_one("USING", "TYPE"):
        cursor.next()
    cursor.expect("ON")
    names.plain(source)
    read_key_parts(source)
    while not cursor.done:
        read_index_options(source)
        place = cursor.place
        if is_online_change(cursor):
            skip_algorithm(cursor)
            source.cut(place, cursor.place)
        elif cursor.word() in ("ALGORITHM", "LOCK"):
            skip_algorithm(cursor)
        elif not cursor.done:
            raise cursor.error("an index option that is neither MySQL's nor known of PolarDB-X")
    cut_ordered_hash(source, begin)


def create_database(source: Source, names: Names) -> None:
    """Read CREATE DATABASE from after these two words on."""
    cursor = source.cursor
    cursor.accept("IF", "NOT", "EXISTS")
    names.schema(source)
    options_end = source.token(cursor.place - 1).end
    given = False
    while not cursor.done:
        place = cursor.place
        if cursor.accept_one("LIKE", "AS"):
            cursor.name()
        elif cursor.word() in _DATABASE_OPTIONS:
            cursor.next()
            cursor.accept_symbol("=")
            cursor.next()
            while cursor.accept_symbol(","):
                cursor.next()
        else:
            cursor.accept("DEFAULT")
            given = cursor.word() in ("CHARACTER", "CHARSET", "CHAR", "COLLATE") or given
            if not cursor.accept_one("CHARSET", "COLLATE", "ENCRYPTION"):
                cursor.accept_one("CHARACTER", "CHAR")
                cursor.expect("SET")
            cursor.accept_symbol("=")
            cursor.next()
            options_end = source.token(cursor.place - 1).end
            continue
        source.cut(place, cursor.place)
    if names.charset and not given:
        source.put(options_end, options_end, f" DEFAULT CHARACTER SET = {names.charset}")


def _is_implicit(column: str | None) -> bool:
    return column is not None and column.lower() == IMPLICIT_COLUMN
