"""The logical databases of coordinated tables: created with the first node's or the first table, dropped with
the last; and the one that is in use while a statement runs.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from binlog_merge.config.modes import Modes
from binlog_merge.pipeline.coordinate.shards.ddl import Placed
from binlog_merge.pipeline.coordinate.shards.log import ShardLog
from binlog_merge.places import Place
from snapshot_store.errors import AmbiguousRoute
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.topology import Topology
from snapshot_store.tso import OrderKey


class First(NamedTuple):
    """The place at which a logical database gets its first table, and the node, database and key that it comes from."""

    place: Place
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
        yield Placed(Place(first.place.key), database, None, sql, (first.node, first.key))


def used_database(log: ShardLog, modes: Modes, databases: Sequence[Placed], ddl: Placed) -> str:
    """Return the database that is in use while a statement of the output runs: the session's, under its logical name.

    It is the statement's own database where the session's is not in the output, is not known, or where nobody has run
    the statement. `databases` are all statements on logical databases.
    """
    ran = None if ddl.cause is None else log.ran.get(ddl.cause)
    if ddl.table is None or ran is None or ran.database is None:
        return ddl.schema
    if not ran.database:
        return ""
    name = None
    if modes.coordinates(ran.node, ran.database):
        with suppress(AmbiguousRoute):
            name = modes.topology.logical_schema(ran.node, ran.database)
    return name if name is not None and _exists(log, databases, name, ddl.place) else ddl.schema


def _exists(log: ShardLog, databases: Sequence[Placed], name: str, place: Place) -> bool:
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
            yield Placed(Place(event.key), name, None, sql, (event.node, event.key))
