"""What a node's DDL means to the logical tables: a change of a shard, a shard that joins, leaves, moves or is emptied.

A RENAME TABLE that puts another table in a shard's place, as gh-ost and pt-online-schema-change do at the end, is a
change of the shard: `changes` are what was run on the other table since it was made, if that is known, and say which
columns were renamed.
"""

from collections.abc import Iterator, Mapping, Sequence

from binlog_merge.shard.clauses import Naming, routed, steps_of
from binlog_merge.shard.values import Empties, Joins, Leaves, Moves, Shard, ShardDdl, ShardEvent
from snapshot_store.ddl.actions import RenameTo
from snapshot_store.ddl.apply import DdlEffect
from snapshot_store.ddl.parse import parse_statement
from snapshot_store.ddl.references import under_name
from snapshot_store.ddl.session import DdlSession
from snapshot_store.ddl.statements import AlterTable, CreateTable, RenameTables, TruncateTable
from snapshot_store.errors import SnapshotStoreError
from snapshot_store.model import Catalog, Table
from snapshot_store.questions_alter import alter_sql
from snapshot_store.render_sql import create_sql, quote_name
from snapshot_store.topology import Topology
from snapshot_store.tso import OrderKey

Name = tuple[str, str]


class NodeDdl:
    """A statement that a node ran: where, in which session and default database, and both catalogs.

    `changes` are by the table they changed.
    """

    def __init__(
        self,
        node: str,
        key: OrderKey,
        sql: str,
        session: DdlSession,
        before: Catalog,
        effect: DdlEffect,
        changes: Mapping[Name, Sequence[str]] | None = None,
        database: str | None = None,
    ) -> None:
        self.node, self.key, self.sql, self.session = node, key, sql, session
        self.before, self.effect = before, effect
        self.changes = changes or {}
        self.database = database
        self.statement = parse_statement(sql, session)


def shard_events(ddl: NodeDdl, topology: Topology) -> Iterator[tuple[Name, ShardEvent]]:
    """Yield what a statement means, each with the logical table it concerns. Raises what `apply_ddl` raises."""
    statement = ddl.statement
    if isinstance(statement, RenameTables) or (
        isinstance(statement, AlterTable) and any(isinstance(a, RenameTo) for a in statement.actions)
    ):
        yield from _renamed(ddl, topology)
    elif isinstance(statement, AlterTable):
        yield from _altered(ddl, topology)
    elif isinstance(statement, TruncateTable):
        yield from _emptied(ddl, topology)
    else:
        yield from _come_and_gone(ddl, topology)


def _logical(ddl: NodeDdl, topology: Topology, name: Name) -> Name | None:
    return topology.logical_name(ddl.node, *name)


def _altered(ddl: NodeDdl, topology: Topology) -> Iterator[tuple[Name, ShardEvent]]:
    name = ddl.effect.tables[0]
    logical, table = _logical(ddl, topology, name), ddl.before.get(*name)
    if logical is None or table is None:
        return
    sql, before = _routed(ddl, topology, ddl.sql, name, logical), _as_logical(ddl, topology, table, logical)
    steps = steps_of(sql, before, ddl.session, ddl.before.schemas.get(ddl.database or name[0]))
    yield logical, ShardDdl(ddl.key, Shard(ddl.node, *name), sql, before, steps, ddl.session)


def _emptied(ddl: NodeDdl, topology: Topology) -> Iterator[tuple[Name, ShardEvent]]:
    name = ddl.effect.tables[0]
    logical = _logical(ddl, topology, name)
    if logical is not None:
        yield logical, Empties(ddl.key, Shard(ddl.node, *name), f"TRUNCATE TABLE {_quoted(logical)}")


def _come_and_gone(ddl: NodeDdl, topology: Topology) -> Iterator[tuple[Name, ShardEvent]]:
    """Yield what CREATE TABLE, DROP TABLE and DROP DATABASE mean."""
    for name in ddl.effect.changed:
        logical = _logical(ddl, topology, name)
        if logical is None:
            continue
        shard, table = Shard(ddl.node, *name), ddl.effect.catalog.get(*name)
        if name in ddl.before.tables:
            yield logical, Leaves(ddl.key, shard, f"DROP TABLE {_quoted(logical)}")
        if table is not None:
            joined = _as_logical(ddl, topology, table, logical)
            yield logical, Joins(ddl.key, shard, joined, _creation(ddl, topology, logical, table))


def _creation(ddl: NodeDdl, topology: Topology, logical: Name, table: Table) -> str:
    """Return the CREATE TABLE: the user's, unless it takes its columns from a table of the node.

    A CREATE TABLE … SELECT is logged with its columns and START TRANSACTION, as its rows follow in one transaction.
    """
    statement = ddl.statement
    selects = " ".join(ddl.sql.upper().split()).endswith("START TRANSACTION")
    if isinstance(statement, CreateTable) and statement.query is None and not selects:
        return _routed(ddl, topology, ddl.sql, (table.schema, table.name), logical)
    return create_sql(_as_logical(ddl, topology, table, logical), qualified=True)


def _renamed(ddl: NodeDdl, topology: Topology) -> Iterator[tuple[Name, ShardEvent]]:
    """Yield what a rename means, by which tables stand under routed names before and after it."""
    before, after = ddl.before.tables, ddl.effect.catalog.tables
    origins = _origins(ddl, after)
    moved_from = {origin: name for name, origin in origins.items() if origin != name}
    for name in sorted({*ddl.effect.tables} & before.keys()):
        logical = _logical(ddl, topology, name)
        if logical is None:
            continue
        shard, target = Shard(ddl.node, *name), moved_from.get(name)
        stays = target is not None and target not in before and _logical(ddl, topology, target) == logical
        if name in after:
            yield from _swapped(ddl, topology, logical, shard, origins.get(name, name))
        elif stays and target is not None:
            yield logical, Moves(ddl.key, shard, Shard(ddl.node, *target))
        else:
            yield logical, Leaves(ddl.key, shard, f"DROP TABLE {_quoted(logical)}")
    for name in sorted({*ddl.effect.tables} & after.keys() - before.keys()):
        logical, origin = _logical(ddl, topology, name), origins.get(name, name)
        if logical is not None and _logical(ddl, topology, origin) != logical:
            table = _as_logical(ddl, topology, after[name], logical)
            yield logical, Joins(ddl.key, Shard(ddl.node, *name), table, create_sql(table, qualified=True))


def _origins(ddl: NodeDdl, after: Mapping[Name, Table]) -> dict[Name, Name]:
    """Return under which name each of the tables that a rename speaks of stood before it."""
    statement, names = ddl.statement, ddl.effect.tables
    if isinstance(statement, AlterTable):
        return {names[-1]: names[0]}
    origins: dict[Name, Name] = {}
    for old, new in zip(names[::2], names[1::2], strict=True):
        origins[new] = origins.pop(old, old)
    return {new: old for new, old in origins.items() if new in after}


def _swapped(
    ddl: NodeDdl, topology: Topology, logical: Name, shard: Shard, origin: Name
) -> Iterator[tuple[Name, ShardEvent]]:
    before = _as_logical(ddl, topology, ddl.before.tables[(shard.schema, shard.table)], logical)
    after = _as_logical(ddl, topology, ddl.effect.catalog.tables[(shard.schema, shard.table)], logical)
    for sql in _statements(ddl, topology, logical, before, after, origin):
        steps = steps_of(sql, before, ddl.session)
        yield logical, ShardDdl(ddl.key, shard, sql, before, steps, ddl.session)
        before = steps[-1].after


def _statements(
    ddl: NodeDdl, topology: Topology, logical: Name, before: Table, after: Table, origin: Name
) -> tuple[str, ...]:
    """Return what was run on the table that takes the place, or what comes to the same."""
    run, table = [], before
    try:
        for sql in ddl.changes.get(origin, ()):
            run.append(_routed(ddl, topology, sql, origin, logical))
            table = steps_of(run[-1], table, ddl.session)[-1].after
    except SnapshotStoreError:
        table = before
    if run and table == after:
        return tuple(run)
    return tuple(" ".join(sql.split("\n")) for sql in alter_sql(before, after))


def as_logical(node: str, topology: Topology, table: Table, logical: Name) -> Table:
    """Return a shard's table under the logical name, with all names that follow from it."""
    return under_name(table, logical, lambda name: topology.logical_name(node, *name) or name)


def _as_logical(ddl: NodeDdl, topology: Topology, table: Table, logical: Name) -> Table:
    return as_logical(ddl.node, topology, table, logical)


def _routed(ddl: NodeDdl, topology: Topology, sql: str, name: Name, logical: Name) -> str:
    naming = Naming(*name, lambda target: topology.logical_name(ddl.node, *target) or target)
    return routed(sql, *logical, ddl.session, naming)


def _quoted(name: Name) -> str:
    return ".".join(quote_name(part) for part in name)
