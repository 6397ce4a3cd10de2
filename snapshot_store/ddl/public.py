"""The package's public functions for DDL: parse a CREATE TABLE, and apply a statement to a catalog.

They also refuse what a server would refuse, unlike `snapshot_store.ddl.apply_ddl`, which is for statements that a
server has executed.
"""

from dataclasses import replace

from snapshot_store.ddl.apply import statement as applied
from snapshot_store.ddl.parse.statement import ParsedDdl
from snapshot_store.ddl.statements import CreateTable
from snapshot_store.errors import DdlNotUnderstood
from snapshot_store.model import Catalog, Schema, Table
from snapshot_store.mysql.sql.session import DEFAULT_SQL_MODE, NO_ZERO_DATE, NO_ZERO_IN_DATE, DdlSession

_SESSION = DdlSession(sql_mode=DEFAULT_SQL_MODE)
# A table keeps zero dates it was created with, and SHOW CREATE TABLE prints them; mysqldump's sql_mode accepts them.
_DUMPED = replace(_SESSION, sql_mode=DEFAULT_SQL_MODE & ~(NO_ZERO_DATE | NO_ZERO_IN_DATE))


def parse_table(create_sql: str, *, schema: str = "", session: DdlSession | None = None) -> Table:
    """Return the table that a CREATE TABLE defines, in the database it names, else in `schema`.

    Without a `session`, zero dates are accepted as defaults. Tables that foreign keys point at need not exist. Raises
    DdlNotUnderstood for anything but a CREATE TABLE with its columns written out, and what `apply_ddl` raises.
    """
    session = replace(session or _DUMPED, validate=True, foreign_key_checks=False)
    ddl = ParsedDdl.of(create_sql, session)
    statement = ddl.statement
    if not isinstance(statement, CreateTable) or statement.query is not None:
        raise DdlNotUnderstood(create_sql, "not a CREATE TABLE that lists its columns")
    name = (statement.table[0] or schema, statement.table[1])
    catalog = Catalog({name[0]: _schema(name[0], session)})
    return applied.apply_parsed(catalog, ddl, name[0]).catalog.table(*name)


def apply_ddl(catalog: Catalog, sql: str, *, schema: str | None = None, session: DdlSession | None = None) -> Catalog:
    """Return the catalog after one statement in a session whose default database is `schema`.

    If the catalog lacks the default database, it is added with the server's character set. Raises DdlNotUnderstood
    where the effect is not known for certain, DdlRejected, UnknownSchema, UnknownTable, UnknownColumn, UnknownIndex or
    AlreadyExists where a server would refuse; no other error.
    """
    session = replace(session or _SESSION, validate=True)
    if schema is not None and schema not in catalog.schemas:
        catalog = catalog.with_schema(_schema(schema, session))
    return applied.apply_ddl(catalog, sql, schema, session).catalog


def _schema(name: str, session: DdlSession) -> Schema:
    return Schema(name, session.charset_server, session.collation_server)
