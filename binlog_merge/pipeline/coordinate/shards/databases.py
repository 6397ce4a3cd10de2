"""The logical databases of coordinated tables: created with the first node's or the first table, dropped with
the last; and the one that is in use while a statement runs.

A statement whose text on the node leaves it to the session which database is meant leaves it to the event's here:

    USE shop_1; ALTER TABLE t_1 ADD b INT             is, with a route to shop.t,
    USE shop;   ALTER TABLE `t` ADD b INT             and not
    USE shop;   ALTER TABLE `shop`.`t` ADD b INT      which a replica's replicate-rewrite-db does not reach
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from binlog_merge.config.modes import Modes
from binlog_merge.moved_keys import DdlPlace
from binlog_merge.pipeline.coordinate.shards.ddl import Placed
from binlog_merge.pipeline.coordinate.shards.log import RanStatement, ShardLog
from snapshot_store.ddl import DdlSession
from snapshot_store.ddl.parse.statement import qualified_tables, without_schema
from snapshot_store.errors import AmbiguousRoute, SnapshotStoreError
from snapshot_store.mysql.sql.cursor import Cursor
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.topology import Topology
from snapshot_store.tso import OrderKey

_ASKS_FOR_ITS_NAME = re.compile(r"\b(?:DATABASE|SCHEMA)\s*\(", re.IGNORECASE)


class First(NamedTuple):
    """The place at which a logical database gets its first table, and the node, database and key that it comes from."""

    place: DdlPlace
    node: str
    schema: str
    key: OrderKey


def implied(log: ShardLog, firsts: Mapping[str, First], databases: Sequence[Placed]) -> Iterator[Placed]:
    """Yield CREATE DATABASE for logical databases that come with their first table.

    No database of a node is routed to these, as when tables keep their names while others are routed elsewhere.
    """
    made = {d.schema: d.place for d in reversed(databases) if d.sql.startswith("CREATE ")}
    for database, first in sorted(firsts.items()):
        if _from_the_beginning(log, database) or (database in made and made[database] <= first.place):
            continue
        at = (first.node, first.schema)
        events = [e for e in log.database_events if (e.node, e.name) == at and e.key <= first.place.key]
        value = events[-1].value if events else None
        sql = f"CREATE DATABASE {quote_name(database)}"
        if value is not None:
            sql += f" CHARACTER SET {value.charset} COLLATE {value.collation}"
        yield Placed(DdlPlace(first.place.key), database, None, sql, (first.node, first.key))


def written_in(
    log: ShardLog, modes: Modes, databases: Sequence[Placed], ddl: Placed, session: DdlSession
) -> tuple[str, str]:
    """Return the database that is in use while a statement of the output runs, and the statement's text there.

    The database is the session's, under its logical name. It is the statement's own where the session's is not in the
    output, is not known, or where nobody has run the statement; also where the node's text does not say the database,
    and routes have brought the table to another one than its session's. `databases` are all statements on logical
    databases, `session` is that in which the text is parsed.
    """
    if ddl.table is None:
        return ddl.schema, ddl.sql
    ran = None if ddl.cause is None else log.ran.get(ddl.cause)
    used = ddl.schema if ran is None else _used_database(log, modes, databases, ddl, ran)
    said = ran is not None and _says(ran, modes, ddl.schema)
    if said or (used != ddl.schema and _ASKS_FOR_ITS_NAME.search(ddl.sql)):
        return used, ddl.sql
    with suppress(SnapshotStoreError):  # applying the statement reports it
        if not _moves_between_databases(ddl.sql, session):
            return ddl.schema, without_schema(ddl.sql, session, ddl.schema)
    return used, ddl.sql


def _moves_between_databases(sql: str, session: DdlSession) -> bool:
    """Return whether a statement renames a table to another database: its text alone then tells both names, also in
    the schema history, which has no default database.
    """
    several = len({schema for schema, _ in qualified_tables(sql, session)}) > 1
    return several and Cursor.of(sql, session).at("RENAME")


def _says(ran: RanStatement, modes: Modes, schema: str) -> bool:
    """Return whether a node's statement says itself that a table is in a logical database."""
    if ran.database == "":  # there is no default to leave it to
        return True
    try:
        named = qualified_tables(ran.sql, ran.session)
        logical = [modes.topology.referenced_name(ran.node, *name) or name for name in named]
    except SnapshotStoreError:
        return True
    return any(name[0] == schema for name in logical)


def _used_database(log: ShardLog, modes: Modes, databases: Sequence[Placed], ddl: Placed, ran: RanStatement) -> str:
    if ran.database is None:
        return ddl.schema
    if not ran.database:
        return ""
    name = None
    if modes.coordinates(ran.node, ran.database):
        with suppress(AmbiguousRoute):
            name = modes.topology.logical_schema(ran.node, ran.database)
    return name if name is not None and _exists(log, databases, name, ddl.place) else ddl.schema


def _exists(log: ShardLog, databases: Sequence[Placed], name: str, place: DdlPlace) -> bool:
    """Return whether the output has a logical database at a place."""
    before = [d for d in databases if d.schema == name and d.place < place]
    last = max(before, key=lambda d: d.place, default=None)
    return _from_the_beginning(log, name) if last is None else not last.sql.startswith("DROP ")


def _from_the_beginning(log: ShardLog, name: str) -> bool:
    return name in log.schemas or bool(log.databases.get(name)) or any(schema == name for schema, _ in log.starts)


def databases_of(log: ShardLog, topology: Topology, limit: OrderKey) -> Iterator[Placed]:
    """Yield the DDL of logical databases.

    They are created with the first of the nodes' databases, dropped with the last, and altered when one of these gets
    defaults that the logical database does not have.
    """
    live = {name: set(found) for name, found in log.databases.items()}
    defaults: dict[str, tuple[str, str]] = {}
    for event in sorted((e for e in log.database_events if e.key < limit), key=lambda e: e.key):
        name = topology.logical_schema(event.node, event.name)
        if name is None:
            continue
        databases, database = live.setdefault(name, set()), (event.node, event.name)
        sql = None
        if event.value is None:
            databases.discard(database)
            there = "IF EXISTS " if event.cautious else ""
            sql = None if databases else f"DROP DATABASE {there}{quote_name(name)}"
        else:
            value = (event.value.charset, event.value.collation)
            if not databases or (database in databases and defaults.get(name) != value):
                there = "IF NOT EXISTS " if event.cautious and not databases else ""
                verb = "ALTER" if databases else "CREATE"
                sql = f"{verb} DATABASE {there}{quote_name(name)} CHARACTER SET {value[0]} COLLATE {value[1]}"
                defaults[name] = value
            databases.add(database)
        if sql is not None:
            yield Placed(DdlPlace(event.key), name, None, sql, (event.node, event.key))
