"""The log of shards without markers: their tables at the beginning and all events since, the whole input of
coordination.

It grows with the nodes' DDL and is kept from run to run, so every run repeats the decisions of earlier runs and
continues from there.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from binlog_merge.binlog.query_session import SessionVariables, ddl_session
from binlog_merge.config.modes import Extract, Modes
from binlog_merge.pipeline.coordinate.histories import Applied
from binlog_merge.pipeline.coordinate.shards.ddl import Doubted
from binlog_merge.pipeline.coordinate.shards.events import NodeDdl, appeared, as_logical, shard_events
from binlog_merge.pipeline.coordinate.shards.extracted import (
    check_keys,
    check_parents,
    extended,
    keyed_sql,
    with_columns,
)
from binlog_merge.pipeline.coordinate.shards.row_findings import Swap, taken_elsewhere
from binlog_merge.pipeline.coordinate.shards.tools import (
    NO_TOOLS,
    FirstRows,
    ToolStep,
    ToolTables,
    check_is_no_sidecar,
)
from binlog_merge.pipeline.coordinate.shards.values import (
    LAST,
    WRITTEN,
    Effect,
    Finding,
    Joins,
    Leaves,
    Moves,
    Name,
    Ran,
    Renamed,
    Shard,
    ShardDdl,
    ShardEvent,
    Start,
    Step,
)
from snapshot_store.ddl.effects import Effects, Verb
from snapshot_store.ddl.parse.statement import ParsedDdl
from snapshot_store.ddl.statements import CreateSchema, DropSchema
from snapshot_store.model import Schema, Table
from snapshot_store.mysql.sql.session import DdlSession
from snapshot_store.render_sql import create_sql, in_session
from snapshot_store.tso import ORIGIN, OrderKey

_LAST_NODE = 999_999  # the greatest number in a key's text


def no_rows(node: str, name: Name, since: OrderKey) -> None:
    """Return None: the node has no rows of the table."""


@dataclass(frozen=True, slots=True)
class RanStatement:
    """A statement that a node ran, with its file, position, session variables and default database.

    `database` is "" for a session without one, None if an earlier version's notes do not say.
    """

    node: str
    key: OrderKey
    sql: str
    file: str
    position: int
    variables: SessionVariables
    database: str | None = None

    @property
    def session(self) -> DdlSession:
        """Return the session as DDL needs it."""
        return ddl_session(self.variables, self.variables.server_version or WRITTEN.server_version)


@dataclass(frozen=True, slots=True)
class DatabaseEvent:
    """A node's database is created, altered, or dropped (`value` None); `cautious`: IF NOT EXISTS, IF EXISTS."""

    key: OrderKey
    node: str
    name: str
    value: Schema | None
    cautious: bool = False


@dataclass(frozen=True, slots=True)
class Settled:
    """The state of logical tables at a key from which they can continue; `events` are the (key, shard) it includes.

    `effects` are all effects of these events.
    """

    key: OrderKey
    starts: Mapping[Name, Start]
    events: frozenset[tuple[OrderKey, Shard]]
    effects: tuple[Effect, ...]


@dataclass
class ShardLog:
    """Shards, logical tables and logical databases at the beginning, under their logical names, and all events since.

    `databases` are the nodes' databases, as (node, name), of each logical one. `taken` has (node, key, effects) of this
    run's statements that move rows other than by RENAME. `starts` are the states from which tables continue, with the
    key up to which events are included; `effects` are effects of those events that still matter. `doubted` are the
    tables that earlier runs have warned about, `tools` those of tools that change schemas online. `swaps` are the
    statements of this run that put copies in their tables' places.
    """

    members: dict[Name, dict[Shard, Table]] = field(default_factory=dict)
    logical: dict[Name, Table] = field(default_factory=dict)
    schemas: set[str] = field(default_factory=set)
    databases: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    events: list[tuple[Name, ShardEvent]] = field(default_factory=list)
    database_events: list[DatabaseEvent] = field(default_factory=list)
    tools: ToolTables = field(default_factory=ToolTables)
    starts: dict[Name, tuple[OrderKey, Start]] = field(default_factory=dict)
    effects: list[Effect] = field(default_factory=list)
    ran: dict[tuple[str, OrderKey], RanStatement] = field(default_factory=dict)
    taken: list[tuple[str, OrderKey, Effects]] = field(default_factory=list)
    doubted: Doubted = field(default_factory=dict)
    swaps: list[Swap] = field(default_factory=list)

    def before(self, key: OrderKey) -> "ShardLog":
        """Return the log with only the events below a key."""
        return ShardLog(
            self.members,
            self.logical,
            self.schemas,
            self.databases,
            [(name, event) for name, event in self.events if event.key < key],
            [event for event in self.database_events if event.key < key],
            self.tools.before(key),
            self.starts,
            self.effects,
            {place: ran for place, ran in self.ran.items() if ran.key < key},
            doubted=self.doubted,
        )

    def settled(self, settled: Iterable[Settled], floor: OrderKey) -> "ShardLog":
        """Return the log with tables that continue from a quiet state, if nothing else at its key is above `floor`.

        Of the effects before it, only those that rename or remove something are kept, for rows that still wait.
        """
        quiet = [state for state in settled if state.key._replace(node_seq=_LAST_NODE) < floor]
        starts = {name: (state.key, start) for state in quiet for name, start in state.starts.items()}
        gone = {source for state in quiet for source in state.events if source[0] <= state.key}
        events = [(name, e) for name, e in self.events if (e.key, e.shard) not in gone]
        earlier = [
            effect
            for state in quiet
            for effect in state.effects
            if (effect.renames or effect.to or effect.name or effect.gone)
            and (effect.key <= state.key or effect.key == LAST)
        ]
        needed = {(event.shard.node, event.key) for _, event in events}
        return replace(
            self,
            members={name: members for name, members in self.members.items() if name not in starts},
            events=events,
            starts={**self.starts, **starts},
            effects=[*self.effects, *earlier],
            ran={place: ran for place, ran in self.ran.items() if place in needed or ran.key >= floor},
        )

    def session(self, ran: Ran | None) -> DdlSession:
        """Return the session of a node's statement; of text that no node ran, `WRITTEN`."""
        known = None if ran is None else self.ran.get(ran)
        return WRITTEN if known is None else known.session

    def start(self, name: Name) -> tuple[OrderKey, Start]:
        """Return the state from which a table continues, and the key up to which it includes events."""
        return self.starts.get(name) or (ORIGIN, Start(self.members.get(name, {}), self.logical.get(name)))

    def names(self) -> set[Name]:
        """Return the logical tables that are coordinated here."""
        names = {*self.members, *self.starts, *(name for name, _ in self.events)}
        return names | {e.new for _, e in self.events if isinstance(e, Renamed) and e.new is not None}

    def renamed(self) -> set[Name]:
        """Return the logical tables whose shards have begun to be renamed."""
        return {e.old for _, e in self.events if isinstance(e, Renamed) and e.old is not None}

    def begin(self, node: str, tables: Iterable[Table], databases: Iterable[str], modes: Modes) -> None:
        """Add a node's tables and databases at the beginning."""
        for name in databases:
            self._database(node, name, modes)
        for table in tables:
            logical = coordinated(modes, node, table.schema, table.name)
            if logical is not None:
                shard = Shard(node, table.schema, table.name)
                self.members.setdefault(logical, {})[shard] = self._extended(
                    shard, as_logical(node, modes.topology, table, logical), modes
                )
                self._database(node, table.schema, modes)

    def join(self, node: str, tables: Iterable[Table], key: OrderKey, modes: Modes) -> None:
        """Add a node's tables that exist at a later key than the beginning."""
        for table in tables:
            logical = coordinated(modes, node, table.schema, table.name)
            if logical is not None:
                shard = Shard(node, table.schema, table.name)
                made = self._extended(shard, as_logical(node, modes.topology, table, logical), modes)
                joins = (logical, Joins(key, shard, made, create_sql(made, qualified=True), WRITTEN))
                self.events += [] if joins in self.events else [joins]

    def _database(self, node: str, name: str, modes: Modes) -> None:
        if modes.coordinates(node, name):
            logical = modes.topology.logical_schema(node, name)
            if logical is not None:
                self.databases.setdefault(logical, set()).add((node, name))

    def take(self, node: str, applied: Sequence[Applied], modes: Modes, first_rows: FirstRows = no_rows) -> None:
        """Add the statements that a node ran, in order. Raises what `apply_ddl` raises, before adding that
        statement.
        """
        known = set(self.ran)
        for statement in applied:
            ddl, effect = statement.ddl, statement.effect
            if (node, ddl.key) in known:
                continue
            self.show(node, modes, first_rows, ddl.key)
            step = NO_TOOLS
            if modes.online_ddl:
                comes_out = partial(_comes_out, modes, node)
                step = self.tools.step(
                    node, ddl.key, ddl.parsed, statement.before, effect, ddl.schema, comes_out, ddl.variables.thread_id
                )
            node_ddl = NodeDdl(node, ddl.key, ddl.parsed, statement.before, effect, step, ddl.schema)
            events = [
                (logical, self._with_columns(event, modes, ddl.session))
                for logical, event in _coordinated(shard_events(node_ddl, modes.topology), modes)
            ]
            self.events += events
            databases = [name for name in effect.changed_schemas if modes.coordinates(node, name)]
            self.database_events += [
                DatabaseEvent(ddl.key, node, name, effect.catalog.schemas.get(name), _is_cautious(ddl.parsed))
                for name in databases
            ]
            moves = any(effect.verb in (Verb.EXCHANGE, Verb.FILE) for effect in effect.effects.all)
            self.taken += [(node, ddl.key, effect.effects)] if moves else []
            if events or databases or moves or step.events:
                self.ran[node, ddl.key] = RanStatement(
                    node, ddl.key, ddl.sql, ddl.file, ddl.position, ddl.variables, ddl.schema or ""
                )
            self.tools.add(step.events)
            self.swaps += self._swaps(node, statement, step, modes)

    def _swaps(self, node: str, statement: Applied, step: ToolStep, modes: Modes) -> Iterator[Swap]:
        ddl = statement.ddl
        for name, copy in sorted(step.swapped.items()):
            logical, after = coordinated(modes, node, *name), statement.effect.catalog.get(*name)
            if logical is not None and after is not None:
                shard, before = Shard(node, *name), step.replaced[name]
                yield Swap(ddl.key, shard, logical, copy, before, after, ddl.file, ddl.position)

    def show(self, node: str, modes: Modes, first_rows: FirstRows, limit: OrderKey | None = None) -> None:
        """Add the tables that might have been a tool's, but have rows of their own before `limit`."""
        for found in self.tools.written(node, first_rows, limit):
            logical = coordinated(modes, node, *found.name)
            if logical is not None and found.table is not None and found.until is not None:
                joins = appeared(node, found.until, modes.topology, found.table, logical, WRITTEN)
                self.events.append((logical, self._with_columns(joins, modes, WRITTEN)))

    def moves(self, modes: Modes, limit: OrderKey) -> Iterator[Finding]:
        """Yield findings about rows that statements below `limit` move between tables or files."""
        for node, key, effects in self.taken:
            if key < limit:
                logical = partial(coordinated, modes, node)
                yield from taken_elsewhere(effects, node, key, logical, partial(self._shards, key=key))

    def exchanged(self, modes: Modes, node: str, key: OrderKey) -> Iterator[Name]:
        """Yield the logical tables whose rows a statement of this run exchanges."""
        for effects in (effects for of, at, effects in self.taken if (of, at) == (node, key)):
            for name in (*effects.having(Verb.EXCHANGE), *effects.others(Verb.EXCHANGE)):
                logical = coordinated(modes, node, *name)
                yield from () if logical is None else (logical,)

    def _shards(self, name: Name, key: OrderKey) -> int:
        """Return how many shards a logical table has at a key."""
        shards = set(self.start(name)[1].members)
        events = [(of, event) for of, event in self.events if event.key < key]
        for of, event in sorted(events, key=lambda pair: pair[1].key):
            if isinstance(event, Renamed):
                shards -= {event.shard} if event.old == name else set()
                shards |= {event.to} if event.new == name else set()
            elif of == name and isinstance(event, Joins):
                shards.add(event.shard)
            elif of == name and isinstance(event, Leaves | Moves):
                shards.discard(event.shard)
                shards |= {event.to} if isinstance(event, Moves) else set()
        return len(shards)

    def _with_columns(self, event: ShardEvent, modes: Modes, session: DdlSession) -> ShardEvent:
        """Return an event with the columns that the shard's route fills in."""
        if isinstance(event, Renamed):
            return self._renamed_with_columns(event, modes)
        extract = modes.extract(*event.shard)
        if extract is None:
            if isinstance(event, Joins):
                self._extended(event.shard, event.table, modes)  # which checks it
            elif isinstance(event, ShardDdl) and modes.extracts:
                check_parents(event.after, modes.key_columns)
            return event
        if isinstance(event, Joins):
            table = self._extended(event.shard, event.table, modes)
            sql = in_session(create_sql(table, qualified=True), session)
            return Joins(event.key, event.shard, table, sql, session)
        return self._ddl_with_columns(event, extract, modes) if isinstance(event, ShardDdl) else event

    def _renamed_with_columns(self, event: Renamed, modes: Modes) -> Renamed:
        extract = modes.extract(*event.to)
        if extract is None or event.table is None:
            return event
        instead = tuple(self._ddl_with_columns(ddl, extract, modes) for ddl in event.instead)
        return replace(event, table=self._extended(event.to, event.table, modes), instead=instead)

    def _ddl_with_columns(self, ddl: ShardDdl, extract: Extract, modes: Modes) -> ShardDdl:
        name = (ddl.before.schema, ddl.before.name)
        session = ddl.session or WRITTEN
        table = before = with_columns(ddl.before, extract, self._last(name, ddl.shard), modes.key_columns)
        steps = list[Step]()
        for step in ddl.steps:
            step = extended(step, table, extract, session, modes.key_columns)
            steps.append(step)
            table = step.after
        sql = keyed_sql(ddl.sql, session, before, table, extract.keys)
        return replace(ddl, sql=sql, before=before, steps=tuple(steps))

    def _last(self, name: Name, shard: Shard) -> Table | None:
        """Return a shard's table as the events so far leave it; else another's of its logical table, else that one."""
        latest: Table | None = None
        for of, event in reversed(self.events):
            if of == name and isinstance(event, ShardDdl | Joins):
                table = event.after if isinstance(event, ShardDdl) else event.table
                if event.shard == shard:
                    return table
                latest = latest or table
        return self.start(name)[1].members.get(shard) or latest or self.logical.get(name)

    def _extended(self, shard: Shard, table: Table, modes: Modes) -> Table:
        check_is_no_sidecar(shard, table)
        extract = modes.extract(*shard)
        if modes.extracts:
            check_keys(shard, (table.schema, table.name), () if extract is None else extract.keys, modes.key_columns)
        if extract is None:
            if modes.extracts:
                check_parents(table, modes.key_columns)
            return table
        return with_columns(table, extract, self._last((table.schema, table.name), shard), modes.key_columns)


def _is_cautious(ddl: ParsedDdl) -> bool:
    """Return whether a statement creates or drops a database only if it is, or is not, there."""
    match ddl.result:
        case CreateSchema(if_not_exists=cautious) | DropSchema(if_exists=cautious):
            return cautious
    return False


def _coordinated(events: Iterable[tuple[Name, ShardEvent]], modes: Modes) -> Iterator[tuple[Name, ShardEvent]]:
    """Yield the events of tables that markers do not coordinate; a rename omits the side that markers coordinate."""
    for name, event in events:
        if not isinstance(event, Renamed):
            if modes.of(*event.shard) != "marker":
                yield name, event
            continue
        was, now = modes.of(*event.shard), modes.of(*event.to)
        old, new = None if was == "marker" else event.old, None if now == "marker" else event.new
        plain = was == now and modes.extract(*event.shard) is None and modes.extract(*event.to) is None
        if old is not None or new is not None:
            yield old or new or name, replace(event, old=old, new=new, plain=plain)


def coordinated(modes: Modes, node: str, schema: str, table: str) -> Name | None:
    """Return the logical table of a shard; None if markers coordinate the table, or it has no logical table."""
    logical = modes.topology.logical_name(node, schema, table)
    return logical if logical is not None and modes.of(node, schema, table) != "marker" else None


def _comes_out(modes: Modes, node: str, name: Name) -> bool:
    """Return whether a table is coordinated here, also if it is a copy that comes out from another node."""
    return modes.topology.referenced_name(node, *name) is not None and modes.of(node, *name) != "marker"
