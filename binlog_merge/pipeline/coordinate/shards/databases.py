"""Databases of coordinated tables: made with the first of the nodes', or the first table; dropped with the last."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from binlog_merge.pipeline.coordinate.shards.ddl import Placed
from binlog_merge.pipeline.coordinate.shards.log import ShardLog
from binlog_merge.places import Place
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.topology import Topology
from snapshot_store.tso import OrderKey


class First(NamedTuple):
    """Where a logical database gets its first table, by which node's database, and which of its statements."""

    place: Place
    node: str
    schema: str
    key: OrderKey


def implied(log: ShardLog, firsts: Mapping[str, First], databases: Sequence[Placed]) -> Iterator[Placed]:
    """Yield the making of logical databases that come with their first table: no database of a node goes there, as for
    tables that keep their names beside others that are routed elsewhere.
    """
    made = {d.schema: d.place for d in reversed(databases) if d.sql.startswith("CREATE ")}
    for database, first in sorted(firsts.items()):
        there = database in log.schemas or bool(log.databases.get(database))
        there = there or any(schema == database for schema, _ in log.starts)
        if there or (database in made and made[database] <= first.place):
            continue
        at = (first.node, first.schema)
        events = [e for e in log.database_events if (e.node, e.name) == at and e.key <= first.place.key]
        value = events[-1].value if events else None
        sql = f"CREATE DATABASE {quote_name(database)}"
        if value is not None:
            sql += f" CHARACTER SET {value.charset} COLLATE {value.collation}"
        yield Placed(Place(first.place.key), database, None, sql, (first.node, first.key))


def databases_of(log: ShardLog, topology: Topology, limit: OrderKey) -> Iterator[Placed]:
    """Yield the DDL of logical databases: made with the first of the nodes', dropped with the last, altered whenever
    one gets what the logical one has not.
    """
    live = {name: set(found) for name, found in log.databases.items()}
    defaults: dict[str, tuple[str, str]] = {}
    for event in sorted((e for e in log.database_events if e.key < limit), key=lambda e: e.key):
        name = topology.logical_schema(event.node, event.name)
        if name is None:
            continue
        here, one = live.setdefault(name, set()), (event.node, event.name)
        sql = None
        if event.value is None:
            here.discard(one)
            sql = None if here else f"DROP DATABASE {quote_name(name)}"
        else:
            value = (event.value.charset, event.value.collation)
            if not here or (one in here and defaults.get(name) != value):
                verb = "ALTER" if here else "CREATE"
                sql = f"{verb} DATABASE {quote_name(name)} CHARACTER SET {value[0]} COLLATE {value[1]}"
                defaults[name] = value
            here.add(one)
        if sql is not None:
            yield Placed(Place(event.key), name, None, sql, (event.node, event.key))
