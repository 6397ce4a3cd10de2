"""Events and DDL under another logical name: a table that is renamed is coordinated under the name it had first.

Its shards' statements are rewritten to that name (`event_under`), and the results to the name that the table has at
their place. Another table may have the first name by then (two tables that have swapped names). If a statement or a
foreign key names that other table, its name is marked so that it is not confused with this one.
"""

from collections.abc import Callable
from dataclasses import replace

from binlog_merge.pipeline.coordinate.shards.clauses import Naming, routed
from binlog_merge.pipeline.coordinate.shards.values import (
    WRITTEN,
    Decided,
    Empties,
    Event,
    Joins,
    Leaves,
    Logical,
    Name,
    Open,
    ShardDdl,
    Start,
    open_id,
)
from snapshot_store.ddl.apply.references import under_name
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.model import Table
from snapshot_store.mysql.sql.session import DdlSession

_OTHER = "\ue000"
"""Marks the name of another table that has the name under which this one is coordinated."""


def name_of(table: Table) -> Name:
    """Return a table's database and name."""
    return (table.schema, table.name)


def _names(old: Name, name: Name) -> Callable[[Name], Name]:
    """Return a function that maps the names of referenced tables when the table `old` is called `name`."""

    def called(target: Name) -> Name:
        if target == old:
            return name
        if target[1].startswith(_OTHER):
            return (target[0], target[1].removeprefix(_OTHER))
        return (name[0], _OTHER + name[1]) if target == name else target

    return called


def table_under(table: Table, name: Name) -> Table:
    """Return a table under another name, with all derived names; foreign keys on the table itself follow."""
    old = name_of(table)
    return table if old == name else under_name(table, name, _names(old, name))


def sql_under(sql: str, old: Name, name: Name, session: DdlSession | None) -> str:
    """Return a statement on one table as a statement on a table of another name; `session` is the statement's own."""
    if old == name or not sql:
        return sql
    try:
        return routed(sql, *name, session or WRITTEN, Naming(*old, _names(old, name)))
    except SnapshotStoreError:
        return sql  # it names no table


def ddl_under(ddl: ShardDdl, name: Name) -> ShardDdl:
    """Return a shard's statement for a logical table of another name."""
    old = name_of(ddl.before)
    if old == name:
        return ddl
    steps = tuple(
        replace(step, sql=sql_under(step.sql, old, name, ddl.session), after=table_under(step.after, name))
        for step in ddl.steps
    )
    sql = sql_under(ddl.sql, old, name, ddl.session)
    return replace(ddl, sql=sql, before=table_under(ddl.before, name), steps=steps)


def event_under(event: Event, old: Name, name: Name) -> Event:
    """Return an event of the logical table `old` as an event of a table called `name`."""
    if old == name:
        return event
    match event:
        case ShardDdl():
            return ddl_under(event, name)
        case Joins():
            return replace(event, table=table_under(event.table, name), sql=_sql(event, old, name))
        case Leaves() | Empties():
            return replace(event, sql=_sql(event, old, name))
        case Decided():
            return replace(event, id=id_under(event.id, name), sql=_sql(event, old, name))
        case _:
            return event


def _sql(event: Joins | Leaves | Empties | Decided, old: Name, name: Name) -> str:
    return sql_under(event.sql, old, name, event.session)


def id_under(id: str, name: Name) -> str:
    """Return the id of a coordination if its table has another name."""
    return f"{'.'.join(name)}@{id.rpartition('@')[2]}"


def open_under(waiting: Open, name: Name) -> Open:
    """Return an open coordination under the table's current name."""
    if name_of(waiting.ddl.before) == name:
        return waiting
    ddl = ddl_under(waiting.ddl, name)
    return replace(waiting, id=open_id(ddl), ddl=ddl)


def logical_under(ddl: Logical, old: Name, name: Name) -> Logical:
    """Return a logical DDL of the table `old` as one of a table called `name`."""
    if old == name:
        return ddl
    statements = tuple(sql_under(sql, old, name, ddl.session) for sql in ddl.statements)
    return replace(ddl, statements=statements, table=None if ddl.table is None else table_under(ddl.table, name))


def start_under(start: Start, name: Name) -> Start:
    """Return the state from which coordination continues, under the table's current name."""
    if start.table is not None and name_of(start.table) == name:
        return start
    return replace(
        start,
        members={shard: table_under(table, name) for shard, table in start.members.items()},
        table=None if start.table is None else table_under(start.table, name),
        created="",  # shards that are made later are not made under that name
        written=tuple(ddl_under(ddl, name) for ddl in start.written),
        behind={
            s: owing._replace(owed=tuple(ddl_under(ddl, name) for ddl in owing.owed))
            for s, owing in start.behind.items()
        },
    )
