"""Read a base from a live server: every table's definition, consistently.

If the server has LOCK INSTANCE FOR BACKUP (8.0 and later) and the user may take it (BACKUP_ADMIN), it blocks DDL while
rows go on being written. The binlog position read under the lock is then exactly that of the snapshot. Otherwise the
pass is repeated until two in a row agree, and the position remains unknown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from snapshot_store.errors import DdlNotUnderstood, SnapshotStoreError, UnknownSchema
from snapshot_store.model import Catalog, Schema, Table
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.server import ServerAddress, connect_remedy, message_of
from snapshot_store.topology import SYSTEM_SCHEMAS

PASSES = 5
_NO_SUCH_TABLE = 1146
_REFUSED = frozenset({1044, 1045, 1064, 1227, 1235})  # no privilege, or a server that does not know the statement


class ServerRefused(SnapshotStoreError):  # noqa: N818
    """The server cannot be reached or refuses the login, or its tables kept changing while they were read."""


@dataclass(frozen=True, slots=True)
class ServerSnapshot:
    """A server's tables at one time, and its binlog position then ("" and 0 if unknown)."""

    catalog: Catalog
    version: str
    file: str = ""
    position: int = 0


def introspect(address: ServerAddress, schemas: Sequence[str] = ()) -> ServerSnapshot:
    """Return all tables of a server, or of some of its schemas. Raises ServerRefused, or what `parse_dump` raises."""
    import pymysql

    try:
        connection = address.connect()
    except (pymysql.err.Error, OSError) as error:
        raise ServerRefused(
            f"{address} cannot be reached: {message_of(error)}; {connect_remedy(error, address)}"
        ) from None
    try:
        with connection.cursor() as cursor:
            return _Pass(cursor, schemas).snapshot()
    except pymysql.err.Error as error:
        raise ServerRefused(f"{address}: {error}") from None
    finally:
        connection.close()


class _Changed(Exception):  # noqa: N818
    """A table disappeared after it was listed and before it was read."""


@dataclass(frozen=True, slots=True)
class _Read:
    """The result of one pass: schemas, each table's CREATE TABLE, and each table's columns with their types."""

    schemas: tuple[Schema, ...]
    texts: Mapping[tuple[str, str], str]
    columns: Mapping[tuple[str, str], list[tuple[str, str]]]


class _Pass:
    """The queries of one session."""

    def __init__(self, cursor: Any, schemas: Sequence[str]) -> None:
        self._cursor = cursor
        self._wanted = frozenset(schemas)

    def snapshot(self) -> ServerSnapshot:
        # sql_mode and sql_quote_show_create decide how SHOW CREATE TABLE prints; the time zone does not matter.
        self._cursor.execute("SET SESSION sql_mode = '', sql_quote_show_create = 1, lock_wait_timeout = 60")
        variables = dict(self._rows("SHOW VARIABLES WHERE Variable_name IN ('version', 'character_set_server', "
                                    "'collation_server', 'default_collation_for_utf8mb4')"))  # fmt: skip
        locked = self._try("LOCK INSTANCE FOR BACKUP")
        try:
            if locked:
                read = self._read()
                file, position = self._binlog()
                return ServerSnapshot(_catalog(read, variables), variables["version"], file, position)
            return ServerSnapshot(self._agreed(variables), variables["version"])
        finally:
            if locked:
                self._cursor.execute("UNLOCK INSTANCE")

    def _rows(self, sql: str) -> list[Any]:
        self._cursor.execute(sql)
        return list(self._cursor.fetchall())

    def _try(self, sql: str) -> bool:
        import pymysql

        try:
            self._cursor.execute(sql)
        except pymysql.err.MySQLError as error:
            if error.args and error.args[0] in _REFUSED:
                return False
            raise
        return True

    def _binlog(self) -> tuple[str, int]:
        """Return the binlog position; the statement has two names, and needs a privilege."""
        for statement in ("SHOW BINARY LOG STATUS", "SHOW MASTER STATUS"):
            if self._try(statement):
                row = self._cursor.fetchone()
                return ("", 0) if row is None else (str(row[0]), int(row[1]))
        return "", 0

    def _agreed(self, variables: Mapping[str, str]) -> Catalog:
        """Return the catalog of the first pass that equals the one before, and in which both sources agree.

        The sources are information_schema and SHOW CREATE TABLE.
        """
        before = None
        odd: DdlNotUnderstood | None = None
        for _ in range(PASSES):
            try:
                now = self._read()
            except _Changed:
                before = None
                continue
            if now == before:
                try:
                    return _catalog(now, variables)
                except DdlNotUnderstood as error:
                    odd = error  # or tables that exchanged their names during both passes
            before = now
        if odd is not None:
            raise odd
        raise ServerRefused(
            f"the tables changed during each of {PASSES} passes: try again when no DDL runs, or let the user have "
            "BACKUP_ADMIN, so that DDL waits for the pass"
        )

    def _read(self) -> _Read:
        """Read all definitions once."""
        import pymysql

        rows = self._rows("SELECT schema_name, default_character_set_name, default_collation_name "
                          "FROM information_schema.schemata ORDER BY schema_name")  # fmt: skip
        schemas = [Schema(*row) for row in rows if row[0] not in SYSTEM_SCHEMAS]
        if self._wanted:
            missing = self._wanted - {schema.name for schema in schemas}
            if missing:
                raise UnknownSchema(f"the server has no schema {', '.join(sorted(missing))}")
            schemas = [schema for schema in schemas if schema.name in self._wanted]
        names = {schema.name for schema in schemas}
        columns: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for schema, name, column, kind in self._rows(
            "SELECT table_schema, table_name, column_name, data_type FROM information_schema.columns "
            "ORDER BY table_schema, table_name, ordinal_position"
        ):
            columns.setdefault((schema, name), []).append((column, kind))
        listed = self._rows("SELECT table_schema, table_name FROM information_schema.tables "
                            "WHERE table_type = 'BASE TABLE' ORDER BY table_schema, table_name")  # fmt: skip
        texts = {}
        for schema, name in listed:
            if schema not in names:
                continue
            try:
                ((_, text),) = self._rows(f"SHOW CREATE TABLE {quote_name(schema)}.{quote_name(name)}")
            except pymysql.err.ProgrammingError as error:
                if error.args and error.args[0] == _NO_SUCH_TABLE:
                    raise _Changed from None
                raise
            texts[schema, name] = text
        return _Read(tuple(schemas), texts, {name: columns.get(name, []) for name in texts})


def _catalog(read: _Read, variables: Mapping[str, str]) -> Catalog:
    from snapshot_store.ddl import DdlSession, apply_ddl
    from snapshot_store.ddl.dump import without_defaults

    version = _number(variables["version"])
    general = "utf8mb4_general_ci" if version < 80000 else "utf8mb4_0900_ai_ci"
    session = DdlSession(
        charset_server=variables["character_set_server"],
        collation_server=variables["collation_server"],
        default_collation_for_utf8mb4=variables.get("default_collation_for_utf8mb4", general),
        explicit_defaults_for_timestamp=version >= 80000,
        server_version=version,
    )
    by_name = {schema.name: schema for schema in read.schemas}
    tables: dict[tuple[str, str], Table] = {}
    for (schema, name), text in read.texts.items():
        # A catalog for each table: adding a hundred thousand tables to one would copy it as often.
        made = apply_ddl(Catalog({schema: by_name[schema]}), text, schema, session).catalog.get(schema, name)
        if made is None:
            raise DdlNotUnderstood(text, f"it does not make the table {schema}.{name} that the server shows it for")
        ours = [(column.name, column.type.name) for column in made.columns]
        theirs = [(column, _SPELLINGS.get(kind, kind)) for column, kind in read.columns[schema, name]]
        if ours != theirs:
            raise DdlNotUnderstood(text, f"its columns are read as {ours}, and information_schema has {theirs}")
        tables[schema, name] = without_defaults(made, text, session)
    return Catalog(by_name, tables)


_SPELLINGS = {"geometrycollection": "geomcollection"}  # as 5.7 has it


def _number(version: str) -> int:
    parts = [int("".join(c for c in part if c.isdigit()) or 0) for part in version.split("-")[0].split(".")[:3]]
    major, minor, patch = (*parts, 0, 0, 0)[:3]
    return major * 10000 + minor * 100 + patch
