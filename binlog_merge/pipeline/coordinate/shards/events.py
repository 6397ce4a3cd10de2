"""Turns a node's DDL into events of logical tables: a shard changes, joins, leaves, moves or is emptied.

A RENAME TABLE that replaces a shard by its copy, as gh-ost and pt-online-schema-change do at the end, is a change of
the shard (`tools`). Any other table brings its own rows, and the outcome depends on the other shards (`following`).
"""

from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress

from binlog_merge.pipeline.coordinate.shards.clauses import (
    Naming,
    routed,
    steps_of,
    with_charset,
    with_names,
    without_files,
    without_rename,
)
from binlog_merge.pipeline.coordinate.shards.tools import NO_TOOLS, ToolStep
from binlog_merge.pipeline.coordinate.shards.values import (
    Empties,
    Joins,
    Leaves,
    Moves,
    Name,
    Renamed,
    Shard,
    ShardDdl,
    ShardEvent,
)
from snapshot_store.ask.alter import alter_sql
from snapshot_store.ddl.actions import RenameTo
from snapshot_store.ddl.apply.statement import DdlEffect, under_name
from snapshot_store.ddl.effects import Effects, Verb, effects_of
from snapshot_store.ddl.parse.statement import ParsedDdl, parse_statement
from snapshot_store.ddl.statements import (
    AlterTable,
    CreateTable,
    CreateTableLike,
    DropTables,
    RenameTables,
    TruncateTable,
)
from snapshot_store.errors import AmbiguousRoute, DdlNotUnderstood, SnapshotStoreError
from snapshot_store.model import Catalog, Table
from snapshot_store.mysql.sql.names import quote_name
from snapshot_store.mysql.sql.session import DdlSession
from snapshot_store.render_sql import create_sql, in_session
from snapshot_store.topology import Topology
from snapshot_store.tso import OrderKey


class NodeDdl:
    """A statement that a node ran: key, session, default database, and the catalogs before and after it.

    `tools` is what it means for the tables of tools.
    """

    def __init__(
        self,
        node: str,
        key: OrderKey,
        ddl: ParsedDdl,
        before: Catalog,
        effect: DdlEffect,
        tools: ToolStep = NO_TOOLS,
        database: str | None = None,
    ) -> None:
        self.node, self.key, self.sql, self.session = node, key, ddl.sql, ddl.session
        self.before, self.effect = before, effect
        self.tools = tools
        self.database = database
        self.statement = ddl.statement


def shard_events(ddl: NodeDdl, topology: Topology) -> Iterator[tuple[Name, ShardEvent]]:
    """Yield a statement's events, each with its logical table. Raises what `apply_ddl` raises."""
    yield from _known_now(ddl, topology)
    statement = ddl.statement
    if isinstance(statement, RenameTables) or (
        isinstance(statement, AlterTable) and any(isinstance(a, RenameTo) for a in statement.actions)
    ):
        yield from _renamed(ddl, topology)
    elif isinstance(statement, AlterTable):
        yield from _altered(ddl, topology, ddl.sql)
    elif isinstance(statement, TruncateTable):
        yield from _emptied(ddl, topology)
    else:
        yield from _come_and_gone(ddl, topology)


def _known_now(ddl: NodeDdl, topology: Topology) -> Iterator[tuple[Name, ShardEvent]]:
    """Yield the events of tables that are no tool's, and of those that no copy replaces, as this statement shows."""
    for table in ddl.tools.shown:
        name = (table.schema, table.name)
        logical = _logical(ddl, topology, name)
        if logical is not None:
            yield logical, appeared(ddl.node, ddl.key, topology, table, logical, ddl.session)
    for name in ddl.tools.decided:
        logical = _logical(ddl, topology, name)
        if logical is not None:
            yield (
                logical,
                Leaves(ddl.key, Shard(ddl.node, *name), f"DROP TABLE {_quoted(logical)}", session=ddl.session),
            )


def appeared(node: str, key: OrderKey, topology: Topology, table: Table, logical: Name, session: DdlSession) -> Joins:
    """Return the event of a table of which it is known only after its CREATE TABLE that it comes out."""
    joined = as_logical(node, topology, table, logical)
    sql = in_session(create_sql(joined, qualified=True), session)
    return Joins(key, Shard(node, table.schema, table.name), joined, sql, session)


def _was(ddl: NodeDdl, topology: Topology, name: Name) -> Name | None:
    """Return the logical table that a table belongs to before the statement."""
    return None if name in ddl.tools.before else topology.logical_name(ddl.node, *name)


def _is(ddl: NodeDdl, topology: Topology, name: Name) -> Name | None:
    """Return the logical table that a table belongs to after the statement."""
    return None if name in ddl.tools.after else topology.logical_name(ddl.node, *name)


def _logical(ddl: NodeDdl, topology: Topology, name: Name) -> Name | None:
    """Return the logical table of a table that no rename of the statement concerns."""
    return _was(ddl, topology, name) if name not in ddl.tools.after else None


def _altered(ddl: NodeDdl, topology: Topology, text: str) -> Iterator[tuple[Name, ShardEvent]]:
    name = ddl.effect.tables[0]
    logical, table = _logical(ddl, topology, name), ddl.before.get(*name)
    if logical is None or table is None or name in ddl.tools.withheld or not _can_run_there(ddl, topology):
        return
    text = with_charset(text, ddl.session, ddl.before.schemas.get(ddl.database or ""))
    sql, before = _routed(ddl, topology, text, name, logical), _as_logical(ddl, topology, table, logical)
    steps = steps_of(sql, before, ddl.session)
    elsewhere = bool(ddl.database) and _logical_database(ddl, topology) != ddl.database
    yield logical, ShardDdl(ddl.key, Shard(ddl.node, *name), sql, before, steps, ddl.session, elsewhere)


def _logical_database(ddl: NodeDdl, topology: Topology) -> str | None:
    """Return the logical name of the session's database, None if it has none."""
    with suppress(AmbiguousRoute):
        return topology.logical_schema(ddl.node, ddl.database or "")
    return None


def _can_run_there(ddl: NodeDdl, topology: Topology) -> bool:
    """Return whether the target has the rows that an ALTER TABLE takes: no file, and only tables that come out."""
    effects = _effects(ddl)
    if effects.having(Verb.FILE):
        return False
    return all(_logical(ddl, topology, other) is not None for other in effects.others(Verb.EXCHANGE))


def _emptied(ddl: NodeDdl, topology: Topology) -> Iterator[tuple[Name, ShardEvent]]:
    name = ddl.effect.tables[0]
    logical = _logical(ddl, topology, name)
    if logical is not None:
        yield logical, Empties(ddl.key, Shard(ddl.node, *name), f"TRUNCATE TABLE {_quoted(logical)}", ddl.session)


def _come_and_gone(ddl: NodeDdl, topology: Topology) -> Iterator[tuple[Name, ShardEvent]]:
    """Yield the events of CREATE TABLE, DROP TABLE and DROP DATABASE."""
    for name in ddl.effect.changed:
        logical = _logical(ddl, topology, name)
        if logical is None:
            continue
        shard, table = Shard(ddl.node, *name), ddl.effect.catalog.get(*name)
        if name in ddl.before.tables and name not in ddl.tools.withheld:
            cautious = isinstance(ddl.statement, DropTables) and ddl.statement.if_exists
            sql = f"DROP TABLE {'IF EXISTS ' * cautious}{_quoted(logical)}"
            yield logical, Leaves(ddl.key, shard, sql, session=ddl.session)
        if table is not None:
            joined = _as_logical(ddl, topology, table, logical)
            yield logical, Joins(ddl.key, shard, joined, _creation(ddl, topology, logical, table), ddl.session)


def _creation(ddl: NodeDdl, topology: Topology, logical: Name, table: Table) -> str:
    """Return the CREATE TABLE: the user's own, unless it takes its columns from a table of the node.

    A CREATE TABLE … SELECT is logged with its columns and START TRANSACTION, as its rows follow in the same
    transaction.
    """
    statement = ddl.statement
    if isinstance(statement, CreateTable) and statement.query is None and not statement.options.with_rows:
        return _routed(ddl, topology, ddl.sql, (table.schema, table.name), logical)
    if table.partitioning and table.partitioning.sql() is None:
        raise DdlNotUnderstood(ddl.sql, "the partitions of the table that it takes its shape from are not all known")
    if "UNION" in dict(table.attributes):
        raise DdlNotUnderstood(ddl.sql, "the table that it takes its shape from is a UNION of others")
    sql = in_session(create_sql(_as_logical(ddl, topology, table, logical), qualified=True), ddl.session)
    cautious = isinstance(statement, CreateTable | CreateTableLike) and statement.if_not_exists
    return sql.replace("CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ", 1) if cautious else sql


def _renamed(ddl: NodeDdl, topology: Topology) -> Iterator[tuple[Name, ShardEvent]]:
    """Yield the events of a rename: first the other actions of an ALTER TABLE, then each table's new shard."""
    before, after = ddl.before.tables, ddl.effect.catalog.tables
    if isinstance(ddl.statement, AlterTable):
        yield from _rest_of_alter(ddl, topology)
    moved = {new: old for new, old in _effects(ddl).origins.items() if old in before and new in after}
    yield from _replaced(ddl, topology)
    done = {*ddl.tools.swapped, *ddl.tools.withheld}
    moved = {new: old for new, old in moved.items() if new not in done and old not in done}
    shards = {new: old for new, old in moved.items() if _was(ddl, topology, old) == _is(ddl, topology, new)}
    rings = {name for name in shards if _in_a_ring(name, shards)}
    for name in sorted(rings):
        logical = _was(ddl, topology, name)
        if logical is not None:
            found = _swapped(ddl, topology, logical, Shard(ddl.node, *name), moved[name])
            yield from ((logical, event) for event in found)
    for new, old in _ends_first({new: old for new, old in shards.items() if new not in rings}):
        logical = _was(ddl, topology, old)
        if logical is not None:
            yield logical, Moves(ddl.key, Shard(ddl.node, *old), Shard(ddl.node, *new))
    text = _with_logical_names(ddl, topology)
    for old, new in sorted((old, new) for new, old in moved.items()):
        if new not in shards:
            event = _moved(ddl, topology, old, new, text)
            yield event.old or event.new or new, event


def _replaced(ddl: NodeDdl, topology: Topology) -> Iterator[tuple[Name, ShardEvent]]:
    """Yield the changes of shards that are replaced by their copies."""
    for name, copy in sorted(ddl.tools.swapped.items()):
        logical = _logical(ddl, topology, name)
        if logical is not None:
            before = _as_logical(ddl, topology, ddl.tools.replaced[name], logical)
            shard = Shard(ddl.node, *name)
            yield from ((logical, event) for event in _turned(ddl, topology, logical, shard, copy, before))


def _rest_of_alter(ddl: NodeDdl, topology: Topology) -> Iterator[tuple[Name, ShardEvent]]:
    """Yield the events of an ALTER TABLE apart from its rename."""
    sql = without_rename(ddl.sql, ddl.session)
    statement = parse_statement(sql, ddl.session) if sql else None
    if isinstance(statement, AlterTable) and statement.actions:
        yield from _altered(ddl, topology, sql)


def _in_a_ring(name: Name, moved: Mapping[Name, Name]) -> bool:
    """Return whether this table is one of several that only swap their names."""
    seen, at = {name}, moved[name]
    while at in moved and at not in seen:
        seen.add(at)
        at = moved[at]
    return at == name


def _ends_first(moved: Mapping[Name, Name]) -> Iterator[tuple[Name, Name]]:
    """Yield (new, old) in an order in which every new name has been given up before it is taken."""
    remaining = dict(moved)
    while remaining:
        new = next(name for name in sorted(remaining) if name not in remaining.values())
        yield new, remaining.pop(new)


def _moved(ddl: NodeDdl, topology: Topology, old: Name, new: Name, text: str) -> Renamed:
    """Return the event of a table that is renamed from one logical table to another, into one, or out of one."""
    was, now = _was(ddl, topology, old), _is(ddl, topology, new)
    shard, to, table = Shard(ddl.node, *old), Shard(ddl.node, *new), None
    instead: tuple[ShardDdl, ...] = ()
    tool = (old, new) in ddl.tools.copies
    if now is not None:
        table = _as_logical(ddl, topology, ddl.effect.catalog.tables[new], now)
        if new in ddl.before.tables:
            with nullcontext() if tool else suppress(SnapshotStoreError):
                instead = tuple(_swapped(ddl, topology, now, to, old))
    return Renamed(ddl.key, shard, to, was, now, table, instead, tool, sql=text, session=ddl.session)


def _with_logical_names(ddl: NodeDdl, topology: Topology) -> str:
    """Return a RENAME TABLE with logical names; "" for another statement, or if one of the tables has no
    logical name.
    """
    hidden = ddl.tools.before | ddl.tools.after
    names = [None if name in hidden else topology.logical_name(ddl.node, *name) for name in ddl.effect.tables]
    known = [name for name in names if name is not None]
    if not isinstance(ddl.statement, RenameTables) or len(known) < len(names):
        return ""
    return with_names(ddl.sql, ddl.session, known)


def _effects(ddl: NodeDdl) -> Effects:
    return effects_of(ddl.statement, ddl.database or "")


def _swapped(ddl: NodeDdl, topology: Topology, logical: Name, shard: Shard, origin: Name) -> Iterator[ShardDdl]:
    """Yield statements that turn the table that had a shard's name into the one that has it now."""
    before = _as_logical(ddl, topology, ddl.before.tables[(shard.schema, shard.table)], logical)
    yield from _turned(ddl, topology, logical, shard, origin, before)


def _turned(
    ddl: NodeDdl, topology: Topology, logical: Name, shard: Shard, origin: Name, before: Table
) -> Iterator[ShardDdl]:
    """Yield statements that turn a shard's table `before` into the one that has its name after the statement."""
    after = _as_logical(ddl, topology, ddl.effect.catalog.tables[(shard.schema, shard.table)], logical)
    for sql in _statements(ddl, topology, logical, before, after, origin):
        steps = steps_of(sql, before, ddl.session)
        yield ShardDdl(ddl.key, shard, sql, before, steps, ddl.session)
        before = steps[-1].after


def _statements(
    ddl: NodeDdl, topology: Topology, logical: Name, before: Table, after: Table, origin: Name
) -> tuple[str, ...]:
    """Return the statements run on the table that takes over the name, or else equivalent ones."""
    run, table = [], before
    try:
        for sql in ddl.tools.changes.get(origin, ()):
            run.append(_routed(ddl, topology, sql, origin, logical))
            table = steps_of(run[-1], table, ddl.session)[-1].after
    except SnapshotStoreError:
        table = before
    if run and table == after:
        return tuple(run)
    return tuple(in_session(" ".join(sql.split("\n")), ddl.session) for sql in alter_sql(before, after))


def as_logical(node: str, topology: Topology, table: Table, logical: Name) -> Table:
    """Return a shard's table under the logical name, with all derived names."""
    return under_name(table, logical, lambda name: topology.referenced_name(node, *name) or name)


def _as_logical(ddl: NodeDdl, topology: Topology, table: Table, logical: Name) -> Table:
    return as_logical(ddl.node, topology, table, logical)


def _routed(ddl: NodeDdl, topology: Topology, sql: str, name: Name, logical: Name) -> str:
    naming = Naming(
        *name, lambda target: topology.referenced_name(ddl.node, *target) or target, ddl.database or name[0]
    )
    return routed(without_files(sql, ddl.session)[0], *logical, ddl.session, naming)


def _quoted(name: Name) -> str:
    return ".".join(quote_name(part) for part in name)
