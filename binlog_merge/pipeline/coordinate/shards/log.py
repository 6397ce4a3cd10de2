"""What shards without markers have been and have run since the beginning: the whole input of their coordination.

It grows with the nodes' DDL and is kept from run to run, so every run comes to the decisions that the runs before it
came to, and goes on from there.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from binlog_merge.binlog.session_variables import SessionVariables
from binlog_merge.config.extract import Extract
from binlog_merge.config.modes import Modes
from binlog_merge.pipeline.coordinate.histories import Applied
from binlog_merge.pipeline.coordinate.shards.doubted import Doubted
from binlog_merge.pipeline.coordinate.shards.events import NodeDdl, as_logical, shard_events
from binlog_merge.pipeline.coordinate.shards.routes import with_columns
from binlog_merge.pipeline.coordinate.shards.rowmoves import taken_elsewhere
from binlog_merge.pipeline.coordinate.shards.values import (
    LAST,
    Effect,
    Finding,
    Joins,
    Leaves,
    Moves,
    Name,
    Renamed,
    Shard,
    ShardDdl,
    ShardEvent,
    Start,
)
from snapshot_store.ddl.effects import Effects, Verb
from snapshot_store.model import Schema, Table
from snapshot_store.render_sql import create_sql
from snapshot_store.tso import ORIGIN, OrderKey

_LAST_NODE = 999_999  # the greatest number in a key's text
_ALTERS = ("ALTER TABLE", "CREATE INDEX", "DROP INDEX")


@dataclass(frozen=True, slots=True)
class Ran:
    """A statement as a node ran it: where it stands, and the session's variables."""

    node: str
    key: OrderKey
    sql: str
    file: str
    position: int
    variables: SessionVariables


@dataclass(frozen=True, slots=True)
class DatabaseEvent:
    """A node's database is made, altered, or dropped (`value` None)."""

    key: OrderKey
    node: str
    name: str
    value: Schema | None


@dataclass(frozen=True, slots=True)
class GhostEvent:
    """A table that is no shard is made or gone (`sql` ""), or altered: it may take a shard's place later."""

    key: OrderKey
    node: str
    name: Name
    sql: str


@dataclass(frozen=True, slots=True)
class Settled:
    """Logical tables that can go on from a key, as they were there; `events` are the key and shard of those in that.

    `effects` are all that came of them.
    """

    key: OrderKey
    starts: Mapping[Name, Start]
    events: frozenset[tuple[OrderKey, Shard]]
    effects: tuple[Effect, ...]


@dataclass
class ShardLog:
    """Shards, logical tables and logical databases at the beginning, under their logical names, and what happened then.

    `databases` are the nodes' that go into a logical one, as (node, name). `taken` is what statements of this run do
    with rows other than by RENAME: node, key, effects. `starts` are where tables go on, with the key up to which all
    that happened is in that; `effects` are those of it that still count. `doubted` are the tables of which runs before
    have warned.
    """

    members: dict[Name, dict[Shard, Table]] = field(default_factory=dict)
    logical: dict[Name, Table] = field(default_factory=dict)
    schemas: set[str] = field(default_factory=set)
    databases: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    events: list[tuple[Name, ShardEvent]] = field(default_factory=list)
    database_events: list[DatabaseEvent] = field(default_factory=list)
    ghosts: list[GhostEvent] = field(default_factory=list)
    starts: dict[Name, tuple[OrderKey, Start]] = field(default_factory=dict)
    effects: list[Effect] = field(default_factory=list)
    ran: dict[tuple[str, OrderKey], Ran] = field(default_factory=dict)
    taken: list[tuple[str, OrderKey, Effects]] = field(default_factory=list)
    doubted: Doubted = field(default_factory=dict)

    def before(self, key: OrderKey) -> "ShardLog":
        """Return what stands below a key, where the beginning is below it."""
        return ShardLog(
            self.members,
            self.logical,
            self.schemas,
            self.databases,
            [(name, event) for name, event in self.events if event.key < key],
            [event for event in self.database_events if event.key < key],
            [event for event in self.ghosts if event.key < key],
            self.starts,
            self.effects,
            {place: ran for place, ran in self.ran.items() if ran.key < key},
            doubted=self.doubted,
        )

    def settled(self, settled: Iterable[Settled], floor: OrderKey) -> "ShardLog":
        """Return the log with tables that go on where they were quiet, if nothing at that key is above `floor`.

        Of the effects that lie behind, the renames count for rows that still wait.
        """
        quiet = [one for one in settled if one.key._replace(node_seq=_LAST_NODE) < floor]
        starts = {name: (one.key, start) for one in quiet for name, start in one.starts.items()}
        gone = {source for one in quiet for source in one.events if source[0] <= one.key}
        events = [(name, e) for name, e in self.events if (e.key, e.shard) not in gone]
        behind = [
            effect
            for one in quiet
            for effect in one.effects
            if (effect.renames or effect.to or effect.name or effect.gone)
            and (effect.key <= one.key or effect.key == LAST)
        ]
        needed = {(event.shard.node, event.key) for _, event in events}
        return replace(
            self,
            members={name: members for name, members in self.members.items() if name not in starts},
            events=events,
            ghosts=[ghost for ghosts in self._ghosts().values() for ghost in ghosts],
            starts={**self.starts, **starts},
            effects=[*self.effects, *behind],
            ran={place: ran for place, ran in self.ran.items() if place in needed or ran.key >= floor},
        )

    def start(self, name: Name) -> tuple[OrderKey, Start]:
        """Return where coordination of a table begins, and the key up to which all is in that."""
        return self.starts.get(name) or (ORIGIN, Start(self.members.get(name, {}), self.logical.get(name)))

    def names(self) -> set[Name]:
        """Return the logical tables that are coordinated here."""
        found = {*self.members, *self.starts, *(name for name, _ in self.events)}
        return found | {e.new for _, e in self.events if isinstance(e, Renamed) and e.new is not None}

    def renamed(self) -> set[Name]:
        """Return the logical tables whose shards have begun to get other names."""
        return {e.old for _, e in self.events if isinstance(e, Renamed) and e.old is not None}

    def begin(self, node: str, tables: Iterable[Table], databases: Iterable[str], modes: Modes) -> None:
        """Take in what a node has at the beginning."""
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
        """Take in what a node has that comes later than the beginning."""
        for table in tables:
            logical = coordinated(modes, node, table.schema, table.name)
            if logical is not None:
                shard = Shard(node, table.schema, table.name)
                made = self._extended(shard, as_logical(node, modes.topology, table, logical), modes)
                joins = (logical, Joins(key, shard, made, create_sql(made, qualified=True)))
                self.events += [] if joins in self.events else [joins]

    def _database(self, node: str, name: str, modes: Modes) -> None:
        if modes.coordinates(node, name):
            logical = modes.topology.logical_schema(node, name)
            if logical is not None:
                self.databases.setdefault(logical, set()).add((node, name))

    def take(self, node: str, applied: Sequence[Applied], modes: Modes) -> None:
        """Take in what a node ran, in its order. Raises what `apply_ddl` raises, before it takes in that statement."""
        known = set(self.ran)
        for one in applied:
            ddl, effect = one.ddl, one.effect
            if (node, ddl.key) in known:
                continue
            changes = {name: [g.sql for g in found[1:]] for (of, name), found in self._ghosts().items() if of == node}
            node_ddl = NodeDdl(node, ddl.key, ddl.parsed, one.before, effect, changes, ddl.schema)
            events = [
                (logical, self._with_columns(event, modes))
                for logical, event in _coordinated(shard_events(node_ddl, modes.topology), modes)
            ]
            self.events += events
            databases = [name for name in effect.changed_schemas if modes.coordinates(node, name)]
            self.database_events += [
                DatabaseEvent(ddl.key, node, name, effect.catalog.schemas.get(name)) for name in databases
            ]
            moves = any(effect.verb in (Verb.EXCHANGE, Verb.FILE) for effect in effect.effects.all)
            self.taken += [(node, ddl.key, effect.effects)] if moves else []
            if events or databases or moves:
                self.ran[node, ddl.key] = Ran(node, ddl.key, ddl.sql, ddl.file, ddl.position, ddl.variables)
            self._note_ghost(node, one, modes)

    def moves(self, modes: Modes, limit: OrderKey) -> Iterator[Finding]:
        """Yield what is to be said of rows that statements below `limit` take from tables or files."""
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
        found = set(self.start(name)[1].members)
        events = [(of, event) for of, event in self.events if event.key < key]
        for of, event in sorted(events, key=lambda pair: pair[1].key):
            if isinstance(event, Renamed):
                found -= {event.shard} if event.old == name else set()
                found |= {event.to} if event.new == name else set()
            elif of == name and isinstance(event, Joins):
                found.add(event.shard)
            elif of == name and isinstance(event, Leaves | Moves):
                found.discard(event.shard)
                found |= {event.to} if isinstance(event, Moves) else set()
        return len(found)

    def _note_ghost(self, node: str, one: Applied, modes: Modes) -> None:
        """Remember what is done to tables that are no shards."""
        key, effect = one.ddl.key, one.effect
        for name in effect.changed:
            if name not in effect.catalog.tables or effect.kind == "CREATE TABLE":
                self.ghosts.append(GhostEvent(key, node, name, ""))
            elif coordinated(modes, node, *name) is None and effect.kind in _ALTERS:
                self.ghosts.append(GhostEvent(key, node, name, one.ddl.sql))

    def _ghosts(self) -> dict[tuple[str, Name], list[GhostEvent]]:
        """Return what was done to each table that is no shard since it was made last."""
        found: dict[tuple[str, Name], list[GhostEvent]] = {}
        for ghost in self.ghosts:
            if not ghost.sql:
                found[ghost.node, ghost.name] = [ghost]
            elif (ghost.node, ghost.name) in found:  # else it was there at the beginning: not all is known
                found[ghost.node, ghost.name].append(ghost)
        return found

    def _with_columns(self, event: ShardEvent, modes: Modes) -> ShardEvent:
        """Return an event with the columns that the shard's route writes."""
        if isinstance(event, Renamed):
            return self._renamed_with_columns(event, modes)
        extract = modes.extract(*event.shard)
        if extract is None:
            return event
        if isinstance(event, Joins):
            table = self._extended(event.shard, event.table, modes)
            return Joins(event.key, event.shard, table, create_sql(table, qualified=True))
        return self._ddl_with_columns(event, extract) if isinstance(event, ShardDdl) else event

    def _renamed_with_columns(self, event: Renamed, modes: Modes) -> Renamed:
        extract = modes.extract(*event.to)
        if extract is None or event.table is None:
            return event
        instead = tuple(self._ddl_with_columns(ddl, extract) for ddl in event.instead)
        return replace(event, table=self._extended(event.to, event.table, modes), instead=instead)

    def _ddl_with_columns(self, ddl: ShardDdl, extract: Extract) -> ShardDdl:
        like = self.logical.get((ddl.before.schema, ddl.before.name))
        steps = tuple(replace(step, after=with_columns(step.after, extract, like)) for step in ddl.steps)
        return ShardDdl(ddl.key, ddl.shard, ddl.sql, with_columns(ddl.before, extract, like), steps, ddl.session)

    def _extended(self, shard: Shard, table: Table, modes: Modes) -> Table:
        extract = modes.extract(*shard)
        return table if extract is None else with_columns(table, extract, self.logical.get((table.schema, table.name)))


def _coordinated(events: Iterable[tuple[Name, ShardEvent]], modes: Modes) -> Iterator[tuple[Name, ShardEvent]]:
    """Yield the events of tables that no marker coordinates; one that markers do is not seen in a rename."""
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
    """Return the logical table that a physical one is a shard of; None if markers coordinate it, or nothing does."""
    logical = modes.topology.logical_name(node, schema, table)
    return logical if logical is not None and modes.of(node, schema, table) != "marker" else None
