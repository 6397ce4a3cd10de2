"""What a DDL statement is about, as far as the merge must know it before applying it."""

import re
from dataclasses import dataclass

from snapshot_store.ddl import DdlSession
from snapshot_store.ddl.actions import ChangeColumn, RenameColumn, RenameTo
from snapshot_store.ddl.apply import tables_of
from snapshot_store.ddl.parse import parse_statement
from snapshot_store.ddl.statements import (
    AlterSchema,
    AlterTable,
    CreateSchema,
    CreateTable,
    DropSchema,
    RenameTables,
    Statement,
)
from snapshot_store.errors import SnapshotStoreError

Name = tuple[str, str]


def is_schema_ddl(sql: str, session: DdlSession | None = None) -> bool:
    """Tell whether a statement creates, alters or drops a database: it must not run with that database as default."""
    try:
        return isinstance(parse_statement(sql, session or DdlSession()), CreateSchema | AlterSchema | DropSchema)
    except SnapshotStoreError:
        return False


@dataclass(frozen=True, slots=True)
class Subject:
    """The tables that a statement names or reads, and the databases.

    `dropped` is the database that goes with all its tables. `renamed` are tables that get another name, or a column of
    which does: foreign keys of other tables follow. `parsed`: the whole statement could be read; else only its
    beginning was.
    """

    tables: tuple[Name, ...] = ()
    schemas: tuple[str, ...] = ()
    dropped: str | None = None
    renamed: tuple[Name, ...] = ()
    parsed: bool = True


def subject_of(sql: str, schema: str | None, session: DdlSession | None = None) -> Subject:
    """Return what a statement is about; `schema` is the database it runs in."""
    try:
        statement = parse_statement(sql, session or DdlSession())
    except SnapshotStoreError:
        return Subject(_beginning(sql, schema), parsed=False)
    named = [(name[0] or schema or "", name[1]) for name in tables_of(statement)]
    read = []
    if isinstance(statement, CreateTable) and statement.query is not None:
        read = [(source.table[0] or schema or "", source.table[1]) for source in statement.query.sources]
    of_database = isinstance(statement, CreateSchema | AlterSchema | DropSchema)
    schemas = [statement.name or schema or ""] if of_database else []  # type: ignore[union-attr]
    return Subject(
        tuple(dict.fromkeys([*named, *read])),
        tuple(schemas),
        statement.name if isinstance(statement, DropSchema) else None,
        tuple(named) if _renames(statement) else (),
    )


def renamed_tables(sql: str, schema: str | None, session: DdlSession | None = None) -> tuple[tuple[Name, Name], ...]:
    """Return the (old, new) names of the tables that a statement renames; nothing for one that cannot be read."""
    if "RENAME" not in sql.upper():
        return ()
    try:
        statement = parse_statement(sql, session or DdlSession())
    except SnapshotStoreError:
        return ()
    pairs: list[tuple[tuple[str | None, str], tuple[str | None, str]]] = []
    if isinstance(statement, RenameTables):
        pairs += statement.pairs
    elif isinstance(statement, AlterTable):
        pairs += [(statement.table, action.table) for action in statement.actions if isinstance(action, RenameTo)]
    return tuple(((a[0] or schema or "", a[1]), (b[0] or schema or "", b[1])) for a, b in pairs)


def _renames(statement: Statement) -> bool:
    if isinstance(statement, AlterTable):
        return any(
            isinstance(action, RenameTo | RenameColumn)
            or (isinstance(action, ChangeColumn) and action.old != action.column.name)
            for action in statement.actions
        )
    return isinstance(statement, RenameTables)


_NAME = r"(?:`((?:[^`]|``)+)`|([\w$\u0080-\uffff]+))"
_QUALIFIED = rf"{_NAME}(?:\s*\.\s*{_NAME})?"
_SPACE = r"(?:\s|/\*(?!!).*?\*/)"
_ABOUT_A_TABLE = re.compile(
    rf"{_SPACE}*(?:(?:ALTER|CREATE|TRUNCATE){_SPACE}+(?:[A-Z_]+{_SPACE}+){{0,3}}?TABLE{_SPACE}+"
    rf"(?:IF{_SPACE}+(?:NOT{_SPACE}+)?EXISTS{_SPACE}+)?"
    rf"|(?:CREATE|DROP){_SPACE}+(?:[A-Z_]+{_SPACE}+)?INDEX{_SPACE}+{_NAME}{_SPACE}+(?:USING{_SPACE}+\w+{_SPACE}+)?ON{_SPACE}+)"
    + _QUALIFIED,
    re.IGNORECASE | re.DOTALL,
)


def _beginning(sql: str, schema: str | None) -> tuple[Name, ...]:
    """Return the table that a statement changes whose rest cannot be read, or nothing: those that name one table."""
    match = _ABOUT_A_TABLE.match(sql)
    if match is None:
        return ()
    parts = [
        quoted.replace("``", "`") if quoted is not None else plain
        for quoted, plain in (match.groups()[i : i + 2] for i in (2, 4))
        if quoted is not None or plain is not None
    ]
    if len(parts) == 1:
        parts.insert(0, schema or "")
    return ((parts[0], parts[1]),) if all(parts) else ()
