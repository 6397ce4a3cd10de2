"""Parsing a statement's text into a value: dispatch by its first word, and all statements but ALTER TABLE."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from snapshot_store.ddl.actions import Action, AddConstraint, DropConstraint
from snapshot_store.ddl.parse.alter import parse_alter_table
from snapshot_store.ddl.parse.columns import parse_column
from snapshot_store.ddl.parse.keys import at_constraint, parse_algorithm, parse_constraint, parse_key_body
from snapshot_store.ddl.parse.options import (
    at_placement,
    parse_schema_options,
    parse_table_options,
    skip_index_place,
    skip_lock_option,
)
from snapshot_store.ddl.parse.partitions import parse_tail
from snapshot_store.ddl.parse.query import at_query, parse_query, tables_of_query
from snapshot_store.ddl.specs import ColumnSpec, Constraint, KeySpec
from snapshot_store.ddl.statements import (
    AlterSchema,
    AlterTable,
    CreateSchema,
    CreateTable,
    CreateTableLike,
    CreateView,
    DropSchema,
    DropTables,
    DropViews,
    Ignored,
    RenameTables,
    Statement,
    TruncateTable,
)
from snapshot_store.errors import DdlNotUnderstood, SnapshotStoreError
from snapshot_store.mysql.sql.cursor import Cursor, TableName
from snapshot_store.mysql.sql.names import folded
from snapshot_store.mysql.sql.session import DdlSession

_KEPT = 500
"""Statements whose parses are kept: every node has the same ones, and each stage of a merge asks about them."""


@dataclass(frozen=True, slots=True)
class ParsedDdl:
    """A statement's text, the session it ran in, and the parsed statement or the error that parsing raised.

    Two are equal if text and session are equal, since the result follows from these.
    """

    sql: str
    session: DdlSession
    result: Statement | SnapshotStoreError = field(compare=False, repr=False)

    @classmethod
    def of(cls, sql: str, session: DdlSession) -> "ParsedDdl":
        """Parse a statement; an error is stored as the result, not raised."""
        try:
            return cls(sql, session, parse_statement(sql, session))
        except SnapshotStoreError as error:
            return cls(sql, session, error.with_traceback(None))

    @property
    def statement(self) -> Statement:
        """Return the parsed statement. Raises DdlNotUnderstood and, in a session with `validate`, DdlRejected."""
        if isinstance(self.result, SnapshotStoreError):
            raise self.result.with_traceback(None)
        return self.result

    @property
    def is_comment(self) -> bool:
        """Return whether it is comments alone, as a cluster's own statements come out. Raises DdlNotUnderstood."""
        return Cursor.of(self.sql, self.session).done


@lru_cache(_KEPT)
def parse_statement(sql: str, session: DdlSession) -> Statement:
    """Parse one statement. Raises DdlNotUnderstood and, in a session with `validate`, DdlRejected; no other error."""
    try:
        cursor = Cursor.of(sql, session)
        statement = _statement(cursor)
        cursor.finish()
    except (IndexError, RecursionError, ValueError, TypeError) as error:
        # The tokenizer is sqlglot's, which has raised these for garbage.
        raise DdlNotUnderstood(sql, f"cannot be cut into tokens ({type(error).__name__})") from None
    return statement


def file_options(sql: str, session: DdlSession) -> tuple[tuple[int, int], ...]:
    """Return the (start, end) of options that choose a table's files: TABLESPACE, DATA DIRECTORY, INDEX DIRECTORY.

    Tablespaces that every server has are left out. Raises DdlNotUnderstood.
    """
    return tuple(sorted(parsed(sql, session).files))


def with_folded_names(ddl: ParsedDdl) -> ParsedDdl:
    """Return a statement with all names of tables and databases in lower case; the rest of its text stays.

    One that is not understood stays as it is.
    """
    if ddl.sql == folded(ddl.sql) or isinstance(ddl.result, SnapshotStoreError):
        return ddl
    sql = ddl.sql
    for start, end in parsed(sql, ddl.session).named:  # a name keeps its length
        sql = sql[:start] + folded(sql[start:end]) + sql[end:]
    return ddl if sql == ddl.sql else ParsedDdl.of(sql, ddl.session)


def qualified_tables(sql: str, session: DdlSession) -> tuple[tuple[str, str], ...]:
    """Return the names of tables that a statement writes with their schemas. Raises DdlNotUnderstood."""
    return tuple(parsed(sql, session).qualified.values())


def without_schema(sql: str, session: DdlSession, schema: str) -> str:
    """Return a statement as whoever has this schema as default database may write it: without the schema before names
    of tables. The rest of its text stays. Raises DdlNotUnderstood.
    """
    for (start, end), (qualifier, _) in sorted(parsed(sql, session).qualified.items(), reverse=True):
        if qualifier == schema:
            sql = sql[:start] + sql[end:]
    return sql


def parsed(sql: str, session: DdlSession) -> Cursor:
    """Return a cursor with what the parser has noted of a statement. Raises DdlNotUnderstood."""
    cursor = Cursor.of(sql, session)
    _statement(cursor)
    return cursor


def _statement(cursor: Cursor) -> Statement:
    verb = cursor.word()
    if verb in _READERS:
        cursor.next()
        return _READERS[verb](cursor)
    if verb in INERT_VERBS:
        return ignored(cursor, verb)
    raise cursor.error("a statement that is neither DDL nor known to change no table")


def _skip_modifiers(cursor: Cursor) -> bool:
    """Skip OR REPLACE, ALGORITHM, DEFINER and SQL SECURITY; return whether OR REPLACE was among them."""
    replaces = False
    while True:
        if cursor.accept("OR", "REPLACE"):
            replaces = True
        elif cursor.accept("SQL", "SECURITY"):
            cursor.accept_one("DEFINER", "INVOKER")
        elif cursor.word() in ("ALGORITHM", "DEFINER") and cursor.at_symbol("=", 1):
            cursor.next()
            cursor.next()
            cursor.next()
            if cursor.at_symbol("("):
                cursor.parenthesized()
            if cursor.accept_symbol("@"):
                cursor.next()
        else:
            return replaces


def _create(cursor: Cursor) -> Statement:
    replaces = _skip_modifiers(cursor)
    if cursor.accept("VIEW"):
        exists = not replaces and cursor.accept("IF", "NOT", "EXISTS")
        name = cursor.table_name()
        return CreateView(name, replaces, exists, sources=_view_sources(cursor))
    if at_inert_object(cursor):
        return ignored(cursor, f"CREATE {cursor.word()}")
    if cursor.accept("TEMPORARY"):
        # A temporary table belongs to its session; its rows are not in a row-based binlog.
        cursor.expect("TABLE")
        return ignored(cursor, "CREATE TEMPORARY TABLE")
    if replaces:
        raise cursor.error("OR REPLACE of something else than a view")
    if cursor.accept("TABLE"):
        return _create_table(cursor)
    if cursor.accept_one("DATABASE", "SCHEMA"):
        exists = cursor.accept("IF", "NOT", "EXISTS")
        return CreateSchema(cursor.database_name(), exists, parse_schema_options(cursor))
    return _create_index(cursor)


def _view_sources(cursor: Cursor) -> tuple[TableName, ...]:
    """Skip the columns and the query of a view; return the tables that the query names."""
    if cursor.at_symbol("("):
        cursor.parenthesized()
    cursor.expect("AS")
    if cursor.done:
        raise cursor.error("expected a query")
    return tables_of_query(cursor)


def _create_table(cursor: Cursor) -> Statement:
    exists = cursor.accept("IF", "NOT", "EXISTS")
    table = cursor.table_name()
    if cursor.accept("LIKE"):
        return CreateTableLike(table, exists, cursor.table_name())
    if cursor.at_symbol("(") and cursor.word(1) == "LIKE":
        cursor.next()
        cursor.next()
        like = CreateTableLike(table, exists, cursor.table_name())
        cursor.expect_symbol(")")
        return like
    items = _table_items(cursor) if cursor.at_symbol("(") and not at_query(cursor) else ()
    options = parse_table_options(cursor)
    partitioning = parse_tail(cursor) if at_placement(cursor) else None
    query = parse_query(cursor) if at_query(cursor) else None
    if not items and query is None:
        raise cursor.error("a table without columns")
    return CreateTable(table, exists, items, options, partitioning, query)


def _table_items(cursor: Cursor) -> tuple[ColumnSpec | Constraint, ...]:
    cursor.expect_symbol("(")
    items: list[ColumnSpec | Constraint] = []
    while True:
        items.append(parse_constraint(cursor) if at_constraint(cursor) else parse_column(cursor))
        if cursor.conditions:
            raise cursor.error("IF NOT EXISTS of a key in a CREATE TABLE")
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")
    return tuple(items)


def _create_index(cursor: Cursor) -> Statement:
    skip_index_place(cursor)
    kind = (cursor.accept_one("UNIQUE", "FULLTEXT", "SPATIAL") or "INDEX").lower()
    skip_index_place(cursor)
    cursor.expect("INDEX")
    conditional = cursor.accept_condition("IF", "NOT", "EXISTS")
    name = cursor.name()
    algorithm = parse_algorithm(cursor)
    cursor.expect("ON")
    table = cursor.table_name()
    key = parse_key_body(cursor, KeySpec(kind, name, (), algorithm))
    _skip_lock_options(cursor)
    return AlterTable(table, (AddConstraint(key, conditional),), "CREATE INDEX")


def _skip_lock_options(cursor: Cursor) -> None:
    while word := cursor.accept_one("ALGORITHM", "LOCK"):
        skip_lock_option(cursor, word)


def _alter(cursor: Cursor) -> Statement:
    if cursor.at("IGNORE", "TABLE"):
        # It removes rows that would be duplicates; MySQL dropped it in 5.7.4, forks still have it.
        cursor.limit(cursor.session.server_version < 50704, "ALTER IGNORE TABLE is gone since 5.7.4")
        cursor.next()
    if cursor.accept("TABLE"):
        return parse_alter_table(cursor)
    _skip_modifiers(cursor)
    if cursor.accept("VIEW"):
        name = cursor.table_name()
        return CreateView(name, replaces=True, must_exist=True, sources=_view_sources(cursor))
    if cursor.accept_one("DATABASE", "SCHEMA"):
        if cursor.done or cursor.peek(1).kind == "end":
            raise cursor.error("expected a database option")
        unnamed = cursor.word() in ("DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "ENCRYPTION", "READ")
        return AlterSchema(None if unnamed else cursor.database_name(), parse_schema_options(cursor))
    if at_inert_object(cursor):
        return ignored(cursor, f"ALTER {cursor.word()}")
    raise cursor.error("unknown kind of ALTER")


def _drop(cursor: Cursor) -> Statement:
    if cursor.accept("TEMPORARY"):
        return ignored(cursor, "DROP TEMPORARY TABLE")
    if word := cursor.accept_one("TABLE", "TABLES", "VIEW"):
        exists = cursor.accept("IF", "EXISTS")
        names = [cursor.table_name()]
        while cursor.accept_symbol(","):
            names.append(cursor.table_name())
        cursor.accept_one("RESTRICT", "CASCADE")
        return DropViews(tuple(names), exists) if word == "VIEW" else DropTables(tuple(names), exists)
    if cursor.accept_one("DATABASE", "SCHEMA"):
        exists = cursor.accept("IF", "EXISTS")
        return DropSchema(cursor.database_name(), exists)
    if cursor.accept("INDEX"):
        conditional = cursor.accept_condition("IF", "EXISTS")
        name = cursor.name()
        cursor.expect("ON")
        table = cursor.table_name()
        _skip_lock_options(cursor)
        action: Action = DropConstraint("index", name, conditional)
        return AlterTable(table, (action,), "DROP INDEX")
    if at_inert_object(cursor):
        return ignored(cursor, f"DROP {cursor.word()}")
    raise cursor.error("unknown kind of DROP")


def _rename(cursor: Cursor) -> Statement:
    if cursor.at("USER"):
        return ignored(cursor, "RENAME USER")
    if not cursor.accept_one("TABLE", "TABLES"):
        raise cursor.error("expected TABLE")
    exists = cursor.accept_condition("IF", "EXISTS")
    pairs = []
    while True:
        begin, old = cursor.place, cursor.table_name()
        cursor.expect("TO")
        pairs.append((old, cursor.table_name()))
        cursor.items.append((begin, cursor.place, 1))
        if not cursor.accept_symbol(","):
            return RenameTables(tuple(pairs), exists)


def _use(cursor: Cursor) -> Statement:
    return Ignored("USE", cursor.database_name())


def _truncate(cursor: Cursor) -> Statement:
    cursor.accept("TABLE")
    return TruncateTable(cursor.table_name())


_READERS: dict[str, Callable[[Cursor], Statement]] = {
    "CREATE": _create,
    "ALTER": _alter,
    "DROP": _drop,
    "RENAME": _rename,
    "TRUNCATE": _truncate,
    "USE": _use,
}


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
