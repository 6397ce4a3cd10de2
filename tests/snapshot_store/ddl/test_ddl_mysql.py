"""Every statement of fixtures/ddl into a real MySQL and into `apply_ddl`: both hold the same, and refuse the same."""

from dataclasses import replace
from functools import partial
from typing import Any

import pymysql
import pytest

from binlog_merge.binlog.constants import EventType
from binlog_merge.binlog.events import parse_event
from binlog_merge.binlog.header import walk
from binlog_merge.binlog.query_session import session_of
from snapshot_store.ddl import apply_ddl, parse_dump
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.model import Catalog
from snapshot_store.render_sql import create_schema_sql, create_sql
from tests.mysql_server import MySqlServer
from tests.snapshot_store.ddl.ddl_corpus import FILES, CorpusStatement, statements
from tests.snapshot_store.mysql_compare import Rows, connect, our_shape, query, server_shape

pytestmark = pytest.mark.mysql


def refusal(session: Any, sql: str) -> str:
    try:
        query(session, sql)
    except pymysql.Error as error:
        return str(error)
    return ""


def differences(theirs: Rows, ours: Rows) -> str:
    """Return the rows in which two shapes differ: - as the server has them, + as we have them."""
    found = []
    for what in theirs:
        found += [f"  {what} - {row}" for row in theirs[what] if row not in ours[what]]
        found += [f"  {what} + {row}" for row in ours[what] if row not in theirs[what]]
    return "\n".join(found)


def step(catalog: Catalog, statement: CorpusStatement, refused: str) -> tuple[Catalog, str]:
    """Return our catalog after a statement, and how we disagree with the server about taking it."""
    understood = ""
    try:
        catalog = apply_ddl(catalog, statement.sql, statement.database, statement.session).catalog
    except SnapshotStoreError as error:
        understood = str(error)
    expected = bool(refused) or bool(statement.not_followed)
    if bool(understood) == expected:
        return catalog, ""
    return catalog, f"  server: {refused or 'takes it'}\n  we: {understood or 'take it'}"


@pytest.mark.parametrize("name", FILES)
def test_server_and_catalog_agree_after_every_statement(mysql_server: MySqlServer, name: str) -> None:
    session, watcher = connect(mysql_server), connect(mysql_server)
    catalog = Catalog()
    history = [catalog]
    for statement in statements(name):
        refused = refusal(session, statement.sql)
        catalog, fault = step(catalog, statement, refused)
        # While a CREATE TABLE … START TRANSACTION is open, nobody else sees its table.
        hidden = statement.sql.upper().endswith("START TRANSACTION")
        if not (fault or refused or hidden or statement.is_session_setting):
            schema = only_schema(statement, history[-1], catalog)
            fault = differences(server_shape(partial(query, watcher), schema), our_shape(catalog, schema))
        assert not fault, f"{name}.sql:{statement.line}: {statement.sql}\n{fault}"
        history = with_state(history, catalog)
    assert not differences(server_shape(partial(query, watcher)), our_shape(catalog)), name
    check_binlog(mysql_server, history)
    query(session, "SET foreign_key_checks = 0, sql_mode = '', autocommit = 1")
    check_texts(session, watcher, catalog)
    session.close()
    watcher.close()


def only_schema(statement: CorpusStatement, *catalogs: Catalog) -> str | None:
    """Return the one database that a statement may be about; None if it may be about others, or makes or drops one."""
    if any(statement.database not in catalog.schemas for catalog in catalogs):
        return None
    others = {name.lower() for catalog in catalogs for name in catalog.schemas if name != statement.database}
    return None if any(name in statement.sql.lower() for name in others) else statement.database


def with_state(history: list[Catalog], catalog: Catalog) -> list[Catalog]:
    """Return a history with one more state; equal ones in a row are one, the last of them."""
    return [*(history[:-1] if catalog == history[-1] else history), catalog]


def check_binlog(server: MySqlServer, history: list[Catalog]) -> None:
    """The server's own binlog, followed without any check, takes the catalog through the same states."""
    found = [Catalog()]
    for file in server.binlog_files():
        for event in walk(file.read_bytes(), str(file)):
            if event.type_code == EventType.QUERY_EVENT:
                written = parse_event(event)
                text, session = written.text, session_of(written)
                # No event says which engine is the default, nor that the server lacks the one that is named.
                engine = "MyISAM" if "engine_default" in text else "InnoDB"
                session = replace(session, validate="Nonsense" in text, default_storage_engine=engine)
                after = apply_ddl(found[-1], text, written.schema_text or None, session).catalog
                found = with_state(found, after)
    for ours, theirs in zip(history, found, strict=False):
        assert not differences(our_shape(ours), our_shape(theirs))
        assert ours == theirs
    assert len(history) == len(found)


def check_texts(session: Any, watcher: Any, ours: Catalog) -> None:
    """What the server shows of its tables is what we read, and what we write of ours makes the same tables again."""
    query(session, "DROP DATABASE IF EXISTS `again`")
    for schema in ours.schemas.values():
        tables = [table for table in ours.tables.values() if table.schema == schema.name]
        script = f"{create_schema_sql(schema)};\n"
        query(session, create_schema_sql(schema).replace(f"`{schema.name}`", "`again`", 1))
        for table in tables:
            quoted = ".".join("`" + name.replace("`", "``") + "`" for name in (table.schema, table.name))
            script += query(watcher, f"SHOW CREATE TABLE {quoted}")[0][1] + ";\n"
        shown = parse_dump(script, schema.name)
        assert not differences(written(our_shape(ours, schema.name)), written(our_shape(shown, schema.name))), script
        query(session, "USE `again`")
        for table in tables:
            query(session, create_sql(table))
        found = server_shape(partial(query, watcher), "again")
        wanted = server_shape(partial(query, watcher), schema.name)
        assert not differences(written(wanted, schema.name), written(found, "again"))
        query(session, "DROP DATABASE `again`")


def written(shape: Rows, schema: str = "") -> Rows:
    """Return a shape without its database's name; partitions and views are not ours to write."""
    kept = {what: rows for what, rows in shape.items() if what not in ("partitioned", "views")}
    # A foreign key names the database of the other table too, in its fourth place.
    places = {what: (0, 3) if what == "foreign keys" else (0,) for what in kept}
    return {
        what: [tuple("·" if i in places[what] and v == schema else v for i, v in enumerate(row)) for row in rows]
        for what, rows in kept.items()
    }
