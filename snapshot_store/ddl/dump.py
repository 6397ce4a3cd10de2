"""Reading a dump: the text that mysqldump --no-data or SHOW CREATE TABLE prints."""

import re
from collections.abc import Iterator
from dataclasses import replace

from snapshot_store.ddl.apply.statement import apply_parsed
from snapshot_store.ddl.parse.statement import ParsedDdl
from snapshot_store.ddl.specs import ColumnSpec
from snapshot_store.ddl.statements import CreateTable
from snapshot_store.model import Catalog, Default, Schema, Table
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.lexer import expand
from snapshot_store.mysql.sql.session import DdlSession

_DATA = ("INSERT", "REPLACE", "LOAD")


def parse_dump(sql: str, default_schema: str | None = None, session: DdlSession | None = None) -> Catalog:
    """Return the catalog after a dump is run on an empty server.

    CREATE DATABASE and USE are followed; a schema that only USE names is created with the server's defaults. Rows are
    skipped. Raises what `apply_ddl` raises.
    """
    session = session or DdlSession()
    catalog = Catalog()
    for statement in split_statements(sql, session):
        words = statement.split(None, 1)
        if words[0].upper() in _DATA:
            continue
        if words[0].upper() == "USE":
            default_schema = _used(statement, session)
            continue
        parsed = ParsedDdl.of(statement, session)
        catalog = _with_schema(catalog, _schema_of(parsed, default_schema), session)
        catalog = apply_parsed(catalog, parsed, default_schema).catalog
    return catalog


def without_defaults(table: Table, shown: str, session: DdlSession) -> Table:
    """Return a table as SHOW CREATE TABLE shows it: columns without a DEFAULT there have none, not NULL.

    (Of types for which it shows no DEFAULT NULL, none is taken away.)
    """
    statement = ParsedDdl.of(shown, session).statement
    if not isinstance(statement, CreateTable):
        return table
    bare = {item.name for item in statement.items if isinstance(item, ColumnSpec) and item.default is None}
    null = Default("null")
    gone = {c.name for c in table.columns if c.name in bare and c.default == null and c.type.defaults_to_literal}
    columns = (replace(c, default=None) if c.name in gone else c for c in table.columns)
    return replace(table, columns=tuple(columns))


def _used(statement: str, session: DdlSession) -> str:
    cursor = Cursor.of(statement, session)
    cursor.expect("USE")
    name = cursor.name()
    cursor.finish()
    return name


def _schema_of(ddl: ParsedDdl, default_schema: str | None) -> str | None:
    made = ddl.statement
    return (made.table[0] or default_schema) if isinstance(made, CreateTable) else None


def _with_schema(catalog: Catalog, name: str | None, session: DdlSession) -> Catalog:
    if name is None or name in catalog.schemas:
        return catalog
    return catalog.with_schema(Schema(name, session.charset_server, session.collation_server))


_DELIMITER = re.compile(r"^[ \t]*DELIMITER[ \t]+(\S+)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)


def split_statements(sql: str, session: DdlSession) -> Iterator[str]:
    """Yield the statements of a script, with comments blanked; DELIMITER lines work as in the mysql client."""
    start, delimiter = 0, ";"
    while True:
        line = _DELIMITER.search(sql, start)
        piece = sql[start : line.start() if line else len(sql)]
        yield from _split(piece, delimiter, session)
        if line is None:
            return
        start, delimiter = line.end(), line[1]


def _split(sql: str, delimiter: str, session: DdlSession) -> Iterator[str]:
    if delimiter != ";":
        # Other delimiters separate routines and triggers, each a statement with semicolons inside.
        for piece in sql.split(delimiter):
            text = expand(piece, session)[0].strip()
            if text:
                yield text
        return
    text, semicolons = expand(sql, session)
    start = 0
    for end in [*semicolons, len(text)]:
        statement = text[start:end].strip()
        if statement:
            yield statement
        start = end + 1
